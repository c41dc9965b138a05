//! One copy from the request to its end: log in, look, decide where things land, meet, run, and try
//! again after a lost connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hakobu_core::endpoint::{DraftKind, Earlier};
use hakobu_core::engine::Summary;
use hakobu_core::entry::Kind;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::grant::{Grant, GrantedPlace};
use hakobu_core::job::{Item, Job, LANES_MAX, Mode};
use hakobu_core::landing::{Landing, LandingRoot, SourceFound, TargetFound, land, relation};
use hakobu_core::location::{Location, SshHost};
use hakobu_core::path::EntryPath;
use hakobu_proto::control::{
    Cipher, Machine, PathBytes, Ran, RunHereRequest, RunRequest, SourceAsk, SourceLook, TargetLook,
};

use crate::devices::{self, Agreed};
use crate::far::{FarSide, STARTING};
use crate::meet::{Meeting, Met};
use crate::party::Party;
use crate::places::{self, AtTarget};
use crate::request::{CipherChoice, CopyRequest, Durable, Lanes, Verify};
use crate::side::{Side, Stop};
use crate::ssh::{Prompts, SshSettings, Way, find_uploads};

/// From this round trip on, connections are limited by their windows rather than by the processor.
const LONG_ROUND_TRIP: Duration = Duration::from_millis(10);
/// How many lanes a long way gets.
const LANES_ON_A_LONG_WAY: u16 = 8;
/// The least and the most that logging in again may take.
const LOGIN_AGAIN_MIN: Duration = Duration::from_secs(15);
const LOGIN_AGAIN_MAX: Duration = Duration::from_secs(120);
/// The longest pause before a lost connection is tried again.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// What a copy needs from the program around it.
pub struct Surroundings<'a> {
    /// Asks the user for passwords.
    pub prompts: &'a mut dyn Prompts,
    /// Hears of everything.
    pub observer: &'a dyn Observer,
    /// Stops the copy when it is set.
    pub cancel: Arc<AtomicBool>,
}

/// What came of a copy.
#[derive(Clone, Debug, Default)]
pub struct Transfer {
    /// What the engine said; its `fatal` error also stands for everything before and after it.
    pub summary: Summary,
    /// The job's identity in hexadecimal, once it is known.
    pub job: Option<String>,
    /// `local`, `agent`, or `agent, relayed`.
    pub transport: &'static str,
    /// The cipher's name; none where no connection was made.
    pub cipher: Option<&'static str>,
    /// The sources as they were found, with their host.
    pub sources: Vec<Vec<u8>>,
    /// The target as it was found, with its host.
    pub target: Option<Vec<u8>>,
    /// From the start until both ends were ready.
    pub connect: Duration,
    /// Bytes sent and received by the engine's side; none where no connection was made.
    pub wire_bytes: Option<(u64, u64)>,
    /// The most memory of the process at the source and of the one at the target.
    pub peak_memory_bytes: (Option<u64>, Option<u64>),
    /// Whether data was checked as it was written.
    pub verified: bool,
}

