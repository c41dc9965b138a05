//! A connection to an SFTP server, which sends requests in order and delivers each answer to the waiting task.
//!
//! A connection belongs to one thread. Requests are queued when they are made, so requests made together are sent
//! together. The answer is a future, so a chain of requests reads from top to bottom. Only [`SftpConnection::pump`] and
//! [`SftpConnection::raw_packet`] block. They read and write at the same time, because a server that waits for its answers
//! to be read would otherwise block both sides forever.

use std::collections::HashMap;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hakobu_core::{Error, ErrorKind, Result, stopping};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read};

use super::outgoing::OutgoingBytes;
use super::wire::{PACKET_BYTES_MAX, Packet, Reply, RequestType, malformed, read_reply};

/// The number of bytes read at once.
const READ_BYTES: usize = 256 * 1024;
/// The maximum time for which a server may be silent while answers are due.
const SILENCE_LIMIT: Duration = Duration::from_secs(120);
/// The maximum time of silence while the server flushes data to stable storage.
const SYNC_LIMIT: Duration = Duration::from_secs(900);
const TALKING: &str = "talking to the sftp server";

/// A channel to a server: the descriptors for writing and reading, and the process behind them.
pub struct Channel {
    /// The descriptor for sending to the server.
    pub to_server: OwnedFd,
    /// The descriptor for receiving from the server.
    pub from_server: OwnedFd,
    /// The process, which is dropped last, after both descriptors were closed.
    pub process: Box<dyn Send>,
}

/// A connection, shared by the tasks that wait for answers on it.
#[derive(Clone)]
pub(crate) struct SftpConnection(Arc<Mutex<ConnectionState>>);

struct ConnectionState {
    /// Closed when the connection ends, before waiting for the process.
    ends: Option<(OwnedFd, OwnedFd)>,
    _process: Box<dyn Send>,
    out: OutgoingBytes,
    /// Bytes that were read and do not form a whole packet yet.
    input: Vec<u8>,
    next_id: u32,
    waiting: HashMap<u32, PendingRequest>,
    answers: HashMap<u32, Reply>,
    /// The number of pending requests that make the server wait for its disk.
    syncs: usize,
    heard: Instant,
    failed: Option<Error>,
}

/// A pending request.
#[derive(Default)]
struct PendingRequest {
    waker: Option<Waker>,
    syncs: bool,
    /// True if nobody waits any more, so that the answer is dropped.
    forgotten: bool,
}

