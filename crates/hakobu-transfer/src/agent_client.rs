//! The controller's client of an agent: a [`hakobu_agent::local_host::LocalHost`] on another host, reached through a control channel.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Observer;
use hakobu_core::grant::Grant;
use hakobu_core::pacer::LimitChanges;
use hakobu_core::stopping;
use hakobu_proto::control::{
    ALIVE_EVERY, AgentHello, AgentMessage, CipherSpeed, Request, RunUsage, VERSION_NEWEST, VERSION_OLDEST,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use hakobu_net::channel as wire;
use hakobu_ssh::control_channel::{AgentStream, ChannelStreams, ControlChannel};
use hakobu_ssh::sessions::{LONG_WAY, Sessions};

/// The operation named in errors if no agent could be started.
pub const STARTING: &str = "starting the agent on";
/// The time that an agent may take to answer a request.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// The time that it may take once the user has asked to stop. A healthy agent still has time to clean up.
const ANSWER_AT_A_STOP: Duration = Duration::from_secs(1);
/// The silence of a running engine that counts as a lost connection. It reports its figures several times a second.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// The maximum time of a whole message, however slow the network path. It must also arrive at a minimum rate
/// ([`stopping::time_for`]).
const MESSAGE_LIMIT: Duration = Duration::from_secs(600);
/// The time that a run may take to end after it was asked to stop.
const STOP_LIMIT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 2 });

/// A round-trip time that no busy host explains.
const CERTAINLY_LONG: Duration = Duration::from_millis(50);

/// A running agent.
pub struct FarSide {
    /// The agent's greeting.
    pub hello: AgentHello,
    /// The time of one request and its answer, without the work between them.
    pub round_trip: Duration,
    /// The host as the user named it.
    pub host: String,
    stdin: Arc<Mutex<Option<Box<dyn Write + Send>>>>,
    stdout: Box<dyn AgentStream>,
    channel: Box<dyn ControlChannel>,
    /// The encryption speed of the agent's host, once known. `speed_is_asked`: the answer is outstanding.
    cipher_speed: Option<CipherSpeed>,
    speed_is_asked: bool,
}

impl FarSide {
    /// Greets the agent at the other end of a channel.
    ///
    /// # Errors
    /// `ConnectionLost`; `Usage` if the channel is in use; `Unsupported` if the agent speaks another protocol
    /// version; `Corrupt` if it is not the program that was uploaded.
    pub fn start(mut channel: Box<dyn ControlChannel>, host: &str) -> Result<Self> {
        let taken = || Error::new(ErrorKind::Usage, STARTING, "its channel is in use").at(host);
        let ChannelStreams { to_agent, from_agent } = channel.take_streams().ok_or_else(taken)?;
        let uploaded = channel.uploaded().map(Path::to_path_buf);
        let hello_pending = AgentHello {
            version: 0,
            program: String::new(),
            took: Duration::ZERO,
            digest: None,
            fingerprint: [0; 32],
            machine: hakobu_agent::machine::facts(),
        };
        let mut far = Self {
            hello: hello_pending,
            round_trip: Duration::ZERO,
            host: host.to_owned(),
            stdin: Arc::new(Mutex::new(Some(to_agent))),
            stdout: from_agent,
            channel,
            cipher_speed: None,
            speed_is_asked: false,
        };
        let asked = Instant::now();
        let digest = uploaded.is_some();
        let hello = Request::Hello { oldest: VERSION_OLDEST, newest: VERSION_NEWEST, digest };
        let refused = |error: Error| match error.kind {
            ErrorKind::Unsupported => {
                Error { during: "agreeing on a protocol version with".into(), ..error }.at(host)
            }
            _ => error,
        };
        match far.ask(&hello).map_err(refused)? {
            AgentMessage::Hello(hello) if (VERSION_OLDEST..=VERSION_NEWEST).contains(&hello.version) => {
                far.hello = hello;
            }
            AgentMessage::Hello(_) => return Err(far.unexpected()),
            AgentMessage::Refused(error) => return Err(error),
            _ => return Err(far.unexpected()),
        }
        far.round_trip = asked.elapsed().saturating_sub(far.hello.took);
        if (LONG_WAY..CERTAINLY_LONG).contains(&far.round_trip) {
            // A busy host may look like a long network path, so measure once more.
            let asked = Instant::now();
            far.ask(&Request::LookAtSources { sources: Vec::new() })?;
            far.round_trip = far.round_trip.min(asked.elapsed());
        }
        if let Some(sessions) = far.sessions() {
            sessions.round_trip_is(far.round_trip);
        }
        if let Some(program) = uploaded {
            far.check_upload(&program)?;
        }
        far.show_life();
        Ok(far)
    }

    /// Sends signs of life to the agent at intervals until this is dropped.
    fn show_life(&self) {
        let stdin = self.stdin.clone();
        // Without this thread the agent stays until its connection ends.
        let _ = std::thread::Builder::new().name("alive".into()).spawn(move || {
            while self_send(&stdin, &Request::Alive).is_ok() {
                std::thread::sleep(ALIVE_EVERY);
            }
        });
    }

