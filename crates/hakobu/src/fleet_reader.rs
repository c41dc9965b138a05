//! Reads the request of a fleet's run as the command line is read, and refuses what a fleet does not offer.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::location::Location;
use hakobu_core::request::CopyRequest;
use hakobu_fleet::run_request::{FleetRequest, RequestReader};
use hakobu_transfer::shared_run::SharedRun;

use crate::cli::{self, Cli};
use crate::commands::copy::arguments::CopyArguments;
use crate::commands::copy::request::request;
use crate::commands::shared::rules::RuleArgument;

/// The operation that errors name.
const READING: &str = "reading the request of a run";

/// The reasons for which options are refused.
const RUNS_A_COMMAND: &str = "a fleet runs no command that a request names";
const ON_THE_BROKER: &str = "the file would be one of the broker's, which a request must not read or write";
const IN_THE_FLEET: &str = "a fleet keeps reports, failures and progress of all runs itself";
const OF_THE_FLEET: &str =
    "limits hold over the whole fleet: set them for the relationship, the run or the group";
const ALONE: &str = "brokers cannot share such a run; run hakobu on the host itself";

/// Reads requests with the parser of the command line.
pub struct FleetReader;

impl RequestReader for FleetReader {
    fn read(&self, wanted: &FleetRequest) -> Result<CopyRequest> {
        let wrong = |words: String| Error::new(ErrorKind::Usage, READING, words);
        let mut line: Vec<OsString> = vec!["hakobu".into(), wanted.verb.name().into()];
        line.extend(wanted.arguments.iter().map(OsString::from));
        line.push("--".into());
        line.extend(
            wanted.sources.iter().chain([&wanted.target]).map(|text| OsStr::from_bytes(&text.0).to_owned()),
        );
        let matches = cli::command().try_get_matches_from(&line);
        let parsed = matches.and_then(|matches| <Cli as clap::FromArgMatches>::from_arg_matches(&matches));
        let parsed = parsed.map_err(|error| wrong(cause(&error)))?;
        let (typed, mode) = cli::moved_by(parsed.verb).ok_or_else(|| wrong("it is no copy".to_owned()))?;
        if typed.sources.len() != wanted.sources.len() {
            return Err(wrong("the arguments contain locations: name them as sources and target".to_owned()));
        }
        check_options(&typed)?;
        let mut request = request(&typed, mode, None)
            .map_err(|errors| errors.into_iter().next().unwrap_or_else(|| wrong("it is wrong".to_owned())))?;
        request.sources.iter().chain([&request.target]).try_for_each(check_location)?;
        if request.deletion.is_some_and(|deletion| !deletion.agreed) {
            let words = "sync: nobody can be asked during a run if what only the target has may be removed";
            return Err(wrong(words.to_owned()).hint(
                "add --delete, and --max-delete as a limit; or use copy, which never removes anything",
            ));
        }
        request.unattended = true;
        // Entries that only the target has are removed by one broker, after all else.
        SharedRun::new(CopyRequest { deletion: None, ..request.clone() })
            .map_err(|error| Error::new(ErrorKind::Usage, READING, error.detail))?;
        Ok(request)
    }
}

/// Returns what the parser says is wrong, as one line, without its label and without the usage.
pub(crate) fn cause(error: &clap::Error) -> String {
    let words = error.to_string();
    let lines: Vec<&str> = words.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let line = lines.join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

/// Refuses options that make no sense in a fleet, or would let a request do more than copy.
fn check_options(typed: &CopyArguments) -> Result<()> {
    let CopyArguments { login, filter, limits, .. } = typed;
    let reads_rules = filter.rules.0.iter().any(|rule| matches!(rule, RuleArgument::File(_)));
    let options = [
        ("--ssh", login.ssh.is_some(), RUNS_A_COMMAND),
        ("--agent", login.agent.is_some(), RUNS_A_COMMAND),
        ("--before-last-pass", typed.before_last_pass.is_some(), RUNS_A_COMMAND),
        ("--after-last-pass", typed.after_last_pass.is_some(), RUNS_A_COMMAND),
        ("--settings", login.settings.is_some(), ON_THE_BROKER),
        ("--filter-file", reads_rules, ON_THE_BROKER),
        ("--files-from", filter.files_from.is_some(), ON_THE_BROKER),
        ("--pairs", typed.pairs.is_some(), ON_THE_BROKER),
        ("--password-file", typed.password_file.is_some(), ON_THE_BROKER),
        ("--log-file", typed.log_file.is_some(), ON_THE_BROKER),
        ("--report", typed.report.is_some(), IN_THE_FLEET),
        ("--detach", typed.detach, IN_THE_FLEET),
        ("--json", typed.json, IN_THE_FLEET),
        ("--itemize", typed.itemize, IN_THE_FLEET),
        ("--why", typed.why, IN_THE_FLEET),
        ("--dry-run", typed.dry_run, "a run changes the target; ask for a preview of it instead"),
        ("--bwlimit", limits.bwlimit.is_some(), OF_THE_FLEET),
        ("--iops-limit", limits.iops_limit.is_some(), OF_THE_FLEET),
        ("--source-p99", limits.source_p99.is_some(), OF_THE_FLEET),
        ("--passes", typed.passes.is_some(), ALONE),
        ("--until-under", typed.until_under.is_some(), ALONE),
        ("--confirm", !typed.confirm.is_empty(), ALONE),
        ("--transport rsync", typed.transport == "rsync", ALONE),
    ];
    match options.into_iter().find(|(_, is_typed, _)| *is_typed) {
        Some((option, _, why)) => Err(Error::new(ErrorKind::Usage, READING, format!("{option}: {why}"))),
        None => Ok(()),
    }
}

/// Checks that a location is the same for all brokers, and that they can share it.
///
/// # Errors
/// `Usage` for one that is not.
fn check_location(location: &Location) -> Result<()> {
    let words = match location {
        location if location.is_stream() => "a fleet has no standard input and output",
        location if location.rsync_host().is_some() => ALONE,
        location if location.is_local() && !location.path().starts_with(b"/") => {
            "write the whole path, from /: brokers have other working directories"
        }
        // Runs into one target are told from the paths as they are written.
        location if location.store().is_none() && goes_up(location.path()) => {
            "write the path without ..: a fleet compares places by their names"
        }
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::Usage, READING, words).at(location.as_typed()))
}

