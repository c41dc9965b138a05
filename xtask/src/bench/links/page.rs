//! Renders the grid as a page and as a chart.

use std::fmt::Write;

use hakobu_measure::statistics::median;

use super::cell::{CellResult, mean};
use super::changes::ChangeResults;
use super::grid::{CellLoad, CellSetting};
use super::results::LinksResults;
use crate::bench::svg::{BarChart, ChartBar, colour};
use crate::table::MarkdownTable;

/// The required goodput of the default relative to the best setting, in each cell and in the median.
pub const EACH_AT_LEAST: f64 = 0.85;
pub const MEDIAN_AT_LEAST: f64 = 0.95;
/// The share of a core above which the emulator competes with what is measured.
const EMULATOR_CORES_MOST: f64 = 0.25;

const METHOD: &str = "\
Both ends are on this machine, in network namespaces that the emulated link joins; a server of its own logs the near end
in. What travels is pseudorandom with zeros in each block of 4 KiB, which compresses to half: one large file, or 10 000
files of 8 KiB. A run is ended after 15 s, or ends before; its goodput are the bytes that lie at the target then, divided
by the time since `hakobu` was started, login and all. Each fixed setting (`--lanes` 1, 4, 16, 32, `--compress` none and
zstd) is run once; then the default and the best of them twice anew, in turn, and the ratio is that of the means of these.
Lines of 100 Mbit/s have an MTU of 1500, faster ones of 9000; the queue holds what is on its method in a round trip, or 1 MB.
";

/// Returns the page.
pub fn page(results: &LinksResults) -> String {
    let machine = &results.machine;
    let mut page = String::from("# Default settings against a grid of fixed ones\n\n");
    page.push_str("Made by `cargo xtask bench links`; it writes all runs to `links.json`.\n\n");
    let _ = writeln!(
        page,
        "{}, {} cores, {:.1} GiB of memory, Linux {}.\n\n![chart](links.svg)\n",
        machine.cpu,
        machine.cores,
        machine.memory_bytes as f64 / f64::from(1 << 30),
        machine.kernel
    );
    page.push_str(&summary(&results.cells));
    for name in ["bbr", "cubic"] {
        for load in [CellLoad::OneFile, CellLoad::SmallFiles] {
            let here = |measured: &&CellResult| {
                measured.cell.congestion_control == name && measured.cell.load == load
            };
            let cells: Vec<&CellResult> = results.cells.iter().filter(here).collect();
            if !cells.is_empty() {
                let _ = write!(page, "\n## {name}, {}\n\n{}", load.words(), table(&cells));
            }
        }
    }
    if let Some(changes) = &results.changes {
        page.push_str(&changes.page());
    }
    page.push_str("\n## How it is measured\n\n");
    page.push_str(METHOD);
    page
}

/// Returns true if the default meets all requirements.
pub fn is_enough(results: &LinksResults) -> bool {
    let ratios: Vec<f64> = results.cells.iter().map(CellResult::ratio).collect();
    ratios.iter().all(|ratio| *ratio >= EACH_AT_LEAST)
        && median(&ratios).is_none_or(|middle| middle >= MEDIAN_AT_LEAST)
        && results.changes.as_ref().is_none_or(ChangeResults::is_enough)
}

/// Summarizes minimum and median for each congestion control, and the accuracy of the emulator.
pub fn summary(cells: &[CellResult]) -> String {
    let mut text = String::new();
    for name in ["bbr", "cubic"] {
        let here = cells.iter().filter(|measured| measured.cell.congestion_control == name);
        let ratios: Vec<f64> = here.map(CellResult::ratio).collect();
        let (Some(middle), Some(least)) = (median(&ratios), ratios.iter().copied().reduce(f64::min)) else {
            continue;
        };
        let below = ratios.iter().filter(|ratio| **ratio < EACH_AT_LEAST).count();
        let _ = writeln!(
            text,
            "{name}, {} cells: median {middle:.2} (at least {MEDIAN_AT_LEAST}), least {least:.2} (at least \
             {EACH_AT_LEAST}), {below} below.\n",
            ratios.len()
        );
    }
    let most = |of: fn(&CellResult) -> f64| cells.iter().map(of).fold(0.0, f64::max);
    let busy = cells.iter().filter(|measured| measured.emulator_cores > EMULATOR_CORES_MOST).count();
    let _ = writeln!(
        text,
        "The emulator took at most {:.2} of a core ({busy} cells over {EMULATOR_CORES_MOST}); packets came at most \
         {:.1} ms late.",
        most(|measured| measured.emulator_cores),
        most(|measured| measured.late_most_ms)
    );
    text
}

fn table(cells: &[&CellResult]) -> MarkdownTable {
    let mut headings = vec!["link".to_owned()];
    headings.extend(CellSetting::fixed().map(|setting| {
        let compression = if setting.compress == Some(true) { " zstd" } else { "" };
        format!("{}{compression}", setting.lanes.unwrap_or_default())
    }));
    headings.extend(["best anew", "default", "ratio", "commit"].map(str::to_owned));
    let mut table = MarkdownTable::new(headings.iter().map(String::as_str));
    let figure = |bytes_per_second: f64| format!("{:.1}", bytes_per_second / 1e6);
    for measured in cells {
        let cell = &measured.cell;
        let mut row =
            vec![format!("{} Mbit/s, {} ms, {} %", cell.rate_mbit, cell.round_trip_ms, cell.loss_percent)];
        row.extend(CellSetting::fixed().map(|setting| {
            let found = measured.fixed.iter().find(|fixed| fixed.setting == setting);
            found.map_or_else(String::new, |fixed| figure(fixed.run.goodput()))
        }));
        row.push(figure(mean(&measured.best_runs)));
        row.push(figure(mean(&measured.default_runs)));
        let ratio = measured.ratio();
        let mark = if ratio < EACH_AT_LEAST { " **below**" } else { "" };
        row.push(format!("{ratio:.2}{mark}"));
        row.push(measured.commit.clone().unwrap_or_default());
        table.push(row);
    }
    table
}

/// The ratio at the end of the bars.
const RATIO_MOST: f64 = 1.2;

/// Returns a chart with the ratio of each cell as a bar, and a line at the requirement.
pub fn chart(results: &LinksResults) -> String {
    let share = |ratio: f64| (ratio / RATIO_MOST).clamp(0.0, 1.0);
    let bar = |measured: &CellResult| ChartBar {
        label: measured.cell.to_string(),
        value: Some((share(measured.ratio()), format!("{:.2}", measured.ratio()))),
        colour: colour(false, measured.ratio() >= EACH_AT_LEAST),
        tick: None,
    };
    let chart = BarChart {
        title: "Goodput of the default, relative to the best fixed setting".to_owned(),
        key: format!("dashed: {EACH_AT_LEAST}, which each has to reach, and 1"),
        bars: results.cells.iter().map(bar).collect(),
        lines: vec![share(EACH_AT_LEAST), share(1.0)],
    };
    chart.document()
}
