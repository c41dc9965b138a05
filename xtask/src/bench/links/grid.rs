//! The grid: the links, the data copied over them, and the settings.

use std::fmt;
use std::time::Duration;

use hakobu_testkit::link::LinkSettings;
use serde::{Deserialize, Serialize};

/// The MTU of slow links, as on Ethernet. On fast links such small packets would overload the emulator.
const MTU_SLOW: u32 = 1500;
const MTU_FAST: u32 = 9000;
/// The highest rate of a slow link.
pub const SLOW_MBIT: u64 = 100;

const RATES_MBIT: [u64; 2] = [100, 1000];
const ROUND_TRIPS_MS: [u64; 4] = [0, 20, 100, 200];
const LOSSES_PERCENT: [f64; 3] = [0.0, 0.1, 1.0];
/// The reduced grid for cubic: only the corners.
const CUBIC_ROUND_TRIPS_MS: [u64; 2] = [20, 100];
const CUBIC_LOSSES_PERCENT: [f64; 2] = [0.0, 1.0];

/// The lanes of the fixed settings.
const LANES: [u16; 4] = [1, 4, 16, 32];

/// The data that is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellLoad {
    OneFile,
    SmallFiles,
}

impl CellLoad {
    pub fn words(self) -> &'static str {
        match self {
            Self::OneFile => "one file",
            Self::SmallFiles => "small files",
        }
    }
}

/// A link and the data copied over it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub rate_mbit: u64,
    pub round_trip_ms: u64,
    pub loss_percent: f64,
    pub congestion_control: String,
    pub load: CellLoad,
}

impl Cell {
    /// Returns all cells.
    pub fn all() -> Vec<Self> {
        let mut cells = grid("bbr", &ROUND_TRIPS_MS, &LOSSES_PERCENT);
        cells.extend(grid("cubic", &CUBIC_ROUND_TRIPS_MS, &CUBIC_LOSSES_PERCENT));
        cells
    }

    pub fn is_slow(&self) -> bool {
        self.rate_mbit <= SLOW_MBIT
    }

    /// Returns the settings of the emulated link.
    pub fn link(&self) -> LinkSettings {
        LinkSettings {
            rate_bits_per_second: Some(self.rate_mbit * 1_000_000),
            loss: self.loss_percent / 100.0,
            mtu: if self.is_slow() { MTU_SLOW } else { MTU_FAST },
            ..LinkSettings::with_rtt(Duration::from_millis(self.round_trip_ms))
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate_mbit, round_trip_ms, loss_percent, congestion_control, load } = self;
        let load = load.words();
        write!(
            out,
            "{rate_mbit} Mbit/s, {round_trip_ms} ms, {loss_percent} % lost, {congestion_control}, {load}"
        )
    }
}

fn grid(congestion_control: &str, round_trips_ms: &[u64], losses_percent: &[f64]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for rate_mbit in RATES_MBIT {
        for round_trip_ms in round_trips_ms {
            for loss_percent in losses_percent {
                cells.extend([CellLoad::OneFile, CellLoad::SmallFiles].map(|load| Cell {
                    rate_mbit,
                    round_trip_ms: *round_trip_ms,
                    loss_percent: *loss_percent,
                    congestion_control: congestion_control.to_owned(),
                    load,
                }));
            }
        }
    }
    cells
}

/// The lanes and the compression of a run. The default sets neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellSetting {
    pub lanes: Option<u16>,
    pub compress: Option<bool>,
}

impl CellSetting {
    pub const DEFAULT: Self = Self { lanes: None, compress: None };

    /// Returns the fixed settings, the best of which the default is compared with.
    pub fn fixed() -> impl Iterator<Item = Self> {
        [false, true]
            .into_iter()
            .flat_map(|compress| LANES.map(|lanes| Self { lanes: Some(lanes), compress: Some(compress) }))
    }

    /// Returns the options of `hakobu copy`.
    pub fn arguments(self) -> Vec<String> {
        let lanes = self.lanes.map(|lanes| ["--lanes".to_owned(), lanes.to_string()]);
        let compress = self
            .compress
            .map(|is_on| ["--compress".to_owned(), (if is_on { "zstd" } else { "none" }).to_owned()]);
        lanes.into_iter().chain(compress).flatten().collect()
    }
}

impl fmt::Display for CellSetting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.arguments().join(" ") {
            nothing if nothing.is_empty() => out.write_str("default"),
            arguments => out.write_str(&arguments),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_is_whole() {
        let cells = Cell::all();
        let count = |name| cells.iter().filter(|cell| cell.congestion_control == name).count();
        assert_eq!((count("bbr"), count("cubic")), (48, 16));
        let first = "100 Mbit/s, 0 ms, 0 % lost, bbr, one file";
        assert_eq!(cells[0].to_string(), first);
        assert!(cells.iter().skip(1).all(|cell| cell.to_string() != first));
    }

    #[test]
    fn settings_are_options() {
        let fixed: Vec<String> = CellSetting::fixed().map(|setting| setting.to_string()).collect();
        assert_eq!(fixed.len(), 8);
        assert_eq!(
            (fixed[0].as_str(), fixed[7].as_str()),
            ("--lanes 1 --compress none", "--lanes 32 --compress zstd")
        );
        assert_eq!(CellSetting::DEFAULT.to_string(), "default");
        assert!(CellSetting::DEFAULT.arguments().is_empty());
    }
}
