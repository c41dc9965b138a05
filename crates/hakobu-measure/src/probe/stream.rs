//! A connection that sends generated content to be discarded, as a lane sends a large file.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hakobu_core::checksum::crc64;
use hakobu_core::digest::piece_value;
use hakobu_core::endpoint::{DraftKind, DraftParameters};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::extent::PIECE_BYTES;
use hakobu_core::path::EntryPath;
use hakobu_net::thread_time::thread_time;
use hakobu_proto::data::{self, kind};

use super::flood::{CONNECTIONS, FloodState};
use hakobu_net::connection::checked::lost;
use hakobu_net::connection::{Connection, FrameWait};

/// The name of the target's device that discards everything.
pub const NOWHERE: &str = "null";
/// The only draft, and the number of the request that begins it.
const DRAFT: u64 = 1;
const REQUEST: u32 = 1;
/// Each connection writes its own range of the draft, of 256 GiB.
const PART_SHIFT: u32 = 38;
/// The interval at which the thread's processor time is read.
const TIMES_EVERY: Duration = Duration::from_millis(20);
/// The interval at which a waiting connection polls.
const IDLE: Duration = Duration::from_millis(2);
/// The time limit for the target to begin.
const BEGIN_LIMIT: Duration = Duration::from_secs(10);
/// The most messages of the target that are read at once, so that a target that sends without end cannot block a
/// thread.
const MESSAGES_MAX: u32 = 64;

/// The counters of one connection.
#[derive(Default)]
pub(super) struct StreamCounters {
    /// Bytes of content handed to the kernel.
    pub sent_bytes: AtomicU64,
    pub processor_ns: AtomicU64,
    pub queued_ns: AtomicU64,
    /// The processor time that the peer's thread reports.
    pub far_processor_ns: AtomicU64,
    /// True once its thread has ended.
    pub ended: AtomicBool,
}

/// A connection with its content.
pub(super) struct Stream {
    connection: Connection,
    content: Vec<u8>,
    meta: Vec<u8>,
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

impl Stream {
    pub fn new(connection: Connection) -> Self {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut content = vec![0; PIECE_BYTES as usize];
        for word in content.chunks_exact_mut(8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            word.copy_from_slice(&(state ^ state >> 29).to_le_bytes());
        }
        Self { connection, content, meta: Vec::new() }
    }

    /// Sends until the measurement ends.
    pub fn run(mut self, index: usize, shared: &FloodState) -> Result<()> {
        let account = &shared.accounts[index];
        let sent = self.send(index, shared, account);
        account.ended.store(true, Relaxed);
        sent
    }

    fn send(&mut self, index: usize, shared: &FloodState, account: &StreamCounters) -> Result<()> {
        self.message(kind::HELLO, 0, &data::Hello { lane: index as u16 })?;
        if index == 0 {
            self.begin(shared, account)?;
            shared.begun.store(true, Relaxed);
        }
        let before = thread_time();
        let tell = || {
            let now = thread_time();
            account.processor_ns.store(now.processor_ns.saturating_sub(before.processor_ns), Relaxed);
            account.queued_ns.store(now.queued_ns.saturating_sub(before.queued_ns), Relaxed);
        };
        let mut told = Instant::now();
        let (mut sent_bytes, mut is_idle) = (0, true);
        while !shared.ended.load(Relaxed) {
            if !shared.begun.load(Relaxed) || !shared.may_send(index, sent_bytes) {
                self.connection.flush().map_err(lost)?;
                if !std::mem::replace(&mut is_idle, true) {
                    tell();
                }
                self.hear(FrameWait::For(IDLE), account)?;
                continue;
            }
            self.piece((index as u64) << PART_SHIFT | sent_bytes)?;
            sent_bytes += PIECE_BYTES;
            is_idle = false;
            account.sent_bytes.store(sent_bytes, Relaxed);
            self.hear(FrameWait::Now, account)?;
            if told.elapsed() >= TIMES_EVERY {
                told = Instant::now();
                tell();
            }
        }
        Ok(())
    }

    fn begin(&mut self, shared: &FloodState, account: &StreamCounters) -> Result<()> {
        let begin = DraftParameters {
            path: EntryPath::new(NOWHERE)?,
            size_bytes: u64::from(CONNECTIONS) << PART_SHIFT,
            kind: DraftKind::Sink,
            ..DraftParameters::default()
        };
        self.message(kind::BEGIN, REQUEST, &data::BeginDraft { draft: DRAFT, begin })?;
        self.connection.flush().map_err(lost)?;
        let deadline = Instant::now() + BEGIN_LIMIT;
        while !self.hear(FrameWait::For(IDLE), account)? {
            if Instant::now() >= deadline || shared.ended.load(Relaxed) {
                let words = "the target does not begin to take anything";
                return Err(Error::new(ErrorKind::TimedOut, "measuring the way", words));
            }
        }
        Ok(())
    }

    /// Sends one piece, with all that a copy does for it.
    fn piece(&mut self, offset: u64) -> Result<()> {
        self.meta.clear();
        data::encode(&data::WritePiece { draft: DRAFT, offset }, &mut self.meta)?;
        let value = piece_value(u64::from(CONNECTIONS) << PART_SHIFT, offset, &self.content);
        let crc = if self.connection.is_sealed() { 0 } else { crc64(&self.content) };
        let digest = self.connection.is_sealed().then_some(&value);
        std::hint::black_box(&value);
        self.connection.send(kind::WRITE, 0, 0, &self.meta, &self.content, crc, digest).map_err(lost)
    }

    fn message<T: serde::Serialize>(&mut self, kind: u8, request: u32, message: &T) -> Result<()> {
        self.meta.clear();
        data::encode(message, &mut self.meta)?;
        self.connection.send(kind, 0, request, &self.meta, &[], 0, None).map_err(lost)
    }

    /// Reads the target's messages. Returns true if the answer to the request was among them.
    fn hear(&mut self, wait: FrameWait, account: &StreamCounters) -> Result<bool> {
        let (mut wait, mut answered) = (wait, false);
        for _ in 0..MESSAGES_MAX {
            let Some(frame) = self.connection.receive(wait).map_err(lost)? else { break };
            wait = FrameWait::Now;
            match frame.kind {
                kind::TIMES if frame.payload_bytes == 0 => {
                    let data::TimesReply(far) = data::decode(self.connection.meta())?;
                    account.far_processor_ns.store(far.processor_ns, Relaxed);
                }
                kind::FAILED => {
                    let data::FailedReply(error) = data::decode(self.connection.meta())?;
                    return Err(data::bounded(error));
                }
                kind::DONE | kind::BEGUN => {
                    let mut ignored = Vec::new();
                    self.connection.read_payload_into(&mut ignored).map_err(lost)?;
                    answered = true;
                }
                _ => {
                    let words = "an answer of a kind that does not fit";
                    return Err(Error::new(ErrorKind::Protocol, "measuring the way", words));
                }
            }
        }
        Ok(answered)
    }
}
