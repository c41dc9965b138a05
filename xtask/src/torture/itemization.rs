//! Judges the lists of changes (`--itemize`, `--log-file`, the report's deletions) by what the oracle saw at the target
//! before and after a run. The formats are those of docs/book/report.md.

use std::collections::BTreeMap;

use serde_json::Value;

use super::check::{Proof, Violation};
use super::command::path_in;
use super::generate::is_draft;
use super::model::Name;
use super::walk::{SeenEntry, SeenKind, Snapshot};

#[cfg(test)]
mod tests;

/// The actions of lists, in the words of the documents.
const ACTIONS: [&str; 7] = ["create", "update", "attributes", "directory", "link", "replace", "delete"];

/// A line of a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedChange {
    /// The action.
    pub action: String,
    /// The path in the form of [`key`]. Names that are escaped to the same text have one key.
    pub key: String,
    /// The path itself, if the list has bytes.
    pub path: Option<Name>,
}

impl ListedChange {
    /// Returns a change whose path is known as bytes.
    pub fn of_bytes(action: &str, path: Name) -> Self {
        Self { action: action.to_owned(), key: key(&path.0), path: Some(path) }
    }

    fn of_text(action: &str, text: &str) -> Self {
        let key = if text == "." { String::new() } else { unescaped(text) };
        Self { action: action.to_owned(), key, path: None }
    }

    /// Returns the change with a path below `folder` instead, or `None` if it is not there.
    pub fn below(&self, folder: &str) -> Option<Self> {
        let cut = |text: &str| match text.strip_prefix(folder)? {
            "" => Some(String::new()),
            rest => rest.strip_prefix('/').map(str::to_owned),
        };
        let path = match &self.path {
            Some(path) => {
                let rest = path.0.strip_prefix(folder.as_bytes())?;
                Some(Name(rest.strip_prefix(b"/").unwrap_or(rest).to_vec()))
            }
            None => None,
        };
        Some(Self { key: cut(&self.key)?, path, ..self.clone() })
    }

    /// Returns true if it is a change of the entry with this name.
    pub fn names(&self, name: &Name) -> bool {
        self.path.as_ref().map_or_else(|| self.key == key(&name.0), |path| path == name)
    }
}

impl std::fmt::Display for ListedChange {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} {}", self.action, Name(self.key.clone().into_bytes()))
    }
}

/// Returns a path as comparable text: bytes that are not UTF-8 as `\xff`, and everything that looks like an escape of a
/// character as that character.
fn key(path: &[u8]) -> String {
    let mut text = String::new();
    for chunk in path.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    unescaped(&text)
}

/// Returns a text with the escapes `\n`, `\r`, `\t` and `\u{…}` replaced by their characters.
fn unescaped(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let (character, length) = match rest.as_bytes().get(1) {
            Some(b'n') => (Some('\n'), 2),
            Some(b'r') => (Some('\r'), 2),
            Some(b't') => (Some('\t'), 2),
            Some(b'u') => {
                let inner = rest.strip_prefix("\\u{").and_then(|inner| inner.split_once('}'));
                let code = inner.and_then(|(digits, _)| u32::from_str_radix(digits, 16).ok());
                (code.and_then(char::from_u32), inner.map_or(0, |(digits, _)| digits.len() + 4))
            }
            _ => (None, 1),
        };
        plain.push(character.unwrap_or('\\'));
        rest = &rest[if character.is_some() { length } else { 1 }..];
    }
    plain.push_str(rest);
    plain
}

/// Returns true for characters that control a terminal or are invisible, as far as the generator makes such names.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn wrong(words: String) -> Violation {
    Violation::of_run("lists", words, Proof::Words)
}

/// Returns the change of a line: the action, padded to ten characters, a space, and the path.
fn parse(line: &str) -> Option<ListedChange> {
    let (action, path) = (line.get(..10)?.trim_end(), line.get(10..)?.strip_prefix(' ')?);
    (ACTIONS.contains(&action) && !path.is_empty()).then(|| ListedChange::of_text(action, path))
}

/// Reads the list of `--itemize`. If `strict`, nothing else may be printed.
pub fn of_lines(output: &[u8], strict: bool) -> (Vec<ListedChange>, Vec<Violation>) {
    let (mut list, mut violations) = (Vec::new(), Vec::new());
    let Ok(text) = std::str::from_utf8(output) else {
        return (list, vec![wrong("standard output is not UTF-8".to_owned())]);
    };
    for line in text.split_terminator('\n') {
        if line.chars().any(is_hidden) {
            violations.push(wrong(format!("a line has characters that are not escaped: {line:?}")));
        }
        match parse(line) {
            Some(change) => list.push(change),
            None if strict => violations.push(wrong(format!("a line is no change: {line:?}"))),
            None => {}
        }
    }
    (list, violations)
}

