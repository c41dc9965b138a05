//! The verbs `copy`, `sync` and `verify`, from the arguments to the exit code.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hakobu_agent::stream;
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::event::{Event, Observer};
use hakobu_core::job::Mode;
use hakobu_core::live_limits::LiveLimits;
use hakobu_core::location::Location;
use hakobu_core::outcome::RunEnvironment;
use hakobu_core::report::{Report, ReportEnd};
use hakobu_core::request::CopyRequest;

pub mod arguments;
mod attributes;
mod colons;
pub mod pairs;
pub mod request;

use self::arguments::CopyArguments;
use self::request::{request, stores_without_effect, without_effect};
use crate::clock::now;
use crate::jobs::{JobRun, detach};
use crate::language::Language;
use crate::log_file::LogFile;
use crate::prompts::Terminal;
use crate::render::progress_bar::shows_progress;
use crate::render::{RenderSettings, Renderer};
use crate::report_file::ReportFile;
use crate::settings_file::ssh_variable;
use crate::words::machines;
use crate::{exit, messages, output, run, signals};
use hakobu_core::shell;

/// The niceness of the lowest priority.
const LOWEST_PRIORITY: i32 = 19;

/// Copies, synchronises or compares, in this process or as a job; returns the exit code. The report contains
/// `arguments`, the arguments of the whole program.
pub fn copy(typed: &CopyArguments, mode: Mode, arguments: &[OsString]) -> u8 {
    if typed.detach {
        return detach(typed, mode, arguments);
    }
    run(typed, mode, arguments, None)
}

/// Copies, synchronises or compares in this process, which may run a job.
pub fn run(typed: &CopyArguments, mode: Mode, arguments: &[OsString], job: Option<&JobRun>) -> u8 {
    let began = Instant::now();
    let started_at = now();
    let mut request = match request(typed, mode, ssh_variable()) {
        Ok(request) => request,
        Err(errors) => return not_begun(&errors, job),
    };
    if !typed.quiet {
        let in_vain = [without_effect(typed, mode), stores_without_effect(typed, &request)].concat();
        in_vain.iter().for_each(|words| output::tell_translated(&messages::note(words)));
        colons::warnings(typed).iter().for_each(|words| output::tell_translated(&messages::warning(words)));
    }
    request.unattended = job.is_some_and(JobRun::is_unattended);
    if request.nice {
        // Later threads inherit the priority, and the kernel's I/O schedulers follow it.
        let _ = rustix::process::setpriority_process(None, LOWEST_PRIORITY);
    }
    let report_file = match typed.report.as_deref().map(ReportFile::open).transpose() {
        Ok(file) => file,
        Err(error) => return not_begun(&[error], job),
    };
    if let Some(file) = report_file.as_ref()
        && let Some(place) = taken_by_report(&request, file)
    {
        let words = "it is also the file of --report; choose another one for the report";
        let error = Error::new(ErrorKind::Refused, "looking at the locations", words).at(place.as_typed());
        report_file.into_iter().for_each(ReportFile::forget);
        return not_begun(&[error], job);
    }
    let log_file = match open_log(typed, &request) {
        Ok(file) => file,
        Err(error) => {
            report_file.into_iter().for_each(ReportFile::forget);
            return not_begun(&[error], job);
        }
    };
    let cancel = match signals::cancel_flag() {
        Ok(cancel) => cancel,
        Err(error) => return not_begun(&[Error::io("installing signal handlers", &error)], job),
    };
    let is_terminal = |source: &Location| source.is_stream() && stream::is_terminal(source, true);
    if request.sources.iter().any(is_terminal) {
        let words = "standard input is a terminal; let a program or a file give what is copied";
        report_file.into_iter().for_each(ReportFile::forget);
        return not_begun(&[Error::new(ErrorKind::Usage, "copying from", words).at("-")], job);
    }
    let shown = render_settings(typed, mode);
    let renderer = match request.target.is_stream() {
        true if stream::is_terminal(&request.target, false) => {
            let words = "standard output is a terminal; send it to a program or a file";
            report_file.into_iter().for_each(ReportFile::forget);
            return not_begun(&[Error::new(ErrorKind::Usage, "copying to", words).at("-")], job);
        }
        true => Renderer::with_outputs(shown, Box::new(std::io::stderr()), Box::new(std::io::stderr())),
        // Standard output is for the report.
        false if !shown.json && typed.report.as_deref() == Some(Path::new("-")) => {
            Renderer::with_outputs(shown, Box::new(std::io::stderr()), Box::new(std::io::stderr()))
        }
        false => Renderer::new(shown),
    }
    .with_machines(machines(&request))
    .with_log(log_file);
    for from in &typed.login.from_files {
        let choice = format!("{}: {}", from.keyword, from.value);
        renderer.event(Event::Decision { choice, reason: format!("it is in {}", from.place) });
        if ["bwlimit", "iops-limit", "source-p99"].contains(&from.keyword) {
            let words = format!("--{} {} is set in {}", from.keyword, from.value, from.place);
            renderer.event(Event::Notice { words });
        }
    }
    let base = Report { started_at, ..base_report(&request, arguments) };
    let mut terminal = Terminal::new(cancel.clone(), shown.progress && !shown.json);
    let (mut report, renderer) = match job {
        None => {
            let limits = Arc::new(LiveLimits::new(request.limits.clone(), Instant::now));
            let mut surroundings =
                RunEnvironment { prompts: &mut terminal, observer: &renderer, cancel, limits };
            (run::copy(&request, &mut surroundings), renderer)
        }
        Some(job) => {
            let renderer = job.shown_by(renderer);
            (job.copy(&request, &renderer, terminal), renderer)
        }
    };
    complete(&mut report, base, began.elapsed());
    // The record of the job, the last event and the log tell the exit code that the program will have.
    let exit_code = |code: u8, after: &[Error]| if code == 0 { exit::code_of_errors(after) } else { code };
    let mut after: Vec<Error> = Vec::new();
    after.extend(report_file.and_then(|file| file.write(&report).err()));
    report.exit_code = exit_code(report.exit_code, &after);
    after.extend(job.and_then(|job| job.keep(&report).err()));
    report.exit_code = exit_code(report.exit_code, &after);
    renderer.finish(&report);
    if report.error.as_ref().is_some_and(|error| error.kind == "usage") {
        tell_settings(typed);
    }
    after.extend(renderer.unwritten());
    report.exit_code = exit_code(report.exit_code, &after);
    if let Err(error) = renderer.end_log(&report, &after) {
        after.push(error);
    }
    exit::errors(&after);
    exit_code(report.exit_code, &after)
}

