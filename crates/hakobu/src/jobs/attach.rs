//! `hakobu jobs attach`: follows a job.

use std::io::IsTerminal;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::path::lossy;
use hakobu_transfer::jobs::{JobFolder, JobState, Jobs};
use indicatif::ProgressBar;

use super::tail::Tail;
use crate::render::progress_bar::progress_bar;
use crate::{exit, output, signals};

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Shows the log of a job and its progress until it ends; returns its exit code.
pub fn attach(id: Option<&str>) -> Result<u8> {
    let jobs = Jobs::of_user()?;
    let folder = match id {
        Some(id) => jobs.find(id)?,
        None => only_one(&jobs)?,
    };
    let id = folder.id();
    let cancel = signals::cancel_flag().map_err(|error| Error::io("installing signal handlers", &error))?;
    let mut tail = Tail::from_last_lines(&folder)?;
    let bar = std::io::stderr().is_terminal().then(progress_bar);
    loop {
        // This is checked before the log is read, so that the last output is not missed.
        let runs = folder.is_running();
        show(&mut tail, bar.as_ref());
        if !runs {
            break;
        }
        if cancel.load(Relaxed) {
            clear(bar.as_ref());
            output::tell_translated(&format!(
                "job {id} continues; to follow it again: hakobu jobs attach {id}"
            ));
            return Ok(exit::INTERRUPTED);
        }
        if let (Some(bar), Some(line)) = (&bar, folder.progress()) {
            bar.set_message(lossy(line.as_bytes()));
        }
        sleep(LOOK_EVERY);
    }
    clear(bar.as_ref());
    tail.rest().iter().for_each(|line| print(line));
    Ok(ended(&folder))
}

/// Returns the only running job, or the only job.
fn only_one(jobs: &Jobs) -> Result<JobFolder> {
    let mut all: Vec<_> = jobs.ids()?.into_iter().filter_map(|id| jobs.open(id).ok()).collect();
    let running = all.iter().filter(|folder| folder.is_running()).count();
    if running > 0 {
        all.retain(JobFolder::is_running);
    }
    let words = match (running, all.len()) {
        (_, 1) => None,
        (_, 0) => Some("there are no jobs".to_owned()),
        (0, _) => Some("no job runs; name one: hakobu jobs attach ID".to_owned()),
        (count, _) => Some(format!("{count} jobs run; name one: hakobu jobs attach ID")),
    };
    match (words, all.pop()) {
        (None, Some(folder)) => Ok(folder),
        (words, _) => Err(Error::new(ErrorKind::Usage, "looking for the job", words.unwrap_or_default())),
    }
}

fn show(tail: &mut Tail, bar: Option<&ProgressBar>) {
    let lines = tail.lines();
    let write = || lines.iter().for_each(|line| print(line));
    match bar {
        Some(bar) if !lines.is_empty() => bar.suspend(write),
        _ => write(),
    }
}

fn print(line: &str) {
    output::print(format!("{line}\n").as_bytes());
}

fn clear(bar: Option<&ProgressBar>) {
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

/// Prints the details that the log does not contain; returns the exit code.
fn ended(folder: &JobFolder) -> u8 {
    let (state, ended) = folder.state();
    if ended.is_none() && state != JobState::Running {
        let id = folder.id();
        output::tell_translated(&format!(
            "job {id} ended without a report; to go on: hakobu jobs resume {id}"
        ));
    }
    ended.map_or(exit::FAILED, |ended| ended.exit_code)
}