/// Reads the `changed` events of `--json`.
pub fn of_events(output: &[u8]) -> (Vec<ListedChange>, Vec<Violation>) {
    let (mut list, mut violations) = (Vec::new(), Vec::new());
    for line in output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice::<Value>(line) {
            Ok(event) if event["event"] == "changed" => {
                let action = event["action"].as_str().unwrap_or_default();
                if !ACTIONS.contains(&action) {
                    violations.push(wrong(format!("an event has the action {action:?}")));
                }
                list.push(ListedChange::of_bytes(action, path_in(&event)));
            }
            Ok(_) => {}
            Err(_) => violations.push(wrong(format!("an event is not JSON: {}", line.escape_ascii()))),
        }
    }
    (list, violations)
}

/// A log that was read.
#[derive(Clone, Debug, Default)]
pub struct ChangeLog {
    /// The changes.
    pub list: Vec<ListedChange>,
    /// True if it says that the run has started.
    pub has_started: bool,
    /// The text of the line `finished`, if it is the last one.
    pub finished: Option<String>,
}

/// Reads the file of `--log-file`.
pub fn of_log(bytes: &[u8]) -> (ChangeLog, Vec<Violation>) {
    let (mut log, mut violations) = (ChangeLog::default(), Vec::new());
    let Ok(text) = std::str::from_utf8(bytes) else {
        return (log, vec![wrong("the log is not UTF-8".to_owned())]);
    };
    if !text.is_empty() && !text.ends_with('\n') {
        violations.push(wrong("the last line of the log is not whole".to_owned()));
    }
    for line in text.split_terminator('\n') {
        log.finished = None;
        let (time, rest) = line.split_once(' ').unwrap_or((line, ""));
        if !is_time(time) || line.chars().any(is_hidden) {
            violations.push(wrong(format!("a line of the log is malformed: {line:?}")));
        }
        let (word, words) = (rest.get(..10).unwrap_or(rest).trim_end(), rest.get(11..).unwrap_or_default());
        match (word, parse(rest)) {
            (_, Some(change)) => log.list.push(change),
            ("started", _) => log.has_started = true,
            ("finished", _) => log.finished = Some(words.to_owned()),
            ("note" | "failed" | "difference" | "error", _) => {}
            _ => violations.push(wrong(format!("a line of the log is none of those documented: {line:?}"))),
        }
    }
    (log, violations)
}

/// Returns true for a time in UTC, as `2026-05-04T01:02:03.456Z`.
fn is_time(text: &str) -> bool {
    let form = b"0000-00-00T00:00:00.000Z";
    let fits = |(byte, model): (u8, &u8)| if *model == b'0' { byte.is_ascii_digit() } else { byte == *model };
    text.len() == form.len() && text.bytes().zip(form).all(fits)
}

/// The target before and after a run whose lists are judged.
#[derive(Clone, Copy, Debug)]
pub struct ListedTarget<'a> {
    /// Before the run.
    pub before: &'a Snapshot,
    /// After the run.
    pub after: &'a Snapshot,
    /// True if a fault or several attempts may have changed an entry more than once.
    pub is_disturbed: bool,
}

