//! Metrics of the fleet for Prometheus.

use std::sync::atomic::Ordering;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use super::fleet_status::TroubleKind;
use super::state::ApiState;

type Labels = Vec<(&'static str, String)>;

/// Returns all metrics in the text format.
///
/// # Errors
/// Those of formatting, which do not occur.
pub fn text(state: &ApiState) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::with_prefix("hakobu_fleet");
    fleet(state, &mut registry);
    requests(state, &mut registry);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

fn family(registry: &mut Registry, name: &str, help: &str) -> Family<Labels, Gauge> {
    let family = Family::<Labels, Gauge>::default();
    registry.register(name, help, family.clone());
    family
}

fn add(family: &Family<Labels, Gauge>, labels: &Labels, value: u64) {
    family.get_or_create(labels).inc_by(i64::try_from(value).unwrap_or(i64::MAX));
}

fn fleet(state: &ApiState, registry: &mut Registry) {
    let overview = state.overview();
    let relationships = family(registry, "relationships", "Relationships by the state of their last run");
    for entry in overview.relationships.values() {
        add(&relationships, &vec![("state", name_of(&entry.state()))], 1);
    }
    let brokers = family(registry, "brokers", "Brokers by group and state");
    let slots = family(registry, "slots", "Units that brokers could take at a time");
    let units = family(registry, "units_leased", "Units that brokers work on");
    for broker in overview.brokers.values() {
        let group = || ("group", broker.group.clone());
        add(&brokers, &vec![group(), ("state", name_of(&broker.state))], 1);
        add(&slots, &vec![group()], broker.slots);
        add(&units, &vec![group()], broker.units);
    }
    let runs = family(registry, "runs_open", "Runs under way by group and state");
    let bytes = family(registry, "bytes_per_second", "Present rate of the runs under way in bytes");
    let entries = family(registry, "entries_per_second", "Present rate of the runs under way in entries");
    let open = family(registry, "units_open", "Units of runs under way that are not committed");
    let failures = family(registry, "failures_open", "Entries that failed in the runs under way");
    for run in overview.runs.values() {
        let view = &run.view;
        let group = || ("group", view.group.clone());
        add(&runs, &vec![group(), ("state", name_of(&view.state))], 1);
        let left = view.units.added.saturating_sub(view.units.committed).saturating_sub(view.units.given_up);
        add(&open, &vec![group()], left);
        add(&failures, &vec![group()], view.failures);
        if let Some(progress) = &view.progress {
            add(&bytes, &vec![group()], progress.bytes_per_second);
            add(&entries, &vec![group()], progress.entries_per_second);
        }
    }
    let works = ConstGauge::new(i64::from(overview.status.works(TroubleKind::Ledger)));
    registry.register("ledger_up", "1 if the ledger works", works);
    let away = overview.status.troubles.iter().filter(|trouble| trouble.kind == TroubleKind::Nats).count();
    let away = ConstGauge::new(i64::try_from(away).unwrap_or(i64::MAX));
    registry.register("nats_groups_down", "Groups whose connection to NATS does not work", away);
    let seen = ConstGauge::new(overview.seen.get() as f64 / 1000.0);
    registry.register("last_look_seconds", "Moment of the last look at the leader", seen);
}

fn requests(state: &ApiState, registry: &mut Registry) {
    let counts = &state.counts;
    let requests = Family::<Labels, prometheus_client::metrics::counter::Counter>::default();
    registry.register("http_requests", "Requests by the class of their status", requests.clone());
    for (class, count) in counts.by_status() {
        requests.get_or_create(&vec![("class", format!("{class}xx"))]).inc_by(count);
    }
    let (classes, sum_s) = counts.durations();
    let within = Family::<Labels, prometheus_client::metrics::counter::Counter>::default();
    registry.register(
        "http_requests_within",
        "Requests that were answered within so many seconds",
        within.clone(),
    );
    for (limit_ms, count) in classes {
        within.get_or_create(&vec![("seconds", (limit_ms as f64 / 1000.0).to_string())]).inc_by(count);
    }
    registry.register("http_seconds", "Time of all requests", ConstCounter::new(sum_s));
    let refused = ConstCounter::new(counts.refused_logins.load(Ordering::Relaxed));
    registry.register("logins_refused", "Attempts to sign in that failed", refused);
    let sessions = ConstGauge::new(i64::try_from(state.sessions().len()).unwrap_or(i64::MAX));
    registry.register("sessions", "Sessions of the page", sessions);
    let watching = ConstGauge::new(i64::try_from(state.events.readers()).unwrap_or(i64::MAX));
    registry.register("watchers", "Streams of events", watching);
}

/// Returns the name of a state as in JSON.
fn name_of(state: &impl serde::Serialize) -> String {
    serde_json::to_value(state).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
