//! Statistics of repeated runs.
//!
//! Only medians and ranks are used: wall-clock times have a long tail to one side, and one disturbed round must not
//! change a figure. Tools are compared by the median of the *ratios within each round*. Rounds are interleaved, so a
//! slower phase of the machine affects both sides of a ratio.

use serde::{Deserialize, Serialize};

/// Returns the middle value, or the mean of the two middle ones. `None` if `values` is empty or contains a non-finite
/// value.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Returns the value below which a `share` (0 to 1) of the values lies, with linear interpolation ("type 7"). `None`
/// if `values` is empty or contains a non-finite value, or `share` is outside 0 to 1.
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    sorted(values).and_then(|sorted| quantile_of_sorted(&sorted, share))
}

/// Returns the median of the absolute deviations from the median, a measure of spread that one outlier does not
/// change. Not scaled to a standard deviation. `None` as for [`median`].
#[must_use]
pub fn median_absolute_deviation(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&distances)
}

/// Returns `numerator[i] / denominator[i]` for every round. `None` if the lengths differ, a ratio would not be
/// finite, or there are no rounds.
#[must_use]
pub fn paired_ratios(numerator: &[f64], denominator: &[f64]) -> Option<Vec<f64>> {
    if numerator.len() != denominator.len() || numerator.is_empty() {
        return None;
    }
    let ratios: Vec<f64> = numerator.iter().zip(denominator).map(|(above, below)| above / below).collect();
    ratios.iter().all(|ratio| ratio.is_finite()).then_some(ratios)
}

/// Returns the median of [`paired_ratios`].
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

/// A summary of a list of values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The number of values; at least one.
    pub count: usize,
    /// The smallest value.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The largest value.
    pub max: f64,
    /// The spread, see [`median_absolute_deviation`].
    pub median_absolute_deviation: f64,
}

impl Distribution {
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

/// The unit of a row's figures, which determines whether more or less is better.
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
    /// Returns true if a larger figure is better.
    #[must_use]
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::BytesPerSecond | Self::FilesPerSecond)
    }
}

/// One method, measured once per round.
///
/// The rows of a table share their rounds: `rounds[i]` of all rows were measured one after another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchRow {
    /// The name of the method, as shown in the table.
    pub name: String,
    /// The exact command line, with paths as `$SOURCE`, `$TARGET`, `$HOST`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The unit of the figures.
    pub unit: Unit,
    /// One figure per round, in chronological order.
    pub rounds: Vec<f64>,
    /// The reason why there are no figures, if there are none: the tool is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

impl BenchRow {
    /// Returns a summary of the figures; `None` if there are none.
    #[must_use]
    pub fn summary(&self) -> Option<Distribution> {
        Distribution::of(&self.rounds)
    }

    /// Returns how many times better this row is than `other`: the median of the ratios per round, inverted if less
    /// is better. `None` if the units or the numbers of rounds differ.
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

/// A table of rows that were measured side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchTable {
    /// The measured operation and its data.
    pub title: String,
    /// The rows, in display order.
    pub rows: Vec<BenchRow>,
}

impl BenchTable {
    /// Returns the row called `name`.
    #[must_use]
    pub fn row(&self, name: &str) -> Option<&BenchRow> {
        self.rows.iter().find(|row| row.name == name)
    }
}

#[cfg(test)]
#[path = "statistics_tests.rs"]
mod tests;
