//! Measures the hosts of a transfer, the network path between them and both endpoints, and predicts the speed of a
//! copy.
//!
//! The measurement uses the parts of a copy: the same logins, agents and connections. If a step cannot be measured,
//! that is reported and the others continue. If a host is lost, the probe ends and reports the results so far.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use hakobu_core::compression::Compression;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::landing::TargetFound;
use hakobu_core::location::{Location, SshHost};
use hakobu_core::pace::{RateSetting, RunLimits};
use hakobu_core::probe::{MachineFigures, ReadAsk, ReadFigures, WayFigures, WriteAsk, WriteFigures};
use hakobu_measure::probe::{Measurements, Prediction, TransferStage, predict};
use hakobu_proto::control::{Cipher, CipherSpeed, ProbeAnswer, ProbeAsk, SourceAsk};

use crate::devices;
use crate::host::AgentHost;
use crate::login;
use crate::opening::is_without_agent;
use hakobu_agent::local_host::LocalHost;
use hakobu_core::lane_count::EndpointFacts;
use hakobu_core::prompts::Prompts;
use hakobu_core::request::{HostLogin, LaneSetting};
use hakobu_core::store_settings::StoreSettings;
use hakobu_net::cipher;
use hakobu_net::stop::StopHandle;
use hakobu_ssh::login::SshMethod;

pub mod network_path;
mod obstacle;
pub mod store;

pub use self::obstacle::CopyObstacle;
use self::obstacle::CopyTarget;

/// The interval of messages that something is still being measured.
const STILL_EVERY: Duration = Duration::from_secs(10);

/// The request for a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRequest {
    /// The source of the copy. Without one, content comes from this host's memory.
    pub source: Option<Location>,
    /// The target of the copy.
    pub target: Location,
    /// Measure with little load, and for a shorter time.
    pub gentle: bool,
    /// Allow a scratch file to be written at the target.
    pub write: bool,
    /// The number of lanes of the copy.
    pub lanes: LaneSetting,
    /// The limits of the copy.
    pub limits: RunLimits,
    /// The compression of the copy.
    pub compression: Compression,
    /// The IDs of disks to which their own content may be written back.
    pub confirmed: Vec<String>,
    /// The settings of the store that holds the source, if one does.
    pub source_store: StoreSettings,
    /// The settings of the store that holds the target, if one does.
    pub target_store: StoreSettings,
    /// The ssh program and its arguments, at least the program.
    pub ssh: Vec<OsString>,
    /// The path of the program on the remote host, if it is not to be searched for or uploaded.
    pub agent: Option<PathBuf>,
    /// Run the remote agents under sudo.
    pub sudo: bool,
    /// The logins on remote hosts that differ from the three fields above.
    pub logins: Vec<HostLogin>,
}

/// The measurements of one end.
#[derive(Clone, Debug, Default)]
pub struct EndMeasurements {
    /// The location, with its host; empty if there is none.
    pub name: Vec<u8>,
    /// The figures of its host.
    pub machine: Option<MachineFigures>,
    /// The host's cipher speeds, if the ends are on different hosts.
    pub ciphers: Option<CipherSpeed>,
}

/// The measurements, and the prediction from them.
#[derive(Clone, Debug, Default)]
pub struct ProbeResults {
    /// The source's end.
    pub source_end: EndMeasurements,
    /// The target's end.
    pub target_end: EndMeasurements,
    /// The read figures.
    pub source: Option<ReadFigures>,
    /// The write figures.
    pub target: Option<WriteFigures>,
    /// True if the ends are on different hosts, or reached as such.
    pub apart: bool,
    /// The network path from the source to the target.
    pub there: Option<WayFigures>,
    /// The network path back.
    pub back: Option<WayFigures>,
    /// True if the data went through ssh.
    pub by_ssh: bool,
    /// The cipher that a copy would use.
    pub cipher: Option<&'static str>,
    /// The round trip of a request over the login.
    pub round_trip: Duration,
    /// The time that logging in and connecting took.
    pub start: Duration,
    /// The number of lanes that a copy begins with, and the most that it may have later.
    pub lanes: (u16, u16),
    /// The limits of the copy. Of these, only the rate is predicted.
    pub limits: RunLimits,
    /// The compression of the copy, which is not predicted.
    pub compression: Compression,
    /// The measurements that failed, with reasons.
    pub remarks: Vec<String>,
    /// The error that ended the probe early.
    pub failure: Option<Error>,
    /// The prediction.
    pub prediction: Prediction,
    /// The reason why a copy would fail, if any. The prediction does not take it into account.
    pub obstacle: Option<CopyObstacle>,
    /// The directory that was written to, with its host, if it is not the target itself.
    pub measured_in: Option<Vec<u8>>,
}

