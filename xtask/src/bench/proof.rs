//! Verifies that a method does the work that it is timed for.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use hakobu_testkit::file_difference::first_difference;
use hakobu_testkit::tree_difference::{EntryDifference, compare};
use serde_json::Value;

use super::group_data::RunPaths;
use super::rows::{BenchMethod, RunMode};
use super::runs::RunCounters;
use super::sources::{BenchSource, GIB};

/// The share of the bytes that must have been sent. iperf3 exits when the kernel still has a little to send.
const TRAVELLED_SHARE: f64 = 0.98;
/// The requests for single objects of a run without changes: it looks at the target itself several times.
const LOOKS_MAX: u64 = 8;
/// The size of holes from which on a file needs no digest unless one is requested.
const HOLES_WITHOUT_DIGEST_BYTES: u64 = GIB;

/// Checks the target after a run. Files and trees copied by hakobu must equal the source in everything; disks, and what
/// other tools copied, in content only, since some tools keep no times and modes. The files of an object store have times
/// and modes of its own.
///
/// # Errors
/// Returns an error with the first differences if the target is not as it must be.
pub fn arrived(method: &BenchMethod, paths: RunPaths<'_>, in_store: bool) -> Result<()> {
    let (source, target) = (paths.source.content(), paths.target.content());
    match paths.kind {
        BenchSource::File { .. } | BenchSource::Tree { .. } | BenchSource::Mixed { .. } => {
            entries_arrived(method.is_ours() && !in_store, method, source, target)
        }
        BenchSource::Dressed { .. } => {
            entries_arrived(method.is_ours() && !in_store, method, source, target)?;
            dress_arrived(source, target)
        }
        BenchSource::Disk { .. } | BenchSource::Image { .. } => match first_difference(source, target)? {
            Some(offset) => bail!("what arrived differs from byte {offset} on"),
            None => Ok(()),
        },
        BenchSource::Made { bytes } => {
            let found = target.metadata().context("looking at what was made")?;
            // Blocks are 512 bytes, whatever the file system's block size.
            let (size, allocated) = (found.len(), found.blocks() * 512);
            ensure!(
                size == bytes && allocated >= bytes,
                "{size} bytes were made, {allocated} of them written"
            );
            Ok(())
        }
    }
}

/// Compares extended attributes, access control lists and hard links, with the usual tools.
fn dress_arrived(source: &Path, target: &Path) -> Result<()> {
    let list = |path: &Path| -> Result<Vec<u8>> {
        const LINE: &str = "cd \"$0\" && getfattr -R -d -m - -e hex . | sort | md5sum && \
             find . -type f -links +1 -printf '%n %p\\n' | sort | md5sum";
        let output = std::process::Command::new("bash").args(["-c", LINE]).arg(path).output()?;
        ensure!(output.status.success(), "getfattr: {}", String::from_utf8_lossy(&output.stderr));
        Ok(output.stdout)
    };
    ensure!(list(source)? == list(target)?, "attributes or hard links did not arrive");
    Ok(())
}

/// Checks that everything was deleted.
///
/// # Errors
/// Returns an error if something is left.
pub fn gone(target: &Path) -> Result<()> {
    let left = fs::read_dir(target).context("looking at the target")?.count();
    ensure!(left == 0, "{left} entries are left");
    Ok(())
}

fn entries_arrived(exactly: bool, method: &BenchMethod, source: &Path, target: &Path) -> Result<()> {
    let mut differences = compare(source, target)?;
    differences.retain(|difference| match &difference.what {
        what if !exactly => is_content(what),
        EntryDifference::ModificationTime(source, target) => {
            !(method.is_over_sftp() && whole(*source) == *target)
        }
        _ => true,
    });
    if differences.is_empty() {
        return Ok(());
    }
    let count = differences.len();
    let first: Vec<String> = differences.iter().take(3).map(ToString::to_string).collect();
    bail!("what arrived differs in {count} places: {}", first.join(", "))
}

/// Returns a time without the fraction of its second.
fn whole((seconds, _nanoseconds): (i64, i64)) -> (i64, i64) {
    (seconds, 0)
}

