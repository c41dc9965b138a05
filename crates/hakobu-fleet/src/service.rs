//! The service that `hakobu serve` runs: it waits to lead, leads with its buses, its broker and its interface, and waits again
//! if another control plane takes over.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::api::{ApiSettings, ApiState, listen, serve, serve_standby};
use crate::api_token::ApiToken;
use crate::bus::nats::leader::{NatsGroup, NatsLeaderBus};
use crate::bus::{BrokerBus, CallSink, LeaderBus};
use crate::change::LedgerChange;
use crate::control_loop::ControlHandle;
use crate::control_plane::ControlPlane;
use crate::errand::ErrandRunner;
use crate::fleet_clock::{FleetClock, MachineClock};
use crate::key_mark::{check_key, mark_key};
use crate::leader::LeaderSettings;
use crate::ledger::Ledger;
use crate::ledger::leadership::{Leadership, LeadershipState, LeadershipView};
use crate::ledger::place::LedgerPlace;
use crate::names::GroupName;
use crate::notification_queue::{QueuedNotifications, notification_queue};
use crate::notifier::{Notifier, NotifierSettings};
use crate::run_request::RequestReader;
use crate::sent_credentials::CredentialReader;
use crate::tls_listener::{TlsCertificate, TlsListener, TlsListenerLimits};
use crate::token::{NewToken, TokenRole};
use crate::worker::{BrokerWorker, WorkerSettings};

/// The time between two looks at whether the service has to do something else.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The time for which the token that is shown at the start can be used.
const FIRST_TOKEN_MS: u64 = 15 * 60 * 1000;
/// The time in which a control plane that waits finds out who leads.
const LEADER_FOUND_WITHIN: Duration = Duration::from_secs(3);
/// The pause after an error while it leads.
const ERROR_PAUSE: Duration = Duration::from_secs(2);

/// The ledger, unless it is lost, and the reason why leading failed.
type LeadingFailure = (Option<Box<dyn Ledger>>, Error);

/// A broker in the process of the control plane.
#[derive(Clone, Debug)]
pub struct BuiltInBroker {
    /// Its group.
    pub group: GroupName,
    /// Its other settings.
    pub worker: WorkerSettings,
    /// The time in which it finishes what it has when it is asked to end. Then it gives it back.
    pub drain: Duration,
}

/// The settings of the service.
pub struct ServiceSettings {
    /// The place of the ledger.
    pub place: LedgerPlace,
    /// The name of this control plane among several.
    pub name: String,
    /// The settings of the leader.
    pub leader: LeaderSettings,
    /// The address of the interface.
    pub listen: SocketAddr,
    /// The files of the certificate and of its key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Names of this host that requests may use.
    pub hosts: Vec<String>,
    /// The groups whose brokers come over NATS.
    pub nats: Vec<NatsGroup>,
    /// The broker in this process.
    pub broker: Option<BuiltInBroker>,
    /// The settings of notifications.
    pub notifications: NotifierSettings,
}

/// The parts of the program that the service uses.
#[derive(Clone)]
pub struct ServiceParts {
    /// Reads requests.
    pub reader: Arc<dyn RequestReader>,
    /// Carries out errands.
    pub errands: Arc<dyn ErrandRunner>,
    /// Takes notices.
    pub observer: Arc<dyn Observer + Send + Sync>,
    /// Asks the built-in broker to give back at once what it has, after the service was asked to end.
    pub stopping: Arc<AtomicBool>,
}

/// A service that listens.
pub struct ControlService {
    settings: ServiceSettings,
    parts: ServiceParts,
    runtime: Runtime,
    listener: std::net::TcpListener,
    address: SocketAddr,
    certificate: Option<Arc<TlsCertificate>>,
    notifier: Arc<Notifier>,
    has_shown_token: bool,
    /// The interface while it does not lead.
    waiting: Option<RunningInterface>,
    /// The beginning of the last trouble that was told.
    told_trouble_ms: u64,
}

