//! The output of a run: a first line, progress, errors and a summary, or events as JSON.
//!
//! Results go to standard output, everything else to standard error. With `--json`, only events go to standard output. Every
//! name is escaped before it reaches a terminal. Output that nobody reads any more (a closed pipe) never stops a run.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hakobu_agent::stream;
use hakobu_core::error::Error;
use hakobu_core::event::{EntryChange, Event, Failure, Observer};
use hakobu_core::job::Mode;
use hakobu_core::path::lossy;
use hakobu_core::report::{Outcome, Report, ReportDifference, ReportEntries, ReportMachines};
use hakobu_core::units::{format_bytes, format_count};
use hakobu_transfer::jobs::going_on;
use indicatif::ProgressBar;

use crate::language::Language;
use crate::log_file::LogFile;
use crate::translation::{localized, phrase, text};
use crate::words::{self, Machines, note};
use hakobu_core::shell;

pub mod disks;
pub mod doctor;
pub mod json;
pub mod progress;
pub(crate) mod progress_bar;
pub mod summary;

use json::JsonEvent;
use progress::RecentProgress;
use progress_bar::progress_bar;
use summary::FAILURES_SHOWN_MAX;

/// So many decisions are remembered, so that a run of several parts says each once.
const DECISIONS_KEPT_MAX: usize = 64;
/// Seconds between two progress events of `--json`.
const JSON_PROGRESS_SECONDS: f64 = 1.0;

/// The settings of a renderer.
#[derive(Clone, Copy, Debug, Default)]
pub struct RenderSettings {
    /// Events as JSON on standard output.
    pub json: bool,
    /// Nothing but errors (and what `--dry-run` lists).
    pub quiet: bool,
    /// Each change of an entry.
    pub itemize: bool,
    /// More at the end.
    pub verbose: bool,
    /// Each decision with its figures.
    pub why: bool,
    /// Nothing is copied: the words say so.
    pub dry_run: bool,
    /// The mode of the run, which determines the words.
    pub mode: Mode,
    /// Files that seem to be unchanged have their content compared.
    pub compares_content: bool,
    /// A line of progress on standard error, which must be a terminal.
    pub progress: bool,
    /// The language of the lines for people.
    pub language: Language,
}

type LineTo = Box<dyn Fn(&str) + Send + Sync>;

/// Shows a run. Lanes and the ticker may call it at the same time.
pub struct Renderer {
    settings: RenderSettings,
    machines: Machines,
    began: Instant,
    bar: Option<ProgressBar>,
    /// Takes each line of progress.
    line_to: Option<LineTo>,
    /// The command that resumes the run, if it is not the command itself.
    go_on: Option<String>,
    /// Takes a line for each change, failure and note.
    log: Option<LogFile>,
    /// How many notes there were.
    notes: AtomicU64,
    state: Mutex<RenderState>,
}

struct RenderState {
    results: Box<dyn Write + Send>,
    remarks: Box<dyn Write + Send>,
    located: bool,
    failures_seen: u64,
    /// Choices that were said, with their reasons: the first ones.
    decisions: Vec<(String, String)>,
    progress: RecentProgress,
    json_progress_at: f64,
    /// Why a result could not be printed.
    unwritten: Option<io::Error>,
}

impl Renderer {
    /// Shows on standard output and standard error.
    pub fn new(settings: RenderSettings) -> Self {
        Self::with_outputs(settings, crate::output::results(), crate::output::remarks())
    }

    /// Shows elsewhere: results and remarks.
    pub fn with_outputs(
        settings: RenderSettings,
        results: Box<dyn Write + Send>,
        remarks: Box<dyn Write + Send>,
    ) -> Self {
        let progress = RecentProgress::default();
        let state = RenderState {
            results,
            remarks,
            located: false,
            failures_seen: 0,
            decisions: Vec::new(),
            progress,
            json_progress_at: 0.0,
            unwritten: None,
        };
        let bar = settings.progress.then(progress_bar);
        let machines = Machines::default();
        let (began, state) = (Instant::now(), Mutex::new(state));
        Self {
            settings,
            machines,
            began,
            bar,
            line_to: None,
            go_on: None,
            log: None,
            notes: AtomicU64::new(0),
            state,
        }
    }

