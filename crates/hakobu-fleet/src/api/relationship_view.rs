//! Relationships as the interface shows and takes them.

use hakobu_core::error::Result;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::byte_text::ByteText;
use super::problem::{ApiError, ApiResult};
use super::run_view::{RequestView, RunView};
use crate::key_file::SealingKeys;
use crate::limits_setting::LimitsSetting;
use crate::names::GroupName;
use crate::notification_setting::NotificationSetting;
use crate::relationship::{CredentialReference, Relationship, RelationshipRecord};
use crate::run_request::{FleetRequest, RunOptions};
use crate::schedule::{Schedule, ScheduleSetting};
use crate::secret_bytes::SecretBytes;
use crate::sent_credentials::{CREDENTIALS_PURPOSE, check_credentials};
use crate::start_delay::StartDelayView;

/// The state of a relationship: that of its run under way, or else of its last run. The first ones need somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RelationshipState {
    /// The last run could not go on.
    Failed,
    /// Entries failed in the last run.
    Partial,
    /// A run is under way.
    Running,
    /// The run under way is paused.
    Paused,
    /// The last run was cancelled.
    Cancelled,
    /// There was no run.
    New,
    /// The last run was complete.
    Complete,
}

/// The place of credentials. What is sealed is never shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum CredentialView {
    /// A file on the broker.
    File {
        /// Its path.
        path: String,
    },
    /// A variable of the broker's environment.
    Environment {
        /// Its name.
        name: String,
    },
    /// Credentials that are sealed in the ledger. Where a relationship is changed, it stands for those that are there.
    Sealed,
    /// Credentials to seal in the ledger. They are taken and never shown.
    Secret {
        /// Lines of `NAME=VALUE`. Those below `[source]` or `[target]` are for that end alone.
        value: SecretText,
    },
}

/// A secret that somebody gives. It is not shown, also not in traces of the program.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String)]
pub struct SecretText(String);

impl SecretText {
    /// Creates one.
    pub fn new(text: String) -> Self {
        Self(text)
    }
}

impl std::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretText")
    }
}

/// A relationship to make, or its new form.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RelationshipInput {
    /// The name, of which there is one.
    pub name: String,
    /// The group whose brokers reach both locations.
    pub group: String,
    /// Locations and options.
    pub request: RequestView,
    /// The schedule; none if it runs on request only.
    #[serde(default)]
    pub schedule: Option<ScheduleSetting>,
    /// The limits of each run.
    #[serde(default)]
    pub limits: Option<LimitsSetting>,
    /// The notification.
    #[serde(default)]
    pub notification: Option<NotificationSetting>,
    /// The person who answers for it; whoever asks if it is empty.
    #[serde(default)]
    pub owner: String,
    /// The places of the credentials.
    #[serde(default)]
    pub credentials: Vec<CredentialView>,
}

/// The new form of a relationship.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RelationshipUpdate {
    /// The revision that is changed: with another one, the change is refused (409).
    pub revision: u64,
    /// The new form.
    pub relationship: RelationshipInput,
}

/// A relationship in a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RelationshipSummary {
    /// The number.
    pub id: u64,
    /// The name.
    pub name: String,
    /// The group.
    pub group: String,
    /// The person who answers for it.
    pub owner: String,
    /// The first source.
    pub source: ByteText,
    /// The number of sources.
    pub sources: u64,
    /// The target.
    pub target: ByteText,
    /// The state.
    pub state: RelationshipState,
    /// The last run, or the one under way.
    pub last_run: Option<RunView>,
    /// The next start by the schedule, in milliseconds since 1970.
    pub next_start_ms: Option<u64>,
    /// The start by the schedule that waits, or that was left out last; none from the next start on.
    #[serde(default)]
    pub delayed_start: Option<StartDelayView>,
    /// The schedule in words (English).
    pub schedule_words: Option<String>,
}

/// A relationship.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RelationshipView {
    /// The number.
    pub id: u64,
    /// The revision, which a change needs to name.
    pub revision: u64,
    /// The moment of the last change, in milliseconds since 1970.
    pub changed_ms: u64,
    /// The relationship.
    pub relationship: RelationshipInput,
    /// The state.
    pub state: RelationshipState,
    /// The last run, or the one under way.
    pub last_run: Option<RunView>,
    /// The next start by the schedule, in milliseconds since 1970.
    pub next_start_ms: Option<u64>,
    /// The start by the schedule that waits, or that was left out last; none from the next start on.
    #[serde(default)]
    pub delayed_start: Option<StartDelayView>,
    /// The schedule in words (English).
    pub schedule_words: Option<String>,
}

impl From<&CredentialReference> for CredentialView {
    fn from(reference: &CredentialReference) -> Self {
        match reference {
            CredentialReference::File(path) => Self::File { path: path.clone() },
            CredentialReference::Environment(name) => Self::Environment { name: name.clone() },
            CredentialReference::Sealed(_) => Self::Sealed,
        }
    }
}

