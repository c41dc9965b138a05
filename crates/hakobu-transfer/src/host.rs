//! A host that takes part in a transfer: this one, one with an agent, or one that only offers endpoints.

mod agent_host;
pub mod far_store;
mod this_host;

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
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
use hakobu_core::report::UsedTransport;
use hakobu_core::requirements::NeededCapability;
use hakobu_proto::control::{
    AgentMachine, CipherSpeed, ConnectRequest, ListeningPort, MachinePath, ProbeAnswer, ProbeAsk,
    RunHereRequest, RunRequest, RunUsage, ServeRequest, ServedUsage, SourceAsk, SourceLook, TargetLook,
};

use hakobu_agent::local_host::LocalHost;
use hakobu_core::request::Transport;
use hakobu_ssh::sessions::Sessions;

/// A host that takes part in a transfer.
pub trait Host {
    /// Returns its name for messages.
    fn name(&self) -> String;

    /// Returns a path on it for messages, with the host before it if it is another one.
    fn name_of(&self, path: &[u8]) -> Vec<u8>;

    /// Returns true if it is this host.
    fn is_here(&self) -> bool {
        false
    }

    /// Returns true if it is a store.
    fn is_store(&self) -> bool {
        false
    }

    /// Returns facts about it, as far as they are known.
    fn machine(&self) -> AgentMachine;

    /// Returns the version of hakobu that runs there, if any does.
    fn hakobu_version(&self) -> Option<String> {
        None
    }

    /// Returns the round-trip time of a request to it.
    fn round_trip(&self) -> Duration;

    /// Returns the capabilities that an endpoint on it has at best.
    fn capabilities(&self) -> Capabilities {
        Capabilities::unlimited()
    }

    /// Returns the name of what opens endpoints there, for messages: "an agent".
    fn opener(&self) -> &'static str;

    /// Returns a short form of [`Host::opener`]: "server".
    fn short_opener(&self) -> &'static str {
        "agent"
    }

    /// Returns the remedy if something is needed that no endpoint there can do.
    fn way_out(&self, _need: NeededCapability) -> &'static str {
        "leave it out"
    }

    /// Returns the first notice of a run with an endpoint there, if it can do less than an agent: host and reason.
    fn told_first(&self) -> Option<String> {
        None
    }

    /// Returns the route of content from or to it if the engine is on this host and opens both ends.
    fn route(&self) -> UsedTransport {
        UsedTransport::Local
    }

    /// Announces many connections to it, so that logins can begin.
    fn foresee_many(&self, _transport: Transport) {}

    /// Examines sources, each with a result of its own.
    ///
    /// # Errors
    /// If the host is lost.
    fn look_at_sources(&mut self, sources: Vec<SourceAsk>) -> Result<Vec<Result<SourceLook>>>;

    /// Examines a target, which need not exist.
    ///
    /// # Errors
    /// `PermissionDenied` and similar, with the path as typed, or if the host is lost.
    fn look_at_target(&mut self, path: &[u8]) -> Result<TargetLook>;

    /// Returns the identities of places below a directory, and of the directories above them.
    ///
    /// # Errors
    /// See [`Host::look_at_target`].
    fn look_at_places(&mut self, root: &[u8], places: &[EntryPath]) -> Result<Vec<Ancestry>>;

    /// Opens directories on it as a source that is read from this host.
    ///
    /// # Errors
    /// If one cannot be opened; `Usage` if only an agent can open them.
    fn open_source(&self, roots: &[MachinePath], job: &Job) -> Result<Box<dyn SourceEndpoint>>;

    /// Opens a directory on it as a target that is written from this host.
    ///
    /// # Errors
    /// See [`Host::open_source`].
    fn open_target(
        &self,
        root: &[u8],
        grant: &Grant,
        identity: &[u8; 16],
        job: &Job,
    ) -> Result<Box<dyn TargetEndpoint>>;

    /// Returns true if hakobu's own code runs there.
    fn has_agent(&self) -> bool {
        false
    }

    /// Returns the interface of a host where hakobu's own code runs, or `None`.
    fn as_agent(&mut self) -> Option<&mut dyn AgentHost> {
        None
    }
}

