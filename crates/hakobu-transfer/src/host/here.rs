//! This host: its own process does what an agent does elsewhere.

use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::disk::DiskList;
use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::error::Result;
use hakobu_core::event::Observer;
use hakobu_core::grant::Grant;
use hakobu_core::host::HostFacts;
use hakobu_core::job::Job;
use hakobu_core::landing::Ancestry;
use hakobu_core::pacer::LimitChanges;
use hakobu_core::path::EntryPath;
use hakobu_proto::control::{
    CipherSpeed, ConnectRequest, Listening, Machine, PathBytes, ProbeAnswer, ProbeAsk, Ran, RunHereRequest,
    RunRequest, ServeRequest, Served, SourceAsk, SourceLook, TargetLook,
};

use super::{AgentHost, Host};
use hakobu_agent::look;
use hakobu_agent::machine;
use hakobu_agent::side::Side;
use hakobu_net::cipher;

impl Host for Side {
    fn name(&self) -> String {
        self.opener().to_owned()
    }

    fn name_of(&self, path: &[u8]) -> Vec<u8> {
        path.to_vec()
    }

    fn is_here(&self) -> bool {
        true
    }

    fn machine(&self) -> Machine {
        Side::machine(self)
    }

    fn hakobu_version(&self) -> Option<String> {
        Some(env!("CARGO_PKG_VERSION").to_owned())
    }

    fn round_trip(&self) -> Duration {
        Duration::ZERO
    }

    fn opener(&self) -> &'static str {
        "this machine"
    }

    fn look_at_sources(&mut self, sources: Vec<SourceAsk>) -> Result<Vec<Result<SourceLook>>> {
        Ok(sources.iter().map(look::source).collect())
    }

    fn look_at_target(&mut self, path: &[u8]) -> Result<TargetLook> {
        look::target(path)
    }

    fn look_at_places(&mut self, root: &[u8], places: &[EntryPath]) -> Result<Vec<Ancestry>> {
        look::places(root, places)
    }

    fn open_source(&self, roots: &[PathBytes], job: &Job) -> Result<Box<dyn SourceEndpoint>> {
        Side::open_source(self, roots, job)
    }

    fn open_target(
        &self,
        root: &[u8],
        grant: &Grant,
        identity: &[u8; 16],
        _job: &Job,
    ) -> Result<Box<dyn TargetEndpoint>> {
        Ok(Box::new(Side::open_target(self, root, grant, identity)?))
    }

    fn has_agent(&self) -> bool {
        true
    }

    fn as_agent(&mut self) -> Option<&mut dyn AgentHost> {
        Some(self)
    }
}

impl AgentHost for Side {
    fn side(&mut self) -> Option<&mut Side> {
        Some(self)
    }

    fn fingerprint(&self) -> Result<[u8; 32]> {
        Side::fingerprint(self)
    }

    fn foresee_cipher_speed(&mut self) -> Result<()> {
        cipher::begin();
        Ok(())
    }

    fn cipher_speed(&mut self) -> Result<CipherSpeed> {
        Ok(cipher::here())
    }

    fn disks(&mut self) -> Result<DiskList> {
        look::disks()
    }

    fn settings(&mut self, toward: Option<IpAddr>) -> Result<HostFacts> {
        Ok(machine::settings(toward))
    }

    fn probe(&mut self, ask: ProbeAsk) -> Result<ProbeAnswer> {
        Side::probe(self, &ask)
    }

    fn measure_round_trip(&mut self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }

    fn listen(&mut self, address: Option<&str>, port: Option<u16>) -> Result<Listening> {
        let port = Side::listen(self, address, port)?;
        let addresses = address.map(str::to_owned).into_iter().collect();
        Ok(Listening { port, addresses, process: std::process::id() })
    }

    fn serve(&mut self, request: ServeRequest) -> Result<Capabilities> {
        Side::serve(self, &request)
    }

    fn end_serving(&mut self, _cut: bool) -> Result<Served> {
        Ok(Side::end_serving(self))
    }

    fn depend_on(&mut self, other: &dyn AgentHost) -> Result<()> {
        if let Some(control) = other.control()? {
            Side::depend_on(self, control);
        }
        Ok(())
    }

    fn connect(&mut self, request: ConnectRequest) -> Result<()> {
        Side::connect(self, &request)
    }

    fn run(
        &mut self,
        request: RunRequest,
        observer: &dyn Observer,
        _cancel: &AtomicBool,
        _changes: &dyn LimitChanges,
    ) -> Result<Ran> {
        Ok(Side::run(self, &request, observer))
    }

    fn run_here(
        &mut self,
        request: RunHereRequest,
        observer: &dyn Observer,
        _cancel: &AtomicBool,
        _changes: &dyn LimitChanges,
    ) -> Result<Ran> {
        Ok(Side::run_here(self, &request, observer))
    }
}
