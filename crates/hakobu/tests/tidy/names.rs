//! Names: a type name is unique in the workspace, and files are named after their content.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::read;
use super::words::{is_test, sources};

/// Words that do not say what a type is or what a file contains.
const VAGUE_TYPES: [&str; 20] = [
    "Course", "Ends", "Far", "Found", "Ground", "Heard", "Held", "Left", "Met", "Near", "Party", "Place",
    "Portion", "Ran", "Said", "Side", "Site", "Told", "Way", "What",
];
const VAGUE_FILES: [&str; 22] = [
    "at_once", "beneath", "course", "ends", "far", "gather", "ground", "held", "look", "meet", "near",
    "patience", "permits", "places", "said", "serve", "side", "site", "standing", "stray", "told", "way",
];
/// Wire types have the names of the types in `hakobu-core` that they mirror.
const MIRRORS: &str = "crates/hakobu-proto/src/wire/";

/// Returns the files of the product, of the test kit and of `xtask`, without tests.
fn modules() -> impl Iterator<Item = PathBuf> {
    sources().into_iter().filter(|path| !is_test(path))
}

/// Returns the names of the types that a file defines, apart from those of its tests.
fn types(text: &str) -> Vec<String> {
    let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    code.lines().filter_map(type_name).collect()
}

/// Returns the name of the type that a line defines. Indented aliases belong to a trait or an implementation.
fn type_name(line: &str) -> Option<String> {
    let (line, is_indented) = (line.trim_start(), line.starts_with(' '));
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let (keyword, rest) = line.split_once(' ')?;
    let is_type =
        ["struct", "enum", "trait", "union"].contains(&keyword) || keyword == "type" && !is_indented;
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    (is_type && rest.starts_with(char::is_uppercase)).then(|| rest[..end].to_owned())
}

/// Returns true if all of these places but one are mirrors.
fn is_one_thing(places: &[PathBuf]) -> bool {
    places.iter().filter(|path| !path.starts_with(MIRRORS)).count() <= 1
}

#[test]
fn a_type_name_stands_for_one_thing() {
    let mut places: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in modules() {
        let mut names = types(&read(&path));
        names.sort();
        names.dedup();
        for name in names {
            places.entry(name).or_default().push(path.clone());
        }
    }
    let twice: Vec<_> = places.iter().filter(|(_, places)| !is_one_thing(places)).collect();
    assert!(twice.is_empty(), "one name for different things: {twice:#?}");
    let vague: Vec<_> = places.iter().filter(|(name, _)| VAGUE_TYPES.contains(&name.as_str())).collect();
    assert!(vague.is_empty(), "names that do not say what the types are: {vague:#?}");
}

#[test]
fn files_are_named_for_what_they_hold() {
    let stem =
        |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let vague: Vec<_> = modules().filter(|path| VAGUE_FILES.contains(&stem(path).as_str())).collect();
    assert!(vague.is_empty(), "names that do not say what the files hold: {vague:#?}");
}

#[test]
fn type_names_are_found() {
    let text = "pub struct One<T>(T);\n    pub(crate) enum Two {}\ntype Three = u8;\n    type Not = u8;\nlet struct_ = 1;\n\
                pub(super) trait Four: Five {}\n#[cfg(test)]\nmod tests {\n    struct Six;\n}\n";
    assert_eq!(types(text), ["One", "Two", "Three", "Four"]);
    let path = |path: &str| PathBuf::from(path);
    let (core, rsync) = (path("crates/hakobu-core/src/a.rs"), path("crates/hakobu-rsync/src/a.rs"));
    assert!(is_one_thing(&[core.clone(), path("crates/hakobu-proto/src/wire/a.rs")]));
    assert!(!is_one_thing(&[core, rsync]));
}
