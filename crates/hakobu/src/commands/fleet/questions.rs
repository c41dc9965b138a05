//! Questions of `fleet` to brokers: `ls`, `test`, `preview` and `probe`.

use std::os::unix::ffi::OsStrExt;

use hakobu_core::error::Result;
use hakobu_core::units::format_rate;
use hakobu_fleet::api::byte_text::ByteText;
use hakobu_fleet::api::errands::ErrandInput;
use hakobu_fleet::api::problem::Problem;
use hakobu_fleet::api::relationship_view::CredentialView;
use hakobu_fleet::api::run_view::RequestView;
use hakobu_fleet::client::FleetClient;
use hakobu_fleet::errand::{
    BrowseEntry, Errand, ErrandResult, ErrandView, LocationTest, PREVIEW_CHANGES_MAX, PreviewChange,
};
use hakobu_fleet::failure::kind_of_name;
use serde_json::Value;

use super::credentials::credentials;
use super::printing::{NOTHING, bytes, field, json_object, span, table, text, time};
use super::question_arguments::{BrowseArguments, TrialArguments};
use super::relationships::named;
use super::request::request;
use super::watching::tell_problem;
use crate::exit::{FAILED, code_of};
use crate::language::Language;
use crate::report::text_of_json;
use crate::report::words::side;
use crate::translation::phrase;
use crate::{messages, output};

/// The width of the names of fields.
const COLUMNS: usize = 13;

/// Lists a location through a broker; returns the exit code.
pub(super) fn browse(client: &FleetClient, typed: &BrowseArguments, json: bool) -> Result<u8> {
    let known = typed.relationship.as_deref().map(|name| named(client, name)).transpose()?;
    let errand = Errand::Browse {
        location: ByteText(typed.location.as_bytes().to_vec()),
        arguments: typed.options.clone(),
        is_target: typed.as_target,
    };
    let mut sent = credentials(&typed.credentials)?;
    if let Some(known) = known.as_ref().filter(|_| sent.is_empty()) {
        sent.clone_from(&known.relationship.credentials);
    }
    let group = typed.group.clone().or(known.as_ref().map(|known| known.relationship.group.clone()));
    let input = ErrandInput { errand, credentials: sent, relationship: known.map(|known| known.id) };
    let view = client.ask_broker(&group.unwrap_or_default(), &input)?;
    answer(&view, json, |result| match result {
        ErrandResult::Browse { entries, is_cut } => Some((entry_table(entries, *is_cut), 0)),
        _ => None,
    })
}

/// Has a broker look at sources and target; returns the exit code.
pub(super) fn test(client: &FleetClient, typed: &TrialArguments, json: bool) -> Result<u8> {
    let view = asked(client, typed, |request| Errand::Test { request })?;
    answer(&view, json, |result| match result {
        ErrandResult::Test { locations } => {
            let problems = || locations.iter().filter_map(|location| location.error.as_ref());
            if !json {
                problems().for_each(tell_problem);
            }
            Some((location_table(locations), problems().next().map_or(0, code_of_problem)))
        }
        _ => None,
    })
}

/// Shows what a run would do; returns the exit code, which is that of the dry run.
pub(super) fn preview(client: &FleetClient, typed: &TrialArguments, json: bool) -> Result<u8> {
    let view = asked(client, typed, |request| Errand::Preview { request })?;
    answer(&view, json, |result| match result {
        ErrandResult::Preview { report, changes, is_cut } => {
            let code = report["exit_code"].as_u64().and_then(|code| u8::try_from(code).ok());
            let shown = if json { String::new() } else { plan_words(report, changes, *is_cut) };
            Some((shown, code.unwrap_or(FAILED)))
        }
        _ => None,
    })
}

/// Predicts how fast a run would be; returns the exit code.
pub(super) fn probe(client: &FleetClient, typed: &TrialArguments, json: bool) -> Result<u8> {
    let view = asked(client, typed, |request| Errand::Probe { request })?;
    answer(&view, json, |result| match result {
        ErrandResult::Probe { report } => {
            Some((prediction_words(report), if report["error"].is_null() { 0 } else { FAILED }))
        }
        _ => None,
    })
}

/// Asks a broker about the locations of a relationship or of a command.
fn asked(
    client: &FleetClient,
    typed: &TrialArguments,
    errand: impl FnOnce(RequestView) -> Errand,
) -> Result<ErrandView> {
    let mut sent = credentials(&typed.credentials)?;
    let known = typed.name.as_deref().map(|name| named(client, name)).transpose()?;
    let (group, request, relationship) = match known {
        Some(known) => {
            let own: Vec<CredentialView> = known.relationship.credentials;
            sent = if sent.is_empty() { own } else { sent };
            (known.relationship.group, known.relationship.request, Some(known.id))
        }
        None => (typed.group.clone().unwrap_or_default(), request(&typed.command, false)?, None),
    };
    client.ask_broker(&group, &ErrandInput { errand: errand(request), credentials: sent, relationship })
}