/// Opens the file of `--log-file`.
fn open_log(typed: &CopyArguments, request: &CopyRequest) -> Result<Option<LogFile>, Error> {
    let Some(file) = typed.log_file.as_deref().map(LogFile::open).transpose()? else { return Ok(None) };
    let mut places = request.sources.iter().chain([&request.target]).filter(|place| place.is_local());
    match places.find(|place| file.is(Path::new(OsStr::from_bytes(place.path())))) {
        None => Ok(Some(file)),
        Some(place) => {
            let words = "it is where --log-file goes as well; name another file for that";
            Err(Error::new(ErrorKind::Refused, "looking at the locations", words).at(place.as_typed()))
        }
    }
}

/// Returns the local source or target that is also the file of the report.
fn taken_by_report<'a>(request: &'a CopyRequest, file: &ReportFile) -> Option<&'a Location> {
    let mut places = request.sources.iter().chain([&request.target]).filter(|place| place.is_local());
    places.find(|place| file.is(Path::new(OsStr::from_bytes(place.path()))))
}

/// Lists the options that came from settings files, if the run was refused because of an option.
fn tell_settings(typed: &CopyArguments) {
    let from = typed.login.from_files.iter().map(|from| format!("--{} ({})", from.keyword, from.place));
    let from: Vec<_> = from.collect();
    if !from.is_empty() {
        output::tell_translated(&crate::words::escaped_lines(&format!(
            "note: from settings files: {}",
            from.join(", ")
        )));
    }
}

