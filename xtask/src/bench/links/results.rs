//! The results of the links bench.

use serde::{Deserialize, Serialize};

use super::super::machine::Machine;
use super::cell::CellResult;
use super::changes::ChangeResults;

/// All results, of this run and earlier ones.
#[derive(Debug, Serialize, Deserialize)]
pub struct LinksResults {
    pub(super) schema: String,
    /// The machine at the time of the last addition.
    pub machine: Machine,
    /// The cells in the order of the grid.
    pub cells: Vec<CellResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangeResults>,
}
