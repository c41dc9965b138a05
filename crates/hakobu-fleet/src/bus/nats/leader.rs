//! The control plane's end of the bus between machines.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

use super::connecting::{LinkForm, connect};
use super::group_task::GroupTask;
use super::link::{LinkObserver, NatsLink, NatsState};
use super::link_error::link_error;
use super::offer_stream::{OfferStream, SharedPlace};
use super::settings::NatsSettings;
use super::{random_number, runtime, subjects};
use crate::bus::{BusTrouble, CallSink, LeaderBus};
use crate::names::GroupName;

/// The maximum number of offers of a group that wait to be published. Further ones are made again.
const OFFERS_MAX: usize = 64;
/// The maximum number of messages of a group that wait to be read.
const MESSAGES_MAX: usize = 256;
/// The time in which answers that are on their way are sent at the end.
const END_LIMIT: Duration = Duration::from_secs(1);

/// A group, and the way to its brokers.
#[derive(Clone, Debug)]
pub struct NatsGroup {
    /// The name.
    pub name: GroupName,
    /// The servers and credentials.
    pub settings: NatsSettings,
    /// The number of servers that keep the stream of offers; None: three in a cluster, and one otherwise.
    pub replicas: Option<usize>,
}

/// The control plane's end, with a connection for each group.
pub struct NatsLeaderBus {
    /// Taken at the end.
    runtime: Option<Runtime>,
    groups: BTreeMap<GroupName, GroupEnd>,
    leading: watch::Sender<bool>,
}

struct GroupEnd {
    offers: mpsc::Sender<Vec<u8>>,
    link: Arc<NatsLink>,
}

impl NatsLeaderBus {
    /// Starts to connect, and answers brokers as soon as there is a connection and this control plane leads. Trouble is told
    /// to the observer.
    ///
    /// # Errors
    /// `Usage` if a group is named twice; `Io` if the system gives no threads.
    pub fn start(
        groups: Vec<NatsGroup>,
        sink: &Arc<dyn CallSink>,
        observer: &LinkObserver,
        leads: bool,
    ) -> Result<Self> {
        let runtime = runtime()?;
        let leading = watch::Sender::new(leads);
        let mut ends = BTreeMap::new();
        for NatsGroup { name, settings, replicas } in groups {
            let link =
                Arc::new(NatsLink::new(format!("{} for group {name}", settings.shown()), observer.clone()));
            let form = LinkForm {
                name: "hakobu serve".to_owned(),
                inbox_prefix: subjects::own_replies(&name),
                waiting_max: MESSAGES_MAX,
            };
            runtime.spawn(connect(link.clone(), settings, form));
            let place = SharedPlace::default();
            let task = GroupTask::new(name.clone(), link.clone(), sink.clone(), place.clone());
            runtime.spawn(task.run(random_number()?, leading.subscribe()));
            let (offers, taken) = mpsc::channel(OFFERS_MAX);
            let stream = OfferStream { group: name.clone(), link: link.clone(), replicas, place };
            runtime.spawn(stream.run(taken, leading.subscribe()));
            if ends.insert(name.clone(), GroupEnd { offers, link }).is_some() {
                let error = Error::new(ErrorKind::Usage, "connecting to NATS", "a group is named twice");
                return Err(error.at(name.as_str()));
            }
        }
        Ok(Self { runtime: Some(runtime), groups: ends, leading })
    }

    /// Begins to answer brokers, or ends it. The connections stay.
    pub fn set_leading(&self, leads: bool) {
        self.leading.send_replace(leads);
    }

    /// Returns the state of the connection of each group.
    pub fn states(&self) -> BTreeMap<GroupName, NatsState> {
        self.groups.iter().map(|(name, end)| (name.clone(), end.link.state())).collect()
    }
}

impl LeaderBus for NatsLeaderBus {
    fn offer(&self, group: &GroupName, offer: Vec<u8>) {
        if let Some(end) = self.groups.get(group) {
            // One that does not fit is made again.
            let _is_full = end.offers.try_send(offer);
        }
    }

    fn troubles(&self) -> Vec<BusTrouble> {
        let trouble = |(group, end): (&GroupName, &GroupEnd)| {
            Some(BusTrouble { group: group.clone(), error: link_error(&end.link)? })
        };
        self.groups.iter().filter_map(trouble).collect()
    }
}

impl Drop for NatsLeaderBus {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        for end in self.groups.values() {
            if let Some(client) = end.link.client() {
                let flushing = async { tokio::time::timeout(END_LIMIT, client.flush()).await };
                let _is_late = runtime.block_on(flushing);
            }
        }
        runtime.shutdown_timeout(END_LIMIT);
    }
}
