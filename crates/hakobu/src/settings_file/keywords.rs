//! The options that settings files may hold.

use std::ffi::OsString;

/// An option of `hakobu copy` that settings files may hold.
pub(crate) struct Keyword {
    /// The name of the option, without its dashes.
    pub name: &'static str,
    /// The default, in words.
    pub default: &'static str,
    /// True if the value is `yes` or `no`.
    is_flag: bool,
    /// True if the option concerns the login on another host, and so has no effect without one.
    pub login: bool,
    /// True if the option concerns data sent to another host, and is refused without one.
    travels: bool,
    /// True if the option concerns copied data, and so has no effect on `hakobu verify`.
    moves: bool,
    /// True if the option concerns the agent, and so has no effect on `hakobu ls`.
    agent: bool,
}

/// All of them. Whatever `hakobu copy` has as an option can be one: it takes a line here.
pub(crate) const KEYWORDS: [Keyword; 21] = [
    value("ssh", "ssh").of_login(),
    value("agent", "found on the PATH there, else uploaded").of_login().of_agent(),
    flag("sudo").of_login().of_agent(),
    value("transport", "auto").of_travelling(),
    value("data-address", "that of the login"),
    value("data-port", "any free one"),
    value("password-file", "none"),
    value("lanes", "auto"),
    value("cipher", "auto"),
    value("compress", "auto").of_travelling().of_moving(),
    value("bwlimit", "off").of_moving(),
    value("iops-limit", "off"),
    value("source-p99", "off"),
    value("retry-for", "30s, with --detach 1h"),
    value("verify", "all that is copied, except shared blocks").of_moving(),
    value("durable", "yes").of_moving(),
    value("require", "nothing").of_moving(),
    value("preserve", "all but selinux"),
    value("allow", "nothing"),
    flag("by-name"),
    flag("nice"),
];

const fn value(name: &'static str, default: &'static str) -> Keyword {
    Keyword { name, default, is_flag: false, login: false, travels: false, moves: false, agent: false }
}

const fn flag(name: &'static str) -> Keyword {
    Keyword { name, default: "no", is_flag: true, login: false, travels: false, moves: false, agent: false }
}

impl Keyword {
    const fn of_login(self) -> Self {
        Self { login: true, ..self }
    }

    const fn of_travelling(self) -> Self {
        Self { travels: true, ..self }
    }

    /// Returns true if the option has no effect if everything is on one machine.
    pub fn is_of_another_machine(&self) -> bool {
        self.login || self.travels
    }

    const fn of_moving(self) -> Self {
        Self { moves: true, ..self }
    }

    const fn of_agent(self) -> Self {
        Self { agent: true, ..self }
    }

    /// The parser's name of the option.
    pub fn id(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Returns true if the option has an effect on this verb.
    pub fn is_for(&self, verb: &str) -> bool {
        !(self.moves && verb == "verify" || self.agent && verb == "ls")
    }

    /// Returns true if the value is `yes` or `no`.
    pub fn is_flag(&self) -> bool {
        self.is_flag
    }

    /// The option with a value, as it would be typed.
    pub fn option(&self, value: &str) -> Option<OsString> {
        match self.is_flag {
            true => (value == "yes").then(|| format!("--{}", self.name).into()),
            false => Some(format!("--{}={value}", self.name).into()),
        }
    }
}
