//! Jobs as text and as JSON.

use std::io;

use hakobu_core::error::{Error, Result};
use hakobu_core::path::lossy;
use hakobu_core::units::format_bytes;
use hakobu_transfer::jobs::{EndedReport, JobFolder, JobId, JobLimits, JobRecord, JobState, Jobs};
use serde::Serialize;
use serde_json::Value;

use super::command::JobCommand;
use super::tail::Tail;
use crate::language::Language;
use crate::render::{json, summary};
use crate::translation::phrase;
use crate::{exit, output};
use hakobu_core::shell;

/// The schema of the output of `list --json` and `show --json`.
const JOBS_SCHEMA: &str = "hakobu.jobs/1";
/// The heading of the progress column.
const PROGRESS: &str = "PROGRESS";
/// The number of lines of the log that are shown.
const LOG_LINES_MAX: usize = 20;

/// The present state of a job.
struct JobView {
    id: JobId,
    folder: JobFolder,
    record: JobRecord,
    state: JobState,
    ended: Option<EndedReport>,
    progress: Option<String>,
}

/// A job as JSON.
#[derive(Serialize)]
struct SeenJson<'a> {
    id: &'a str,
    state: JobState,
    exit_code: Option<u8>,
    /// The last progress line, unless the job is done.
    progress: Option<&'a str>,
    command: String,
    record: &'a JobRecord,
    /// The limits that were set after the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<JobLimits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<Vec<String>>,
}

#[derive(Serialize)]
struct ListJson<'a> {
    schema: &'static str,
    jobs: Vec<SeenJson<'a>>,
}

impl JobView {
    fn of(folder: JobFolder) -> Result<Self> {
        let record = folder.record()?;
        let (state, ended) = folder.state();
        let progress = folder.progress().filter(|_| state != JobState::Done);
        Ok(Self { id: folder.id(), folder, record, state, ended, progress })
    }

    fn command(&self) -> String {
        shell::quote_all(self.record.arguments())
    }

    /// Returns the progress, or the result, in one line.
    fn standing(&self) -> String {
        let progress = self.progress.as_deref().map(|line| lossy(line.trim().as_bytes()));
        // The rate and the time left mean nothing for a job that does not run.
        let done = progress.as_deref().map(|line| amount(line).to_owned());
        match (self.state, &self.ended) {
            (JobState::Running, _) if self.folder.is_paused() => "stopping".to_owned(),
            (JobState::Running, _) => progress.unwrap_or_else(|| "no progress yet".to_owned()),
            (_, None) => {
                format!("ended without a report, {}", done.as_deref().unwrap_or("before any progress"))
            }
            (JobState::Done, Some(ended)) => {
                format!("{} at {}", format_bytes(ended.bytes_done), lossy(ended.ended_at.as_bytes()))
            }
            (JobState::Paused, Some(_)) => done.unwrap_or_else(|| "before any progress".to_owned()),
            (_, Some(ended)) => outcome(ended),
        }
    }

    fn json(&self) -> SeenJson<'_> {
        SeenJson {
            id: self.id.as_str(),
            state: self.state,
            exit_code: self.ended.as_ref().map(|ended| ended.exit_code),
            progress: self.progress.as_deref(),
            command: self.command(),
            record: &self.record,
            limits: self.folder.limits().ok().flatten(),
            report: None,
            log: None,
        }
    }

    fn last_lines(&self) -> Vec<String> {
        let mut lines = Tail::from_last_lines(&self.folder).map(|mut tail| tail.lines()).unwrap_or_default();
        lines.drain(..lines.len().saturating_sub(LOG_LINES_MAX));
        lines
    }
}

/// Returns the part of a progress line that says how much is done: `20 %  2.00 GB of 10.0 GB`.
fn amount(line: &str) -> &str {
    let of = line.find(" of ").unwrap_or(0);
    line[of..].find("  ").map_or(line, |end| &line[..of + end])
}

/// Describes the result of a run that was not completed.
fn outcome(ended: &EndedReport) -> String {
    let words = summary::words_of(ended.outcome);
    let Some(error) = &ended.error else { return words.to_owned() };
    let at = if error.at.is_empty() { String::new() } else { format!(" {}", error.at) };
    let first_line = error.error.lines().next().unwrap_or_default();
    lossy(format!("{words}: {}{at}: {first_line}", error.during).as_bytes())
}

