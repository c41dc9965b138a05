//! A machine that takes part in a transfer, be it this one or one with an agent.

use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use hakobu_core::capabilities::Capabilities;
use hakobu_core::disk::DiskList;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Observer;
use hakobu_core::fit::Need;
use hakobu_core::host::HostFacts;
use hakobu_core::landing::Ancestry;
use hakobu_core::pacer::LimitChanges;
use hakobu_core::path::EntryPath;
use hakobu_proto::control::{
    Answer, CipherSpeed, ConnectRequest, Listening, Machine, ProbeAnswer, ProbeAsk, Ran, Request,
    RunHereRequest, RunRequest, ServeRequest, Served, SourceAsk, SourceLook, TargetLook,
};

use crate::cipher;
use crate::far::FarSide;
use crate::look;
use crate::machine;
use crate::request::Transport;
use crate::sftp::SftpSide;
use crate::side::Side;
use crate::stop::Stop;

/// So many questions tell how long one takes.
const ROUND_TRIPS_MEASURED: u32 = 8;
/// How long measuring one thing may take: it ends by itself much earlier, unless a disk does not answer. Of the way it depends on
/// how long that is.
const PROBE_LIMIT: Duration = Duration::from_secs(30);
const PROBE_WAY_LIMIT: Duration = Duration::from_secs(15);
const PROBE_WAY_ROUND_TRIPS: u32 = 100;
const PROBE_MACHINE_LIMIT: Duration = Duration::from_secs(15);

/// A machine that takes part.
pub enum Party {
    /// This machine.
    Here(Box<Side>),
    /// A machine with an agent.
    There(Box<FarSide>),
    /// A machine with an SFTP server and no agent.
    Sftp(Box<SftpSide>),
}

macro_rules! ask {
    ($far:expr, $request:expr, $answer:ident) => {
        match $far.ask(&$request)? {
            Answer::$answer(answer) => answer,
            _ => return Err($far.unexpected()),
        }
    };
}

impl Party {
    /// This machine, taking no part but dialling.
    pub fn here() -> Self {
        Party::Here(Box::new(Side::new(Stop::default())))
    }

    /// Whether it is this machine.
    pub fn is_here(&self) -> bool {
        matches!(self, Party::Here(_))
    }

    /// It, if it is a machine without an agent.
    pub fn sftp(&self) -> Option<&SftpSide> {
        match self {
            Party::Sftp(side) => Some(side),
            _ => None,
        }
    }

    /// What any place there can do at best.
    pub fn capabilities(&self) -> Capabilities {
        match self {
            Party::Here(_) | Party::There(_) => Capabilities::unlimited(),
            Party::Sftp(side) => side.capabilities(),
        }
    }