/// Measures. If an error ends the probe early, the results so far are returned with it.
///
/// # Errors
/// The probe cannot begin: a location is not supported, a login fails, the source does not exist.
pub fn probe(
    request: &ProbeRequest,
    prompts: &mut dyn Prompts,
    observer: &dyn Observer,
    cancel: &Arc<AtomicBool>,
) -> Result<ProbeResults> {
    for location in request.source.iter().chain([&request.target]) {
        refuse(location)?;
    }
    let began = Instant::now();
    let mut hosts = ProbeHosts::start(request, prompts, observer, cancel)?;
    let mut probed = ProbeResults {
        start: began.elapsed(),
        apart: hosts.target.is_some(),
        limits: request.limits.clone(),
        compression: request.compression,
        ..ProbeResults::default()
    };
    let ProbeLocations { source, target, place } = hosts.look(request, &mut probed, observer)?;
    let mut course = ProbeRun { request, cancel, probed: &mut probed };
    let failure = course.run(&mut hosts, source, target, observer).err();
    probed.failure = failure;
    let (source, target) = (probed.source.as_ref(), probed.target.as_ref());
    let names = (&probed.source_end.name[..], &probed.target_end.name[..]);
    probed.obstacle = place.judge(names, source, target, !probed.apart);
    let directory = target.map(|target| &target.directory).filter(|directory| !directory.is_empty());
    probed.measured_in =
        directory.map(|path| hosts.target().name_of(path)).filter(|name| *name != probed.target_end.name);
    probed.prediction = predict(&Measurements {
        source: probed.source.as_ref(),
        target: probed.target.as_ref(),
        source_machine: probed.source_end.machine.as_ref(),
        target_machine: probed.target_end.machine.as_ref(),
        way: probed.there.as_ref(),
        apart: probed.apart,
        start: probed.start,
        round_trip: probed.round_trip,
        lanes: probed.lanes,
        gentle: request.gentle,
        limit_bytes_per_second: match probed.limits.rate.first_moving() {
            RateSetting::BytesPerSecond(bytes) => Some(bytes),
            RateSetting::Unlimited | RateSetting::Paused => None,
        },
    });
    if probed.failure.is_some() {
        // Without measurements of the network path or an endpoint, a copy cannot be predicted.
        let Prediction { slowest, file, tree, unknown, .. } = &mut probed.prediction;
        (*slowest, *file, *tree) = (None, None, None);
        if request.source.is_some()
            && probed.source.is_none()
            && !unknown.contains(&TransferStage::SourceRead)
        {
            unknown.insert(0, TransferStage::SourceRead);
        }
    }
    Ok(probed)
}

/// Refuses locations that only a copy supports.
fn refuse(location: &Location) -> Result<()> {
    let refused = |words: &str| {
        Err(Error::new(ErrorKind::Unsupported, "looking at the locations", words).at(location.as_typed()))
    };
    if location.is_stream() {
        return refused("a stream gives nothing to measure; name a file, directory or disk");
    }
    if location.rsync_host().is_some() {
        return refused(
            "a probe needs hakobu on the other machine, and an rsync daemon has none; if you can log in \
             there, name the directory as host:/path",
        );
    }
    if is_without_agent(location) {
        return refused(
            "a probe needs hakobu on the other machine, and over SFTP there is none; leave out sftp:// to \
             have it found or uploaded, as host:/path",
        );
    }
    Ok(())
}

/// The hosts: a single one if both ends are on it.
struct ProbeHosts {
    source: Box<dyn AgentHost>,
    target: Option<Box<dyn AgentHost>>,
}

/// The requests for both locations, and the outcome of a copy's checks.
struct ProbeLocations {
    source: Option<ReadAsk>,
    target: WriteAsk,
    place: CopyTarget,
}

