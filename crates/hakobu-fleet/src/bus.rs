//! The bus between brokers and the leader. It only carries: the loss of everything on it costs time, nothing else.

pub mod local;
pub mod nats;

use std::time::Duration;

use hakobu_core::error::{Error, Result};

use crate::names::{BrokerName, GroupName};

/// A request that has arrived at the leader.
pub struct IncomingCall {
    /// The group of the broker, as the bus knows it.
    pub group: GroupName,
    /// The name of the broker, if the bus knows it. A request with another one is refused.
    pub broker: Option<BrokerName>,
    /// The bytes of a [`crate::message::BrokerCall`], not checked.
    pub bytes: Vec<u8>,
    /// Takes the answer.
    pub reply: ReplyTo,
}

/// Takes the bytes of one answer. It does not block.
pub type ReplyTo = Box<dyn FnOnce(Vec<u8>) + Send>;

/// Takes the requests of brokers: the queue of the leader, or what stands for it in a test.
pub trait CallSink: Send + Sync {
    /// Passes a request on. It does not block.
    ///
    /// # Errors
    /// `TimedOut` if too many wait, and `ConnectionLost` if nobody takes them any more. The request is dropped.
    fn pass_on(&self, call: IncomingCall) -> Result<()>;
}

/// The leader's end of a bus.
pub trait LeaderBus: Send + Sync {
    /// Offers units to the brokers of a group, as the bytes of a [`crate::message::UnitOffer`]. An offer that is lost is made
    /// again. It does not block.
    fn offer(&self, group: &GroupName, offer: Vec<u8>);

    /// Returns what does not work now. A bus inside of one process always works.
    fn troubles(&self) -> Vec<BusTrouble> {
        Vec::new()
    }
}

/// A bus that does not work for a group.
#[derive(Clone, Debug, PartialEq)]
pub struct BusTrouble {
    /// The group.
    pub group: GroupName,
    /// The cause and the remedy.
    pub error: Error,
}

/// A broker's end of a bus.
pub trait BrokerBus: Send + Sync {
    /// Sends a request to the leader, and returns its answer.
    ///
    /// # Errors
    /// `TimedOut` if there is none within the limit, and `ConnectionLost`. The leader may have got the request.
    fn call(&self, bytes: Vec<u8>, limit: Duration) -> Result<Vec<u8>>;

    /// Waits for an offer for at most so long.
    ///
    /// # Errors
    /// `ConnectionLost`; the broker then asks without an offer.
    fn next_offer(&self, limit: Duration) -> Result<Option<Box<dyn HeldOffer>>>;
}

/// An offer that a broker holds. If it is dropped, others get it after some time.
pub trait HeldOffer: Send {
    /// Returns the bytes of a [`crate::message::UnitOffer`], not checked.
    fn bytes(&self) -> &[u8];

    /// Tells the bus that its units are being worked on.
    fn keep(&mut self);

    /// Ends the offer: its units are committed, or were gone.
    fn end(self: Box<Self>);
}
