//! Files with two names each, copied by four brokers: what they are at the target, and the memory that it takes.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hakobu_testkit::nats::{NatsConfiguration, NatsServer};
use serde_json::Value;

use super::FleetBench;
use super::process_meter::peak_bytes;
use super::results::{FleetBound, FleetRow};
use super::served::{FleetProcess, ServedFleet};
use crate::bench::scratch_space::remove;
use crate::bench::session::say;
use crate::bench::sources::Medium;

const GROUP: &str = "bench";
const FILES: u64 = 200_000;
/// The divisor of the number of files that the memory is compared with.
const FEWER: u64 = 10;
const BROKERS: u64 = 4;
const DIRECTORIES: u64 = 199;
/// The most memory with all files, over that with fewer.
const GROWTH: f64 = 1.5;
const MIB: f64 = 1_048_576.0;

/// The names of one file, by the paths below the root, in order.
type NamesOfFiles = Vec<Vec<PathBuf>>;

/// A number of files, as it was measured.
struct LinkCell {
    seconds: f64,
    /// The names that are linked as at the source.
    right: u64,
    written_bytes: f64,
    source_bytes: f64,
    serve_bytes: f64,
    broker_bytes: f64,
}

impl FleetBench<'_> {
    /// Measures a small number of files, and a large one.
    pub(super) fn hard_links(&self) -> Result<Vec<FleetRow>> {
        let files = self.sized(FILES);
        let few = self.linked(files / FEWER)?;
        let many = self.linked(files)?;
        let names = 2 * files;
        let row = |title: &str, unit, value, bound, notes| FleetRow {
            title: format!("{files} files with two names each, {BROKERS} brokers: {title}"),
            unit,
            values: vec![value],
            bound,
            notes,
        };
        let right = many.right as f64 / names as f64;
        let written = many.written_bytes / many.source_bytes;
        let (serve, broker) = (many.serve_bytes / few.serve_bytes, many.broker_bytes / few.broker_bytes);
        let rate = format!("{:.1} s, {:.0} names/s", many.seconds, names as f64 / many.seconds);
        let memory = |few: f64, many: f64| format!("{:.0} MiB, {:.0} MiB", few / MIB, many / MIB);
        Ok(vec![
            row("names that are linked as at the source", "×", right, FleetBound::AtLeast(1.0), rate),
            row(
                "bytes written, over those of the files",
                "×",
                written,
                FleetBound::AtMost(1.0),
                format!("{:.0} bytes", many.written_bytes),
            ),
            row(
                "memory of serve, over that with a tenth of the files",
                "×",
                serve,
                FleetBound::AtMost(GROWTH),
                memory(few.serve_bytes, many.serve_bytes),
            ),
            row(
                "memory of the largest broker, over that with a tenth of the files",
                "×",
                broker,
                FleetBound::AtMost(GROWTH),
                memory(few.broker_bytes, many.broker_bytes),
            ),
        ])
    }

    fn linked(&self, files: u64) -> Result<LinkCell> {
        let (scratch, program) = (&self.prepared.scratch, &self.prepared.program);
        let source = scratch.memory().join("linked");
        remove(&source);
        let source_bytes = make(&source, files)?;
        let nats = NatsServer::start(&NatsConfiguration::default()).context("starting nats-server")?;
        let url = nats.url();
        let fleet =
            ServedFleet::start(scratch, program, &["--no-broker", "--nats", &url, "--nats-group", GROUP])?;
        let mut brokers = Vec::new();
        for number in 0..BROKERS {
            let name = format!("b{number}");
            let state = scratch.memory().join(format!("state-{number}"));
            fs::create_dir_all(&state)?;
            let mut command = Command::new(program);
            command.args(["broker", "--nats", &url, "--group", GROUP, "--name", &name]);
            command.env("HAKOBU_STATE", state).env("HAKOBU_SETTINGS", "none");
            brokers.push(FleetProcess::start(command, scratch.tools().join(format!("{name}.log")))?);
        }
        fleet.wait_for_brokers(brokers.len())?;
        scratch.clear_targets()?;
        let target = scratch.target("fleet", Medium::Memory);
        let run = fleet.copy(GROUP, &source, &target, &[])?;
        let seconds = fleet.finish(scratch, run, files)?;
        let serve_bytes = peak_bytes(fleet.id())?;
        let peaks: Vec<f64> = brokers.iter().map(|broker| peak_bytes(broker.id())).collect::<Result<_>>()?;
        let view: Value = fleet.client.get(&format!("/api/v1/runs/{run}"))?;
        let written_bytes =
            view["counters"]["target_written_bytes"].as_u64().context("nothing is counted")?;
        let wanted = names(&source)?;
        let found = names(&target)?;
        ensure!(wanted.len() as u64 == files, "the source has {} files, not {files}", wanted.len());
        let right =
            found.iter().filter(|group| wanted.binary_search(group).is_ok()).map(Vec::len).sum::<usize>();
        say(&format!("{files} files with two names each: {seconds:.1} s, {right} names are right"));
        scratch.clear_targets()?;
        remove(&source);
        Ok(LinkCell {
            seconds,
            right: right as u64,
            written_bytes: written_bytes as f64,
            source_bytes: source_bytes as f64,
            serve_bytes,
            broker_bytes: peaks.into_iter().fold(0.0, f64::max),
        })
    }
}

/// Makes files whose two names are in directories of different units. Returns the bytes of their content.
fn make(root: &Path, files: u64) -> Result<u64> {
    for number in 0..DIRECTORIES {
        fs::create_dir_all(root.join(format!("d{number}")))?;
    }
    let mut bytes = 0;
    for number in 0..files {
        let text = format!("the content of file {number}\n");
        let one = root.join(format!("d{}/a{number}", number % DIRECTORIES));
        fs::write(&one, &text)?;
        fs::hard_link(&one, root.join(format!("d{}/b{number}", number.wrapping_mul(31) % DIRECTORIES)))?;
        bytes += text.len() as u64;
    }
    Ok(bytes)
}

/// Returns the names of each file below a root, as the file system has them, in order.
fn names(root: &Path) -> Result<NamesOfFiles> {
    let mut files: HashMap<u64, Vec<PathBuf>> = HashMap::new();
    for directory in fs::read_dir(root)? {
        for entry in fs::read_dir(directory?.path())? {
            let entry = entry?;
            let name = entry.path().strip_prefix(root)?.to_owned();
            files.entry(entry.metadata()?.ino()).or_default().push(name);
        }
    }
    let mut files: NamesOfFiles = files.into_values().collect();
    files.iter_mut().for_each(|names| names.sort());
    files.sort();
    Ok(files)
}
