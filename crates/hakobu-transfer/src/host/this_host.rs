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
    AgentMachine, CipherSpeed, ConnectRequest, ListeningPort, MachinePath, ProbeAnswer, ProbeAsk,
    RunHereRequest, RunRequest, RunUsage, ServeRequest, ServedUsage, SourceAsk, SourceLook, TargetLook,
};

use super::{AgentHost, Host};
use hakobu_agent::inspect;
use hakobu_agent::local_host::LocalHost;
use hakobu_agent::machine;
use hakobu_net::cipher;

impl Host for LocalHost {
    fn name(&self) -> String {
        self.opener().to_owned()
    }

    fn name_of(&self, path: &[u8]) -> Vec<u8> {
        path.to_vec()
    }

    fn is_here(&self) -> bool {
        true
    }

    fn machine(&self) -> AgentMachine {
        LocalHost::machine(self)
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
        Ok(sources.iter().map(inspect::source).collect())
    }

    fn look_at_target(&mut self, path: &[u8]) -> Result<TargetLook> {
        inspect::target(path)
    }

    fn look_at_places(&mut self, root: &[u8], places: &[EntryPath]) -> Result<Vec<Ancestry>> {
        inspect::places(root, places)
    }

    fn open_source(&self, roots: &[MachinePath], job: &Job) -> Result<Box<dyn SourceEndpoint>> {
        LocalHost::open_source(self, roots, job)
    }

    fn open_target(
        &self,
        root: &[u8],
        grant: &Grant,
        identity: &[u8; 16],
        _job: &Job,
    ) -> Result<Box<dyn TargetEndpoint>> {
        Ok(Box::new(LocalHost::open_target(self, root, grant, identity)?))
    }

    fn has_agent(&self) -> bool {
        true
    }

    fn as_agent(&mut self) -> Option<&mut dyn AgentHost> {
        Some(self)
    }
}

impl AgentHost for LocalHost {
    fn side(&mut self) -> Option<&mut LocalHost> {
        Some(self)
    }

    fn fingerprint(&self) -> Result<[u8; 32]> {
        LocalHost::fingerprint(self)
    }

    fn foresee_cipher_speed(&mut self) -> Result<()> {
        cipher::begin();
        Ok(())
    }

    fn cipher_speed(&mut self) -> Result<CipherSpeed> {
        Ok(cipher::here())
    }

    fn disks(&mut self) -> Result<DiskList> {
        inspect::disks()
    }

    fn settings(&mut self, toward: Option<IpAddr>) -> Result<HostFacts> {
        Ok(machine::settings(toward))
    }

    fn probe(&mut self, ask: ProbeAsk) -> Result<ProbeAnswer> {
        LocalHost::probe(self, &ask)
    }

    fn measure_round_trip(&mut self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }

    fn listen(&mut self, address: Option<&str>, port: Option<u16>) -> Result<ListeningPort> {
        let port = LocalHost::listen(self, address, port)?;
        let addresses = address.map(str::to_owned).into_iter().collect();
        Ok(ListeningPort { port, addresses, process: std::process::id() })
    }

    fn serve(&mut self, request: ServeRequest) -> Result<Capabilities> {
        LocalHost::serve(self, &request)
    }

    fn end_serving(&mut self, _cut: bool) -> Result<ServedUsage> {
        Ok(LocalHost::end_serving(self))
    }

    fn depend_on(&mut self, other: &dyn AgentHost) -> Result<()> {
        if let Some(control) = other.control()? {
            LocalHost::depend_on(self, control);
        }
        Ok(())
    }

    fn connect(&mut self, request: ConnectRequest) -> Result<()> {
        LocalHost::connect(self, &request)
    }

    fn run(
        &mut self,
        request: RunRequest,
        observer: &dyn Observer,
        _cancel: &AtomicBool,
        _changes: &dyn LimitChanges,
    ) -> Result<RunUsage> {
        Ok(LocalHost::run(self, &request, observer, None))
    }

    fn run_here(
        &mut self,
        request: RunHereRequest,
        observer: &dyn Observer,
        _cancel: &AtomicBool,
        _changes: &dyn LimitChanges,
    ) -> Result<RunUsage> {
        Ok(LocalHost::run_here(self, &request, observer, None))
    }
}
