//! The bus inside of one process.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};

use super::{BrokerBus, HeldOffer, IncomingCall, LeaderBus};
use crate::control_loop::ControlHandle;
use crate::names::GroupName;

/// The maximum number of offers that wait in a group. Further ones are made again.
const OFFERS_MAX: usize = 64;
/// The operation that errors name.
const CALLING: &str = "asking the control plane";

/// The queue of one group.
struct OfferQueue {
    put: SyncSender<Vec<u8>>,
    take: Arc<Mutex<Receiver<Vec<u8>>>>,
}

/// The bus inside of one process.
pub struct LocalBus {
    control: ControlHandle,
    queues: Mutex<BTreeMap<GroupName, OfferQueue>>,
}

/// A broker's end.
pub struct LocalBrokerBus {
    group: GroupName,
    control: ControlHandle,
    offers: Arc<Mutex<Receiver<Vec<u8>>>>,
}

struct LocalOffer(Vec<u8>);

impl LocalBus {
    /// Creates a bus whose requests go to a leader.
    pub fn new(control: ControlHandle) -> Self {
        Self { control, queues: Mutex::default() }
    }

    /// Returns an end for a broker of a group.
    pub fn broker(&self, group: &GroupName) -> LocalBrokerBus {
        let offers = self.queue(group, |queue| queue.take.clone());
        LocalBrokerBus { group: group.clone(), control: self.control.clone(), offers }
    }

    fn queue<T>(&self, group: &GroupName, then: impl FnOnce(&OfferQueue) -> T) -> T {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        then(queues.entry(group.clone()).or_insert_with(|| {
            let (put, take) = sync_channel(OFFERS_MAX);
            OfferQueue { put, take: Arc::new(Mutex::new(take)) }
        }))
    }
}

impl LeaderBus for LocalBus {
    fn offer(&self, group: &GroupName, offer: Vec<u8>) {
        // One that does not fit is made again.
        let _is_full = self.queue(group, |queue| queue.put.try_send(offer));
    }
}

impl BrokerBus for LocalBrokerBus {
    fn call(&self, bytes: Vec<u8>, limit: Duration) -> Result<Vec<u8>> {
        let (put, answer) = sync_channel(1);
        let reply = Box::new(move |bytes| {
            let _nobody_waits = put.try_send(bytes);
        });
        let call = IncomingCall { group: self.group.clone(), broker: None, bytes, reply };
        self.control.call(call)?;
        answer.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => Error::new(ErrorKind::TimedOut, CALLING, "there is no answer"),
            RecvTimeoutError::Disconnected => gone(),
        })
    }

    fn next_offer(&self, limit: Duration) -> Result<Option<Box<dyn HeldOffer>>> {
        let offers = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
        match offers.recv_timeout(limit) {
            Ok(bytes) => Ok(Some(Box::new(LocalOffer(bytes)))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
        }
    }
}

impl HeldOffer for LocalOffer {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn keep(&mut self) {}

    fn end(self: Box<Self>) {}
}

fn gone() -> Error {
    Error::new(ErrorKind::ConnectionLost, CALLING, "it has ended")
}