fn is_content(what: &EntryDifference) -> bool {
    let attribute = matches!(
        what,
        EntryDifference::Mode(..)
            | EntryDifference::Uid(..)
            | EntryDifference::Gid(..)
            | EntryDifference::ModificationTime(..)
    );
    !attribute
}

/// Checks with the interface's counters that the data crossed the network.
///
/// # Errors
/// Returns an error if too few bytes did.
pub fn travelled(counted: &RunCounters, bytes: u64) -> Result<()> {
    let needed = (bytes as f64 * TRAVELLED_SHARE) as u64;
    let seen = counted.travelled_bytes;
    ensure!(seen >= needed, "only {seen} of {bytes} bytes crossed the network");
    Ok(())
}

/// Damages one file of a target that equals the source. A run that then transfers nothing has not compared.
///
/// # Errors
/// Returns an error if there is no file or it cannot be written.
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

/// The digests of the sources, each computed once. A source does not change while it exists.
#[derive(Debug, Default)]
pub struct SourceDigests(RefCell<BTreeMap<PathBuf, String>>);

impl SourceDigests {
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

/// Checks the report of one of our runs: that it was successful and, if it was killed, that it resumed. If the data
/// crossed the network (then there are `digests`), also that it was verified as requested and that a single source has
/// the right digest.
///
/// # Errors
/// Returns an error if the report does not say so.
pub fn reported(
    report: &Path,
    method: &BenchMethod,
    paths: RunPaths<'_>,
    digests: Option<&SourceDigests>,
    in_store: bool,
) -> Result<()> {
    let text = fs::read_to_string(report).context("reading hakobu's report")?;
    let report: Value = serde_json::from_str(&text).context("reading hakobu's report")?;
    ensure!(report["outcome"] == "done", "the report says outcome {}", report["outcome"]);
    if method.mode == RunMode::Killed {
        ensure!(report["resumed"] == true, "the report says resumed {}", report["resumed"]);
    }
    let verified = &report["verified"];
    if method.local.contains("--verify medium") {
        ensure!(verified == "medium", "the report says that {verified} was verified");
    }
    // Nothing computes digests on the remote host over SFTP.
    let Some(digests) = digests.filter(|_| !method.is_over_sftp()) else { return Ok(()) };
    // The store checks what it receives; nothing else is said about that.
    ensure!(in_store || verified != "none", "the report says that nothing was verified");
    let asked_for = method.local.contains("--verify wire");
    let single = !paths.kind.is_tree() && (paths.kind.hole_bytes() < HOLES_WITHOUT_DIGEST_BYTES || asked_for);
    if single {
        let digest = digests.of(paths.source.content())?;
        let said = &report["digest_blake3"];
        ensure!(*said == digest, "the report says digest {said}, not {digest}");
    }
    Ok(())
}

/// Returns the requests for which a run listed the target, an object store, when there was nothing to do.
///
/// # Errors
/// Returns an error if the report has no count, or counts requests for single objects.
pub fn listed(report: &Path) -> Result<u64> {
    let text = fs::read_to_string(report).context("reading hakobu's report")?;
    let report: Value = serde_json::from_str(&text).context("reading hakobu's report")?;
    let requests = &report["requests"]["target"];
    for kind in ["head", "get", "put", "copy", "delete"] {
        let count = requests[kind].as_u64().with_context(|| format!("the report has no {kind}"))?;
        ensure!(count <= LOOKS_MAX, "{count} requests ({kind}), although there was nothing to do");
    }
    requests["list"].as_u64().context("the report does not say how often it listed")
}

#[cfg(test)]
mod tests {
    use super::super::group_data::DataEndpoint;
    use super::super::groups::TABLES;
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn method(name: &str) -> &'static BenchMethod {
        TABLES.iter().flat_map(|table| table.groups).find_map(|group| group.method(name)).unwrap()
    }

