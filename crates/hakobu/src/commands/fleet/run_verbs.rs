//! `fleet run`: what it shows and asks for, apart from following a run.

use std::ffi::OsString;
use std::fmt::Write;

use hakobu_core::error::Result;
use hakobu_core::units::format_rate;
use hakobu_fleet::api::listing::ListPage;
use hakobu_fleet::api::relationships::RunNumber;
use hakobu_fleet::api::run_view::{FailureView, LossView, RateSample, RunComparison, RunDetail, RunView};
use hakobu_fleet::client::FleetClient;
use hakobu_fleet::run_phases::{PhaseState, PhaseView, SkipReason};

use super::arguments::RunVerbs;
use super::printing::{
    NOTHING, bytes, count, field, json_lines, json_object, span, state_name, table, text, time,
};
use super::relationships::named;
use super::watching::progress_words;
use crate::language::Language;
use crate::report::words::loss_name;

/// Carries out an action; returns what is to be printed.
pub(super) fn run(client: &FleetClient, verb: &RunVerbs, json: bool) -> Result<String> {
    let order = |id: &u64, action: &str| {
        client.order("POST", &format!("/api/v1/runs/{id}/{action}"), None::<&()>).map(|()| String::new())
    };
    match verb {
        RunVerbs::List { relationship, state, count } => {
            let relationship = relationship.as_deref().map(|name| named(client, name)).transpose()?;
            list(client, relationship.map(|one| one.id), (state.as_deref(), *count), json)
        }
        RunVerbs::Show { id } => {
            let detail: RunDetail = client.get(&format!("/api/v1/runs/{id}"))?;
            if json { json_object(&detail) } else { Ok(shown(&detail)) }
        }
        RunVerbs::Rates { id } => {
            let rates: ListPage<RateSample> = client.get(&format!("/api/v1/runs/{id}/rates"))?;
            if json { json_lines(&rates.items) } else { Ok(rate_table(&rates.items)) }
        }
        RunVerbs::Cancel { id } => order(id, "cancel"),
        RunVerbs::Pause { id } => order(id, "pause"),
        RunVerbs::Resume { id } => order(id, "resume"),
        RunVerbs::Retry { id } => {
            let run: RunNumber = client.send("POST", &format!("/api/v1/runs/{id}/retry"), &())?;
            if json { json_object(&run) } else { Ok(format!("{}\n", run.run)) }
        }
        RunVerbs::Report { id } => {
            let report = client.get_bytes(&format!("/api/v1/runs/{id}/report"))?;
            Ok(format!("{}\n", String::from_utf8_lossy(&report)))
        }
        RunVerbs::Failures { id, kind, path, count } => {
            let mut query = Vec::new();
            query.extend(kind.as_deref().map(|kind| ("kind", kind)));
            query.extend(path.as_deref().map(|path| ("path", path)));
            let path = format!("/api/v1/runs/{id}/failures");
            let failures: Vec<FailureView> = client.list(&path, &query, *count)?;
            if json {
                return json_lines(&failures);
            }
            Ok(failure_table(&failures))
        }
        RunVerbs::Compare { id, other } => {
            let compared: RunComparison = client.get(&format!("/api/v1/runs/{id}/compare/{other}"))?;
            if json { json_object(&compared) } else { Ok(compared_words(&compared)) }
        }
        // Those have exit codes of their own.
        RunVerbs::Start(_) | RunVerbs::Watch { .. } => Ok(String::new()),
    }
}

