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
    /// True if the option concerns object stores, and so has no effect without one.
    pub store: bool,
    /// True if the option concerns what is written to an object store.
    pub objects: bool,
}

/// All of them. Whatever `hakobu copy` has as an option can be one: it takes a line here.
pub(crate) const KEYWORDS: [Keyword; 31] = [
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
    value("endpoint", "the vendor's").of_stores(),
    value("region", "that of the profile").of_stores(),
    value("profile", "default").of_stores(),
    flag("no-sign-request").of_stores(),
    flag("request-payer").of_stores(),
    value("addressing", "auto").of_stores(),
    value("storage-class", "the store's").of_stores().of_objects().of_moving(),
    value("sse", "the bucket's").of_stores().of_objects().of_moving(),
    value("acl", "the bucket's").of_stores().of_objects().of_moving(),
    value("content-type", "by the extension").of_stores().of_objects().of_moving(),
];

const fn value(name: &'static str, default: &'static str) -> Keyword {
    Keyword {
        name,
        default,
        is_flag: false,
        login: false,
        travels: false,
        moves: false,
        agent: false,
        store: false,
        objects: false,
    }
}

const fn flag(name: &'static str) -> Keyword {
    Keyword { is_flag: true, ..value(name, "no") }
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

    const fn of_stores(self) -> Self {
        Self { store: true, ..self }
    }

    const fn of_objects(self) -> Self {
        Self { objects: true, ..self }
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
