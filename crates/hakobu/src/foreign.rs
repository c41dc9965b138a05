//! Flags of scp, rsync, cp and ssh, and operands of dd, that people's fingers type: answered with hakobu's spelling.
//!
//! Where the whole line can be put right, the right line is printed, ready to paste.

use std::ffi::{OsStr, OsString};

use crate::cli;
use hakobu_core::shell;

mod dd;
mod table;

use table::{FlagFix, ForeignFlag, find_long, find_short, find_short_of_rsync};

/// An option of ours that others have without a value.
const COMPRESS: &str = "--compress";

/// The answer to flags that other tools have and hakobu has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Flags for the default behaviour of hakobu.
    Accepted {
        /// The command line without them.
        arguments: Vec<OsString>,
        /// The meaning of the flags in hakobu.
        note: String,
    },
    /// The command cannot be run: the lines to print.
    Rejected(Vec<String>),
}

/// The answer if `hakobu copy`, `sync` or `verify` was given flags that other tools have and it has not.
/// `arguments` begin with the program's name.
pub fn check(arguments: &[OsString]) -> Option<Answer> {
    let verb = arguments.get(1).and_then(|verb| verb.to_str())?;
    let rest = &arguments[2..];
    match verb {
        "copy" => answers_to_deletion(rest).map(Answer::Rejected).or_else(|| answers(verb, rest)),
        "sync" => answers(verb, rest),
        "verify" => answers(verb, rest).filter(|answer| matches!(answer, Answer::Accepted { .. })),
        _ => None,
    }
}

/// The answers to a copy that is to delete, which is `sync`.
fn answers_to_deletion(arguments: &[OsString]) -> Option<Vec<String>> {
    let options = || arguments.iter().take_while(|argument| *argument != "--");
    let deletes = |argument: &&OsString| {
        argument.to_str().is_some_and(|text| text == "--del" || text.starts_with("--delete"))
    };
    let flag = options().find(deletes)?;
    let mut lines = vec![format!("error: {}: {}", flag.display(), table::DELETE_WORDS)];
    match answers("sync", arguments) {
        Some(Answer::Rejected(more)) => lines.extend(more),
        Some(Answer::Accepted { arguments, .. }) => {
            lines.push(format!("hint: try: {}", shell::quote_all(&arguments)));
        }
        None if arguments.iter().filter(is_place).count() >= 2 => {
            lines.push(format!("hint: try: hakobu sync {}", shell::quote_all(arguments)));
        }
        None => {}
    }
    Some(lines)
}

fn answers(verb: &str, arguments: &[OsString]) -> Option<Answer> {
    let mut scan = FlagScan::new(verb);
    scan.is_rsync = verb == "sync" || arguments.iter().any(is_of_rsync);
    let operands = dd::Operands::of(arguments);
    let mut rest = arguments.iter().peekable();
    while let Some(argument) = rest.next() {
        let next = rest.peek().map(|next| next.as_os_str());
        let took_next = match argument.to_str() {
            Some("--") => {
                scan.kept.push(argument.clone());
                scan.kept.extend(rest.cloned());
                break;
            }
            Some(text) if text.starts_with("--") => scan.long(text, next),
            Some(text) if text.len() > 1 && text.starts_with('-') => scan.short(text, next),
            _ => {
                if operands.is_none() || !dd::is_operand(argument) {
                    scan.kept.push(argument.clone());
                }
                FlagValue::Nothing
            }
        };
        match (took_next, rest.peek()) {
            (FlagValue::Own, Some(value)) => scan.kept.push((*value).clone()),
            (FlagValue::Foreign, Some(_)) => {}
            _ => continue,
        }
        rest.next();
    }
    if let Some(operands) = operands {
        scan.dd(operands);
    }
    scan.into_answer()
}

/// The kind of value that a flag takes from the next argument.
enum FlagValue {
    Nothing,
    /// It is the value of an option of our own.
    Own,
    /// It is the value of a foreign flag.
    Foreign,
}

struct FlagScan<'a> {
    verb: &'a str,
    /// Our own options: name with dashes, and whether a value follows.
    own: Vec<(String, bool)>,
    lines: Vec<String>,
    /// Accepted flags, each with its note.
    accepted: Vec<(String, &'static str)>,
    kept: Vec<OsString>,
    ssh_options: Vec<String>,
    can_be_fixed: bool,
    /// True if letters have the meaning that rsync gives them.
    is_rsync: bool,
}

