//! The settings file: option values for all runs, for some hosts or for some pairs of hosts, in the style of
//! `ssh_config`.
//!
//! A line is empty, a comment that begins with `#`, or a keyword and its value. `Host PATTERN…` and
//! `Pair SOURCE TARGET` begin blocks; lines before the first block apply to all runs. If a keyword has several values,
//! the first one counts.

/// The maximum size of a settings file in bytes. Larger files are not read.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// The name for the machine on which the program runs.
pub const HERE: &str = "localhost";

/// The keywords that begin a block.
const HOST: &str = "host";
const PAIR: &str = "pair";

/// A parsed settings file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSettings {
    blocks: Vec<SettingsBlock>,
}

/// The lines that apply to the same runs, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SettingsBlock {
    scope: Scope,
    settings: Vec<HostSetting>,
}

/// The runs to which lines apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Scope {
    #[default]
    All,
    Host(Patterns),
    Pair(Patterns, Patterns),
}

/// One line of a settings file with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSetting {
    /// The keyword in its canonical spelling.
    pub keyword: &'static str,
    /// The value, without quotation marks around all of it.
    pub value: String,
    /// The line number, from 1.
    pub line: usize,
    /// The column of the value, from 1, in characters.
    pub column: usize,
}

/// The error for a settings file that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {words}")]
pub struct HostSettingsError {
    /// The line number, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The fault, and what was expected.
    pub words: String,
}

/// The hosts of a run and the pairs between which data is copied. This machine is [`HERE`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunHosts {
    /// The other hosts, or this one if there are none.
    pub hosts: Vec<String>,
    /// The source's host and the target's host, for each source.
    pub pairs: Vec<(String, String)>,
}

impl HostSettings {
    /// Parses a settings file. `known` are the valid keywords, besides those that begin blocks.
    ///
    /// # Errors
    /// The position of the first thing that cannot be parsed.
    pub fn parse(bytes: &[u8], known: &[&'static str]) -> Result<Self, HostSettingsError> {
        let mut blocks = vec![SettingsBlock::default()];
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let wrong = |(column, words)| HostSettingsError { line: index + 1, column, words };
            let Some(read) = SettingsLine::read(line).map_err(wrong)? else { continue };
            let value = || read.value().map_err(wrong);
            match &*read.keyword.to_ascii_lowercase() {
                HOST => {
                    let scope = Scope::Host(Patterns::of(&value()?));
                    blocks.push(SettingsBlock { scope, ..SettingsBlock::default() });
                }
                PAIR => {
                    let value = value()?;
                    let [source, target] = value.split_ascii_whitespace().collect::<Vec<_>>()[..] else {
                        let words =
                            "Pair: two patterns are expected, for the source's host and for the target's";
                        return Err(wrong((read.value_at, words.to_owned())));
                    };
                    let scope = Scope::Pair(Patterns::of(source), Patterns::of(target));
                    blocks.push(SettingsBlock { scope, ..SettingsBlock::default() });
                }
                keyword => match known.iter().find(|known| **known == keyword) {
                    None => return Err(wrong((read.keyword_at, unknown(read.keyword, known)))),
                    Some(keyword) => {
                        let (value, line, column) = (value()?, index + 1, read.value_at);
                        let setting = HostSetting { keyword, value, line, column };
                        blocks.last_mut().into_iter().for_each(|block| block.settings.push(setting.clone()));
                    }
                },
            }
        }
        Ok(Self { blocks })
    }

    /// Returns true if there are lines for pairs of hosts.
    pub fn has_pairs(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block.scope, Scope::Pair(..)) && !block.settings.is_empty())
    }

    /// Returns all lines with a value, in order.
    pub fn all(&self) -> impl Iterator<Item = &HostSetting> {
        self.blocks.iter().flat_map(|block| &block.settings)
    }

    /// Returns the lines that apply to a run, in order: for each keyword the first one counts.
    pub fn of<'a>(&'a self, run: &'a RunHosts) -> impl Iterator<Item = &'a HostSetting> {
        self.blocks.iter().filter(|block| block.scope.holds_for(run)).flat_map(|block| &block.settings)
    }
}

impl Scope {
    fn holds_for(&self, run: &RunHosts) -> bool {
        match self {
            Self::All => true,
            Self::Host(patterns) => run.hosts.iter().any(|host| patterns.hold_for(host)),
            Self::Pair(source, target) => {
                run.pairs.iter().any(|pair| source.hold_for(&pair.0) && target.hold_for(&pair.1))
            }
        }
    }
}

/// A line that is neither empty nor a comment.
struct SettingsLine<'a> {
    keyword: &'a str,
    keyword_at: usize,
    /// Everything after the keyword except a comment.
    rest: &'a str,
    value_at: usize,
}

/// The column of a fault, and its description.
type SettingsError = (usize, String);

