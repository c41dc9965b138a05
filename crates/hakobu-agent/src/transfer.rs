//! One copy from the request to its end: log in, look, decide where things land, meet, run, and try
//! again after a lost connection.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hakobu_core::compression::Compression;
use hakobu_core::endpoint::Earlier;
use hakobu_core::engine::Summary;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::grant::Grant;
use hakobu_core::job::{Job, LANES_MAX, Mode, Update};
use hakobu_core::location::SshHost;
use hakobu_core::losses::LossKind;
use hakobu_core::report::Route;
use hakobu_core::units::format_bytes;
use hakobu_proto::control::{Cipher, PathBytes, Ran, RunHereRequest, RunRequest};

use crate::cipher;
use crate::devices::Agreed;
use crate::fit;
use crate::lanes::Ends;
use crate::login::Login;
use crate::meet::{Meeting, Met};
use crate::outages::Outages;
use crate::outcome::{Surroundings, Transfer, add_earlier};
use crate::party::Party;
use crate::places::{self, AtTarget};
use crate::plan::{self, Plan, Planner};
use crate::request::{CipherChoice, CopyRequest, Durable, Lanes, Transport, Verify};
use crate::retry::{Next, Retries};
use crate::sftp::{self, SftpSide};
use crate::side::Side;
use crate::stop::Stop;
use crate::stream::{self, Streams};
use crate::told::Told;

/// By then a stop is known that ended a connection.
const STOP_SEEN_WITHIN: Duration = Duration::from_millis(200);
/// Said where root was refused on a network file system.
const ROOT_IS_SQUASHED: &str = "an NFS server treats root as nobody unless its export says no_root_squash; with that, \
                                root may read everything and keep owners";

/// What is kept from one run to the next of the same request.
#[derive(Default)]
pub(crate) struct Held {
    /// The disk to overwrite, once it has been agreed on.
    agreed: Agreed,
    /// Where there will be another run, the machines, so that nobody has to log in again.
    parties: Option<Parties>,
    keeps_parties: bool,
    /// No run comes after this one that would bring over what an earlier one has missed.
    pub is_last: bool,
    /// What was to be begun anew has been, by an attempt of this run.
    begun: bool,
    /// The run ends once everything has been looked at and agreed on.
    pub only_agrees: bool,
    /// Somebody holds the source still: nothing may have been written to it meanwhile.
    pub is_still: bool,
    /// Whether it was said what the way costs.
    told: bool,
    /// The data went through ssh, as no port could be reached.
    by_ssh: bool,
    outages: Outages,
}

impl Held {
    /// For several runs.
    pub fn for_more() -> Self {
        Self { keeps_parties: true, ..Self::default() }
    }
}

/// Why content is not compressed where it does not travel.
pub(crate) const COMPRESSION_IN_VAIN: &str =
    "nothing travels, for both ends are on one machine; leave it out";

/// What was to hold a source still did not.
fn was_written_to(now: u64, before: u64) -> Error {
    let words = format!(
        "{} were written to the source during the last pass, so the target may mix old and new: see what \
         --before-last-pass has to stop, or unmount the source (or fsfreeze), and run it again",
        format_bytes(now.saturating_sub(before).saturating_mul(512))
    );
    Error::new(ErrorKind::SourceChanged, "making the last pass", words)
}

/// Copies once.
pub(crate) fn run_once(
    request: &CopyRequest,
    surroundings: &mut Surroundings<'_>,
    held: &mut Held,
) -> Transfer {
    let mut transfer = attempts(request, surroundings, held);
    held.outages.end();
    transfer.outages = held.outages;
    transfer
}

