//! Pausing, resuming and forgetting jobs.

use std::ffi::OsString;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_transfer::jobs::{JobFolder, JobRecord, JobState, Jobs};

use super::command::JobCommand;
use super::start::{StartResult, start, start_unattended, tell_how_to_watch};
use crate::commands::copy::request::request;
use crate::{exit, output, settings_file};

/// How long to wait for a job to stop.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// Asks a job to stop, and waits until it has.
pub fn pause(id: &str) -> Result<u8> {
    let folder = Jobs::of_user()?.find(id)?;
    let id = folder.id();
    if let (state @ (JobState::Done | JobState::Failed), _) = folder.state() {
        let words = format!("it has ended already: {}", state.name());
        return Err(Error::new(ErrorKind::Usage, "pausing the job", words).at(id.as_str()));
    }
    folder.pause()?;
    let deadline = Instant::now() + STOP_LIMIT;
    while folder.is_running() {
        if Instant::now() > deadline {
            output::tell_translated(&format!(
                "job {id} was asked to stop, and has not yet; see hakobu jobs show {id}"
            ));
            return Ok(exit::FAILED);
        }
        sleep(Duration::from_millis(50));
    }
    match folder.state().0 {
        JobState::Paused => {
            output::tell_translated(&format!("job {id} is paused; to go on: hakobu jobs resume {id}"));
            Ok(0)
        }
        state => {
            output::tell_translated(&format!("job {id} has ended before it was paused: {}", state.name()));
            Ok(if state == JobState::Done { 0 } else { exit::FAILED })
        }
    }
}

/// Resumes a job that ended before it was complete.
pub fn resume(id: &str) -> Result<u8> {
    let folder = Jobs::of_user()?.find(id)?;
    let id = folder.id();
    match folder.state().0 {
        JobState::Done => {
            output::tell_translated(&format!("job {id} is done"));
            return Ok(0);
        }
        JobState::Running => {
            return Err(Error::new(ErrorKind::Locked, "resuming the job", "it is running").at(id.as_str()));
        }
        JobState::Paused | JobState::Interrupted | JobState::Failed => {}
    }
    match start(&folder, &folder.record()?)? {
        StartResult::Runs => {
            tell_how_to_watch(&folder);
            Ok(0)
        }
        StartResult::Ended(code) => Ok(code),
    }
}

/// Resumes all interrupted jobs, and reports those that cannot be resumed.
pub fn resume_all() -> Result<u8> {
    let jobs = Jobs::of_user()?;
    let mut code = 0;
    for id in jobs.ids()? {
        match jobs.open(id).and_then(|folder| resume_interrupted(&folder)) {
            Ok(None) => {}
            Ok(Some(StartResult::Runs)) => output::tell_translated(&format!("job {id} continues")),
            Ok(Some(StartResult::Ended(0))) => {
                output::tell_translated(&format!("job {id} has ended already: done"));
            }
            Ok(Some(StartResult::Ended(_))) => {
                output::tell_translated(&format!("job {id} has ended at once; see hakobu jobs show {id}"));
                code = exit::FAILED;
            }
            Err(error) => {
                exit::errors(&[error]);
                code = exit::FAILED;
            }
        }
    }
    Ok(code)
}

fn resume_interrupted(folder: &JobFolder) -> Result<Option<StartResult>> {
    match folder.state().0 {
        JobState::Interrupted => start_unattended(folder, &folder.record()?).map(Some),
        _ => Ok(None),
    }
}

/// Returns the target of a job, unless the job only reads.
fn written_target(record: &JobRecord) -> Option<OsString> {
    let only_reads = |command: JobCommand| command.mode.only_reads();
    let reads = JobCommand::read(record, "removing the record of the job").is_ok_and(only_reads);
    (!reads).then(|| record.target.0.clone())
}

/// Aborts uploads that a job has not finished, if its target is a bucket. Returns their number.
fn remove_unfinished(record: &JobRecord) -> Result<Option<u64>> {
    let JobCommand { typed, mode, .. } =
        JobCommand::read(record, "removing the record of the job").map_err(first)?;
    let request = request(&typed, mode, settings_file::ssh_variable()).map_err(first)?;
    if request.target.store().is_none() {
        return Ok(None);
    }
    hakobu_transfer::unfinished::remove_unfinished(&request).map(Some)
}

fn first(errors: Vec<Error>) -> Error {
    let unknown = || Error::new(ErrorKind::Usage, "reading the job", "its record holds no command");
    errors.into_iter().next().unwrap_or_else(unknown)
}

/// Removes the records of jobs that do not run.
pub fn forget(prefixes: &[String], all_done: bool) -> Result<u8> {
    let jobs = Jobs::of_user()?;
    let mut folders = Vec::new();
    // All are found before any is removed, so that a mistyped ID changes nothing.
    for prefix in prefixes {
        folders.push(jobs.find(prefix)?);
    }
    if all_done {
        let opened = jobs.ids()?.into_iter().filter_map(|id| jobs.open(id).ok());
        folders.extend(opened.filter(|folder| folder.state().0 == JobState::Done));
    }
    folders.sort_by_key(JobFolder::id);
    folders.dedup_by_key(|folder| folder.id());
    let mut code = 0;
    for folder in &folders {
        let record = folder.record().ok();
        let target = record.as_ref().and_then(written_target);
        let state = jobs.forget(folder)?;
        output::tell_translated(&format!("job {} is forgotten", folder.id()));
        if let Some(target) = target.filter(|_| state != JobState::Done) {
            let target = hakobu_core::shell::quote(&target);
            match record.as_ref().map_or(Ok(None), remove_unfinished) {
                Ok(None) => {}
                Ok(Some(uploads)) => {
                    output::tell_translated(&format!(
                        "  it was not done: everything that it copied to {target} stays there; unfinished uploads that \
                         were aborted: {uploads}"
                    ));
                    continue;
                }
                Err(error) => code = exit::errors(&[error]),
            }
            output::tell_translated(&format!(
                "  it was not done: everything that it copied to {target} stays there, with drafts (.hakobu. and 26 \
                 characters) of unfinished files; the same command continues with them"
            ));
        }
    }
    Ok(code)
}
