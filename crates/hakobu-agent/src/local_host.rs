//! One host's part in a transfer: examining locations, opening ports, serving a target, running the engine. The
//! controller uses it in its own process, and an agent uses it for its controller.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hakobu_core::capabilities::Capabilities;
use hakobu_core::counters::ThreadTime;
use hakobu_core::digest::Algorithm;
use hakobu_core::endpoint::{Endpoint, SourceEndpoint, TargetEndpoint};
use hakobu_core::engine::{self, Clock, RunSummary, Setup};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Observer;
use hakobu_core::exchange::WorkExchange;
use hakobu_core::grant::Grant;
use hakobu_core::job::{Job, Mode};
use hakobu_core::tag::{TAG_KEY_BYTES, TagKey, Tagger};
use hakobu_endpoints::local::{
    Confinement, LocalSource, LocalTarget, SourceRoot, StreamSource, TargetOptions,
};
use hakobu_net::thread_time::thread_time;
use hakobu_proto::control::{
    AgentMachine, CONNECTIONS_MAX, ConnectMode, ConnectRequest, MachinePath, RunHereRequest, RunRequest,
    RunUsage, ServeRequest, ServedUsage, StoreRunRequest,
};

use crate::lock::JobLock;
use crate::machine;
use crate::restrict::is_nowhere;
use crate::sha256::Sha256Sink;
use crate::store_place::StorePlace;
use crate::stream::{self, Streams};
use hakobu_core::live_limits::LiveLimits;
use hakobu_core::pace::RunLimits;
use hakobu_net::acceptor::{ArrivingConnections, Peer, gather};
use hakobu_net::channel::is_gone;
use hakobu_net::connection::checked::lost;
use hakobu_net::connection::{self, Connection, Fingerprint, TlsIdentity};
use hakobu_net::data_path::{self, Alarm, DataListener};
use hakobu_net::pending_handshakes::PendingHandshakes;
use hakobu_net::remote_target::RemoteTarget;
use hakobu_net::stop::StopHandle;
use hakobu_net::target_server::serve;

mod probe;
mod tunnelled;

/// The maximum time of a handshake on a data connection.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// The time that connections may take to end after the engine has.
const FAREWELL_LIMIT: Duration = Duration::from_secs(5);

/// The time to wait for outstanding answers after a stop was requested.
const LAST_ANSWERS_LIMIT: Duration = Duration::from_millis(1500);
/// The interval at which waiting threads check for a stop and for dead connections.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The time until the first further connection is made, when a run knows what the first ones carry.
/// `DIAL_FURTHER_EVERY`: the time between further ones.
const DIAL_FURTHER_AFTER: Duration = Duration::from_secs(2);
const DIAL_FURTHER_EVERY: Duration = Duration::from_millis(300);

/// One host's part in a transfer.
pub struct LocalHost {
    /// Generated only if connections are needed, because that takes some 20 ms.
    identity: Option<Arc<TlsIdentity>>,
    listener: Option<DataListener>,
    serving: Option<ServedTarget>,
    arriving: Option<ArrivingConnections>,
    /// The control connection to the host that a run depends on.
    control: Option<OwnedFd>,
    stop: StopHandle,
    /// The limits of a run once it has begun.
    limits: Arc<LiveLimits>,
    /// The ends that may be streams of this process.
    streams: Streams,
    /// The directory to whose files the login is limited, if it is.
    restricted: Option<Confinement>,
}

/// A target that is served to an engine on another host.
struct ServedTarget {
    session: Arc<TargetSession>,
    /// Accepts or makes connections, and checks that they are alive. `None` if the first connections failed.
    acceptor: Option<JoinHandle<()>>,
    /// Wakes the acceptor if it waits at a port.
    alarm: Option<Alarm>,
}

/// The state that the threads of a target server share.
struct TargetSession {
    target: LocalTarget,
    identity: Arc<TlsIdentity>,
    peer: Fingerprint,
    cipher: connection::ConnectionCipher,
    /// The number of threads, including those whose peer is not authenticated yet.
    open: AtomicUsize,
    /// The number of connections to the peer.
    connected: AtomicUsize,
    strangers: PendingHandshakes,
    ended: AtomicBool,
    error: Mutex<Option<Error>>,
    stop: StopHandle,
    _lock: JobLock,
}

