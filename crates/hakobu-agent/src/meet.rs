//! How the engine's machine and the target's machine come together: who opens the port, who dials,
//! and what is tried next when that does not work.

use hakobu_core::capabilities::Capabilities;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::grant::Grant;
use hakobu_proto::control::{Cipher, ConnectRequest, Listening, ServeRequest, Way};

use crate::party::Party;
use crate::relay::Relay;

/// What both machines have to know to meet.
pub struct Meeting<'a> {
    /// The job's identity.
    pub job: [u8; 16],
    /// The target's root directory.
    pub root: &'a [u8],
    /// What the engine may do there.
    pub grant: &'a Grant,
    /// The cipher.
    pub cipher: Cipher,
    /// How many connections.
    pub lanes: u16,
    /// The far machine's address for data, if the user named one.
    pub data_address: Option<&'a str>,
    /// The port for data, if the user named one.
    pub data_port: Option<u16>,
    /// Who hears of the choice.
    pub observer: &'a dyn Observer,
}

/// How machines met.
pub struct Met {
    /// What the target can do.
    pub capabilities: Capabilities,
    /// The relay through this machine, if there had to be one.
    pub relay: Option<Relay>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    TargetListens,
    EngineListens,
    Relayed,
}

impl Meeting<'_> {
    /// Makes the data connections, in the first way that works.
    ///
    /// # Errors
    /// When no way works, naming the ports and directions that would have to be open; or at once
    /// when a peer is not who it should be.
    pub fn meet(&self, engine: &mut Party, target: &mut Party) -> Result<Met> {
        let mut tried = Vec::new();
        for attempt in attempts(engine, target) {
            match self.attempt(attempt, engine, target) {
                Ok(met) => {
                    self.tell(attempt, engine, target, &tried);
                    return Ok(met);
                }
                Err(Failed::Unreachable(error, words)) => tried.push(format!("{words} ({})", error.detail)),
                Err(Failed::Hard(error)) => return Err(error),
            }
        }
        let port = match self.data_port {
            Some(port) => format!("open TCP port {port}"),
            None => "choose a port with --data-port N and open it".to_owned(),
        };
        let words = format!(
            "no data connection came about: {}; {port} for one of these, or name another address with \
             --data-address",
            tried.join("; ")
        );
        // Login worked, so this is a matter of firewalls: trying again would not help.
        Err(Error::new(ErrorKind::Io, "connecting", words))
    }

    fn attempt(&self, attempt: Attempt, engine: &mut Party, target: &mut Party) -> Result<Met, Failed> {
        let bind = self.data_address;
        match attempt {
            Attempt::TargetListens => {
                let port = target.listen(bind.filter(|_| !target.is_here()), self.data_port)?;
                let addresses = self.addresses(&port, target, engine);
                let words = wanted(engine, target, &addresses, port.port);
                let capabilities = target.serve(self.serve_request(engine, Way::Accept)?)?;
                self.connect(engine, target, Way::Dial { addresses, port: port.port })
                    .map_err(|error| soft(error, words))?;
                Ok(Met { capabilities, relay: None })
            }
            Attempt::EngineListens => {
                let port = engine.listen(bind.filter(|_| !engine.is_here()), self.data_port)?;
                let addresses = self.addresses(&port, engine, target);
                let words = wanted(target, engine, &addresses, port.port);
                let request = self.serve_request(engine, Way::Dial { addresses, port: port.port })?;
                let capabilities = target.serve(request).map_err(|error| soft(error, words.clone()))?;
                self.connect(engine, target, Way::Accept).map_err(|error| soft(error, words))?;
                Ok(Met { capabilities, relay: None })
            }
            Attempt::Relayed => {
                let to_target = target.listen(None, self.data_port)?;
                let to_engine = engine.listen(None, self.data_port)?;
                let ends = [
                    (self.addresses(&to_target, target, &Party::here()), to_target.port),
                    (self.addresses(&to_engine, engine, &Party::here()), to_engine.port),
                ];
                let words = format!("through this machine to {} and {}", name(target), name(engine));
                let capabilities = target.serve(self.serve_request(engine, Way::Accept)?)?;
                let relay = Relay::start(&ends[0], &ends[1], self.lanes)
                    .map_err(|error| soft(error, words.clone()))?;
                self.connect(engine, target, Way::Accept).map_err(|error| soft(error, words))?;
                Ok(Met { capabilities, relay: Some(relay) })
            }
        }
    }

    fn serve_request(&self, engine: &Party, way: Way) -> Result<ServeRequest> {
        Ok(ServeRequest {
            job: self.job,
            root: self.root.to_vec(),
            grant: self.grant.clone(),
            peer: engine.fingerprint()?,
            cipher: self.cipher,
            way,
            lanes: self.lanes,
        })
    }

    fn connect(&self, engine: &mut Party, target: &Party, way: Way) -> Result<()> {
        let peer = target.fingerprint()?;
        engine.connect(ConnectRequest { peer, cipher: self.cipher, way, lanes: self.lanes })
    }

    /// Where `listener` can be dialled from `dialler`.
    fn addresses(&self, port: &Listening, listener: &Party, dialler: &Party) -> Vec<String> {
        let mut addresses = Vec::new();
        match (listener, dialler) {
            (Party::There(far), _) => {
                if let Some(address) = self.data_address {
                    return vec![address.to_owned()];
                }
                addresses.extend(port.addresses.iter().cloned());
                addresses.extend(far.hello.machine.reached_at.clone());
                addresses.push(far.host.rsplit('@').next().unwrap_or(&far.host).to_owned());
            }
            // What the far machine saw when ssh came from here.
            (Party::Here(_), Party::There(far)) => addresses.extend(far.hello.machine.reached_from.clone()),
            (Party::Here(_), Party::Here(_)) => {}
        }
        addresses.dedup();
        addresses
    }

    fn tell(&self, attempt: Attempt, engine: &Party, target: &Party, tried: &[String]) {
        let choice = match attempt {
            Attempt::TargetListens => format!("{} dials {}", name(engine), name(target)),
            Attempt::EngineListens => format!("{} dials {}", name(target), name(engine)),
            Attempt::Relayed => "the data passes through this machine, unread".to_owned(),
        };
        if attempt == Attempt::Relayed {
            let words = format!("neither host reaches the other, so {choice}: {}", tried.join("; "));
            self.observer.event(Event::Notice { words });
        }
        if let Some(address) = self.data_address.filter(|_| !tried.is_empty()) {
            let words =
                format!("the data does not go to {address}, as asked, but {choice}: {}", tried.join("; "));
            self.observer.event(Event::Notice { words });
        }
        let reason = if tried.is_empty() { "it is tried first".to_owned() } else { tried.join("; ") };
        self.observer.event(Event::Decision { choice: format!("data connections: {choice}"), reason });
    }
}

