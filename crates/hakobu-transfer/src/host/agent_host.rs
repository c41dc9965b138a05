//! A remote host with an agent.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use hakobu_core::capabilities::Capabilities;
use hakobu_core::disk::DiskList;
use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Observer;
use hakobu_core::grant::Grant;
use hakobu_core::host::HostFacts;
use hakobu_core::job::Job;
use hakobu_core::landing::Ancestry;
use hakobu_core::pacer::LimitChanges;
use hakobu_core::path::EntryPath;
use hakobu_proto::control::{
    AgentMachine, AgentMessage, CipherSpeed, ConnectRequest, ListeningPort, MachinePath, ProbeAnswer,
    ProbeAsk, Request, RunHereRequest, RunRequest, RunUsage, ServeRequest, ServedUsage, SourceAsk,
    SourceLook, TargetLook,
};

use super::{AgentHost, Host};
use crate::agent_client::FarSide;
use hakobu_core::request::Transport;
use hakobu_ssh::sessions::Sessions;

/// The number of requests that measure the round trip.
const ROUND_TRIPS_MEASURED: u32 = 8;
/// The time limits of measurements. They end by themselves much earlier, unless a disk does not answer. The limit for a
/// network path grows with its round trip.
const PROBE_LIMIT: Duration = Duration::from_secs(30);
const PROBE_WAY_LIMIT: Duration = Duration::from_secs(15);
const PROBE_WAY_ROUND_TRIPS: u32 = 100;
const PROBE_MACHINE_LIMIT: Duration = Duration::from_secs(15);

macro_rules! ask {
    ($far:expr, $request:expr, $answer:ident) => {
        match $far.ask(&$request)? {
            AgentMessage::$answer(answer) => answer,
            _ => return Err($far.unexpected()),
        }
    };
}

impl Host for FarSide {
    fn name(&self) -> String {
        self.host.clone()
    }

    fn name_of(&self, path: &[u8]) -> Vec<u8> {
        [self.host.as_bytes(), b":", path].concat()
    }

    fn machine(&self) -> AgentMachine {
        self.hello.machine.clone()
    }

    fn hakobu_version(&self) -> Option<String> {
        Some(self.hello.program.clone())
    }

    fn round_trip(&self) -> Duration {
        self.round_trip
    }

    fn opener(&self) -> &'static str {
        "an agent"
    }

    fn foresee_many(&self, transport: Transport) {
        // Connections through ssh take long, so they begin at once if it is known that they will be used.
        if transport == Transport::Ssh
            && let Some(sessions) = FarSide::sessions(self)
        {
            sessions.foresee_many();
        }
    }

    fn look_at_sources(&mut self, sources: Vec<SourceAsk>) -> Result<Vec<Result<SourceLook>>> {
        Ok(ask!(self, Request::LookAtSources { sources }, Sources))
    }

    fn look_at_target(&mut self, path: &[u8]) -> Result<TargetLook> {
        ask!(self, Request::LookAtTarget { path: path.to_vec() }, Target)
    }

    fn look_at_places(&mut self, root: &[u8], places: &[EntryPath]) -> Result<Vec<Ancestry>> {
        let request = Request::LookAtPlaces { root: root.to_vec(), places: places.to_vec() };
        ask!(self, request, Places)
    }

    fn open_source(&self, _roots: &[MachinePath], _job: &Job) -> Result<Box<dyn SourceEndpoint>> {
        Err(opened_there(&self.host))
    }

    fn open_target(
        &self,
        _root: &[u8],
        _grant: &Grant,
        _identity: &[u8; 16],
        _job: &Job,
    ) -> Result<Box<dyn TargetEndpoint>> {
        Err(opened_there(&self.host))
    }

    fn has_agent(&self) -> bool {
        true
    }

    fn as_agent(&mut self) -> Option<&mut dyn AgentHost> {
        Some(self)
    }
}

impl AgentHost for FarSide {
    fn sessions(&self) -> Option<&Arc<Sessions>> {
        FarSide::sessions(self)
    }

    fn control(&self) -> Result<Option<OwnedFd>> {
        FarSide::control(self).map(Some)
    }

    fn fingerprint(&self) -> Result<[u8; 32]> {
        Ok(self.hello.fingerprint)
    }

    fn foresee_cipher_speed(&mut self) -> Result<()> {
        FarSide::foresee_cipher_speed(self)
    }

    fn cipher_speed(&mut self) -> Result<CipherSpeed> {
        FarSide::cipher_speed(self)
    }

    fn disks(&mut self) -> Result<DiskList> {
        ask!(self, Request::Disks, Disks)
    }

    fn settings(&mut self, _toward: Option<IpAddr>) -> Result<HostFacts> {
        ask!(self, Request::Settings, Settings).map(|facts| *facts)
    }

    fn probe(&mut self, ask: ProbeAsk) -> Result<ProbeAnswer> {
        let limit = probe_limit(&ask, self.round_trip);
        match self.ask_for(&Request::Probe(ask), limit)? {
            AgentMessage::Probe(answer) => answer.map(|answer| *answer),
            _ => Err(self.unexpected()),
        }
    }

    fn measure_round_trip(&mut self) -> Result<Duration> {
        for _ in 0..ROUND_TRIPS_MEASURED {
            let asked = Instant::now();
            self.ask(&Request::LookAtSources { sources: Vec::new() })?;
            self.round_trip = self.round_trip.min(asked.elapsed());
        }
        Ok(self.round_trip)
    }

    fn listen(&mut self, address: Option<&str>, port: Option<u16>) -> Result<ListeningPort> {
        ask!(self, Request::Listen { address: address.map(str::to_owned), port }, Listening)
    }

    fn serve(&mut self, request: ServeRequest) -> Result<Capabilities> {
        self.hold_apart(&request.grant)?;
        ask!(self, Request::Serve(request), Serving)
    }

    fn end_serving(&mut self, cut: bool) -> Result<ServedUsage> {
        let limit = if cut { Duration::from_secs(5) } else { Duration::from_secs(60) };
        match self.ask_for(&Request::EndServing, limit)? {
            AgentMessage::Served(served) => Ok(served),
            _ => Err(self.unexpected()),
        }
    }

    fn connect(&mut self, request: ConnectRequest) -> Result<()> {
        ask!(self, Request::Connect(request), Connected)
    }

    fn run(
        &mut self,
        request: RunRequest,
        observer: &dyn Observer,
        cancel: &AtomicBool,
        changes: &dyn LimitChanges,
    ) -> Result<RunUsage> {
        FarSide::run(self, &Request::Run(request), observer, cancel, changes)
    }

    fn run_here(
        &mut self,
        request: RunHereRequest,
        observer: &dyn Observer,
        cancel: &AtomicBool,
        changes: &dyn LimitChanges,
    ) -> Result<RunUsage> {
        self.hold_apart(&request.grant)?;
        FarSide::run(self, &Request::RunHere(request), observer, cancel, changes)
    }
}

/// Returns the time without an answer after which the host is considered lost.
fn probe_limit(ask: &ProbeAsk, round_trip: Duration) -> Duration {
    match ask {
        ProbeAsk::Machine { .. } => PROBE_MACHINE_LIMIT + round_trip,
        ProbeAsk::Way { .. } => PROBE_WAY_LIMIT + round_trip * PROBE_WAY_ROUND_TRIPS,
        ProbeAsk::Source(_) | ProbeAsk::Target(_) => PROBE_LIMIT + round_trip,
    }
}

fn opened_there(host: &str) -> Error {
    Error::new(ErrorKind::Usage, "opening an end", "its agent opens places there, not this machine").at(host)
}