/// Returns true if a path leads to a directory above.
fn goes_up(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|name| name == b"..")
}

#[cfg(test)]
mod tests {
    use hakobu_fleet::run_request::{LocationText, RunVerb};

    use super::*;

    fn read(verb: RunVerb, arguments: &[&str], places: &[&str]) -> Result<CopyRequest> {
        let mut places: Vec<_> = places.iter().map(|place| LocationText(place.as_bytes().to_vec())).collect();
        let target = places.pop().unwrap();
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        FleetReader.read(&FleetRequest {
            verb,
            sources: places,
            target,
            arguments,
            ..FleetRequest::default()
        })
    }

    #[test]
    fn a_request_is_read_as_the_command_line() {
        let request =
            read(RunVerb::Sync, &["--delete", "--preserve=no-owner", "--exclude", "*.tmp"], &["/a", "/b"])
                .unwrap();
        assert!(request.unattended && request.deletion.unwrap().agreed && !request.preserve.owner);
        assert_eq!(request.filter.rules.len(), 1);
        assert!(read(RunVerb::Copy, &[], &["/a", "sftp://host/b", "s3://bucket/k"]).is_ok());
        assert!(read(RunVerb::Copy, &["--transport=sftp"], &["host:a", "host:b"]).is_ok());
        let error = read(RunVerb::Sync, &["--delete"], &["host:a", "/b"]).unwrap_err();
        assert!(
            error.kind == ErrorKind::Usage && error.detail.contains("run a broker on that host"),
            "{error}"
        );
        // It looks like an option, and is a path.
        assert!(read(RunVerb::Copy, &[], &["/-n", "/b"]).is_ok());
    }

    #[test]
    fn a_sync_needs_the_consent_to_deletions() {
        for arguments in [&[][..], &["--max-delete", "10%"]] {
            let error = read(RunVerb::Sync, arguments, &["/a", "/b"]).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Usage);
            assert!(error.hint.as_deref().is_some_and(|hint| hint.starts_with("add --delete,")), "{error:?}");
        }
        for consent in ["--delete", "--delete-during"] {
            let request = read(RunVerb::Sync, &[consent, "--max-delete", "10%"], &["/a", "/b"]).unwrap();
            assert!(request.deletion.unwrap().agreed, "{consent}");
        }
    }

    #[test]
    fn a_fleet_does_less_than_the_command_line() {
        for (arguments, option) in [
            (&["--ssh", "sh -c 'rm -rf /'"][..], "--ssh"),
            (&["-e", "ssh -o ProxyCommand=rm"], "--ssh"),
            (&["--agent=/tmp/x"], "--agent"),
            (&["--before-last-pass", "rm"], "--before-last-pass"),
            (&["--after-last-pass", "rm", "--passes", "2"], "--after-last-pass"),
            (&["--filter-file", "/etc/shadow"], "--filter-file"),
            (&["--files-from", "/etc/shadow"], "--files-from"),
            (&["--settings=/tmp/x"], "--settings"),
            (&["--log-file", "/tmp/x"], "--log-file"),
            (&["--report", "/tmp/x"], "--report"),
            (&["--detach"], "--detach"),
            (&["-n"], "--dry-run"),
            (&["--bwlimit", "1M"], "--bwlimit"),
            (&["--transport", "rsync"], "--transport rsync"),
        ] {
            let error = read(RunVerb::Sync, arguments, &["/a", "/b"]).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Usage);
            assert!(error.detail.starts_with(&format!("{option}: ")), "{arguments:?}: {error}");
        }
        for places in [
            ["-", "/b"],
            ["/a", "-"],
            ["a", "/b"],
            ["/a", "./b"],
            ["/a", "/b/../c"],
            ["h:../a", "/b"],
            ["rsync://h/m/a", "/b"],
        ] {
            assert!(read(RunVerb::Copy, &[], &places).is_err(), "{places:?}");
        }
        for arguments in [&["/c"][..], &["--", "/c"], &["--frob"], &["--help"], &["--lanes", "0"]] {
            assert!(read(RunVerb::Copy, arguments, &["/a", "/b"]).is_err(), "{arguments:?}");
        }
    }
}
