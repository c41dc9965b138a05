//! `fleet brokers`.

use hakobu_core::error::Result;
use hakobu_fleet::api::fleet_view::BrokerView;
use hakobu_fleet::client::{FleetClient, escaped};

use super::arguments::BrokersVerb;
use super::printing::{json_lines, name_of, table, time};

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
                    name_of(&broker.state),
                    format!("{}/{}", broker.units, broker.slots),
                    broker.version.clone(),
                    time(Some(broker.last_seen_ms)),
                ]
            });
            Ok(table(["BROKER", "GROUP", "STATE", "UNITS", "VERSION", "LAST SEEN"], rows))
        }
        BrokersVerb::Drain { name } => order("POST", name, "/drain"),
        BrokersVerb::Undrain { name } => order("POST", name, "/undrain"),
        BrokersVerb::Forget { name } => order("DELETE", name, ""),
    }
}
