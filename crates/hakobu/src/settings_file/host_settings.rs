//! The settings file, in TOML: option values for all runs, for some hosts, or for some pairs of hosts.
//!
//! Keys at the top apply to all runs. Each `[[host]]` applies to the hosts that `match`, each `[[pair]]` to transfers
//! from `source` to `target`. The first section that applies and has a key counts; the keys at the top come last.

mod patterns;

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use self::patterns::Patterns;
pub(crate) use self::patterns::matches;

/// The maximum size of a settings file in bytes. Larger files are not read.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// The name for the machine on which the program runs.
pub const HERE: &str = "localhost";

/// The names of the sections.
const HOST: &str = "host";
const PAIR: &str = "pair";
/// The keys that say to which runs a section applies.
const MATCH: &str = "match";
const SOURCE: &str = "source";
const TARGET: &str = "target";

/// A parsed settings file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSettings {
    /// In the order in which they count.
    sections: Vec<SettingsSection>,
}

/// The settings of the same runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SettingsSection {
    scope: Scope,
    settings: Vec<HostSetting>,
}

/// The runs to which a section applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Scope {
    #[default]
    All,
    Host(Patterns),
    Pair(Patterns, Patterns),
}

/// A key of a settings file with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSetting {
    /// The keyword in its canonical spelling.
    pub keyword: &'static str,
    /// The value as it would be typed: `yes` or `no` for a boolean, the items of a list separated by commas.
    pub value: String,
    /// The line number, from 1.
    pub line: usize,
    /// The column of the value, from 1, in characters, behind its quotation mark.
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
    /// Parses a settings file. `known` are the keywords of settings.
    ///
    /// # Errors
    /// The position of the first thing that cannot be parsed.
    pub fn parse(bytes: &[u8], known: &[&'static str]) -> Result<Self, HostSettingsError> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            at(&valid, valid.len(), "it is not UTF-8".to_owned())
        })?;
        SettingsParser { text, known }.parse()
    }

    /// Returns true if there are settings for pairs of hosts.
    pub fn has_pairs(&self) -> bool {
        self.sections
            .iter()
            .any(|section| matches!(section.scope, Scope::Pair(..)) && !section.settings.is_empty())
    }

    /// Returns all settings.
    pub fn all(&self) -> impl Iterator<Item = &HostSetting> {
        self.sections.iter().flat_map(|section| &section.settings)
    }

    /// Returns the settings that apply to a run, in order: for each keyword the first one counts.
    pub fn of<'a>(&'a self, run: &'a RunHosts) -> impl Iterator<Item = &'a HostSetting> {
        self.sections
            .iter()
            .filter(|section| section.scope.holds_for(run))
            .flat_map(|section| &section.settings)
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

/// Converts TOML into settings, and byte offsets into lines and columns.
struct SettingsParser<'a> {
    text: &'a str,
    known: &'a [&'static str],
}

type Parsed<T> = Result<T, HostSettingsError>;
type Value<'a> = Spanned<DeValue<'a>>;

impl<'a> SettingsParser<'a> {
    fn parse(&self) -> Parsed<HostSettings> {
        let table = DeTable::parse(self.text).map_err(|error| {
            self.wrong(error.span().unwrap_or_default(), format!("{}; the file is TOML", error.message()))
        })?;
        let mut general = SettingsSection::default();
        let mut sections: Vec<(usize, SettingsSection)> = Vec::new();
        for (key, value) in in_order(table.get_ref()) {
            match &**key.get_ref() {
                name @ (HOST | PAIR) => {
                    for section in self.tables(name, value)? {
                        sections.push((section.0.start, self.section(name, section)?));
                    }
                }
                name => general.settings.push(self.setting(name, key.span(), value)?),
            }
        }
        sections.sort_by_key(|(start, _)| *start);
        let sections = sections.into_iter().map(|(_, section)| section).chain([general]).collect();
        Ok(HostSettings { sections })
    }

