//! Locations of endpoints that have limits of their own: places that runs of several relationships and groups may touch.

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::location::Location;

use crate::comparable_location::ComparableLocation;
use crate::limits::check_at_most;

/// The maximum length of such a location in bytes. It is a key of the ledger.
pub const ENDPOINT_BYTES_MAX: usize = 1024;

const DURING: &str = "reading the location of an endpoint";

/// The location of an endpoint: a host, a store, or a folder in one of them or on the brokers, with everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointLocation {
    typed: Vec<u8>,
    location: ComparableLocation,
}

impl EndpointLocation {
    /// Reads a location as a user types it. Slashes at its end are dropped.
    ///
    /// # Errors
    /// `Usage` if it is none, too long, a stream, or a path that does not begin with a slash.
    pub fn new(typed: &[u8]) -> Result<Self> {
        check_at_most("the bytes of the location of an endpoint", typed.len(), ENDPOINT_BYTES_MAX)?;
        let kept = without_slashes(typed);
        Location::parse(kept)?;
        let refused = |detail: &'static str| Error::new(ErrorKind::Usage, DURING, detail).at(typed);
        let location = ComparableLocation::new(kept)
            .ok_or_else(|| refused("a stream is no endpoint that runs share"))?;
        if location.is_relative() {
            let error = refused("the path does not begin with /");
            return Err(error.hint("write the whole path; for a host write HOST:, for a store s3://BUCKET"));
        }
        Ok(Self { typed: kept.to_vec(), location })
    }

    /// Returns the location without slashes at its end.
    pub fn as_bytes(&self) -> &[u8] {
        &self.typed
    }

    /// Returns true if a location is this one or below it. A whole host has its rsync daemon as well.
    pub fn covers(&self, other: &ComparableLocation) -> bool {
        other.is_within(&self.location) || other.is_of_daemon_on(&self.location)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(endpoint: &str, location: &str) -> bool {
        let location = ComparableLocation::new(location.as_bytes()).unwrap();
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
        assert!(bytes.covers(&ComparableLocation::new(b"/a\xff/b").unwrap()));
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
