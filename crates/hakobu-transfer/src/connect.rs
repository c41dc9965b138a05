//! Connects the host of the engine with the host of the target: decides which one opens a port, which one dials, and
//! what is tried next if that fails.

use hakobu_core::capabilities::Capabilities;
use hakobu_core::error::{Error, ErrorKind, ErrorStep, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::grant::Grant;
use hakobu_proto::control::{Cipher, ConnectMode, ConnectRequest, ListeningPort, ServeRequest};

use crate::host::AgentHost;
use crate::relay::{Relay, RelayEnd};
use crate::ssh_tunnels::{
    DIALLING, Destination, LOOPBACK, SshTunnels, TunnelMethod, TunnelProcesses, ends_at_once, refused,
};
use hakobu_core::lane_count;
use hakobu_core::request::Transport;

/// The parameters of the connections between two hosts.
pub struct ConnectParameters<'a> {
    /// The job's identity.
    pub job: [u8; 16],
    /// The target's root directory.
    pub root: &'a [u8],
    /// The rights of the engine there.
    pub grant: &'a Grant,
    /// The cipher.
    pub cipher: Cipher,
    /// The cipher for data that ssh already encrypts.
    pub cipher_in_ssh: Cipher,
    /// The transports that may be used.
    pub transport: Transport,
    /// The number of connections to begin with.
    pub lanes: u16,
    /// The maximum number of connections if neither ssh nor a relay carries them.
    pub lanes_max: u16,
    /// The other host's address for data, if the user named one.
    pub data_address: Option<&'a str>,
    /// The port for data, if the user named one.
    pub data_port: Option<u16>,
    /// Receives the decisions and notices.
    pub observer: &'a dyn Observer,
}

/// The established connections between two hosts.
pub struct HostConnections {
    /// The capabilities of the target.
    pub capabilities: Capabilities,
    /// The number of connections to begin with.
    pub lanes: u16,
    /// The maximum number of connections.
    pub lanes_max: u16,
    /// The cipher of the connections.
    pub cipher: Cipher,
    /// True if ssh carries them, at least for a part of the path.
    pub by_ssh: bool,
    /// The relay through this host, if one was necessary.
    pub relay: Option<Relay>,
    /// The ssh processes that carry the data, if any.
    pub carriers: Option<SshTunnels>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DialResult {
    TargetListens,
    EngineListens,
    ThroughSsh(TunnelMethod),
    /// Relays data through this host. Ends that cannot be dialled are reached through ssh, if a method is given.
    Relayed(Option<TunnelMethod>),
}

impl DialResult {
    /// Returns the method by which ssh is used, if it is.
    fn through(self) -> Option<TunnelMethod> {
        match self {
            Self::TargetListens | Self::EngineListens => None,
            Self::ThroughSsh(through) => Some(through),
            Self::Relayed(through) => through,
        }
    }
}

impl ConnectParameters<'_> {
    /// Makes the data connections by the first method that works.
    ///
    /// # Errors
    /// If none works, naming the ports and directions to open; or immediately if a peer is not the expected one.
    pub fn meet(&self, engine: &mut dyn AgentHost, target: &mut dyn AgentHost) -> Result<HostConnections> {
        let mut tried = Vec::new();
        for attempt in self.attempts(engine, target) {
            let mut made = self.attempt(attempt, engine, target);
            if let Err(ConnectFailure::Unreachable(error, _)) = &made
                && attempt.through().is_some()
                && error.kind != ErrorKind::PermissionDenied
                && (leave_the_first([&*engine, &*target]) || share([&*engine, &*target]))
            {
                made = self.attempt(attempt, engine, target);
                if matches!(made, Err(ConnectFailure::Unreachable(..))) {
                    share_no_more([&*engine, &*target]);
                }
            }
            match made {
                Ok(met) => {
                    self.tell(attempt, &met, (engine, target), &tried);
                    return Ok(met);
                }
                Err(ConnectFailure::Unreachable(error, words)) => {
                    tried.push(format!("{words} ({})", error.reason()));
                }
                Err(ConnectFailure::Hard(error)) => return Err(error),
            }
        }
        let words = format!(
            "no data connection could be opened: {}; {} for one of these, or name another address with \
             --data-address",
            tried.join("; "),
            self.port_to_open()
        );
        // The login worked, so the cause is probably a firewall, and a retry would not help.
        Err(Error::new(ErrorKind::Io, "connecting", words))
    }