    /// Sets the hosts of the run.
    pub fn with_machines(self, machines: Machines) -> Self {
        Self { machines, ..self }
    }

    /// Creates a renderer that also writes to a log.
    pub fn with_log(self, log: Option<LogFile>) -> Self {
        Self { log, ..self }
    }

    /// Writes to the log how the run ended, and brings the log to stable storage. `after`: the errors after the run.
    ///
    /// # Errors
    /// Why a line of it could not be written.
    pub fn end_log(&self, report: &Report, after: &[Error]) -> Result<(), Error> {
        let Some(log) = &self.log else { return Ok(()) };
        log.finished(report, after);
        log.end()
    }

    /// Creates the renderer of a job, which also writes lines of progress to the log and names the command that resumes it.
    pub fn for_job(self, line_to: impl Fn(&str) + Send + Sync + 'static, go_on: String) -> Self {
        Self { line_to: Some(Box::new(line_to)), go_on: Some(go_on), ..self }
    }

    /// Says in full what goes where, once both ends are resolved: `copying /data to h:/b/data`.
    pub fn first_line<S: AsRef<[u8]>>(
        &self,
        sources: &[S],
        target: impl AsRef<[u8]>,
        machines: &ReportMachines,
    ) {
        let target = target.as_ref();
        if let Some(log) = &self.log {
            log.started(sources, target);
        }
        if self.settings.json {
            self.json(&JsonEvent::started((sources, target), machines, self.settings.dry_run));
        }
        if self.settings.quiet || self.settings.mode.is_digest() {
            return;
        }
        let language = self.settings.language;
        let name = |place: &[u8]| match [stream::INPUT_NAME, stream::OUTPUT_NAME].contains(&place) {
            true => phrase(language, &lossy(place)),
            false => lossy(place),
        };
        let names: Vec<String> = sources.iter().map(|source| name(source.as_ref())).collect();
        let sources = match names.as_slice() {
            [one] => one.clone(),
            [one, two] => localized!(language, "{} and {}", one, two),
            [one, two, more @ ..] => localized!(language, "{}, {} and {} more", one, two, more.len()),
            [] => phrase(language, "nothing"),
        };
        let target = name(target);
        self.result_line(&match (self.settings.mode, self.settings.dry_run) {
            (Mode::Compare, _) => localized!(language, "comparing {} with {}", sources, target),
            (Mode::Delta, true) => localized!(language, "would synchronise {} to {}", sources, target),
            (_, true) => localized!(language, "would copy {} to {}", sources, target),
            (Mode::Copy | Mode::Digest(_), false) => {
                localized!(language, "copying {} to {}", sources, target)
            }
            (Mode::Delta, false) => localized!(language, "synchronising {} to {}", sources, target),
        });
    }

    /// Ends progress and says how the run ended.
    pub fn finish(&self, report: &Report) {
        self.end_progress();
        let language = self.settings.language;
        let shown = self.state().failures_seen;
        if shown == 0 {
            // They were not announced one by one, as from a run that ended on the far side.
            for failure in report.failures.iter().take(FAILURES_SHOWN_MAX as usize) {
                self.remark(&words::report_failure(failure, language));
            }
        }
        if let Some(error) = &report.error
            && report.outcome != Outcome::Interrupted
        {
            self.remark(&words::report_error(error, &self.machines, language));
        }
        if self.settings.mode.is_digest() {
            return;
        }
        self.left_alone(&report.entries);
        if !self.settings.quiet {
            for line in summary::lines(report, self.settings.verbose, language) {
                self.result_line(&line);
            }
        }
        if summary::can_go_on(report) {
            let typed = || match shell::split(OsStr::new(&report.command)) {
                Ok(words) => shell::quote_all(going_on(words)),
                Err(_) => report.command.clone(),
            };
            let command = self.go_on.clone().unwrap_or_else(typed);
            self.remark(&localized!(language, "to go on: {}", command));
        }
        if self.settings.json {
            self.json(&JsonEvent::finished(report));
        }
    }

