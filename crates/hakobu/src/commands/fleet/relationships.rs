//! `fleet relationships`: their arguments, and what they do.

use std::ffi::OsString;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::path::lossy;
use hakobu_fleet::api::fleet_view::GroupReach;
use hakobu_fleet::api::next_run::NextRunForecast;
use hakobu_fleet::api::relationship_view::{
    RelationshipInput, RelationshipSummary, RelationshipUpdate, RelationshipView,
};
use hakobu_fleet::api::relationships::ScheduleStarts;
use hakobu_fleet::api::run_view::RequestView;
use hakobu_fleet::client::{FleetClient, escaped, with_query};
use hakobu_fleet::reach::named_locations;
use hakobu_fleet::run_request::LocationText;
use hakobu_fleet::schedule::{MissedStart, SCHEDULE_VERSION, ScheduleSetting};
use hakobu_fleet::start_delay::StartDelayView;

use super::arguments::{ListArguments, RelationshipSettings, RelationshipsVerb};
use super::connection::read_file;
use super::credentials::credentials;
use super::limits::read_limits;
use super::printing::{
    NOTHING, bytes, count, field, json_lines, json_object, span, state_name, table, text, time,
};
use super::request::request;
use crate::language::Language;
use crate::translation::{self, phrase};
use crate::{messages, output};

/// The maximum number of relationships that are listed.
const LISTED_MAX: usize = 100_000;

/// Carries out an action; returns what is to be printed.
pub(super) fn relationships(client: &FleetClient, verb: &RelationshipsVerb, json: bool) -> Result<String> {
    match verb {
        RelationshipsVerb::List(typed) => list(client, typed, json),
        RelationshipsVerb::Add { name, settings, command } => {
            let none = || Error::new(ErrorKind::Usage, "adding a relationship", "no group is named");
            let group = settings.group.clone().ok_or_else(|| none().hint("add --group NAME"))?;
            let mut input = RelationshipInput {
                name: name.clone(),
                group,
                request: request(command, settings.verify)?,
                schedule: None,
                limits: None,
                notification: None,
                owner: String::new(),
                credentials: Vec::new(),
            };
            apply(settings, &mut input)?;
            let added = client.send("POST", "/api/v1/relationships", &input)?;
            warn_without_broker(client, &input.group, &input.request);
            shown(&added, json)
        }
        RelationshipsVerb::Show { name } => shown(&named(client, name)?, json),
        RelationshipsVerb::Change { name, rename, settings, command } => {
            let before = named(client, name)?;
            let mut input = before.relationship;
            if let Some(name) = rename {
                input.name.clone_from(name);
            }
            if !command.is_empty() {
                input.request = request(command, settings.verify)?;
            }
            input.request.verify |= settings.verify;
            apply(settings, &mut input)?;
            let update = RelationshipUpdate { revision: before.revision, relationship: input };
            let path = format!("/api/v1/relationships/{}", before.id);
            let changed = client.send("PUT", &path, &update)?;
            if settings.group.is_some() || !command.is_empty() {
                warn_without_broker(client, &update.relationship.group, &update.relationship.request);
            }
            shown(&changed, json)
        }
        RelationshipsVerb::Remove { name } => {
            let RelationshipView { id, revision, .. } = named(client, name)?;
            let path = format!("/api/v1/relationships/{id}?revision={revision}");
            client.order("DELETE", &path, None::<&()>).map(|()| String::new())
        }
        RelationshipsVerb::Preview { schedule, time_zone, count } => {
            let setting = ScheduleSetting {
                version: SCHEDULE_VERSION,
                cron: schedule.clone(),
                time_zone: time_zone.clone(),
                blackouts: Vec::new(),
                missed: MissedStart::default(),
            };
            let path = with_query("/api/v1/schedules/preview", &[("count", &count.to_string())]);
            let starts: ScheduleStarts = client.send("POST", &path, &setting)?;
            match json {
                true => json_object(&starts),
                false => {
                    let times = starts.starts_ms.iter().map(|start| format!("{}\n", time(Some(*start))));
                    Ok(format!("{}\n{}", starts.words, times.collect::<String>()))
                }
            }
        }
        RelationshipsVerb::Forecast { name } => {
            let known = named(client, name)?;
            let path = format!("/api/v1/relationships/{}/forecast", known.id);
            let forecast: NextRunForecast = client.get(&path)?;
            if json { json_object(&forecast) } else { Ok(forecast_words(&forecast)) }
        }
    }
}

