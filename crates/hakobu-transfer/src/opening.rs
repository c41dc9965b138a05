//! Opens the hosts of a request's locations: this one, one with an agent, or one that is used without an agent.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Observer;
use hakobu_core::location::{Location, SshHost, StoreName};
use hakobu_core::report::UsedTransport;
use hakobu_core::store_settings::StoreSettings;

use crate::host::Host;
use crate::host::far_store::{FarStore, StoreAgent};
use crate::login;
use crate::sftp::{SftpSide, WAY_OUT};
use crate::store::StoreHost;
use hakobu_agent::local_host::LocalHost;
use hakobu_agent::machine;
use hakobu_agent::stream::Streams;
use hakobu_core::live_limits::LiveLimits;
use hakobu_core::open_at::OpenAt;
use hakobu_core::prompts::Prompts;
use hakobu_core::request::{CipherChoice, CopyRequest, Transport};
use hakobu_net::stop::StopHandle;
use hakobu_ssh::login::SshMethod;

/// The hosts of a copy. There is no `target` if both ends are on one host that is no store.
pub struct TransferHosts {
    pub source: Box<dyn Host>,
    pub target: Option<Box<dyn Host>>,
    /// The agent that opens both ends, if one of them is in a store.
    pub store_agent: Option<StoreAgent>,
}

impl TransferHosts {
    /// Returns the target's host.
    pub fn target(&self) -> &dyn Host {
        self.target.as_ref().map_or(&*self.source, |target| &**target)
    }

    /// Returns true if hakobu's own code runs on all of them.
    pub fn have_agents(&self) -> bool {
        self.source.has_agent() && self.target().has_agent()
    }

    /// Returns the number of processors of the machine that opens both ends, if one does.
    pub fn engine_processors(&self) -> u16 {
        match &self.store_agent {
            Some(agent) => agent.machine().processors,
            None => machine::facts().processors,
        }
    }

    /// Returns the route of content if this host opens both ends.
    pub fn route(&self) -> UsedTransport {
        match self.source.route() {
            UsedTransport::Local => self.target().route(),
            route => route,
        }
    }
}

/// Opens the hosts of a request.
pub struct HostOpener<'a> {
    pub request: &'a CopyRequest,
    pub prompts: &'a mut dyn Prompts,
    pub observer: &'a dyn Observer,
    pub cancel: &'a Arc<AtomicBool>,
    pub limits: &'a Arc<LiveLimits>,
    /// The maximum time of a login, unless it is the first.
    pub login_limit: Option<Duration>,
}