/// Lists all jobs, the oldest first. A job that cannot be read is reported and left out.
pub fn list(as_json: bool) -> Result<u8> {
    let jobs = Jobs::of_user()?;
    let (mut all, mut code) = (Vec::new(), 0);
    for id in jobs.ids()? {
        match jobs.open(id).and_then(JobView::of) {
            Ok(seen) => all.push(seen),
            Err(error) => {
                exit::errors(&[error]);
                code = exit::FAILED;
            }
        }
    }
    all.sort_by(|one, other| (&one.record.created_at, one.id).cmp(&(&other.record.created_at, other.id)));
    let text = match as_json {
        true => pretty(&ListJson { schema: JOBS_SCHEMA, jobs: all.iter().map(JobView::json).collect() })?,
        false => table(&all),
    };
    Ok(output::print(text.as_bytes()).max(code))
}

fn table(all: &[JobView]) -> String {
    if all.is_empty() {
        let words = phrase(Language::from_environment(), "no jobs; hakobu copy --detach starts one");
        return format!("{words}\n");
    }
    let standings: Vec<_> = all.iter().map(JobView::standing).collect();
    let width = standings.iter().map(|words| words.chars().count()).max().unwrap_or(0).max(PROGRESS.len());
    let ids = all.iter().map(|seen| seen.id.as_str().len()).max().unwrap_or(0);
    let mut text = format!("{:<ids$}  {:<11}  {PROGRESS:<width$}  COMMAND\n", "ID", "STATE");
    for (seen, standing) in all.iter().zip(&standings) {
        let (id, state, command) = (seen.id, seen.state.name(), seen.command());
        text.push_str(&format!("{id}  {state:<11}  {standing:<width$}  {command}\n"));
    }
    text
}

/// Prints everything about a job.
pub fn show(id: &str, as_json: bool) -> Result<u8> {
    let seen = JobView::of(Jobs::of_user()?.find(id)?)?;
    if as_json {
        let job = SeenJson { report: seen.folder.report(), log: Some(seen.last_lines()), ..seen.json() };
        return Ok(output::print(pretty(&ListJson { schema: JOBS_SCHEMA, jobs: vec![job] })?.as_bytes()));
    }
    let mut lines = vec![
        format!("job        {}", seen.id),
        format!("state      {}: {}", seen.state.name(), seen.standing()),
        format!("command    {}", seen.command()),
        format!("directory  {}", shell::quote(&seen.record.cwd.0)),
        format!("created    {}", lossy(seen.record.created_at.as_bytes())),
    ];
    if let Some(set) = seen.folder.limits()? {
        // Limits from the command line that were not replaced still apply.
        let command = JobCommand::read_where_typed(&seen.record, "reading the command of the job");
        let typed = command.map(|command| command.typed.limits).unwrap_or_default();
        let limits = super::limits::with(&typed, &set);
        let words = limits.read().map(|limits| limits.words()).unwrap_or_default();
        let instead = if typed.is_empty() { "" } else { ", instead of those in the command" };
        lines.push(format!("limits     {words}{instead}, set at {}", lossy(set.set_at.as_bytes())));
    }
    if let Some(ended) = &seen.ended {
        lines.push(format!("ended      {}, exit code {}", lossy(ended.ended_at.as_bytes()), ended.exit_code));
    }
    lines.push(format!("record     {}", shell::quote(seen.folder.path().as_os_str())));
    let log = seen.last_lines();
    if !log.is_empty() {
        lines.push("end of the log:".to_owned());
        lines.extend(log.iter().map(|line| format!("  {line}")));
    }
    Ok(output::print(format!("{}\n", lines.join("\n")).as_bytes()))
}

fn pretty<T: Serialize>(value: &T) -> Result<String> {
    json::pretty(value).map_err(|error: io::Error| Error::io("writing JSON", &error))
}

#[cfg(test)]
mod tests {
    use super::amount;

    #[test]
    fn how_much_is_done_is_told_without_a_rate() {
        let line = "20 %  2.00 GB of 10.0 GB  500 MB/s  16.0 s left  limit: send 75 %";
        assert_eq!(amount(line), "20 %  2.00 GB of 10.0 GB");
        assert_eq!((amount("2.00 GB of at least 10.0 GB"), amount("")), ("2.00 GB of at least 10.0 GB", ""));
    }
}
