//! The traits of endpoints, which hold data. An endpoint is opened once; its lanes do the work, each owned by one
//! thread.
//!
//! A lane is a pair of queues, as in NVMe, io_uring or NFS: [`Lane::submit`] passes an operation with its buffers,
//! [`Lane::reap`] returns what has completed. A local lane completes inside `submit`; a lane over a network has many
//! operations in flight.
//!
//! A source must support the operations in [`SourceOp`], and a target those in [`TargetOp`], except those that the
//! endpoint's [`Capabilities`] exclude.

mod change;
mod draft;
mod lane;
mod source;
mod target;

use std::time::Duration;

use crate::capabilities::Capabilities;
use crate::error::{Error, Result};
use crate::event::Failure;
use crate::extent::CHUNK_BYTES;
pub use crate::listing::Detail;
pub use crate::piece_buffer::{PIECE_ALIGNMENT, PieceBuffer};
use crate::requests::RequestCounts;
pub use change::Change;
pub use draft::{
    Check, DraftAttributes, DraftId, DraftKind, DraftParameters, Earlier, EarlierWork, SharedDraft,
};
pub use lane::{Completion, CompletionWait, Lane, Operation, Ticket};
pub use source::{FetchedPack, ListingPage, Pick, Picks, SourceFile, SourceLane, SourceOp, SourceOutcome};
pub use target::{TargetLane, TargetOp, TargetOutcome};

/// An opened endpoint.
pub trait Endpoint: Send + Sync {
    /// Returns its capabilities.
    fn capabilities(&self) -> &Capabilities;

    /// Returns true if another lane is to be opened now. `has_work` is true if there is work that no lane has taken.
    /// Called repeatedly, so an endpoint whose lanes take long to open can wait until one is worthwhile, or until
    /// another thread has opened it.
    fn may_open_lane(&self, has_work: bool) -> bool {
        let _ = has_work;
        true
    }

    /// Returns what has arrived so far over the connections of all lanes; `None` if unknown. Called from any thread.
    fn passed(&self) -> Option<LinkStats> {
        None
    }

    /// Returns the number of bytes of a large file of `size_bytes` that one lane should transfer in order, such as a part
    /// of an object: a multiple of [`CHUNK_BYTES`].
    fn run_bytes(&self, size_bytes: u64) -> u64 {
        let _ = size_bytes;
        CHUNK_BYTES
    }

    /// Returns the requests that the endpoint has sent since it was opened, if they are counted. Called from any thread.
    fn requests(&self) -> RequestCounts {
        RequestCounts::default()
    }

    /// Notifies that the work is done: lanes that are still being opened may give up. Called from any thread.
    fn lanes_are_complete(&self) {}

    /// Makes lanes that wait for a peer fail, because the run has failed already. Called from any thread.
    fn interrupt(&self) {}
}

/// An endpoint that can be read.
pub trait SourceEndpoint: Endpoint {
    /// Opens a lane for one thread. `index` counts from 0.
    ///
    /// # Errors
    /// If it cannot be opened, for example because a connection is refused.
    fn open_source_lane(&self, index: usize) -> Result<Box<dyn SourceLane>>;

    /// Informs the endpoint of the time resolution of the run's ends, in nanoseconds. A file that changed less than a
    /// step before it is read could change again without getting another time.
    fn meet_time_step(&self, step_ns: u32) {
        let _ = step_ns;
    }
}

/// An endpoint that can be written.
pub trait TargetEndpoint: Endpoint {
    /// Opens a lane for one thread. `index` counts from 0.
    ///
    /// # Errors
    /// If it cannot be opened, for example because a connection is refused.
    fn open_target_lane(&self, index: usize) -> Result<Box<dyn TargetLane>>;

    /// Returns true if lanes should write to different files, because writers to the same file wait for each other.
    fn spreads_writers(&self) -> bool {
        false
    }

    /// Returns true if drafts can be left to other runs, which open the same target elsewhere.
    fn shares_drafts(&self) -> bool {
        false
    }
}

/// Statistics of the connections to an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Bytes that have arrived in total, overhead included.
    pub bytes: u64,
    /// Segments retransmitted in total.
    pub sent_again: u64,
    /// The current round-trip time, averaged over the connections.
    pub round_trip: Duration,
    /// The shortest recent round-trip time, averaged over the connections.
    pub round_trip_least: Duration,
}

/// Returns a failure at a path, for outcomes that name paths.
pub fn failure(path: impl AsRef<[u8]>, error: Error) -> Failure {
    Failure { path: path.as_ref().to_vec(), error }
}
