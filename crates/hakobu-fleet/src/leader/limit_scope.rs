//! The runs that share a limit.

use super::active_run::ActiveRun;
use crate::ids::RunId;
use crate::names::GroupName;

/// The runs that share a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LimitScope<'a> {
    /// One run.
    Run(RunId),
    /// All runs of a group.
    Group(&'a GroupName),
    /// All runs that touch an endpoint.
    Endpoint(&'a [u8]),
}

impl LimitScope<'_> {
    /// Returns true if a run is among them.
    pub(super) fn has(self, run: &ActiveRun) -> bool {
        match self {
            Self::Run(id) => run.row.id == id,
            Self::Group(group) => run.row.group == *group,
            Self::Endpoint(location) => run.endpoints.contains_key(location),
        }
    }
}