impl<'a> SettingsLine<'a> {
    fn read(line: &'a [u8]) -> Result<Option<Self>, SettingsError> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = std::str::from_utf8(line).map_err(|error| {
            let before = String::from_utf8_lossy(&line[..error.valid_up_to()]).chars().count();
            (before + 1, "it is not UTF-8".to_owned())
        })?;
        let is_control = |letter: char| letter.is_control() && letter != '\t';
        if let Some(at) = text.chars().position(is_control) {
            return Err((at + 1, "a control character does not belong here".to_owned()));
        }
        let column_of = |part: &str| column(text, part);
        let trimmed = text.trim_start();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            return Ok(None);
        }
        let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
        let keyword_ends = trimmed.find(|letter| !is_of_word(letter)).unwrap_or(trimmed.len());
        let (keyword, rest) = trimmed.split_at(keyword_ends);
        if keyword.is_empty() {
            return Err((column_of(trimmed), "a keyword is expected, such as lanes, or Host".to_owned()));
        }
        let separated = rest.trim_start();
        let value = separated.strip_prefix('=').map_or(separated, str::trim_start);
        if !rest.is_empty() && value.len() == rest.len() {
            return Err((column_of(rest), "a space or = is expected behind the keyword".to_owned()));
        }
        let ends = without_comment(value).map_err(|quote| {
            (column_of(&value[quote..]), "this quotation mark has no second one".to_owned())
        })?;
        let (keyword_at, value_at) = (column_of(keyword), column_of(value));
        Ok(Some(Self { keyword, keyword_at, rest: value[..ends].trim_end(), value_at }))
    }

    /// Returns the value as written, without quotation marks around all of it.
    fn value(&self) -> Result<String, SettingsError> {
        let inner = self.rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let value = inner.filter(|inner| !inner.contains('"')).unwrap_or(self.rest);
        match value.is_empty() {
            true => Err((self.value_at, format!("a value is expected for {}", self.keyword))),
            false => Ok(value.to_owned()),
        }
    }
}

/// Returns the column at which a part of a line begins, from 1, in characters.
fn column(line: &str, part: &str) -> usize {
    let at = (part.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
    line.get(..at).map_or(0, |before| before.chars().count()) + 1
}

/// Returns the end of a value: before an unquoted `#` that follows a blank. `Err` is the position of a quotation mark
/// that is not closed.
fn without_comment(value: &str) -> Result<usize, usize> {
    let (mut quote, mut blank) = (None, true);
    for (at, letter) in value.char_indices() {
        match (quote, letter) {
            (Some((open, _)), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some((letter, at)),
            (None, '#') if blank => return Ok(at),
            (None, _) => {}
        }
        blank = letter.is_whitespace();
    }
    quote.map_or(Ok(value.len()), |(_, at)| Err(at))
}

/// Returns the message about an unknown keyword.
fn unknown(typed: &str, known: &[&'static str]) -> String {
    if typed.eq_ignore_ascii_case("include") {
        return "there is no Include here; --settings FILE takes another file".to_owned();
    }
    let plain = |word: &str| word.to_ascii_lowercase().replace(['-', '_'], "");
    let meant = plain(typed);
    let near = ["Host", "Pair"].iter().chain(known).map(|word| (distance(&meant, &plain(word)), *word)).min();
    match near.filter(|(distance, _)| *distance <= 1 + typed.len() / 4) {
        Some((_, near)) => format!("there is no keyword {typed}; did you mean {near}?"),
        None => format!("there is no keyword {typed}; hakobu settings --settings none lists those there are"),
    }
}

/// Returns the edit distance between two words. Only the first 64 bytes of `one` are considered.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<_>, Vec<_>) = (one.bytes().take(64).collect(), other.bytes().collect());
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let change = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

/// Patterns of host names with `*` and `?`: one of them must match, and none of those with a leading `!`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Patterns(Vec<String>);

impl Patterns {
    /// Parses a list separated by blanks or commas.
    fn of(list: &str) -> Self {
        let words = list.split(|letter: char| letter.is_whitespace() || letter == ',');
        Self(words.filter(|word| !word.is_empty()).map(str::to_ascii_lowercase).collect())
    }

    fn hold_for(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let mut some = false;
        for pattern in &self.0 {
            match pattern.strip_prefix('!') {
                Some(not) if matches(not.as_bytes(), host.as_bytes()) => return false,
                Some(_) => {}
                None => some |= matches(pattern.as_bytes(), host.as_bytes()),
            }
        }
        some
    }
}

/// Returns true if the pattern matches the whole name. Takes time proportional to the product of both lengths at most.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from, mut star) = (0, 0, None);
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(letter) if *letter == b'?' || *letter == name[from] => (at, from) = (at + 1, from + 1),
            _ => match star {
                // Let the last star match one more character.
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    (at, from) = (star_at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|letter| *letter == b'*')
}

#[cfg(test)]
#[path = "host_settings_tests.rs"]
mod tests;
