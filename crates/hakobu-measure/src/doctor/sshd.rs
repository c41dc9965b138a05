//! Reads the limits in the configuration of this machine's ssh server. A `Match` is taken into account only for the
//! login in question, if there is one.

use hakobu_core::host::{HostFacts, LoginServer, Penalties};

use super::logins::{KnownLogin, SshLogin};
use super::system_root::SystemRoot;

const MAIN: &str = "/etc/ssh/sshd_config";
/// The maximum number of included files in total.
const INCLUDED_MAX: usize = 64;

pub(super) fn read(root: &SystemRoot<'_>, login: Option<&SshLogin>, facts: &mut HostFacts) {
    let known = login.map(|login| KnownLogin::new(root, login));
    let mut reading =
        SshdConfigParser { root, login: known.as_ref(), files_left: INCLUDED_MAX, lines: Vec::new() };
    if !reading.file(MAIN, MatchSection::ForAll { matched: false }, facts) {
        return;
    }
    let lines = reading.lines;
    let sessions = of_login(&lines, "maxsessions", facts);
    let rekey = of_login(&lines, "rekeylimit", facts);
    facts.login_server = Some(LoginServer {
        max_startups: of_server(&lines, "maxstartups").and_then(startups),
        max_startups_of_one: of_server(&lines, "persourcemaxstartups").and_then(|value| value.parse().ok()),
        penalties: of_server(&lines, "persourcepenalties").map(penalties),
        max_sessions: sessions.and_then(|(value, _)| value.parse().ok()),
        rekey_bytes: rekey.and_then(|(value, _)| bytes(value)),
        of_match: (is_of_match(sessions), is_of_match(rekey)),
    });
}

/// The logins to which lines apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchSection {
    /// All logins: at the beginning, or after `Match all`.
    ForAll { matched: bool },
    /// The logins of a `Match`. It may be unknown whether it applies to the login in question.
    ForSome { login: Option<bool> },
}

struct SshdLine {
    /// In lower case.
    keyword: String,
    value: String,
    section: MatchSection,
}

/// Returns the value for the server itself: the first one outside of any `Match`, or in a `Match all`.
fn of_server<'a>(lines: &'a [SshdLine], keyword: &str) -> Option<&'a str> {
    let holds =
        |line: &&SshdLine| line.keyword == keyword && matches!(line.section, MatchSection::ForAll { .. });
    lines.iter().find(holds).map(|line| line.value.as_str())
}

/// Returns the value for the login, and true if it is in a `Match`: the first value in a `Match` that applies,
/// otherwise the first global one.
fn of_login<'a>(lines: &'a [SshdLine], keyword: &str, facts: &mut HostFacts) -> Option<(&'a str, bool)> {
    let mut usual = None;
    for line in lines.iter().filter(|line| line.keyword == keyword) {
        match line.section {
            MatchSection::ForAll { matched: true } | MatchSection::ForSome { login: Some(true) } => {
                return Some((&line.value, true));
            }
            MatchSection::ForAll { matched: false } => usual = usual.or(Some((line.value.as_str(), false))),
            MatchSection::ForSome { login: Some(false) } => {}
            MatchSection::ForSome { login: None } => {
                facts.unread(format!("{MAIN}: a Match sets {keyword}, and for whom was not found out"));
            }
        }
    }
    usual
}

fn is_of_match(found: Option<(&str, bool)>) -> bool {
    found.is_some_and(|(_, of_match)| of_match)
}

/// A parser for a configuration and its included files.
struct SshdConfigParser<'a> {
    root: &'a SystemRoot<'a>,
    login: Option<&'a KnownLogin<'a>>,
    files_left: usize,
    lines: Vec<SshdLine>,
}