impl LocalHost {
    /// Returns a side for work on this host alone.
    pub fn new(stop: StopHandle) -> Self {
        Self {
            identity: None,
            listener: None,
            serving: None,
            arriving: None,
            control: None,
            stop,
            limits: Arc::new(LiveLimits::new(RunLimits::default(), Instant::now)),
            streams: Streams::default(),
            restricted: None,
        }
    }

    /// Returns a side with a throw-away certificate, for work with other hosts.
    ///
    /// # Errors
    /// If no certificate can be generated.
    pub fn with_identity(stop: StopHandle) -> Result<Self> {
        let identity = TlsIdentity::generate().map_err(lost)?;
        let mut side = Self::new(stop);
        side.identity = Some(Arc::new(identity));
        Ok(side)
    }

    /// Allows ends to be streams of this process. An agent must never do so, because these are its control channel.
    #[must_use]
    pub fn with_streams(mut self, streams: Streams) -> Self {
        self.streams = streams;
        self
    }

    /// Makes runs follow changes of these limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Arc<LiveLimits>) -> Self {
        self.limits = limits;
        self
    }

    /// Limits this side to files beneath a directory, without disks. It also accepts data connections from logins
    /// that cannot reach a port.
    #[must_use]
    pub fn restricted(mut self, confinement: Confinement) -> Self {
        self.restricted = Some(confinement);
        self
    }

    /// Returns the fingerprint that the other side has to expect.
    ///
    /// # Errors
    /// `Usage` on a side without a certificate.
    pub fn fingerprint(&self) -> Result<[u8; 32]> {
        Ok(self.identity()?.fingerprint().0)
    }

    fn identity(&self) -> Result<Arc<TlsIdentity>> {
        let missing =
            || Error::new(ErrorKind::Usage, "making data connections", "this side has no certificate");
        self.identity.clone().ok_or_else(missing)
    }

    /// Returns facts about this host.
    pub fn machine(&self) -> AgentMachine {
        machine::facts()
    }

    /// Opens the port for data connections. Returns its number.
    ///
    /// # Errors
    /// If the port cannot be opened.
    pub fn listen(&mut self, address: Option<&str>, port: Option<u16>) -> Result<u16> {
        // It may be the same port as before, or one that was opened for connections that never came.
        self.stop_listening();
        self.arriving = None;
        self.end_serving();
        let mut listener = DataListener::from(data_path::listen(address, port)?);
        let port = listener.port()?;
        if self.restricted.is_some() {
            listener.open_to_joins()?;
        }
        self.listener = Some(listener);
        Ok(port)
    }

    /// Closes the port.
    pub fn stop_listening(&mut self) {
        self.listener = None;
    }

    /// Serves a target, and accepts or makes the connections to it.
    ///
    /// # Errors
    /// If the target cannot be opened, another run of the job holds it, or no connection can be made.
    pub fn serve(&mut self, request: &ServeRequest) -> Result<Capabilities> {
        let (session, capabilities) = self.hold(request)?;
        let shared = session.clone();
        let mut alarm = None;
        let acceptor = match &request.way {
            ConnectMode::Accept => {
                let mut listener = self.listener.take().ok_or_else(no_port)?;
                alarm = Some(listener.alarm()?);
                std::thread::spawn(move || shared.accept(&listener))
            }
            ConnectMode::Dial { addresses, port } => {
                let address = match session.dial(addresses, *port, request.lanes) {
                    Ok(address) => address,
                    Err(error) => {
                        // The connections that were made would keep the lock from the next attempt to connect.
                        self.serving = Some(ServedTarget { session, acceptor: None, alarm });
                        self.end_serving();
                        return Err(error);
                    }
                };
                let further = request.lanes_max.min(CONNECTIONS_MAX).saturating_sub(request.lanes);
                std::thread::spawn(move || shared.dial_further(address, further))
            }
        };
        self.serving = Some(ServedTarget { session, acceptor: Some(acceptor), alarm });
        Ok(capabilities)
    }

    /// Opens a target for connections that follow.
    fn hold(&mut self, request: &ServeRequest) -> Result<(Arc<TargetSession>, Capabilities)> {
        self.end_serving();
        let _lock = JobLock::take(&request.job)?;
        let target = self.open_target(&request.root, &request.grant, &request.job)?;
        let capabilities = target.capabilities().clone();
        let session = Arc::new(TargetSession {
            target,
            identity: self.identity()?,
            peer: Fingerprint(request.peer),
            cipher: request.cipher.into(),
            open: AtomicUsize::new(0),
            connected: AtomicUsize::new(0),
            strangers: PendingHandshakes::default(),
            ended: AtomicBool::new(false),
            error: Mutex::new(None),
            stop: self.stop.clone(),
            _lock,
        });
        Ok((session, capabilities))
    }

    /// Ends a session of the target server. The engine's connections should have ended before.
    pub fn end_serving(&mut self) -> ServedUsage {
        let Some(ServedTarget { session, acceptor, alarm }) = self.serving.take() else {
            return ServedUsage::default();
        };
        let deadline = Instant::now() + FAREWELL_LIMIT;
        let connected = || session.connected.load(Ordering::Acquire) > 0;
        while connected() && Instant::now() < deadline && !self.stop.is_asked() {
            std::thread::sleep(Duration::from_millis(1));
        }
        session.ended.store(true, Ordering::Release);
        self.stop.interrupt();
        session.strangers.dismiss();
        drop(alarm);
        if let Some(acceptor) = acceptor {
            acceptor.thread().unpark();
            let _ = acceptor.join();
        }
        session.strangers.dismiss();
        let deadline = Instant::now() + FAREWELL_LIMIT;
        while session.open.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        // The threads' references to the session may outlive this process's last instruction, so close it here.
        session.target.close();
        self.stop.forget();
        let error = session.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        let all_ended = session.open.load(Ordering::Acquire) == 0;
        let entries_made = all_ended.then(|| session.target.entries_made());
        ServedUsage { error, peak_memory_bytes: machine::peak_memory_bytes(), entries_made }
    }

    /// Makes the engine's connections. If the other host dials, only the first one is waited for, and the others may
    /// come while the job runs.
    ///
    /// # Errors
    /// `TimedOut` or `ConnectionLost` if none is made in time; others if the peer is not the expected one.
    pub fn connect(&mut self, request: &ConnectRequest) -> Result<()> {
        let lanes = request.lanes.clamp(1, CONNECTIONS_MAX);
        let lanes_max = request.lanes_max.clamp(lanes, CONNECTIONS_MAX);
        let peer = Arc::new(Peer {
            identity: self.identity()?,
            fingerprint: Fingerprint(request.peer),
            cipher: request.cipher.into(),
            handshake_limit: HANDSHAKE_LIMIT,
        });
        self.arriving = None;
        self.arriving = Some(match &request.way {
            ConnectMode::Dial { addresses, port } => {
                let (address, made) = dial_all(addresses, *port, lanes, &peer)?;
                let arriving = ArrivingConnections::all(made, self.stop.clone())?;
                arriving.growing(usize::from(lanes_max - lanes), move || {
                    let stream = data_path::dial_again(address)?;
                    peer.shake_hands(stream).map_err(lost)
                })
            }
            ConnectMode::Accept => {
                let listener = self.listener.take().ok_or_else(no_port)?;
                gather(listener, peer, usize::from(lanes_max), self.stop.clone())?
            }
        });
        Ok(())
    }

    /// Makes later runs abort if this control connection closes.
    pub fn depend_on(&mut self, control: OwnedFd) {
        self.control = Some(control);
    }

    /// Runs a job over the connections made before, or the part of it that an exchange has.
    pub fn run(
        &mut self,
        request: &RunRequest,
        observer: &dyn Observer,
        exchange: Option<&dyn WorkExchange>,
    ) -> RunUsage {
        let Some(arriving) = self.arriving.take() else {
            return failed(Error::new(ErrorKind::Usage, "running a job", "there are no data connections"));
        };
        let source = match self.open_source(&request.roots, &request.job) {
            Ok(source) => source,
            Err(error) => return failed(error),
        };
        let tagger = match new_tagger() {
            Ok(tagger) => tagger,
            Err(error) => return failed(error),
        };
        let target =
            RemoteTarget::with(request.capabilities.clone(), arriving).compressing(request.job.compression);
        let ended = AtomicBool::new(false);
        let summary = std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut asked_at = None;
                while !ended.load(Ordering::Acquire) {
                    self.stop.end_unanswered();
                    // Lanes end by themselves after the outstanding answers, but a peer need not answer.
                    let asked = self.stop.is_asked().then(|| *asked_at.get_or_insert_with(Instant::now));
                    if asked.is_some_and(|asked| asked.elapsed() > LAST_ANSWERS_LIMIT) {
                        target.interrupt();
                    }
                    // Nobody is left there to answer.
                    if self.control.as_ref().is_some_and(is_gone) {
                        target.interrupt();
                    }
                    std::thread::park_timeout(LOOK_EVERY);
                }
            });
            let summary = engine::run(&Setup {
                source: &*source,
                target: &target,
                job: &request.job,
                observer,
                clock: &SystemClock::new(),
                tagger,
                changes: &*self.limits,
                cancel: &self.stop.cancel,
                exchange,
            });
            ended.store(true, Ordering::Release);
            watch.thread().unpark();
            summary
        });
        let wire = target.wire();
        drop(target);
        self.stop.forget();
        let (wire_sent_bytes, wire_received_bytes) = wire.total();
        let peak_memory_bytes = machine::peak_memory_bytes();
        RunUsage { summary, wire_sent_bytes, wire_received_bytes, peak_memory_bytes }
    }

    /// Runs a job with both ends on this host, or the part of it that an exchange has.
    pub fn run_here(
        &mut self,
        request: &RunHereRequest,
        observer: &dyn Observer,
        exchange: Option<&dyn WorkExchange>,
    ) -> RunUsage {
        if request.job.mode == Mode::Digest(Algorithm::Sha256) {
            return match self.open_source(&request.roots, &request.job) {
                Ok(source) => self.hash(&*source, &request.job, observer),
                Err(error) => failed(error),
            };
        }
        let prepared = self.lock(&request.job, &request.identity).and_then(|lock| {
            let source = self.open_source(&request.roots, &request.job)?;
            let target = self.open_target(&request.root, &request.grant, &request.identity)?;
            Ok((lock, source, target))
        });
        let (_lock, source, target) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return failed(error),
        };
        self.run_between((&*source, &target), &request.job, observer, exchange)
    }

    /// Runs a job with one end on this host and the other in a store that this process has opened.
    pub fn run_with_store(
        &mut self,
        request: &StoreRunRequest,
        store: &StorePlace,
        observer: &dyn Observer,
    ) -> RunUsage {
        let StoreRunRequest { run, to_store, full } = request;
        let job = Job { full: *full, ..run.job.clone() };
        let prepared = self.lock(&run.job, &run.identity).and_then(|lock| {
            let (source, target): (_, Box<dyn TargetEndpoint>) = match to_store {
                true => (self.open_source(&run.roots, &run.job)?, store.open_target(&run.root, &run.grant)?),
                false => {
                    let source = store.open_source(&run.roots)?;
                    (source, Box::new(self.open_target(&run.root, &run.grant, &run.identity)?))
                }
            };
            Ok((lock, source, target))
        });
        match prepared {
            Ok((_lock, source, target)) => self.run_between((&*source, &*target), &job, observer, None),
            Err(error) => failed(error),
        }
    }

    /// Takes the lock of a job. Digests take none, so any number of them may run at a time.
    pub fn lock(&self, job: &Job, identity: &[u8; 16]) -> Result<Option<JobLock>> {
        match job.mode.is_digest() {
            true => Ok(None),
            false => JobLock::take(identity).map(Some),
        }
    }

    /// Opens the sources of a job, beneath the restriction if there is one.
    ///
    /// # Errors
    /// If a root cannot be opened.
    pub fn open_source(&self, roots: &[MachinePath], job: &Job) -> Result<Box<dyn SourceEndpoint>> {
        if let Some(input) = &self.streams.input {
            let source = StreamSource::new(stream::open_input(input)?, job.dry_run, self.stop.cancel.clone());
            return Ok(Box::new(source));
        }
        let roots: Vec<_> = roots.iter().map(|root| SourceRoot { path: machine::path(&root.0) }).collect();
        let source = match &self.restricted {
            Some(confinement) => LocalSource::open_within(confinement, &roots)?.files_only(),
            None => LocalSource::open(&roots)?,
        };
        Ok(Box::new(source.requiring(&job.require).apart_from(&job.target_directories)))
    }

    /// Opens the target of a job, beneath the restriction if there is one.
    ///
    /// # Errors
    /// If the root cannot be opened.
    pub fn open_target(&self, root: &[u8], grant: &Grant, job: &[u8; 16]) -> Result<LocalTarget> {
        let (path, grant, options) = (machine::path(root), grant.clone(), target_options(job));
        let target = match &self.restricted {
            // The content of a digest is discarded. The grant was made here and permits no changes.
            Some(_) if is_nowhere(root, &grant) => LocalTarget::open(&path, grant, options)?.files_only(),
            Some(confinement) => {
                let options = TargetOptions { state: None, ..options };
                LocalTarget::open_within(confinement, &path, grant, options)?.files_only()
            }
            None => LocalTarget::open(&path, grant, options)?,
        };
        Ok(match &self.streams.output {
            Some(output) => target.with_stream(stream::open_output(output)?),
            None => target,
        })
    }

    /// Computes a digest that cannot be shared among lanes, of a source that this process has opened.
    pub fn hash(&self, source: &dyn SourceEndpoint, job: &Job, observer: &dyn Observer) -> RunUsage {
        let target = Sha256Sink::default();
        let job = Job { lanes: 1, digest: false, ..job.clone() };
        let mut ran = self.run_between((source, &target), &job, observer, None);
        ran.summary.digest = target.digest();
        ran
    }

    /// Runs a job between two endpoints that this process has opened, or the part of it that an exchange has.
    pub fn run_between(
        &self,
        (source, target): (&dyn SourceEndpoint, &dyn TargetEndpoint),
        job: &Job,
        observer: &dyn Observer,
        exchange: Option<&dyn WorkExchange>,
    ) -> RunUsage {
        let tagger = match new_tagger() {
            Ok(tagger) => tagger,
            Err(error) => return failed(error),
        };
        let (clock, changes, cancel) = (&SystemClock::new(), &*self.limits, &*self.stop.cancel);
        let setup = Setup { source, target, job, observer, clock, tagger, changes, cancel, exchange };
        let summary = engine::run(&setup);
        RunUsage { summary, peak_memory_bytes: machine::peak_memory_bytes(), ..RunUsage::default() }
    }
}