impl ProbeHosts {
    fn start(
        request: &ProbeRequest,
        prompts: &mut dyn Prompts,
        observer: &dyn Observer,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Self> {
        let source = request.source.as_ref().and_then(Location::ssh_host);
        let target = request.target.ssh_host();
        let mut open = |host: Option<&SshHost>| -> Result<Box<dyn AgentHost>> {
            let Some(host) = host else {
                let stop = StopHandle::with_flag(Arc::clone(cancel));
                return Ok(Box::new(LocalHost::with_identity(stop)?));
            };
            let agent = request.agent.as_deref();
            let login = SshMethod {
                host,
                ssh: &request.ssh,
                agent,
                sudo: request.sudo,
                nice: false,
                time_limit: None,
            };
            Ok(Box::new(login::start(&login.or_own(&request.logins), prompts, observer)?))
        };
        let first = open(source)?;
        Ok(Self { source: first, target: if source == target { None } else { Some(open(target)?) } })
    }

    fn target(&mut self) -> &mut dyn AgentHost {
        self.target.as_deref_mut().unwrap_or(&mut *self.source)
    }

    /// Examines both locations before anything is measured, and how a copy between them would run.
    fn look(
        &mut self,
        request: &ProbeRequest,
        probed: &mut ProbeResults,
        observer: &dyn Observer,
    ) -> Result<ProbeLocations> {
        let mut source = None;
        if let Some(location) = &request.source {
            let at = |error: Error| if error.at.is_empty() { error.at(location.as_typed()) } else { error };
            let ask = SourceAsk { path: location.path().to_vec(), contents: true };
            let looked = self.source.look_at_sources(vec![ask]).map_err(at)?;
            let missing = || Error::new(ErrorKind::Protocol, "looking at the source", "there was no answer");
            let found = looked.into_iter().next().ok_or_else(missing)?.map_err(at)?;
            probed.source_end.name = self.source.name_of(&found.resolved);
            source = Some(found);
        }
        let found = self.target().look_at_target(request.target.path())?;
        let place = CopyTarget::look(
            self.target(),
            request.source.as_ref().zip(source.as_ref()),
            (&request.target, &found),
        )?;
        let device = match request.confirmed.is_empty() {
            true => String::new(),
            false => devices::check_written_back(
                (&request.target, &found),
                source.as_ref(),
                &request.confirmed,
                observer,
            )?,
        };
        if probed.apart {
            probed.round_trip = self.source.measure_round_trip()?.max(self.target().measure_round_trip()?);
        }
        let ends = EndpointFacts {
            round_trip: probed.round_trip,
            processors: (self.source.machine().processors, self.target().machine().processors),
            apart: probed.apart,
            over_network: found.network || source.as_ref().is_some_and(|source| source.network),
            has_disks: found.device.is_some()
                || source.as_ref().is_some_and(|source| source.device.is_some()),
            ..EndpointFacts::default()
        };
        let (lanes, lanes_max) = match request.lanes {
            LaneSetting::Count(count) => (count, count),
            LaneSetting::Auto => {
                let (lanes, _) = ends.lanes();
                (lanes, ends.lanes_max(lanes))
            }
        };
        probed.lanes = (lanes, lanes_max);
        let typed = request.target.path();
        let (name, path) = match found.found {
            TargetFound::Absent { parent_exists: false } => (typed.to_vec(), typed.to_vec()),
            TargetFound::File | TargetFound::Symlink => (found.resolved, found.parent),
            _ => (found.resolved.clone(), found.resolved),
        };
        probed.target_end.name = self.target().name_of(&name);
        let gentle = request.gentle;
        let source = source.map(|source| ReadAsk { path: source.resolved, gentle, lanes });
        let device = device.into_bytes();
        let target = WriteAsk { path, write: request.write, gentle, lanes, device };
        Ok(ProbeLocations { source, target, place })
    }
}

/// Reports what is measured, and at intervals that it still is: a lost host is detected only by its silence.
fn patiently<T>(observer: &dyn Observer, what: &str, measure: impl FnOnce() -> T) -> T {
    let tell = |words: String| observer.event(Event::Notice { words });
    tell(format!("measuring {what}"));
    let (ended, end) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while end.recv_timeout(STILL_EVERY) == Err(RecvTimeoutError::Timeout) {
                tell(format!("still measuring {what}; if nothing answers any more, it ends within a minute"));
            }
        });
        let measured = measure();
        drop(ended);
        measured
    })
}