/// Copies. Everything that went wrong is in the result.
pub fn copy(request: &CopyRequest, surroundings: &mut Surroundings<'_>) -> Transfer {
    let began = Instant::now();
    let mut earlier: Option<Summary> = None;
    let mut pause = Duration::from_millis(500);
    let mut lost_at = None;
    let mut agreed = Agreed::default();
    // Why the connection was lost, for when nothing better is known in the end.
    let mut lost_by: Option<Error> = None;
    loop {
        let mut transfer = Transfer { transport: "local", ..Transfer::default() };
        let login_limit = lost_at.map(|lost: Instant| {
            request.retry_for.saturating_sub(lost.elapsed()).clamp(LOGIN_AGAIN_MIN, LOGIN_AGAIN_MAX)
        });
        let agreed = &mut agreed;
        let attempt = Attempt { request, surroundings: &mut *surroundings, began, login_limit, agreed };
        if let Err(error) = attempt.run(&mut transfer) {
            transfer.summary.fatal.get_or_insert(error);
        }
        if surroundings.cancel.load(Relaxed) && transfer.summary.fatal.is_some() {
            transfer.summary.fatal = Some(Error::new(ErrorKind::Cancelled, "copying", "stopped as asked"));
        }
        let advanced = transfer.summary.counters.target_written_bytes > 0;
        if let Some(earlier) = &earlier {
            add_earlier(&mut transfer.summary, earlier);
        }
        let may_retry = |error: &Error| error.may_retry() || (earlier.is_some() && is_of_the_line(error));
        let Some(error) = transfer.summary.fatal.clone().filter(may_retry) else { return transfer };
        // The time counts from the moment the connection was lost, anew whenever something moved.
        let since = if advanced { Instant::now() } else { lost_at.unwrap_or_else(Instant::now) };
        lost_at = Some(since);
        if error.may_retry() {
            lost_by = Some(error.clone());
        }
        if surroundings.cancel.load(Relaxed) {
            return transfer;
        }
        if since.elapsed() + pause > request.retry_for {
            if let Some(lost) = lost_by.filter(|_| !error.may_retry()) {
                let detail = format!("{}; then {error}", lost.detail);
                transfer.summary.fatal = Some(Error { detail, ..lost });
            }
            return transfer;
        }
        let what = match error.kind {
            ErrorKind::Locked => "the far side has not noticed yet that the connection was lost".to_owned(),
            _ => format!("connection lost ({error})"),
        };
        let words = format!("{what}; trying again in {:.1} s", pause.as_secs_f64());
        surroundings.observer.event(Event::Notice { words });
        if !sleep(pause, &surroundings.cancel) {
            transfer.summary.fatal = Some(Error::new(ErrorKind::Cancelled, "copying", "stopped as asked"));
            return transfer;
        }
        pause = (pause * 2).min(PAUSE_MAX);
        earlier = Some(transfer.summary);
    }
}

