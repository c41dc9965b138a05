//! The verdicts of runs, and how many of them are right.

use std::collections::BTreeMap;

use hakobu_measure::statistics::median;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bench::machine::Machine;

/// All results.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct VerdictsResults {
    /// Always `hakobu.bench/1`.
    pub(super) schema: String,
    /// Always `verdicts`.
    pub(super) bench: String,
    pub(super) rows: Vec<VerdictsRow>,
}

/// One stage with one kind of content.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct VerdictsRow {
    pub(super) key: String,
    /// `file` or `tree`.
    pub(super) content: String,
    pub(super) verdict: String,
    pub(super) machine: Machine,
    pub(super) hakobu: String,
    pub(super) runs: Vec<VerdictsRun>,
}

/// The verdict of one run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct VerdictsRun {
    pub(super) said: String,
    pub(super) share: f64,
    pub(super) seconds: f64,
    pub(super) bytes_per_second: u64,
    /// The shares of the resources, as far as they are known.
    pub(super) resources: BTreeMap<String, f64>,
    pub(super) stages: BTreeMap<String, f64>,
    pub(super) file_server: Option<Value>,
}

/// Returns the number of right verdicts, and of all.
pub(super) fn right_of_all<'a>(rows: impl IntoIterator<Item = &'a VerdictsRow>) -> (usize, usize) {
    rows.into_iter().fold((0, 0), |(right, all), row| (right + row.right(), all + row.runs.len()))
}

impl VerdictsRow {
    pub(super) fn right(&self) -> usize {
        self.runs.iter().filter(|run| run.said == self.verdict).count()
    }

    pub(super) fn seconds(&self) -> f64 {
        median(&self.runs.iter().map(|run| run.seconds).collect::<Vec<_>>()).unwrap_or(0.0)
    }

    /// Returns the wrong verdicts and their number.
    pub(super) fn otherwise(&self) -> BTreeMap<&str, usize> {
        let mut said = BTreeMap::new();
        for run in self.runs.iter().filter(|run| run.said != self.verdict) {
            *said.entry(run.said.as_str()).or_default() += 1;
        }
        said
    }
}