/// Ends a run that never began. If it is a job, its report is written.
fn not_begun(errors: &[Error], job: Option<&JobRun>) -> u8 {
    let code = exit::errors(errors);
    let mut report = Report { ended_at: now(), ..Report::default() };
    report.conclude(&[], errors.first(), false);
    report.exit_code = code;
    if let Some(Err(error)) = job.map(|job| job.keep(&report)) {
        exit::errors(&[error]);
    }
    code
}

fn render_settings(typed: &CopyArguments, mode: Mode) -> RenderSettings {
    RenderSettings {
        json: typed.json,
        quiet: typed.quiet,
        itemize: typed.itemize,
        verbose: typed.verbose,
        why: typed.why,
        dry_run: typed.dry_run,
        mode,
        compares_content: typed.compare == "digest",
        progress: !typed.quiet && shows_progress(),
        language: Language::from_environment(),
    }
}

/// Returns a report with the fields that only the program knows.
pub(crate) fn base_report(request: &CopyRequest, arguments: &[OsString]) -> Report {
    let end = |location: &Location| ReportEnd::typed(location.as_typed());
    let paired = request.pairs.iter().map(|pair| &pair.0);
    let mut sources = request.sources.iter().chain(paired).map(end);
    let target = request.pairs.first().map_or(&request.target, |pair| &pair.1);
    Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: shell::quote_all(arguments),
        user: user(),
        dry_run: request.dry_run,
        source: sources.next().unwrap_or_default(),
        further_sources: sources.collect(),
        target: end(target),
        ..Report::default()
    }
}

/// Adds the fields that only the program knows to the report of a run.
pub(crate) fn complete(report: &mut Report, base: Report, elapsed: Duration) {
    report.version = base.version;
    report.command = base.command;
    report.user = base.user;
    report.dry_run = base.dry_run;
    report.started_at = base.started_at;
    report.ended_at = now();
    report.exit_code = report.outcome.exit_code();
    report.source.keep_typed(base.source);
    report.target.keep_typed(base.target);
    if report.further_sources.len() < base.further_sources.len() {
        report.further_sources.clone_from(&base.further_sources);
    }
    for (end, base) in report.further_sources.iter_mut().zip(base.further_sources) {
        end.keep_typed(base);
    }
    // The total includes the time before the run.
    report.seconds.total = elapsed.as_secs_f64();
}

trait KeepTyped {
    /// Sets the typed location, and the resolved one if it is not known yet.
    fn keep_typed(&mut self, base: ReportEnd);
}

impl KeepTyped for ReportEnd {
    fn keep_typed(&mut self, base: ReportEnd) {
        let resolved = self.resolved.take().or(base.resolved);
        let identity = self.identity.take().or(base.identity);
        *self = ReportEnd { resolved, identity, ..base };
    }
}

/// Returns the login name, or the user's number, and the user behind sudo.
fn user() -> String {
    let uid = rustix::process::getuid().as_raw();
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = account_name(&accounts, uid).unwrap_or_else(|| uid.to_string());
    match std::env::var("SUDO_USER") {
        Ok(behind) if !behind.is_empty() && behind != name => format!("{name} (sudo by {behind})"),
        _ => name,
    }
}

fn account_name(accounts: &str, uid: u32) -> Option<String> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_number() {
        let accounts = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbroken\n";
        assert_eq!(account_name(accounts, 1000).as_deref(), Some("ann"));
        assert_eq!(account_name(accounts, 100), None);
    }

    #[test]
    fn a_report_keeps_what_the_run_resolved() {
        let mut report = Report::default();
        report.source.resolved = Some("/whole/a".into());
        let request = CopyRequest {
            sources: vec![Location::local("a"), Location::local("b")],
            target: Location::local("t"),
            ..CopyRequest::default()
        };
        let arguments = ["hakobu", "copy", "a b"].map(OsString::from);
        complete(&mut report, base_report(&request, &arguments), Duration::from_secs(2));
        assert_eq!(report.source.typed, "a");
        assert_eq!(report.source.resolved.as_deref(), Some("/whole/a"));
        assert_eq!((report.further_sources[0].typed.as_str(), report.target.typed.as_str()), ("b", "t"));
        assert_eq!(report.command, "hakobu copy 'a b'");
        assert!(report.ended_at.ends_with('Z') && report.ended_at.contains('T'));
    }
}