/// Describes the forecast of the next run.
fn forecast_words(forecast: &NextRunForecast) -> String {
    let NextRunForecast { runs, p50_ms, p90_ms, p50_bytes, p90_bytes } = *forecast;
    if runs == 0 {
        return phrase(Language::from_environment(), "no run of it was complete yet") + "\n";
    }
    let both = |p50: String, p90: String| format!("P50 {p50}, P90 {p90}");
    let rows = [
        ("time", both(span(0, p50_ms), span(0, p90_ms))),
        ("bytes", both(bytes(p50_bytes), bytes(p90_bytes))),
        ("from runs", count(runs)),
    ];
    rows.iter().map(|(name, value)| field(name, 11, value)).collect()
}

/// Warns of a group without brokers, or without one that reaches the locations. They may come later, so it is no error.
pub(super) fn warn_without_broker(client: &FleetClient, group: &str, request: &RequestView) {
    let path = format!("/api/v1/groups/{}/reach", escaped(group.as_bytes()));
    // The relationship is saved all the same.
    let Ok(GroupReach { brokers, reaching, unreached }) = client.send("POST", &path, request) else { return };
    if reaching > 0 {
        return;
    }
    let words = match (brokers, &unreached[..]) {
        (0, _) => format!("no broker of the group {group} is connected; runs wait until one is"),
        (_, []) => format!(
            "no broker of the group {group} that is connected reaches both source and target; runs wait until one does"
        ),
        (_, unreached) => {
            let unreached: Vec<_> =
                unreached.iter().map(|location| LocationText(location.0.clone())).collect();
            let locations = named_locations(&unreached);
            format!(
                "no broker of the group {group} that is connected reaches {locations}; runs wait until one does"
            )
        }
    };
    output::tell_translated(&messages::warning(&words));
}

fn list(client: &FleetClient, typed: &ListArguments, json: bool) -> Result<String> {
    let mut query = vec![("order", typed.order.as_str())];
    query.extend(typed.search.as_deref().map(|text| ("search", text)));
    query.extend(typed.state.as_deref().map(|states| ("state", states)));
    query.extend(typed.group.as_deref().map(|group| ("group", group)));
    let found: Vec<RelationshipSummary> = client.list("/api/v1/relationships", &query, LISTED_MAX)?;
    if json {
        return json_lines(&found);
    }
    let rows = found.iter().map(|one| {
        let source = match one.sources {
            0 | 1 => text(&one.source),
            more => format!("{} (+{})", text(&one.source), more - 1),
        };
        let last = one.last_run.as_ref();
        [
            one.name.clone(),
            one.group.clone(),
            state_name(&one.state),
            last.map_or_else(|| NOTHING.to_owned(), |run| run.id.to_string()),
            time(last.map(|run| run.started_ms)),
            time(one.next_start_ms),
            source,
            text(&one.target),
        ]
    });
    let mut shown =
        table(["NAME", "GROUP", "STATE", "RUN", "STARTED", "NEXT START", "SOURCE", "TARGET"], rows);
    let late = found.iter().filter_map(|one| Some((lossy(one.name.as_bytes()), one.delayed_start.as_ref()?)));
    let late: String = late.map(|(name, delay)| format!("{name}: {}\n", late_start(delay))).collect();
    if !late.is_empty() {
        shown.push_str(&format!("\n{late}"));
    }
    Ok(shown)
}

/// Describes a start by schedule that waits or was left out.
fn late_start(delay: &StartDelayView) -> String {
    let words = format!("the start of {} {}", time(Some(delay.planned_ms)), lossy(delay.message.as_bytes()));
    translation::text(Language::from_environment(), &words).into_owned()
}

/// Returns the relationship with a name.
///
/// # Errors
/// `NotFound`, and those of the control plane.
pub(super) fn named(client: &FleetClient, name: &str) -> Result<RelationshipView> {
    let found: Vec<RelationshipSummary> =
        client.list("/api/v1/relationships", &[("search", name)], LISTED_MAX)?;
    match found.iter().find(|one| one.name == name) {
        Some(one) => client.get(&format!("/api/v1/relationships/{}", one.id)),
        None => {
            Err(Error::new(ErrorKind::NotFound, "looking for the relationship", "there is none of this name")
                .at(name)
                .hint("hakobu fleet relationships list shows all"))
        }
    }
}

