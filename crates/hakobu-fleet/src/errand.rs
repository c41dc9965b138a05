//! Errands: short requests that only a broker can answer, because it reaches the locations. None changes what is there.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hakobu_core::error::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::api::byte_text::ByteText;
use crate::api::problem::Problem;
use crate::api::run_view::RequestView;
use crate::run_request::{FleetRequest, LocationText};
use crate::sent_credentials::EndCredentials;

/// The maximum number of entries that browsing returns.
pub const BROWSE_ENTRIES_MAX: usize = 2000;
/// The maximum number of changes that a preview names.
pub const PREVIEW_CHANGES_MAX: usize = 500;
/// The maximum length of a result as JSON, in bytes.
pub const RESULT_BYTES_MAX: usize = 2 << 20;

/// A request that a broker answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Errand {
    /// Lists a directory.
    Browse {
        /// The location, as on the command line.
        location: ByteText,
        /// Options for reaching it, as `--endpoint` and `--region`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        arguments: Vec<String>,
        /// True if it is to be a target: credentials may be for one end alone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_target: bool,
    },
    /// Connects to the sources and the target, and looks at them.
    Test {
        /// Locations and options.
        request: RequestView,
    },
    /// Finds what a run would do, and does nothing.
    Preview {
        /// Locations and options.
        request: RequestView,
    },
    /// Foretells how fast a run would be, and what would limit it. The first source and the target are measured.
    Probe {
        /// Locations and options.
        request: RequestView,
    },
}

impl Errand {
    /// Returns the name of the kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Browse { .. } => "browse",
            Self::Test { .. } => "test",
            Self::Preview { .. } => "preview",
            Self::Probe { .. } => "probe",
        }
    }

    /// Returns locations and options as a run would have them. Where a location is browsed, the root stands for the other end.
    pub fn request(&self) -> FleetRequest {
        match self {
            Self::Test { request } | Self::Preview { request } | Self::Probe { request } => {
                FleetRequest::from(request.clone())
            }
            Self::Browse { location, arguments, is_target } => {
                let (browsed, other) = (location.clone().into(), LocationText(b"/".to_vec()));
                let (source, target) = if *is_target { (other, browsed) } else { (browsed, other) };
                FleetRequest {
                    sources: vec![source],
                    target,
                    arguments: arguments.clone(),
                    ..FleetRequest::default()
                }
            }
        }
    }

    /// Returns the locations that it is about.
    pub fn locations(&self) -> Vec<LocationText> {
        match self {
            Self::Test { request } | Self::Preview { request } | Self::Probe { request } => {
                FleetRequest::from(request.clone()).into_locations()
            }
            Self::Browse { location, .. } => vec![location.clone().into()],
        }
    }

    /// Returns the time in which it must be answered, in milliseconds.
    pub fn limit_ms(&self) -> u64 {
        match self {
            Self::Browse { .. } | Self::Test { .. } => 60_000,
            Self::Probe { .. } => 180_000,
            Self::Preview { .. } => 600_000,
        }
    }
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BrowseEntry {
    /// The name.
    pub name: ByteText,
    /// The kind: `directory`, `file`, `symlink`, ...
    pub kind: String,
    /// The size of a file in bytes.
    pub size_bytes: u64,
    /// The time of the last change, in milliseconds since 1970.
    pub modified_ms: Option<i64>,
}

/// A location that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocationTest {
    /// The location.
    pub location: ByteText,
    /// True if it is the target.
    pub is_target: bool,
    /// True if it is there. A target that is not there is made by a run.
    pub is_there: bool,
    /// The error, if it cannot be reached or looked at.
    pub error: Option<Problem>,
}

/// A change that a run would make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviewChange {
    /// The change: `create`, `update`, `delete`, ...
    pub change: String,
    /// The path.
    pub path: ByteText,
}

/// The answer of a broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ErrandResult {
    /// To [`Errand::Browse`].
    Browse {
        /// The entries.
        entries: Vec<BrowseEntry>,
        /// True if there are more.
        is_cut: bool,
    },
    /// To [`Errand::Test`].
    Test {
        /// The sources and the target.
        locations: Vec<LocationTest>,
    },
    /// To [`Errand::Preview`].
    Preview {
        /// The report of the dry run, in the form that `hakobu copy --report` writes.
        #[schema(value_type = Object)]
        report: Value,
        /// The first changes.
        changes: Vec<PreviewChange>,
        /// True if there are more.
        is_cut: bool,
    },
    /// To [`Errand::Probe`].
    Probe {
        /// The result, in the form that `hakobu probe --json` prints.
        #[schema(value_type = Object)]
        report: Value,
    },
}

/// The state of an errand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrandState {
    /// No broker has taken it.
    Waiting,
    /// A broker works on it.
    Running,
    /// It is done.
    Done,
    /// It could not be done.
    Failed,
}

/// An errand with its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrandView {
    /// The number.
    pub id: u64,
    /// The group whose brokers may take it.
    pub group: String,
    /// The kind: `browse`, `test`, `preview` or `probe`.
    pub errand: String,
    /// The state.
    pub state: ErrandState,
    /// The broker that has taken it.
    pub broker: Option<String>,
    /// The result.
    pub result: Option<ErrandResult>,
    /// The error.
    pub error: Option<Problem>,
}

/// Carries out errands.
pub trait ErrandRunner: Send + Sync {
    /// Carries out an errand, with credentials in place of those of the broker. It runs no command of whoever asks, and looks at nothing but what locations name.
    ///
    /// # Errors
    /// Those of the locations; `Cancelled` soon after `cancel` is set.
    fn run(
        &self,
        errand: &Errand,
        credentials: EndCredentials,
        cancel: &Arc<AtomicBool>,
    ) -> Result<ErrandResult>;
}
