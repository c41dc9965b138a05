//! The locations that brokers say they reach.

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::location::Location;
use hakobu_core::path::lossy;

use crate::comparable_location::ComparableLocation;
use crate::limits::check_at_most;
use crate::run_request::LocationText;

/// The maximum number of locations that a broker names.
pub const REACH_LOCATIONS_MAX: usize = 64;
/// The maximum length of one of them in bytes.
pub const REACH_BYTES_MAX: usize = 1024;
/// The operation that errors name.
const READING: &str = "reading the locations that a broker reaches";
/// The number of locations that a message names.
const LOCATIONS_NAMED: usize = 3;

/// The locations that a broker reaches, with everything below them. Without any, it reaches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerReach(Vec<ReachLocation>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ReachLocation {
    typed: Vec<u8>,
    location: ComparableLocation,
}

impl BrokerReach {
    /// Reads locations as users type them.
    ///
    /// # Errors
    /// `Usage` for too many, and for one that is too long, or that no run could have.
    pub fn new(typed: &[Vec<u8>]) -> Result<Self> {
        check_at_most("the locations that a broker reaches", typed.len(), REACH_LOCATIONS_MAX)?;
        let read = |typed: &Vec<u8>| {
            check_at_most("the bytes of a location that a broker reaches", typed.len(), REACH_BYTES_MAX)?;
            Ok(ReachLocation { typed: typed.clone(), location: read(typed)? })
        };
        typed.iter().map(read).collect::<Result<_>>().map(Self)
    }

    /// Returns true if it was read from these locations.
    pub fn is_of(&self, typed: &[Vec<u8>]) -> bool {
        self.0.iter().map(|reached| &reached.typed).eq(typed)
    }

    /// Returns the locations as they were typed; none if it is everything.
    pub fn typed(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|reached| reached.typed.as_slice())
    }

    /// Returns true if a location is one of those that are reached, or below one.
    pub fn has(&self, location: &ComparableLocation) -> bool {
        let mut reached = self.0.iter();
        self.0.is_empty() || location.is_null() || reached.any(|one| location.is_within(&one.location))
    }

    /// Returns true if all locations are reached, as users type them.
    pub fn has_texts(&self, locations: &[LocationText]) -> bool {
        let compared = locations.iter().filter_map(|location| ComparableLocation::new(&location.0));
        self.0.is_empty() || compared.into_iter().all(|location| self.has(&location))
    }

    /// Returns true if all locations are reached.
    pub fn has_all(&self, locations: &[ComparableLocation]) -> bool {
        self.0.is_empty() || locations.iter().all(|location| self.has(location))
    }
}

fn read(typed: &[u8]) -> Result<ComparableLocation> {
    let wrong = |words: &str| Error::new(ErrorKind::Usage, READING, words).at(typed);
    Location::parse(typed).map_err(|error| wrong(&error.reason()))?;
    let location =
        ComparableLocation::new(typed).ok_or_else(|| wrong("a fleet has no standard input and output"))?;
    match location.is_relative() {
        true => Err(wrong("it does not begin with /").hint("write the whole path, from /")),
        false => Ok(location),
    }
}

