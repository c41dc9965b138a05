//! The results of a fleet, and their bounds.

use hakobu_measure::statistics::median;
use serde::Serialize;

use super::super::machine::Machine;

/// All results, as they are written.
#[derive(Debug, Serialize)]
pub(super) struct FleetBenchResults {
    pub(super) schema: &'static str,
    pub(super) bench: &'static str,
    pub(super) quick: bool,
    pub(super) machine: Machine,
    pub(super) hakobu: String,
    pub(super) rows: Vec<FleetRow>,
}

/// The bound of a value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FleetBound {
    AtLeast(f64),
    AtMost(f64),
    /// Nothing: it is for information.
    Any,
}

/// A row, which is judged by the median of its values.
#[derive(Debug, Clone, Serialize)]
pub(super) struct FleetRow {
    pub(super) title: String,
    pub(super) unit: &'static str,
    pub(super) values: Vec<f64>,
    pub(super) bound: FleetBound,
    /// Further facts about the measurement.
    pub(super) notes: String,
}

impl FleetRow {
    pub(super) fn value(&self) -> f64 {
        median(&self.values).unwrap_or(f64::NAN)
    }

    pub(super) fn is_met(&self) -> bool {
        let value = self.value();
        match self.bound {
            FleetBound::AtLeast(least) => value >= least,
            FleetBound::AtMost(most) => value <= most,
            FleetBound::Any => true,
        }
    }

    /// Returns the value with its unit.
    pub(super) fn shown(&self) -> String {
        figure(self.value(), self.unit)
    }

    /// Returns the bound with its unit.
    pub(super) fn bound(&self) -> String {
        match self.bound {
            FleetBound::AtLeast(least) => format!("≥ {}", figure(least, self.unit)),
            FleetBound::AtMost(most) => format!("≤ {}", figure(most, self.unit)),
            FleetBound::Any => "–".to_owned(),
        }
    }
}

/// Returns a value with three digits at least, and its unit.
pub(super) fn figure(value: f64, unit: &str) -> String {
    let number = if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    format!("{number} {unit}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_judged_by_its_median() {
        let row = |values: &[f64], bound| FleetRow {
            title: "title".to_owned(),
            unit: "ms",
            values: values.to_vec(),
            bound,
            notes: String::new(),
        };
        let least = row(&[3.0, 0.5, 1.0], FleetBound::AtLeast(1.0));
        assert!(least.is_met());
        assert_eq!((least.shown(), least.bound()), ("1.00 ms".to_owned(), "≥ 1.00 ms".to_owned()));
        assert!(!row(&[120.0], FleetBound::AtMost(100.0)).is_met());
        assert!(!row(&[], FleetBound::AtLeast(0.0)).is_met() && row(&[], FleetBound::Any).is_met());
    }
}
