//! The first word of the command line: help, an option, the name of another tool, a typing error, or a source.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue};

use crate::foreign::Answer;
use crate::messages::{error, hint};
use crate::{cli, foreign, messages};
use hakobu_core::shell;

/// Options that are the program's own, before any command.
const PROGRAM_OPTIONS: [&str; 4] = ["-h", "--help", "-V", "--version"];
/// The number of letters up to which a word is short: of these only one letter may be wrong, of others two.
const SHORT_LETTERS_MAX: usize = 5;

/// `help` and `help VERB ...` with the option that means the same.
pub fn help(arguments: &[OsString]) -> Option<Vec<OsString>> {
    if arguments.get(1)? != "help" {
        return None;
    }
    let verbs = arguments.iter().skip(2).filter(|verb| *verb != "help").cloned();
    Some(arguments.first().cloned().into_iter().chain(verbs).chain([OsString::from("--help")]).collect())
}

/// The names that other tools use for hakobu's commands.
const OTHER_NAMES: [(&str, &[&str]); 13] = [
    (
        "copy",
        &[
            "cp", "scp", "rsync", "clone", "push", "pull", "get", "put", "upload", "download", "send", "mv",
            "move",
        ],
    ),
    ("copy -n", &["plan", "dry-run", "preview"]),
    ("sync", &["mirror", "synchronize", "synchronise"]),
    ("verify", &["diff", "check", "compare", "cmp"]),
    ("digest", &["hash", "checksum", "sum", "b3sum", "sha256sum", "md5sum"]),
    ("disks", &["lsblk", "devices"]),
    ("ls", &["list", "dir", "ll"]),
    ("probe", &["predict", "estimate", "ping"]),
    ("bench", &["benchmark", "iperf", "iperf3", "speedtest"]),
    ("doctor", &["diagnose", "tune"]),
    ("jobs", &["job", "ps", "status"]),
    ("settings", &["config"]),
    ("--version", &["version"]),
];
const NEVER_DELETES: &str =
    "hakobu never deletes the source; remove it yourself when the copy has ended with exit code 0";

/// Commands of other tools that hakobu has nothing for, and what to do instead.
const NO_COUNTERPARTS: [(&[&str], &str); 5] = [
    (
        &["rm", "del", "delete", "remove", "purge", "rmdir", "deletefile"],
        "hakobu only deletes what the source of hakobu sync --delete lacks; remove other things with the tools of the system or store",
    ),
    (
        &["mb", "mkdir", "mk"],
        "directories are made by the copy into them; buckets and containers are made with the tools of the store: \
         aws s3 mb, az storage container create, gcloud storage buckets create",
    ),
    (
        &["rb"],
        "buckets and containers are removed with the tools of the store: aws s3 rb, az storage container delete, gcloud storage rm",
    ),
    (
        &["du", "size", "ncdu", "tree"],
        "hakobu ls -R --json has the size of each file: hakobu ls -R --json LOCATION | jq -s 'map(.size_bytes) | add'",
    ),
    (
        &["stat", "head", "touch", "presign", "head-object"],
        "hakobu ls -l shows mode, owner, size and time of a file or object",
    ),
];

/// Returns the lines to print if the first word is an option or the name of another tool.
pub fn check(arguments: &[OsString]) -> Option<Vec<String>> {
    let first = arguments.get(1)?.to_str()?;
    if !first.starts_with('-') {
        return another_tools(first, &arguments[2..]);
    }
    // Alone it may be a misspelt option of the program, which the parser knows best.
    if first == "-" || PROGRAM_OPTIONS.contains(&first) || arguments.len() < 3 {
        return None;
    }
    let lines = vec![error("options come after the command")];
    let place = arguments.iter().skip(2).position(|word| word.to_str().is_some_and(is_verb)).map(|at| at + 2);
    Some(match place {
        Some(at) => {
            let rest: Vec<_> = arguments[1..at].iter().chain(&arguments[at + 1..]).cloned().collect();
            suggested(lines, &arguments[at].to_string_lossy(), &rest)
        }
        None => suggested(lines, "copy", &arguments[1..]),
    })
}

fn another_tools(name: &str, rest: &[OsString]) -> Option<Vec<String>> {
    let no_command = || error(&format!("there is no command {name}"));
    if let Some((_, words)) = NO_COUNTERPARTS.iter().find(|(names, _)| names.contains(&name)) {
        return Some(vec![no_command(), hint(words)]);
    }
    if let ("cat", [place, ..]) = (name, rest) {
        let command = ["hakobu".into(), "copy".into(), place.clone(), "-".into()];
        return Some(vec![no_command(), hint(&format!("did you mean: {}", shell::quote_all(&command)))]);
    }
    let (verb, _) = OTHER_NAMES.iter().find(|(_, names)| names.contains(&name))?;
    let mut lines = vec![no_command()];
    if matches!(name, "mv" | "move") {
        lines.push(hint(NEVER_DELETES));
    }
    let (verb, options) = verb.split_once(' ').unwrap_or((verb, ""));
    let options = options.split(' ').filter(|option| !option.is_empty()).map(OsString::from);
    Some(suggested(lines, verb, &options.chain(rest.iter().cloned()).collect::<Vec<_>>()))
}

