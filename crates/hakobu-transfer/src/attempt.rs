//! One attempt at a copy: opens the hosts, examines the locations, decides where entries land, and runs the job.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hakobu_core::compression::Compression;
use hakobu_core::digest::Algorithm;
use hakobu_core::endpoint::Earlier;
use hakobu_core::engine::{FREE_SPACE, RunSummary};
use hakobu_core::error::{Error, ErrorKind, ErrorStep, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::exchange::WorkExchange;
use hakobu_core::grant::Grant;
use hakobu_core::job::{Job, Mode};
use hakobu_core::location::Location;
use hakobu_core::losses::LossKind;
use hakobu_core::report::UsedTransport;
use hakobu_core::units::format_bytes;
use hakobu_proto::control::{Cipher, MachinePath, RunHereRequest, RunRequest, RunUsage, StoreRunRequest};

use crate::carryover::Carryover;
use crate::connect::{ConnectParameters, HostConnections};
use crate::content_route::ContentRoute;
use crate::error_paths::{self, AtTarget};
use crate::event_log::EventLog;
use crate::fit;
use crate::host::far_store::StoreAgent;
use crate::host::{AgentHost, Host};
use crate::job::JobMaker;
use crate::machines::machines;
use crate::opening::{HostOpener, TransferHosts};
use crate::plan::{self, Planner, TransferPlan};
use crate::shared_run;
use crate::unit_exchange::UnitExchange;
use hakobu_agent::local_host::LocalHost;
use hakobu_agent::stream;
use hakobu_core::outcome::{RunEnvironment, Transfer};
use hakobu_core::request::{CipherChoice, CopyRequest, Transport};
use hakobu_net::cipher;
use hakobu_net::stop::StopHandle;

/// The notice if compression is asked for and no data is transferred between hosts.
const COMPRESSION_WITHOUT_EFFECT: &str = "--compress has no effect: source and target are on the same host";
/// The notice if root was refused on a network file system.
const ROOT_IS_SQUASHED: &str = "an NFS server treats root as nobody unless its export says no_root_squash; with that, \
                                root may read everything and keep owners";

/// One attempt at a copy.
pub struct Attempt<'a, 'b> {
    pub request: &'a CopyRequest,
    pub surroundings: &'a mut RunEnvironment<'b>,
    /// The time at which the first attempt began.
    pub began: Instant,
    /// The maximum time of a login, unless it is the first.
    pub login_limit: Option<Duration>,
    pub carryover: &'a mut Carryover,
    /// The place where the run takes its part of the work from, if others have the rest.
    pub exchange: Option<&'a dyn WorkExchange>,
}

/// Holds events back until the run has reported its locations, which must come first.
#[derive(Default)]
struct DelayedEvents(Mutex<Vec<Event>>);

impl DelayedEvents {
    fn tell(&self, observer: &dyn Observer) {
        let events = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        events.into_iter().for_each(|event| observer.event(event));
    }
}

impl Observer for DelayedEvents {
    fn event(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

/// The arguments with which a job is run.
struct RunInput<'a> {
    job: Job,
    identity: [u8; 16],
    roots: Vec<MachinePath>,
    root: Vec<u8>,
    grant: Grant,
    exchange: Option<&'a dyn WorkExchange>,
}

impl RunInput<'_> {
    /// Returns the request to the process that has both ends.
    fn into_request(self) -> RunHereRequest {
        let Self { job, identity, roots, root, grant, exchange: _ } = self;
        RunHereRequest { job, identity, roots, root, grant }
    }
}

impl Attempt<'_, '_> {
    /// Tells the user something that further attempts do not repeat.
    fn tell_once(&self, words: &str) {
        if !self.carryover.told {
            self.surroundings.observer.event(Event::Notice { words: words.to_owned() });
        }
    }

    /// Runs the attempt. `transfer` also holds what is known if it fails.
    ///
    /// # Errors
    /// The reason why the job could not run. An error that ended the job early is in the summary.
    pub fn run(mut self, transfer: &mut Transfer) -> Result<()> {
        let mut hosts = match self.carryover.hosts.take() {
            Some(hosts) => hosts,
            None => self.open()?,
        };
        if (hosts.target.is_none() || hosts.store_agent.is_some()) && self.request.wants_compression() {
            self.tell_once(COMPRESSION_WITHOUT_EFFECT);
        }
        let plan = self.plan(&mut hosts)?;
        if self.carryover.only_agrees {
            self.carryover.hosts = Some(hosts);
            return Ok(());
        }
        let decisions = DelayedEvents::default();
        let mut job = self.job(&hosts, &plan, &decisions);
        if self.exchange.is_some() {
            shared_run::check_plan(&hosts, &job)?;
            // A file that changed after another lease began with it is begun anew.
            job.earlier = if job.earlier == Earlier::Refuse { Earlier::Continue } else { job.earlier };
        }
        let ends = fit::HostPair::of(&hosts);
        ends.check(&job, self.request.passes.is_some())?;
        if !std::mem::replace(&mut self.carryover.told, true) {
            ends.tell(&job, self.surroundings.observer);
        }
        transfer.machines = machines(&hosts);
        self.locate(&plan, transfer);
        decisions.tell(self.surroundings.observer);
        transfer.verified = job.digest && !job.dry_run && ends.hash();
        let unit = self.exchange.map(|exchange| UnitExchange::begin(exchange, plan.new_target.clone()));
        self.carryover.has_begun_unit = unit.is_some();
        if let Some(unit) = &unit {
            shared_run::check_target(&hosts, &plan, unit)?;
        }
        let TransferPlan {
            identity, roots, root, mut grant, new_target, over_network, written_sectors, ..
        } = plan;
        grant.lease = unit.as_ref().map(|unit| unit.lease().clone());
        let identity = unit.as_ref().map_or(identity, |unit| unit.identity(&identity));
        let exchange = unit.as_ref().map(|unit| unit as &dyn WorkExchange);
        let is_root = [&*hosts.source, hosts.target()].iter().any(|host| host.machine().uid == 0);
        let allows_rights = grant.may_set_id;
        let named_root = match self.request.target.is_stream() {
            true => stream::OUTPUT_NAME.to_vec(),
            false => hosts.target().name_of(&root),
        };
        let observer =
            AtTarget { observer: self.surroundings.observer, root: named_root.clone(), new_target };
        let input = RunInput { job, identity, roots, root, grant, exchange };
        let mut ran = self.run_where_it_belongs(&mut hosts, transfer, &observer, input)?;
        ran.summary.failures.iter_mut().for_each(|failure| error_paths::name_failure(failure, &named_root));
        if let Some(fatal) = &mut ran.summary.fatal {
            // Objects in a store are named in full, so an absolute path is one at the other end.
            let engine = if hosts.source.is_store() { hosts.target() } else { &*hosts.source };
            error_paths::name_fatal(fatal, engine, &named_root);
        }
        transfer.rights_withheld = !self.request.mode.only_reads()
            && !allows_rights
            && ran.summary.losses.iter().any(|loss| loss.what == LossKind::SetId);
        transfer.summary = ran.summary;
        self.check_required(&mut transfer.summary);
        refuse_for_room(&mut transfer.summary);
        if self.carryover.is_still && transfer.summary.fatal.is_none() {
            let now = plan::written_by_now(self.request, &mut *hosts.source)?;
            transfer.summary.fatal = (now != written_sectors).then(|| was_written_to(now, written_sectors));
        }
        if over_network && is_root {
            self.explain_refusals(&transfer.summary);
        }
        if transfer.summary.fatal.is_none() && transfer.summary.failures.is_empty() {
            self.carryover.agreed.is_written();
        }
        if self.carryover.keeps_hosts && transfer.summary.fatal.is_none() {
            self.carryover.hosts = Some(hosts);
        }
        Ok(())
    }

    fn open(&mut self) -> Result<TransferHosts> {
        let RunEnvironment { prompts, observer, cancel, limits, .. } = &mut *self.surroundings;
        let (request, login_limit) = (self.request, self.login_limit);
        HostOpener { request, prompts: &mut **prompts, observer: *observer, cancel, limits, login_limit }
            .open()
    }

    fn plan(&mut self, hosts: &mut TransferHosts) -> Result<TransferPlan> {
        let mut planner = Planner {
            request: self.request,
            agreed: &mut self.carryover.agreed,
            prompts: self.surroundings.prompts,
            observer: self.surroundings.observer,
        };
        planner.plan(hosts)
    }

    fn job(&self, hosts: &TransferHosts, plan: &TransferPlan, observer: &dyn Observer) -> Job {
        let request = self.request;
        JobMaker { request, limits: &self.surroundings.limits, observer, hosts, plan }.job(self.carryover)
    }

    /// Records and reports the resolved locations of sources and target.
    fn locate(&self, plan: &TransferPlan, transfer: &mut Transfer) {
        transfer.sources.clone_from(&plan.sources);
        transfer.target = Some(plan.landed.clone());
        transfer.disks.clone_from(&plan.disks);
        let mut target = plan.landed.clone();
        if let more @ 1.. = plan.pairs.len().saturating_sub(1) {
            target.extend_from_slice(format!(" and {more} more").as_bytes());
        }
        let (sources, machines) = (plan.sources.clone(), Box::new(transfer.machines.clone()));
        self.surroundings.observer.event(Event::Located { sources, target, machines });
        transfer.pairs.clone_from(&plan.pairs);
        transfer.job = Some(plan.identity.iter().map(|byte| format!("{byte:02x}")).collect());
    }

    /// Runs the job: in this process if a host has no agent, on the host of both ends, or else on the source's host.
    fn run_where_it_belongs(
        &mut self,
        hosts: &mut TransferHosts,
        transfer: &mut Transfer,
        observer: &dyn Observer,
        input: RunInput<'_>,
    ) -> Result<RunUsage> {
        let route = ContentRoute::of(hosts);
        if let Some(agent) = hosts.store_agent.clone() {
            self.is_connected(&route, transfer);
            let to_store = hosts.source.has_agent();
            return self.run_with_store(&agent, to_store, transfer, observer, input);
        }
        if !hosts.have_agents() {
            self.is_connected(&route, transfer);
            return self.run_from_here(hosts, transfer, observer, input);
        }
        let TransferHosts { source, target, .. } = hosts;
        match (source.as_agent(), target.as_mut().map(|target| target.as_agent())) {
            (Some(engine), Some(Some(target))) => {
                self.run_apart(engine, target, route, transfer, observer, input)
            }
            (Some(engine), None) => {
                self.is_connected(&route, transfer);
                self.run_on_one(engine, transfer, observer, input)
            }
            _ => Err(Error::new(
                ErrorKind::Usage,
                "running a job",
                "one end has an agent and the other has not",
            )),
        }
    }

    /// Runs a job with both ends opened by this process.
    fn run_from_here(
        &mut self,
        hosts: &TransferHosts,
        transfer: &mut Transfer,
        observer: &dyn Observer,
        input: RunInput<'_>,
    ) -> Result<RunUsage> {
        transfer.transport = hosts.route();
        let RunInput { job, identity, roots, root, grant, exchange } = input;
        let here = LocalHost::new(StopHandle::with_flag(Arc::clone(&self.surroundings.cancel)));
        let here = here.with_limits(Arc::clone(&self.surroundings.limits));
        let _lock = here.lock(&job, &identity)?;
        let source = hosts.source.open_source(&roots, &job)?;
        // A digest is computed by this process, which receives the content.
        let ran = match job.mode {
            Mode::Digest(Algorithm::Sha256) => here.hash(&*source, &job, observer),
            Mode::Digest(Algorithm::Blake3) => {
                let target = here.open_target(&root, &grant, &identity)?;
                here.run_between((&*source, &target), &job, observer, exchange)
            }
            _ => {
                let target = hosts.target().open_target(&root, &grant, &identity, &job)?;
                here.run_between((&*source, &*target), &job, observer, exchange)
            }
        };
        self.carryover.entries_made = Some(ran.summary.counters.entries_absent);
        // On a host without an agent, no process of hakobu uses memory.
        let of = |host: &dyn Host| ran.peak_memory_bytes.filter(|_| host.is_here());
        transfer.peak_memory_bytes = (of(&*hosts.source), of(hosts.target()));
        Ok(ran)
    }

    /// Runs a job with both ends on one host, which is this one or has an agent.
    fn run_on_one(
        &mut self,
        engine: &mut dyn AgentHost,
        transfer: &mut Transfer,
        observer: &dyn Observer,
        input: RunInput<'_>,
    ) -> Result<RunUsage> {
        let (told, exchange) = (EventLog::new(observer, input.job.lanes), input.exchange);
        let request = input.into_request();
        let (cancel, limits) = (&self.surroundings.cancel, &*self.surroundings.limits);
        let ran = match (engine.side(), exchange) {
            (Some(here), Some(_)) => Ok(here.run_here(&request, &told, exchange)),
            _ => engine.run_here(request, &told, cancel, limits),
        };
        let ran = self.ran_alone(ran, &told, transfer)?;
        transfer.peak_memory_bytes = (ran.peak_memory_bytes, ran.peak_memory_bytes);
        Ok(ran)
    }

    /// Runs a job between another host and a store that its agent has opened.
    fn run_with_store(
        &mut self,
        agent: &StoreAgent,
        to_store: bool,
        transfer: &mut Transfer,
        observer: &dyn Observer,
        input: RunInput<'_>,
    ) -> Result<RunUsage> {
        let (told, full) = (EventLog::new(observer, input.job.lanes), input.job.full);
        let request = StoreRunRequest { run: input.into_request(), to_store, full };
        let (cancel, limits) = (&self.surroundings.cancel, &*self.surroundings.limits);
        let ran = agent.run(request, &told, cancel, limits);
        let mut ran = self.ran_alone(ran, &told, transfer)?;
        let ends = [self.request.sources.first(), Some(&self.request.target)];
        if let Some(store) = ends.into_iter().flatten().find_map(Location::store) {
            ran.summary.fatal = ran.summary.fatal.map(|error| agent.there(store, error));
        }
        transfer.peak_memory_bytes = match to_store {
            true => (ran.peak_memory_bytes, None),
            false => (None, ran.peak_memory_bytes),
        };
        Ok(ran)
    }

    /// Returns the result of one process that had both ends of a job, also if that process was lost.
    ///
    /// # Errors
    /// The error of a process that was lost, if nothing is known of what it did.
    fn ran_alone(
        &mut self,
        ran: Result<RunUsage>,
        told: &EventLog<'_>,
        transfer: &mut Transfer,
    ) -> Result<RunUsage> {
        transfer.transport = UsedTransport::Local;
        self.carryover.entries_made = ran.as_ref().ok().map(|ran| ran.summary.counters.entries_absent);
        ran.or_else(|error| told.ran(error))
    }

    /// Runs a job whose ends are on different hosts.
    fn run_apart(
        &mut self,
        engine: &mut dyn AgentHost,
        target: &mut dyn AgentHost,
        route: ContentRoute,
        transfer: &mut Transfer,
        observer: &dyn Observer,
        input: RunInput<'_>,
    ) -> Result<RunUsage> {
        let RunInput { job, identity, roots, root, grant, exchange } = input;
        let cipher = self.cipher(engine, target)?;
        let meeting = ConnectParameters {
            job: identity,
            root: &root,
            grant: &grant,
            cipher,
            cipher_in_ssh: match self.request.cipher {
                CipherChoice::Auto => Cipher::None,
                _ => cipher,
            },
            transport: if self.carryover.by_ssh { Transport::Ssh } else { self.request.transport },
            lanes: job.lanes,
            lanes_max: job.lanes_max,
            data_address: self.request.data_address.as_deref(),
            data_port: self.request.data_port,
            observer: self.surroundings.observer,
        };
        let met = meeting.meet(engine, target);
        let HostConnections { capabilities, lanes, lanes_max, cipher, by_ssh, relay, carriers } =
            met.map_err(|error| error_paths::on(target, &root, error))?;
        transfer.transport = UsedTransport::of_connections(by_ssh, relay.is_some());
        transfer.cipher = Some(cipher::name(cipher));
        // A port that could not be reached just now is not tried again after a lost connection.
        self.carryover.by_ssh = by_ssh && relay.is_none();
        let job = Job { lanes, lanes_max, ..job };
        let route = if relay.is_some() { route.relayed() } else { route };
        let mut carried = Some((relay, carriers));
        self.is_connected(&route, transfer);
        engine.depend_on(target)?;
        let told = EventLog::new(observer, job.lanes);
        let request = RunRequest { job, roots, capabilities };
        let ran = match (engine.side(), exchange) {
            (Some(here), Some(_)) => Ok(here.run(&request, &told, exchange)),
            _ => engine.run(request, &told, &self.surroundings.cancel, &*self.surroundings.limits),
        };
        let lost = ran.is_err();
        // A user who asks for a stop does not want to wait for an orderly end either.
        let stopped = self.surroundings.cancel.load(Relaxed);
        let cut = match &ran {
            _ if stopped => true,
            Ok(ran) => ran.summary.fatal.as_ref().is_some_and(Error::may_retry),
            Err(error) => error.may_retry(),
        };
        if cut {
            // ssh does not report that its remote end is gone, so its processes are ended here.
            carried = None;
        }
        let served = target.end_serving(cut);
        drop(carried);
        // Either end knows the number. If both are lost, nobody does.
        self.carryover.entries_made = match (&ran, &served) {
            (Ok(ran), _) => Some(ran.summary.counters.entries_absent),
            (Err(_), Ok(served)) => served.entries_made,
            (Err(_), Err(_)) => None,
        };
        let mut ran = ran.or_else(|error| told.ran(error))?;
        transfer.wire_bytes = (!lost).then_some((ran.wire_sent_bytes, ran.wire_received_bytes));
        match served {
            // The reason why the engine's host was lost is already known.
            _ if lost => {}
            Ok(served) => {
                transfer.peak_memory_bytes = (ran.peak_memory_bytes, served.peak_memory_bytes);
                explain(&mut ran.summary, served.error);
            }
            Err(error) => {
                transfer.peak_memory_bytes = (ran.peak_memory_bytes, None);
                // Without a fatal error everything was acknowledged, and only the end of serving failed.
                if ran.summary.fatal.is_some() && !error.may_retry() {
                    explain(&mut ran.summary, Some(error));
                }
            }
        }
        Ok(ran)
    }

    /// Fails the run if metadata named by `--require` was lost. The target finds some losses, such as an owner that
    /// it may not set, only at the end.
    fn check_required(&self, summary: &mut RunSummary) {
        let lost = summary.losses.iter().find(|loss| self.request.require.contains(&loss.what));
        if let (Some(loss), None) = (lost, &summary.fatal) {
            let words = format!("--require {} is not met: the target could not keep it", loss.what.name());
            let error = Error::new(ErrorKind::Requirement, "copying", words);
            summary.fatal = Some(error.at(&loss.example));
        }
    }

    /// Reports why root may have been refused.
    fn explain_refusals(&self, summary: &RunSummary) {
        let errors = summary.failures.iter().map(|failure| &failure.error).chain(&summary.fatal);
        if errors.into_iter().any(|error| error.kind == ErrorKind::PermissionDenied) {
            self.surroundings.observer.event(Event::Notice { words: ROOT_IS_SQUASHED.to_owned() });
        }
    }

    /// Records that both ends are ready, and tells the route of content between them.
    fn is_connected(&mut self, route: &ContentRoute, transfer: &mut Transfer) {
        transfer.connect = self.began.elapsed();
        transfer.route.clone_from(&route.machines);
        self.surroundings.observer.event(route.decision());
        self.carryover.outages.end(Instant::now());
    }

    fn cipher(&self, engine: &mut dyn AgentHost, target: &mut dyn AgentHost) -> Result<Cipher> {
        let (chosen, why) = match self.request.cipher {
            CipherChoice::Auto => cipher::fastest(engine.cipher_speed()?, target.cipher_speed()?),
            CipherChoice::Aes128Gcm => (Cipher::Aes128Gcm, "as asked".to_owned()),
            CipherChoice::Aes256Gcm => (Cipher::Aes256Gcm, "as asked".to_owned()),
            CipherChoice::ChaCha20Poly1305 => (Cipher::Chacha20Poly1305, "as asked".to_owned()),
            CipherChoice::None => {
                (Cipher::None, "as asked; data is authenticated, but readable on the way".to_owned())
            }
        };
        self.decided(format!("cipher: {}", cipher::name(chosen)), why);
        self.tell_compression();
        Ok(chosen)
    }

    /// Reports the choice of compression. Lanes report the levels that they choose later.
    fn tell_compression(&self) {
        let (choice, why) = match self.request.compression {
            Compression::Auto => (
                "auto".to_owned(),
                "at first on a link with a long round trip, otherwise once the network is the \
                    bottleneck",
            ),
            Compression::None => ("none".to_owned(), "as asked"),
            Compression::Adapted => ("zstd".to_owned(), "as asked, at the level that pays off"),
            Compression::Level(level) => (format!("zstd {level}"), "as asked"),
        };
        self.decided(format!("compression: {choice}"), why.to_owned());
    }

    fn decided(&self, choice: String, reason: String) {
        self.surroundings.observer.event(Event::Decision { choice, reason });
    }
}

/// Replaces a lost connection as the cause by the error of the target server, which may know better why it ended.
fn explain(summary: &mut RunSummary, served: Option<Error>) {
    let Some(served) = served else { return };
    match &mut summary.fatal {
        Some(fatal)
            if fatal.kind == ErrorKind::ConnectionLost && served.kind != ErrorKind::ConnectionLost =>
        {
            *fatal = served;
        }
        _ => {}
    }
}

/// Turns a lack of space that was foreseen before anything was written into a refusal: nothing has been done.
fn refuse_for_room(summary: &mut RunSummary) {
    let counters = &summary.counters;
    let done = [counters.target_written_bytes, counters.entries_created, counters.entries_updated];
    let was_foreseen =
        |fatal: &&mut Error| fatal.kind == ErrorKind::NoSpace && fatal.step != ErrorStep::Write;
    if done == [0; 3]
        && let Some(fatal) = summary.fatal.as_mut().filter(was_foreseen)
    {
        fatal.kind = ErrorKind::Refused;
        fatal.hint.get_or_insert_with(|| FREE_SPACE.into());
    }
}

/// Returns the error for a source that was written to while it was meant to be held still. `now`, `before`: sectors
/// of 512 bytes written to it so far.
fn was_written_to(now: u64, before: u64) -> Error {
    let words = format!(
        "{} were written to the source during the last pass, so the target may mix old and new data: make \
         --before-last-pass stop all writers, or unmount or freeze the source, and run it again",
        format_bytes(now.saturating_sub(before).saturating_mul(512))
    );
    Error::new(ErrorKind::SourceChanged, "making the last pass", words)
}
