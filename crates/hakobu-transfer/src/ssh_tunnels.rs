//! Data connections through ssh, for hosts whose ports cannot be reached. Each has an ssh process with one end of a
//! socket pair as its standard input and output, so that no hakobu code is between ssh and the lane.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU16};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, ErrorStep, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::Socket;

use hakobu_ssh::SshChild;
use hakobu_ssh::StartRefusal;
use hakobu_ssh::sessions::{Pipe, SessionCommand, Sessions, SshOutput};

/// The address at which the other host listens for these connections, reachable only from itself.
pub const LOOPBACK: &str = "127.0.0.1";
/// The maximum number of simultaneous logins after the first. A server limits connections that are not logged in yet.
const AT_ONCE_MAX: usize = 2;
/// The minimum and maximum time before further connections are opened after the first.
const ALONE_MIN: Duration = Duration::from_millis(100);
const ALONE_MAX: Duration = Duration::from_secs(1);
/// The time that a busy host may add before it is known that a connection has ended.
const ENDING: Duration = Duration::from_millis(50);
/// The operation named in errors if a connection was not made.
pub const DIALLING: &str = "dialling";
/// The time that the processes may take to end by themselves after their connections have.
const FAREWELL_LIMIT: Duration = Duration::from_millis(300);
/// The time to wait after the end of a connection until its ssh has reported why: it ends right after.
const LAST_WORDS_LIMIT: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The interval at which it is checked whether one more connection is wanted, in a run that may last for hours.
const WANTED_EVERY: Duration = Duration::from_millis(10);

/// The method by which ssh reaches the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelMethod {
    /// The server connects to the port.
    Forward,
    /// The agent's program is run once more and joins its standard input and output to the port, for servers that
    /// make no connections.
    Join,
}

/// Opens connections on threads of its own. The ssh processes do not outlive their threads. Dropping this ends them
/// all.
pub struct SshTunnels {
    held: Arc<TunnelProcesses>,
    threads: Vec<JoinHandle<()>>,
    /// The time that the first connection took.
    took: Duration,
}

/// The ssh processes of one run.
#[derive(Default)]
pub struct TunnelProcesses {
    ended: AtomicBool,
    processes: Mutex<Vec<(SshChild, SshOutput)>>,
}

impl SshTunnels {
    /// Opens the first connection.
    ///
    /// # Errors
    /// The error of `open`, which gets the place where ssh processes are kept.
    pub fn first<T: Send + 'static>(
        open: impl FnOnce(&TunnelProcesses) -> Result<T> + Send + 'static,
    ) -> Result<(Self, T)> {
        let mut carriers = Self { held: Arc::default(), threads: Vec::new(), took: Duration::ZERO };
        let began = Instant::now();
        let (sender, first) = mpsc::channel();
        carriers.start(move |held| {
            // The receiver is gone only if nothing is wanted any more.
            let _ = sender.send(open(held));
        })?;
        let nothing = || {
            Error::new(ErrorKind::ConnectionLost, DIALLING, "no connection could be opened")
                .in_step(ErrorStep::Connect)
        };
        let first = first.recv().unwrap_or_else(|_| Err(nothing()))?;
        carriers.took = began.elapsed();
        Ok((carriers, first))
    }

    /// Opens up to `count` more connections during the run, each once it `is_wanted`, and passes each to `bring`.
    /// After a failure no more are tried.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn more<T: 'static>(
        &mut self,
        count: u16,
        is_wanted: impl Fn() -> bool + Send + Sync + 'static,
        open: impl Fn(&TunnelProcesses) -> Result<T> + Send + Sync + 'static,
        bring: impl Fn(T) + Send + Sync + 'static,
    ) -> Result<()> {
        let left = AtomicU16::new(count);
        let work = Arc::new(move |held: &TunnelProcesses| {
            while held.wait_until(&is_wanted) && take_one(&left) {
                match open(held) {
                    Ok(opened) if !held.has_ended() => bring(opened),
                    _ => left.store(0, Relaxed),
                }
            }
        });
        for _ in 0..usize::from(count).min(AT_ONCE_MAX) {
            let work = work.clone();
            self.start(move |held| work(held))?;
        }
        Ok(())
    }

    /// Returns the condition for more connections if only the other host knows whether they are wanted. It holds once
    /// the run has lasted as long as one more connection is expected to take: half the time of the first.
    pub fn after_a_while(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let from = Instant::now() + (self.took / 2).clamp(ALONE_MIN, ALONE_MAX);
        move || Instant::now() >= from
    }

    /// Starts a thread that does `work` and then stays until the end, because its ssh processes end with it.
    fn start(&mut self, work: impl FnOnce(&TunnelProcesses) + Send + 'static) -> Result<()> {
        let held = self.held.clone();
        let thread = std::thread::Builder::new().name("ssh connections".to_owned()).spawn(move || {
            work(&held);
            while !held.has_ended() {
                std::thread::park();
            }
        });
        self.threads.push(thread.map_err(|error| Error::io("opening data connections", &error))?);
        Ok(())
    }

    /// Returns the reason why there is no connection: the message of the first ssh that has ended or ends within a
    /// short time, else of the first that has written one. Empty if there is none.
    pub fn last_words(&self) -> String {
        let said: Vec<_> = self.held.processes().iter().map(|(_, said)| said.clone()).collect();
        let words = |said: &SshOutput| Some(said.last_line()).filter(|line| !line.is_empty());
        let deadline = Instant::now() + LAST_WORDS_LIMIT;
        loop {
            let is_late = Instant::now() >= deadline || said.iter().all(SshOutput::is_all);
            match said.iter().filter(|said| said.is_all()).find_map(words) {
                Some(line) => return line,
                None if is_late => return said.iter().find_map(words).unwrap_or_default(),
                None => std::thread::sleep(LOOK_EVERY),
            }
        }
    }
}

