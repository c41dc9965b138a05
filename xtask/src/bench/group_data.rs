//! The sources and the target of a group, and the state of the target before each run.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hakobu_testkit::devices::LoopDevice;
use hakobu_testkit::slow_fs::SlowFs;

use super::content;
use super::group_hosts::GroupHosts;
use super::loops;
use super::rows::{Group, Target, Topology};
use super::scratch_space::{BUCKET, ScratchSpace};
use super::sources::{BenchSource, Medium};

/// The duration of each operation on the slow file system.
const SLOW: Duration = Duration::from_millis(1);

/// The time after which the slow file system certainly shows a change that bypassed it.
const FORGOTTEN: Duration = Duration::from_millis(1100);
/// The time between a change of files and their upload after which times prove that nothing has changed since.
const SETTLED: Duration = Duration::from_secs(4);

/// A source or a target: a file, a tree or a block device.
#[derive(Debug)]
pub struct DataEndpoint {
    device: Option<LoopDevice>,
    content: PathBuf,
    /// The path that commands are given, if it is not the content's own path.
    shown: Option<PathBuf>,
}

/// The sources and the target of a group.
#[derive(Debug)]
pub struct GroupData<'a> {
    scratch: &'a ScratchSpace,
    kind: Target,
    sources: Vec<(BenchSource, DataEndpoint)>,
    target: DataEndpoint,
    /// True if a run left the target in an unknown state.
    spoiled: Cell<bool>,
    /// The mount through which everything is slow.
    slow: Option<SlowFs>,
}

/// The source and the target of one run.
#[derive(Debug, Clone, Copy)]
pub struct RunPaths<'a> {
    pub kind: BenchSource,
    pub source: &'a DataEndpoint,
    pub target: &'a DataEndpoint,
}

impl DataEndpoint {
    /// Returns an endpoint that is a file or tree.
    pub fn plain(path: PathBuf) -> Self {
        Self { device: None, content: path, shown: None }
    }

    /// Returns an endpoint that is a loop device on a file.
    fn disk(content: PathBuf, medium: Medium) -> Result<Self> {
        Ok(Self { device: Some(loops::attach(&content, medium)?), content, shown: None })
    }

    /// Returns the path for command lines.
    pub fn path(&self) -> &Path {
        let plain = self.shown.as_deref().unwrap_or(&self.content);
        self.device.as_ref().map_or(plain, LoopDevice::path)
    }

    /// Returns the path of the file or tree that has the content.
    pub fn content(&self) -> &Path {
        &self.content
    }

    /// Returns the number of bytes that have been read from it, or `None` if it is not a device.
    ///
    /// # Errors
    /// Returns an error if the counter cannot be read.
    pub fn read_bytes(&self) -> Result<Option<u64>> {
        self.device.as_ref().map(loops::read_bytes).transpose()
    }
}

impl<'a> GroupData<'a> {
    /// Creates the missing sources, and a target called `name`. What begins in an object store is copied there.
    ///
    /// # Errors
    /// Returns an error if something cannot be created, most likely because memory is full or root is needed.
    pub fn new(
        scratch: &'a ScratchSpace,
        hosts: &GroupHosts,
        group: &Group,
        wanted: &[BenchSource],
        name: &str,
    ) -> Result<Self> {
        let kind = group.target;
        let medium = match wanted.first() {
            Some(BenchSource::Disk { medium, .. }) => *medium,
            _ => Medium::Memory,
        };
        if medium == Medium::Memory {
            let target = wanted.iter().map(|source| source.memory_bytes()).max().unwrap_or(0);
            scratch.check_room(wanted, if kind == Target::Discard { 0 } else { target })?;
        }
        let mut sources = Vec::new();
        for source in wanted {
            scratch.go_on()?;
            let content = scratch.source(*source)?;
            let endpoint = match source {
                _ if group.store.has_source() => {
                    let stored = scratch.stored_path(*source);
                    let url = url_of(&["", &stored.file_name().unwrap_or_default().to_string_lossy()]);
                    if !stored.exists() {
                        fill_store(hosts, *source, &content, (&stored, &url))?;
                    }
                    DataEndpoint { device: None, content, shown: Some(url.into()) }
                }
                BenchSource::Disk { medium, .. } => DataEndpoint::disk(content, *medium)?,
                _ => DataEndpoint::plain(content),
            };
            sources.push((*source, endpoint));
        }
        let in_store = group.store.has_target();
        let content = if in_store { scratch.stored_target(name) } else { scratch.target(name, medium) };
        let url = url_of(&["targets", name]);
        let begins_equal = matches!(
            kind,
            Target::Equal
                | Target::Changed
                | Target::Same
                | Target::Outdated
                | Target::Surplus
                | Target::Pages
                | Target::Shifted
        );
        match sources.first() {
            Some((source, first)) if begins_equal && in_store => {
                std::thread::sleep(SETTLED);
                fill_store(hosts, *source, first.content(), (&content, &url))?;
            }
            Some((_, first)) if begins_equal => duplicate(first.content(), &content)?,
            _ => {}
        }
        let bytes = wanted.iter().map(|source| source.bytes()).max().unwrap_or(0);
        match kind {
            Target::Disk => content::fill(&content, bytes).context("making the target")?,
            Target::Blank => content::hollow(&content, bytes).context("making the target")?,
            _ => {}
        }
        let mut target =
            if kind.is_disk() { DataEndpoint::disk(content, medium)? } else { DataEndpoint::plain(content) };
        if in_store {
            target.shown = Some(url.into());
        }
        let mut slow = None;
        if group.topology == Topology::SlowFs {
            let at = scratch.memory().join(format!("slow-{name}"));
            fs::create_dir_all(&at).context("making a directory to mount at")?;
            slow = Some(SlowFs::mount(&at, scratch.memory(), SLOW).context("mounting the slow file system")?);
            for endpoint in sources.iter_mut().map(|(_, endpoint)| endpoint).chain([&mut target]) {
                endpoint.shown =
                    endpoint.content.strip_prefix(scratch.memory()).ok().map(|below| at.join(below));
            }
        }
        Ok(Self { scratch, kind, sources, target, spoiled: Cell::new(false), slow })
    }