    /// Returns the attempts, the most promising first: the controller's own host is the one that may be behind a
    /// firewall, so a host elsewhere listens first.
    fn attempts(&self, engine: &dyn AgentHost, target: &dyn AgentHost) -> Vec<DialResult> {
        let mut attempts = match (engine.is_here(), target.is_here()) {
            _ if self.transport == Transport::Ssh => Vec::new(),
            (false, true) => vec![DialResult::EngineListens, DialResult::TargetListens],
            _ => vec![DialResult::TargetListens, DialResult::EngineListens],
        };
        let two_far = !engine.is_here() && !target.is_here();
        match self.transport {
            Transport::Agent if two_far => attempts.push(DialResult::Relayed(None)),
            Transport::Auto | Transport::Ssh => {
                let mut throughs = [TunnelMethod::Forward, TunnelMethod::Join];
                if [engine, target]
                    .iter()
                    .filter_map(|host| host.sessions())
                    .any(|sessions| sessions.prefer_commands())
                {
                    throughs.reverse();
                }
                attempts.extend(throughs.map(|through| match two_far {
                    true => DialResult::Relayed(Some(through)),
                    false => DialResult::ThroughSsh(through),
                }));
            }
            _ => {}
        }
        attempts
    }

    fn attempt(
        &self,
        attempt: DialResult,
        engine: &mut dyn AgentHost,
        target: &mut dyn AgentHost,
    ) -> Result<HostConnections, ConnectFailure> {
        let bind = self.data_address;
        match attempt {
            DialResult::TargetListens => {
                let port = target.listen(bind.filter(|_| !target.is_here()), self.data_port)?;
                let addresses = self.addresses(&port, target, Some(engine));
                let words = wanted(engine, target, &addresses, port.port);
                let capabilities =
                    target.serve(self.serve_request(engine, ConnectMode::Accept, self.cipher)?)?;
                self.connect(engine, target, ConnectMode::Dial { addresses, port: port.port })
                    .map_err(|error| soft(error, words))?;
                Ok(self.met(capabilities))
            }
            DialResult::EngineListens => {
                let port = engine.listen(bind.filter(|_| !engine.is_here()), self.data_port)?;
                let addresses = self.addresses(&port, engine, Some(target));
                let words = wanted(target, engine, &addresses, port.port);
                let way = ConnectMode::Dial { addresses, port: port.port };
                let request = self.serve_request(engine, way, self.cipher)?;
                let capabilities = target.serve(request).map_err(|error| soft(error, words.clone()))?;
                self.connect(engine, target, ConnectMode::Accept).map_err(|error| soft(error, words))?;
                Ok(self.met(capabilities))
            }
            DialResult::ThroughSsh(through) if engine.is_here() => self.push(through, engine, target),
            DialResult::ThroughSsh(through) => self.pull(through, engine, target),
            DialResult::Relayed(through) => self.relay(through, engine, target),
        }
    }

    /// Returns the result for direct connections, without ssh or a relay.
    fn met(&self, capabilities: Capabilities) -> HostConnections {
        let (lanes, lanes_max, cipher) = (self.lanes, self.lanes_max, self.cipher);
        HostConnections { capabilities, lanes, lanes_max, cipher, by_ssh: false, relay: None, carriers: None }
    }

    /// Connects through ssh from an engine on this host to the target.
    fn push(
        &self,
        through: TunnelMethod,
        engine: &mut dyn AgentHost,
        target: &mut dyn AgentHost,
    ) -> Result<HostConnections, ConnectFailure> {
        let to = self.destination(through, target)?;
        let cipher = self.cipher_in_ssh;
        let capabilities = target.serve(self.serve_request(engine, ConnectMode::Accept, cipher)?)?;
        let lanes = self.lanes.min(lane_count::THROUGH_SSH);
        let peer = target.fingerprint()?;
        let request = ConnectRequest { peer, cipher, way: ConnectMode::Accept, lanes, lanes_max: lanes };
        let words = by_ssh(through, target);
        let (Some(side), Some(sessions)) = (engine.side(), target.sessions()) else {
            return Err(no_ssh().into());
        };
        let sessions = sessions.clone();
        let open = move |held: &TunnelProcesses| held.open(&sessions, to);
        let (mut carriers, first) =
            SshTunnels::first(open.clone()).map_err(|error| soft(error, words.clone()))?;
        let (is_wanted, bring) = side
            .connect_carried(&request, first)
            .map_err(|error| soft(with_words(error, &carriers), words))?;
        carriers.more(lanes.saturating_sub(1), is_wanted, open, bring)?;
        Ok(HostConnections {
            lanes,
            lanes_max: lanes,
            cipher,
            by_ssh: true,
            carriers: Some(carriers),
            ..self.met(capabilities)
        })
    }

