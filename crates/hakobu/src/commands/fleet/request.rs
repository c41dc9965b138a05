//! The request of a relationship or a run, as a command line behind `--`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::FromArgMatches;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_fleet::api::byte_text::ByteText;
use hakobu_fleet::api::run_view::RequestView;
use hakobu_fleet::run_request::{FleetRequest, RequestReader, RunVerb};

use crate::cli::{self, Cli};
use crate::fleet_reader::{FleetReader, cause};
use crate::order;

/// The operation that errors name.
const READING: &str = "reading the command behind --";

/// Returns the request that a command line stands for: `copy` or `sync`, options, sources, target.
///
/// # Errors
/// `Usage`, as for the command itself, or for what a fleet does not offer.
pub(super) fn request(words: &[OsString], verify: bool) -> Result<RequestView> {
    let wrong = |words: &str| {
        let error = Error::new(ErrorKind::Usage, READING, words);
        error.hint("for example: -- sync --delete /srv/data/ backup:/srv/data")
    };
    let verb = match words.first().and_then(|verb| verb.to_str()) {
        Some("copy") => RunVerb::Copy,
        Some("sync") => RunVerb::Sync,
        _ => return Err(wrong("it is neither copy nor sync")),
    };
    let line: Vec<OsString> = [&[OsString::from("hakobu")], words].concat();
    let command = cli::command();
    let line = order::places_last(&line, &command).unwrap_or(line);
    let matches = command.try_get_matches_from(&line).map_err(|error| wrong(&cause(&error)))?;
    let parsed = Cli::from_arg_matches(&matches).map_err(|error| wrong(&error.to_string()))?;
    let (typed, _) = cli::moved_by(parsed.verb).ok_or_else(|| wrong("it is neither copy nor sync"))?;
    let mut places = typed.sources.clone();
    places.extend(typed.target.clone());
    let options = options(&line[2..], &places).ok_or_else(|| wrong("write sources and target at its end"))?;
    let arguments = options.iter().map(|word| word.to_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
    let arguments = arguments.ok_or_else(|| wrong("an option is not UTF-8"))?;
    let target = bytes(&typed.target.unwrap_or_default());
    let sources = typed.sources.iter().map(|source| bytes(source)).collect();
    let view = RequestView { verb, sources, target, arguments, verify };
    // Refused here in the same words as there, before anything is sent.
    FleetReader.read(&FleetRequest::from(view.clone()))?;
    Ok(view)
}

fn bytes(word: &OsStr) -> ByteText {
    ByteText(word.as_bytes().to_vec())
}

/// Returns the words before the places, which stand at the end, with `--` before or between them.
fn options(words: &[OsString], places: &[OsString]) -> Option<Vec<OsString>> {
    let (mut end, mut left) = (words.len(), places.iter().rev().peekable());
    for (at, word) in words.iter().enumerate().rev() {
        match left.peek() {
            Some(place) if *place == word => drop(left.next()),
            _ if word == "--" => {}
            None => break,
            Some(_) => return None,
        }
        end = at;
    }
    left.peek().is_none().then(|| words[..end].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<RequestView> {
        request(&line.split(' ').map(OsString::from).collect::<Vec<_>>(), false)
    }

    #[test]
    fn options_are_told_from_places() {
        let request = read("sync --delete /a/ --exclude /b host:/b").unwrap();
        assert_eq!(request.arguments, ["--delete", "--exclude", "/b"]);
        assert_eq!((request.verb, request.sources.len()), (RunVerb::Sync, 1));
        assert_eq!(request.target.0, b"host:/b");
        let request = read("copy -x /a /b -- /c s3://bucket/x").unwrap();
        assert_eq!((request.arguments.len(), request.sources.len()), (1, 3));
        assert!(read("copy /a /b").unwrap().arguments.is_empty());
    }

    #[test]
    fn other_commands_and_options_are_refused() {
        for line in
            ["", "verify /a /b", "copy /a", "copy --frob /a /b", "copy -n /a /b", "sync a /b", "copy /a -"]
        {
            assert_eq!(read(line).unwrap_err().kind, ErrorKind::Usage, "{line}");
        }
    }
}