/// The attempts, the likeliest first: the controller's own machine is the one that may be behind a
/// firewall, so whoever is elsewhere listens first.
fn attempts(engine: &Party, target: &Party) -> Vec<Attempt> {
    match (engine.is_here(), target.is_here()) {
        (false, true) => vec![Attempt::EngineListens, Attempt::TargetListens],
        (false, false) => vec![Attempt::TargetListens, Attempt::EngineListens, Attempt::Relayed],
        (true, _) => vec![Attempt::TargetListens, Attempt::EngineListens],
    }
}

enum Failed {
    Unreachable(Error, String),
    Hard(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed::Hard(error)
    }
}

/// A connection that did not come about may come about the other way round; anything else may not.
fn soft(error: Error, words: String) -> Failed {
    let on_the_way = matches!(&*error.during, "dialling" | "waiting for data connections");
    if on_the_way { Failed::Unreachable(error, words) } else { Failed::Hard(error) }
}

fn wanted(dialler: &Party, listener: &Party, addresses: &[String], port: u16) -> String {
    let address = addresses.first().map_or("an unknown address", String::as_str);
    format!("from {} to {} at {address} port {port}", name(dialler), name(listener))
}

fn name(party: &Party) -> String {
    match party {
        Party::Here(_) => "this machine".to_owned(),
        Party::There(far) => far.host.clone(),
    }
}
