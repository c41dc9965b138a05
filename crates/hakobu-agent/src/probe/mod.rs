//! What two machines, the way between them, and the places of a transfer give, and what a copy will get of that.
//!
//! All is measured with the parts of a copy: the same logins, agents and connections. What one step cannot measure is said,
//! and the others go on; a machine that is lost ends it, and what was measured until then is told.

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
use hakobu_core::pace::{Limits, Rate};
use hakobu_core::probe::{MachineFigures, ReadAsk, ReadFigures, WayFigures, WriteAsk, WriteFigures};
use hakobu_measure::probe::{Measured, Prediction, Stage, predict};
use hakobu_proto::control::{Cipher, CipherSpeed, ProbeAnswer, ProbeAsk, SourceAsk};

use crate::host::AgentHost;
use hakobu_core::lane_count::Ends;
use crate::login;
use crate::ssh::login::Login;
use crate::opening::is_without_agent;
use hakobu_core::request::{HostLogin, Lanes};
use crate::side::Side;
use hakobu_core::prompts::Prompts;
use crate::stop::Stop;
use crate::cipher;
use crate::devices;

pub(crate) mod flood;
pub(crate) mod machine;
mod obstacle;
mod quota;
mod stream;
pub(crate) mod way;

pub use self::obstacle::Obstacle;
use self::obstacle::Place;

/// Something that is measured for longer than this is still measured, which is said.
const STILL_EVERY: Duration = Duration::from_secs(10);

/// What to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRequest {
    /// What would be copied; without it content comes out of this machine's memory.
    pub source: Option<Location>,
    /// Where it would be copied to.
    pub target: Location,
    /// With little load, and for less long.
    pub gentle: bool,
    /// Whether a scratch file may be written at the target.
    pub write: bool,
    /// How many lanes the copy would have.
    pub lanes: Lanes,
    /// What it would be held to.
    pub limits: Limits,
    /// Whether it would compress.
    pub compression: Compression,
    /// The IDs of disks that what they hold may be written to.
    pub confirmed: Vec<String>,
    /// The ssh program and its arguments, at least the program.
    pub ssh: Vec<OsString>,
    /// The program on the far side, if it is not to be found or uploaded.
    pub agent: Option<PathBuf>,
    /// Whether the far agents run under sudo.
    pub sudo: bool,
    /// The logins on the other machines, where they are not all by the three above.
    pub logins: Vec<HostLogin>,
}

/// What was measured of one end.
#[derive(Clone, Debug, Default)]
pub struct End {
    /// The place, with its host; empty where there is none.
    pub name: Vec<u8>,
    /// Its machine.
    pub machine: Option<MachineFigures>,
    /// How fast that encrypts; not asked for where nothing travels.
    pub ciphers: Option<CipherSpeed>,
}

/// What was measured, and what follows from it.
#[derive(Clone, Debug, Default)]
pub struct Probed {
    /// The source's end.
    pub source_end: End,
    /// The target's end.
    pub target_end: End,
    /// Reading.
    pub source: Option<ReadFigures>,
    /// Writing.
    pub target: Option<WriteFigures>,
    /// Whether the ends are on different machines, or reached as such.
    pub apart: bool,
    /// The way from the source to the target.
    pub there: Option<WayFigures>,
    /// The way back.
    pub back: Option<WayFigures>,
    /// Whether the data went through ssh.
    pub by_ssh: bool,
    /// The cipher that a copy takes.
    pub cipher: Option<&'static str>,
    /// A question and its answer, over the login.
    pub round_trip: Duration,
    /// How long logging in and connecting took.
    pub start: Duration,
    /// How many lanes a copy begins with, and how many it may have in the end.
    pub lanes: (u16, u16),
    /// What it is held to. Of these, only the rate is predicted.
    pub limits: Limits,
    /// Whether it compresses, which is not predicted.
    pub compression: Compression,
    /// What could not be measured, and why.
    pub remarks: Vec<String>,
    /// What ended it early.
    pub failure: Option<Error>,
    /// What follows.
    pub prediction: Prediction,
    /// Why a copy would fail, so that what follows holds only without that.
    pub obstacle: Option<Obstacle>,
    /// The directory that was written to, with its host, where it is not the target itself.
    pub measured_in: Option<Vec<u8>>,
}

