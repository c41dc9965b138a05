//! Brokers side by side, on a tree whose operations take long.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use hakobu_testkit::nats::{NatsConfiguration, NatsServer};
use hakobu_testkit::slow_fs::SlowFs;

use super::FleetBench;
use super::process_meter::MachineTicks;
use super::results::{FleetBound, FleetRow};
use super::served::{FleetProcess, ServedFleet};
use crate::bench::scratch_space::remove;
use crate::bench::session::say;
use crate::bench::sources::BenchSource;

const GROUP: &str = "bench";
const FILES: u64 = 200_000;
const FILE_BYTES: u64 = 10 << 10;
/// The numbers of brokers, and the least efficiency of each.
const COUNTS: [(u64, f64); 4] = [(1, 1.0), (2, 0.97), (4, 0.95), (8, 0.9)];
/// Shows a broker its own file system at a path that is the same for all.
const OWN_MOUNT: &str = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";

/// A number of brokers, as it was measured.
struct ScalingCell {
    seconds: f64,
    busy: f64,
}

impl FleetBench<'_> {
    /// Measures 1, 2, 4 and 8 brokers, in turns.
    pub(super) fn brokers(&self) -> Result<Vec<FleetRow>> {
        let files = self.sized(FILES);
        let source = BenchSource::Tree { files, directories: files.div_ceil(100), file_bytes: FILE_BYTES };
        self.prepared.scratch.check_room(&[source], source.memory_bytes())?;
        let backing = self.prepared.scratch.source(source)?;
        let mut cells: Vec<Vec<ScalingCell>> = COUNTS.iter().map(|_| Vec::new()).collect();
        for round in 0..self.args.rounds {
            for ((count, _), cells) in COUNTS.iter().zip(&mut cells) {
                let cell = self.side_by_side(&backing, *count, files)?;
                let busy = cell.busy * 100.0;
                say(&format!(
                    "{count} brokers, round {}: {:.1} s, {busy:.0} % busy",
                    round + 1,
                    cell.seconds
                ));
                cells.push(cell);
            }
        }
        self.prepared.scratch.forget(source);
        let ones: Vec<f64> = cells.first().into_iter().flatten().map(|cell| cell.seconds).collect();
        let rows = COUNTS.iter().zip(&cells).map(|((count, least), cells)| {
            let factors = cells.iter().zip(&ones).map(|(cell, one)| one / cell.seconds).collect();
            let busy = cells.iter().map(|cell| cell.busy).fold(0.0, f64::max) * 100.0;
            let seconds: Vec<String> = cells.iter().map(|cell| format!("{:.1}", cell.seconds)).collect();
            let article = match count {
                2 => "; the article's two brokers: 1.96",
                4 => "; the article's three brokers: 2.9",
                _ => "",
            };
            let bound = match count {
                1 => FleetBound::Any,
                count => FleetBound::AtLeast(least * *count as f64),
            };
            FleetRow {
                title: format!(
                    "{files} files of 10 KiB, {} ms an operation, brokers: {count}",
                    self.args.delay_ms
                ),
                unit: "×",
                values: factors,
                bound,
                notes: format!("{} s; processors {busy:.0} % busy{article}", seconds.join(", ")),
            }
        });
        Ok(rows.collect())
    }

    /// Has so many brokers copy the tree.
    fn side_by_side(&self, backing: &Path, count: u64, files: u64) -> Result<ScalingCell> {
        let (scratch, program) = (&self.prepared.scratch, &self.prepared.program);
        let nats = NatsServer::start(&NatsConfiguration::default()).context("starting nats-server")?;
        let url = nats.url();
        let fleet =
            ServedFleet::start(scratch, program, &["--no-broker", "--nats", &url, "--nats-group", GROUP])?;
        let shown = scratch.memory().join("shown");
        fs::create_dir_all(&shown)?;
        let (mut mounts, mut brokers) = (Vec::new(), Vec::new());
        for number in 0..count {
            let at = scratch.memory().join(format!("slow-{number}"));
            fs::create_dir_all(&at)?;
            mounts.push(SlowFs::mount(&at, backing, Duration::from_millis(self.args.delay_ms))?);
            let name = format!("b{number}");
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", OWN_MOUNT, "sh"]).arg(&at).arg(&shown).arg(program);
            command.args(["broker", "--nats", &url, "--group", GROUP, "--name", &name]);
            let state = scratch.memory().join(format!("state-{number}"));
            fs::create_dir_all(&state)?;
            command.env("HAKOBU_STATE", state).env("HAKOBU_SETTINGS", "none");
            brokers.push(FleetProcess::start(command, scratch.tools().join(format!("{name}.log")))?);
        }
        fleet.wait_for_brokers(brokers.len())?;
        scratch.clear_targets()?;
        let target = scratch.target("fleet", crate::bench::sources::Medium::Memory);
        let before = MachineTicks::now()?;
        let run = fleet.copy(GROUP, &shown, &target, &["--lanes", &self.args.lanes.to_string()])?;
        let seconds = fleet.finish(scratch, run, files)?;
        let busy = MachineTicks::now()?.share_since(before);
        drop(brokers);
        drop(mounts);
        for number in 0..count {
            remove(&scratch.memory().join(format!("slow-{number}")));
        }
        scratch.clear_targets()?;
        Ok(ScalingCell { seconds, busy })
    }
}