/// Tries until it is done, or what is lost does not come back in time.
fn attempts(request: &CopyRequest, surroundings: &mut Surroundings<'_>, held: &mut Held) -> Transfer {
    let began = Instant::now();
    held.begun = false;
    let mut connect = None;
    let mut earlier: Option<Summary> = None;
    let mut earlier_wire_bytes = None;
    let mut retries = Retries::new(request.retry_for, request.unattended);
    loop {
        let mut transfer = Transfer::default();
        let login_limit = retries.login_limit(Instant::now());
        let held = &mut *held;
        let attempt = Attempt { request, surroundings: &mut *surroundings, began, login_limit, held };
        if let Err(error) = attempt.run(&mut transfer) {
            transfer.summary.fatal.get_or_insert(error);
        }
        connect = connect.or(Some(transfer.connect).filter(|connect| !connect.is_zero()));
        transfer.connect = connect.unwrap_or_default();
        if surroundings.cancel.load(Relaxed) && transfer.summary.fatal.is_some() {
            transfer.summary.fatal = Some(Error::new(ErrorKind::Cancelled, "copying", "stopped as asked"));
        }
        let advanced = transfer.summary.counters.target_written_bytes > 0;
        // Of several files some may not have been.
        held.begun |= advanced && request.pairs.is_empty() && request.sources.len() == 1;
        if let Some(earlier) = &earlier {
            add_earlier(&mut transfer.summary, earlier);
        }
        transfer.wire_bytes = sum(transfer.wire_bytes, earlier_wire_bytes);
        let Some(error) = transfer.summary.fatal.clone() else { return transfer };
        let next = retries.after(&error, advanced, Instant::now());
        if next == Next::End {
            return transfer;
        }
        if connect.is_some() {
            held.outages.begin();
        }
        if surroundings.cancel.load(Relaxed) {
            return transfer;
        }
        match next {
            Next::Again(pause, words) => {
                // The Ctrl-C of a terminal reaches ssh as well, whose end may be seen first.
                let asked = !sleep(STOP_SEEN_WITHIN, &surroundings.cancel);
                if !asked {
                    surroundings.observer.event(Event::Notice { words });
                }
                if asked || !sleep(pause, &surroundings.cancel) {
                    let error = Error::new(ErrorKind::Cancelled, "copying", "stopped as asked");
                    transfer.summary.fatal = Some(error);
                    return transfer;
                }
            }
            Next::End => return transfer,
            Next::GiveUp(error) => {
                transfer.summary.fatal = Some(error);
                return transfer;
            }
        }
        earlier_wire_bytes = transfer.wire_bytes;
        earlier = Some(transfer.summary);
    }
}

/// What both attempts had on the wire, as far as it is known.
fn sum(now: Option<(u64, u64)>, earlier: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (now, earlier) {
        (Some(now), Some(earlier)) => {
            Some((now.0.saturating_add(earlier.0), now.1.saturating_add(earlier.1)))
        }
        (known, None) | (None, known) => known,
    }
}