fn list(
    client: &FleetClient,
    relationship: Option<u64>,
    (state, most): (Option<&str>, usize),
    json: bool,
) -> Result<String> {
    let relationship = relationship.map(|id| id.to_string());
    let mut query = Vec::new();
    query.extend(relationship.as_deref().map(|id| ("relationship", id)));
    query.extend(state.map(|states| ("state", states)));
    let runs: Vec<RunView> = client.list("/api/v1/runs", &query, most)?;
    if json {
        return json_lines(&runs);
    }
    let rows = runs.iter().map(|run| {
        [
            run.id.to_string(),
            run.relationship_name.clone().unwrap_or_else(|| NOTHING.to_owned()),
            run.group.clone(),
            state_name(&run.state),
            time(Some(run.started_ms)),
            run.ended_ms.map_or_else(|| NOTHING.to_owned(), |end| span(run.started_ms, end)),
            count(run.figures.entries_done),
            bytes(run.figures.bytes_done),
            count(run.failures),
        ]
    });
    Ok(table(
        ["RUN", "RELATIONSHIP", "GROUP", "STATE", "STARTED", "TIME", "ENTRIES", "BYTES", "FAILED"],
        rows,
    ))
}

fn shown(detail: &RunDetail) -> String {
    let run = &detail.run;
    let request = &detail.request;
    let mut words: Vec<OsString> = vec![request.verb.name().into()];
    words.extend(request.arguments.iter().map(OsString::from));
    words.extend(request.sources.iter().chain([&request.target]).map(|place| OsString::from(text(place))));
    let failures: Vec<String> =
        detail.failures_by_kind.iter().map(|(kind, number)| format!("{kind} {}", count(*number))).collect();
    let rows = [
        ("run", run.id.to_string()),
        ("relationship", run.relationship_name.clone().unwrap_or_else(|| NOTHING.to_owned())),
        ("group", run.group.clone()),
        ("state", state_name(&run.state)),
        ("phases", phase_words(&detail.phases)),
        ("command", hakobu_core::shell::quote_all(&words)),
        ("started", time(Some(run.started_ms))),
        ("ended", time(run.ended_ms)),
        (
            "units",
            format!("{} of {} done, {} under way", run.units.committed, run.units.added, run.units.leased),
        ),
        ("progress", progress_words(run)),
        ("failed", if failures.is_empty() { "0".to_owned() } else { failures.join(", ") }),
        (
            "limits",
            detail
                .limits
                .as_ref()
                .map(super::limits::words)
                .filter(|words| !words.is_empty())
                .unwrap_or_else(|| NOTHING.to_owned()),
        ),
    ];
    let mut shown: String = rows.iter().map(|(name, value)| field(name, 13, value)).collect();
    for shared in &detail.shared_limits {
        let scope = match (&shared.group, &shared.location) {
            (Some(group), _) => format!("group {group}"),
            (None, Some(location)) => text(location),
            (None, None) => continue,
        };
        shown.push_str(&field(
            "shared limits",
            13,
            &format!("{scope}: {}", super::limits::words(&shared.limits)),
        ));
    }
    if let Some(wait) = &run.waiting_for {
        shown.push_str(&field("waiting for", 13, &wait.message));
    }
    for loss in &detail.losses {
        shown.push_str(&field("not preserved", 13, &loss_words(loss)));
    }
    if let Some(error) = &detail.last_error {
        shown.push_str(&field("last error", 13, &error.message));
        if let Some(hint) = &error.hint {
            shown.push_str(&field("remedy", 13, hint));
        }
    }
    let lanes = detail.brokers.iter().flat_map(|broker| {
        broker.units.iter().map(|unit| {
            [
                broker.broker.clone(),
                unit.unit.to_string(),
                span(0, unit.running_ms),
                count(unit.entries_done),
                bytes(unit.bytes_done),
                if unit.lanes > 0 { count(unit.lanes) } else { NOTHING.to_owned() },
                match unit.silent_ms {
                    Some(silent_ms) => format!("silent for {}", span(0, silent_ms)),
                    None if unit.limited_by.is_empty() => NOTHING.to_owned(),
                    None => unit.limited_by.clone(),
                },
            ]
        })
    });
    let lanes: Vec<_> = lanes.collect();
    if !lanes.is_empty() {
        shown.push('\n');
        shown.push_str(&table(["BROKER", "UNIT", "TIME", "ENTRIES", "BYTES", "LANES", "LIMITED BY"], lanes));
    }
    shown
}