/// Measures. What was measured before something broke is told with the reason.
///
/// # Errors
/// What makes it impossible to begin: a location that is none of ours, a login that fails, a source that is not there.
pub fn probe(
    request: &ProbeRequest,
    prompts: &mut dyn Prompts,
    observer: &dyn Observer,
    cancel: &Arc<AtomicBool>,
) -> Result<Probed> {
    for location in request.source.iter().chain([&request.target]) {
        refuse(location)?;
    }
    let began = Instant::now();
    let mut hosts = Hosts::start(request, prompts, observer, cancel)?;
    let mut probed = Probed {
        start: began.elapsed(),
        apart: hosts.target.is_some(),
        limits: request.limits.clone(),
        compression: request.compression,
        ..Probed::default()
    };
    let Places { source, target, place } = hosts.look(request, &mut probed, observer)?;
    let mut course = Course { request, cancel, probed: &mut probed };
    let failure = course.run(&mut hosts, source, target, observer).err();
    probed.failure = failure;
    let (source, target) = (probed.source.as_ref(), probed.target.as_ref());
    let names = (&probed.source_end.name[..], &probed.target_end.name[..]);
    probed.obstacle = place.judge(names, source, target, !probed.apart);
    if probed.obstacle.is_none() && !probed.apart && request.compression.is_asked_for() {
        probed.obstacle = Some(Obstacle::of_compression());
    }
    let directory = target.map(|target| &target.directory).filter(|directory| !directory.is_empty());
    probed.measured_in =
        directory.map(|path| hosts.target().name_of(path)).filter(|name| *name != probed.target_end.name);
    probed.prediction = predict(&Measured {
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
            Rate::BytesPerSecond(bytes) => Some(bytes),
            Rate::Unlimited | Rate::Paused => None,
        },
    });
    if probed.failure.is_some() {
        // Of a copy whose way or place was not measured any more nothing can be said.
        let Prediction { slowest, file, tree, unknown, .. } = &mut probed.prediction;
        (*slowest, *file, *tree) = (None, None, None);
        if request.source.is_some() && probed.source.is_none() && !unknown.contains(&Stage::SourceRead) {
            unknown.insert(0, Stage::SourceRead);
        }
    }
    Ok(probed)
}

/// Ends that only a copy has.
fn refuse(location: &Location) -> Result<()> {
    let refused = |words: &str| {
        Err(Error::new(ErrorKind::Unsupported, "looking at the locations", words).at(location.as_typed()))
    };
    if location.is_stream() {
        return refused("a stream gives nothing to measure; name a file, directory or disk");
    }
    if location.store().is_some() {
        return refused("a probe measures places on machines with hakobu, and this is a store");
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

/// The hosts. One where both ends are on one machine.
struct Hosts {
    source: Box<dyn AgentHost>,
    target: Option<Box<dyn AgentHost>>,
}

/// What is asked of the two places, and where a copy would land.
struct Places {
    source: Option<ReadAsk>,
    target: WriteAsk,
    place: Place,
}

impl Hosts {
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
                let stop = Stop::with_flag(Arc::clone(cancel));
                return Ok(Box::new(Side::with_identity(stop)?));
            };
            let agent = request.agent.as_deref();
            let login =
                Login { host, ssh: &request.ssh, agent, sudo: request.sudo, nice: false, time_limit: None };
            Ok(Box::new(login::start(&login.or_own(&request.logins), prompts, observer)?))
        };
        let first = open(source)?;
        Ok(Self { source: first, target: if source == target { None } else { Some(open(target)?) } })
    }

    fn target(&mut self) -> &mut dyn AgentHost {
        self.target.as_deref_mut().unwrap_or(&mut *self.source)
    }

    /// Finds the places, before anything is measured, and what a copy between them would be like.
    fn look(
        &mut self,
        request: &ProbeRequest,
        probed: &mut Probed,
        observer: &dyn Observer,
    ) -> Result<Places> {
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
        let place = Place::look(
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
        let ends = Ends {
            round_trip: probed.round_trip,
            processors: (self.source.machine().processors, self.target().machine().processors),
            apart: probed.apart,
            over_network: found.network || source.as_ref().is_some_and(|source| source.network),
            has_disks: found.device.is_some()
                || source.as_ref().is_some_and(|source| source.device.is_some()),
            ..Ends::default()
        };
        let (lanes, lanes_max) = match request.lanes {
            Lanes::Count(count) => (count, count),
            Lanes::Auto => {
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
        Ok(Places { source, target, place })
    }
}

/// Says what is measured, and now and then that it still is: a machine that is lost is found out by its silence alone.
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

/// One probe under way.
struct Course<'a> {
    request: &'a ProbeRequest,
    cancel: &'a Arc<AtomicBool>,
    probed: &'a mut Probed,
}

impl Course<'_> {
    fn run(
        &mut self,
        hosts: &mut Hosts,
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

    /// Both directions, one after the other.
    fn ways(
        &mut self,
        source: &mut dyn AgentHost,
        target: &mut dyn AgentHost,
        cipher: Cipher,
        observer: &dyn Observer,
    ) -> Result<()> {
        let gentle = self.request.gentle;
        let there =
            patiently(observer, "the way to the target", || way::measure(source, target, cipher, gentle));
        if let Some(there) = self.kept("the way to the target", there)? {
            self.probed.start += there.meeting;
            self.probed.by_ssh = there.by_ssh;
            if there.is_carried {
                // Neither ssh nor a relay makes more of them later.
                let lanes = self.probed.lanes.0.min(there.lanes);
                self.probed.lanes = (lanes, lanes);
            }
            self.probed.there = Some(there.figures);
        }
        let back =
            patiently(observer, "the way from the target", || way::measure(target, source, cipher, gentle));
        self.probed.back = self.kept("the way from the target", back)?.map(|back| back.figures);
        Ok(())
    }

    /// What was measured; of what could not be, why, unless there is no use in going on.
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
