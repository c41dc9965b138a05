//! Links on which the best number of lanes is unusual or changes: one that loses rate with each further connection, and
//! links whose rate falls to a quarter and recovers.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use hakobu_testkit::link::{Crowding, LinkSettings};
use serde::{Deserialize, Serialize};

use super::super::session::say;
use super::cell::{CellContext, CellHosts};
use super::grid::{CellLoad, CellSetting};
use crate::table::MarkdownTable;

/// The numbers of lanes to compare. Neighbours are one step apart.
const COUNTS: [u16; 7] = [1, 2, 3, 4, 5, 6, 8];
/// The seconds of a run with a fixed number of lanes, and of one with default settings, which has to settle.
const CROWDED_FIXED_S: f64 = 10.0;
const CROWDED_S: f64 = 40.0;

const FULL_MBIT: u64 = 400;
const QUARTER_MBIT: u64 = FULL_MBIT / 4;
/// The times in seconds at which the rate falls, recovers, and a run is stopped.
const FALLS_S: f64 = 15.0;
const COMES_BACK_S: f64 = 40.0;
const ENDS_S: f64 = 60.0;
/// The time in seconds after a change at which the measurement starts, and its duration.
const AFTER_S: f64 = 10.0;
const WINDOW_S: f64 = 5.0;
const STEP_ROUND_TRIPS_MS: [u64; 2] = [20, 100];
const STEP_LANES: [u16; 3] = [4, 16, 32];

/// The required goodput of the default after a change, relative to the best fixed setting.
const AT_LEAST: f64 = 0.85;

/// The results.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChangeResults {
    pub commit: Option<String>,
    pub crowded: CrowdedLinkResult,
    pub stepped: Vec<RateChangeResult>,
}

/// A link of 100 Mbit/s that loses a tenth of its rate with each connection beyond four.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CrowdedLinkResult {
    /// The goodput in bytes per second for each number of lanes.
    pub fixed: Vec<(u16, f64)>,
    /// The number of lanes that the default ended with, and its messages about lanes.
    pub ended_with: u16,
    pub told: Vec<String>,
}

/// A link whose rate falls to a quarter and recovers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RateChangeResult {
    pub round_trip_ms: u64,
    /// Bytes per second from 10 s to 15 s after the fall, and after the recovery.
    pub default: [f64; 2],
    pub told: Vec<String>,
    pub fixed: Vec<(CellSetting, [f64; 2])>,
}

impl CrowdedLinkResult {
    fn best(&self) -> u16 {
        let best = self.fixed.iter().max_by(|one, other| one.1.total_cmp(&other.1));
        best.map_or(0, |(count, _)| *count)
    }

    /// Returns the distance in steps between the final and the best number of lanes.
    fn steps(&self) -> Option<usize> {
        let place = |wanted: u16| COUNTS.iter().position(|count| *count == wanted);
        Some(place(self.ended_with)?.abs_diff(place(self.best())?))
    }
}

impl RateChangeResult {
    /// Returns the goodput of the default relative to the best fixed setting after each change.
    fn ratios(&self) -> [f64; 2] {
        [0, 1].map(|window| {
            let best = self.fixed.iter().map(|(_, rates)| rates[window]).fold(0.0, f64::max);
            self.default[window] / best
        })
    }
}

impl ChangeResults {
    /// Returns true if all requirements are met.
    pub fn is_enough(&self) -> bool {
        self.crowded.steps().is_some_and(|steps| steps <= 1)
            && self.stepped.iter().flat_map(RateChangeResult::ratios).all(|ratio| ratio >= AT_LEAST)
    }