/// Describes how far the phases of a run are.
fn phase_words(phases: &[PhaseView]) -> String {
    let words = |view: &PhaseView| {
        let state = match (view.state, view.reason) {
            (PhaseState::Done, _) => "done",
            (PhaseState::Running, _) => "running",
            (PhaseState::Stopped, _) => "not finished",
            (PhaseState::NotBegun, _) => "not begun",
            (PhaseState::Skipped, Some(SkipReason::EntriesFailed)) => "skipped, because entries failed",
            (PhaseState::Skipped, _) => "nothing to do",
        };
        format!("{} ({state})", view.phase)
    };
    let all: Vec<_> = phases.iter().map(words).collect();
    if all.is_empty() { NOTHING.to_owned() } else { all.join(", ") }
}

/// Describes a property that the target could not keep.
fn loss_words(loss: &LossView) -> String {
    // The top of a tree has no name of its own.
    let example = if loss.example.0.is_empty() { ".".to_owned() } else { text(&loss.example) };
    let what = loss_name(&loss.what, Language::En);
    format!("{what} of {}, such as {example} at the {}", Language::En.entries(loss.count), loss.side)
}

fn rate_table(rates: &[RateSample]) -> String {
    let rows = rates.iter().map(|sample| {
        [
            time(Some(sample.at_ms)),
            format_rate(sample.bytes_per_second as f64),
            count(sample.entries_per_second),
        ]
    });
    table(["TIME", "RATE", "ENTRIES/S"], rows)
}

fn failure_table(failures: &[FailureView]) -> String {
    let rows = failures
        .iter()
        .map(|failure| [text(&failure.path), failure.error.kind.clone(), failure.error.message.clone()]);
    table(["PATH", "KIND", "ERROR"], rows)
}

fn compared_words(compared: &RunComparison) -> String {
    let (one, other) = (&compared.run, &compared.other);
    let row = |name: &str, of: &dyn Fn(&RunView) -> String| [name.to_owned(), of(one), of(other)];
    let rows = [
        row("state", &|run| state_name(&run.state)),
        row("started", &|run| time(Some(run.started_ms))),
        ["time".to_owned(), span(0, compared.run_ms), span(0, compared.other_ms)],
        row("entries", &|run| count(run.figures.entries_done)),
        row("bytes", &|run| bytes(run.figures.bytes_done)),
        row("created", &|run| count(run.counters.entries_created)),
        row("updated", &|run| count(run.counters.entries_updated)),
        row("deleted", &|run| count(run.counters.entries_deleted)),
        row("failed", &|run| count(run.failures)),
    ];
    let (first, second) = (format!("RUN {}", one.id), format!("RUN {}", other.id));
    let mut shown = table(["", &first, &second], rows);
    for option in &compared.options {
        let (run, option) = match (option.strip_prefix('+'), option.strip_prefix('-')) {
            (Some(option), _) => (one.id, option),
            (None, Some(option)) => (other.id, option),
            (None, None) => continue,
        };
        let _ = writeln!(shown, "only run {run} has: {option}");
    }
    for (title, failures) in [
        ("failed in the first alone", &compared.new_failures),
        ("failed in the second alone", &compared.mended_failures),
    ] {
        if !failures.is_empty() {
            let _ = write!(shown, "\n{title}:\n{}", failure_table(failures));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use hakobu_fleet::api::byte_text::ByteText;

    use super::*;

    #[test]
    fn losses_are_told_as_a_copy_tells_them() {
        let loss = |example: &[u8]| LossView {
            what: "acl".to_owned(),
            count: 1200,
            side: "source".to_owned(),
            example: ByteText(example.to_vec()),
        };
        let words = loss_words(&loss(b"a\xff/b"));
        assert_eq!(words, "access control lists of 1 200 entries, such as a\\xff/b at the source");
        assert!(loss_words(&loss(b"")).contains("such as . at"));
    }
}