/// Puts typed settings into a relationship.
fn apply(typed: &RelationshipSettings, input: &mut RelationshipInput) -> Result<()> {
    if let Some(group) = &typed.group {
        input.group.clone_from(group);
    }
    if let Some(owner) = &typed.owner {
        input.owner.clone_from(owner);
    }
    let wrong = |words: String| Error::new(ErrorKind::Usage, "reading a setting", words);
    if let Some(file) = &typed.schedule_file {
        let setting = serde_json::from_slice(&read_file(file)?)
            .map_err(|error| wrong(error.to_string()).at(file.as_os_str().as_encoded_bytes()))?;
        input.schedule = Some(setting);
    }
    match typed.schedule.as_deref() {
        Some("") => input.schedule = None,
        Some(cron) => {
            let before = input.schedule.take();
            // The rest stays as it is.
            input.schedule = Some(match before {
                Some(before) => ScheduleSetting { cron: cron.to_owned(), ..before },
                None => ScheduleSetting {
                    version: SCHEDULE_VERSION,
                    cron: cron.to_owned(),
                    time_zone: "UTC".to_owned(),
                    blackouts: Vec::new(),
                    missed: MissedStart::default(),
                },
            });
        }
        None => {}
    }
    match (&mut input.schedule, &typed.time_zone) {
        (Some(schedule), Some(zone)) => schedule.time_zone.clone_from(zone),
        (None, Some(_)) => return Err(wrong("--time-zone: there is no schedule".to_owned())),
        (_, None) => {}
    }
    if let Some(schedule) = &mut input.schedule {
        match (typed.skip_missed, typed.run_missed) {
            (true, _) => schedule.missed = MissedStart::Skip,
            (_, true) => schedule.missed = MissedStart::RunOnce,
            _ => {}
        }
    }
    let limits = read_limits(
        (typed.limit_rate.as_deref(), typed.limit_operations),
        (typed.limit_source_p99, typed.limit_brokers),
        input.limits.as_ref(),
    )?;
    input.limits = limits;
    if let Some(file) = &typed.notify {
        let setting = serde_json::from_slice(&read_file(file)?)
            .map_err(|error| wrong(error.to_string()).at(file.as_os_str().as_encoded_bytes()))?;
        input.notification = Some(setting);
    }
    let credentials = credentials(&typed.credentials)?;
    if !credentials.is_empty() {
        input.credentials = credentials;
    }
    Ok(())
}

fn shown(view: &RelationshipView, json: bool) -> Result<String> {
    if json {
        return json_object(view);
    }
    let input = &view.relationship;
    let request = &input.request;
    let sources: Vec<String> = request.sources.iter().map(text).collect();
    let command = [
        vec![request.verb.name().to_owned()],
        request.arguments.clone(),
        sources,
        vec![text(&request.target)],
    ];
    let limits = input.limits.as_ref().map(super::limits::words).unwrap_or_default();
    let last = view.last_run.as_ref();
    let rows = [
        ("name", input.name.clone()),
        ("id", view.id.to_string()),
        ("group", input.group.clone()),
        ("owner", input.owner.clone()),
        ("state", state_name(&view.state)),
        (
            "command",
            hakobu_core::shell::quote_all(
                command.concat().into_iter().map(OsString::from).collect::<Vec<_>>(),
            ),
        ),
        ("verify", if request.verify { "yes" } else { "no" }.to_owned()),
        ("schedule", view.schedule_words.clone().unwrap_or_else(|| NOTHING.to_owned())),
        ("next start", time(view.next_start_ms)),
        ("limits", if limits.is_empty() { NOTHING.to_owned() } else { limits }),
        ("last run", last.map_or_else(|| NOTHING.to_owned(), |run| run.id.to_string())),
        ("changed", time(Some(view.changed_ms))),
    ];
    let late = view.delayed_start.as_ref().map(|delay| ("late start", late_start(delay)));
    Ok(rows.into_iter().chain(late).map(|(name, value)| field(name, 11, &value)).collect())
}