/// The lines to print for a first word that is no command: it may be misspelt, or `copy` may have been forgotten.
pub fn no_such_verb(arguments: &[OsString]) -> Vec<String> {
    let typed = arguments.get(1).map_or(OsStr::new(""), OsString::as_os_str);
    let lines = vec![error(&format!("there is no command {}", shell::quote(typed)))];
    if let Some(verb) = typed.to_str().and_then(nearest) {
        return suggested(lines, &verb, &arguments[2..]);
    }
    let places = arguments.iter().skip(1).filter(|word| !word.as_encoded_bytes().starts_with(b"-")).count();
    let is_place =
        || typed.as_encoded_bytes().iter().any(|byte| b"/:.".contains(byte)) || Path::new(typed).exists();
    if places == 2 || (places > 2 && is_place()) {
        return suggested(lines, "copy", &arguments[1..]);
    }
    lines.into_iter().chain([hint("hakobu --help lists the commands")]).collect()
}

/// The lines to print if the parser refuses a further place behind a command that takes one source and one target.
pub fn too_many_places(error: &clap::Error, arguments: &[OsString]) -> Option<Vec<String>> {
    let verb = arguments.get(1)?.to_str().filter(|verb| ["sync", "verify"].contains(verb))?;
    let Some(ContextValue::String(place)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != clap::error::ErrorKind::UnknownArgument || (place.starts_with('-') && place != "-") {
        return None;
    }
    let words = format!("hakobu {verb} takes one SOURCE and one TARGET; {place} is too many");
    Some(vec![messages::error(&words), hint("only hakobu copy takes several sources")])
}

/// The line to print for a word behind `verb` that it does not have.
pub fn no_such_part(verb: &str, arguments: &[OsString]) -> Vec<String> {
    let typed = shell::quote(arguments.get(2).map_or(OsStr::new(""), OsString::as_os_str));
    let command = cli::command();
    let parts = command.find_subcommand(verb).into_iter().flat_map(|verb| verb.get_subcommands());
    let names: Vec<_> = parts.filter(|part| !part.is_hide_set()).map(|part| part.get_name()).collect();
    vec![
        error(&format!("{verb} has no {typed}; it has {}", names.join(", "))),
        hint(&format!("see hakobu {verb} --help")),
    ]
}

/// Returns the lines to print, and the right command if these are arguments of `verb`.
fn suggested(mut lines: Vec<String>, verb: &str, rest: &[OsString]) -> Vec<String> {
    let words: Vec<OsString> =
        ["hakobu", verb].map(OsString::from).into_iter().chain(rest.iter().cloned()).collect();
    let mean = |words: &[OsString]| hint(&format!("did you mean: {}", shell::quote_all(words)));
    match foreign::check(&words) {
        Some(Answer::Rejected(more)) => {
            lines.extend(more.into_iter().map(|line| match line.strip_prefix("hint: try: ") {
                Some(right) => hint(&format!("did you mean: {right}")),
                None => line,
            }));
        }
        Some(Answer::Accepted { arguments, .. }) => lines.push(mean(&arguments)),
        None => lines.push(mean(&words)),
    }
    lines
}

fn is_verb(word: &str) -> bool {
    cli::command().find_subcommand(word).is_some_and(|verb| !verb.is_hide_set())
}

/// The command that is spelled most like this one.
fn nearest(typed: &str) -> Option<String> {
    let command = cli::command();
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(|verb| verb.get_name());
    let (distance, verb) = verbs.map(|verb| (strsim::osa_distance(typed, verb), verb)).min()?;
    let wrong_max = if typed.chars().count() <= SHORT_LETTERS_MAX { 1 } else { 2 };
    (distance <= wrong_max).then(|| verb.to_owned())
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
        assert_eq!(help(&line("help fleet run")).unwrap(), line("fleet run --help"));
        assert_eq!(help(&line("help help")).unwrap(), line("--help"));
        assert_eq!(help(&line("copy help")), None);
    }

    #[test]
    fn commands_without_a_counterpart_are_explained() {
        for (typed, words) in [
            ("rm s3://b/k", "hakobu sync --delete"),
            ("cat s3://b/k", "did you mean: hakobu copy s3://b/k -"),
            ("mb s3://b", "aws s3 mb"),
            ("du s3://b", "hakobu ls -R --json"),
        ] {
            let lines = check(&line(typed)).unwrap();
            assert!(lines.len() == 2 && lines[1].contains(words), "{lines:?}");
        }
        for name in NO_COUNTERPARTS.iter().flat_map(|(names, _)| *names) {
            assert!(!is_verb(name) && !OTHER_NAMES.iter().any(|(_, names)| names.contains(name)), "{name}");
        }
    }

    #[test]
    fn what_is_no_other_tools_is_left_to_the_parser() {
        for typed in ["copy -a a b", "--help", "-V", "--frob", "-", "data h:/b", "cpio a b"] {
            assert_eq!(check(&line(typed)), None, "{typed}");
        }
    }

    #[test]
    fn no_command_has_the_name_of_another_tool() {
        for (verb, names) in OTHER_NAMES {
            let verb = verb.split(' ').next().unwrap();
            assert!(verb.starts_with("--") || is_verb(verb), "{verb}");
            assert!(names.iter().all(|name| !is_verb(name)), "{names:?}");
        }
    }

    #[test]
    fn the_nearest_command_is_found() {
        for (typed, verb) in [
            ("sycn", "sync"),
            ("verfy", "verify"),
            ("cpoy", "copy"),
            ("dsks", "disks"),
            ("makedata", "make-data"),
            ("doktor", "doctor"),
            ("syn", "sync"),
        ] {
            assert_eq!(nearest(typed).as_deref(), Some(verb), "{typed}");
        }
        for typed in ["data", "frob", "a", "host:/x", "agnet", ""] {
            assert_eq!(nearest(typed), None, "{typed}");
        }
    }
}