/// A host where hakobu's own code runs: this one, or one with an agent. It runs engines, serves targets, and makes
/// data connections.
pub trait AgentHost: Host {
    /// Returns its [`LocalHost`] if it is this host.
    fn side(&mut self) -> Option<&mut LocalHost> {
        None
    }

    /// Returns further ssh sessions to it, if it is another host.
    fn sessions(&self) -> Option<&Arc<Sessions>> {
        None
    }

    /// Returns a second descriptor of the control connection to it, if it is another host.
    ///
    /// # Errors
    /// `Io` if no file descriptor is left.
    fn control(&self) -> Result<Option<OwnedFd>> {
        Ok(None)
    }

    /// Returns the fingerprint of its certificate.
    ///
    /// # Errors
    /// `Usage` for this host, if it takes part alone.
    fn fingerprint(&self) -> Result<[u8; 32]>;

    /// Announces that its encryption speed will be requested, so that it begins to measure.
    ///
    /// # Errors
    /// If the host is lost.
    fn foresee_cipher_speed(&mut self) -> Result<()>;

    /// Returns the bytes per second that one core of it encrypts.
    ///
    /// # Errors
    /// If the host is lost.
    fn cipher_speed(&mut self) -> Result<CipherSpeed>;

    /// Lists its disks.
    ///
    /// # Errors
    /// If its system does not show them, or the host is lost.
    fn disks(&mut self) -> Result<DiskList>;

    /// Returns its settings. `toward`: the address of the other host; an agent uses the one that its login came from.
    ///
    /// # Errors
    /// If the host is lost.
    fn settings(&mut self, toward: Option<IpAddr>) -> Result<HostFacts>;

    /// Measures something there.
    ///
    /// # Errors
    /// If it cannot be measured, or the host is lost.
    fn probe(&mut self, ask: ProbeAsk) -> Result<ProbeAnswer>;

    /// Measures the round-trip time again: the minimum of several, since a single slow one may only show a busy host.
    ///
    /// # Errors
    /// If the host is lost.
    fn measure_round_trip(&mut self) -> Result<Duration>;

    /// Opens a port there.
    ///
    /// # Errors
    /// If the port cannot be opened, or the host is lost.
    fn listen(&mut self, address: Option<&str>, port: Option<u16>) -> Result<ListeningPort>;

    /// Makes it serve the target.
    ///
    /// # Errors
    /// If the target cannot be opened, another run of the job holds it, or no connection can be made.
    fn serve(&mut self, request: ServeRequest) -> Result<Capabilities>;

    /// Makes it release the target. `cut`: the connection to it may be lost, or a stop was requested, so there is
    /// little point in waiting for an answer.
    ///
    /// # Errors
    /// If the host is lost.
    fn end_serving(&mut self, cut: bool) -> Result<ServedUsage>;

    /// Makes it abort a run on this host if the control connection to `other` closes: the agent there ends then, and
    /// its data connections may not show it. An engine on another host has a control connection of its own.
    ///
    /// # Errors
    /// `Io` if no file descriptor is left.
    fn depend_on(&mut self, _other: &dyn AgentHost) -> Result<()> {
        Ok(())
    }

    /// Makes it connect as the engine's side.
    ///
    /// # Errors
    /// If no connection can be made, or the peer is not the expected one.
    fn connect(&mut self, request: ConnectRequest) -> Result<()>;

    /// Runs a job over its connections. `changes`: changed limits for an agent; this host's [`LocalHost`] has its own.
    ///
    /// # Errors
    /// If the host is lost.
    fn run(
        &mut self,
        request: RunRequest,
        observer: &dyn Observer,
        cancel: &AtomicBool,
        changes: &dyn LimitChanges,
    ) -> Result<RunUsage>;

    /// Runs a job with both ends on it.
    ///
    /// # Errors
    /// If the host is lost.
    fn run_here(
        &mut self,
        request: RunHereRequest,
        observer: &dyn Observer,
        cancel: &AtomicBool,
        changes: &dyn LimitChanges,
    ) -> Result<RunUsage>;
}
