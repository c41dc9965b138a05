//! What limits a run: the stage in which its lanes spend most of their time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::counters::{Snapshot, Stage};

/// Idleness and the scan are named as the limit only above this share: a lane without work, or
/// one that lists while others move data, is seldom what the user should look at.
const DOMINATING_SHARE: f64 = 0.5;

/// Where the lanes' time went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// The name of the stage that limits.
    pub stage: String,
    /// Its share of all lanes' time, 0 to 1.
    pub share: f64,
    /// The share of each stage that took any time.
    pub stages: BTreeMap<String, f64>,
}

impl Bottleneck {
    /// Reads the limit off nanoseconds per stage, or `None` if there are none.
    pub fn of(figures: &Snapshot) -> Option<Self> {
        let stage_ns = &figures.stage_ns;
        let total: f64 = stage_ns.iter().map(|&ns| ns as f64).sum();
        if total <= 0.0 {
            return None;
        }
        let share = |stage: Stage| stage_ns[stage as usize] as f64 / total;
        let counts =
            |stage: &Stage| !matches!(stage, Stage::Idle | Stage::Scan) || share(*stage) > DOMINATING_SHARE;
        let busiest = |stages: &mut dyn Iterator<Item = Stage>| {
            stages.filter(|stage| share(*stage) > 0.0).max_by(|a, b| share(*a).total_cmp(&share(*b)))
        };
        let stage = busiest(&mut Stage::ALL.into_iter().filter(counts))
            .or_else(|| busiest(&mut Stage::ALL.into_iter()))?;
        let stages = Stage::ALL
            .into_iter()
            .filter(|stage| share(*stage) > 0.0)
            .map(|stage| (name(stage, figures.remote).to_owned(), rounded(share(stage))))
            .collect();
        Some(Self { stage: name(stage, figures.remote).to_owned(), share: rounded(share(stage)), stages })
    }

    /// `source read 61 %`, for people.
    pub fn words(&self) -> String {
        format!("{} {:.0} %", self.stage, self.share * 100.0)
    }
}

/// Without a way between the ends, what is sent is written at once.
fn name(stage: Stage, remote: bool) -> &'static str {
    match stage {
        Stage::Send if !remote => "target write",
        stage => stage.name(),
    }
}

/// Three digits behind the point: no timing is better than that.
fn rounded(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}