/// An interface that ends after a message.
type RunningInterface = (oneshot::Sender<()>, tokio::task::JoinHandle<Result<()>>);

impl ControlService {
    /// Begins to listen.
    ///
    /// # Errors
    /// Those of the address, of the certificate, and of the mail server's settings.
    pub fn new(settings: ServiceSettings, parts: ServiceParts) -> Result<Self> {
        let at = |error: std::io::Error| {
            Error::io("listening", &error)
                .at(settings.listen.to_string())
                .hint("choose another address with --listen")
        };
        let certificate = match &settings.tls {
            Some((certificate, key)) => Some(Arc::new(TlsCertificate::load(certificate, key)?)),
            None => None,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| Error::io("starting the interface", &error))?;
        let listener = listen(settings.listen).map_err(at)?;
        let address = listener.local_addr().map_err(at)?;
        let page = url(certificate.is_some(), settings.hosts.first(), address);
        let clock: Arc<dyn FleetClock> = Arc::new(MachineClock);
        let (told, observer) = (settings.notifications.clone(), parts.observer.clone());
        let notifier = Arc::new(Notifier::new(told, page, clock, observer)?);
        Ok(Self {
            settings,
            parts,
            runtime,
            listener,
            address,
            certificate,
            notifier,
            has_shown_token: false,
            waiting: None,
            told_trouble_ms: 0,
        })
    }

    /// Returns the address of the interface.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the interface, for a browser.
    pub fn url(&self) -> String {
        url(self.certificate.is_some(), None, self.address)
    }

    /// Runs until it is asked to end. What the broker of this process has then is finished or given back.
    ///
    /// # Errors
    /// Those of the ledger at the start, and `Refused` if it was last led with a key that is not in the key file.
    pub fn run(mut self, ending: &Arc<AtomicBool>) -> Result<()> {
        let (mut ledger, mut leadership) = self.settings.place.open(&self.settings.name)?;
        // One that waits says so as well, not only when it is needed.
        check_key(&mut *ledger, &self.settings.notifications.keys).map_err(|error| self.at_ledger(error))?;
        let mut has_led = false;
        while !ending.load(Ordering::Acquire) {
            let view = leadership.view();
            self.wait_to_lead(&view, ending)?;
            if ending.load(Ordering::Acquire) {
                break;
            }
            let led = self.lead(ledger, &view, ending);
            if !ending.load(Ordering::Acquire) {
                self.begin_waiting(&view)?;
            }
            ledger = match led {
                Ok(ledger) => ledger,
                Err((_, error)) if !has_led || error.kind == ErrorKind::Refused => return Err(error),
                Err((ledger, error)) => {
                    self.tell(&error.to_string());
                    std::thread::sleep(ERROR_PAUSE);
                    match ledger {
                        Some(ledger) => ledger,
                        None => {
                            // Whoever else wants to lead may do so meanwhile.
                            drop(leadership);
                            let Some(opened) = self.open_again(ending)? else { return Ok(()) };
                            self.end_waiting();
                            leadership = opened.1;
                            opened.0
                        }
                    }
                }
            };
            has_led = true;
        }
        self.end_waiting();
        drop(leadership);
        Ok(())
    }

    /// Opens the ledger, which was open before, as soon as that is possible. Returns `None` if the service has to end first.
    fn open_again(&self, ending: &AtomicBool) -> Result<Option<(Box<dyn Ledger>, Leadership)>> {
        let mut told = false;
        while !ending.load(Ordering::Acquire) {
            match self.settings.place.open(&self.settings.name) {
                Ok(opened) => return Ok(Some(opened)),
                Err(error) if !error.may_retry() => return Err(error),
                Err(error) if !std::mem::replace(&mut told, true) => self.tell(&error.to_string()),
                Err(_) => {}
            }
            std::thread::sleep(ERROR_PAUSE);
        }
        Ok(None)
    }

