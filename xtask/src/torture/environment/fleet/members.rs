//! The brokers of a fleet.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use anyhow::ensure;
use rustix::process::Signal;

use super::super::watched_process::WatchedProcess;
use super::{FleetPlace, GROUP};

/// The number of brokers.
const BROKERS: usize = 3;
/// The length of the ranges of large files at least: one chunk of the engine.
const LEAST_RANGE_BYTES: &str = "4194304";
/// The time in which a broker that was asked to end has ended.
const END_LIMIT: Duration = Duration::from_secs(40);

/// The brokers, by their names. One that was killed is missing until it is started again.
#[derive(Debug)]
pub(super) struct FleetMembers {
    place: FleetPlace,
    nats: String,
    brokers: BTreeMap<String, WatchedProcess>,
}

impl FleetMembers {
    /// Starts the brokers.
    pub(super) fn start(place: &FleetPlace, nats: &str) -> anyhow::Result<Self> {
        let mut members = Self { place: place.clone(), nats: nats.to_owned(), brokers: BTreeMap::new() };
        members.start_missing()?;
        Ok(members)
    }

    /// Returns the number of brokers.
    pub(super) fn count(&self) -> usize {
        BROKERS
    }

    /// Returns the names of all brokers.
    pub(super) fn names(&self) -> impl Iterator<Item = String> + use<> {
        (0..BROKERS).map(|number| format!("b{number}"))
    }

    /// Starts those that are missing.
    pub(super) fn start_missing(&mut self) -> anyhow::Result<()> {
        for name in self.names() {
            if !self.brokers.contains_key(&name) {
                let range = ["--least-range", LEAST_RANGE_BYTES];
                let words = ["broker", "--group", GROUP, "--name", &name, "--nats", &self.nats];
                let words = [&words[..], &range].concat();
                let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
                let process = self.place.start(&name, &words)?;
                self.brokers.insert(name, process);
            }
        }
        Ok(())
    }

    /// Kills a broker. Returns true if it was there.
    pub(super) fn kill(&mut self, name: &str) -> bool {
        self.brokers.remove(name).is_some()
    }

    /// Kills all brokers.
    pub(super) fn kill_all(&mut self) {
        self.brokers.clear();
    }

    /// Sends a signal to a broker. Returns true if it is there.
    pub(super) fn signal(&self, name: &str, signal: Signal) -> bool {
        let broker = self.brokers.get(name);
        if let Some(broker) = broker {
            broker.signal(signal);
        }
        broker.is_some()
    }

    /// Waits until a broker that was asked to end has ended.
    pub(super) fn wait_for_end(&mut self, name: &str) -> anyhow::Result<()> {
        if let Some(broker) = self.brokers.remove(name) {
            ensure!(broker.waits_for_end(END_LIMIT), "{name} does not end as asked: {}", broker.log());
        }
        Ok(())
    }

    /// Returns the names of those that have ended by themselves.
    pub(super) fn ended(&self) -> impl Iterator<Item = String> {
        self.brokers.iter().filter(|(_, broker)| broker.has_ended()).map(|(name, _)| name.clone())
    }
}
