//! The traits of places that hold data: an endpoint is opened once, its lanes do the work, each owned by one thread.
//!
//! A lane is a pair of queues, as NVMe, io_uring or NFS have it: [`Lane::submit`] hands over an operation with its
//! buffers, [`Lane::reap`] gives back what has been completed. A local lane completes inside `submit`; a lane that crosses
//! a network has many operations under way.
//!
//! A source owes what [`SourceOp`] lists and a target what [`TargetOp`] does; what an endpoint's
//! [`Capabilities`] deny is never asked of it.

mod change;
mod draft;
mod lane;
mod source;
mod target;

use std::time::Duration;

use crate::capabilities::Capabilities;
use crate::error::{Error, Result};
use crate::event::Failure;
pub use crate::listing::Detail;
pub use crate::piece_buffer::{PIECE_ALIGNMENT, PieceBuffer};
pub use change::Change;
pub use draft::{Begin, Begun, Check, DraftId, DraftKind, Earlier};
pub use lane::{Completion, Lane, Operation, Ticket, Wait};
pub use source::{Fetched, Pick, Picks, Portion, SourceFile, SourceLane, SourceOp, SourceOutcome};
pub use target::{TargetLane, TargetOp, TargetOutcome};

/// A place that can hold data, opened.
pub trait Endpoint: Send + Sync {
    /// Returns what it can do.
    fn capabilities(&self) -> &Capabilities;

    /// Returns true if a further lane is to be opened now. `has_work`: there is something that no lane has taken. Asked
    /// again and again, so an end whose lanes take long to open can wait until one is worth it, or until somebody else has
    /// made it.
    fn may_open_lane(&self, has_work: bool) -> bool {
        let _ = has_work;
        true
    }

    /// Returns what has arrived so far over the connections of all lanes; `None` where nobody knows. Called from any
    /// thread.
    fn passed(&self) -> Option<Passed> {
        None
    }

    /// Says that the work is done: lanes that are being opened may give up. Called from any thread.
    fn lanes_are_complete(&self) {}

    /// Makes lanes fail that wait for a peer. The run has failed already; called from any thread.
    fn interrupt(&self) {}
}

/// An endpoint that is read.
pub trait SourceEndpoint: Endpoint {
    /// Opens a lane for one thread. `index` counts from 0.
    ///
    /// # Errors
    /// When it cannot be opened, such as a connection that is refused.
    fn open_source_lane(&self, index: usize) -> Result<Box<dyn SourceLane>>;

    /// Tells in which steps the ends of the run keep times. What was changed within a step of the moment that it is read
    /// could be changed again without another time.
    fn meet_time_step(&self, step_ns: u32) {
        let _ = step_ns;
    }
}

/// An endpoint that is written.
pub trait TargetEndpoint: Endpoint {
    /// Opens a lane for one thread. `index` counts from 0.
    ///
    /// # Errors
    /// When it cannot be opened, such as a connection that is refused.
    fn open_target_lane(&self, index: usize) -> Result<Box<dyn TargetLane>>;

    /// Returns true if lanes had better write to different files, since those who write to one wait for each other.
    fn spreads_writers(&self) -> bool {
        false
    }
}

/// What has passed over the connections to an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Bytes that have arrived there, in all, overhead included.
    pub bytes: u64,
    /// Segments that had to be sent again, in all.
    pub sent_again: u64,
    /// The round trip now, the mean of the connections'.
    pub round_trip: Duration,
    /// The shortest that they have seen lately, the mean again.
    pub round_trip_least: Duration,
}

/// A failure at a path, for outcomes that name paths.
pub fn failure(path: impl AsRef<[u8]>, error: Error) -> Failure {
    Failure { path: path.as_ref().to_vec(), error }
}