    /// Takes the line of progress away.
    pub fn end_progress(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// The rule behind what was not copied, once for all entries: one line for each would be too many.
    fn left_alone(&self, entries: &ReportEntries) {
        // The help explains what equal means in a comparison.
        if self.settings.mode == Mode::Compare {
            return;
        }
        let count = |count, what| format!("{} {what}", format_count(count));
        let (unchanged, attributes) = match self.settings.compares_content {
            true => (
                "unchanged means equal content, compared by digests, equal modification time, and the same permissions \
                 and owner where they can be set; a directory is unchanged when it is there",
                "the content is equal, compared by digests; times, permissions or owner were not",
            ),
            false => (
                "unchanged means equal size and modification time, and the same permissions and owner where they \
                 can be set; a directory is unchanged when it is there",
                "size and modification time are equal, permissions or owner were not",
            ),
        };
        let rules = [
            (count(entries.unchanged, "unchanged"), entries.unchanged, unchanged),
            (count(entries.attributes_only, "with new attributes only"), entries.attributes_only, attributes),
        ];
        for (choice, count, reason) in rules {
            if count == 0 {
                continue;
            }
            let reason = reason.to_owned();
            if self.settings.why {
                self.why(&choice, &reason);
            }
            if let Some(event) = JsonEvent::of(&Event::Decision { choice, reason })
                && self.settings.json
            {
                self.json(&event);
            }
        }
    }

    /// Says the reason of a choice. Both are printable.
    fn why(&self, choice: &str, reason: &str) {
        let language = self.settings.language;
        let (choice, reason) = (text(language, choice), text(language, reason));
        self.remark(&localized!(language, "why: {}: {}", choice, reason));
    }

    /// Returns true if this decision was printed before, and records it. A run that also deletes consists of two.
    fn was_said(&self, choice: &str, reason: &str) -> bool {
        let decisions = &mut self.state().decisions;
        let is_same = |said: &(String, String)| said.0 == choice && said.1 == reason;
        let was_said = decisions.iter().any(is_same);
        if !was_said && decisions.len() < DECISIONS_KEPT_MAX {
            decisions.push((choice.to_owned(), reason.to_owned()));
        }
        was_said
    }

    /// A line for the user that is not a result: to standard error.
    pub fn remark(&self, line: &str) {
        self.write(line, false);
    }

    /// Why something that was to be printed could not be, where that is what the run was for: a plan, a comparison, events.
    pub fn unwritten(&self) -> Option<Error> {
        let is_the_purpose = self.settings.json
            || self.settings.dry_run
            || self.settings.itemize
            || self.settings.mode == Mode::Compare;
        let error = self.state().unwritten.take().filter(|_| is_the_purpose)?;
        Some(Error::io("writing to standard output", &error))
    }

    /// A line that is a result: to standard output, unless that is for events.
    fn result_line(&self, line: &str) {
        if self.settings.json {
            self.remark(line);
        } else {
            self.write(line, true);
        }
    }

    fn json(&self, event: &JsonEvent<'_>) {
        if let Ok(line) = json::line(event, self.began.elapsed()) {
            self.write(&line, true);
        }
    }

    fn write(&self, line: &str, is_result: bool) {
        let write = || {
            let mut state = self.state();
            // One call per line, so that lines of several writers do not mix.
            let output = if is_result { &mut state.results } else { &mut state.remarks };
            let written = output.write_all(format!("{line}\n").as_bytes()).and_then(|()| output.flush());
            // A reader that has gone away wants no more.
            if let Err(error) = written
                && is_result
                && error.kind() != io::ErrorKind::BrokenPipe
            {
                state.unwritten.get_or_insert(error);
            }
        };
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    fn state(&self) -> MutexGuard<'_, RenderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first line, once: a connection that was lost leads to the same places again.
    fn located(&self, sources: &[Vec<u8>], target: &[u8], machines: &ReportMachines) {
        if !std::mem::replace(&mut self.state().located, true) {
            self.first_line(sources, target, machines);
        }
    }

    fn failure(&self, failure: &Failure) {
        let seen = {
            let mut state = self.state();
            state.failures_seen += 1;
            state.failures_seen
        };
        if seen <= FAILURES_SHOWN_MAX {
            self.remark(&words::failure(&failure.path, &failure.error, self.settings.language));
        } else if seen == FAILURES_SHOWN_MAX + 1 {
            self.remark(&phrase(self.settings.language, "more failures follow; --report FILE has them all"));
        }
    }

    fn progress(&self, snapshot: &hakobu_core::counters::CounterTotals) {
        let elapsed = self.began.elapsed();
        let (figures, json_is_due) = {
            let mut state = self.state();
            let figures = state.progress.update(elapsed, snapshot);
            let due = elapsed.as_secs_f64() - state.json_progress_at >= JSON_PROGRESS_SECONDS;
            if due {
                state.json_progress_at = elapsed.as_secs_f64();
            }
            (figures, due)
        };
        if let Some(line_to) = &self.line_to {
            // The record of a job is English.
            line_to(&figures.line(Language::En));
        }
        if let Some(bar) = &self.bar {
            bar.set_message(figures.line(self.settings.language));
        }
        if self.settings.json && json_is_due {
            self.json(&JsonEvent::progress(&figures));
        }
    }
}

impl Observer for Renderer {
    fn event(&self, event: Event) {
        if let Event::Decision { choice, reason } = &event
            && self.was_said(choice, reason)
        {
            return;
        }
        if let Some(log) = &self.log {
            log.event(&event);
        }
        if self.settings.json
            && (self.settings.itemize || !matches!(event, Event::Changed(_)))
            && let Some(event) = JsonEvent::of(&event)
        {
            self.json(&event);
        }
        match &event {
            Event::Located { sources, target, machines } => self.located(sources, target, machines),
            Event::Progress(snapshot) => self.progress(snapshot),
            Event::Failure(failure) => self.failure(failure),
            Event::Notice { words } if !self.settings.quiet => {
                if let Some(line) = note(self.notes.fetch_add(1, Relaxed), words, self.settings.language) {
                    self.remark(&line);
                }
            }
            Event::Decision { choice, reason } if self.settings.why => {
                self.why(&lossy(choice.as_bytes()), &lossy(reason.as_bytes()));
            }
            Event::Decision { choice, .. } if self.settings.verbose => {
                let (language, choice) = (self.settings.language, lossy(choice.as_bytes()));
                self.remark(&localized!(language, "chosen: {}", text(language, &choice)));
            }
            Event::Difference(difference) if !self.settings.json => {
                self.result_line(&summary::difference_words(
                    &ReportDifference::from(difference),
                    self.settings.language,
                ));
            }
            Event::Planned { action, path, size_bytes } if !self.settings.json => {
                let action = lossy(action.as_bytes());
                let path = if path.is_empty() { ".".to_owned() } else { lossy(path) };
                let size = match size_bytes {
                    0 => String::new(),
                    bytes => format!("  {}", format_bytes(*bytes)),
                };
                self.result_line(&format!("{action:<10} {path}{size}"));
            }
            Event::Changed(change) if self.settings.itemize && !self.settings.json => {
                self.result_line(&change_line(change));
            }
            _ => {}
        }
    }
}

/// A line of a list of changes: the action, blanks up to the 11th character, and the path from the 12th on.
pub(crate) fn change_line(change: &EntryChange) -> String {
    let path = if change.path.is_empty() { ".".to_owned() } else { lossy(&change.path) };
    format!("{:<10} {path}", change.action.name())
}

#[cfg(test)]
#[path = "render/tests.rs"]
mod tests;