    /// Returns the tables of `[[name]]`.
    fn tables<'v>(&self, name: &str, value: &'v Value<'a>) -> Parsed<Vec<(Range<usize>, &'v DeTable<'a>)>> {
        let wrong =
            |value: &Value<'_>| self.wrong(value.span(), format!("write [[{name}]] above such a section"));
        let items = value.get_ref().as_array().ok_or_else(|| wrong(value))?;
        let table = |item: &'v Value<'a>| {
            item.get_ref().as_table().map(|table| (item.span(), table)).ok_or_else(|| wrong(item))
        };
        items.iter().map(table).collect()
    }

    fn section(&self, name: &str, (span, table): (Range<usize>, &DeTable<'a>)) -> Parsed<SettingsSection> {
        let (mut scope, mut settings) = ([None, None], Vec::new());
        let keys: &[&str] = if name == HOST { &[MATCH] } else { &[SOURCE, TARGET] };
        for (key, value) in in_order(table) {
            let key_name = &**key.get_ref();
            match keys.iter().position(|known| *known == key_name) {
                Some(index) => scope[index] = Some(Patterns::of(&self.patterns(key_name, value)?)),
                None => settings.push(self.setting(key_name, key.span(), value)?),
            }
        }
        let missing =
            |key: &str| self.wrong(span.clone(), format!("[[{name}]] needs {key}, such as {key} = \"nas*\""));
        let [first, second] = scope;
        let first = first.ok_or_else(|| missing(keys[0]))?;
        let scope = match name {
            HOST => Scope::Host(first),
            _ => Scope::Pair(first, second.ok_or_else(|| missing(TARGET))?),
        };
        Ok(SettingsSection { scope, settings })
    }

    /// Returns patterns of hosts: a string or a list of strings.
    fn patterns(&self, key: &str, value: &Value<'a>) -> Parsed<Vec<String>> {
        let wrong =
            || self.wrong(value.span(), format!("{key} is a pattern of host names, or a list of them"));
        let one = |value: &Value<'a>| {
            value.get_ref().as_str().filter(|text| !text.is_empty()).map(str::to_owned).ok_or_else(wrong)
        };
        match value.get_ref().as_array() {
            Some(items) if items.is_empty() => Err(wrong()),
            Some(items) => items.iter().map(one).collect(),
            None => Ok(vec![one(value)?]),
        }
    }

    fn setting(&self, name: &str, key: Range<usize>, value: &Value<'a>) -> Parsed<HostSetting> {
        let known = self.known.iter().find(|known| **known == name);
        let keyword = known.ok_or_else(|| self.wrong(key, unknown(name, self.known)))?;
        let text = text_of(value.get_ref());
        let text =
            text.filter(|text| !text.is_empty() && !text.contains(char::is_control)).ok_or_else(|| {
                let words =
                    format!("the value of {name} is a text, a number, true or false, or a list of texts");
                self.wrong(value.span(), words)
            })?;
        let quotes = self
            .text
            .get(value.span())
            .map_or(0, |raw| raw.len() - raw.trim_start_matches(['"', '\'']).len());
        let HostSettingsError { line, column, .. } =
            at(self.text, value.span().start + quotes, String::new());
        Ok(HostSetting { keyword, value: text, line, column })
    }

    fn wrong(&self, span: Range<usize>, words: String) -> HostSettingsError {
        at(self.text, span.start, words)
    }
}

/// Returns the keys of a table in the order of the file.
fn in_order<'t, 'a>(table: &'t DeTable<'a>) -> Vec<(&'t Spanned<toml::de::DeString<'a>>, &'t Value<'a>)> {
    let mut pairs: Vec<_> = table.iter().collect();
    pairs.sort_by_key(|(key, _)| key.span().start);
    pairs
}

/// Returns a value as it would be typed behind an option.
fn text_of(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Boolean(yes) => Some(if *yes { "yes" } else { "no" }.to_owned()),
        DeValue::Array(items) => {
            let items: Option<Vec<_>> = items.iter().map(|item| item.get_ref().as_str()).collect();
            items.map(|items| items.join(","))
        }
        _ => None,
    }
}

/// Returns an error with the line and column of a byte offset.
fn at(text: &str, offset: usize, words: String) -> HostSettingsError {
    let before = text.get(..offset.min(text.len())).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before[line_start..].chars().count() + 1;
    HostSettingsError { line: before.matches('\n').count() + 1, column, words }
}

/// Returns the message about an unknown keyword.
fn unknown(typed: &str, known: &[&'static str]) -> String {
    let plain = |word: &str| word.to_ascii_lowercase().replace(['-', '_'], "");
    let meant: String = plain(typed).chars().take(64).collect();
    let near = known.iter().map(|word| (strsim::levenshtein(&meant, &plain(word)), *word)).min();
    match near.filter(|(distance, _)| *distance <= 1 + meant.len() / 4) {
        Some((_, near)) => format!("there is no keyword {typed}; did you mean {near}?"),
        None => format!("there is no keyword {typed}; hakobu settings --settings none lists all keywords"),
    }
}

#[cfg(test)]
mod tests;