/// Whether an error that usually is final may come from a line that was lost a moment ago: nobody
/// can log in yet, or the agent of the attempt before still waits for us.
fn is_of_the_line(error: &Error) -> bool {
    error.kind == ErrorKind::Locked || error.during == STARTING
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

/// Adds what earlier attempts did: what they brought over is unchanged for the later ones.
fn add_earlier(summary: &mut Summary, earlier: &Summary) {
    let (now, before) = (&mut summary.counters, &earlier.counters);
    // The figures come from another machine, so the sums may be anything.
    let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
    for done in [before.entries_created, before.entries_updated, before.entries_attributes_only] {
        now.entries_unchanged = now.entries_unchanged.saturating_sub(done);
    }
    add(&mut now.entries_created, before.entries_created);
    add(&mut now.entries_updated, before.entries_updated);
    add(&mut now.entries_attributes_only, before.entries_attributes_only);
    add(&mut now.source_read_bytes, before.source_read_bytes);
    add(&mut now.target_read_bytes, before.target_read_bytes);
    add(&mut now.target_written_bytes, before.target_written_bytes);
    add(&mut now.zeros_skipped_bytes, before.zeros_skipped_bytes);
    add(&mut now.bytes_kept, before.bytes_kept);
    now.stage_ns.iter_mut().zip(&before.stage_ns).for_each(|(sum, more)| add(sum, *more));
    add(&mut summary.transfer_ns, earlier.transfer_ns);
    for loss in &earlier.losses {
        match summary.losses.iter_mut().find(|known| known.what == loss.what) {
            Some(known) => add(&mut known.count, loss.count),
            None => summary.losses.push(loss.clone()),
        }
    }
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
    agreed: &'a mut Agreed,
}

impl Attempt<'_, '_> {
    fn run(mut self, transfer: &mut Transfer) -> Result<()> {
        let mut parties = self.parties()?;
        let sources = self.look_at_sources(&mut parties.source)?;
        let target = self.look_at_target(parties.target())?;
        let landing = self.landing(&sources, &target)?;
        let disk = devices::check(
            self.request,
            (&sources, &target),
            self.agreed,
            self.surroundings.prompts,
            self.surroundings.observer,
        )?;
        let (root, places) = root_and_places(&landing, &target)?;
        self.refuse_nesting(&mut parties, &sources, &root, &places)?;
        transfer.sources = sources.iter().map(|source| parties.source.name_of(&source.resolved)).collect();
        transfer.target = Some(parties.target().name_of(&target.resolved));
        self.surroundings.observer.event(Event::Located {
            sources: transfer.sources.clone(),
            target: parties.target().name_of(&landed(&root, &places, &landing)),
        });
        let identity = self.identity(transfer);
        transfer.job = Some(identity.iter().map(|byte| format!("{byte:02x}")).collect());
        let job = self.job(&mut parties, &sources, (&landing, target.found), &places);
        let mut grant = grant(&sources, &places, &landing, &parties);
        grant.places.iter_mut().for_each(|place| place.device.clone_from(&disk));
        transfer.verified = job.digest && !job.dry_run;
        let roots = sources.iter().map(|source| PathBytes(source.root.clone())).collect();
        let named_root = parties.target().name_of(&root);
        let observer = AtTarget { observer: self.surroundings.observer, root: named_root.clone() };
        let mut ran = match parties.target {
            None => {
                transfer.connect = self.began.elapsed();
                let request = RunHereRequest { job, identity, roots, root, grant };
                parties.source.run_here(request, &observer, &self.surroundings.cancel)?
            }
            Some(_) => {
                self.run_apart(&mut parties, transfer, &observer, (job, identity, roots, root, grant))?
            }
        };
        ran.summary.failures.iter_mut().for_each(|failure| places::name_failure(failure, &named_root));
        if let Some(fatal) = &mut ran.summary.fatal {
            places::name_fatal(fatal, &parties.source, &named_root);
        }
        if transfer.transport == "local" {
            transfer.peak_memory_bytes = (ran.peak_memory_bytes, ran.peak_memory_bytes);
        }
        transfer.summary = ran.summary;
        self.check_required(&mut transfer.summary);
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
        let cipher = self.cipher(&engine.machine(), &target.machine());
        let meeting = Meeting {
            job: identity,
            root: &root,
            grant: &grant,
            cipher,
            lanes: job.lanes,
            data_address: self.request.data_address.as_deref(),
            data_port: self.request.data_port,
            observer: self.surroundings.observer,
        };
        let met = meeting.meet(engine, target);
        let Met { capabilities, relay } = met.map_err(|error| places::on(target, &root, error))?;
        transfer.transport = if relay.is_some() { "agent, relayed" } else { "agent" };
        transfer.cipher = Some(cipher_name(cipher));
        transfer.connect = self.began.elapsed();
        let request = RunRequest { job, roots, capabilities };
        let ran = engine.run(request, observer, &self.surroundings.cancel);
        let cut = match &ran {
            Ok(ran) => ran.summary.fatal.as_ref().is_some_and(Error::may_retry),
            Err(error) => error.may_retry(),
        };
        let served = target.end_serving(cut);
        let mut ran = ran?;
        transfer.wire_bytes = Some((ran.wire_sent_bytes, ran.wire_received_bytes));
        match served {
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
        let source = host_of(&self.request.sources)?;
        let target = self.request.target.ssh_host();
        if source == target {
            let source = match source {
                None => Party::Here(Box::new(Side::new(self.stop()))),
                Some(_) => self.party(source)?,
            };
            return Ok(Parties { source, target: None });
        }
        let source_party = self.party(source)?;
        let target = Some(self.party(target)?);
        Ok(Parties { source: source_party, target })
    }

    fn stop(&self) -> Stop {
        Stop::with_flag(self.surroundings.cancel.clone())
    }

    fn party(&mut self, host: Option<&SshHost>) -> Result<Party> {
        let Some(host) = host else {
            return Ok(Party::Here(Box::new(Side::with_identity(self.stop())?)));
        };
        let request = self.request;
        let mut settings = SshSettings::new(host.host.clone().into_bytes());
        settings.ssh_command =
            request.ssh.iter().map(|word| quoted(&word.to_string_lossy())).collect::<Vec<_>>().join(" ");
        settings.user = host.user.clone().map(String::into_bytes);
        settings.port = host.port;
        settings.time_limit = self.login_limit.unwrap_or(settings.time_limit);
        settings.agent_path = request.agent.as_ref().map(|path| path.as_os_str().as_encoded_bytes().to_vec());
        settings.sudo = request.sudo;
        settings.uploads = std::env::current_exe().map(|program| find_uploads(&program)).unwrap_or_default();
        let name = host.destination();
        let mut far = FarSide::start(&settings, &name, self.surroundings.prompts);
        // A program of another version is no obstacle where ours can be sent.
        if far.as_ref().is_err_and(|error| error.kind == ErrorKind::Unsupported)
            && !settings.uploads.is_empty()
        {
            settings.always_upload = true;
            far = FarSide::start(&settings, &name, self.surroundings.prompts);
        }
        let far = far?;
        let found = match far.way {
            Way::OnPath => "found on its PATH",
            Way::AtPath => "at the path given",
            Way::Uploaded if settings.always_upload => "uploaded, as the one there is of another version",
            Way::Uploaded => "uploaded, as none was found there",
        };
        if let (Some(path), Way::Uploaded, false) = (&request.agent, far.way, settings.always_upload) {
            let words = format!("{} is not on {name}; the program was uploaded instead", path.display());
            self.surroundings.observer.event(Event::Notice { words });
        }
        self.decided(
            format!("agent on {name}: {found}"),
            format!("version {}, {}", far.hello.program, far.hello.machine.system),
        );
        Ok(Party::There(Box::new(far)))
    }

    fn cipher(&self, engine: &Machine, target: &Machine) -> Cipher {
        let (cipher, why) = match self.request.cipher {
            CipherChoice::Auto if engine.has_aes && target.has_aes => {
                (Cipher::Aes128Gcm, "both processors have instructions for AES")
            }
            CipherChoice::Auto => (Cipher::Chacha20Poly1305, "a processor without instructions for AES"),
            CipherChoice::Aes128Gcm => (Cipher::Aes128Gcm, "as asked"),
            CipherChoice::Aes256Gcm => (Cipher::Aes256Gcm, "as asked"),
            CipherChoice::ChaCha20Poly1305 => (Cipher::Chacha20Poly1305, "as asked"),
            CipherChoice::None => (Cipher::None, "as asked; data is authenticated, but readable on the way"),
        };
        self.decided(format!("cipher: {}", cipher_name(cipher)), why.to_owned());
        cipher
    }

    // Places

    fn look_at_sources(&self, party: &mut Party) -> Result<Vec<SourceLook>> {
        let asks = self
            .request
            .sources
            .iter()
            .map(|source| SourceAsk { path: source.path().to_vec(), contents: source.means_contents() });
        let looks = party.look_at_sources(asks.collect())?;
        if looks.len() != self.request.sources.len() {
            return Err(Error::new(ErrorKind::Protocol, "looking at the sources", "an answer is missing"));
        }
        let looks = looks.into_iter().zip(&self.request.sources);
        looks.map(|(look, source)| look.map_err(|error| places::on(party, source.path(), error))).collect()
    }

    fn look_at_target(&self, party: &mut Party) -> Result<TargetLook> {
        let path = self.request.target.path();
        party.look_at_target(path).map_err(|error| places::on(party, path, error))
    }

    fn landing(&self, sources: &[SourceLook], target: &TargetLook) -> Result<Landing> {
        let found: Vec<_> = self
            .request
            .sources
            .iter()
            .zip(sources)
            .map(|(location, look)| SourceFound { location, kind: look.kind })
            .collect();
        if self.request.mode != Mode::Copy {
            if let Some(tree) = found.iter().find(|source| source.kind == Kind::Directory) {
                let words =
                    "sync and verify are for one file or disk in this version; hakobu copy brings over trees";
                let error = Error::new(ErrorKind::Usage, "looking at the source", words);
                return Err(error.at(tree.location.as_typed()));
            }
            if self.request.mode == Mode::Compare && matches!(target.found, TargetFound::Absent { .. }) {
                let words = "there is nothing to compare with";
                let error = Error::new(ErrorKind::NotFound, "looking at the target", words);
                return Err(error.at(self.request.target.as_typed()));
            }
            if self.request.mode == Mode::Compare && target.found == TargetFound::Symlink {
                let words = "it is a symbolic link; name the file that it leads to";
                let error = Error::new(ErrorKind::Usage, "looking at the target", words);
                return Err(error.at(self.request.target.as_typed()));
            }
        }
        if self.request.verify == Verify::Medium
            && let Some(tree) = found.iter().find(|source| source.kind == Kind::Directory)
        {
            let words = "--verify medium is for single files and disks in this version";
            let error = Error::new(ErrorKind::Usage, "looking at the source", words);
            return Err(error.at(tree.location.as_typed()));
        }
        land(&found, &self.request.target, target.found)
    }

    /// Refuses a copy onto or into itself.
    fn refuse_nesting(
        &self,
        parties: &mut Parties,
        sources: &[SourceLook],
        root: &[u8],
        places: &[EntryPath],
    ) -> Result<()> {
        let target = parties.target();
        let there = target.look_at_places(root, places).map_err(|error| places::on(target, root, error))?;
        if there.len() != places.len() {
            return Err(Error::new(ErrorKind::Protocol, "looking at the target", "an answer is missing"));
        }
        for ((source, place), typed) in sources.iter().zip(&there).zip(&self.request.sources) {
            let is_directory = source.kind == Kind::Directory;
            relation(&source.ancestry, is_directory, place).check(typed, &self.request.target)?;
        }
        Ok(())
    }

    // The job

    /// What a source's content is written to.
    fn place(&self, landing: &Landing, source: &SourceLook, found: TargetFound) -> DraftKind {
        let content = matches!(source.kind, Kind::File | Kind::BlockDevice);
        match (landing.root, self.request.mode) {
            (LandingRoot::Discard, _) => DraftKind::Sink,
            (_, Mode::Compare) => DraftKind::Compare,
            (LandingRoot::Device, _) => DraftKind::Device,
            (LandingRoot::Parent, Mode::Delta) if content && found == TargetFound::File => DraftKind::InPlace,
            _ => DraftKind::File,
        }
    }

    fn job(
        &self,
        parties: &mut Parties,
        sources: &[SourceLook],
        (landing, found): (&Landing, TargetFound),
        places: &[EntryPath],
    ) -> Job {
        let items = sources
            .iter()
            .zip(places)
            .enumerate()
            .map(|(root, (source, place))| Item {
                root: root as u16,
                source: source.entry.clone(),
                target: place.clone(),
                place: self.place(landing, source, found),
            })
            .collect();
        let replaced = |path: &EntryPath| {
            sources.iter().zip(places).any(|(source, place)| place == path && source.entry.is_root())
        };
        Job {
            items,
            make_directory: landing.create_target_directory.clone().filter(|path| !replaced(path)),
            lanes: self.lanes(parties),
            digest: self.request.verify != Verify::None,
            clone: !matches!(self.request.verify, Verify::Wire | Verify::Medium),
            durable: self.request.durable == Durable::Yes,
            dry_run: self.request.dry_run,
            require: self.request.require.iter().copied().collect(),
            mode: self.request.mode,
            earlier: if self.request.restart { Earlier::Forget } else { Earlier::Refuse },
            verify_medium: self.request.verify == Verify::Medium,
            skip_unreadable: self.request.skip_unreadable,
        }
    }

    fn lanes(&self, parties: &mut Parties) -> u16 {
        if let Lanes::Count(count) = self.request.lanes {
            return count.clamp(1, LANES_MAX);
        }
        let processors = |party: &Party| party.machine().processors.max(1);
        let round_trip = parties.source.round_trip().max(parties.target().round_trip());
        let source = processors(&parties.source);
        let target = processors(parties.target());
        let (lanes, why) = if round_trip >= LONG_ROUND_TRIP {
            (LANES_ON_A_LONG_WAY, format!("a round trip takes {:.1} ms", round_trip.as_secs_f64() * 1e3))
        } else {
            let words = format!("as many as processors, of which the ends have {source} and {target}");
            (source.min(target).min(LANES_ON_A_LONG_WAY), words)
        };
        self.decided(format!("lanes: {lanes}"), why);
        lanes
    }

    /// The same for the same sources, target and far user.
    fn identity(&self, transfer: &Transfer) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new_derive_key("hakobu job identity 1");
        for text in transfer.sources.iter().chain(&transfer.target) {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text);
        }
        let user =
            |location: &Location| location.ssh_host().and_then(|host| host.user.clone()).unwrap_or_default();
        hasher.update(user(&self.request.target).as_bytes());
        let mut identity = [0; 16];
        identity.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        identity
    }

    fn decided(&self, choice: String, reason: String) {
        self.surroundings.observer.event(Event::Decision { choice, reason });
    }
}

