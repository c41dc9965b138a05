//! Predictions and the measured times.

use hakobu_measure::statistics::median;
use serde::{Deserialize, Serialize};

use super::super::machine::Machine;
use super::limits::ProbeLimit;

/// The permitted relative error of a prediction, for one file and for a tree.
pub(super) const FILE_WITHIN: f64 = 0.20;
pub(super) const TREE_WITHIN: f64 = 0.25;

/// All results, as they are written.
#[derive(Debug, Serialize)]
pub(super) struct ProbeBenchResults {
    pub(super) schema: &'static str,
    pub(super) bench: &'static str,
    pub(super) quick: bool,
    pub(super) machine: Machine,
    pub(super) hakobu: String,
    pub(super) rows: Vec<ProbeRow>,
}

/// The predictions for one kind of data under one limit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ProbeRow {
    pub(super) key: String,
    pub(super) title: String,
    pub(super) work: String,
    pub(super) within: f64,
    pub(super) pairs: Vec<TimeComparison>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failed: Option<String>,
}

/// A prediction and the measured time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TimeComparison {
    pub(super) predicted_seconds: f64,
    pub(super) came_seconds: f64,
    pub(super) predicted_limit: String,
    pub(super) reported_limit: Option<String>,
    pub(super) probe_seconds: f64,
    pub(super) load: f64,
}

impl TimeComparison {
    pub(super) fn ratio(&self) -> f64 {
        self.predicted_seconds / self.came_seconds
    }
}

impl ProbeRow {
    pub(super) fn new(limit: &ProbeLimit, work: &str, within: f64) -> Self {
        let (key, title, work) = (limit.key.to_owned(), limit.title.to_owned(), work.to_owned());
        Self { key, title, work, within, pairs: Vec::new(), failed: None }
    }

    /// Returns the median of the ratios.
    pub(super) fn median(&self) -> Option<f64> {
        median(&self.pairs.iter().map(TimeComparison::ratio).collect::<Vec<_>>())
    }

    pub(super) fn is_within(&self) -> bool {
        self.median().is_some_and(|ratio| (ratio - 1.0).abs() <= self.within)
    }
}