    fn place(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("hakobu-proof-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn content_that_did_not_arrive_is_noticed() {
        let dir = place("tree");
        let (source, target) = (dir.join("source"), dir.join("target"));
        for tree in [&source, &target] {
            fs::create_dir_all(tree.join("d")).unwrap();
            fs::write(tree.join("d/f"), "same").unwrap();
        }
        let (from, to) = (DataEndpoint::plain(source.clone()), DataEndpoint::plain(target.clone()));
        let kind = BenchSource::Tree { files: 1, directories: 1, file_bytes: 4 };
        let paths = RunPaths { kind, source: &from, target: &to };
        fs::set_permissions(source.join("d"), PermissionsExt::from_mode(0o755)).unwrap();
        // A mode that was not kept is an error only for hakobu.
        fs::set_permissions(target.join("d"), PermissionsExt::from_mode(0o700)).unwrap();
        arrived(method("rsync -a"), paths, false).unwrap();
        assert!(arrived(method("hakobu"), paths, false).is_err());
        damage(&target).unwrap();
        assert!(arrived(method("rsync -a"), paths, false).unwrap_err().to_string().contains("1 places"));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_disk_that_differs_and_data_that_was_not_made_are_noticed() {
        let dir = place("disk");
        let sides = ["source", "target"].map(|name| {
            fs::write(dir.join(name), [1; 9000]).unwrap();
            DataEndpoint::plain(dir.join(name))
        });
        let paths = |kind| RunPaths { kind, source: &sides[0], target: &sides[1] };
        let image = paths(BenchSource::Image { bytes: 9000, data_bytes: 9000 });
        arrived(method("hakobu"), image, false).unwrap();
        arrived(method("hakobu"), paths(BenchSource::Made { bytes: 9000 }), false).unwrap();
        assert!(arrived(method("hakobu"), paths(BenchSource::Made { bytes: 9001 }), false).is_err());
        damage(sides[1].content()).unwrap();
        let error = arrived(method("rsync -a"), image, false).unwrap_err().to_string();
        assert!(error.contains("byte 9000"), "{error}");
        let made = File::create(sides[1].content()).unwrap();
        made.set_len(1 << 20).unwrap();
        assert!(
            arrived(method("hakobu"), paths(BenchSource::Made { bytes: 1 << 20 }), false).is_err(),
            "a hole is not made"
        );
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_report_must_fit_the_source() {
        let dir = place("report");
        let (source, report) = (DataEndpoint::plain(dir.join("source")), dir.join("report"));
        fs::write(source.content(), "x").unwrap();
        let paths = RunPaths { kind: BenchSource::ONE_BYTE_FILE, source: &source, target: &source };
        let check = |method: &BenchMethod, text: String| {
            fs::write(&report, text).unwrap();
            reported(&report, method, paths, Some(&SourceDigests::default()), false)
        };
        let right = blake3::hash(b"x").to_hex().to_string();
        let with = |digest: &str, verified: &str| {
            format!(
                r#"{{"outcome":"done","verified":"{verified}","digest_blake3":"{digest}","resumed":false}}"#
            )
        };
        let plain = BenchMethod::ours("plain", "hakobu copy a b");
        check(&plain, with(&right, "wire")).unwrap();
        assert!(check(&plain, with(&right, "none")).is_err());
        assert!(check(&plain, with(&right.replace('0', "1"), "wire")).is_err());
        assert!(check(&plain, r#"{"outcome":"partial"}"#.to_owned()).is_err());
        let medium = BenchMethod::ours("medium", "hakobu copy --verify medium a b");
        check(&medium, with(&right, "medium")).unwrap();
        assert!(check(&medium, with(&right, "wire")).is_err());
        assert!(check(&plain.killed(), with(&right, "wire")).is_err());
        check(&plain.killed(), with(&right, "wire").replace("false", "true")).unwrap();
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn bytes_that_stay_at_home_are_noticed() {
        let counted = |travelled_bytes| RunCounters { travelled_bytes, ..RunCounters::default() };
        travelled(&counted(1_000_000), 1_000_000).unwrap();
        assert!(travelled(&counted(500_000), 1_000_000).is_err());
    }
}