impl ListedTarget<'_> {
    fn names(&self) -> impl Iterator<Item = &Name> {
        self.before.keys().chain(self.after.keys().filter(|path| !self.before.contains_key(*path)))
    }

    /// Returns a violation for each line that reports a change which did not take place, and for repeated lines.
    pub fn untrue(&self, list: &[ListedChange]) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut counts: BTreeMap<&ListedChange, usize> = BTreeMap::new();
        for change in list {
            *counts.entry(change).or_default() += 1;
        }
        for (change, count) in counts {
            let mut names: Vec<&Name> = self.names().filter(|name| change.names(name)).collect();
            if names.is_empty() {
                // A draft of an earlier run may be listed or not.
                if !is_draft(Name(change.key.clone().into_bytes()).base()) && !self.is_disturbed {
                    violations.push(wrong(format!("{change} is listed, and no such entry was or is there")));
                }
                continue;
            }
            names.retain(|name| {
                self.took_place(&change.action, self.before.get(*name), self.after.get(*name))
            });
            if names.is_empty() {
                violations.push(wrong(format!("{change} is listed, and did not take place")));
            } else if count > names.len()
                && !self.is_disturbed
                && count > self.lines_max(&change.action, &names)
            {
                violations.push(wrong(format!("{change} is listed {count} times")));
            }
        }
        violations
    }

    /// Returns the maximum number of lines for a change of these entries. If a directory was in the place of one of a
    /// file's names, the other names are linked twice: before the directory is deleted, and after it.
    fn lines_max(&self, action: &str, names: &[&Name]) -> usize {
        let replaces_directory = |inode| {
            let is_name = |(_, new): &(&Name, &SeenEntry)| new.is_file() && new.inode == inode;
            let was_directory = |name: &Name| self.before.get(name).is_some_and(SeenEntry::is_directory);
            self.after.iter().filter(is_name).any(|(name, _)| was_directory(name))
        };
        let lines = |name: &&Name| match self.after.get(*name) {
            Some(new) if action == "link" && replaces_directory(new.inode) => 2,
            _ => 1,
        };
        names.iter().map(lines).sum()
    }

    fn took_place(&self, action: &str, old: Option<&SeenEntry>, new: Option<&SeenEntry>) -> bool {
        let is_folder = |entry: Option<&SeenEntry>| entry.is_some_and(SeenEntry::is_directory);
        let is_new_form = match (old, new) {
            (Some(old), Some(new)) => form(old) != form(new),
            (old, new) => old.is_some() != new.is_some(),
        };
        // Where inode numbers may lie, a name can be linked again to the file that it already had. Change times in whole seconds
        // may not show that.
        let is_relinked = |old: &SeenEntry, new: &SeenEntry| {
            let is_other = old.links != new.links || is_touched(old, new);
            new.is_file() && (old.inode != new.inode || new.links > 1 && is_other)
        };
        if self.is_disturbed && action != "delete" {
            // An earlier attempt may have created what a later one updates.
            return match (old, new) {
                (Some(old), Some(new)) => is_touched(old, new) || action == "link" && is_relinked(old, new),
                (None, new) => new.is_some(),
                // Created by one attempt and deleted by another, or deleted after it was updated.
                (Some(_), None) => true,
            };
        }
        match action {
            "create" => new.is_some() && !is_folder(new) && is_new_form,
            "directory" => is_folder(new) && old.is_none_or(SeenEntry::may_vanish),
            "replace" => is_folder(new) && is_new_form && old.is_some(),
            "link" => match (old, new) {
                (Some(old), Some(new)) => is_relinked(old, new),
                (_, new) => new.is_some_and(SeenEntry::is_file),
            },
            "delete" => old.is_some() && is_new_form || self.is_disturbed && new.is_none(),
            // Content that another name of the file has received shows under this one too.
            "attributes" => old.zip(new).is_some_and(|(old, new)| {
                (old.kind == new.kind || new.is_file() && new.links > 1) && is_touched(old, new)
            }),
            // An entry that replaces one of another kind is new or updated.
            _ => old.zip(new).is_some_and(|(old, new)| is_touched(old, new)),
        }
    }

    /// Returns a violation for each change that took place and is not listed. `deletions_only` is for lists of these.
    pub fn unlisted(&self, list: &[ListedChange], deletions_only: bool) -> Vec<Violation> {
        let is_listed = |name: &Name, is_deletion: bool| {
            list.iter().any(|change| (change.action == "delete") == is_deletion && change.names(name))
        };
        let mut violations = Vec::new();
        let mut say = |name: &Name, words: &str| {
            violations.push(Violation::at("lists", name, words, Proof::Words));
        };
        for name in self.names().filter(|name| !is_draft(name.base())) {
            match (self.before.get(name), self.after.get(name)) {
                (Some(_), None) if !is_listed(name, true) => say(name, "it was deleted, and is not listed"),
                (None, Some(_)) if !deletions_only && !is_listed(name, false) => {
                    say(name, "it was created, and is not listed");
                }
                (Some(old), Some(new)) if !deletions_only && is_changed(old, new) => {
                    // A change of one name of a file shows under its other names too.
                    let shares = |own: &SeenEntry, tree: &Snapshot, other: &Name| {
                        own.links > 1
                            && own.is_file()
                            && tree.get(other).is_some_and(|its| its.inode == own.inode)
                    };
                    let is_one =
                        |other: &&Name| shares(new, self.after, other) || shares(old, self.before, other);
                    let mut others = self.names().filter(is_one);
                    if !is_listed(name, false) && !others.any(|other| is_listed(other, false)) {
                        say(name, "it was changed, and is not listed");
                    }
                }
                _ => {}
            }
        }
        violations
    }
}

/// Returns a number for the form of an entry, whatever its content.
fn form(entry: &SeenEntry) -> u8 {
    match entry.kind {
        SeenKind::Directory => 0,
        SeenKind::File { .. } => 1,
        SeenKind::Link(_) => 2,
        SeenKind::Pipe => 3,
        SeenKind::Character(_) => 4,
        SeenKind::Block(_) => 5,
        SeenKind::Socket => 6,
    }
}

/// Returns true if something has reached an entry. Any change updates the change time, and no program can set it.
fn is_touched(old: &SeenEntry, new: &SeenEntry) -> bool {
    old.inode != new.inode || old.ctime != new.ctime || is_changed(old, new)
}

/// Returns true if an entry is another one than before. A directory's time changes by itself, and is not listed.
fn is_changed(old: &SeenEntry, new: &SeenEntry) -> bool {
    let is_link = matches!(new.kind, SeenKind::Link(_));
    let is_folder = new.is_directory();
    // An object does not change when the last other name of its file is removed, but has a number of its own then.
    let is_one_upload = old.stored.is_some() && new.stored.is_some() && old.ctime == new.ctime;
    old.kind != new.kind
        || old.mode != new.mode && !is_link
        || old.owner != new.owner
        || old.xattrs != new.xattrs
        || !is_folder && (old.mtime != new.mtime || old.inode != new.inode && !is_one_upload)
}
