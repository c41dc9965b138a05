//! The agent: the process on another host that carries out the requests of its controller. Requests come on standard
//! input and answers go to standard output. The agent ends when its input ends.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hakobu_core::entry::Inode;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::host::HostFacts;
use hakobu_proto::control::{
    AgentHello, AgentMessage, DIRECTORIES_APART_MAX, ListeningPort, PREAMBLE, ProbeAnswer, ProbeAsk, Request,
    SILENT_MAX, SourceAsk, SourceLook, StoreFacts, StoreLook, StoreRequest, StoreRunUsage, VERSION_OLDEST,
    negotiate, too_old,
};

use crate::inspect;
use crate::local_host::LocalHost;
use crate::machine;
use crate::restrict::Restriction;
use crate::store_place::StorePlace;
use hakobu_core::live_limits::LiveLimits;
use hakobu_core::pace::RunLimits;
use hakobu_net::channel as wire;
use hakobu_net::cipher;
use hakobu_net::stop::StopHandle;

/// The maximum number of requests waiting for an answer.
const REQUESTS_MAX: usize = 16;
/// The silence after which a controller that has sent signs of life is considered gone.
const SILENCE_LIMIT: Duration = if cfg!(test) { Duration::from_secs(2) } else { SILENT_MAX };
/// The time that work in progress may take to end after that.
const END_LIMIT: Duration = Duration::from_secs(30);

/// The time that an answer of a store may still take if the controller is gone.
const STORE_END_LIMIT: Duration = Duration::from_secs(2);

/// Serves a controller until its input ends.
///
/// # Errors
/// An error that makes the conversation impossible. A controller that closes the connection is not an error.
pub fn agent(input: impl Read + Send + 'static, output: impl Write + Send) -> Result<()> {
    serve(input, output, None)
}

/// Serves a controller whose login is limited to one directory. [`Restriction::enter`] must have confined this
/// process before, because from here on it handles messages of the peer.
///
/// # Errors
/// See [`agent`].
pub fn restricted_agent(
    restriction: Restriction,
    input: impl Read + Send + 'static,
    output: impl Write + Send,
) -> Result<()> {
    serve(input, output, Some(restriction))
}

