//! The machine that opens a store: this one, or the host at the other end of the copy.

use crate::error::{Error, ErrorKind, Result};
use crate::location::Location;
use crate::request::{CopyRequest, Transport};

/// The machine that opens a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenAt {
    /// This machine.
    #[default]
    Here,
    /// The host that has the source.
    Source,
    /// The host that has the target.
    Target,
}

impl OpenAt {
    /// The names on the command line.
    pub const NAMES: [&str; 3] = ["here", "source", "target"];

    /// Returns the machine with this name on the command line.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "here" => Some(Self::Here),
            "source" => Some(Self::Source),
            "target" => Some(Self::Target),
            _ => None,
        }
    }

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Source => "source",
            Self::Target => "target",
        }
    }

    /// Checks that a request has a host where the store can be opened.
    ///
    /// # Errors
    /// `Usage` with the reason and a remedy.
    pub fn check(self, request: &CopyRequest) -> Result<()> {
        let (source, target) = match request.pairs.first() {
            Some((source, target)) => (Some(source), target),
            None => (request.sources.first(), &request.target),
        };
        let Some(source) = source else { return Ok(()) };
        let (own, other, across) = match self {
            Self::Here => return Ok(()),
            Self::Source => (source, target, Self::Target),
            Self::Target => (target, source, Self::Source),
        };
        let refusal = refusal((self, own), (across, other), request.transport);
        let at = format!("--open-at {}", self.name());
        refusal.map_or(Ok(()), |words| Err(Error::new(ErrorKind::Usage, "reading the options", words).at(at)))
    }
}

/// Returns the reason why a store cannot be opened on the host of its `own` end, `other` being the one in the store.
fn refusal(
    (at, own): (OpenAt, &Location),
    (across, other): (OpenAt, &Location),
    transport: Transport,
) -> Option<String> {
    let end = at.name();
    let words = match (own.store().is_some(), other.store().is_some()) {
        (false, false) => "neither end is in a store; leave it out".to_owned(),
        (true, true) => "both ends are in stores, which this machine opens; leave it out".to_owned(),
        (true, false) if other.ssh_host().is_some() => {
            let across = across.name();
            format!("the {end} is the store itself; --open-at {across} opens it on the {across}'s host")
        }
        (true, false) => "the other end is on no host that ssh reaches; leave it out".to_owned(),
        (false, true) if own.ssh_host().is_none() => {
            format!("the {end} is on no host that ssh reaches; leave it out")
        }
        (false, true) if own.wants_sftp() => {
            format!("an SFTP server opens no store; write ssh:// for the {end}, or leave it out")
        }
        (false, true) => match transport {
            Transport::Sftp => "an SFTP server opens no store; leave out --transport sftp".to_owned(),
            Transport::Rsync => "rsync opens no store; leave out --transport rsync".to_owned(),
            Transport::Auto | Transport::Agent | Transport::Ssh => return None,
        },
    };
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(at: OpenAt, source: &str, target: &str, transport: Transport) -> Result<()> {
        let [source, target] = [source, target].map(|typed| Location::parse(typed.as_bytes()).unwrap());
        at.check(&CopyRequest { sources: vec![source], target, transport, ..CopyRequest::default() })
    }

    #[test]
    fn names_lead_back() {
        for name in OpenAt::NAMES {
            assert_eq!(OpenAt::from_name(name).map(OpenAt::name), Some(name));
        }
        assert_eq!(OpenAt::from_name("there"), None);
    }

    #[test]
    fn a_store_is_opened_on_a_host_with_an_agent_at_the_other_end_only() {
        use OpenAt::{Here, Source, Target};
        use Transport::{Agent, Auto, Rsync, Sftp};
        for (at, source, target, transport, words) in [
            (Here, "a", "b", Auto, None),
            (Here, "h:a", "s3://bucket/b", Sftp, None),
            (Source, "h:a", "s3://bucket/b", Auto, None),
            (Source, "ssh://h/a", "null://", Agent, None),
            (Target, "gs://bucket/a", "h:b", Auto, None),
            (Source, "a", "b", Auto, Some("neither end is in a store")),
            (Source, "h:a", "i:b", Auto, Some("neither end is in a store")),
            (Target, "s3://bucket/a", "gs://bucket/b", Auto, Some("both ends are in stores")),
            (Source, "s3://bucket/a", "h:b", Auto, Some("--open-at target opens it on the target's host")),
            (Target, "h:a", "s3://bucket/b", Auto, Some("--open-at source opens it on the source's host")),
            (Target, "a", "s3://bucket/b", Auto, Some("the other end is on no host")),
            (Source, "a", "s3://bucket/b", Auto, Some("the source is on no host")),
            (Source, "h::m/a", "s3://bucket/b", Auto, Some("the source is on no host")),
            (Target, "s3://bucket/a", "b", Auto, Some("the target is on no host")),
            (Source, "sftp://h/a", "s3://bucket/b", Auto, Some("write ssh:// for the source")),
            (Source, "h:a", "s3://bucket/b", Sftp, Some("leave out --transport sftp")),
            (Source, "h:a", "s3://bucket/b", Rsync, Some("leave out --transport rsync")),
        ] {
            let told = checked(at, source, target, transport).err().map(|error| error.detail);
            let fits = told.as_deref().zip(words).map(|(told, words)| told.contains(words));
            assert!(fits.unwrap_or(told.is_none() && words.is_none()), "{source} {target}: {told:?}");
        }
    }
}