    /// Connects through ssh from an engine on another host to a target on this one.
    fn pull(
        &self,
        through: TunnelMethod,
        engine: &mut dyn AgentHost,
        target: &mut dyn AgentHost,
    ) -> Result<HostConnections, ConnectFailure> {
        let to = self.destination(through, engine)?;
        let cipher = self.cipher_in_ssh;
        let words = by_ssh(through, engine);
        let Some(sessions) = engine.sessions() else { return Err(no_ssh().into()) };
        let (sessions, round_trip) = (sessions.clone(), engine.round_trip());
        let open = move |held: &TunnelProcesses| held.open(&sessions, to);
        let (mut carriers, first) =
            SshTunnels::first(open.clone()).map_err(|error| soft(error, words.clone()))?;
        if ends_at_once(&first, round_trip) {
            return Err(soft(with_words(ended(), &carriers), words));
        }
        let lanes = self.lanes.min(lane_count::THROUGH_SSH);
        let request = self.serve_request(engine, ConnectMode::Accept, cipher)?;
        let Some(side) = target.side() else { return Err(no_ssh().into()) };
        let (capabilities, bring) = side.serve_carried(&request, first)?;
        let peer = side.fingerprint()?;
        let request = ConnectRequest { peer, cipher, way: ConnectMode::Accept, lanes, lanes_max: lanes };
        engine.connect(request).map_err(|error| soft(with_words(error, &carriers), words))?;
        carriers.more(lanes.saturating_sub(1), carriers.after_a_while(), open, bring)?;
        Ok(HostConnections {
            lanes,
            lanes_max: lanes,
            cipher,
            by_ssh: true,
            carriers: Some(carriers),
            ..self.met(capabilities)
        })
    }

    /// Connects two other hosts through a relay on this one, which cannot read the data.
    fn relay(
        &self,
        through: Option<TunnelMethod>,
        engine: &mut dyn AgentHost,
        target: &mut dyn AgentHost,
    ) -> Result<HostConnections, ConnectFailure> {
        let address = (self.transport == Transport::Ssh).then_some(LOOPBACK);
        let to_target = target.listen(address, self.data_port)?;
        let to_engine = engine.listen(address, self.data_port)?;
        let words = format!("through this machine to {} and {}", target.name(), engine.name());
        let capabilities = target.serve(self.serve_request(engine, ConnectMode::Accept, self.cipher)?)?;
        let end = |port: &ListeningPort, host: &dyn AgentHost| self.addresses(port, host, None);
        let addresses = [end(&to_target, target), end(&to_engine, engine)];
        let far = [(&*target, &to_target), (&*engine, &to_engine)];
        let mut ends = far.map(|(host, listening)| {
            let (port, process) = (listening.port, listening.process);
            let ssh = through.zip(host.sessions());
            let ssh =
                ssh.map(|(through, sessions)| (sessions.clone(), Destination { through, port, process }));
            RelayEnd { addresses: Vec::new(), port, ssh }
        });
        if address.is_none() {
            ends.iter_mut().zip(addresses).for_each(|(end, addresses)| end.addresses = addresses);
        }
        let relay = Relay::start(ends, self.lanes).map_err(|error| soft(error, words.clone()))?;
        let lanes = relay.lanes;
        let (peer, cipher) = (target.fingerprint()?, self.cipher);
        let request = ConnectRequest { peer, cipher, way: ConnectMode::Accept, lanes, lanes_max: lanes };
        engine.connect(request).map_err(|error| soft(with_words(error, &relay.carriers), words))?;
        let by_ssh = relay.by_ssh.contains(&true);
        Ok(HostConnections { lanes, lanes_max: lanes, by_ssh, relay: Some(relay), ..self.met(capabilities) })
    }