/// The one host that all sources are on; none for this machine.
fn host_of(sources: &[Location]) -> Result<Option<&SshHost>> {
    let mut hosts = sources.iter().map(Location::ssh_host);
    let first = hosts.next().flatten();
    if hosts.all(|host| host == first) {
        return Ok(first);
    }
    let words = "all sources have to be on one machine; copy from one machine at a time";
    Err(Error::new(ErrorKind::Usage, "looking at the sources", words))
}

/// The target's root directory, and each source's place below it.
fn root_and_places(landing: &Landing, target: &TargetLook) -> Result<(Vec<u8>, Vec<EntryPath>)> {
    Ok(match landing.root {
        LandingRoot::Target => (target.resolved.clone(), landing.places.clone()),
        LandingRoot::Parent => (target.parent.clone(), landing.places.clone()),
        LandingRoot::Discard | LandingRoot::Device => {
            (target.parent.clone(), vec![EntryPath::new(target.name.clone())?])
        }
    })
}

/// The place where a single source lands, or the directory in which several do.
fn landed(root: &[u8], places: &[EntryPath], landing: &Landing) -> Vec<u8> {
    let mut landed = root.to_vec();
    let place = match places {
        [place] => Some(place),
        _ => landing.create_target_directory.as_ref(),
    };
    if let Some(place) = place.filter(|place| !place.is_root()) {
        if landed != b"/" {
            landed.push(b'/');
        }
        landed.extend_from_slice(place.as_bytes());
    }
    landed
}

