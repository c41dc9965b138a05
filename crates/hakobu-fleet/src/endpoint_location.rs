//! Locations of endpoints that have limits of their own: places that runs of several relationships and groups may touch.

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::location::{Location, LocationKind, SshHost};

use crate::limits::check_at_most;

/// The maximum length of such a location in bytes. It is a key of the ledger.
pub const ENDPOINT_BYTES_MAX: usize = 1024;

const DURING: &str = "reading the location of an endpoint";

/// The location of an endpoint: a host, a store, or a folder in one of them or on the brokers, with everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointLocation {
    location: Location,
}

impl EndpointLocation {
    /// Reads a location as a user types it. Slashes at its end are dropped.
    ///
    /// # Errors
    /// `Usage` if it is none, too long, a stream, or a path that does not begin with a slash.
    pub fn new(typed: &[u8]) -> Result<Self> {
        check_at_most("the bytes of the location of an endpoint", typed.len(), ENDPOINT_BYTES_MAX)?;
        let location = Location::parse(without_slashes(typed))?;
        let refused = |detail: &'static str| Err(Error::new(ErrorKind::Usage, DURING, detail).at(typed));
        match location.place() {
            LocationKind::Stream => refused("a stream is no endpoint that runs share"),
            LocationKind::Local { path } if !path.starts_with(b"/") => {
                let error = Error::new(ErrorKind::Usage, DURING, "the path does not begin with /").at(typed);
                Err(error.hint("write the whole path; for a host write HOST:, for a store s3://BUCKET"))
            }
            _ => Ok(Self { location }),
        }
    }

    /// Returns the location without slashes at its end.
    pub fn as_bytes(&self) -> &[u8] {
        self.location.as_typed()
    }

    /// Returns true if a location is this one or below it, as both are written: nothing is looked up, and no link is followed.
    pub fn covers(&self, other: &Location) -> bool {
        use LocationKind::{Local, Rsync, Ssh, Store};
        match (self.location.place(), other.place()) {
            (Local { path }, Local { path: other }) => is_within(path, other),
            (Store { store, path }, Store { store: name, path: other }) => {
                store == name && is_within(path, other)
            }
            (Ssh { host, path }, Ssh { host: name, path: other }) => {
                is_host(host, name, 22) && (is_whole_host(path) || is_within(path, other))
            }
            // The daemon's port says nothing about ssh's.
            (Ssh { host, path }, Rsync { host: name, .. }) => {
                host.port.is_none() && is_host(host, name, 22) && is_whole_host(path)
            }
            (Rsync { host, path }, Rsync { host: name, path: other }) => {
                is_host(host, name, 873) && is_within(path, other)
            }
            _ => false,
        }
    }
}

/// Returns a location without slashes at its end, unless they are all that is behind a scheme.
fn without_slashes(typed: &[u8]) -> &[u8] {
    let mut kept = typed;
    while let Some((b'/', rest)) = kept.split_last()
        && !rest.is_empty()
        && !kept.ends_with(b"://")
    {
        kept = rest;
    }
    kept
}

/// Returns true if a host is the one of an endpoint. A user or a port that the endpoint does not name may be any.
fn is_host(endpoint: &SshHost, host: &SshHost, usual_port: u16) -> bool {
    endpoint.host.eq_ignore_ascii_case(&host.host)
        && endpoint.user.as_ref().is_none_or(|user| host.user.as_ref() == Some(user))
        && endpoint.port.is_none_or(|port| host.port.unwrap_or(usual_port) == port)
}

/// Returns true for a path that stands for a whole host: none, or the root.
fn is_whole_host(path: &[u8]) -> bool {
    matches!(path, b"." | b"/")
}

/// Returns true if a path is another one or below it.
fn is_within(above: &[u8], path: &[u8]) -> bool {
    fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
        path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."))
    }
    let mut rest = names(path);
    above.starts_with(b"/") == path.starts_with(b"/") && names(above).all(|name| rest.next() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(endpoint: &str, location: &str) -> bool {
        let location = Location::parse(location.as_bytes()).unwrap();
        EndpointLocation::new(endpoint.as_bytes()).unwrap().covers(&location)
    }

    #[test]
    fn an_endpoint_is_a_place_with_everything_below_it() {
        for (endpoint, location) in [
            ("/srv/data", "/srv/data"),
            ("/srv/data/", "/srv//data/./x/"),
            ("/", "/a"),
            ("s3://bucket", "s3://bucket/"),
            ("s3://bucket/", "s3://bucket/a/b"),
            ("s3://bucket/a", "s3://bucket/a/b"),
            ("nas:", "nas:/srv"),
            ("nas:/", "backup@NAS:data"),
            ("nas:", "sftp://nas:2222/srv"),
            ("ssh://nas/", "nas:/srv"),
            ("ssh://nas:22", "nas:/srv"),
            ("sftp://nas/srv", "backup@nas:/srv/x"),
            ("nas:data", "nas:data/x"),
            ("nas:", "rsync://nas/module/x"),
            ("nas::module", "rsync://nas/module/x"),
        ] {
            assert!(covers(endpoint, location), "{endpoint} {location}");
        }
        for (endpoint, location) in [
            ("/srv/data", "/srv/data2"),
            ("/srv/data", "/srv"),
            ("/", "nas:/a"),
            ("s3://bucket/a", "s3://bucket/ab"),
            ("s3://bucket", "s3://bucket2/a"),
            ("s3://bucket", "gs://bucket/a"),
            ("nas:", "nas2:/srv"),
            ("backup@nas:", "nas:/srv"),
            ("ssh://nas:22", "ssh://nas:2222/srv"),
            ("nas:/srv", "nas:srv"),
            ("nas:data", "nas:/data"),
            ("nas:/module", "rsync://nas/module"),
            ("nas::module", "nas::module2/x"),
        ] {
            assert!(!covers(endpoint, location), "{endpoint} {location}");
        }
        let bytes = EndpointLocation::new(b"/a\xff//").unwrap();
        assert_eq!(bytes.as_bytes(), b"/a\xff");
        assert!(bytes.covers(&Location::local(b"/a\xff/b".to_vec())));
    }

    #[test]
    fn places_that_no_runs_share_are_refused() {
        for (typed, words) in [
            ("", "empty"),
            ("data", "does not begin with /"),
            ("-", "stream"),
            ("ftp://nas/", "not known"),
            ("ssh://me:secret@nas/", "password"),
        ] {
            let error = EndpointLocation::new(typed.as_bytes()).unwrap_err();
            assert!(error.kind == ErrorKind::Usage && error.detail.contains(words), "{typed}: {error}");
        }
        assert!(EndpointLocation::new(&[b'/'; ENDPOINT_BYTES_MAX]).is_ok());
        assert!(EndpointLocation::new(&[b'/'; ENDPOINT_BYTES_MAX + 1]).is_err());
    }
}
