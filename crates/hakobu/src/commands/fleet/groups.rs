//! `fleet groups`.

use hakobu_core::error::Result;
use hakobu_fleet::api::fleet_view::GroupView;
use hakobu_fleet::api::listing::ListPage;
use hakobu_fleet::client::FleetClient;

use super::arguments::GroupsVerb;
use super::brokers::reach_words;
use super::limits::words;
use super::printing::{NOTHING, count, json_lines, table};

/// Carries out an action; returns what is to be printed.
pub(super) fn groups(client: &FleetClient, verb: &GroupsVerb, json: bool) -> Result<String> {
    let GroupsVerb::List = verb;
    let groups: ListPage<GroupView> = client.get("/api/v1/groups")?;
    if json {
        return json_lines(&groups.items);
    }
    let rows = groups.items.iter().map(|group| {
        let limits = group.limits.as_ref().map(words).filter(|words| !words.is_empty());
        [
            group.name.clone(),
            count(group.brokers),
            count(group.brokers_away),
            format!("{}/{}", group.units, group.slots),
            count(group.runs),
            count(group.relationships),
            reach_words(&group.reaches, group.brokers > 0),
            limits.unwrap_or_else(|| NOTHING.to_owned()),
        ]
    });
    Ok(table(["GROUP", "BROKERS", "AWAY", "UNITS", "RUNS", "RELATIONSHIPS", "REACHES", "LIMITS"], rows))
}
