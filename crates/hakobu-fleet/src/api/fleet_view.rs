//! Brokers, groups, tokens and the audit log as the interface shows them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::byte_text::ByteText;
use crate::audit::AuditRecord;
use crate::limits_setting::LimitsSetting;
use crate::token::{TokenRecord, TokenRole};

/// The state of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BrokerState {
    /// It works on units.
    Busy,
    /// It waits for units.
    Idle,
    /// It gets no further units, as somebody asked for.
    Draining,
    /// It ends, and takes no further units.
    Ending,
    /// It has not been heard of for a while.
    Away,
    /// It speaks another form of messages than the control plane, and gets no units.
    Refused,
}

/// The forms of messages of a broker that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedForm {
    /// The form that the broker speaks.
    pub form: u64,
    /// The form that the control plane speaks.
    pub own_form: u64,
    /// The moment since which it is refused, in milliseconds since 1970.
    pub since_ms: u64,
}

/// A broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BrokerView {
    /// The name.
    pub name: String,
    /// The group.
    pub group: String,
    /// The version of the program; empty if a broker that is refused has not told it.
    pub version: String,
    /// The state.
    pub state: BrokerState,
    /// The forms of messages, if it is refused because of them.
    #[serde(default)]
    pub refused: Option<RefusedForm>,
    /// True if it gets no further units, as somebody asked for.
    pub is_draining: bool,
    /// The number of units that it works on at a time; 0 if it is away.
    pub slots: u64,
    /// The locations that it reaches, with everything below them; none if it reaches everything, or is away.
    #[serde(default)]
    pub reaches: Vec<ByteText>,
    /// The runs that it works on.
    pub runs: Vec<u64>,
    /// The number of its units.
    pub units: u64,
    /// The seconds by which its clock is ahead of that of the control plane, or below zero, behind it; none if both agree within
    /// five seconds, or it has not told its time.
    #[serde(default)]
    pub clock_ahead_s: Option<i64>,
    /// The moment at which it was first seen, in milliseconds since 1970.
    pub first_seen_ms: u64,
    /// The moment at which it was last seen, in milliseconds since 1970.
    pub last_seen_ms: u64,
}

/// A group of brokers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GroupView {
    /// The name.
    pub name: String,
    /// The brokers that are there.
    pub brokers: u64,
    /// The brokers that are away.
    pub brokers_away: u64,
    /// The units that its brokers could take at a time.
    pub slots: u64,
    /// The units that its brokers work on.
    pub units: u64,
    /// The runs under way.
    pub runs: u64,
    /// The relationships.
    pub relationships: u64,
    /// The limits that were set for it.
    pub limits: Option<LimitsSetting>,
    /// The locations that its brokers reach, if each of those that are there names some.
    #[serde(default)]
    pub reaches: Vec<ByteText>,
    /// True if a broker that is there reaches everything.
    #[serde(default)]
    pub reaches_everything: bool,
}

/// The brokers of a group that reach the locations of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupReach {
    /// The brokers that are there.
    pub brokers: u64,
    /// Those of them that reach all sources and the target.
    pub reaching: u64,
    /// The locations that none of them reaches.
    pub unreached: Vec<ByteText>,
}

/// The limits of an endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EndpointLimits {
    /// The location: of a host, a store or a folder, with everything below it.
    pub location: ByteText,
    /// The limits, over all runs of which a source or the target is there.
    pub limits: LimitsSetting,
    /// The runs under way of which a source or the target is there.
    pub runs: u64,
}

/// Limits to set for an endpoint.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointLimitsInput {
    /// The location, as in a relationship: `HOST:` for a whole host, `s3://BUCKET`, or a folder.
    pub location: ByteText,
    /// The limits. Without any, they are removed.
    pub limits: LimitsSetting,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenView {
    /// The number.
    pub id: u64,
    /// The name that people give it.
    pub label: String,
    /// The role.
    pub role: TokenRole,
    /// The moment at which it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// The moment from which it is not valid.
    pub expires_ms: Option<u64>,
    /// True if it is valid once.
    pub is_single_use: bool,
    /// The moment at which it was last used, to about a minute.
    pub last_used_ms: Option<u64>,
}

/// A token to make.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenInput {
    /// The name that people give it.
    pub label: String,
    /// The role.
    pub role: TokenRole,
    /// The time for which it is valid in seconds; without an end if there is none.
    #[serde(default)]
    pub valid_for_s: Option<u64>,
    /// True if it is valid once.
    #[serde(default)]
    pub is_single_use: bool,
}

/// A new token with its secret, which is never shown again.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct TokenSecret {
    /// The token.
    pub token: TokenView,
    /// The secret.
    pub secret: String,
}

/// A record of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditView {
    /// The number.
    pub number: u64,
    /// The moment, in milliseconds since 1970.
    pub at_ms: u64,
    /// The label of the token that asked.
    pub who: String,
    /// The action: `relationship.create`, `run.cancel`, ...
    pub action: String,
    /// The thing that it was about.
    pub object: ByteText,
    /// Further words.
    pub detail: String,
    /// The name of the refusal, if it was refused.
    pub refused: Option<String>,
}

impl From<&TokenRecord> for TokenView {
    fn from(record: &TokenRecord) -> Self {
        Self {
            id: record.id.get(),
            label: record.token.label.clone(),
            role: record.token.role,
            created_ms: record.token.created.get(),
            expires_ms: record.token.expires.map(|moment| moment.get()),
            is_single_use: record.token.is_single_use,
            last_used_ms: record.last_used.map(|moment| moment.get()),
        }
    }
}

impl From<&AuditRecord> for AuditView {
    fn from(record: &AuditRecord) -> Self {
        let entry = &record.entry;
        Self {
            number: record.number.get(),
            at_ms: entry.when.get(),
            who: entry.who.clone(),
            action: entry.action.clone(),
            object: ByteText(entry.object.clone()),
            detail: entry.detail.clone(),
            refused: record.refused.clone(),
        }
    }
}