impl Drop for LocalHost {
    fn drop(&mut self) {
        self.end_serving();
    }
}

impl TargetSession {
    /// Accepts connections until the session ends. A connection that fails the handshake is closed.
    fn accept(self: Arc<Self>, listener: &DataListener) {
        while !self.ended.load(Ordering::Acquire) && !self.stop.is_asked() {
            self.stop.end_unanswered();
            match listener.accept(LOOK_EVERY) {
                Ok(Some(stream)) => self.clone().start(stream),
                Ok(None) => {}
                Err(error) => return self.record(error),
            }
        }
    }

    /// Checks that connections are alive until `until`, or until the session ends. Returns false if it has ended.
    fn watch(&self, until: Option<Instant>) -> bool {
        while !self.ended.load(Ordering::Acquire) && !self.stop.is_asked() {
            if until.is_some_and(|until| Instant::now() >= until) {
                return true;
            }
            self.stop.end_unanswered();
            std::thread::park_timeout(LOOK_EVERY);
        }
        false
    }

    fn dial(self: &Arc<Self>, addresses: &[String], port: u16, lanes: u16) -> Result<SocketAddr> {
        let (address, first) = data_path::dial(addresses, port)?;
        self.clone().start(first.into());
        for _ in 1..lanes.min(CONNECTIONS_MAX) {
            self.clone().start(data_path::dial_again(address)?.into());
        }
        Ok(address)
    }