    /// Adds the ledger to an error.
    fn at_ledger(&self, error: Error) -> Error {
        if error.at.is_empty() { error.at(self.settings.place.to_string()) } else { error }
    }

    fn tell(&self, words: &str) {
        self.parts.observer.event(Event::Notice { words: words.to_owned() });
    }

    /// Waits until this control plane leads, or has to end. Requests are told who leads meanwhile.
    fn wait_to_lead(&mut self, view: &LeadershipView, ending: &AtomicBool) -> Result<()> {
        let mut state = view.state();
        if !matches!(state, LeadershipState::Leading(_)) {
            self.begin_waiting(view)?;
        }
        let (begun, mut told) = (Instant::now(), None);
        while !matches!(state, LeadershipState::Leading(_)) && !ending.load(Ordering::Acquire) {
            if view.trouble().is_some() {
                self.tell_trouble(view);
            } else if let LeadershipState::Following { leader } = &state
                && (leader.is_some() || begun.elapsed() >= LEADER_FOUND_WITHIN)
                && told.as_ref() != Some(leader)
            {
                self.tell(&self.standby_words(leader.as_deref()));
                told = Some(leader.clone());
            }
            state = view.wait_for_change(&state, LOOK_EVERY);
        }
        self.end_waiting();
        Ok(())
    }

    /// Tells once why the ledger does not answer, if it does not.
    fn tell_trouble(&mut self, view: &LeadershipView) {
        let Some(trouble) = view.trouble().filter(|trouble| trouble.since_ms != self.told_trouble_ms) else {
            return;
        };
        self.told_trouble_ms = trouble.since_ms;
        self.tell(&self.at_ledger(trouble.error).to_string());
    }