/// Returns true if the argument is a group of letters that rsync accepts and scp does not, such as one with `-a`.
fn is_of_rsync(argument: &OsString) -> bool {
    let letters = argument.to_str().and_then(|text| text.strip_prefix('-')).unwrap_or("");
    letters.starts_with(['a', 'r', 'v', 'z', 'h', 'n', 'u', 'x', 'H', 'A', 'X', 'S', 'R'])
        && letters.contains('a')
        && letters.bytes().all(|letter| letter.is_ascii_alphabetic())
}

fn is_place(argument: &&OsString) -> bool {
    *argument == "-" || !argument.as_encoded_bytes().starts_with(b"-")
}

impl<'a> FlagScan<'a> {
    fn new(verb: &'a str) -> Self {
        let mut own =
            vec![("--help".to_owned(), false), ("-h".to_owned(), false), ("--color".to_owned(), true)];
        let command = cli::command();
        for option in command.find_subcommand(verb).into_iter().flat_map(|verb| verb.get_opts()) {
            if verb == "copy" && cli::OF_SYNC.contains(&option.get_id().as_str()) {
                continue;
            }
            let takes_value = option.get_action().takes_values();
            own.extend(option.get_long().map(|long| (format!("--{long}"), takes_value)));
            own.extend(option.get_short().map(|short| (format!("-{short}"), takes_value)));
        }
        let (lines, accepted, kept, ssh_options) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { verb, own, lines, accepted, kept, ssh_options, can_be_fixed: true, is_rsync: false }
    }

    fn find_short(&self, letter: char, value: Option<&str>) -> Option<ForeignFlag> {
        if self.is_rsync { find_short_of_rsync(letter, value) } else { find_short(letter, value) }
    }

    fn own(&self, name: &str) -> Option<bool> {
        self.own.iter().find(|(own, _)| own == name).map(|(_, takes_value)| *takes_value)
    }

    fn long(&mut self, text: &str, next: Option<&OsStr>) -> FlagValue {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let next = next.and_then(OsStr::to_str);
        if name == COMPRESS && value.is_none() && !next.is_some_and(is_compression) {
            // It must not swallow a source.
            let foreign = table::COMPRESS;
            self.answer(name, None, foreign.words, foreign.fix);
            return FlagValue::Nothing;
        }
        if self.own(name).is_none()
            && let Some(foreign) = find_long(self.verb, name)
        {
            let wants_next = foreign.takes_value && value.is_none();
            self.answer(name, value.or(next.filter(|_| wants_next)), foreign.words, foreign.fix);
            return if wants_next { FlagValue::Foreign } else { FlagValue::Nothing };
        }
        self.kept.push(OsString::from(text));
        match (self.own(name), value) {
            (Some(true), None) => FlagValue::Own,
            _ => FlagValue::Nothing,
        }
    }

    /// `-a`, `-avz`, `-P 22`, `-P22`, and our own among them.
    fn short(&mut self, text: &str, next: Option<&OsStr>) -> FlagValue {
        let cluster = &text[1..];
        let first = &text[..1 + cluster.chars().next().map_or(0, char::len_utf8)];
        if self.own(first) == Some(true) {
            self.kept.push(OsString::from(text));
            return if first.len() == text.len() { FlagValue::Own } else { FlagValue::Nothing };
        }
        let known = |letter: char| {
            self.own(&format!("-{letter}")).is_some() || self.find_short(letter, None).is_some()
        };
        let attached = cluster.strip_prefix(&first[1..]).filter(|rest| !rest.is_empty());
        let next = next.and_then(OsStr::to_str);
        let first_letter = cluster.chars().next().unwrap_or('-');
        if let Some(foreign) = self.find_short(first_letter, attached.or(next))
            && foreign.takes_value
        {
            self.answer(first, attached.or(next), foreign.words, foreign.fix);
            return if attached.is_some() { FlagValue::Nothing } else { FlagValue::Foreign };
        }
        if !cluster.chars().all(known) {
            self.kept.push(OsString::from(text));
            return FlagValue::Nothing;
        }
        let (mut own_letters, mut taken) = (String::new(), FlagValue::Nothing);
        for (at, letter) in cluster.char_indices() {
            let rest = &cluster[at + letter.len_utf8()..];
            // A value is the rest of this argument, or the next one.
            let value = if rest.is_empty() { next } else { Some(rest) };
            let name = format!("-{letter}");
            match self.find_short(letter, value) {
                Some(foreign) if foreign.takes_value => {
                    self.answer(&name, value, foreign.words, foreign.fix);
                    taken = if rest.is_empty() { FlagValue::Foreign } else { FlagValue::Nothing };
                    break;
                }
                Some(foreign) => self.answer(&name, None, foreign.words, foreign.fix),
                // Among rsync's letters h means sizes for people, which is what hakobu prints.
                None if letter == 'h' && cluster.len() > 1 => {}
                None => own_letters.push(letter),
            }
        }
        if !own_letters.is_empty() {
            self.kept.push(OsString::from(format!("-{own_letters}")));
        }
        taken
    }

