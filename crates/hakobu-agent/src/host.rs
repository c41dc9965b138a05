//! A host that takes part in a transfer: this machine, one with an agent, or one that only offers places to read and write.

mod here;
mod there;

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
use hakobu_core::fit::Need;
use hakobu_core::grant::Grant;
use hakobu_core::host::HostFacts;
use hakobu_core::job::Job;
use hakobu_core::landing::Ancestry;
use hakobu_core::pacer::LimitChanges;
use hakobu_core::path::EntryPath;
use hakobu_core::report::Route;
use hakobu_proto::control::{
    CipherSpeed, ConnectRequest, Listening, Machine, PathBytes, ProbeAnswer, ProbeAsk, Ran, RunHereRequest,
    RunRequest, ServeRequest, Served, SourceAsk, SourceLook, TargetLook,
};

use hakobu_core::request::Transport;
use crate::side::Side;
use crate::ssh::sessions::Sessions;

/// A host that takes part in a transfer.
pub trait Host {
    /// Its name for people.
    fn name(&self) -> String;

    /// Returns a path of it for people: with the host before it, if it is another one.
    fn name_of(&self, path: &[u8]) -> Vec<u8>;

    /// Whether it is this machine.
    fn is_here(&self) -> bool {
        false
    }

    /// Facts about it, as far as it tells any.
    fn machine(&self) -> Machine;

    /// How long a question to it takes.
    fn round_trip(&self) -> Duration;

    /// What any place there can do at best.
    fn capabilities(&self) -> Capabilities {
        Capabilities::unlimited()
    }

    /// What opens places there, for people: "an agent".
    fn opener(&self) -> &'static str;

    /// The same in short: "server".
    fn short_opener(&self) -> &'static str {
        "agent"
    }

    /// What to do where something is needed that no place there can do.
    fn way_out(&self, _need: Need) -> &'static str {
        "leave it out"
    }

    /// What is said before anything else of a run with a place there, if that has less than an agent offers: the host, and why.
    fn told_first(&self) -> Option<String> {
        None
    }

    /// The way that content takes from or to it where the engine is on this machine and opens both ends.
    fn route(&self) -> Route {
        Route::Local
    }

    /// Says that many connections to it are to come, so that logins can begin.
    fn foresee_many(&self, _transport: Transport) {}

    /// Looks at sources, each by itself.
    ///
    /// # Errors
    /// When the host is lost.
    fn look_at_sources(&mut self, sources: Vec<SourceAsk>) -> Result<Vec<Result<SourceLook>>>;

    /// Looks at a target, which need not exist.
    ///
    /// # Errors
    /// `PermissionDenied` and the like, with the path as typed; or the host is lost.
    fn look_at_target(&mut self, path: &[u8]) -> Result<TargetLook>;

    /// Finds out who places below a directory are.
    ///
    /// # Errors
    /// As [`Host::look_at_target`].
    fn look_at_places(&mut self, root: &[u8], places: &[EntryPath]) -> Result<Vec<Ancestry>>;

    /// Opens directories of it as a source that is read from this machine.
    ///
    /// # Errors
    /// When one cannot be opened; `Usage` where only an agent opens them.
    fn open_source(&self, roots: &[PathBytes], job: &Job) -> Result<Box<dyn SourceEndpoint>>;

    /// Opens a directory of it as a target that is written from this machine.
    ///
    /// # Errors
    /// As [`Host::open_source`].
    fn open_target(
        &self,
        root: &[u8],
        grant: &Grant,
        identity: &[u8; 16],
        job: &Job,
    ) -> Result<Box<dyn TargetEndpoint>>;

    /// Whether our own code runs there.
    fn has_agent(&self) -> bool {
        false
    }

    /// Returns what can be done where our own code runs there; none elsewhere.
    fn as_agent(&mut self) -> Option<&mut dyn AgentHost> {
        None
    }
}