    /// Makes further connections one after another, and checks that the existing ones are alive. The engine's side
    /// does not request them; they are ready when it wants one.
    fn dial_further(self: Arc<Self>, address: SocketAddr, count: u16) {
        let mut next = Instant::now() + DIAL_FURTHER_AFTER;
        for _ in 0..count {
            if !self.watch(Some(next)) {
                return;
            }
            // A run continues with the connections it has.
            let Ok(stream) = data_path::dial_again(address) else { break };
            self.clone().start(stream.into());
            next = Instant::now() + DIAL_FURTHER_EVERY;
        }
        self.watch(None);
    }

    /// Serves one connection on a thread of its own.
    fn start(self: Arc<Self>, stream: socket2::Socket) {
        self.open.fetch_add(1, Ordering::AcqRel);
        std::thread::spawn(move || {
            self.meet(stream);
            self.open.fetch_sub(1, Ordering::AcqRel);
        });
    }

    fn meet(&self, stream: socket2::Socket) {
        let Ok(number) = self.strangers.enter(&stream) else { return };
        // The end of the session dismisses those that have entered before it.
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        let connection = Connection::server(stream, &self.identity, self.peer, self.cipher, HANDSHAKE_LIMIT);
        self.strangers.leave(number);
        // A stranger at the port is not an error of the session.
        let Ok(connection) = connection else { return };
        if self.connected.fetch_add(1, Ordering::AcqRel) < usize::from(CONNECTIONS_MAX) {
            let served = self.stop.add(&connection).and_then(|()| match self.ended.load(Ordering::Acquire) {
                true => Ok(()),
                false => serve(connection, &self.target),
            });
            if let Err(error) = served {
                self.record(error);
            }
        }
        self.connected.fetch_sub(1, Ordering::AcqRel);
    }

