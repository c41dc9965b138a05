//! What is typed in the place of the verb: help, a flag, another tool's name, or what is to be copied.

use std::ffi::{OsStr, OsString};

use crate::{foreign, shell};

/// Options that are the program's own, before any verb.
const PROGRAM_OPTIONS: [&str; 4] = ["-h", "--help", "-V", "--version"];
/// Tools whose command lines name a source and a target in hakobu's order.
const OTHER_TOOLS: [&str; 4] = ["cp", "mv", "rsync", "scp"];

/// `help` and `help VERB` with the option that means the same.
pub fn help(arguments: &[OsString]) -> Option<Vec<OsString>> {
    if arguments.get(1)? != "help" {
        return None;
    }
    let verb = arguments.get(2).filter(|verb| *verb != "help").cloned();
    Some(arguments.first().cloned().into_iter().chain(verb).chain([OsString::from("--help")]).collect())
}

/// What other tools call what they do: no names of sources, so nothing is suggested for them.
const VERBS_OF_OTHERS: [&str; 15] = [
    "rm", "list", "push", "pull", "get", "put", "cat", "mkdir", "delete", "remove", "info", "run", "start",
    "status", "update",
];

/// The lines to print if a flag or another tool's name stands where the verb belongs.
pub fn check(arguments: &[OsString]) -> Option<Vec<String>> {
    let first = arguments.get(1)?.to_str()?;
    if OTHER_TOOLS.contains(&first) {
        let mut words = format!("hakobu: there is no verb {first}; the verb is copy");
        if first == "mv" {
            words.push_str(
                ", and hakobu never deletes the source: remove it yourself once the copy has ended with exit code 0",
            );
        }
        return Some(with_copy(words, &arguments[2..]));
    }
    if !first.starts_with('-') || first == "-" || PROGRAM_OPTIONS.contains(&first) {
        return None;
    }
    // Alone it may be a misspelt option of the program, which the parser knows best.
    (arguments.len() > 2)
        .then(|| with_copy("hakobu: the verb comes first, before any option".to_owned(), &arguments[1..]))
}

/// The lines to print for a first word that is no verb: `copy` may have been forgotten.
pub fn no_such_verb(arguments: &[OsString]) -> Vec<String> {
    let typed = arguments.get(1).map_or(OsStr::new(""), OsString::as_os_str);
    let words = format!("hakobu: there is no verb {}; see hakobu --help", shell::quote(typed));
    with_copy(words, &arguments[1..])
}

/// The line to print for a word behind `verb` that it does not have.
pub fn no_such_part(verb: &str, arguments: &[OsString]) -> Vec<String> {
    let typed = shell::quote(arguments.get(2).map_or(OsStr::new(""), OsString::as_os_str));
    vec![format!("hakobu: {verb} has no {typed}; see hakobu {verb} --help")]
}

/// The words, and what should have been typed if these are the arguments of `copy`.
fn with_copy(words: String, rest: &[OsString]) -> Vec<String> {
    let copy: Vec<OsString> =
        ["hakobu", "copy"].map(OsString::from).into_iter().chain(rest.iter().cloned()).collect();
    let mut lines = vec![words];
    match foreign::check(&copy) {
        Some(more) => lines.extend(more.into_iter().map(|line| match line.strip_prefix("try: ") {
            Some(right) => format!("did you mean: {right}"),
            None => line,
        })),
        None if rest.len() > 1 && !rest.first().is_some_and(is_verb) => {
            lines.push(format!("did you mean: {}", shell::quote_all(&copy)));
        }
        None => {}
    }
    lines
}

fn is_verb(typed: &OsString) -> bool {
    typed.to_str().is_some_and(|typed| VERBS_OF_OTHERS.contains(&typed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(typed: &str) -> Vec<OsString> {
        std::iter::once("hakobu").chain(typed.split(' ')).map(OsString::from).collect()
    }

    #[test]
    fn help_is_the_option() {
        assert_eq!(help(&line("help")).unwrap(), line("--help"));
        assert_eq!(help(&line("help copy")).unwrap(), line("copy --help"));
        assert_eq!(help(&line("help help")).unwrap(), line("--help"));
        assert_eq!(help(&line("copy help")), None);
    }

    #[test]
    fn what_is_no_other_tools_is_left_to_the_parser() {
        for typed in ["copy -a a b", "--help", "-V", "--frob", "-", "data h:/b", "cpio a b"] {
            assert_eq!(check(&line(typed)), None, "{typed}");
        }
    }
}