fn serve(
    input: impl Read + Send + 'static,
    mut output: impl Write + Send,
    restriction: Option<Restriction>,
) -> Result<()> {
    let stop = StopHandle::default();
    // Created before the greeting: the controller attributes the time until the first answer to the network path.
    let limits = Arc::new(LiveLimits::new(RunLimits::default(), Instant::now));
    let mut side = LocalHost::with_identity(stop.clone())?.with_limits(limits.clone());
    if let Some(restriction) = &restriction {
        side = side.restricted(restriction.confinement().clone());
    }
    let life = ControllerLiveness::default();
    let _ended = AgentEndGuard(life.clone());
    let requests = read_requests(input, stop, limits, life.clone());
    output
        .write_all(PREAMBLE)
        .and_then(|()| output.flush())
        .map_err(|error| Error::io("greeting the controller", &error))?;
    let output = AgentOutput(Mutex::new(output));
    let mut agent = Agent {
        side,
        restriction,
        version: None,
        apart: Vec::new(),
        store: None,
        life: life.clone(),
        output,
    };
    loop {
        match requests.recv_timeout(SILENCE_LIMIT / 8) {
            Ok(Ok(request)) => agent.handle(request)?,
            Ok(Err(error)) => {
                agent.output.send(&AgentMessage::Refused(error.clone()))?;
                return Err(error);
            }
            Err(RecvTimeoutError::Timeout) if life.has_gone() => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// Reads requests on a separate thread, so that a stop or new limits arrive during other work. The end of the input
/// is treated as a stop, because the controller is gone.
fn read_requests(
    input: impl Read + Send + 'static,
    stop: StopHandle,
    limits: Arc<LiveLimits>,
    life: ControllerLiveness,
) -> Receiver<Result<Request>> {
    let (sender, receiver) = sync_channel(REQUESTS_MAX);
    std::thread::spawn(move || {
        let mut input = ControllerInput { input, life: life.clone() };
        loop {
            let received = wire::receive::<Request>(&mut input);
            // A run begins with its own limits. Limits that arrive later replace them.
            match &received {
                Ok(Some(Request::Run(request))) => limits.begin_with(request.job.limits.clone()),
                Ok(Some(Request::RunHere(request))) => limits.begin_with(request.job.limits.clone()),
                Ok(Some(Request::RunWithStore(request))) => {
                    limits.begin_with(request.run.job.limits.clone());
                }
                _ => {}
            }
            match received {
                Ok(Some(Request::Cancel)) => stop.stop(),
                Ok(Some(Request::Limits(other))) => limits.set(other),
                Ok(Some(Request::Alive)) => life.watch(&stop),
                Ok(Some(request)) => match sender.try_send(Ok(request)) {
                    Ok(()) => {}
                    Err(TrySendError::Disconnected(_)) => return,
                    Err(TrySendError::Full(_)) => {
                        stop.stop();
                        let words = "too many requests without an answer";
                        let error = Error::new(ErrorKind::Protocol, "reading a control message", words);
                        let _ = sender.send(Err(error));
                        return;
                    }
                },
                Ok(None) => {
                    stop.stop();
                    drop(sender);
                    return life.end_with_store();
                }
                Err(error) => {
                    stop.stop();
                    if error.kind != ErrorKind::ConnectionLost {
                        let _ = sender.send(Err(error));
                    }
                    drop(sender);
                    return life.end_with_store();
                }
            }
        }
    });
    receiver
}

/// Tracks when the controller last sent something.
#[derive(Clone, Debug, Default)]
struct ControllerLiveness(Arc<LastSign>);

#[derive(Debug, Default)]
struct LastSign {
    last: Mutex<Option<Instant>>,
    watched: AtomicBool,
    ended: AtomicBool,
    /// True while a store is asked, which may take minutes if it does not answer.
    asks_store: AtomicBool,
}

impl ControllerLiveness {
    fn heard(&self) {
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Returns true if the controller has sent a sign of life before and has now been silent for too long.
    fn has_gone(&self) -> bool {
        let last = *self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.watched.load(Relaxed) && last.is_some_and(|last| last.elapsed() >= SILENCE_LIMIT)
    }

    fn has_ended(&self) -> bool {
        self.0.ended.load(Relaxed)
    }

    /// Marks the time in which a store is asked.
    fn asking_store<T>(&self, ask: impl FnOnce() -> T) -> T {
        self.0.asks_store.store(true, Relaxed);
        let answer = ask();
        self.0.asks_store.store(false, Relaxed);
        answer
    }

    /// Ends the process if the controller is gone while a store is asked: the answer is for nobody, and nothing has begun.
    fn end_with_store(&self) {
        while !self.has_ended() {
            std::thread::sleep(STORE_END_LIMIT);
            if !self.has_ended() && self.0.asks_store.load(Relaxed) {
                std::process::exit(1);
            }
        }
    }

    /// Stops everything after a silence of `SILENCE_LIMIT`. The system may take hours to notice a dead connection,
    /// and this process would keep the job locked for as long.
    fn watch(&self, stop: &StopHandle) {
        if self.0.watched.swap(true, Relaxed) {
            return;
        }
        let (life, stop) = (self.clone(), stop.clone());
        std::thread::spawn(move || {
            while !life.has_gone() {
                if life.has_ended() {
                    return;
                }
                std::thread::sleep(SILENCE_LIMIT / 8);
            }
            stop.stop();
            std::thread::sleep(END_LIMIT);
            // Work in progress may block forever on sending to the lost controller. Drafts are kept, as after a kill.
            if !life.has_ended() {
                std::process::exit(1);
            }
        });
    }
}

/// The controller's input. Each read counts as a sign of life, because a long message on a slow network path takes
/// longer than the silence limit.
struct ControllerInput<R> {
    input: R,
    life: ControllerLiveness,
}

impl<R: Read> Read for ControllerInput<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(into)?;
        self.life.heard();
        Ok(read)
    }
}

/// Records that the agent has ended when it is dropped.
struct AgentEndGuard(ControllerLiveness);

impl Drop for AgentEndGuard {
    fn drop(&mut self) {
        self.0.0.ended.store(true, Relaxed);
    }
}

struct Agent<W> {
    side: LocalHost,
    /// The directory that the login is limited to, if any.
    restriction: Option<Restriction>,
    /// The protocol version that both sides have agreed on.
    version: Option<u16>,
    /// Directories of the source that the next target must leave alone.
    apart: Vec<Inode>,
    /// The store that was opened last.
    store: Option<StorePlace>,
    life: ControllerLiveness,
    output: AgentOutput<W>,
}

impl<W: Write + Send> Agent<W> {
    fn handle(&mut self, request: Request) -> Result<()> {
        if self.version.is_some() == matches!(request, Request::Hello { .. }) {
            let words = "the first request, and no other, has to be a greeting";
            let error = Error::new(ErrorKind::Protocol, "serving the controller", words);
            self.output.send(&AgentMessage::Refused(error.clone()))?;
            return Err(error);
        }
        if let Some(version) = self.version.filter(|version| *version < VERSION_OLDEST)
            && !is_of_all_versions(&request)
        {
            return self.output.send(&AgentMessage::Refused(too_old(version)));
        }
        let request = match &self.restriction {
            None => request,
            Some(restriction) => match restriction.check(request) {
                Ok(request) => request,
                Err(answer) => return self.output.send(&answer),
            },
        };
        if self.store.is_none() && is_of_open_store(&request) {
            let error = no_store();
            self.output.send(&AgentMessage::Refused(error.clone()))?;
            return Err(error);
        }
        let answer = match request {
            Request::Hello { oldest, newest, digest } => match self.hello(oldest, newest, digest) {
                Ok(hello) => {
                    self.version = Some(hello.version);
                    AgentMessage::Hello(hello)
                }
                Err(error) => AgentMessage::Refused(error),
            },
            Request::LookAtSources { sources } => {
                AgentMessage::Sources(sources.iter().map(|ask| self.look_at_source(ask)).collect())
            }
            Request::LookAtTarget { path } => AgentMessage::Target(match &self.restriction {
                Some(restriction) => restriction.target(&path),
                None => inspect::target(&path),
            }),
            Request::LookAtPlaces { root, places } => AgentMessage::Places(match &self.restriction {
                Some(restriction) => places.iter().map(|place| restriction.place(&root, place)).collect(),
                None => inspect::places(&root, &places),
            }),
            Request::Listen { address, port } => {
                AgentMessage::Listening(self.listen(address.as_deref(), port))
            }
            Request::HoldApart(directories) if directories.len() > DIRECTORIES_APART_MAX => {
                let words = "too many directories to leave alone";
                return Err(Error::new(ErrorKind::Protocol, "serving the controller", words));
            }
            Request::HoldApart(directories) => {
                self.apart = directories;
                return Ok(());
            }
            Request::Serve(mut request) => {
                request.grant.source_directories = std::mem::take(&mut self.apart);
                AgentMessage::Serving(self.side.serve(&request))
            }
            Request::Connect(request) => AgentMessage::Connected(self.side.connect(&request)),
            Request::Run(request) => AgentMessage::Ran(Box::new(self.side.run(&request, &self.output, None))),
            Request::RunHere(mut request) => {
                request.grant.source_directories = std::mem::take(&mut self.apart);
                AgentMessage::Ran(Box::new(self.side.run_here(&request, &self.output, None)))
            }
            Request::EndServing => AgentMessage::Served(self.side.end_serving()),
            Request::Disks => AgentMessage::Disks(inspect::disks()),
            Request::Ciphers => AgentMessage::Ciphers(cipher::here()),
            Request::Settings => AgentMessage::Settings(Ok(Box::new(self.settings()))),
            Request::Probe(mut ask) => AgentMessage::Probe(self.probe(&mut ask).map(Box::new)),
            Request::OpenStore(request) => {
                let life = self.life.clone();
                AgentMessage::StoreOpened(life.asking_store(|| self.open_store(&request)).map(Box::new))
            }
            Request::LookInStore(look) => self.life.asking_store(|| self.look_in_store(&look))?,
            Request::RunWithStore(mut request) => {
                request.run.grant.source_directories = std::mem::take(&mut self.apart);
                let store = self.store.as_ref().ok_or_else(no_store)?;
                let ran = self.side.run_with_store(&request, store, &self.output);
                AgentMessage::RanWithStore(Box::new(StoreRunUsage::new(ran)))
            }
            Request::RemoveUnfinished { path } => {
                let store = self.store.as_ref().ok_or_else(no_store)?;
                AgentMessage::Removed(self.life.asking_store(|| store.remove_unfinished(&path)))
            }
            // Handled by the thread that reads.
            Request::Cancel | Request::Limits(_) | Request::Alive => return Ok(()),
        };
        self.output.send(&answer)
    }

    fn hello(&self, oldest: u16, newest: u16, digest: bool) -> Result<AgentHello> {
        let began = Instant::now();
        let mut hello = AgentHello {
            version: negotiate(oldest, newest)?,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            took: Duration::ZERO,
            digest: digest.then(machine::program_digest).flatten(),
            fingerprint: self.side.fingerprint()?,
            machine: self.side.machine(),
        };
        hello.took = began.elapsed();
        Ok(hello)
    }

    /// Returns the settings of this host, including the route to the address that the login came from.
    fn settings(&self) -> HostFacts {
        let toward = self.side.machine().reached_from.and_then(|address| address.parse().ok());
        machine::settings(toward)
    }

    fn look_at_source(&self, ask: &SourceAsk) -> Result<SourceLook> {
        match &self.restriction {
            Some(restriction) => restriction.source(ask),
            None => inspect::source(ask),
        }
    }

    /// Opens a store with the credentials of this machine.
    fn open_store(&mut self, request: &StoreRequest) -> Result<StoreFacts> {
        self.store = None;
        let store = StorePlace::open(&request.store, &request.settings)?;
        let facts = store.facts();
        self.store = Some(store);
        Ok(facts)
    }

    fn look_in_store(&self, look: &StoreLook) -> Result<AgentMessage> {
        let store = self.store.as_ref().ok_or_else(no_store)?;
        Ok(match look {
            StoreLook::Sources { sources } => {
                AgentMessage::Sources(sources.iter().map(|ask| store.look_at_source(ask)).collect())
            }
            StoreLook::Target { path } => AgentMessage::Target(store.look_at_target(path)),
            StoreLook::Places { root, places } => AgentMessage::Places(store.look_at_places(root, places)),
        })
    }

    /// Measures as requested. For a restricted login the measured file or directory stays open meanwhile.
    fn probe(&mut self, ask: &mut ProbeAsk) -> Result<ProbeAnswer> {
        let _held = match &self.restriction {
            Some(restriction) => restriction.hold(ask)?,
            None => None,
        };
        self.side.probe(ask)
    }

    fn listen(&mut self, address: Option<&str>, port: Option<u16>) -> Result<ListeningPort> {
        let port = self.side.listen(address, port)?;
        let addresses = address.map(str::to_owned).or_else(|| machine::facts().reached_at);
        Ok(ListeningPort { port, addresses: addresses.into_iter().collect(), process: std::process::id() })
    }
}

/// Returns true if a request makes sense only after [`Request::OpenStore`].
fn is_of_open_store(request: &Request) -> bool {
    matches!(request, Request::LookInStore(_) | Request::RunWithStore(_) | Request::RemoveUnfinished { .. })
}

fn no_store() -> Error {
    Error::new(ErrorKind::Protocol, "serving the controller", "no store was opened")
}

/// Returns true if a request is the same in all protocol versions that an agent answers.
fn is_of_all_versions(request: &Request) -> bool {
    matches!(
        request,
        Request::Hello { .. }
            | Request::Listen { .. }
            | Request::Serve(_)
            | Request::EndServing
            | Request::Cancel
            | Request::Alive
    )
}

/// The output to the controller, shared by the lanes that report events.
struct AgentOutput<W>(Mutex<W>);

impl<W: Write + Send> AgentOutput<W> {
    fn send(&self, answer: &AgentMessage) -> Result<()> {
        wire::send(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), answer)
    }
}

impl<W: Write + Send> Observer for AgentOutput<W> {
    fn event(&self, event: Event) {
        // If the controller is gone, the reading thread notices it as well and stops the run.
        let _ = self.send(&AgentMessage::Event(event));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use hakobu_proto::control::VERSION_NEWEST;

    use super::*;

    #[test]
    fn a_controller_that_has_shown_life_and_falls_silent_is_gone() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let answers = there.try_clone().unwrap();
        let agent = std::thread::spawn(move || serve(there, answers, None));
        let hello = Request::Hello { oldest: VERSION_OLDEST, newest: VERSION_NEWEST, digest: false };
        wire::send(&mut here, &hello).unwrap();
        // The agent stays as long as messages arrive.
        for _ in 0..15 {
            wire::send(&mut here, &Request::Alive).unwrap();
            std::thread::sleep(SILENCE_LIMIT / 10);
        }
        assert!(!agent.is_finished());
        // The connection stays open, but nothing more arrives.
        assert_eq!(agent.join().unwrap(), Ok(()));
        drop(here);
    }
}