/// A host where our own code runs: this machine, or one with an agent. It runs engines, holds targets, and makes data connections.
pub trait AgentHost: Host {
    /// It, if it is this machine.
    fn side(&mut self) -> Option<&mut Side> {
        None
    }

    /// Further ssh sessions to it, if it is another machine.
    fn sessions(&self) -> Option<&Arc<Sessions>> {
        None
    }

    /// A second descriptor of the control connection to it, if it is another machine.
    ///
    /// # Errors
    /// `Io` when no file descriptor is left.
    fn control(&self) -> Result<Option<OwnedFd>> {
        Ok(None)
    }

    /// The fingerprint of its certificate.
    ///
    /// # Errors
    /// `Usage` for this machine, if it takes part alone.
    fn fingerprint(&self) -> Result<[u8; 32]>;

    /// Says that its speed of encryption will be asked for, so that it begins to find out.
    ///
    /// # Errors
    /// When the host is lost.
    fn foresee_cipher_speed(&mut self) -> Result<()>;

    /// How fast one core of it encrypts.
    ///
    /// # Errors
    /// When the host is lost.
    fn cipher_speed(&mut self) -> Result<CipherSpeed>;

    /// Lists its disks.
    ///
    /// # Errors
    /// When its system does not show them, or the host is lost.
    fn disks(&mut self) -> Result<DiskList>;

    /// What it is set to. `toward` is the other machine; an agent knows where its login came from.
    ///
    /// # Errors
    /// When the host is lost.
    fn settings(&mut self, toward: Option<IpAddr>) -> Result<HostFacts>;

    /// Measures something there.
    ///
    /// # Errors
    /// When it cannot be measured, or the host is lost.
    fn probe(&mut self, ask: ProbeAsk) -> Result<ProbeAnswer>;

    /// Measures again how long a question to it takes: the least of several. What is slow once was busy.
    ///
    /// # Errors
    /// When the host is lost.
    fn measure_round_trip(&mut self) -> Result<Duration>;

    /// Opens a port there.
    ///
    /// # Errors
    /// When the port cannot be had, or the host is lost.
    fn listen(&mut self, address: Option<&str>, port: Option<u16>) -> Result<Listening>;

    /// Makes it hold the target.
    ///
    /// # Errors
    /// When the target cannot be opened, another run of the job holds it, or no connection comes about.
    fn serve(&mut self, request: ServeRequest) -> Result<Capabilities>;

    /// Makes it let go of the target. `cut` says that the line to it may be cut, or that a stop was
    /// asked for, so that there is little point in waiting for an answer.
    ///
    /// # Errors
    /// When the host is lost.
    fn end_serving(&mut self, cut: bool) -> Result<Served>;

    /// Makes it give up a run on this machine when the control connection to `other` is gone: the
    /// agent there ends then, and its connections may not tell. An engine elsewhere has a control
    /// connection of its own.
    ///
    /// # Errors
    /// `Io` when no file descriptor is left.
    fn depend_on(&mut self, _other: &dyn AgentHost) -> Result<()> {
        Ok(())
    }

    /// Makes it connect as the engine's side.
    ///
    /// # Errors
    /// When no connection comes about, or the peer is not who it should be.
    fn connect(&mut self, request: ConnectRequest) -> Result<()>;

    /// Runs a job over its connections. What it is held to changes with `changes` if it is there; here its side has those.
    ///
    /// # Errors
    /// When the host is lost.
    fn run(
        &mut self,
        request: RunRequest,
        observer: &dyn Observer,
        cancel: &AtomicBool,
        changes: &dyn LimitChanges,
    ) -> Result<Ran>;

    /// Runs a job of which both ends are there.
    ///
    /// # Errors
    /// When the host is lost.
    fn run_here(
        &mut self,
        request: RunHereRequest,
        observer: &dyn Observer,
        cancel: &AtomicBool,
        changes: &dyn LimitChanges,
    ) -> Result<Ran>;
}