impl RelationshipInput {
    /// Returns the form of a relationship.
    ///
    /// # Errors
    /// `Usage` if another version of the program wrote its settings.
    pub fn of(relationship: &Relationship) -> Result<Self> {
        let request = FleetRequest::of(relationship)?;
        Ok(Self {
            name: relationship.name.clone(),
            group: relationship.group.to_string(),
            request: RequestView::from(&request),
            schedule: relationship.schedule.as_deref().and_then(|text| serde_json::from_str(text).ok()),
            limits: relationship.limits.as_deref().and_then(|text| serde_json::from_str(text).ok()),
            notification: saved_notification(relationship).map(|mut setting| {
                setting.hide_sealed();
                setting
            }),
            owner: relationship.owner.clone(),
            credentials: relationship.credentials.iter().map(CredentialView::from).collect(),
        })
    }

    /// Checks it, and returns the relationship. `before` is the one that it replaces.
    ///
    /// # Errors
    /// The field at fault.
    pub fn checked(
        self,
        before: Option<&RelationshipRecord>,
        who: &str,
        keys: Option<&SealingKeys>,
    ) -> ApiResult<(Relationship, FleetRequest)> {
        let group = GroupName::new(self.group).map_err(|error| ApiError::from(error).field("group"))?;
        if let Some(schedule) = &self.schedule {
            Schedule::new(schedule).map_err(|error| ApiError::setting("schedule", error))?;
        }
        if let Some(limits) = &self.limits {
            limits.check().map_err(|error| ApiError::setting("limits", error))?;
        }
        let notification = self.notification.map(|mut setting| {
            setting.check().map_err(|error| ApiError::setting("notification", error))?;
            let before = before.and_then(|before| saved_notification(&before.relationship));
            setting.keep_sealed(before.as_ref()).map_err(|error| ApiError::setting("notification", error))?;
            to_json(&setting)
        });
        let request = FleetRequest::from(self.request);
        let options =
            RunOptions { verb: request.verb, arguments: request.arguments.clone(), verify: request.verify };
        let relationship = Relationship {
            name: self.name,
            group,
            sources: request.sources.iter().map(|source| source.0.clone()).collect(),
            target: request.target.0.clone(),
            options: options.json()?,
            schedule: self.schedule.map(|schedule| to_json(&schedule)).transpose()?,
            limits: self.limits.map(|limits| to_json(&limits)).transpose()?,
            notification: notification.transpose()?,
            owner: if self.owner.is_empty() { who.to_owned() } else { self.owner },
            credentials: references(self.credentials, before, keys)?,
        };
        relationship.check()?;
        Ok((relationship, request))
    }
}

/// Returns the places of credentials, with what somebody gave sealed. Sealed ones are those of a relationship, in their order.
///
/// # Errors
/// The field `credentials`.
pub(super) fn references(
    views: Vec<CredentialView>,
    before: Option<&RelationshipRecord>,
    keys: Option<&SealingKeys>,
) -> ApiResult<Vec<CredentialReference>> {
    let mut sealed = before.into_iter().flat_map(|before| &before.relationship.credentials);
    let mut next_sealed = || sealed.find(|reference| matches!(reference, CredentialReference::Sealed(_)));
    let references = views.into_iter().map(|view| match view {
        CredentialView::File { path } => Ok(CredentialReference::File(path)),
        CredentialView::Environment { name } => Ok(CredentialReference::Environment(name)),
        CredentialView::Secret { value } => seal(value, keys),
        CredentialView::Sealed => next_sealed().cloned().ok_or_else(|| {
            ApiError::usage("credentials: there are no sealed ones to keep").field("credentials")
        }),
    });
    references.collect()
}

/// Seals credentials that somebody gave.
fn seal(secret: SecretText, keys: Option<&SealingKeys>) -> ApiResult<CredentialReference> {
    let at = |error: hakobu_core::Error| ApiError::from(error).field("credentials");
    check_credentials(&secret.0).map_err(at)?;
    let keys =
        keys.ok_or_else(|| ApiError::usage("credentials: there is no key file").field("credentials"))?;
    let text = keys.seal(CREDENTIALS_PURPOSE, &SecretBytes::new(secret.0.into_bytes())).map_err(at)?;
    Ok(CredentialReference::Sealed(text))
}

fn saved_notification(relationship: &Relationship) -> Option<NotificationSetting> {
    relationship.notification.as_deref().and_then(|text| NotificationSetting::saved(text).ok())
}

fn to_json(value: &impl Serialize) -> ApiResult<String> {
    serde_json::to_string(value).map_err(|error| ApiError::usage(error.to_string()))
}