    /// Opens a port on another host that is only reachable through ssh.
    fn destination(&self, through: TunnelMethod, host: &mut dyn AgentHost) -> Result<Destination> {
        let ListeningPort { port, process, .. } = host.listen(Some(LOOPBACK), self.data_port)?;
        Ok(Destination { through, port, process })
    }

    fn serve_request(
        &self,
        engine: &dyn AgentHost,
        way: ConnectMode,
        cipher: Cipher,
    ) -> Result<ServeRequest> {
        Ok(ServeRequest {
            job: self.job,
            root: self.root.to_vec(),
            grant: self.grant.clone(),
            peer: engine.fingerprint()?,
            cipher,
            way,
            lanes: self.lanes,
            lanes_max: self.lanes_max,
        })
    }

    fn connect(&self, engine: &mut dyn AgentHost, target: &dyn AgentHost, way: ConnectMode) -> Result<()> {
        let peer = target.fingerprint()?;
        let (lanes, lanes_max) = (self.lanes, self.lanes_max);
        engine.connect(ConnectRequest { peer, cipher: self.cipher, way, lanes, lanes_max })
    }

    /// Returns the addresses at which `dialler`, or this host if `None`, can dial `listener`.
    fn addresses(
        &self,
        port: &ListeningPort,
        listener: &dyn AgentHost,
        dialler: Option<&dyn AgentHost>,
    ) -> Vec<String> {
        let mut addresses = Vec::new();
        if listener.is_here() {
            // The address that the other host saw when ssh connected from here.
            addresses.extend(dialler.and_then(|dialler| dialler.machine().reached_from));
        } else {
            if let Some(address) = self.data_address {
                return vec![address.to_owned()];
            }
            addresses.extend(port.addresses.iter().cloned());
            addresses.extend(listener.machine().reached_at);
            let name = listener.name();
            addresses.push(name.rsplit('@').next().unwrap_or(&name).to_owned());
        }
        addresses.dedup();
        addresses
    }

    fn tell(
        &self,
        attempt: DialResult,
        met: &HostConnections,
        (engine, target): (&dyn AgentHost, &dyn AgentHost),
        tried: &[String],
    ) {
        let lanes = met.lanes;
        let choice = match attempt {
            DialResult::TargetListens => format!("{} dials {}", engine.name(), target.name()),
            DialResult::EngineListens => format!("{} dials {}", target.name(), engine.name()),
            DialResult::ThroughSsh(_) => format!("the data goes through {} instead", sessions(lanes)),
            DialResult::Relayed(_) => match met.relay.as_ref().map(|relay| relay.by_ssh) {
                Some([false, false]) | None => "the data passes through this machine, unread".to_owned(),
                Some([true, true]) => {
                    format!("the data passes through this machine, unread, by {} each", sessions(lanes))
                }
                Some([by_ssh, _]) => {
                    let end = if by_ssh { target } else { engine }.name();
                    let by = format!("by {} to {end}", sessions(lanes));
                    format!("the data passes through this machine, unread, {by}")
                }
            },
        };
        match attempt {
            _ if tried.is_empty() || self.transport == Transport::Ssh => {}
            DialResult::Relayed(_) => {
                let mut words = format!("neither host reaches the other, so {choice}: {}", tried.join("; "));
                if met.by_ssh {
                    words.push_str(&format!("; {} would be faster", self.opening()));
                }
                self.observer.event(Event::Notice { words });
            }
            DialResult::ThroughSsh(_) => {
                let words = format!(
                    "no data connection could be opened: {}; {choice}; {} would be faster",
                    tried.join("; "),
                    self.opening()
                );
                self.observer.event(Event::Notice { words });
            }
            _ => {}
        }
        if let (Some(address), false) = (self.data_address.filter(|_| !tried.is_empty()), met.by_ssh) {
            let words =
                format!("the data does not go to {address}, as asked, but {choice}: {}", tried.join("; "));
            self.observer.event(Event::Notice { words });
        }
        let reason = match (tried.is_empty(), self.transport) {
            (true, Transport::Ssh) => "ssh carries it, as asked or as before".to_owned(),
            (true, _) => "it is tried first".to_owned(),
            (false, _) => tried.join("; "),
        };
        let choice = choice.trim_end_matches(" instead");
        self.observer.event(Event::Decision { choice: format!("data connections: {choice}"), reason });
        if met.by_ssh && met.cipher != self.cipher {
            let choice = "cipher: none within ssh".to_owned();
            let reason = "ssh encrypts; data is authenticated from end to end all the same".to_owned();
            self.observer.event(Event::Decision { choice, reason });
        }
    }

