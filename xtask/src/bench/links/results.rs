//! All that was measured over the links.

use serde::{Deserialize, Serialize};

use super::super::machine::Machine;
use super::cell::Measured;
use super::changes::Changes;

/// All that was measured, now and before.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    pub(super) schema: String,
    /// When it was last added to.
    pub machine: Machine,
    /// In the order of the grid.
    pub cells: Vec<Measured>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
}
