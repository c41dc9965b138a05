//! Locations as they can be compared: by what is written, name by name. Nothing is looked up, and no link is followed.

use hakobu_core::location::{Location, LocationKind, SshHost, StoreName};

use crate::run_request::FleetRequest;

/// The scheme of the store that keeps nothing.
const NULL_SCHEME: &str = "null";
const SSH_PORT: u16 = 22;
const RSYNC_PORT: u16 = 873;

/// A location in a form that can be compared: its machine or store, and the names of its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparableLocation {
    origin: LocationOrigin,
    is_absolute: bool,
    names: Vec<Vec<u8>>,
}

/// The machine or store of a location.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LocationOrigin {
    Broker,
    Ssh(SshHost),
    Rsync(SshHost),
    Store(StoreName),
}

impl ComparableLocation {
    /// Reads a location as a user types it; none for one that is not comparable, such as standard input.
    pub fn new(typed: &[u8]) -> Option<Self> {
        let location = Location::parse(typed).ok()?;
        let origin = match location.place() {
            LocationKind::Local { .. } => LocationOrigin::Broker,
            LocationKind::Ssh { host, .. } => LocationOrigin::Ssh(host.clone()),
            LocationKind::Rsync { host, .. } => LocationOrigin::Rsync(host.clone()),
            LocationKind::Store { store, .. } => LocationOrigin::Store(store.clone()),
            _ => return None,
        };
        let path = location.path();
        let is_store = matches!(origin, LocationOrigin::Store(_));
        let is_absolute = is_store || path.starts_with(b"/");
        let mut names: Vec<Vec<u8>> = Vec::new();
        for name in path.split(|byte| *byte == b'/') {
            match name {
                b"" => {}
                b"." if !is_store => {}
                b".." if !is_store && names.last().is_some_and(|last| last != b"..") => drop(names.pop()),
                b".." if !is_store && is_absolute => {}
                name => names.push(name.to_vec()),
            }
        }
        Some(Self { origin, is_absolute, names })
    }

    /// Returns the sources and the target of a request.
    pub fn of_request(request: &FleetRequest) -> Vec<Self> {
        let all = request.sources.iter().chain([&request.target]);
        all.filter_map(|location| Self::new(&location.0)).collect()
    }

    /// Returns true for the store that keeps nothing, which is everywhere.
    pub fn is_null(&self) -> bool {
        matches!(&self.origin, LocationOrigin::Store(store) if store.scheme == NULL_SCHEME)
    }

    /// Returns true for a path on the broker that does not begin with a slash.
    pub fn is_relative(&self) -> bool {
        self.origin == LocationOrigin::Broker && !self.is_absolute
    }

    /// Returns true if it is that of an rsync daemon on a host, all of which the other one stands for. The daemon's port says nothing
    /// about ssh's.
    pub fn is_of_daemon_on(&self, host: &Self) -> bool {
        match (&self.origin, &host.origin) {
            (LocationOrigin::Rsync(own), LocationOrigin::Ssh(ssh)) => {
                host.names.is_empty() && ssh.port.is_none() && is_host(own, ssh, RSYNC_PORT)
            }
            _ => false,
        }
    }

    /// Returns true if it is this location, or below it. A host without a path is all of the host.
    pub fn is_within(&self, above: &Self) -> bool {
        let is_of_path = above.names.is_empty()
            || self.is_absolute == above.is_absolute && self.names.starts_with(&above.names);
        self.origin.is_of(&above.origin) && is_of_path
    }
}

impl LocationOrigin {
    fn is_of(&self, above: &Self) -> bool {
        match (self, above) {
            (Self::Broker, Self::Broker) => true,
            (Self::Ssh(own), Self::Ssh(above)) => is_host(own, above, SSH_PORT),
            (Self::Rsync(own), Self::Rsync(above)) => is_host(own, above, RSYNC_PORT),
            (Self::Store(own), Self::Store(above)) => own == above,
            _ => false,
        }
    }
}

/// Returns true if a host is another one. A user or a port that the other does not name may be any.
fn is_host(own: &SshHost, other: &SshHost, usual_port: u16) -> bool {
    own.host.eq_ignore_ascii_case(&other.host)
        && other.user.as_ref().is_none_or(|user| own.user.as_ref() == Some(user))
        && other.port.is_none_or(|port| own.port.unwrap_or(usual_port) == port)
}