/// Returns the first of these locations for people, and the number of the others.
pub fn named_locations(locations: &[LocationText]) -> String {
    let named = locations.iter().take(LOCATIONS_NAMED).map(|location| lossy(&location.0));
    let named = named.collect::<Vec<_>>().join(" and ");
    match locations.len().saturating_sub(LOCATIONS_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_request::FleetRequest;

    fn reach(typed: &[&str]) -> Result<BrokerReach> {
        BrokerReach::new(&typed.iter().map(|typed| typed.as_bytes().to_vec()).collect::<Vec<_>>())
    }

    fn has(reach: &BrokerReach, location: &[u8]) -> bool {
        reach.has(&ComparableLocation::new(location).unwrap())
    }

    #[test]
    fn locations_are_compared_by_whole_names() {
        for (reached, within, outside) in [
            (
                "/mnt/nas",
                &["/mnt/nas", "/mnt/nas/", "/mnt//nas/a", "/mnt/./nas/a/../b", "null://"][..],
                &["/mnt", "/mnt/nasty", "/mnt/na", "/mnt/nas/../x", "host:/mnt/nas", "s3://bucket/mnt/nas"][..],
            ),
            ("/", &["/", "/a", "/../a"], &["host:/a", "s3://bucket"]),
            ("/a/../b/", &["/b/c"], &["/a/b"]),
            (
                "s3://bucket",
                &["s3://bucket", "s3://bucket/", "s3://bucket/a/b"],
                &["s3://bucket2", "gs://bucket/a"],
            ),
            ("s3://bucket/p/", &["s3://bucket/p", "s3://bucket/p/q"], &["s3://bucket/pq", "s3://bucket"]),
            (
                "sftp://host",
                &["sftp://host/a", "host:/a", "ssh://HOST/", "host:a", "me@host:/a", "ssh://host:22/a"],
                &["sftp://host2/a", "host::module/a", "/host"],
            ),
            (
                "me@host:/srv",
                &["me@host:/srv/a"],
                &["host:/srv/a", "you@host:/srv", "me@host:srv", "me@host:/s"],
            ),
            ("ssh://host:22", &["ssh://host:22/a", "host:/a"], &["ssh://host:23/a"]),
            ("host:srv", &["host:srv/a", "host:./srv"], &["host:/srv", "host:other", "host:srv/../.."]),
            ("rsync://host/module", &["host::module/a"], &["host::other/a", "host:/module"]),
        ] {
            let reach = reach(&[reached]).unwrap();
            within
                .iter()
                .for_each(|location| assert!(has(&reach, location.as_bytes()), "{location} {reached}"));
            outside.iter().for_each(|place| assert!(!has(&reach, place.as_bytes()), "{place} {reached}"));
        }
        let bytes = BrokerReach::new(&[b"/\xff".to_vec(), b"/b".to_vec()]).unwrap();
        assert!(has(&bytes, b"/\xff/a") && has(&bytes, b"/b") && !has(&bytes, b"/\xfe"));
        assert!(has(&BrokerReach::default(), b"/anything"));
    }

    #[test]
    fn all_locations_of_a_request_have_to_be_reached() {
        let request = FleetRequest::parse(r#"{"sources":["/a/1","/b"],"target":"s3://bucket/x"}"#).unwrap();
        let locations = ComparableLocation::of_request(&request);
        assert_eq!(locations.len(), 3);
        for (typed, is_reached) in [
            (&[][..], true),
            (&["/", "s3://bucket"], true),
            (&["/a", "/b", "s3://bucket/x"], true),
            (&["/a", "s3://bucket"], false),
            (&["/"], false),
        ] {
            assert_eq!(reach(typed).unwrap().has_all(&locations), is_reached, "{typed:?}");
        }
    }

    #[test]
    fn hostile_and_senseless_locations_are_refused() {
        let long = format!("/{}", "x".repeat(REACH_BYTES_MAX));
        for typed in ["", "relative", "-", "nfs://h/x", "/a\0b", "odd://x", "s3://", "../x", &long] {
            assert_eq!(reach(&[typed]).unwrap_err().kind, ErrorKind::Usage, "{typed:?}");
        }
        let many: Vec<_> = (0..=REACH_LOCATIONS_MAX).map(|number| format!("/{number}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert!(reach(&many).is_err());
        let most = reach(&many[1..]).unwrap();
        assert_eq!(most.typed().count(), REACH_LOCATIONS_MAX);
        let typed: Vec<_> = most.typed().map(<[u8]>::to_vec).collect();
        assert!(most.is_of(&typed) && !most.is_of(&typed[1..]));
    }
}
