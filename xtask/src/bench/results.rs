//! The results of a bench.

use hakobu_measure::statistics::median;
use serde::Serialize;

use super::judge::RowResult;
use super::machine::Machine;
use super::memory_meter::Peaks;
use super::peers::Peers;
use super::rows::{BenchMethod, RunMode, Table};
use super::runs::RunCounters;
use super::sources::BenchSource;
use super::tuning::DdTrial;
use crate::table::Unit;

/// The minimum net time in seconds. Noise may leave zero or less of a run that is little more than its start.
pub const NET_LEAST_SECONDS: f64 = 0.001;
/// One round in this many may have only that net time, or there is no result: a ratio to nothing would meet any goal.
const ONE_LOST_ROUND_IN: usize = 4;

/// All results of one bench.
#[derive(Debug, Serialize)]
pub struct TableResults {
    /// Always `hakobu.bench/1`.
    pub schema: &'static str,
    /// The name of the bench.
    pub bench: &'static str,
    #[serde(skip)]
    pub table: &'static Table,
    /// True for smaller sizes and fewer rounds: to try the bench, not to judge by.
    pub quick: bool,
    pub machine: Machine,
    pub hakobu: String,
    pub tools: Peers,
    pub rows: Vec<RowResult>,
    pub groups: Vec<GroupResult>,
}

/// The results of one group.
#[derive(Debug, Serialize)]
pub struct GroupResult {
    pub name: &'static str,
    /// True if the group is only for information and not checked.
    pub extra: bool,
    #[serde(rename = "place")]
    pub topology: &'static str,
    pub source: String,
    /// The load average of the last minute when the group began.
    pub load_before: f64,
    /// The longest delay of a packet by the emulated link beyond its due time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_late_most_ms: Option<f64>,
    #[serde(rename = "ways")]
    pub methods: Vec<MethodResult>,
}

/// The results of one method. The methods of a group take turns in each round.
#[derive(Debug, Clone, Serialize)]
pub struct MethodResult {
    pub name: &'static str,
    pub command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub far_command: Option<String>,
    /// The source, if it differs from the group's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(skip)]
    pub kind: BenchSource,
    /// True if it is ended before its end, so that its memory says nothing.
    #[serde(skip)]
    pub ends_early: bool,
    /// The settings that were tried first, if the best had to be found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<DdTrial>,
    /// The times of the same command on next to nothing.
    pub baseline_seconds: Vec<f64>,
    /// The wall-clock time of each round.
    pub wall_seconds: Vec<f64>,
    /// The wall-clock times less the median of the baseline.
    pub net_seconds: Vec<f64>,
    /// The kernel's counters of each round.
    pub counted: Vec<RunCounters>,
    pub unit: Unit,
    /// The amount moved per net second, in `unit`.
    pub figures: Vec<f64>,
    /// For hakobu, the peak memory on each host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peaks: Option<Peaks>,
    /// For hakobu and an object store, the requests that listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lists: Option<u64>,
    /// The reason why there are no results: the tool is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// The reason why there are no results: the method failed or did not do its work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl MethodResult {
    /// Returns an empty result of a method that copies `kind`: its source, or a smaller one of that kind.
    pub fn new(method: &BenchMethod, kind: BenchSource) -> Self {
        Self {
            name: method.name,
            command: method.local.to_owned(),
            far_command: method.remote.map(str::to_owned),
            source: method.source.map(|_| kind.describe()),
            kind,
            ends_early: method.mode == RunMode::FirstFile,
            tried: Vec::new(),
            baseline_seconds: Vec::new(),
            wall_seconds: Vec::new(),
            net_seconds: Vec::new(),
            counted: Vec::new(),
            unit: kind.unit(),
            figures: Vec::new(),
            peaks: None,
            lists: None,
            absent: None,
            failed: None,
        }
    }

    /// Returns true if the method can be measured.
    pub fn usable(&self) -> bool {
        self.absent.is_none() && self.failed.is_none()
    }

    /// Computes net times and speeds once all rounds are done.
    pub fn complete(&mut self) {
        let Some(baseline) = median(&self.baseline_seconds).filter(|_| self.usable()) else { return };
        let round = |value: f64| (value * 1e6).round() / 1e6;
        for seconds in self.baseline_seconds.iter_mut().chain(&mut self.wall_seconds) {
            *seconds = round(*seconds);
        }
        let net = self.wall_seconds.iter().map(|wall| round((wall - baseline).max(NET_LEAST_SECONDS)));
        self.net_seconds = net.collect();
        let lost = self.net_seconds.iter().filter(|seconds| **seconds <= NET_LEAST_SECONDS).count();
        if lost * ONE_LOST_ROUND_IN > self.net_seconds.len() {
            let count = self.net_seconds.len();
            self.failed = Some(format!(
                "in {lost} of {count} rounds it took no longer than on next to nothing: too much noise"
            ));
            self.net_seconds.clear();
            return;
        }
        let amount = self.kind.amount() as f64;
        self.figures = self.net_seconds.iter().map(|seconds| (amount / seconds).round()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::super::groups::copy::GROUPS;
    use super::*;

    #[test]
    fn less_than_nothing_is_not_a_speed() {
        let group = &GROUPS[0];
        let complete = |wall_seconds: &[f64]| {
            let mut method = MethodResult::new(&group.methods[0], group.source);
            method.baseline_seconds = vec![1.0];
            method.wall_seconds = wall_seconds.to_vec();
            method.complete();
            method
        };
        let once = complete(&[2.0, 0.9, 2.0, 2.0]);
        assert!(once.usable());
        assert_eq!(once.net_seconds, [1.0, NET_LEAST_SECONDS, 1.0, 1.0]);
        let often = complete(&[2.0, 0.9, 1.0, 2.0]);
        assert!(often.failed.is_some() && often.figures.is_empty() && often.net_seconds.is_empty());
    }
}