impl Drop for SshTunnels {
    fn drop(&mut self) {
        self.held.ended.store(true, Release);
        let deadline = Instant::now() + FAREWELL_LIMIT;
        let runs = |(ssh, _): &mut (SshChild, SshOutput)| matches!(ssh.wait(Duration::ZERO), Ok(None));
        while self.held.processes().iter_mut().any(runs) && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
        self.held.processes().iter_mut().for_each(|(ssh, _)| ssh.tell_to_end());
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl TunnelProcesses {
    /// Opens a data connection to a port.
    ///
    /// # Errors
    /// The message of ssh, if it does not get through.
    pub fn open(&self, sessions: &Sessions, to: Destination) -> Result<Socket> {
        let command = format!("exec /proc/{}/exe agent --join {}", to.process, to.port);
        let session = match to.through {
            TunnelMethod::Forward => SessionCommand::Forward { address: LOOPBACK, port: to.port },
            TunnelMethod::Join => SessionCommand::Command(&command),
        };
        let Pipe { socket, ssh, said } =
            sessions.further(session, &self.ended).map_err(|error| refused(error.to_string()))?;
        self.processes().push((ssh, said));
        Ok(socket.into())
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Acquire)
    }

    /// Waits until `holds` returns true. Returns false if the run has ended before.
    fn wait_until(&self, holds: impl Fn() -> bool) -> bool {
        while !self.has_ended() {
            if holds() {
                return true;
            }
            std::thread::sleep(WANTED_EVERY);
        }
        false
    }

    fn processes(&self) -> MutexGuard<'_, Vec<(SshChild, SshOutput)>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the error for a connection that ssh does not make. `PermissionDenied`: the server makes none by any
/// method.
pub fn refused(words: String) -> Error {
    let kind = match StartRefusal::of(&words) {
        Some(StartRefusal::Prohibited) => ErrorKind::PermissionDenied,
        _ => ErrorKind::ConnectionLost,
    };
    Error::new(kind, DIALLING, words).in_step(ErrorStep::Connect)
}

/// Takes one from the count. Returns false if none is left.
fn take_one(left: &AtomicU16) -> bool {
    left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
}

/// A port on another host, and the method to reach it.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    pub through: TunnelMethod,
    pub port: u16,
    /// The process ID of the agent that listens.
    pub process: u32,
}

/// Returns true if a connection has already ended. The peer must not have anything to send yet. If the server does
/// not let the connection through, it ends within little more than `round_trip`.
pub fn ends_at_once(socket: &Socket, round_trip: Duration) -> bool {
    let limit = 2 * round_trip + ENDING;
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    let mut polled = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut polled, Some(&limit)).is_ok_and(|ready| ready > 0)
}
