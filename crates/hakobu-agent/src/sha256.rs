//! Computes the SHA-256 of what the engine reads, with a target that stores nothing. Content is hashed from beginning
//! to end, so there is one lane, and another thread that hashes while the lane continues to read.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::digest::Digest;
use hakobu_core::endpoint::{
    Completion, CompletionWait, Endpoint, Lane, PieceBuffer, TargetEndpoint, TargetLane, TargetOp,
    TargetOutcome, Ticket,
};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::zeros::ZEROS;
use sha2::{Digest as _, Sha256};

/// The maximum number of pieces waiting to be hashed, enough that a short delay of one side does not delay the other.
const PIECES_WAITING: usize = 16;

/// A target that hashes one file and stores nothing.
#[derive(Debug)]
pub struct Sha256Sink {
    capabilities: Capabilities,
    digest: Arc<Mutex<Option<Digest>>>,
}

impl Default for Sha256Sink {
    fn default() -> Self {
        Self { capabilities: Capabilities::posix(false), digest: Arc::default() }
    }
}

impl Sha256Sink {
    /// Returns the digest once the file is finished.
    pub fn digest(&self) -> Option<Digest> {
        *self.digest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Endpoint for Sha256Sink {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
}

impl TargetEndpoint for Sha256Sink {
    fn open_target_lane(&self, index: usize) -> Result<Box<dyn TargetLane>> {
        if index > 0 {
            return Err(Error::new(ErrorKind::Unsupported, "taking a digest", "it takes one lane"));
        }
        let (parts, to_hash) = sync_channel(PIECES_WAITING);
        let (used, empty) = sync_channel(PIECES_WAITING);
        let hasher = std::thread::spawn(move || hash(&to_hash, &used));
        let (next, completions) = (0, VecDeque::new());
        let way = Some((parts, hasher));
        Ok(Box::new(SinkLane { way, empty, next, completions, digest: Arc::clone(&self.digest) }))
    }
}

/// A range of the content, in order.
enum ContentRange {
    Bytes(PieceBuffer),
    /// A number of zero bytes that were not read.
    Zeros(u64),
}

/// Hashes ranges until no more come.
fn hash(parts: &Receiver<ContentRange>, used: &SyncSender<PieceBuffer>) -> Digest {
    let mut hasher = Sha256::new();
    for part in parts {
        match part {
            ContentRange::Bytes(buffer) => {
                hasher.update(buffer.filled());
                // A buffer that is not wanted back is freed.
                let _ = used.try_send(buffer);
            }
            ContentRange::Zeros(mut left) => {
                while left > 0 {
                    let step = left.min(ZEROS.len() as u64);
                    hasher.update(&ZEROS[..step as usize]);
                    left -= step;
                }
            }
        }
    }
    hasher.finalize().into()
}

struct SinkLane {
    /// The channel to the hashing thread, and the thread; `None` once the file is finished.
    way: Option<(SyncSender<ContentRange>, JoinHandle<Digest>)>,
    empty: Receiver<PieceBuffer>,
    /// The offset of the next range in bytes.
    next: u64,
    completions: VecDeque<Completion<TargetOutcome>>,
    digest: Arc<Mutex<Option<Digest>>>,
}

impl SinkLane {
    fn take(&mut self, offset: u64, length: u64, part: ContentRange) -> Result<TargetOutcome> {
        let during = "taking a digest";
        if offset != self.next {
            return Err(Error::new(ErrorKind::Protocol, during, "a part came out of order"));
        }
        self.next += length;
        let taken = self.way.as_ref().is_some_and(|(parts, _)| parts.send(part).is_ok());
        if taken { Ok(TargetOutcome::Done) } else { Err(Error::new(ErrorKind::Io, during, "it has ended")) }
    }

    fn finish(&mut self) -> Result<TargetOutcome> {
        let ended = || Error::new(ErrorKind::Io, "taking a digest", "it has ended");
        let (parts, hasher) = self.way.take().ok_or_else(ended)?;
        drop(parts);
        let digest = hasher.join().map_err(|_| ended())?;
        *self.digest.lock().unwrap_or_else(PoisonError::into_inner) = Some(digest);
        Ok(TargetOutcome::Done)
    }
}

impl Lane<TargetOp> for SinkLane {
    fn submit(&mut self, ticket: Ticket, operation: TargetOp) -> std::result::Result<(), TargetOp> {
        let (result, answered) = match operation {
            TargetOp::Stat { .. } => (Ok(TargetOutcome::Stat(None)), true),
            TargetOp::Begin { .. } | TargetOp::Abandon { .. } => (Ok(TargetOutcome::Done), true),
            TargetOp::Write { offset, buffer, acknowledge, .. } => {
                let length = buffer.filled().len() as u64;
                (self.take(offset, length, ContentRange::Bytes(buffer)), acknowledge)
            }
            TargetOp::Zero { extent, acknowledge, .. } => {
                (self.take(extent.offset, extent.length, ContentRange::Zeros(extent.length)), acknowledge)
            }
            TargetOp::Finish { .. } => (self.finish(), true),
            _ => {
                let words = "it takes the content of one file";
                (Err(Error::new(ErrorKind::Unsupported, "taking a digest", words)), true)
            }
        };
        if answered || result.is_err() {
            self.completions.push_back(Completion { ticket, result });
        }
        Ok(())
    }

    fn reap(&mut self, _wait: CompletionWait) -> Option<Completion<TargetOutcome>> {
        self.completions.pop_front()
    }
}

impl TargetLane for SinkLane {
    fn piece_buffer(&mut self) -> PieceBuffer {
        let mut buffer = self.empty.try_recv().unwrap_or_default();
        buffer.set_filled(0);
        buffer
    }

    fn pack_buffer(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Frees the buffer. Pieces of zeros that the engine does not submit are too rare for reuse.
    fn recycle(&mut self, _buffer: PieceBuffer) {}
}