impl SftpConnection {
    /// Creates a connection over a channel.
    ///
    /// # Errors
    /// If its descriptors cannot be made non-blocking.
    pub(crate) fn new(channel: Channel) -> Result<Self> {
        for end in [&channel.to_server, &channel.from_server] {
            let set = fcntl_getfl(end).and_then(|flags| fcntl_setfl(end, flags | OFlags::NONBLOCK));
            set.map_err(|errno| Error::io("connecting to the sftp server", &errno.into()))?;
        }
        Ok(Self(Arc::new(Mutex::new(ConnectionState {
            ends: Some((channel.to_server, channel.from_server)),
            _process: channel.process,
            out: OutgoingBytes::default(),
            input: Vec::new(),
            next_id: 0,
            waiting: HashMap::new(),
            answers: HashMap::new(),
            syncs: 0,
            heard: Instant::now(),
            failed: None,
        }))))
    }

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request. `fill` writes the bytes after its ID. The returned future resolves to the answer and may be
    /// dropped.
    pub(crate) fn ask(&self, ask: RequestType, fill: impl FnOnce(&mut Packet<'_>)) -> PendingReply {
        self.ask_with(ask, PendingRequest::default(), fill)
    }

    /// Queues a request that may take long.
    pub(crate) fn ask_sync(&self, fill: impl FnOnce(&mut Packet<'_>)) -> PendingReply {
        self.ask_with(
            RequestType::Extended,
            PendingRequest { syncs: true, ..PendingRequest::default() },
            fill,
        )
    }

    fn ask_with(
        &self,
        ask: RequestType,
        waiting: PendingRequest,
        fill: impl FnOnce(&mut Packet<'_>),
    ) -> PendingReply {
        let mut state = self.state();
        // There will be no answer; the future returns the connection's error.
        if state.failed.is_some() {
            return PendingReply { connection: self.clone(), id: 0 };
        }
        if state.waiting.is_empty() {
            state.heard = Instant::now();
        }
        state.next_id = state.next_id.wrapping_add(1).max(1);
        let id = state.next_id;
        let mut packet = Packet::begin(state.out.end(), ask, id);
        fill(&mut packet);
        packet.end();
        state.syncs += usize::from(waiting.syncs);
        state.waiting.insert(id, waiting);
        drop(state);
        PendingReply { connection: self.clone(), id }
    }

    /// Queues bytes that are not a request.
    pub(crate) fn send(&self, fill: impl FnOnce(&mut Vec<u8>)) {
        fill(self.state().out.end());
    }

    /// Returns the number of bytes that have not been written yet.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.state().out.len()
    }

    /// Returns true if the connection has failed, so that no more answers will come.
    pub(crate) fn has_failed(&self) -> bool {
        self.state().failed.is_some()
    }

    /// Transfers bytes in both directions, waiting at most `wait` for any progress. Tasks whose answers have arrived
    /// are woken. If the connection fails, all tasks receive the error.
    pub(crate) fn pump(&self, wait: Duration) {
        let mut state = self.state();
        if state.failed.is_some() {
            return;
        }
        if let Err(error) = state.pump(wait) {
            state.fail(error);
        }
    }

    /// Returns the next packet without decoding it, for the greeting. Returns `None` if it is not complete yet.
    ///
    /// # Errors
    /// Those of any answer.
    pub(crate) fn raw_packet(&self, wait: Duration) -> Result<Option<Vec<u8>>> {
        let mut state = self.state();
        match state.packet_end()? {
            Some(end) => Ok(Some(state.input.drain(..end).skip(4).collect())),
            None => {
                state.write()?;
                state.read(wait)?;
                Ok(None)
            }
        }
    }

    /// Ends the connection with an error for all waiting tasks.
    pub(crate) fn cut(&self, error: Error) {
        self.state().fail(error);
    }
}

impl ConnectionState {
    fn pump(&mut self, wait: Duration) -> Result<()> {
        self.write()?;
        self.read(wait)?;
        while let Some(end) = self.packet_end()? {
            let (id, reply) = read_reply(&self.input[4..end])?;
            self.input.drain(..end);
            self.heard = Instant::now();
            self.take(id, reply)?;
        }
        let limit = if self.syncs > 0 { SYNC_LIMIT } else { SILENCE_LIMIT };
        if !self.waiting.is_empty() && self.heard.elapsed() > limit {
            let words = format!("no answer within {} s", limit.as_secs());
            return Err(Error::new(ErrorKind::TimedOut, TALKING, words));
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let Some((to_server, _)) = &self.ends else { return Err(lost("it is closed")) };
        if self.out.write_to(to_server).map_err(lost_by)? {
            // The awaited request may have been sent only now.
            self.heard = Instant::now();
        }
        Ok(())
    }

    /// Waits until data can be read, or written if there is any, and reads once.
    fn read(&mut self, wait: Duration) -> Result<()> {
        let Some((to_server, from_server)) = &self.ends else { return Err(lost("it is closed")) };
        let timeout = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut descriptors =
            [PollFd::new(from_server, PollFlags::IN), PollFd::new(to_server, PollFlags::OUT)];
        let wanted = if self.out.is_empty() { 1 } else { 2 };
        match poll(&mut descriptors[..wanted], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(lost_by(errno)),
        }
        if descriptors[0].revents().is_empty() {
            return Ok(());
        }
        let begin = self.input.len();
        self.input.resize(begin + READ_BYTES, 0);
        let got = read(from_server, &mut self.input[begin..]);
        self.input.truncate(begin + got.unwrap_or(0));
        match got {
            Ok(0) => Err(lost("the server, or the ssh connection to it, ended")),
            Ok(count) => {
                // Single bytes are no sign of life. Only whole packets are, and data at a plausible rate.
                self.heard = Instant::now().min(self.heard + stopping::time_for(count as u64));
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(errno) => Err(lost_by(errno)),
        }
    }

    /// Returns the end of the first packet, if it is complete.
    fn packet_end(&self) -> Result<Option<usize>> {
        let Some(length) = self.input.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length == 0 || length > PACKET_BYTES_MAX {
            return Err(malformed("a packet of an impossible length (is it an sftp server at all?)"));
        }
        Ok(Some(4 + length).filter(|end| *end <= self.input.len()))
    }

    fn take(&mut self, id: u32, reply: Reply) -> Result<()> {
        let Some(waiting) = self.waiting.remove(&id) else {
            return Err(malformed("an answer to something that was not asked"));
        };
        self.syncs -= usize::from(waiting.syncs);
        if !waiting.forgotten {
            self.answers.insert(id, reply);
        }
        waiting.waker.into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
        (self.ends, self.syncs) = (None, 0);
        self.out = OutgoingBytes::default();
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_values().filter_map(|waiting| waiting.waker).for_each(Waker::wake);
    }
}

impl Drop for ConnectionState {
    fn drop(&mut self) {
        // The server ends when its input is closed, and its process is waited for after that.
        self.ends = None;
    }
}

/// The future answer to one request.
#[must_use = "without waiting nobody learns whether it worked"]
pub(crate) struct PendingReply {
    connection: SftpConnection,
    id: u32,
}

impl Future for PendingReply {
    type Output = Result<Reply>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Reply>> {
        let mut state = self.connection.state();
        if let Some(reply) = state.answers.remove(&self.id) {
            return Poll::Ready(Ok(reply));
        }
        match state.waiting.get_mut(&self.id) {
            Some(waiting) => {
                waiting.waker = Some(context.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(Err(state.failed.clone().unwrap_or_else(|| lost("it is closed")))),
        }
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        let mut state = self.connection.state();
        state.answers.remove(&self.id);
        if let Some(waiting) = state.waiting.get_mut(&self.id) {
            waiting.forgotten = true;
        }
    }
}

fn lost(words: &str) -> Error {
    Error::new(ErrorKind::ConnectionLost, TALKING, words)
}

fn lost_by(errno: Errno) -> Error {
    let error = std::io::Error::from(errno);
    match errno {
        Errno::PIPE | Errno::CONNRESET => lost("the server, or the ssh connection to it, ended"),
        _ => Error::new(ErrorKind::ConnectionLost, TALKING, error.to_string()),
    }
}