    /// Returns what the user can do about a port, as an instruction.
    fn port_to_open(&self) -> String {
        match self.data_port {
            Some(port) => format!("open TCP port {port}"),
            None => "choose a port with --data-port N and open it".to_owned(),
        }
    }

    /// Returns the remedy of `port_to_open` as the subject of a sentence.
    fn opening(&self) -> String {
        match self.data_port {
            Some(port) => format!("opening TCP port {port}"),
            None => "opening a TCP port, named by --data-port N,".to_owned(),
        }
    }
}

/// Forbids further connections to the servers besides the existing ones: a name may stand for several hosts, and only
/// the first login certainly leads to the agent's. Returns true if this changes anything.
fn share(hosts: [&dyn AgentHost; 2]) -> bool {
    let sessions = hosts.into_iter().filter_map(|host| host.sessions());
    // `any` would stop at the first one, and all of them have to change.
    sessions.map(|sessions| sessions.share()).fold(false, |any, one| any | one)
}

/// Stops using the first login for sessions where that was only to save time. Returns true if this changes anything.
fn leave_the_first(hosts: [&dyn AgentHost; 2]) -> bool {
    let sessions = hosts.into_iter().filter_map(|host| host.sessions());
    sessions.map(|sessions| sessions.leave_the_first()).fold(false, |any, one| any | one)
}

fn share_no_more(hosts: [&dyn AgentHost; 2]) {
    let sessions = hosts.into_iter().filter_map(|host| host.sessions());
    sessions.for_each(|sessions| sessions.share_no_more());
}

fn sessions(count: u16) -> String {
    match count {
        1 => "1 ssh connection".to_owned(),
        _ => format!("up to {count} ssh connections"),
    }
}

fn by_ssh(through: TunnelMethod, host: &dyn AgentHost) -> String {
    match through {
        TunnelMethod::Forward => format!("through ssh to {}", host.name()),
        TunnelMethod::Join => format!("through a command on {}", host.name()),
    }
}

/// Replaces the details of an error by ssh's message, because ssh knows better why a connection through it failed.
fn with_words(error: Error, carriers: &SshTunnels) -> Error {
    let line = carriers.last_words();
    if line.is_empty() {
        return error;
    }
    let said = refused(format!("ssh says {line:?}"));
    // Only a refusal by the server overrides the kind of the connection's own error.
    let kind = if said.kind == ErrorKind::PermissionDenied { said.kind } else { error.kind };
    Error { kind, detail: said.detail, hint: None, ..error }
}

fn ended() -> Error {
    Error::new(ErrorKind::ConnectionLost, DIALLING, "ssh ended").in_step(ErrorStep::Connect)
}

fn no_ssh() -> Error {
    Error::new(ErrorKind::Usage, "making data connections", "there is no ssh between these machines")
}

enum ConnectFailure {
    Unreachable(Error, String),
    Hard(Error),
}

impl From<Error> for ConnectFailure {
    fn from(error: Error) -> Self {
        ConnectFailure::Hard(error)
    }
}

/// Classifies an error: a connection that failed may work in the other direction, anything else is final.
fn soft(error: Error, words: String) -> ConnectFailure {
    match error.step {
        ErrorStep::Connect => ConnectFailure::Unreachable(error, words),
        _ => ConnectFailure::Hard(error),
    }
}

fn wanted(dialler: &dyn AgentHost, listener: &dyn AgentHost, addresses: &[String], port: u16) -> String {
    let address = addresses.first().map_or("an unknown address", String::as_str);
    format!("from {} to {} at {address} port {port}", dialler.name(), listener.name())
}