/// One probe in progress.
struct ProbeRun<'a> {
    request: &'a ProbeRequest,
    cancel: &'a Arc<AtomicBool>,
    probed: &'a mut ProbeResults,
}

impl ProbeRun<'_> {
    fn run(
        &mut self,
        hosts: &mut ProbeHosts,
        source: Option<ReadAsk>,
        target: WriteAsk,
        observer: &dyn Observer,
    ) -> Result<()> {
        let gentle = self.request.gentle;
        let answer =
            patiently(observer, "the source's machine", || hosts.source.probe(ProbeAsk::Machine { gentle }));
        if let Some(ProbeAnswer::Machine(figures)) = self.kept("the source's machine", answer)? {
            self.probed.source_end.machine = Some(figures);
        }
        self.probed.target_end.machine = self.probed.source_end.machine.clone();
        if let Some(far) = &mut hosts.target {
            let answer =
                patiently(observer, "the target's machine", || far.probe(ProbeAsk::Machine { gentle }));
            self.probed.target_end.machine = None;
            if let Some(ProbeAnswer::Machine(figures)) = self.kept("the target's machine", answer)? {
                self.probed.target_end.machine = Some(figures);
            }
            let (source, target) = patiently(observer, "the ciphers", || -> Result<_> {
                Ok((hosts.source.cipher_speed()?, far.cipher_speed()?))
            })?;
            (self.probed.source_end.ciphers, self.probed.target_end.ciphers) = (Some(source), Some(target));
            let (cipher, _) = cipher::fastest(source, target);
            self.probed.cipher = Some(cipher::name(cipher));
            self.ways(&mut *hosts.source, &mut **far, cipher, observer)?;
        }
        if let Some(ask) = source {
            let answer = patiently(observer, "the source", || hosts.source.probe(ProbeAsk::Source(ask)));
            if let Some(ProbeAnswer::Source(figures)) = self.kept("the source", answer)? {
                self.probed.source = Some(figures);
            }
        }
        let answer = patiently(observer, "the target", || hosts.target().probe(ProbeAsk::Target(target)));
        if let Some(ProbeAnswer::Target(figures)) = self.kept("the target", answer)? {
            self.probed.target = Some(figures);
        }
        self.check_cancelled()
    }

    /// Measures both directions, one after the other.
    fn ways(
        &mut self,
        source: &mut dyn AgentHost,
        target: &mut dyn AgentHost,
        cipher: Cipher,
        observer: &dyn Observer,
    ) -> Result<()> {
        let gentle = self.request.gentle;
        let there = patiently(observer, "the way to the target", || {
            network_path::measure(source, target, cipher, gentle)
        });
        if let Some(there) = self.kept("the way to the target", there)? {
            self.probed.start += there.meeting;
            self.probed.by_ssh = there.by_ssh;
            if there.is_carried {
                // Neither ssh nor a relay adds connections later.
                let lanes = self.probed.lanes.0.min(there.lanes);
                self.probed.lanes = (lanes, lanes);
            }
            self.probed.there = Some(there.figures);
        }
        let back = patiently(observer, "the way from the target", || {
            network_path::measure(target, source, cipher, gentle)
        });
        self.probed.back = self.kept("the way from the target", back)?.map(|back| back.figures);
        Ok(())
    }

    /// Returns the measurement; if it failed, records the reason, or returns the error if continuing is pointless.
    fn kept<T>(&mut self, what: &str, measured: Result<T>) -> Result<Option<T>> {
        self.check_cancelled()?;
        match measured {
            Ok(measured) => Ok(Some(measured)),
            Err(error) if error.may_retry() || error.kind == ErrorKind::Protocol => Err(error),
            Err(error) => {
                self.probed.remarks.push(format!("{what} was not measured: {error}"));
                Ok(None)
            }
        }
    }

    fn check_cancelled(&self) -> Result<()> {
        match self.cancel.load(Relaxed) {
            true => Err(Error::new(ErrorKind::Cancelled, "measuring", "it was interrupted")),
            false => Ok(()),
        }
    }
}