    /// Returns the source `kind` and the target.
    ///
    /// # Errors
    /// Returns an error if `kind` is not one of the sources.
    pub fn paths(&self, kind: BenchSource) -> Result<RunPaths<'_>> {
        let found = self.sources.iter().find(|(source, _)| *source == kind);
        let (_, source) = found.context("a source that was not made")?;
        Ok(RunPaths { kind, source, target: &self.target })
    }

    /// Returns the path of the target's file or tree.
    pub fn target_content(&self) -> &Path {
        self.target.content()
    }

    /// Puts the target into its state before a run. `check` is true if the result will be compared with the source.
    ///
    /// # Errors
    /// Returns an error if that fails.
    pub fn ready(&self, kind: BenchSource, check: bool) -> Result<()> {
        self.prepare(kind, check)?;
        if self.slow.is_some() {
            // The changes bypassed the slow file system, which shows them once its cache has expired.
            std::thread::sleep(FORGOTTEN);
        }
        Ok(())
    }

    fn prepare(&self, kind: BenchSource, check: bool) -> Result<()> {
        match (self.kind, kind) {
            (Target::Discard | Target::Equal | Target::Same, _) => Ok(()),
            (Target::Outdated, _) => {
                if self.spoiled.replace(false) {
                    self.anew(kind)?;
                }
                content::outdate(self.target.content()).context("changing the target")
            }
            (Target::Pages | Target::Shifted, _) => {
                if self.spoiled.replace(false) {
                    self.anew(kind)?;
                }
                let change = if self.kind == Target::Pages { content::change_pages } else { content::shift };
                change(self.target.content()).context("changing the target")
            }
            (Target::Surplus, _) => {
                let empty = self.target.content().with_extension("empty");
                fs::create_dir_all(empty).context("making an empty directory")?;
                self.anew(kind)
            }
            (Target::Fresh, _) => self.scratch.clear_targets(),
            // Old content makes no difference to an overwriting run, and filling a slow disk takes time.
            (Target::Disk, BenchSource::Disk { medium: Medium::OwnDisk, .. }) if !check => Ok(()),
            (Target::Disk, _) => {
                content::fill(self.target.content(), kind.bytes()).context("filling the target")
            }
            (Target::Blank, _) => {
                // Through the device, so that the page cache keeps nothing of the old content.
                content::empty(self.target.path(), kind.bytes()).context("emptying the target")
            }
            (Target::Changed, _) => {
                if self.spoiled.replace(false) {
                    duplicate(self.paths(kind)?.source.content(), self.target.content())?;
                }
                content::change(self.target.content(), kind.bytes()).context("changing the target")
            }
        }
    }

    /// Replaces the target by a copy of the source.
    fn anew(&self, kind: BenchSource) -> Result<()> {
        let target = self.target.content();
        if target.exists() {
            fs::remove_dir_all(target).context("removing the target")?;
        }
        duplicate(self.paths(kind)?.source.content(), target)
    }

    /// Cleans up after a run. `well` is true if the target is in its expected state.
    ///
    /// # Errors
    /// Returns an error if that fails.
    pub fn done(&self, well: bool) -> Result<()> {
        if !well {
            self.spoiled.set(true);
        }
        if self.kind == Target::Fresh { self.scratch.clear_targets() } else { Ok(()) }
    }
}

/// Returns the URL of an object or a prefix in the bucket.
fn url_of(below: &[&str]) -> String {
    let below: Vec<&str> = below.iter().copied().filter(|name| !name.is_empty()).collect();
    format!("s3://{BUCKET}/{}", below.join("/"))
}

/// Copies a source into the object store. A million empty objects are put there as files, since uploads take minutes.
fn fill_store(
    hosts: &GroupHosts,
    source: BenchSource,
    local: &Path,
    (stored, url): (&Path, &str),
) -> Result<()> {
    match source {
        BenchSource::Tree { file_bytes: 0, .. } => {
            fs::create_dir_all(stored.parent().unwrap_or(stored)).context("making a folder of the store")?;
            duplicate(local, stored)
        }
        _ => hosts.store_copy(local, url),
    }
}

/// Copies a file or tree without any of the measured tools.
fn duplicate(from: &Path, to: &Path) -> Result<()> {
    if from.is_file() {
        // Write in place: a loop device may be attached to the file.
        let mut target = fs::OpenOptions::new().write(true).create(true).truncate(false).open(to)?;
        let copied = std::io::copy(&mut fs::File::open(from)?, &mut target);
        return copied.map(|_| ()).context("copying the source");
    }
    let status = Command::new("cp").arg("-a").arg(from).arg(to).stdin(Stdio::null()).status();
    if !status.context("running cp")?.success() {
        bail!("cp -a cannot make the target");
    }
    Ok(())
}