/// Sleeps unless a stop is asked for.
fn sleep(time: Duration, cancel: &AtomicBool) -> bool {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if cancel.load(Relaxed) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

/// The machines of a copy. One party where both ends are on one machine.
struct Parties {
    source: Party,
    target: Option<Party>,
}

impl Parties {
    fn target(&mut self) -> &mut Party {
        self.target.as_mut().unwrap_or(&mut self.source)
    }
}

/// One attempt at a copy.
struct Attempt<'a, 'b> {
    request: &'a CopyRequest,
    surroundings: &'a mut Surroundings<'b>,
    began: Instant,
    /// How long a login may take, if it is not the first.
    login_limit: Option<Duration>,
    held: &'a mut Held,
}

impl Attempt<'_, '_> {
    fn run(mut self, transfer: &mut Transfer) -> Result<()> {
        let mut parties = match self.held.parties.take() {
            Some(parties) => parties,
            None => self.parties()?,
        };
        if parties.target.is_none() && self.request.wants_compression() {
            return Err(Error::new(ErrorKind::Usage, "option", COMPRESSION_IN_VAIN).at("--compress"));
        }
        let plan = {
            let Parties { source, target } = &mut parties;
            let mut planner = Planner {
                request: self.request,
                agreed: &mut self.held.agreed,
                prompts: self.surroundings.prompts,
                observer: self.surroundings.observer,
            };
            planner.plan(source, target.as_mut())?
        };
        if self.held.only_agrees {
            self.held.parties = Some(parties);
            return Ok(());
        }
        let job = self.job(&mut parties, &plan);
        let ends = fit::Ends::new(&parties.source, parties.target.as_ref());
        ends.check(&job, self.request.passes.is_some())?;
        if !std::mem::replace(&mut self.held.told, true) {
            ends.tell(&job, self.surroundings.observer);
        }
        transfer.sources.clone_from(&plan.sources);
        transfer.target = Some(plan.landed.clone());
        transfer.disks.clone_from(&plan.disks);
        let mut target = plan.landed.clone();
        if let more @ 1.. = plan.pairs.len().saturating_sub(1) {
            target.extend_from_slice(format!(" and {more} more").as_bytes());
        }
        self.surroundings.observer.event(Event::Located { sources: plan.sources.clone(), target });
        transfer.pairs.clone_from(&plan.pairs);
        transfer.job = Some(plan.identity.iter().map(|byte| format!("{byte:02x}")).collect());
        transfer.verified = job.digest && !job.dry_run && ends.hash();
        let Plan { identity, roots, root, grant, over_network, written_sectors, .. } = plan;
        let is_root = parties.source.machine().uid == 0 || parties.target().machine().uid == 0;
        let allows_rights = grant.may_set_id;
        let named_root = match self.request.target.is_stream() {
            true => stream::OUTPUT_NAME.to_vec(),
            false => parties.target().name_of(&root),
        };
        let observer = AtTarget { observer: self.surroundings.observer, root: named_root.clone() };
        let mut ran = match parties.target {
            _ if has_sftp(&parties.source, parties.target.as_ref()) => {
                transfer.transport = Route::Sftp;
                self.is_connected(transfer);
                let target = parties.target.as_ref().unwrap_or(&parties.source);
                let limits = self.surroundings.limits.clone();
                let ends =
                    sftp::Ends { source: &parties.source, target, identity, roots, root, grant, limits };
                sftp::run(ends, job, &observer, self.surroundings.cancel.clone())?
            }
            None => {
                transfer.transport = Route::Local;
                self.is_connected(transfer);
                let told = Told::new(&observer, job.lanes);
                let request = RunHereRequest { job, identity, roots, root, grant };
                let ran = parties.source.run_here(
                    request,
                    &told,
                    &self.surroundings.cancel,
                    &*self.surroundings.limits,
                );
                ran.or_else(|error| told.ran(error))?
            }
            Some(_) => {
                self.run_apart(&mut parties, transfer, &observer, (job, identity, roots, root, grant))?
            }
        };
        ran.summary.failures.iter_mut().for_each(|failure| places::name_failure(failure, &named_root));
        if let Some(fatal) = &mut ran.summary.fatal {
            places::name_fatal(fatal, &parties.source, &named_root);
        }
        let ran_here = |party: &Party| ran.peak_memory_bytes.filter(|_| matches!(party, Party::Here(_)));
        match transfer.transport {
            Route::Local => transfer.peak_memory_bytes = (ran.peak_memory_bytes, ran.peak_memory_bytes),
            // Where there is no agent nothing of ours has any.
            Route::Sftp => {
                transfer.peak_memory_bytes = (ran_here(&parties.source), ran_here(parties.target()));
            }
            _ => {}
        }
        transfer.rights_withheld = !self.request.mode.only_reads()
            && !allows_rights
            && ran.summary.losses.iter().any(|loss| loss.what == LossKind::SetId);
        transfer.summary = ran.summary;
        self.check_required(&mut transfer.summary);
        if self.held.is_still && transfer.summary.fatal.is_none() {
            let now = plan::written_by_now(self.request, &mut parties.source)?;
            transfer.summary.fatal = (now != written_sectors).then(|| was_written_to(now, written_sectors));
        }
        if over_network && is_root {
            self.explain_refusals(&transfer.summary);
        }
        if transfer.summary.fatal.is_none() && transfer.summary.failures.is_empty() {
            self.held.agreed.is_written();
        }
        if self.held.keeps_parties && transfer.summary.fatal.is_none() {
            self.held.parties = Some(parties);
        }
        Ok(())
    }

    /// What only the target finds out, such as an owner that it may not set, is known at the end.
    fn check_required(&self, summary: &mut Summary) {
        let lost = summary.losses.iter().find(|loss| self.request.require.contains(&loss.what));
        if let (Some(loss), None) = (lost, &summary.fatal) {
            let words = format!("--require {} is not met: the target could not keep it", loss.what.name());
            let error = Error::new(ErrorKind::Requirement, "copying", words);
            summary.fatal = Some(error.at(&loss.example));
        }
    }

    /// Says why root may have been refused.
    fn explain_refusals(&self, summary: &Summary) {
        let errors = summary.failures.iter().map(|failure| &failure.error).chain(&summary.fatal);
        if errors.into_iter().any(|error| error.kind == ErrorKind::PermissionDenied) {
            self.surroundings.observer.event(Event::Notice { words: ROOT_IS_SQUASHED.to_owned() });
        }
    }

    /// Runs a job whose ends are on different machines.
    fn run_apart(
        &mut self,
        parties: &mut Parties,
        transfer: &mut Transfer,
        observer: &dyn Observer,
        (job, identity, roots, root, grant): (Job, [u8; 16], Vec<PathBytes>, Vec<u8>, Grant),
    ) -> Result<Ran> {
        let Parties { source: engine, target: Some(target) } = parties else {
            return Err(Error::new(ErrorKind::Usage, "running a job", "both ends are on one machine"));
        };
        let cipher = self.cipher(engine, target)?;
        let meeting = Meeting {
            job: identity,
            root: &root,
            grant: &grant,
            cipher,
            cipher_in_ssh: match self.request.cipher {
                CipherChoice::Auto => Cipher::None,
                _ => cipher,
            },
            transport: if self.held.by_ssh { Transport::Ssh } else { self.request.transport },
            lanes: job.lanes,
            lanes_max: job.lanes_max,
            data_address: self.request.data_address.as_deref(),
            data_port: self.request.data_port,
            observer: self.surroundings.observer,
        };
        let met = meeting.meet(engine, target);
        let Met { capabilities, lanes, lanes_max, cipher, by_ssh, relay, carriers } =
            met.map_err(|error| places::on(target, &root, error))?;
        transfer.transport = Route::of_connections(by_ssh, relay.is_some());
        transfer.cipher = Some(cipher::name(cipher));
        // What could not be reached a moment ago is not tried again after a lost connection.
        self.held.by_ssh = by_ssh && relay.is_none();
        let job = Job { lanes, lanes_max, ..job };
        let mut carried = Some((relay, carriers));
        self.is_connected(transfer);
        engine.depend_on(target)?;
        let told = Told::new(observer, job.lanes);
        let request = RunRequest { job, roots, capabilities };
        let ran = engine.run(request, &told, &self.surroundings.cancel, &*self.surroundings.limits);
        let lost = ran.is_err();
        // Whoever asked for a stop does not want to wait for a farewell either.
        let stopped = self.surroundings.cancel.load(Relaxed);
        let cut = match &ran {
            _ if stopped => true,
            Ok(ran) => ran.summary.fatal.as_ref().is_some_and(Error::may_retry),
            Err(error) => error.may_retry(),
        };
        if cut {
            // ssh does not pass on that its far end is gone.
            carried = None;
        }
        let served = target.end_serving(cut);
        drop(carried);
        let mut ran = ran.or_else(|error| told.ran(error))?;
        transfer.wire_bytes = (!lost).then_some((ran.wire_sent_bytes, ran.wire_received_bytes));
        match served {
            // Why the engine's machine was lost is known.
            _ if lost => {}
            Ok(served) => {
                transfer.peak_memory_bytes = (ran.peak_memory_bytes, served.peak_memory_bytes);
                explain(&mut ran.summary, served.error);
            }
            Err(error) => {
                transfer.peak_memory_bytes = (ran.peak_memory_bytes, None);
                // Everything was acknowledged; only the farewell failed.
                if ran.summary.fatal.is_some() && !error.may_retry() {
                    explain(&mut ran.summary, Some(error));
                }
            }
        }
        Ok(ran)
    }

    // Machines

    fn parties(&mut self) -> Result<Parties> {
        let (source, target) = plan::hosts(self.request)?;
        if source == target {
            let source = match source {
                None => {
                    let side = Side::new(self.stop()).with_streams(Streams::of(self.request));
                    Party::Here(Box::new(side.with_limits(self.surroundings.limits.clone())))
                }
                Some(_) => self.party(source)?,
            };
            return Ok(Parties { source, target: None });
        }
        let mut source_party = self.party(source)?;
        let mut target_party = self.party(target)?;
        // The engine is where the source is read, or here: an agent cannot work with a machine that has none.
        if let (Party::There(_), Some(host), Some(other)) = (&source_party, source, target_party.sftp()) {
            source_party = self.sftp(host, Some(format!("{} has none", other.host)))?;
        }
        if let (Party::There(_), Some(host), Some(other)) = (&target_party, target, source_party.sftp()) {
            target_party = self.sftp(host, Some(format!("{} has none", other.host)))?;
        }
        if self.request.cipher == CipherChoice::Auto {
            source_party.foresee_cipher_speed()?;
            target_party.foresee_cipher_speed()?;
        }
        Ok(Parties { source: source_party, target: Some(target_party) })
    }

    fn is_connected(&mut self, transfer: &mut Transfer) {
        transfer.connect = self.began.elapsed();
        self.held.outages.end();
    }

    fn stop(&self) -> Stop {
        Stop::with_flag(self.surroundings.cancel.clone())
    }

    fn party(&mut self, host: Option<&SshHost>) -> Result<Party> {
        let Some(host) = host else {
            let side = Side::with_identity(self.stop())?.with_limits(self.surroundings.limits.clone());
            return Ok(Party::Here(Box::new(side.with_streams(Streams::of(self.request)))));
        };
        let request = self.request;
        if request.transport == Transport::Sftp || request.names_sftp(host) {
            return self.sftp(host, None);
        }
        let login = Login { time_limit: self.login_limit, ..Login::of(request, host) };
        match login.start(self.surroundings.prompts, self.surroundings.observer) {
            Ok(far) => Ok(Party::There(Box::new(far))),
            // Whoever asks for an agent, or for what only one can do, is told why there is none.
            Err(error)
                if error.kind == ErrorKind::NotFound
                    && request.transport == Transport::Auto
                    && login.agent.is_none()
                    && !login.sudo =>
            {
                // An ssh that is started by a program of the user's ends with that one's code, whatever ended it.
                if self.surroundings.cancel.load(Relaxed) {
                    return Err(Error::new(ErrorKind::Cancelled, "logging in", "stopped as asked"));
                }
                let there = self.sftp(host, Some(error.reason()));
                there.map_err(|sftp| Error {
                    detail: format!("{}; {sftp}", error.reason()),
                    hint: None,
                    ..error
                })
            }
            Err(error) => Err(error),
        }
    }

    fn sftp(&self, host: &SshHost, why: Option<String>) -> Result<Party> {
        if self.request.sudo {
            let words = "--sudo: an sftp server runs as the account that logs in";
            let error = Error::new(ErrorKind::Usage, "logging in", words).at(host.destination());
            return Err(
                error.hint("leave it out, or make an agent possible (--transport agent says what it lacks)")
            );
        }
        let login = Login { time_limit: self.login_limit, ..Login::of(self.request, host) };
        let side = SftpSide::start(&login, why, self.surroundings.cancel.clone())?;
        Ok(Party::Sftp(Box::new(side)))
    }

    fn cipher(&self, engine: &mut Party, target: &mut Party) -> Result<Cipher> {
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

    /// The levels that lanes choose are told when they do.
    fn tell_compression(&self) {
        let (choice, why) = match self.request.compression {
            Compression::Auto => {
                ("auto".to_owned(), "at once on a long way, else where the way turns out to be what limits")
            }
            Compression::None => ("none".to_owned(), "as asked"),
            Compression::Adapted => ("zstd".to_owned(), "as asked, with the level that pays"),
            Compression::Level(level) => (format!("zstd {level}"), "as asked"),
        };
        self.decided(format!("compression: {choice}"), why.to_owned());
    }

    // The job

    fn job(&self, parties: &mut Parties, plan: &Plan) -> Job {
        let lanes = self.lanes(parties, plan);
        let hash = fit::Ends::new(&parties.source, parties.target.as_ref()).hash();
        Job {
            items: plan.items.clone(),
            make_directory: plan.make_directory.clone(),
            lanes,
            lanes_max: self.lanes_max(parties, plan, lanes),
            limits: self.surroundings.limits.begin(),
            compression: self.request.compression,
            digest: self.request.verify != Verify::None,
            clone: !matches!(self.request.verify, Verify::Wire | Verify::Medium),
            durable: self.request.durable == Durable::Yes,
            dry_run: self.request.dry_run,
            require: self.request.require.iter().copied().collect(),
            mode: self.request.mode,
            earlier: match (self.request.restart || self.held.is_last) && !self.held.begun {
                true => Earlier::Forget,
                false => Earlier::Refuse,
            },
            verify_medium: self.request.verify == Verify::Medium,
            skip_unreadable: self.request.skip_unreadable,
            live: self.request.live,
            removal: self.request.removal,
            removals_max: self.request.removals_max,
            filter: self.request.filter.clone(),
            extended: self.request.preserve.extended,
            by_name: self.request.preserve.by_name,
            owners: self.request.preserve.owner,
            compare_content: self.request.compare_content,
            sample: self.request.sample,
            one_file_system: self.request.one_file_system,
            hard_links: self.request.preserve.hard_links,
            update: self.update(parties.target.is_some(), hash),
            // Reading back is of what was written: pieces are, so that what lies beside a block is seen as well.
            blocks: hash && parties.target.is_some() && self.request.verify != Verify::Medium,
            target_directories: plan.target_directories.clone(),
            source_file_systems: plan.source_file_systems(),
        }
    }

    /// How files of trees are brought up to date.
    fn update(&self, apart: bool, hash: bool) -> Update {
        let request = self.request;
        if request.mode != Mode::Delta {
            return Update::Whole;
        }
        let (update, why) = match (request.in_place, request.whole_file) {
            (true, _) => (Update::InPlace, "as asked"),
            (_, true) => (Update::Whole, "as asked"),
            _ if !hash => (Update::Whole, "one end cannot hash what it has"),
            _ if !apart => (Update::Whole, "nothing travels, and both sides would have to be read"),
            _ if request.verify == Verify::Medium => {
                (Update::Whole, "all of it is read back from the medium")
            }
            _ => (Update::Changes, "what is equal need not travel"),
        };
        let choice = match update {
            Update::Whole => "all of it",
            Update::Changes => "what differs",
            Update::InPlace => "what differs, where it lies",
        };
        self.decided(format!("large files that changed: {choice}"), why.to_owned());
        update
    }

    fn lanes(&self, parties: &mut Parties, plan: &Plan) -> u16 {
        if self.request.target.is_stream() {
            self.decided("lanes: 1".to_owned(), "standard output takes its bytes in order".to_owned());
            return 1;
        }
        if let Lanes::Count(count) = self.request.lanes {
            return count.clamp(1, LANES_MAX);
        }
        let (lanes, why) = self.ends(parties, plan).lanes();
        self.decided(format!("lanes: {lanes}"), why);
        lanes
    }

    /// How many lanes there may be in the end.
    fn lanes_max(&self, parties: &mut Parties, plan: &Plan, lanes: u16) -> u16 {
        let is_tuned = self.request.lanes == Lanes::Auto && !self.request.target.is_stream();
        if is_tuned { self.ends(parties, plan).lanes_max(lanes) } else { lanes }
    }

    fn ends(&self, parties: &mut Parties, plan: &Plan) -> Ends {
        let (source, target) = (parties.source.machine().processors, parties.target().machine().processors);
        let concurrency = |party: &Party| party.capabilities().concurrency;
        Ends {
            round_trip: parties.source.round_trip().max(parties.target().round_trip()),
            processors: (source, target),
            apart: parties.target.is_some(),
            concurrency: concurrency(&parties.source).or(concurrency(parties.target())),
            over_network: plan.over_network,
            has_disks: plan.has_disks,
            is_digest: self.request.mode.is_digest(),
        }
    }

    fn decided(&self, choice: String, reason: String) {
        self.surroundings.observer.event(Event::Decision { choice, reason });
    }
}

/// Whether an end has no agent.
fn has_sftp(source: &Party, target: Option<&Party>) -> bool {
    [Some(source), target].into_iter().flatten().any(|party| party.sftp().is_some())
}

/// The target's side may know better why a connection ended.
fn explain(summary: &mut Summary, served: Option<Error>) {
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