    /// Fails unless the uploaded program is the one that runs.
    fn check_upload(&self, program: &std::path::Path) -> Result<()> {
        let fail = |error: std::io::Error| Error::io("reading the program to upload", &error);
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(std::fs::File::open(program).map_err(fail)?).map_err(fail)?;
        if self.hello.digest == Some(*hasher.finalize().as_bytes()) {
            return Ok(());
        }
        let words = "the program that runs there is not the one that was uploaded";
        Err(Error::new(ErrorKind::Corrupt, "starting the agent", words).at(&self.host))
    }

    /// Returns further ssh sessions to the same host by the same login, if it is reached through ssh.
    pub fn sessions(&self) -> Option<&Arc<Sessions>> {
        self.channel.sessions()
    }

    /// Returns a second descriptor of the stream from the agent, to notice its end while nobody reads from it.
    ///
    /// # Errors
    /// `Io` if no file descriptor is left.
    pub fn control(&self) -> Result<OwnedFd> {
        let copied = self.stdout.as_fd().try_clone_to_owned();
        copied.map_err(|error| Error::io("using the control connection", &error))
    }

    /// Asks for the encryption speed and leaves the answer for later, so that it costs no round trip of its own.
    ///
    /// # Errors
    /// `ConnectionLost`.
    pub fn foresee_cipher_speed(&mut self) -> Result<()> {
        if self.cipher_speed.is_none() && !self.speed_is_asked {
            self.send(&Request::Ciphers)?;
            self.speed_is_asked = true;
        }
        Ok(())
    }

    /// Returns the bytes per second that one core of the agent's host encrypts.
    ///
    /// # Errors
    /// See [`FarSide::ask`].
    pub fn cipher_speed(&mut self) -> Result<CipherSpeed> {
        self.foresee_cipher_speed()?;
        self.hear_speed()?;
        self.cipher_speed.ok_or_else(|| self.unexpected())
    }

    /// Receives the answer that was left for later, if there is one.
    fn hear_speed(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.speed_is_asked) {
            return Ok(());
        }
        match self.receive(ANSWER_LIMIT)? {
            AgentMessage::Ciphers(speed) => self.cipher_speed = Some(speed),
            AgentMessage::Refused(error) => return Err(error),
            _ => return Err(self.unexpected()),
        }
        Ok(())
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// `ConnectionLost` or `TimedOut`, or the error with which the agent refused the request.
    pub fn ask(&mut self, request: &Request) -> Result<AgentMessage> {
        self.ask_for(request, ANSWER_LIMIT)
    }

    /// Sends a request and waits for the answer up to `limit`.
    ///
    /// # Errors
    /// See [`FarSide::ask`].
    pub fn ask_for(&mut self, request: &Request, limit: Duration) -> Result<AgentMessage> {
        self.send(request)?;
        self.hear_speed()?;
        match self.receive(limit)? {
            AgentMessage::Refused(error) => Err(error),
            answer => Ok(answer),
        }
    }

    /// Names the directories of the source that the target of the next request leaves alone.
    ///
    /// # Errors
    /// See [`FarSide::ask`].
    pub fn hold_apart(&mut self, grant: &Grant) -> Result<()> {
        match grant.source_directories.is_empty() {
            true => Ok(()),
            false => self.send(&Request::HoldApart(grant.source_directories.clone())),
        }
    }

    /// Runs a job on the agent's host until it has ended. Passes its events on, and changed limits to it.
    ///
    /// # Errors
    /// See [`FarSide::ask`].
    pub fn run(
        &mut self,
        request: &Request,
        observer: &dyn Observer,
        cancel: &AtomicBool,
        changes: &dyn LimitChanges,
    ) -> Result<RunUsage> {
        self.send(request)?;
        self.hear_speed()?;
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                while !ended.load(Acquire) {
                    if cancel.load(Relaxed) {
                        let _ = self_send(&self.stdin, &Request::Cancel);
                        return;
                    }
                    if let Some(limits) = changes.changed() {
                        let _ = self_send(&self.stdin, &Request::Limits(limits));
                    }
                    std::thread::park_timeout(Duration::from_millis(50));
                }
            });
            let ran = receive_run(&mut self.stdout, observer, cancel, &self.host);
            ended.store(true, Release);
            watch.thread().unpark();
            ran
        })
    }

    fn send(&mut self, request: &Request) -> Result<()> {
        self_send(&self.stdin, request).map_err(|error| error.at(&self.host))
    }

    fn receive(&mut self, limit: Duration) -> Result<AgentMessage> {
        let began = Instant::now();
        let until = || stopping::asked_at().map(|asked| asked.max(began) + ANSWER_AT_A_STOP);
        receive(&mut self.stdout, limit, &until, &self.host)
    }

    /// Returns the error for an answer that does not fit the request.
    pub fn unexpected(&self) -> Error {
        let words = "the agent gave an answer that does not fit the question";
        Error::new(ErrorKind::Protocol, "talking to the agent on", words).at(&self.host)
    }
}

