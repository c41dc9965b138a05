//! `fleet limits`.

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::units::{format_rate, parse_bytes};
use hakobu_fleet::api::byte_text::ByteText;
use hakobu_fleet::api::fleet_view::{EndpointLimits, EndpointLimitsInput, GroupView};
use hakobu_fleet::api::listing::ListPage;
use hakobu_fleet::api::run_view::RunDetail;
use hakobu_fleet::client::{FleetClient, escaped};
use hakobu_fleet::endpoint_location::EndpointLocation;
use hakobu_fleet::limits_setting::LimitsSetting;

use super::arguments::{FleetLimits, LimitsVerb};
use super::printing::{count, json_lines, table, text};

/// The path of the limits of endpoints.
const ENDPOINTS: &str = "/api/v1/endpoint-limits";

impl FleetLimits {
    fn is_empty(&self) -> bool {
        self.rate.is_none()
            && self.operations.is_none()
            && self.source_p99.is_none()
            && self.brokers.is_none()
    }

    fn onto(&self, before: Option<&LimitsSetting>) -> Result<LimitsSetting> {
        let limits =
            read_limits((self.rate.as_deref(), self.operations), (self.source_p99, self.brokers), before)?;
        Ok(limits.unwrap_or_default())
    }
}

/// Carries out an action; returns what is to be printed.
pub(super) fn limits(client: &FleetClient, verb: &LimitsVerb, json: bool) -> Result<String> {
    let (path, before, typed) = match verb {
        LimitsVerb::Endpoint { location, limits } => {
            return endpoint(client, location.as_encoded_bytes(), limits);
        }
        LimitsVerb::Endpoints => return endpoints(client, json),
        LimitsVerb::Run { id, limits } => {
            let detail: RunDetail = client.get(&format!("/api/v1/runs/{id}"))?;
            (format!("/api/v1/runs/{id}/limits"), detail.limits, limits)
        }
        LimitsVerb::Group { name, limits } => {
            let groups: ListPage<GroupView> = client.get("/api/v1/groups")?;
            let before = groups.items.into_iter().find(|group| group.name == *name);
            let path = format!("/api/v1/groups/{}/limits", escaped(name.as_bytes()));
            (path, before.and_then(|group| group.limits), limits)
        }
    };
    if typed.is_empty() {
        return Ok(shown(before.as_ref()));
    }
    client.order("PUT", &path, Some(&typed.onto(before.as_ref())?)).map(|()| String::new())
}

/// Returns limits as they are printed.
fn shown(limits: Option<&LimitsSetting>) -> String {
    let words = limits.map(words).filter(|words| !words.is_empty());
    format!("{}\n", words.unwrap_or_else(|| "no limits".to_owned()))
}

/// Shows or sets the limits of an endpoint.
fn endpoint(client: &FleetClient, location: &[u8], typed: &FleetLimits) -> Result<String> {
    let location = ByteText(EndpointLocation::new(location)?.as_bytes().to_vec());
    let all: ListPage<EndpointLimits> = client.get(ENDPOINTS)?;
    let before = all.items.into_iter().find(|endpoint| endpoint.location == location);
    let before = before.map(|endpoint| endpoint.limits);
    if typed.is_empty() {
        return Ok(shown(before.as_ref()));
    }
    let input = EndpointLimitsInput { location, limits: typed.onto(before.as_ref())? };
    client.order("PUT", ENDPOINTS, Some(&input)).map(|()| String::new())
}

/// Lists the limits of endpoints.
fn endpoints(client: &FleetClient, json: bool) -> Result<String> {
    let all: ListPage<EndpointLimits> = client.get(ENDPOINTS)?;
    if json {
        return json_lines(&all.items);
    }
    let rows = all
        .items
        .iter()
        .map(|endpoint| [text(&endpoint.location), count(endpoint.runs), words(&endpoint.limits)]);
    Ok(table(["LOCATION", "RUNS", "LIMITS"], rows))
}

/// Describes limits; empty if there are none.
pub(super) fn words(limits: &LimitsSetting) -> String {
    let mut words = Vec::new();
    words.extend(limits.paused.then(|| "paused".to_owned()));
    words.extend(limits.bytes_per_second.map(|rate| format_rate(rate as f64)));
    words.extend(limits.operations_per_second.map(|count| format!("{count} operations/s")));
    words.extend(limits.source_p99_ms.map(|ms| format!("source reads up to {ms} ms")));
    words.extend(limits.brokers.map(|count| format!("{count} brokers")));
    words.join(", ")
}

/// Returns limits with those that were typed.
///
/// # Errors
/// `Usage` for a rate that is none.
pub(super) fn read_limits(
    (rate, operations): (Option<&str>, Option<u32>),
    (source_p99, brokers): (Option<f64>, Option<u32>),
    before: Option<&LimitsSetting>,
) -> Result<Option<LimitsSetting>> {
    let mut limits = before.cloned().unwrap_or_default();
    match rate {
        None => {}
        Some("off") => limits.bytes_per_second = None,
        Some(text) => {
            let rate = parse_bytes(text).map_err(|error| {
                Error::new(ErrorKind::Usage, "reading the rate", error.to_string()).at(text)
            })?;
            limits.bytes_per_second = Some(rate);
        }
    }
    limits.operations_per_second = operations
        .filter(|count| *count > 0)
        .or_else(|| limits.operations_per_second.filter(|_| operations.is_none()));
    limits.source_p99_ms =
        source_p99.filter(|ms| *ms > 0.0).or_else(|| limits.source_p99_ms.filter(|_| source_p99.is_none()));
    limits.brokers =
        brokers.filter(|count| *count > 0).or_else(|| limits.brokers.filter(|_| brokers.is_none()));
    Ok((before.is_some() || limits != LimitsSetting::default()).then_some(limits))
}
