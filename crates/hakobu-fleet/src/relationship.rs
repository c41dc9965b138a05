//! Relationships: what is copied where, when, and with which options.

use hakobu_core::error::Result;
use hakobu_core::path::PATH_BYTES_MAX;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{Moment, RelationshipId, Revision};
use crate::limits::{check_at_most, malformed};
use crate::names::GroupName;

/// The maximum length of a relationship's name in bytes.
pub const RELATIONSHIP_NAME_BYTES_MAX: usize = 256;
/// The maximum length of a location in bytes: a path with a host and a scheme in front.
pub const LOCATION_BYTES_MAX: usize = 2 * PATH_BYTES_MAX;
/// The maximum number of sources.
pub const SOURCES_MAX: usize = 1024;
/// The maximum length of options, schedule, limits and notification, each as JSON, in bytes.
pub const SETTING_BYTES_MAX: usize = 64 << 10;
/// The maximum number of references to credentials.
pub const CREDENTIALS_MAX: usize = 16;
/// The maximum length of a reference to credentials in bytes.
pub const CREDENTIAL_BYTES_MAX: usize = 16 << 10;

/// The place where credentials are. The ledger never has them in clear.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CredentialReference {
    /// A file on the broker.
    File(String),
    /// A variable of the broker's environment.
    Environment(String),
    /// Sealed with a key file, as text.
    Sealed(String),
}

impl CredentialReference {
    fn text(&self) -> &str {
        match self {
            Self::File(text) | Self::Environment(text) | Self::Sealed(text) => text,
        }
    }
}

/// A relationship. Settings that the ledger does not read are JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relationship {
    /// The name, of which there is one.
    pub name: String,
    /// The group whose brokers reach both locations.
    pub group: GroupName,
    /// The sources.
    pub sources: Vec<Vec<u8>>,
    /// The target.
    pub target: Vec<u8>,
    /// The options of the command.
    pub options: String,
    /// The schedule; none if it runs on request only.
    pub schedule: Option<String>,
    /// The limits of rate, operations and latency.
    pub limits: Option<String>,
    /// The notification.
    pub notification: Option<String>,
    /// The person who answers for it.
    pub owner: String,
    /// The places of the credentials.
    pub credentials: Vec<CredentialReference>,
}

/// A relationship as kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationshipRecord {
    /// The number.
    pub id: RelationshipId,
    /// The revision, which a change needs to know.
    pub revision: Revision,
    /// The moment of the last change.
    pub changed: Moment,
    /// The relationship.
    pub relationship: Relationship,
}

impl Relationship {
    /// Checks the lengths, and that settings are JSON.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        if self.name.is_empty() {
            return Err(malformed("the name of a relationship", "it is empty"));
        }
        check_at_most("the bytes of a relationship's name", self.name.len(), RELATIONSHIP_NAME_BYTES_MAX)?;
        check_at_most("the bytes of a relationship's owner", self.owner.len(), RELATIONSHIP_NAME_BYTES_MAX)?;
        check_at_most("the sources of a relationship", self.sources.len(), SOURCES_MAX)?;
        if self.sources.is_empty() {
            return Err(malformed("a relationship", "it has no source"));
        }
        for location in self.sources.iter().chain([&self.target]) {
            if location.is_empty() || location.contains(&0) {
                return Err(malformed("a location", "it is empty, or has a zero byte").at(location));
            }
            check_at_most("the bytes of a location", location.len(), LOCATION_BYTES_MAX)?;
        }
        check_references(&self.credentials)?;
        check_setting("the options of a relationship", Some(&self.options))?;
        check_setting("the schedule of a relationship", self.schedule.as_deref())?;
        check_setting("the limits of a relationship", self.limits.as_deref())?;
        check_setting("the notification of a relationship", self.notification.as_deref())
    }
}

/// Checks the number and the lengths of references to credentials.
pub(crate) fn check_references(credentials: &[CredentialReference]) -> Result<()> {
    check_at_most("the references to credentials", credentials.len(), CREDENTIALS_MAX)?;
    credentials.iter().try_for_each(|credential| {
        let length = credential.text().len();
        check_at_most("the bytes of a reference to credentials", length, CREDENTIAL_BYTES_MAX)
    })
}

/// Checks that a setting is JSON of a bounded length.
pub(crate) fn check_setting(what: &str, setting: Option<&str>) -> Result<()> {
    let Some(text) = setting else { return Ok(()) };
    check_at_most(&format!("the bytes of {what}"), text.len(), SETTING_BYTES_MAX)?;
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(malformed(what, format_args!("no JSON: {error}"))),
    }
}
