//! Verbs that are understood but come with a later version.

use std::ffi::OsString;

/// Verbs that do not exist yet, and their alternatives.
const LATER_VERBS: [(&str, &str); 5] = [
    ("scan", "hakobu copy --dry-run lists what differs"),
    ("daemon", "hakobu copy needs only ssh on the other machine"),
    ("receive", "hakobu copy needs only ssh on the other machine"),
    ("modules", "hakobu copy needs only ssh on the other machine"),
    ("keys", "hakobu copy uses the keys of ssh"),
];

/// The lines to print if the verb is one that comes later.
pub fn check_verb(arguments: &[OsString]) -> Option<Vec<String>> {
    let verb = arguments.get(1)?.to_str()?;
    let (_, instead) = LATER_VERBS.iter().find(|(later, _)| *later == verb)?;
    Some(vec![format!("error: {verb} is not in this version; {instead}")])
}
