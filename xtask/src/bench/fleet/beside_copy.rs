//! `hakobu serve` with its built-in broker, beside `hakobu copy`.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::FleetBench;
use super::results::{FleetBound, FleetRow};
use super::served::ServedFleet;
use crate::bench::session::say;
use crate::bench::sources::{BenchSource, Medium};

const FILES: u64 = 200_000;
const FILE_BYTES: u64 = 10 << 10;
const LEAST: f64 = 0.9;

impl FleetBench<'_> {
    /// Measures both in turns.
    pub(super) fn beside_copy(&self) -> Result<Vec<FleetRow>> {
        let (scratch, program) = (&self.prepared.scratch, &self.prepared.program);
        let files = self.sized(FILES);
        let source = BenchSource::Tree { files, directories: files.div_ceil(100), file_bytes: FILE_BYTES };
        scratch.check_room(&[source], source.memory_bytes())?;
        let from = scratch.source(source)?;
        scratch.warm(2 * source.memory_bytes())?;
        let target = scratch.target("fleet", Medium::Memory);
        let (mut ratios, mut times) = (Vec::new(), Vec::new());
        for round in 0..self.args.rounds {
            scratch.go_on()?;
            scratch.clear_targets()?;
            let began = Instant::now();
            let mut copy = Command::new(program);
            copy.arg("copy").arg(from.join("")).arg(&target).env("HAKOBU_SETTINGS", "none");
            let output = copy.stdin(Stdio::null()).output().context("running hakobu copy")?;
            let alone = began.elapsed().as_secs_f64();
            ensure!(
                output.status.success(),
                "hakobu copy failed: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            scratch.clear_targets()?;
            let fleet = ServedFleet::start(scratch, program, &[])?;
            fleet.wait_for_brokers(1)?;
            let run = fleet.copy("local", &from, &target, &[])?;
            let shared = fleet.finish(scratch, run, files)?;
            say(&format!("round {}: copy {alone:.2} s, serve {shared:.2} s", round + 1));
            ratios.push(alone / shared);
            times.push(format!("{alone:.2}/{shared:.2}"));
        }
        scratch.clear_targets()?;
        scratch.forget(source);
        Ok(vec![FleetRow {
            title: format!("serve with one broker beside hakobu copy, {files} files of 10 KiB"),
            unit: "×",
            values: ratios,
            bound: FleetBound::AtLeast(LEAST),
            notes: format!("{} s", times.join(", ")),
        }])
    }
}
