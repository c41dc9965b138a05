//! Writes `docs/benchmarks/torture.md` with the results.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::counts::Counts;
use super::walk::BYTES_READ;

/// Writes the page.
pub fn write(
    file: &Path,
    counts: &Counts,
    program: &Path,
    seeds: (u64, u64),
    took: Duration,
) -> anyhow::Result<()> {
    let said = Command::new(program).arg("-V").output()?;
    let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    let mut page = String::from("# Torture\n\n");
    writeln!(
        page,
        "`cargo xtask torture` plays random histories against the program: trees, steps, mutations and faults that follow from a seed. \
         An oracle of its own, which shares no code with hakobu, says after each step what has to be there, \
         what the lists of changes have to say, and whether a step fits on a target with little space. How it works: \
         [xtask/src/torture](../../xtask/src/torture/mod.rs).\n"
    )?;
    writeln!(page, "{version}, seeds {} to {}, {} minutes.\n", seeds.0, seeds.1, took.as_secs() / 60)?;
    writeln!(page, "| what | how many |\n|---|---|")?;
    for (what, number) in [
        ("histories", counts.histories.load(Relaxed)),
        ("steps, each with a verification and a second run", counts.steps.load(Relaxed)),
        ("processes killed and power cut", counts.kills.load(Relaxed)),
        ("faults that took place, failed system calls among them", counts.faults.load(Relaxed)),
        ("bytes read and compared", BYTES_READ.load(Relaxed)),
        (
            "violations that were passed over, by a decision that the book tells of",
            counts.known.load(Relaxed),
        ),
        ("histories set aside, as their environment failed", counts.set_aside.load(Relaxed)),
        ("violations", counts.violations.load(Relaxed)),
    ] {
        writeln!(page, "| {what} | {number} |")?;
    }
    let names = counts.by_name.lock().map(|names| names.clone()).unwrap_or_default();
    for (title, prefix) in [
        ("Routes", "route "),
        ("Sources", "source "),
        ("Targets", "target "),
        ("Faults that took place", "fault "),
        ("Steps on targets with little space", "space "),
        ("Lists of changes", "list "),
        ("Runs of fleets", "fleet "),
        ("Passed over", "known "),
    ] {
        writeln!(page, "\n## {title}\n\n| which | how many |\n|---|---|")?;
        for (name, number) in
            names.iter().filter_map(|(name, number)| Some((name.strip_prefix(prefix)?, number)))
        {
            writeln!(page, "| {name} | {number} |")?;
        }
    }
    std::fs::write(file, page)?;
    Ok(())
}