    /// Renders the results as a section of the page.
    pub fn page(&self) -> String {
        let megabytes = |rate: f64| format!("{:.1}", rate / 1e6);
        let mut text = String::from("\n## Where the best count is another\n\n");
        let commit = self.commit.as_deref().unwrap_or("unknown");
        let steps = self.crowded.steps().map_or("more than one step".to_owned(), |steps| match steps {
            1 => "1 step".to_owned(),
            steps => format!("{steps} steps"),
        });
        let (best, ended_with) = (self.crowded.best(), self.crowded.ended_with);
        let _ = writeln!(
            text,
            "A line of 100 Mbit/s, 20 ms, that loses a tenth of its rate with each connection over four. Best of the \
             fixed counts, {CROWDED_FIXED_S} s each: {best}. The default had {ended_with} after {CROWDED_S} s, {steps} \
             from it (at most 1). Commit {commit}.\n",
        );
        let mut table = MarkdownTable::new(["lanes", "MB/s"]);
        for (count, rate) in &self.crowded.fixed {
            table.push(vec![count.to_string(), megabytes(*rate)]);
        }
        let _ = writeln!(
            text,
            "{table}\nA line of {FULL_MBIT} Mbit/s that falls to {QUARTER_MBIT} after {FALLS_S} s and comes back \
             after {COMES_BACK_S} s; goodput in MB/s from {AFTER_S} s after each change on, for {WINDOW_S} s, against \
             the best fixed setting there (at least {AT_LEAST}).\n"
        );
        let mut table =
            MarkdownTable::new(["round trip", "settings", "fallen", "ratio", "come back", "ratio"]);
        for stepped in &self.stepped {
            let [fallen, back] = stepped.ratios().map(|ratio| format!("{ratio:.2}"));
            let rates = stepped.default.map(megabytes);
            table.push(vec![
                format!("{} ms", stepped.round_trip_ms),
                "default".to_owned(),
                rates[0].clone(),
                fallen,
                rates[1].clone(),
                back,
            ]);
            for (setting, rates) in &stepped.fixed {
                let [fallen, back] = rates.map(megabytes);
                table.push(vec![
                    String::new(),
                    format!("`{setting}`"),
                    fallen,
                    String::new(),
                    back,
                    String::new(),
                ]);
            }
        }
        text + &table.to_string()
    }
}

/// Measures these links.
///
/// # Errors
/// Returns an error for the same reasons as the measurement of a cell.
pub fn measure(context: &CellContext<'_>, commit: Option<String>) -> Result<ChangeResults> {
    let crowded = crowded(context)?;
    say(&format!("crowded: ended with {}, best {}", crowded.ended_with, crowded.best()));
    let mut stepped = Vec::new();
    for round_trip_ms in STEP_ROUND_TRIPS_MS {
        let measured = step(context, round_trip_ms)?;
        let [fallen, back] = measured.ratios();
        say(&format!("{round_trip_ms} ms, rate falls and comes back: {fallen:.2}, {back:.2}"));
        stepped.push(measured);
    }
    Ok(ChangeResults { commit, crowded, stepped })
}

fn crowded(context: &CellContext<'_>) -> Result<CrowdedLinkResult> {
    let settings = LinkSettings {
        rate_bits_per_second: Some(100_000_000),
        crowding: Some(Crowding { free: 4, share: 0.1 }),
        ..LinkSettings::with_rtt(Duration::from_millis(20))
    };
    let cell_hosts = CellHosts::up(context, settings, "bbr", CellLoad::OneFile)?;
    let mut fixed = Vec::new();
    for count in COUNTS {
        let setting = CellSetting { lanes: Some(count), compress: Some(false) };
        let run = cell_hosts.run_for(setting, Duration::from_secs_f64(CROWDED_FIXED_S), |_| Ok(()))?;
        fixed.push((count, run.goodput()));
    }
    let setting = CellSetting { lanes: None, compress: Some(false) };
    let run = cell_hosts.run_for(setting, Duration::from_secs_f64(CROWDED_S), |_| Ok(()))?;
    let ended_with = run.told.iter().rev().find_map(|line| lanes_told(line));
    let ended_with = ended_with.context("the default told nothing of its lanes")?;
    Ok(CrowdedLinkResult { fixed, ended_with, told: run.told })
}

