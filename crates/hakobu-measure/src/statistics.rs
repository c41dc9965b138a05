//! Statistics of repeated runs.
//!
//! Medians and ranks only: wall-clock times have a long tail to one side, and
//! one disturbed round must not move a figure. Tools are compared by the median
//! of the *ratios within each round*, since rounds are interleaved and whatever
//! slows the machine for a while slows both sides of a ratio.

use serde::{Deserialize, Serialize};

/// The middle value, or the mean of the two middle ones. `None` where `values`
/// is empty or holds one that is not finite.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value below which a `share` (0 to 1) of the values lies, linear between
/// neighbours (the common "type 7"). `None` where `values` is empty or holds
/// one that is not finite, or `share` is outside 0 to 1.
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    sorted(values).and_then(|sorted| quantile_of_sorted(&sorted, share))
}

/// The median of the distances from the median: a spread that one outlier does
/// not move. Not scaled to a standard deviation. `None` as for [`median`].
#[must_use]
pub fn median_absolute_deviation(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&distances)
}

/// `numerator[i] / denominator[i]` for every round. `None` where the lengths
/// differ, a ratio would not be finite, or there are no rounds.
#[must_use]
pub fn paired_ratios(numerator: &[f64], denominator: &[f64]) -> Option<Vec<f64>> {
    if numerator.len() != denominator.len() || numerator.is_empty() {
        return None;
    }
    let ratios: Vec<f64> = numerator.iter().zip(denominator).map(|(above, below)| above / below).collect();
    ratios.iter().all(|ratio| ratio.is_finite()).then_some(ratios)
}

/// The median of [`paired_ratios`].
#[must_use]
pub fn median_ratio(numerator: &[f64], denominator: &[f64]) -> Option<f64> {
    median(&paired_ratios(numerator, denominator)?)
}

fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(sorted)
}

fn quantile_of_sorted(sorted: &[f64], share: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&share) {
        return None;
    }
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (place.floor(), place.ceil());
    let lower = *sorted.get(below as usize)?;
    let upper = *sorted.get(above as usize)?;
    Some(lower + (upper - lower) * (place - below))
}

/// A row of figures in short.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many values there were; at least one.
    pub count: usize,
    /// The smallest.
    pub min: f64,
    /// The middle.
    pub median: f64,
    /// The largest.
    pub max: f64,
    /// The spread, see [`median_absolute_deviation`].
    pub median_absolute_deviation: f64,
}

impl Summary {
    /// Summarises `values`. `None` as for [`median`].
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let ordered = sorted(values)?;
        Some(Self {
            count: ordered.len(),
            min: *ordered.first()?,
            median: quantile_of_sorted(&ordered, 0.5)?,
            max: *ordered.last()?,
            median_absolute_deviation: median_absolute_deviation(values)?,
        })
    }
}

/// What a row's figures are, and so which direction is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unit {
    /// Seconds; less is better.
    Seconds,
    /// Bytes (of memory, on the wire); less is better.
    Bytes,
    /// Bytes per second; more is better.
    BytesPerSecond,
    /// Files per second; more is better.
    FilesPerSecond,
}

impl Unit {
    /// Whether a larger figure is the better one.
    #[must_use]
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::BytesPerSecond | Self::FilesPerSecond)
    }
}

/// One way of doing something, measured once per round.
///
/// The rows of a table share their rounds: `rounds[i]` of all rows were measured
/// one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchRow {
    /// What was measured, as the table shows it.
    pub name: String,
    /// The exact command line, paths as `$SOURCE`, `$TARGET`, `$HOST`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What the figures are.
    pub unit: Unit,
    /// One figure per round, in the order measured.
    pub rounds: Vec<f64>,
    /// Why there are no figures, where there are none: the tool is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

impl BenchRow {
    /// The figures in short; `None` where there are none.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        Summary::of(&self.rounds)
    }

    /// How many times better this row is than `other`: the median of the ratios
    /// of each round, turned so that above 1 is better whatever the unit.
    /// `None` where the units or the numbers of rounds differ.
    #[must_use]
    pub fn times_better_than(&self, other: &Self) -> Option<f64> {
        if self.unit != other.unit {
            return None;
        }
        if self.unit.more_is_better() {
            median_ratio(&self.rounds, &other.rounds)
        } else {
            median_ratio(&other.rounds, &self.rounds)
        }
    }
}

/// A table of rows measured side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchTable {
    /// What was measured, and on what data.
    pub title: String,
    /// The rows, in the order shown.
    pub rows: Vec<BenchRow>,
}

impl BenchTable {
    /// The row called `name`.
    #[must_use]
    pub fn row(&self, name: &str) -> Option<&BenchRow> {
        self.rows.iter().find(|row| row.name == name)
    }
}

#[cfg(test)]
#[path = "statistics_tests.rs"]
mod tests;