    fn answer(&mut self, flag: &str, value: Option<&str>, words: &'static str, fix: FlagFix) {
        if fix == FlagFix::Accept {
            self.accepted.push((flag.to_owned(), words));
            return;
        }
        let value = value.unwrap_or("");
        let words = words.replace("{}", if value.is_empty() { "…" } else { value });
        self.lines.push(format!("error: {flag}: {words}"));
        match fix {
            FlagFix::Accept | FlagFix::Drop => {}
            FlagFix::Ssh(option) if !value.is_empty() || !option.contains("{}") => {
                let quoted = shell::quote(OsStr::new(value));
                self.ssh_options.push(option.replace("{}", &quoted));
            }
            FlagFix::Option(name) if !value.is_empty() => {
                self.kept.insert(0, OsString::from(format!("{name}={value}")));
            }
            FlagFix::Write(option) => self.kept.insert(0, OsString::from(option)),
            FlagFix::Cipher => self.kept.insert(0, OsString::from(format!("--cipher={}", cipher(value)))),
            _ => self.can_be_fixed = false,
        }
    }

    fn dd(&mut self, operands: dd::Operands) {
        let words = "source and target are named without if= and of=, and hakobu chooses the block size";
        self.lines.push(format!("error: {words}"));
        match operands.places() {
            Some(places) => self.kept.extend(places),
            None => {
                self.lines
                    .push("error: count=, skip= and seek=: only whole files and disks are copied".to_owned());
                self.can_be_fixed = false;
            }
        }
    }

    fn into_answer(mut self) -> Option<Answer> {
        if self.lines.is_empty() && self.accepted.is_empty() {
            return None;
        }
        let has_places = self.kept.iter().filter(is_place).count() >= 2;
        if has_places && let Some(at) = self.kept.iter().position(|word| word == "-h") {
            // So that rsync prints sizes for people.
            self.kept.remove(at);
            self.answer("-h", None, table::HUMAN.words, table::HUMAN.fix);
        }
        if self.lines.is_empty() {
            let start = ["hakobu", self.verb].map(OsString::from);
            let note = self.note();
            return Some(Answer::Accepted { arguments: start.into_iter().chain(self.kept).collect(), note });
        }
        self.lines.dedup();
        if !self.ssh_options.is_empty() {
            let ssh = format!("ssh {}", self.ssh_options.join(" "));
            self.kept.splice(0..0, [OsString::from("--ssh"), OsString::from(ssh)]);
        }
        if self.can_be_fixed && has_places {
            self.lines.push(format!("hint: try: hakobu {} {}", self.verb, shell::quote_all(&self.kept)));
        }
        Some(Answer::Rejected(self.lines))
    }

    /// Returns a note on the accepted flags, in one line: `-a -r: …; -z: …`.
    fn note(&self) -> String {
        let mut said: Vec<(Vec<&str>, &str)> = Vec::new();
        for (flag, words) in &self.accepted {
            match said.iter_mut().find(|(_, known)| known == words) {
                Some((flags, _)) if flags.contains(&flag.as_str()) => {}
                Some((flags, _)) => flags.push(flag),
                None => said.push((vec![flag], words)),
            }
        }
        said.iter()
            .map(|(flags, words)| format!("{}: {words}", flags.join(" ")))
            .collect::<Vec<_>>()
            .join("; ")
    }
}

/// Returns true if this may be meant as a value of `--compress`, valid or not: a name, with an optional level after a colon.
fn is_compression(value: &str) -> bool {
    let name = value.split_once(':').map_or(value, |(name, _)| name);
    ["auto", "none", "zstd", "lz4", "gzip", "zlib", "xz"].contains(&name)
}

/// Our name for the cipher that ssh calls `name`.
fn cipher(name: &str) -> &'static str {
    match name {
        _ if name.contains("chacha") => "chacha20-poly1305",
        _ if name.contains("aes256") => "aes-256-gcm",
        _ if name.contains("aes") => "aes-128-gcm",
        _ => "auto",
    }
}

#[cfg(test)]
#[path = "foreign/tests.rs"]
mod tests;