impl HostOpener<'_> {
    /// Opens both hosts.
    ///
    /// # Errors
    /// `Usage` for options that do not go together, and failures of a login.
    pub fn open(&mut self) -> Result<TransferHosts> {
        let (source, target) = host_names(self.request)?;
        self.request.open_at.check(self.request)?;
        match (self.request.open_at, source, target) {
            (OpenAt::Source, HostName::Ssh(host), HostName::Store(store, settings)) => {
                let (agent, store) = self.with_store(host, store, settings)?;
                let (source, target) = (Box::new(agent.clone()), Some(Box::new(store) as Box<dyn Host>));
                return Ok(TransferHosts { source, target, store_agent: Some(agent) });
            }
            (OpenAt::Target, HostName::Store(store, settings), HostName::Ssh(host)) => {
                let (agent, store) = self.with_store(host, store, settings)?;
                let (source, target) = (Box::new(store), Some(Box::new(agent.clone()) as Box<dyn Host>));
                return Ok(TransferHosts { source, target, store_agent: Some(agent) });
            }
            _ => {}
        }
        if source == target {
            let source = match source {
                HostName::Here => self.here(LocalHost::new(self.stop())),
                _ => self.host(source)?,
            };
            // Each end of a store has requests of its own, and as many at a time as are useful. If they shared these, an end
            // would wait for the other, which only goes on when it is its turn.
            let target = match target {
                HostName::Store(..) => Some(self.host(target)?),
                _ => None,
            };
            return Ok(TransferHosts { source, target, store_agent: None });
        }
        let mut source_host = self.host(source)?;
        let mut target_host = self.host(target)?;
        // The engine runs where the source is read, or here. An agent cannot work with a host that has none.
        if let Some(host) = source.ssh().filter(|_| source_host.has_agent() && !target_host.has_agent()) {
            source_host = self.without_agent(host, Some(format!("{} has none", target_host.name())))?;
        }
        if let Some(host) = target.ssh().filter(|_| target_host.has_agent() && !source_host.has_agent()) {
            target_host = self.without_agent(host, Some(format!("{} has none", source_host.name())))?;
        }
        if self.request.cipher == CipherChoice::Auto {
            for host in [&mut source_host, &mut target_host] {
                if let Some(agent) = host.as_agent() {
                    agent.foresee_cipher_speed()?;
                }
            }
        }
        Ok(TransferHosts { source: source_host, target: Some(target_host), store_agent: None })
    }

    fn stop(&self) -> StopHandle {
        StopHandle::with_flag(self.cancel.clone())
    }

    /// Returns this host.
    fn here(&self, side: LocalHost) -> Box<dyn Host> {
        Box::new(side.with_streams(Streams::of(self.request)).with_limits(self.limits.clone()))
    }

    /// Opens a host with the best method that works there.
    fn host(&mut self, name: HostName<'_>) -> Result<Box<dyn Host>> {
        let host = match name {
            HostName::Here => return Ok(self.here(LocalHost::with_identity(self.stop())?)),
            HostName::Store(store, settings) => return Ok(Box::new(StoreHost::open(store, settings)?)),
            HostName::Ssh(host) => host,
        };
        let request = self.request;
        if request.transport == Transport::Sftp || asks_for_sftp(request, host) {
            return self.without_agent(host, None);
        }
        let login = SshMethod { time_limit: self.login_limit, ..SshMethod::of(request, host) };
        match login::start(&login, self.prompts, self.observer) {
            Ok(far) => Ok(Box::new(far)),
            // A user who asks for an agent, or for something that only an agent can do, is told why there is none.
            Err(error)
                if error.kind == ErrorKind::NotFound
                    && request.transport == Transport::Auto
                    && login.agent.is_none()
                    && !login.sudo =>
            {
                // If a user's program starts ssh, its exit code does not show that a stop ended ssh.
                if self.cancel.load(Relaxed) {
                    return Err(Error::new(ErrorKind::Cancelled, "logging in", "stopped as asked"));
                }
                let there = self.without_agent(host, Some(error.reason()));
                there.map_err(|other| Error {
                    detail: format!("{}; {other}", error.reason()),
                    hint: None,
                    ..error
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Starts the agent on a host, which opens a store as well.
    fn with_store(
        &mut self,
        host: &SshHost,
        store: &StoreName,
        settings: &StoreSettings,
    ) -> Result<(StoreAgent, FarStore)> {
        let login = SshMethod { time_limit: self.login_limit, ..SshMethod::of(self.request, host) };
        let agent = login::start(&login, self.prompts, self.observer).map_err(|error| match error.kind {
            ErrorKind::NotFound => {
                error.hint("--open-at takes hakobu there; without it this machine opens the store")
            }
            _ => error,
        })?;
        let agent = StoreAgent::new(agent);
        let store = agent.open_store(store, settings)?;
        Ok((agent, store))
    }

    /// Opens a host without an agent, through its SFTP server. `why`: the reason why no agent is used.
    fn without_agent(&mut self, host: &SshHost, why: Option<String>) -> Result<Box<dyn Host>> {
        if self.request.sudo {
            let words = "--sudo: an sftp server runs as the account that logs in";
            let error = Error::new(ErrorKind::Usage, "logging in", words).at(host.destination());
            return Err(error.hint(WAY_OUT));
        }
        let login = SshMethod { time_limit: self.login_limit, ..SshMethod::of(self.request, host) };
        if self.login_limit.is_none() {
            self.prompts.connecting(&host.destination());
        }
        let started = SftpSide::start(&login, why, self.cancel.clone());
        self.prompts.connected();
        Ok(Box::new(started?))
    }
}

/// Returns true if a location is on a host where no agent must run.
pub fn is_without_agent(location: &Location) -> bool {
    location.wants_sftp()
}

/// Returns true if an agent opens a location, unless none can be started there.
pub fn may_have_agent(request: &CopyRequest, location: &Location) -> bool {
    location.ssh_host().is_some() && !is_without_agent(location) && request.transport != Transport::Sftp
}

/// Returns the transport for listing a location. An agent does not list sources for other hosts, but a host that is
/// reached through ssh has an SFTP server.
pub fn transport_of_listing(location: &Location) -> Transport {
    match location.ssh_host() {
        Some(_) => Transport::Sftp,
        None => Transport::Auto,
    }
}

/// Returns true if a location on this host was typed as `sftp://`.
fn asks_for_sftp(request: &CopyRequest, host: &SshHost) -> bool {
    let pairs = request.pairs.iter().flat_map(|(source, target)| [source, target]);
    let all = request.sources.iter().chain([&request.target]).chain(pairs);
    all.into_iter().any(|location| location.wants_sftp() && location.ssh_host() == Some(host))
}

/// The host of a location.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HostName<'a> {
    Here,
    Ssh(&'a SshHost),
    /// A store. With other settings it is another host, even if it turns out to be the same store.
    Store(&'a StoreName, &'a StoreSettings),
}

impl<'a> HostName<'a> {
    fn of(location: &'a Location, settings: &'a StoreSettings) -> Self {
        match (location.ssh_host(), location.store()) {
            (Some(host), _) => Self::Ssh(host),
            (None, Some(store)) => Self::Store(store, settings),
            (None, None) => Self::Here,
        }
    }

    fn ssh(self) -> Option<&'a SshHost> {
        match self {
            Self::Ssh(host) => Some(host),
            Self::Here | Self::Store(..) => None,
        }
    }
}

/// Returns the host of the sources and that of the targets.
fn host_names(request: &CopyRequest) -> Result<(HostName<'_>, HostName<'_>)> {
    let (source, target) = (&request.source_store, &request.target_store);
    let hosts = match request.pairs.is_empty() {
        true => (one_host(request.sources.iter(), source, "sources")?, HostName::of(&request.target, target)),
        false => (
            one_host(request.pairs.iter().map(|pair| &pair.0), source, "sources")?,
            one_host(request.pairs.iter().map(|pair| &pair.1), target, "targets")?,
        ),
    };
    let named = match request.transport {
        Transport::Ssh => "ssh",
        Transport::Sftp => "sftp",
        _ => return Ok(hosts),
    };
    if hosts.0.ssh().is_none() && hosts.1.ssh().is_none() {
        let words = format!(
            "--transport {named} is for transfers between machines, but everything is on this one; leave it out"
        );
        return Err(Error::new(ErrorKind::Usage, "looking at the locations", words));
    }
    Ok(hosts)
}

/// Returns the one host that all locations are on, or an error.
fn one_host<'a>(
    locations: impl Iterator<Item = &'a Location>,
    settings: &'a StoreSettings,
    what: &str,
) -> Result<HostName<'a>> {
    let mut hosts = locations.map(|location| HostName::of(location, settings));
    let first = hosts.next().unwrap_or(HostName::Here);
    let Some(other) = hosts.find(|host| *host != first) else { return Ok(first) };
    let words = match (first, other) {
        (HostName::Store(..), _) | (_, HostName::Store(..)) => {
            format!("all {what} have to be in one store; copy from or to one at a time")
        }
        _ => format!("all {what} have to be on one machine; copy with one machine at a time"),
    };
    Err(Error::new(ErrorKind::Usage, "looking at the locations", words))
}