    /// Begins to answer as a control plane that does not lead.
    fn begin_waiting(&mut self, view: &LeadershipView) -> Result<()> {
        if self.waiting.is_some() {
            return Ok(());
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async move {
            let _is_dropped = stopped.await;
        };
        let task = match self.tls()? {
            None => self.runtime.spawn(serve_standby(self.tcp()?, false, view.clone(), stopped)),
            Some(tls) => self.runtime.spawn(serve_standby(tls, true, view.clone(), stopped)),
        };
        self.waiting = Some((stop, task));
        Ok(())
    }

    /// Ends an interface, and tells its error.
    fn end_interface(&self, interface: Option<RunningInterface>) {
        let Some((stop, task)) = interface else { return };
        let _has_ended = stop.send(());
        if let Ok(Err(error)) = self.runtime.block_on(task) {
            self.tell(&error.to_string());
        }
    }

    fn end_waiting(&mut self) {
        if let Some((stop, task)) = self.waiting.take() {
            let _has_ended = stop.send(());
            let _has_ended = self.runtime.block_on(task);
        }
    }

    /// Describes a control plane that waits.
    fn standby_words(&self, leader: Option<&str>) -> String {
        let url = self.url();
        match leader {
            Some(leader) => format!("the control plane \"{leader}\" leads, and this one waits at {url}"),
            None => format!("no control plane is known to lead, and this one waits at {url}"),
        }
    }

    fn tcp(&self) -> Result<TcpListener> {
        let _guard = self.runtime.enter();
        let listener = self.listener.try_clone().and_then(TcpListener::from_std);
        listener.map_err(|error| Error::io("listening", &error).at(self.address.to_string()))
    }

    /// Returns a listener with TLS, if there is a certificate.
    fn tls(&self) -> Result<Option<TlsListener>> {
        let Some(certificate) = self.certificate.clone() else { return Ok(None) };
        let observer = self.parts.observer.clone();
        let failed = move |error: Error| observer.event(Event::Notice { words: error.to_string() });
        let tcp = self.tcp()?;
        let _guard = self.runtime.enter();
        let listener = TlsListener::new(tcp, certificate, TlsListenerLimits::default(), failed);
        listener.map(Some).map_err(|error| Error::io("listening", &error))
    }

    /// Leads until another one does, or the service has to end. Returns the ledger.
    fn lead(
        &mut self,
        mut ledger: Box<dyn Ledger>,
        view: &LeadershipView,
        ending: &Arc<AtomicBool>,
    ) -> std::result::Result<Box<dyn Ledger>, LeadingFailure> {
        if let Err(error) = mark_key(&mut *ledger, &self.settings.notifications.keys) {
            return Err((Some(ledger), self.at_ledger(error)));
        }
        let clock: Arc<dyn FleetClock> = Arc::new(MachineClock);
        let (groups, observer) = (self.settings.nats.clone(), self.parts.observer.clone());
        let (queue, queued) = notification_queue();
        let keys = self.settings.notifications.keys.clone();
        let buses = |handle: &ControlHandle| -> Result<Vec<Arc<dyn LeaderBus>>> {
            // The leader does this first, before any run ends.
            handle.spawn(move |leader| {
                leader.set_notifications(queue);
                leader.set_keys(keys);
            })?;
            if groups.is_empty() {
                return Ok(Vec::new());
            }
            let sink: Arc<dyn CallSink> = Arc::new(handle.clone());
            Ok(vec![Arc::new(NatsLeaderBus::start(groups, &sink, &observer, true)?)])
        };
        let plane = ControlPlane::start(ledger, clock, self.settings.leader.clone(), buses)
            .map_err(|error| (None, error))?;
        let notifier = start_notifier(self.notifier.clone(), &plane, queued);
        // The broker of this process ends with the leadership.
        let (broker_ending, broker_stopping) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let broker = self.start_broker(&plane, (&broker_ending, &broker_stopping));
        let (stop, stopped) = oneshot::channel();
        let served = self.start_interface(&plane, stopped);
        let shown = self.show_token(&plane);
        let failed =
            [broker.as_ref().err(), served.as_ref().err(), shown.as_ref().err(), notifier.as_ref().err()];
        let failed = failed.into_iter().flatten().next().cloned();
        while failed.is_none() && !ending.load(Ordering::Acquire) && view.is_leading() {
            std::thread::sleep(LOOK_EVERY);
        }
        broker_ending.store(true, Ordering::Release);
        if ending.load(Ordering::Acquire) && matches!(broker, Ok(Some(_))) {
            self.tell(
                "ending: what the broker of this control plane is working on is finished or given away",
            );
        }
        // Whoever asks need not wait until units and the ledger are done with.
        let is_deposed = failed.is_none() && !ending.load(Ordering::Acquire);
        let mut interface = served.ok().map(|task| (stop, task));
        if is_deposed {
            self.tell("this control plane does not lead any more");
            self.tell_trouble(view);
            self.end_interface(interface.take());
            if let Err(error) = self.begin_waiting(view) {
                self.tell(&error.to_string());
            }
        }
        if let Ok(Some(broker)) = broker {
            self.end_broker(broker, &broker_stopping);
        }
        self.end_interface(interface);
        let ledger = plane.end();
        // The leader has ended, so nothing is added to its queue.
        if let Ok(notifier) = notifier {
            let _has_panicked = notifier.join();
        }
        match (ledger, failed) {
            (Some(ledger), None) => Ok(ledger),
            (ledger, failed) => {
                let ended = || Error::new(ErrorKind::Io, "leading", "the thread of the leader has ended");
                Err((ledger, failed.unwrap_or_else(ended)))
            }
        }
    }

    fn start_broker(
        &self,
        plane: &ControlPlane,
        (ending, stopping): (&Arc<AtomicBool>, &Arc<AtomicBool>),
    ) -> Result<Option<std::thread::JoinHandle<()>>> {
        let Some(BuiltInBroker { group, worker, .. }) = &self.settings.broker else { return Ok(None) };
        let bus: Arc<dyn BrokerBus> = Arc::new(plane.local().broker(group));
        let worker = BrokerWorker::new(
            worker.clone(),
            (bus, self.parts.reader.clone()),
            (Arc::new(MachineClock), self.parts.observer.clone()),
            (ending.clone(), stopping.clone()),
        )
        .with_errands(self.parts.errands.clone())
        .with_credentials(CredentialReader::new(self.settings.notifications.places.clone())?);
        let thread = std::thread::Builder::new().name("broker".to_owned()).spawn(move || worker.run());
        thread.map(Some).map_err(|error| Error::io("starting the broker", &error))
    }

    /// Waits until the broker has ended. What it does not finish in time is given back.
    fn end_broker(&self, broker: std::thread::JoinHandle<()>, stopping: &AtomicBool) {
        let drain = self.settings.broker.as_ref().map_or(Duration::ZERO, |broker| broker.drain);
        let began = Instant::now();
        while !broker.is_finished() {
            let is_over = began.elapsed() >= drain || self.parts.stopping.load(Ordering::Acquire);
            if is_over && !stopping.swap(true, Ordering::AcqRel) {
                self.tell("the units at hand are given back");
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let _has_panicked = broker.join();
    }

    fn start_interface(
        &self,
        plane: &ControlPlane,
        stopped: oneshot::Receiver<()>,
    ) -> Result<tokio::task::JoinHandle<Result<()>>> {
        let settings = ApiSettings {
            is_tls: self.certificate.is_some(),
            hosts: self.settings.hosts.clone(),
            keys: Some(self.settings.notifications.keys.clone()),
        };
        let (handle, reader) = (plane.handle().clone(), self.parts.reader.clone());
        let state = Arc::new(ApiState::new(settings, handle, Arc::new(MachineClock), reader));
        let stop = async move {
            let _is_dropped = stopped.await;
        };
        Ok(match self.tls()? {
            None => self.runtime.spawn(serve(self.tcp()?, state, stop)),
            Some(tls) => self.runtime.spawn(serve(tls, state, stop)),
        })
    }

    /// Shows the address with a token that signs in once.
    fn show_token(&mut self, plane: &ControlPlane) -> Result<()> {
        if std::mem::replace(&mut self.has_shown_token, true) {
            self.tell(&format!("this control plane leads again, at {}", self.url()));
            return Ok(());
        }
        let token = ApiToken::generate()?;
        let now = MachineClock.moment();
        let added = NewToken {
            hash: token.hash(),
            label: "shown at the start".to_owned(),
            role: TokenRole::Admin,
            created: now,
            expires: Some(now.plus_ms(FIRST_TOKEN_MS)),
            is_single_use: true,
        };
        plane.handle().apply(LedgerChange::AddToken(added))?;
        let text = token.text();
        let text = String::from_utf8_lossy(text.expose());
        let words =
            format!("open {}/#/sign-in?token={text} (it signs in once, within 15 minutes)", self.url());
        self.tell(&words);
        Ok(())
    }
}

/// Starts the thread that delivers notifications. It ends some time after the leader.
fn start_notifier(
    notifier: Arc<Notifier>,
    plane: &ControlPlane,
    queued: QueuedNotifications,
) -> Result<std::thread::JoinHandle<()>> {
    let at = |error: std::io::Error| Error::io("starting the deliveries of notifications", &error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(at)?;
    let control = plane.handle().clone();
    let run = move || tokio::task::LocalSet::new().block_on(&runtime, notifier.run(queued, control));
    std::thread::Builder::new().name("notifications".to_owned()).spawn(run).map_err(at)
}

/// Returns the address of the interface, with a name of its host if it has one.
fn url(is_tls: bool, host: Option<&String>, address: SocketAddr) -> String {
    let scheme = if is_tls { "https" } else { "http" };
    match host {
        Some(host) => format!("{scheme}://{host}:{}", address.port()),
        None => format!("{scheme}://{address}"),
    }
}
