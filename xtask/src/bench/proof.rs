//! Whether a way does the work that it is timed for.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use hakobu_measure::compare;
use hakobu_measure::compare::What;
use serde_json::Value;

use super::rows::{Target, Way};
use super::runs::{Paths, Timing};

/// iperf3 ends when everything is handed over, a little of it not yet on its way.
const TRAVELLED_SHARE: f64 = 0.98;

/// Checks the target after a run: of ours everything must be as in the source, of others the content, as some of them
/// keep no times and modes.
///
/// # Errors
/// When it is not, with the first differences.
pub fn arrived(way: &Way, paths: Paths<'_>) -> Result<()> {
    let mut differences = compare(paths.source, paths.target)?;
    if !way.is_ours() {
        differences.retain(|difference| is_content(&difference.what));
    }
    if differences.is_empty() {
        return Ok(());
    }
    let count = differences.len();
    let first: Vec<String> = differences.iter().take(3).map(ToString::to_string).collect();
    bail!("what arrived differs in {count} places: {}", first.join(", "))
}

fn is_content(what: &What) -> bool {
    let attribute =
        matches!(what, What::Mode(..) | What::Uid(..) | What::Gid(..) | What::ModificationTime(..));
    !attribute
}

/// Checks by the interface's counters that the data travelled.
///
/// # Errors
/// When fewer bytes did.
pub fn travelled(timing: &Timing, bytes: u64) -> Result<()> {
    let needed = (bytes as f64 * TRAVELLED_SHARE) as u64;
    let seen = timing.travelled_bytes;
    ensure!(seen >= needed, "only {seen} of {bytes} bytes crossed the network");
    Ok(())
}

/// Damages one file of a target that was equal: a run that brings nothing over then has not looked.
///
/// # Errors
/// When there is no file, or it cannot be written.
pub fn damage(target: &Path) -> Result<()> {
    let mut path = target.to_owned();
    while path.is_dir() {
        let mut entries = fs::read_dir(&path)?.collect::<std::io::Result<Vec<_>>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        path = entries.last().context("a directory of the target is empty")?.path();
    }
    let mut file = OpenOptions::new().append(true).open(&path)?;
    file.write_all(b"damage")?;
    Ok(())
}

/// Digests of the sources, each taken once. A source does not change while it is there.
#[derive(Debug, Default)]
pub struct Digests(RefCell<BTreeMap<PathBuf, String>>);

impl Digests {
    fn of(&self, path: &Path) -> Result<String> {
        if let Some(known) = self.0.borrow().get(path) {
            return Ok(known.clone());
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(path)?).context("reading the source")?;
        let digest = hasher.finalize().to_hex().to_string();
        self.0.borrow_mut().insert(path.to_owned(), digest.clone());
        Ok(digest)
    }
}

/// Checks the report of one of our runs: that it ended well and, where the data travelled (then there are `digests`),
/// that it was checked and a single file has the right digest.
///
/// # Errors
/// When not.
pub fn reported(report: &Path, paths: Paths<'_>, target: Target, digests: Option<&Digests>) -> Result<()> {
    let text = fs::read_to_string(report).context("reading hakobu's report")?;
    let report: Value = serde_json::from_str(&text).context("reading hakobu's report")?;
    ensure!(report["outcome"] == "done", "the report says outcome {}", report["outcome"]);
    let Some(digests) = digests.filter(|_| target != Target::Equal) else { return Ok(()) };
    ensure!(report["verified"] != "none", "the report says that nothing was verified");
    if paths.source.is_file() {
        let digest = digests.of(paths.source)?;
        let said = &report["digest_blake3"];
        ensure!(*said == digest, "the report says digest {said}, not {digest}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::groups::GROUPS;
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn way(name: &str) -> &'static Way {
        GROUPS.iter().find_map(|group| group.way(name)).unwrap()
    }

    #[test]
    fn what_did_not_arrive_is_noticed() {
        let dir = std::env::temp_dir().join(format!("hakobu-proof-test-{}", std::process::id()));
        let (source, target) = (dir.join("source"), dir.join("target"));
        for tree in [&source, &target] {
            fs::create_dir_all(tree.join("d")).unwrap();
            fs::write(tree.join("d/f"), "same").unwrap();
        }
        let paths = Paths { source: &source, source_bytes: 4, target: &target };
        fs::set_permissions(source.join("d"), PermissionsExt::from_mode(0o755)).unwrap();
        // A mode that was not kept: of ours that is an error.
        fs::set_permissions(target.join("d"), PermissionsExt::from_mode(0o700)).unwrap();
        arrived(way("rsync -a"), paths).unwrap();
        assert!(arrived(way("hakobu"), paths).is_err());
        damage(&target).unwrap();
        assert!(arrived(way("rsync -a"), paths).unwrap_err().to_string().contains("1 places"));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_report_must_fit_the_source() {
        let dir = std::env::temp_dir().join(format!("hakobu-proof-report-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (source, report) = (dir.join("source"), dir.join("report"));
        fs::write(&source, "x").unwrap();
        let paths = Paths { source: &source, source_bytes: 1, target: &source };
        let check = |text: String| {
            fs::write(&report, text).unwrap();
            reported(&report, paths, Target::Discard, Some(&Digests::default()))
        };
        let right = blake3::hash(b"x").to_hex().to_string();
        let with = |digest: &str, verified: &str| {
            format!(r#"{{"outcome":"done","verified":"{verified}","digest_blake3":"{digest}"}}"#)
        };
        check(with(&right, "wire")).unwrap();
        assert!(check(with(&right, "none")).is_err());
        assert!(check(with(&right.replace('0', "1"), "wire")).is_err());
        assert!(check(r#"{"outcome":"partial"}"#.to_owned()).is_err());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn bytes_that_stay_at_home_are_noticed() {
        let timing = |travelled_bytes| Timing { seconds: 1.0, travelled_bytes };
        travelled(&timing(1_000_000), 1_000_000).unwrap();
        assert!(travelled(&timing(500_000), 1_000_000).is_err());
    }
}