fn grant(sources: &[SourceLook], places: &[EntryPath], landing: &Landing, parties: &Parties) -> Grant {
    // In a push and on one machine the engine's side is the user's own; elsewhere it is a stranger.
    let trusted = parties.target.is_none() || parties.source.is_here();
    let mut granted: BTreeMap<EntryPath, bool> = BTreeMap::new();
    for (source, place) in sources.iter().zip(places) {
        *granted.entry(place.clone()).or_default() |= source.kind == Kind::Directory;
    }
    if let Some(directory) = &landing.create_target_directory {
        granted.entry(directory.clone()).or_default();
    }
    let files_only = sources.iter().all(|source| matches!(source.kind, Kind::File | Kind::BlockDevice));
    Grant {
        places: granted.into_iter().map(|(path, tree)| GrantedPlace::new(path, tree)).collect(),
        may_chown: true,
        may_set_id: trusted,
        bytes_max: files_only
            .then(|| sources.iter().map(|source| source.size_bytes).fold(0, u64::saturating_add)),
    }
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

/// The cipher's name on the command line and in reports.
fn cipher_name(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Aes128Gcm => CipherChoice::Aes128Gcm,
        Cipher::Aes256Gcm => CipherChoice::Aes256Gcm,
        Cipher::Chacha20Poly1305 => CipherChoice::ChaCha20Poly1305,
        Cipher::None => CipherChoice::None,
    }
    .name()
}

/// One word for a command line that is split as a shell splits it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
