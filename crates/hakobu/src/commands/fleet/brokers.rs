//! `fleet brokers`.

use std::time::Duration;

use hakobu_core::error::Result;
use hakobu_fleet::api::byte_text::ByteText;
use hakobu_fleet::api::fleet_view::BrokerView;
use hakobu_fleet::client::{FleetClient, escaped};

use super::arguments::BrokersVerb;
use super::printing::{NOTHING, json_lines, state_name, table, text, time};
use crate::language::Language;
use crate::translation::{localized, phrase};

/// The maximum number of brokers that are listed.
const LISTED_MAX: usize = 10_000;

/// Carries out an action; returns what is to be printed.
pub(super) fn brokers(client: &FleetClient, verb: &BrokersVerb, json: bool) -> Result<String> {
    let order = |method: &str, name: &str, action: &str| {
        let path = format!("/api/v1/brokers/{}{action}", escaped(name.as_bytes()));
        client.order(method, &path, None::<&()>).map(|()| String::new())
    };
    match verb {
        BrokersVerb::List { group } => {
            let query: Vec<_> = group.as_deref().map(|group| ("group", group)).into_iter().collect();
            let brokers: Vec<BrokerView> = client.list("/api/v1/brokers", &query, LISTED_MAX)?;
            if json {
                return json_lines(&brokers);
            }
            let rows = brokers.iter().map(|broker| {
                [
                    broker.name.clone(),
                    broker.group.clone(),
                    state_name(&broker.state),
                    format!("{}/{}", broker.units, broker.slots),
                    broker.version.clone(),
                    reach_words(&broker.reaches, broker.slots > 0),
                    time(Some(broker.last_seen_ms)),
                ]
            });
            let mut shown =
                table(["BROKER", "GROUP", "STATE", "UNITS", "VERSION", "REACHES", "LAST SEEN"], rows);
            let language = Language::from_environment();
            let remarks =
                brokers.iter().flat_map(|broker| [refusal(broker, language), clock(broker, language)]);
            let remarks: Vec<_> = remarks.flatten().collect();
            if !remarks.is_empty() {
                shown.push_str(&format!("\n{}\n", remarks.join("\n")));
            }
            Ok(shown)
        }
        BrokersVerb::Drain { name } => order("POST", name, "/drain"),
        BrokersVerb::Undrain { name } => order("POST", name, "/undrain"),
        BrokersVerb::Forget { name } => order("DELETE", name, ""),
    }
}

/// Describes the locations that brokers reach; `is_known` if they are there.
pub(super) fn reach_words(reaches: &[ByteText], is_known: bool) -> String {
    match (reaches, is_known) {
        (_, false) => NOTHING.to_owned(),
        ([], true) => phrase(Language::from_environment(), "everything"),
        (reaches, true) => reaches.iter().map(text).collect::<Vec<_>>().join(", "),
    }
}

/// Describes why a broker is refused, if it is.
fn refusal(broker: &BrokerView, language: Language) -> Option<String> {
    let refused = broker.refused?;
    Some(localized!(
        language,
        "{} is refused since {}: it speaks form {} of the messages, and the control plane form {}; let both run the same version \
         of hakobu",
        broker.name,
        time(Some(refused.since_ms)),
        refused.form,
        refused.own_form,
    ))
}

/// Describes the clock of a broker, if it is wrong or that of the control plane is.
fn clock(broker: &BrokerView, language: Language) -> Option<String> {
    let ahead_s = broker.clock_ahead_s?;
    let difference = language.duration(Duration::from_secs(ahead_s.unsigned_abs()));
    Some(match ahead_s > 0 {
        true => localized!(
            language,
            "the clock of {} is {} ahead of the control plane's",
            broker.name,
            difference
        ),
        false => {
            localized!(language, "the clock of {} is {} behind the control plane's", broker.name, difference)
        }
    })
}