    /// What opens places there, for people.
    pub fn opener(&self) -> &'static str {
        match self {
            Party::Here(_) => "this machine",
            Party::There(_) => "an agent",
            Party::Sftp(_) => "an sftp server",
        }
    }

    /// What to do where something is needed that no place there can do.
    pub fn way_out(&self, need: Need) -> &'static str {
        match (self, need) {
            (Party::Here(_) | Party::There(_), _) => "leave it out",
            (Party::Sftp(_), Need::Compression) => {
                "leave it out (--ssh 'ssh -C' compresses in ssh), or make an agent possible (--transport agent says what it lacks)"
            }
            (Party::Sftp(_), _) => {
                "leave it out, or make an agent possible (--transport agent says what it lacks)"
            }
        }
    }

    /// What is said before anything else of a run with a place there, if that has less than an agent offers: the host, and why.
    pub fn told_first(&self) -> Option<String> {
        match self {
            Party::Here(_) | Party::There(_) => None,
            Party::Sftp(side) => Some(match &side.why {
                Some(why) => format!("{}: over sftp, since there is no agent: {why}", side.host),
                None => format!("{}: over sftp, as asked", side.host),
            }),
        }
    }

    /// Facts about it. Of a machine without an agent nothing is known but whose account it is.
    pub fn machine(&self) -> Machine {
        match self {
            Party::Here(side) => side.machine(),
            Party::There(far) => far.hello.machine.clone(),
            Party::Sftp(side) => Machine {
                processors: 1,
                system: String::new(),
                uid: if side.is_root() { 0 } else { u32::MAX },
                reached_at: None,
                reached_from: None,
            },
        }
    }

    /// How fast it encrypts will be asked for: it begins to find out.
    ///
    /// # Errors
    /// As [`FarSide::ask`].
    pub fn foresee_cipher_speed(&mut self) -> Result<()> {
        match self {
            Party::Here(_) => cipher::begin(),
            Party::There(far) => far.foresee_cipher_speed()?,
            Party::Sftp(_) => {}
        }
        Ok(())
    }

    /// How fast it encrypts; nothing of a machine without an agent, where ssh does.
    ///
    /// # Errors
    /// As [`FarSide::ask`].
    pub fn cipher_speed(&mut self) -> Result<CipherSpeed> {
        match self {
            Party::Here(_) => Ok(cipher::here()),
            Party::There(far) => far.cipher_speed(),
            Party::Sftp(_) => Ok(CipherSpeed::default()),
        }
    }

    /// Many connections to it are to come: those through ssh take long, and begin at once, if it is known that they will
    /// be through ssh.
    pub fn foresee_many(&self, transport: Transport) {
        match self {
            Party::There(far) if transport == Transport::Ssh => far.sessions().foresee_many(),
            Party::Sftp(side) => side.foresee_many(),
            Party::Here(_) | Party::There(_) => {}
        }
    }

    /// How to reach it, if it is another one.
    pub fn far(&self) -> Option<&FarSide> {
        match self {
            Party::Here(_) | Party::Sftp(_) => None,
            Party::There(far) => Some(far),
        }
    }

    /// The fingerprint of its certificate.
    ///
    /// # Errors
    /// `Usage` for this machine, if it takes part alone.
    pub fn fingerprint(&self) -> Result<[u8; 32]> {
        match self {
            Party::Here(side) => side.fingerprint(),
            Party::There(far) => Ok(far.hello.fingerprint),
            Party::Sftp(side) => Err(needs_agent(side)),
        }
    }

    /// How long a question to it takes.
    pub fn round_trip(&self) -> Duration {
        match self {
            Party::Here(_) => Duration::ZERO,
            Party::There(far) => far.round_trip,
            Party::Sftp(side) => side.round_trip(),
        }
    }

    /// A path of it for people: with the host before it, if it is another one.
    pub fn name_of(&self, path: &[u8]) -> Vec<u8> {
        match self {
            Party::Here(_) => path.to_vec(),
            Party::There(far) => [far.host.as_bytes(), b":", path].concat(),
            Party::Sftp(side) => [side.host.as_bytes(), b":", path].concat(),
        }
    }

    /// Looks at sources.
    pub fn look_at_sources(&mut self, sources: Vec<SourceAsk>) -> Result<Vec<Result<SourceLook>>> {
        Ok(match self {
            Party::Here(_) => sources.iter().map(look::source).collect(),
            Party::There(far) => ask!(far, Request::LookAtSources { sources }, Sources),
            Party::Sftp(side) => sources.iter().map(|ask| side.look_at_source(ask)).collect(),
        })
    }

    /// Looks at a target.
    pub fn look_at_target(&mut self, path: &[u8]) -> Result<TargetLook> {
        match self {
            Party::Here(_) => look::target(path),
            Party::There(far) => ask!(far, Request::LookAtTarget { path: path.to_vec() }, Target),
            Party::Sftp(side) => side.look_at_target(path),
        }
    }

    /// Finds out who places below a directory are.
    pub fn look_at_places(&mut self, root: &[u8], places: &[EntryPath]) -> Result<Vec<Ancestry>> {
        match self {
            Party::Here(_) => look::places(root, places),
            Party::There(far) => {
                let request = Request::LookAtPlaces { root: root.to_vec(), places: places.to_vec() };
                ask!(far, request, Places)
            }
            Party::Sftp(side) => Ok(places.iter().map(|place| side.look_at_place(root, place)).collect()),
        }
    }

    /// Lists its disks.
    pub fn disks(&mut self) -> Result<DiskList> {
        match self {
            Party::Here(_) => look::disks(),
            Party::There(far) => ask!(far, Request::Disks, Disks),
            Party::Sftp(side) => Err(needs_agent(side)),
        }
    }

    /// What it is set to. `toward` is the other machine; an agent knows where its login came from.
    pub fn settings(&mut self, toward: Option<IpAddr>) -> Result<HostFacts> {
        match self {
            Party::Here(_) => Ok(machine::settings(toward)),
            Party::There(far) => ask!(far, Request::Settings, Settings).map(|facts| *facts),
            Party::Sftp(side) => Err(needs_agent(side)),
        }
    }

    /// Measures something there.
    pub fn probe(&mut self, ask: ProbeAsk) -> Result<ProbeAnswer> {
        match self {
            Party::Here(side) => side.probe(&ask),
            Party::There(far) => {
                let limit = probe_limit(&ask, far.round_trip);
                match far.ask_for(&Request::Probe(ask), limit)? {
                    Answer::Probe(answer) => answer.map(|answer| *answer),
                    _ => Err(far.unexpected()),
                }
            }
            Party::Sftp(side) => Err(needs_agent(side)),
        }
    }

    /// Measures again how long a question to it takes: the least of several. What is slow once was busy.
    pub fn measure_round_trip(&mut self) -> Result<Duration> {
        if let Party::There(far) = self {
            for _ in 0..ROUND_TRIPS_MEASURED {
                let asked = Instant::now();
                far.ask(&Request::LookAtSources { sources: Vec::new() })?;
                far.round_trip = far.round_trip.min(asked.elapsed());
            }
        }
        Ok(self.round_trip())
    }

    /// Opens a port there.
    pub fn listen(&mut self, address: Option<&str>, port: Option<u16>) -> Result<Listening> {
        match self {
            Party::Here(side) => {
                let port = side.listen(address, port)?;
                let addresses = address.map(str::to_owned).into_iter().collect();
                Ok(Listening { port, addresses, process: std::process::id() })
            }
            Party::There(far) => {
                ask!(far, Request::Listen { address: address.map(str::to_owned), port }, Listening)
            }
            Party::Sftp(side) => Err(needs_agent(side)),
        }
    }

    /// Makes it hold the target.
    pub fn serve(&mut self, request: ServeRequest) -> Result<Capabilities> {
        match self {
            Party::Here(side) => side.serve(&request),
            Party::There(far) => {
                far.hold_apart(&request.grant)?;
                ask!(far, Request::Serve(request), Serving)
            }
            Party::Sftp(side) => Err(needs_agent(side)),
        }
    }

    /// Makes it let go of the target. `cut` says that the line to it may be cut, or that a stop was
    /// asked for, so that there is little point in waiting for an answer.
    pub fn end_serving(&mut self, cut: bool) -> Result<Served> {
        let limit = if cut { Duration::from_secs(5) } else { Duration::from_secs(60) };
        match self {
            Party::Here(side) => Ok(side.end_serving()),
            Party::There(far) => match far.ask_for(&Request::EndServing, limit)? {
                Answer::Served(served) => Ok(served),
                _ => Err(far.unexpected()),
            },
            Party::Sftp(side) => Err(needs_agent(side)),
        }
    }

    /// Makes it give up a run on this machine when the control connection to `other` is gone: the
    /// agent there ends then, and its connections may not tell. An engine elsewhere has a control
    /// connection of its own.
    ///
    /// # Errors
    /// `Io` when no file descriptor is left.
    pub fn depend_on(&mut self, other: &Party) -> Result<()> {
        if let (Party::Here(side), Party::There(far)) = (self, other) {
            side.depend_on(far.control()?);
        }
        Ok(())
    }

    /// Makes it connect as the engine's side.
    pub fn connect(&mut self, request: ConnectRequest) -> Result<()> {
        match self {
            Party::Here(side) => side.connect(&request),
            Party::There(far) => ask!(far, Request::Connect(request), Connected),
            Party::Sftp(side) => Err(needs_agent(side)),
        }
    }

    /// Runs a job over its connections. What it is held to changes with `changes` if it is there; here its side has those.
    pub fn run(
        &mut self,
        request: RunRequest,
        observer: &dyn Observer,
        cancel: &AtomicBool,
        changes: &dyn LimitChanges,
    ) -> Result<Ran> {
        match self {
            Party::Here(side) => Ok(side.run(&request, observer)),
            Party::There(far) => far.run(&Request::Run(request), observer, cancel, changes),
            Party::Sftp(side) => Err(needs_agent(side)),
        }
    }

    /// Runs a job of which both ends are there.
    pub fn run_here(
        &mut self,
        request: RunHereRequest,
        observer: &dyn Observer,
        cancel: &AtomicBool,
        changes: &dyn LimitChanges,
    ) -> Result<Ran> {
        match self {
            Party::Here(side) => Ok(side.run_here(&request, observer)),
            Party::There(far) => {
                far.hold_apart(&request.grant)?;
                far.run(&Request::RunHere(request), observer, cancel, changes)
            }
            Party::Sftp(side) => Err(needs_agent(side)),
        }
    }
}

/// After this long without an answer the machine is taken for lost.
fn probe_limit(ask: &ProbeAsk, round_trip: Duration) -> Duration {
    match ask {
        ProbeAsk::Machine { .. } => PROBE_MACHINE_LIMIT + round_trip,
        ProbeAsk::Way { .. } => PROBE_WAY_LIMIT + round_trip * PROBE_WAY_ROUND_TRIPS,
        ProbeAsk::Source(_) | ProbeAsk::Target(_) => PROBE_LIMIT + round_trip,
    }
}

fn needs_agent(side: &SftpSide) -> Error {
    let words = "there is only an sftp server, and this takes an agent";
    Error::new(ErrorKind::Unsupported, "asking", words).at(&side.host)
}
