//! A job that this process runs: its questions, output and records.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use hakobu_core::error::Result;
use hakobu_core::event::{Event, Observer};
use hakobu_core::live_limits::LiveLimits;
use hakobu_core::outcome::RunEnvironment;
use hakobu_core::prompts::{Prompts, Secret};
use hakobu_core::report::Report;
use hakobu_core::request::CopyRequest;
use hakobu_transfer::jobs::{JobFolder, JobRunLock, LimitsStamp};

use super::handshake::{ASKING, BEGUN, GO_ON};
use super::limits::LimitWatcher;
use crate::commands::shared::limits::LimitArguments;
use crate::language::Language;
use crate::output;
use crate::prompts::Terminal;
use crate::render::{Renderer, summary};

/// The minimum time between two progress lines.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// The interval at which the run checks if it should pause or if its limits have changed.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// A job that this process runs.
#[derive(Debug)]
pub struct JobRun {
    pub(super) folder: Arc<JobFolder>,
    pub(super) unattended: bool,
    pub(super) starter: Mutex<Option<UnixStream>>,
    /// The IDs of disks that the user has typed.
    pub(super) confirmed: Mutex<Vec<String>>,
    pub(super) password_asked: AtomicBool,
    pub(super) begun: AtomicBool,
    /// The typed limits, and the stamp of those that were set before the run began.
    pub(super) limits: (LimitArguments, Option<LimitsStamp>),
    pub(super) _lock: JobRunLock,
}

impl JobRun {
    /// Returns true if no user waits at a terminal.
    pub fn is_unattended(&self) -> bool {
        self.unattended
    }

    /// Returns the renderer, which now also writes the progress line to the job's directory.
    pub fn shown_by(&self, renderer: Renderer) -> Renderer {
        let (folder, kept_at) = (Arc::clone(&self.folder), Mutex::new(None::<Instant>));
        let go_on = format!("hakobu jobs resume {}", self.folder.id());
        let keep = move |line: &str| {
            let mut kept_at = kept_at.lock().unwrap_or_else(PoisonError::into_inner);
            if kept_at.is_none_or(|at| at.elapsed() >= PROGRESS_EVERY) {
                *kept_at = Some(Instant::now());
                folder.write_progress(line);
            }
        };
        renderer.for_job(keep, go_on)
    }

    /// Runs the copy.
    pub fn copy(&self, request: &CopyRequest, renderer: &Renderer, terminal: Terminal) -> Report {
        let cancel = Arc::clone(terminal.cancel());
        let observer = JobObserver { job: self, renderer, cancel: Arc::clone(&cancel) };
        let mut prompts = JobPrompts { job: self, terminal };
        let limits = Arc::new(LiveLimits::new(request.limits.clone(), Instant::now));
        let changes =
            LimitWatcher { typed: self.limits.0.clone(), seen: self.limits.1, live: limits.clone() };
        self.watch(&cancel, changes);
        let stopped = Arc::clone(&cancel);
        let mut surroundings = RunEnvironment { prompts: &mut prompts, observer: &observer, cancel, limits };
        let report = crate::run::copy(request, &mut surroundings);
        // A short run may end before any progress, but one that failed before it began is not a job.
        if report.error.is_none() || summary::can_go_on(&report) {
            self.begun(&stopped);
        }
        report
    }

    /// Writes the report to the job's directory.
    ///
    /// # Errors
    /// The report cannot be written.
    pub fn keep(&self, report: &Report) -> Result<()> {
        self.folder.write_report(report)
    }

    /// Polls for new limits and for a request to pause, which ends the run.
    fn watch(&self, cancel: &Arc<AtomicBool>, mut changes: LimitWatcher) {
        let (folder, cancel) = (Arc::clone(&self.folder), Arc::clone(cancel));
        spawn(move || {
            while !folder.is_paused() {
                changes.look(&folder);
                sleep(LOOK_EVERY);
            }
            cancel.store(true, Relaxed);
        });
    }

    /// Leaves the terminal. The run holds the lock of its copy and has no more questions.
    fn begun(&self, cancel: &AtomicBool) {
        if self.begun.swap(true, Relaxed) {
            return;
        }
        let mut confirmed = self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.keep_agreed(&confirmed) {
            output::tell(&crate::words::error(&error, Language::from_environment()));
        }
        confirmed.clear();
        if self.unattended {
            return;
        }
        if self.password_asked.load(Relaxed) {
            output::tell_translated(
                "note: sudo asked for a password, so the job cannot log in again by itself; to allow that, let the \
                 remote user run hakobu with NOPASSWD in sudoers",
            );
        }
        leave_terminal();
        if !self.tell_starter(BEGUN) {
            cancel.store(true, Relaxed);
        }
        self.starter.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Adds the typed IDs of disks to the record and removes `--restart`, for the case that the job is resumed.
    fn keep_agreed(&self, confirmed: &[String]) -> Result<()> {
        let before = self.folder.record()?;
        let mut record = before.clone();
        confirmed.iter().for_each(|disk| record.confirm(disk));
        record.go_on();
        if record == before { Ok(()) } else { self.folder.write_record(&record) }
    }

    /// Sends a byte to the process that started this one. Returns true if that process answers.
    fn tell_starter(&self, what: u8) -> bool {
        let starter = self.starter.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut starter) = starter.as_ref() else { return false };
        let mut answer = [0];
        let answered = starter.write_all(&[what]).and_then(|()| starter.read_exact(&mut answer));
        answered.is_ok() && answer == [GO_ON]
    }
}

/// Starts a session without a terminal, which can neither hang up nor interrupt it. Fails only if the process already
/// leads one.
pub(super) fn leave_terminal() {
    let _ = rustix::process::setsid();
}

/// An observer that passes events on and leaves the terminal as soon as that is possible.
struct JobObserver<'a> {
    job: &'a JobRun,
    renderer: &'a Renderer,
    cancel: Arc<AtomicBool>,
}

impl Observer for JobObserver<'_> {
    fn event(&self, event: Event) {
        // Only a run that holds the lock of its copy makes progress.
        let progress = matches!(event, Event::Progress(_));
        self.renderer.event(event);
        if progress {
            self.job.begun(&self.cancel);
        }
    }
}

/// Prompts on the terminal while there is one, and records the answers.
struct JobPrompts<'a> {
    job: &'a JobRun,
    terminal: Terminal,
}

impl Prompts for JobPrompts<'_> {
    fn sudo_password(&mut self, host: &str, attempt: u32) -> Option<Secret> {
        if !self.job.tell_starter(ASKING) {
            return None;
        }
        self.job.password_asked.store(true, Relaxed);
        self.terminal.sudo_password(host, attempt)
    }

    fn disk_id(&mut self, words: &str) -> Option<String> {
        if !self.job.tell_starter(ASKING) {
            return None;
        }
        let typed = self.terminal.disk_id(words)?;
        let mut confirmed = self.job.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        confirmed.push(typed.trim().to_owned());
        Some(typed)
    }
}