impl SshdConfigParser<'_> {
    /// Adds the lines of a file in the order in which they apply. Returns true if the file could be read.
    fn file(&mut self, path: &str, begins: MatchSection, facts: &mut HostFacts) -> bool {
        let Some(text) = self.root.text_or_note(path, facts) else { return false };
        let mut section = begins;
        for line in text.lines() {
            let line = without_comment(line.trim());
            let (keyword, value) =
                line.split_once(|c: char| c.is_whitespace() || c == '=').unwrap_or((line, ""));
            let keyword = keyword.to_ascii_lowercase();
            let value = value.trim_matches(|c: char| c.is_whitespace() || c == '=');
            match keyword.as_str() {
                "match" => section = self.section(begins, value),
                "include" => self.include(value, section, facts),
                "" => {}
                _ => {
                    let value = value.trim_matches('"').to_owned();
                    self.lines.push(SshdLine { keyword, value, section });
                }
            }
        }
        true
    }

    /// Returns the section that a `Match` begins. A `Match` ends with its file, and a `Match` in an included file
    /// cannot apply to more logins than the section that includes it.
    fn section(&self, begins: MatchSection, criteria: &str) -> MatchSection {
        if criteria.trim_matches('"').eq_ignore_ascii_case("all") {
            return match begins {
                MatchSection::ForAll { .. } => MatchSection::ForAll { matched: true },
                of_some => of_some,
            };
        }
        // Without a login in question, no `Match` applies.
        let fits = self.login.map_or(Some(false), |login| login.fits(criteria));
        let login = match (begins, fits) {
            (MatchSection::ForSome { login: Some(false) }, _) | (_, Some(false)) => Some(false),
            (MatchSection::ForSome { login: None }, _) => None,
            (_, fits) => fits,
        };
        MatchSection::ForSome { login }
    }

    fn include(&mut self, patterns: &str, section: MatchSection, facts: &mut HostFacts) {
        for pattern in patterns.split_whitespace() {
            for path in included(self.root, pattern.trim_matches('"'), facts) {
                let Some(fewer) = self.files_left.checked_sub(1) else { return };
                self.files_left = fewer;
                self.file(&path, section, facts);
            }
        }
    }
}

/// Returns a line up to a `#` that begins a word.
fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    let mut before = ' ';
    for (at, letter) in line.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            '#' if !quoted && before.is_whitespace() => return line[..at].trim_end(),
            _ => {}
        }
        before = letter;
    }
    line
}

/// Returns the files that a pattern matches. Only `*` in the last component is supported.
fn included(root: &SystemRoot<'_>, pattern: &str, facts: &mut HostFacts) -> Vec<String> {
    let whole = match pattern.starts_with('/') {
        true => pattern.to_owned(),
        false => format!("/etc/ssh/{pattern}"),
    };
    let Some((directory, name)) = whole.rsplit_once('/') else { return Vec::new() };
    match name.split_once('*') {
        None => vec![whole],
        Some((before, after)) => {
            let fits = |name: &String| {
                name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
            };
            let names = root.names_or_note(directory, facts).into_iter().filter(fits);
            names.map(|name| format!("{directory}/{name}")).collect()
        }
    }
}

/// Parses `10:30:100`, or a single number.
fn startups(value: &str) -> Option<(u32, u32, u32)> {
    let numbers: Option<Vec<u32>> = value.split(':').map(|number| number.parse().ok()).collect();
    match numbers?[..] {
        [most] => Some((most, 100, most)),
        [begin, percent, full] => Some((begin, percent, full)),
        _ => None,
    }
}

/// Parses the amount in `512M 1h`, an amount and a time. `default` and `none` set no limit on the amount.
fn bytes(value: &str) -> Option<u64> {
    let word = value.split_whitespace().next()?;
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match word[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

/// Parses `authfail:5s noauth:1s min:15s`, or `no`.
fn penalties(value: &str) -> Penalties {
    let words = || value.split_whitespace().filter_map(|word| word.split_once(':'));
    let seconds = |name: &str| words().find(|(word, _)| *word == name).and_then(|(_, time)| seconds(time));
    match value.eq_ignore_ascii_case("no") {
        true => Penalties { refused_seconds: Some(0), silent_seconds: Some(0), from_seconds: None },
        false => Penalties {
            refused_seconds: seconds("authfail"),
            silent_seconds: seconds("noauth"),
            from_seconds: seconds("min"),
        },
    }
}

/// Parses `90`, `90s` or `1m30s`, sshd's notation for times.
fn seconds(text: &str) -> Option<u32> {
    let (mut total, mut number) = (0_u32, None::<u32>);
    for letter in text.chars() {
        let unit = match letter.to_ascii_lowercase() {
            digit @ '0'..='9' => {
                let digit = digit.to_digit(10)?;
                number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(digit)?);
                continue;
            }
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        total = total.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    total.checked_add(number.unwrap_or(0)).filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests;