impl Drop for FarSide {
    fn drop(&mut self) {
        // The end of its input ends the agent, and then ssh ends by itself.
        self.stdin.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn self_send(stdin: &Mutex<Option<Box<dyn Write + Send>>>, request: &Request) -> Result<()> {
    match stdin.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        Some(stdin) => wire::send(stdin, request)
            .and_then(|()| stdin.flush().map_err(|error| Error::io("using the control connection", &error))),
        None => Err(Error::new(ErrorKind::ConnectionLost, "using the control connection", "it is closed")),
    }
}

fn receive_run(
    stdout: &mut (impl Read + AsFd),
    observer: &dyn Observer,
    cancel: &AtomicBool,
    host: &str,
) -> Result<RunUsage> {
    let mut stopping: Option<Instant> = None;
    loop {
        if cancel.load(Relaxed) && stopping.get_or_insert_with(Instant::now).elapsed() > STOP_LIMIT {
            let words = "the agent did not stop when it was asked to";
            return Err(Error::new(ErrorKind::Cancelled, "talking to the agent on", words).at(host));
        }
        let until = || match (stopping, cancel.load(Relaxed)) {
            (Some(since), _) => Some(since + STOP_LIMIT),
            (None, true) => Some(Instant::now() + STOP_LIMIT),
            (None, false) => None,
        };
        match receive(stdout, SILENCE_LIMIT, &until, host)? {
            AgentMessage::Event(event) => observer.event(event),
            AgentMessage::Ran(ran) => return Ok(*ran),
            AgentMessage::RanWithStore(ran) => return Ok(ran.into_usage()),
            AgentMessage::Refused(error) => return Err(error),
            _ => {
                let words = "the agent gave an answer that does not fit the question";
                return Err(Error::new(ErrorKind::Protocol, "talking to the agent on", words).at(host));
            }
        }
    }
}

/// Receives one message. It must begin within `limit`. `until` returns the time at which a stop ends the wait.
fn receive(
    stdout: &mut (impl Read + AsFd),
    limit: Duration,
    until: &dyn Fn() -> Option<Instant>,
    host: &str,
) -> Result<AgentMessage> {
    let began = Instant::now();
    let (end, last) = (began + limit, began + MESSAGE_LIMIT);
    let mut timely = TimedReader { reader: stdout, end, last, until, stop_at: None, late: None };
    match wire::receive(&mut timely) {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => {
            let words = "the agent or its ssh connection ended";
            Err(Error::new(ErrorKind::ConnectionLost, "talking to the agent on", words).at(host))
        }
        Err(_) if timely.late == Some(MessageTimeout::Stopped) => {
            let words = "the agent did not stop when it was asked to";
            Err(Error::new(ErrorKind::Cancelled, "talking to the agent on", words).at(host))
        }
        Err(_) if timely.late == Some(MessageTimeout::TimedOut) => {
            let words = format!("no whole answer within {} s", began.elapsed().as_secs());
            Err(Error::new(ErrorKind::TimedOut, "talking to the agent on", words).at(host))
        }
        Err(error) => Err(error.at(host)),
    }
}

/// The reason why a wait for a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageTimeout {
    TimedOut,
    Stopped,
}

/// A reader that limits how long it waits. Received data extends the wait by no more than it would take on a very
/// slow network path.
struct TimedReader<'a, R> {
    reader: &'a mut R,
    end: Instant,
    /// The absolute limit, which nothing extends.
    last: Instant,
    until: &'a dyn Fn() -> Option<Instant>,
    stop_at: Option<Instant>,
    late: Option<MessageTimeout>,
}

impl<R: Read + AsFd> Read for TimedReader<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            // The first answer of `until` counts: bytes that trickle in do not postpone it.
            self.stop_at = self.stop_at.or_else(self.until);
            let now = Instant::now();
            let late = match self.stop_at {
                Some(stop_at) if stop_at <= now => Some(MessageTimeout::Stopped),
                _ if self.end.min(self.last) <= now => Some(MessageTimeout::TimedOut),
                _ => None,
            };
            let left = self.end.min(self.last).saturating_duration_since(now).min(stopping::LOOK_EVERY);
            // Data that has already arrived is read in any case.
            let left = if late.is_some() { Duration::ZERO } else { left };
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let mut descriptors = [PollFd::from_borrowed_fd(self.reader.as_fd(), PollFlags::IN)];
            match (poll(&mut descriptors, Some(&timeout)), late) {
                (Ok(0), Some(late)) => {
                    self.late = Some(late);
                    return Err(std::io::ErrorKind::TimedOut.into());
                }
                (Ok(0) | Err(Errno::INTR), _) => {}
                (Err(errno), _) => return Err(errno.into()),
                (Ok(_), _) => {
                    let read = self.reader.read(into)?;
                    self.end += stopping::time_for(read as u64);
                    return Ok(read);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