/// Parses the number of lanes from `why: lanes: 4 instead of 5: …` or `why: lanes: 4, as before: …`.
fn lanes_told(line: &str) -> Option<u16> {
    let (_, after) = line.split_once("lanes: ")?;
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn step(context: &CellContext<'_>, round_trip_ms: u64) -> Result<RateChangeResult> {
    let settings = |mbit: u64| LinkSettings {
        rate_bits_per_second: Some(mbit * 1_000_000),
        // Keep the queue length of the full rate: a router's queue does not change with the rate.
        queue_bytes: Some(
            LinkSettings {
                rate_bits_per_second: Some(FULL_MBIT * 1_000_000),
                ..LinkSettings::with_rtt(Duration::from_millis(round_trip_ms))
            }
            .queue_limit_bytes(),
        ),
        ..LinkSettings::with_rtt(Duration::from_millis(round_trip_ms))
    };
    let cell_hosts = CellHosts::up(context, settings(FULL_MBIT), "bbr", CellLoad::OneFile)?;
    let rates = |setting: CellSetting| -> Result<([f64; 2], Vec<String>)> {
        cell_hosts.hosts.link()?.change(settings(FULL_MBIT))?;
        let mut seen: Vec<(f64, u64)> = Vec::new();
        let run = cell_hosts.run_for(setting, Duration::from_secs_f64(ENDS_S), |seconds| {
            let mbit = if (FALLS_S..COMES_BACK_S).contains(&seconds) { QUARTER_MBIT } else { FULL_MBIT };
            if cell_hosts.hosts.link()?.settings().rate_bits_per_second != Some(mbit * 1_000_000) {
                cell_hosts.hosts.link()?.change(settings(mbit))?;
            }
            seen.push((seconds, cell_hosts.stored_bytes()));
            Ok(())
        })?;
        let rate = |change_s: f64| {
            let at =
                |wanted: f64| seen.iter().find(|(seconds, _)| *seconds >= wanted).or(seen.last()).copied();
            let (from, to) = (at(change_s + AFTER_S), at(change_s + AFTER_S + WINDOW_S));
            from.zip(to)
                .map_or(0.0, |(from, to)| to.1.saturating_sub(from.1) as f64 / (to.0 - from.0).max(0.1))
        };
        Ok(([rate(FALLS_S), rate(COMES_BACK_S)], run.told))
    };
    let mut fixed = Vec::new();
    for lanes in STEP_LANES {
        let setting = CellSetting { lanes: Some(lanes), compress: Some(true) };
        fixed.push((setting, rates(setting)?.0));
    }
    let (default, told) = rates(CellSetting::DEFAULT)?;
    Ok(RateChangeResult { round_trip_ms, default, told, fixed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_at_the_end_is_what_was_told_last() {
        assert_eq!(lanes_told("why: lanes: 4 instead of 5: 9.1 MB/s with 4"), Some(4));
        assert_eq!(lanes_told("why: lanes: 16, as before: 1 MB/s with 20"), Some(16));
        assert_eq!(lanes_told("why: compression"), None);
    }

    #[test]
    fn one_step_off_is_enough_and_two_are_not() {
        let crowded = |ended_with| CrowdedLinkResult {
            fixed: vec![(1, 1.0), (3, 9.0), (4, 12.0), (5, 11.0)],
            ended_with,
            told: Vec::new(),
        };
        assert_eq!(
            [3, 4, 5, 6, 7].map(|count| crowded(count).steps()),
            [Some(1), Some(0), Some(1), Some(2), None]
        );
        let stepped = RateChangeResult {
            round_trip_ms: 20,
            default: [9.0, 40.0],
            told: Vec::new(),
            fixed: vec![(CellSetting::DEFAULT, [10.0, 20.0]), (CellSetting::DEFAULT, [1.0, 50.0])],
        };
        assert_eq!(stepped.ratios(), [0.9, 0.8]);
        let changes = ChangeResults { commit: None, crowded: crowded(4), stepped: vec![stepped] };
        assert!(!changes.is_enough());
    }
}