/// Prints an answer: as JSON, or in the words that `shown` has for it with the exit code. Returns the exit code.
fn answer(
    view: &ErrandView,
    json: bool,
    shown: impl FnOnce(&ErrandResult) -> Option<(String, u8)>,
) -> Result<u8> {
    let told = view.result.as_ref().and_then(shown);
    let text = match (&told, json) {
        (_, true) => json_object(view)?,
        (Some((words, _)), false) => words.clone(),
        (None, false) => String::new(),
    };
    let printed = output::print(text.as_bytes());
    let code = match (told, &view.error) {
        (Some((_, code)), _) => code,
        (None, Some(problem)) => {
            if !json {
                tell_problem(problem);
            }
            code_of_problem(problem)
        }
        (None, None) => FAILED,
    };
    Ok(if printed == 0 { code } else { printed })
}

fn code_of_problem(problem: &Problem) -> u8 {
    kind_of_name(&problem.kind).map_or(FAILED, code_of)
}

fn entry_table(entries: &[BrowseEntry], is_cut: bool) -> String {
    let rows = entries.iter().map(|entry| {
        let is_file = entry.kind == "file";
        [
            entry.kind.clone(),
            if is_file { bytes(entry.size_bytes) } else { NOTHING.to_owned() },
            time(entry.modified_ms.and_then(|ms| u64::try_from(ms).ok())),
            text(&entry.name),
        ]
    });
    let shown = table(["KIND", "SIZE", "CHANGED", "NAME"], rows);
    if is_cut {
        let words = format!("only the first {} entries are listed", entries.len());
        output::tell_translated(&messages::note(&words));
    }
    shown
}

fn location_table(locations: &[LocationTest]) -> String {
    let language = Language::from_environment();
    let rows = locations.iter().map(|location| {
        let state = match (location.is_there, &location.error) {
            (_, Some(_)) => "not reached",
            (true, None) => "reached",
            (false, None) => "made by a run",
        };
        let side = side(if location.is_target { "target" } else { "source" }, language);
        [text(&location.location), side.unwrap_or_default().to_owned(), phrase(language, state)]
    });
    table(["LOCATION", "SIDE", "STATE"], rows)
}

/// Describes a dry run: its changes, then its report.
fn plan_words(report: &Value, changes: &[PreviewChange], is_cut: bool) -> String {
    let rows = changes.iter().map(|change| [change.change.clone(), text(&change.path)]);
    let changes = if changes.is_empty() { String::new() } else { table(["CHANGE", "PATH"], rows) + "\n" };
    if is_cut {
        let words = format!("only the first {PREVIEW_CHANGES_MAX} changes are listed");
        output::tell_translated(&messages::note(&words));
    }
    match text_of_json(report.to_string().as_bytes(), Language::from_environment()) {
        Ok(page) => changes + &page,
        // It is of another version of hakobu.
        Err(_) => format!("{changes}{report:#}\n"),
    }
}

/// Describes a prediction: one between machines, or the figures of stores.
fn prediction_words(report: &Value) -> String {
    let at = |path: &str| report.pointer(path).filter(|value| !value.is_null());
    let rate = |path: &str| at(path).and_then(Value::as_f64).map(format_rate);
    let name = |path: &str| at(path).and_then(Value::as_str).map(str::to_owned);
    let time = |path: &str| {
        let seconds = at(path).and_then(Value::as_f64)?;
        Some(span(0, (seconds * 1000.0) as u64))
    };
    let error = |path: &str| {
        let words = [name(&format!("{path}/at")), name(&format!("{path}/error"))];
        Some(words.into_iter().flatten().collect::<Vec<_>>().join(": ")).filter(|words| !words.is_empty())
    };
    let least = if at("/prediction/at_least") == Some(&Value::Bool(true)) { "at least " } else { "" };
    let predicted = rate("/prediction/bytes_per_second").map(|rate| format!("{least}{rate}"));
    let rows = [
        ("obstacle", error("/obstacle").or_else(|| error("/requests/error"))),
        ("rate", predicted),
        ("limited by", name("/prediction/limited_by")),
        ("one file", time("/prediction/file/span/seconds")),
        ("first copy", time("/prediction/tree/first_copy/seconds")),
        ("unchanged", time("/prediction/tree/unchanged/seconds")),
        ("source", rate("/source_store/bytes_per_second")),
        ("target", rate("/target_store/bytes_per_second")),
        ("error", error("/error")),
    ];
    let known = rows.into_iter().filter_map(|(name, value)| Some((name, value?)));
    known.map(|(name, value)| field(name, COLUMNS, &hakobu_core::path::lossy(value.as_bytes()))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn predictions_tell_what_is_known() {
        let words = prediction_words(&json!({
            "obstacle": {"at": "/b\u{1b}", "error": "it is read-only", "kind": "read_only"},
            "prediction": {
                "bytes_per_second": 2e6, "at_least": true, "limited_by": "target write",
                "file": null, "tree": {"first_copy": {"seconds": 90.0}, "unchanged": {"seconds": null}},
            },
            "error": null,
        }));
        let lines = [
            "obstacle      /b\\u{1b}: it is read-only",
            "rate          at least 2.00 MB/s",
            "limited by    target write",
            "first copy    1 min 30 s",
        ];
        assert_eq!(words.lines().collect::<Vec<_>>(), lines);
        let store = json!({"target_store": {"bytes_per_second": 3_000_000}, "requests": {"error": {"error": "no access"}}});
        assert_eq!(prediction_words(&store), "obstacle      no access\ntarget        3.00 MB/s\n");
    }
}