    fn record(&self, error: Error) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Dials once for each lane, all at the same time after the first.
fn dial_all(
    addresses: &[String],
    port: u16,
    lanes: u16,
    peer: &Arc<Peer>,
) -> Result<(SocketAddr, Vec<Connection>)> {
    let (address, first) = data_path::dial(addresses, port)?;
    let more: Vec<_> =
        (1..lanes).map(|_| std::thread::spawn(move || data_path::dial_again(address))).collect();
    let mut streams = vec![first];
    for dialled in more {
        streams.push(dialled.join().unwrap_or_else(|_| Err(no_port()))?);
    }
    let handshakes: Vec<_> = streams
        .into_iter()
        .map(|stream| {
            let peer = peer.clone();
            std::thread::spawn(move || peer.shake_hands(stream))
        })
        .collect();
    let cut = |_| Err(connection::ConnectionError::Cut);
    let made = handshakes.into_iter().map(|made| made.join().unwrap_or_else(cut).map_err(lost));
    Ok((address, made.collect::<Result<_>>()?))
}

/// Returns a target's options. `durable` is always set: the engine decides by requesting a barrier or not.
fn target_options(job: &[u8; 16]) -> TargetOptions {
    let mut key = [0; 32];
    key[..16].copy_from_slice(job);
    TargetOptions { job: key, durable: true, state: machine::state_directory() }
}

/// Returns the tagger of one run, with a key of its own.
fn new_tagger() -> Result<Tagger> {
    let mut key = [0; TAG_KEY_BYTES];
    aws_lc_rs::rand::fill(&mut key).map_err(|_| {
        Error::new(ErrorKind::Unsupported, "beginning the run", "the system gives no random numbers")
    })?;
    Tagger::new(TagKey(key))
}

fn failed(error: Error) -> RunUsage {
    RunUsage { summary: RunSummary { fatal: Some(error), ..RunSummary::default() }, ..RunUsage::default() }
}

fn no_port() -> Error {
    Error::new(ErrorKind::Usage, "making data connections", "no port was opened for them")
}

/// The system's monotonic clock.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl SystemClock {
    /// Returns a clock that starts at 0 now.
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn thread_time(&self) -> ThreadTime {
        thread_time()
    }
}
