//! The machines and stores that content passes on its way from the source to the target.

use hakobu_core::event::Event;

use crate::host::Host;
use crate::opening::TransferHosts;

/// The name of this machine in routes.
const HERE: &str = "this machine";

/// The route of content, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentRoute {
    /// The names of the machines and stores, in order.
    pub machines: Vec<String>,
    reason: String,
}

impl ContentRoute {
    /// Returns the route between the hosts of a copy that need no relay.
    pub fn of(hosts: &TransferHosts) -> Self {
        let (source, target) = (name(&*hosts.source), name(hosts.target()));
        let shares = || hosts.target().capabilities().shares_with(&hosts.source.capabilities());
        let is_here = [&*hosts.source, hosts.target()].map(Host::is_here);
        let (machines, reason) = match (&hosts.store_agent, &hosts.target) {
            (Some(agent), _) => {
                (vec![source, target], format!("{} opens the store, as asked (--open-at)", agent.name()))
            }
            (None, None) => (vec![source], "both ends are there".to_owned()),
            (None, Some(_)) if is_here.contains(&true) => {
                (vec![source, target], "one end is on this machine".to_owned())
            }
            (None, Some(_)) if hosts.have_agents() => {
                (vec![source, target], "the hosts connect to each other".to_owned())
            }
            (None, Some(_)) if in_stores(hosts) && shares().is_some() => {
                (vec![source, target], "the store copies by itself what it does not refuse".to_owned())
            }
            (None, Some(_)) => {
                let mut reason = "this machine opens both ends".to_owned();
                if let Some(end) = with_agent_possible(hosts) {
                    reason.push_str(&format!("; with --open-at {end} the data would not pass through it"));
                }
                (vec![source, HERE.to_owned(), target], reason)
            }
        };
        Self { machines, reason }
    }

    /// Returns the route with this machine as a relay between both ends.
    #[must_use]
    pub fn relayed(mut self) -> Self {
        self.machines.insert(1, HERE.to_owned());
        Self {
            reason: "neither host reaches the other; this machine cannot read the data".to_owned(),
            ..self
        }
    }

    /// Returns the event that tells it.
    pub fn decision(&self) -> Event {
        Event::Decision {
            choice: format!("route: {}", self.machines.join(" -> ")),
            reason: self.reason.clone(),
        }
    }
}

fn name(host: &dyn Host) -> String {
    if host.is_here() { HERE.to_owned() } else { host.name() }
}

fn in_stores(hosts: &TransferHosts) -> bool {
    [&*hosts.source, hosts.target()].into_iter().all(Host::is_store)
}

/// Returns the end whose host could open the store at the other one.
fn with_agent_possible(hosts: &TransferHosts) -> Option<&'static str> {
    match (hosts.source.is_store(), hosts.target().is_store()) {
        (false, true) => Some("source"),
        (true, false) => Some("target"),
        _ => None,
    }
}
