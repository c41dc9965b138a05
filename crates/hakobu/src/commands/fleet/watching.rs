//! `fleet run start` and `fleet run watch`.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::units::format_rate;
use hakobu_fleet::api::problem::Problem;
use hakobu_fleet::api::relationships::RunNumber;
use hakobu_fleet::api::run_view::{RequestView, RunDetail, RunState, RunView};
use hakobu_fleet::api::runs::StartRunInput;
use hakobu_fleet::client::FleetClient;

use super::arguments::StartArguments;
use super::printing::{bytes, count, json_object, name_of, span};
use super::relationships::{named, warn_without_broker};
use super::request::request;
use crate::exit::{FAILED, INTERRUPTED};
use crate::render::json::one_line;
use crate::{messages, output, words};

/// The time between two looks at a run.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The time for which a control plane that does not answer is asked again.
const AWAY_MAX: u32 = 120;
/// The beginning of the note about the error of a unit in a run that goes on.
const TRIED_AGAIN: &str = "a unit is tried again after an error";
/// The exit code of a run in which entries failed.
const PARTIAL: u8 = 3;

/// Starts a run; returns the exit code.
pub(super) fn start(client: &FleetClient, typed: &StartArguments, json: bool) -> Result<u8> {
    let (run, group, request): (RunNumber, String, RequestView) = match (&typed.name, &typed.group) {
        (Some(name), _) => {
            let known = named(client, name)?;
            let path = format!("/api/v1/relationships/{}/runs", known.id);
            let started = client.send("POST", &path, &())?;
            (started, known.relationship.group, known.relationship.request)
        }
        (None, group) => {
            let group = group.clone().unwrap_or_default();
            let input = StartRunInput { group, request: request(&typed.command, typed.verify)? };
            (client.send("POST", "/api/v1/runs", &input)?, input.group, input.request)
        }
    };
    warn_without_broker(client, &group, &request);
    if typed.watch {
        return watch(client, run.run, json);
    }
    let shown = if json { json_object(&run)? } else { format!("{}\n", run.run) };
    Ok(output::print(shown.as_bytes()))
}

/// Follows a run until it ends; returns its exit code.
pub(super) fn watch(client: &FleetClient, id: u64, json: bool) -> Result<u8> {
    let is_terminal = std::io::stdout().is_terminal() && !json;
    let (mut last, mut last_error, mut away) = (String::new(), None, 0);
    loop {
        let detail: Result<RunDetail> = client.get(&format!("/api/v1/runs/{id}"));
        let detail = match detail {
            Err(error) if is_away(&error) && away < AWAY_MAX => {
                away += 1;
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
            detail => detail?,
        };
        away = 0;
        let run = &detail.run;
        let line = match json {
            true => one_line(run).map_err(|error| Error::io("writing JSON", &error))?,
            false => format!("run {}: {}", run.id, progress_words(run)),
        };
        let is_end = run.ended_ms.is_some();
        if line != last {
            let shown = match is_terminal {
                // The line is overwritten by the next one.
                true => format!("\r\x1b[K{line}{}", if is_end { "\n" } else { "" }),
                false => format!("{}\n", line.trim_end()),
            };
            let mut results = output::results();
            if results.write_all(shown.as_bytes()).and_then(|()| results.flush()).is_err() {
                // Nobody reads any more, and how the run ends is not known.
                return Ok(FAILED);
            }
            last = line;
        }
        if is_end {
            if let Some(problem) = detail.last_error {
                tell_problem(&problem);
            }
            return Ok(match run.state {
                RunState::Complete => 0,
                RunState::Partial => PARTIAL,
                RunState::Cancelled => INTERRUPTED,
                _ => FAILED,
            });
        }
        if let Some(problem) = detail.last_error.filter(|problem| last_error.as_ref() != Some(problem)) {
            if is_terminal {
                output::tell_translated("");
            }
            let words = words::escaped_lines(&problem.message);
            output::tell_translated(&messages::note(&format!("{TRIED_AGAIN}: {words}")));
            last_error = Some(problem);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Prints an error.
pub(super) fn tell_problem(problem: &Problem) {
    let words = words::escaped_lines(&problem.message);
    output::tell_translated(&messages::error(&words));
    if let Some(hint) = &problem.hint {
        output::tell_translated(&messages::hint(&words::escaped_lines(hint)));
    }
}

fn is_away(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::ConnectionLost | ErrorKind::TimedOut)
}

/// Describes how far a run is, in one line.
pub(super) fn progress_words(run: &RunView) -> String {
    let failed = match run.failures {
        0 => String::new(),
        failures => format!(", {} failed", count(failures)),
    };
    let figures = &run.figures;
    let (done, found) = (count(figures.entries_done), count(figures.entries_found));
    let Some(progress) = &run.progress else {
        let time = run.ended_ms.map(|end| span(run.started_ms, end)).unwrap_or_default();
        let entries = if done == found { done } else { format!("{done} of {found}") };
        let (state, bytes) = (name_of(&run.state), bytes(figures.bytes_done));
        return format!("{state} after {time}: {entries} entries, {bytes}{failed}");
    };
    let mut words = format!(
        "{}, {}: {done} of {found} entries found, {}, {}, {} entries/s{failed}",
        name_of(&run.state),
        run.phase,
        bytes(figures.bytes_done),
        format_rate(progress.bytes_per_second as f64),
        count(progress.entries_per_second),
    );
    if let Some(wait) = &run.waiting_for {
        words.push_str(&format!(", waiting for {}", wait.message));
    } else if !progress.limited_by.is_empty() {
        words.push_str(&format!(", limit: {}", progress.limited_by));
    }
    if let Some(forecast) = &progress.forecast {
        let [p50, p90] = [forecast.p50_ms, forecast.p90_ms].map(|ms| super::printing::time(Some(ms)));
        words.push_str(&format!(", ends P50 {p50}, P90 {p90}"));
    }
    words
}
