//! The request of a run: locations and options as a user types them.

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::request::CopyRequest;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::relationship::Relationship;

/// The command of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunVerb {
    /// Copies.
    #[default]
    Copy,
    /// Copies, and removes what only the target has.
    Sync,
}

impl RunVerb {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Sync => "sync",
        }
    }
}

/// The request of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetRequest {
    /// The command.
    #[serde(default)]
    pub verb: RunVerb,
    /// The sources.
    pub sources: Vec<LocationText>,
    /// The target.
    pub target: LocationText,
    /// Further arguments of the command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// True if the target is compared with the source at the end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verify: bool,
    /// True if this run copies only entries that failed in an earlier one, so that its counts say nothing about the size of the tree.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_retry: bool,
    /// True if the target has something to be removed even if this run finds nothing: the earlier run found it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removes_more: bool,
}

/// The options of a relationship, as [`Relationship::options`] keeps them: those of its runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunOptions {
    /// The command.
    #[serde(default)]
    pub verb: RunVerb,
    /// Further arguments of the command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// True if the target is compared with the source at the end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verify: bool,
}

/// A location as a user types it. One that is not UTF-8 is a list of bytes in JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocationText(pub Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum JsonLocation {
    Text(String),
    Bytes(Vec<u8>),
}

impl Serialize for LocationText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let json = match std::str::from_utf8(&self.0) {
            Ok(text) => JsonLocation::Text(text.to_owned()),
            Err(_) => JsonLocation::Bytes(self.0.clone()),
        };
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LocationText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Ok(Self(match JsonLocation::deserialize(deserializer)? {
            JsonLocation::Text(text) => text.into_bytes(),
            JsonLocation::Bytes(bytes) => bytes,
        }))
    }
}

impl RunOptions {
    /// Reads the options of a relationship.
    ///
    /// # Errors
    /// `Usage` if they are none.
    pub fn parse(json: &str) -> Result<Self> {
        serde_json::from_str(json).map_err(|error| {
            Error::new(ErrorKind::Usage, "reading the options of a relationship", error.to_string())
        })
    }

    /// Returns their JSON.
    ///
    /// # Errors
    /// `Usage`; there is none for options that were checked.
    pub fn json(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|error| {
            Error::new(ErrorKind::Usage, "writing the options of a relationship", error.to_string())
        })
    }
}

impl FleetRequest {
    /// Returns the request of the next run of a relationship.
    ///
    /// # Errors
    /// `Usage` if its options are none.
    pub fn of(relationship: &Relationship) -> Result<Self> {
        let RunOptions { verb, arguments, verify } = RunOptions::parse(&relationship.options)?;
        let sources = relationship.sources.iter().cloned().map(LocationText).collect();
        Ok(Self {
            verb,
            sources,
            target: LocationText(relationship.target.clone()),
            arguments,
            verify,
            ..Self::default()
        })
    }

    /// Returns the sources and the target.
    pub fn into_locations(self) -> Vec<LocationText> {
        let Self { mut sources, target, .. } = self;
        sources.push(target);
        sources
    }

    /// Reads the JSON of a request.
    ///
    /// # Errors
    /// `Usage` if it is none.
    pub fn parse(json: &str) -> Result<Self> {
        serde_json::from_str(json)
            .map_err(|error| Error::new(ErrorKind::Usage, "reading the request of a run", error.to_string()))
    }

    /// Returns its JSON.
    ///
    /// # Errors
    /// `Usage`; there is none for a request that was checked.
    pub fn json(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|error| Error::new(ErrorKind::Usage, "writing the request of a run", error.to_string()))
    }
}

/// Turns the request of a run into the request of a copy, as the command line does.
pub trait RequestReader: Send + Sync {
    /// Returns the request. What a fleet does not offer is refused.
    ///
    /// # Errors
    /// `Usage` with the words of the command line.
    fn read(&self, request: &FleetRequest) -> Result<CopyRequest>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_bytes() {
        let request = FleetRequest {
            verb: RunVerb::Sync,
            sources: vec![LocationText(b"/a".to_vec()), LocationText(b"/\xff".to_vec())],
            target: LocationText(b"s3://b/p".to_vec()),
            arguments: vec!["--nice".to_owned()],
            verify: true,
            ..FleetRequest::default()
        };
        let json = request.json().unwrap();
        assert_eq!(
            json,
            r#"{"verb":"sync","sources":["/a",[47,255]],"target":"s3://b/p","arguments":["--nice"],"verify":true}"#
        );
        assert_eq!(FleetRequest::parse(&json).unwrap(), request);
        let short = FleetRequest::parse(r#"{"sources":["/a"],"target":"/b"}"#).unwrap();
        assert_eq!((short.verb, short.verify), (RunVerb::Copy, false));
        assert!(FleetRequest::parse(r#"{"sources":["/a"],"target":"/b","shell":"rm"}"#).is_err());
    }
}
