//! The groups that a control plane serves over NATS, from options and from a file in TOML with a section for each group.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hakobu_core::error::{Error, ErrorKind, Result};
use toml::de::{DeTable, DeValue};

use super::leader::NatsGroup;
use super::settings::NatsOptions;
use crate::names::GroupName;

/// The operation that errors name.
const READING: &str = "reading the file of groups";
/// The keys of a section.
const KEYS: &str = "servers, user, password-file, ca, certificate, key, replicas";
/// The numbers of servers that can keep a stream.
const REPLICAS: [usize; 3] = [1, 3, 5];

/// Returns the groups: those that are named, with the common options, and those of a file, whose options come first.
///
/// # Errors
/// `Usage` for wrong values, a group that is named twice, and if there is none; those of the files.
pub fn groups(
    common: &NatsOptions,
    (names, replicas): (&[String], Option<usize>),
    file: Option<&Path>,
) -> Result<Vec<NatsGroup>> {
    let mut all: BTreeMap<GroupName, NatsGroup> = BTreeMap::new();
    let mut add = |name: &str, options: &NatsOptions, replicas: Option<usize>| {
        let name = GroupName::new(name)?;
        if let Some(wrong) = replicas.filter(|number| !REPLICAS.contains(number)) {
            return Err(wrong_file(format!("{wrong} servers cannot keep a stream: 1, 3 and 5 are possible")));
        }
        let settings = options.check().map_err(|error| within(error, &name))?;
        match all.insert(name.clone(), NatsGroup { name: name.clone(), settings, replicas }) {
            Some(_) => Err(wrong_file(format!("the group {name} is named twice"))),
            None => Ok(()),
        }
    };
    for name in names {
        add(name, common, replicas)?;
    }
    if let Some(path) = file {
        let text = std::fs::read_to_string(path).map_err(|error| Error::io(READING, &error));
        let read = text.and_then(|text| sections(&text, path.parent().unwrap_or(Path::new("")), common));
        for (name, options, own) in read.map_err(|error| at(error, path))? {
            add(&name, &options, own.or(replicas)).map_err(|error| at(error, path))?;
        }
    }
    match all.is_empty() {
        true => Err(wrong_file("no group of brokers is named: name one, or a file with their credentials")),
        false => Ok(all.into_values().collect()),
    }
}

type GroupSection = (String, NatsOptions, Option<usize>);

fn sections(text: &str, folder: &Path, common: &NatsOptions) -> Result<Vec<GroupSection>> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        wrong_file(format!("line {line}: {}; the file is TOML", error.message()))
    })?;
    let mut found = Vec::new();
    for (name, section) in table.get_ref() {
        let line = line_of(text, section.span().start);
        let Some(section) = section.get_ref().as_table() else {
            return Err(wrong_file(format!(
                "line {line}: write a section, such as [site-a], above the settings of a group"
            )));
        };
        let (mut options, mut replicas) = (common.clone(), None);
        for (key, value) in section {
            let line = line_of(text, value.span().start);
            let set = set(&mut options, &mut replicas, (key.get_ref(), value.get_ref()), folder);
            set.map_err(|words| wrong_file(format!("line {line}: {words}")))?;
        }
        found.push((name.get_ref().to_string(), options, replicas));
    }
    Ok(found)
}

/// Sets one option. Paths are relative to the file.
fn set(
    options: &mut NatsOptions,
    replicas: &mut Option<usize>,
    (key, value): (&str, &DeValue<'_>),
    folder: &Path,
) -> std::result::Result<(), String> {
    let text = || value.as_str().map(str::to_owned).ok_or_else(|| format!("the value of {key} is a text"));
    let path = || text().map(|text| Some(folder.join(PathBuf::from(text))));
    match key {
        "servers" => options.servers = text()?,
        "user" => options.user = Some(text()?),
        "password-file" => options.password_file = path()?,
        "ca" => options.authorities = path()?,
        "certificate" => options.certificate = path()?,
        "key" => options.key = path()?,
        "replicas" => {
            let number = value.as_integer().and_then(|number| number.as_str().parse().ok());
            *replicas = Some(number.ok_or_else(|| "the value of replicas is a number".to_owned())?);
        }
        _ => return Err(format!("there is no keyword {key} here; these are possible: {KEYS}")),
    }
    Ok(())
}

fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset.min(text.len())).unwrap_or_default().matches('\n').count() + 1
}

fn within(error: Error, group: &GroupName) -> Error {
    let detail = format!("group {group}: {}", error.detail);
    Error { detail, ..error }
}

fn at(error: Error, path: &Path) -> Error {
    match error.at.is_empty() {
        true => error.at(path.as_os_str().as_bytes()),
        false => error,
    }
}

fn wrong_file(words: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, READING, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common() -> NatsOptions {
        NatsOptions { servers: "nats://127.0.0.1:4222".to_owned(), ..NatsOptions::default() }
    }

    fn from_text(text: &str) -> Result<Vec<NatsGroup>> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("password"), "secret\n").unwrap();
        let file = folder.path().join("groups.toml");
        std::fs::write(&file, text).unwrap();
        groups(&common(), (&[], None), Some(&file))
    }

    #[test]
    fn each_section_is_a_group() {
        let text = "[site-a]\nuser = \"a\"\npassword-file = \"password\"\n\n[site-b]\nservers = \"tls://b:1\"\nreplicas = 3\n";
        let groups = from_text(text).unwrap();
        let shown: Vec<_> = groups
            .iter()
            .map(|group| (group.name.as_str(), group.settings.shown(), group.replicas))
            .collect();
        assert_eq!(
            shown,
            [
                ("site-a", "nats://127.0.0.1:4222".to_owned(), None),
                ("site-b", "tls://b:1".to_owned(), Some(3))
            ]
        );
    }

    #[test]
    fn wrong_files_are_refused_with_the_line() {
        for (text, words) in [
            ("[a]\nuser = 1", "line 2: the value of user is a text"),
            ("\nuser = \"a\"", "line 2: write a section"),
            ("[a]\npassword = \"x\"", "there is no keyword password"),
            (
                "[a]\nservers = \"nats://far\"",
                "group a: the connection to nats://far:4222 would not be encrypted",
            ),
            ("[a]\nreplicas = 2", "2 servers"),
            ("[\"a.b\"]\n", "letters"),
            ("[a\n", "TOML"),
            ("", "no group"),
        ] {
            let error = from_text(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn groups_can_share_an_account() {
        let names = ["a".to_owned(), "b".to_owned()];
        let two = groups(&common(), (&names, Some(1)), None).unwrap();
        assert_eq!(two.len(), 2);
        let twice = ["a".to_owned(), "a".to_owned()];
        assert!(groups(&common(), (&twice, None), None).unwrap_err().detail.contains("twice"));
    }
}
