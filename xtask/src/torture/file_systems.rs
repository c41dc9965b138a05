//! The file systems of both sides of a history.
//!
//! To add a file system, add a variant of [`FileSystemKind`] with what it can hold (see
//! [`environment`](super::environment)), and its name with a weight in [`SOURCES`] or [`TARGETS`] below. Nothing else
//! has to know it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::abilities::Abilities;
use super::environment::capabilities;
use super::environment::file_system::{
    FileSystemKind, MountedFileSystem, mount, mount_read_only_at, mount_read_only_of,
};
use super::environment::fleet::TortureFleet;
use super::environment::fuse::Lies;
use super::environment::hosts::TestHosts;
use super::environment::object_store::{TortureStore, TortureStoreKind};
use super::generate::Limits;
use super::model::Name;
use super::mutate_objects::ObjectTree;
use super::rng::Rng;
use super::route::Route;
use super::step::Step;
use super::walk::Snapshot;

/// File systems and stores of sources, with their weights. `fuse` stands for a lying one.
const SOURCES: &[(&str, u64)] = &[
    ("tmpfs", 24),
    ("ext4", 8),
    ("xfs", 6),
    ("btrfs", 6),
    ("overlay", 5),
    ("erofs", 8),
    ("squashfs", 4),
    ("fuse", 20),
    ("ext4small", 4),
    ("versitygw", 3),
    ("azurite", 2),
    ("fakegcs", 2),
];
/// File systems and stores of targets, with their weights.
const TARGETS: &[(&str, u64)] = &[
    ("tmpfs", 24),
    ("ext4", 10),
    ("xfs", 8),
    ("btrfs", 7),
    ("overlay", 6),
    ("fuse", 20),
    ("ext4small", 5),
    ("fullbytes", 5),
    ("fullinodes", 5),
    ("smalltmpfs", 4),
    ("smallxfs", 2),
    ("ntfs3g", 4),
    ("exfatfuse", 4),
    ("versitygw", 6),
    ("azurite", 3),
    ("fakegcs", 3),
];
/// Percentage of the histories on plain directories whose target is a store instead.
const PLAIN_STORES_PERCENT: u64 = 12;

/// The targets with little space, each with its weight in histories about that.
pub const LITTLE_SPACE: &[(&str, u64)] =
    &[("smalltmpfs", 6), ("fullbytes", 3), ("fullinodes", 2), ("smallxfs", 2)];

/// The setting of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistorySetting {
    /// The name of the source's file system.
    pub source: String,
    /// The name of the target's file system.
    pub target: String,
    /// The hosts and the transport.
    pub route: Route,
}

/// Returns a random setting. If `plain` is true, it needs nothing but plain directories.
pub fn random(rng: &mut Rng, plain: bool) -> HistorySetting {
    if plain {
        let [source, target] = ["plain", "plain"].map(str::to_owned);
        let setting = HistorySetting { source, target, route: Route::Local };
        return if rng.percent(PLAIN_STORES_PERCENT) {
            setting.with_store(TortureStoreKind::Versitygw)
        } else {
            setting
        };
    }
    let mut pick = |list: &[(&str, u64)], lies: Vec<Lies>| {
        let weights: Vec<u64> = list.iter().map(|(_, weight)| *weight).collect();
        match list[rng.weighted(&weights)].0 {
            "fuse" => {
                let lies = &lies[rng.below(lies.len() as u64) as usize];
                format!("fuse:{}", serde_json::to_string(lies).unwrap_or_default())
            }
            name => name.to_owned(),
        }
    };
    let source = pick(SOURCES, Lies::of_sources());
    let target = pick(TARGETS, Lies::of_targets());
    // A store is reached from this machine.
    let has_store = [&source, &target].into_iter().any(|name| TortureStoreKind::of_name(name).is_some());
    let route = if has_store || rng.percent(55) { Route::Local } else { rng.pick(Route::ALL) };
    let mut setting = HistorySetting { source, target, route };
    if route == Route::PullSftp && HistorySetting::lies(&setting.source).fail_list_after.is_some() {
        // OpenSSH's server reports a read error within a directory as its end.
        setting.source = "tmpfs".to_owned();
    }
    setting
}

impl HistorySetting {
    fn kind(name: &str) -> Option<FileSystemKind> {
        FileSystemKind::parse(name).ok()
    }

    /// Returns the lies of a side's file system.
    fn lies(name: &str) -> Lies {
        if let Some(FileSystemKind::Fuse(lies)) = Self::kind(name) { lies } else { Lies::default() }
    }

    /// Returns the names of both file systems for counting.
    pub fn names(&self) -> [String; 2] {
        let name = |side: &str, name: &String| {
            let kind = Self::kind(name).map_or_else(|| name.clone(), |kind| kind.name());
            format!("{side} {kind}")
        };
        [name("source", &self.source), name("target", &self.target)]
    }

    /// Returns true if something at the source cannot be read, so that entries fail.
    pub fn spoils_reading(&self) -> bool {
        let lies = Self::lies(&self.source);
        // Files with a reported size of 0 are read to their end or refused with a reason.
        lies.spoils_reading() || lies.size_zero
    }

    /// Returns true if something at the target cannot be written, so that entries or whole runs fail.
    pub fn spoils_writing(&self) -> bool {
        let lies = Self::lies(&self.target);
        // If owners and modes cannot be changed, an entry may fail or lose them. The documents mention owners only.
        lies.spoils_writing()
            || lies.no_owners
            // OpenSSH's server reports a failure if the system accepts fewer bytes than it was given.
            || lies.short_writes && self.route == Route::PushSftp
            || self.has_little_space()
            || self.target == "exfatfuse"
    }

    /// Returns true if the target's file system is so small that a history may fill it.
    pub fn has_little_space(&self) -> bool {
        LITTLE_SPACE.iter().any(|(name, _)| *name == self.target)
    }

    /// Returns the space in bytes that the target's file system may need for itself.
    pub fn slack_bytes(&self) -> u64 {
        // xfs allocates metadata in large pieces, and reports what is free as an estimate.
        if self.target == "smallxfs" { 24 << 20 } else { 128 << 10 }
    }

    /// Returns true if the lack of space is the only thing that spoils a run, so that the oracle can tell whether the
    /// step fits. An SFTP server does not tell where holes are, nor does a file system that lies, and a
    /// store has no holes.
    pub fn is_judged_by_space(&self) -> bool {
        let is_told = !self.source.starts_with("fuse") && self.source_store().is_none();
        self.has_little_space() && is_told && !self.route.is_sftp()
    }

    /// Returns true if leftovers of an interrupted run stay for a day: on file systems that other machines may write to
    /// with locks that are not visible here. The documents count FUSE among them.
    pub fn keeps_young_leftovers(&self) -> bool {
        let kind = Self::kind(&self.target);
        matches!(kind, Some(FileSystemKind::Fuse(_) | FileSystemKind::Ntfs3g | FileSystemKind::ExfatFuse))
    }

    /// Returns true if a power cut of the target's file system can be simulated.
    pub fn may_lose_power(&self) -> bool {
        Self::kind(&self.target).is_some_and(|kind| kind.can_lose_power())
    }

    /// Returns the setting with an object store as the target.
    pub fn with_store(self, kind: TortureStoreKind) -> Self {
        Self { target: kind.name().to_owned(), route: Route::Local, ..self }
    }

    /// Returns a setting with a store at one side or at both.
    pub fn with_stores(self, rng: &mut Rng) -> Self {
        let kind = rng.pick(&[0, 0, 1, 2].map(|index: usize| TortureStoreKind::ALL[index]));
        let other = rng.pick(&TortureStoreKind::ALL);
        match rng.below(10) {
            0..6 => self.with_store(kind),
            6 | 7 if self.target_store().is_none() => {
                Self { source: kind.name().to_owned(), route: Route::Local, ..self }
            }
            _ => Self { source: other.name().to_owned(), ..self.with_store(kind) },
        }
    }

    /// Returns the store that is the source.
    pub fn source_store(&self) -> Option<TortureStoreKind> {
        TortureStoreKind::of_name(&self.source)
    }

    /// Returns the store that is the target.
    pub fn target_store(&self) -> Option<TortureStoreKind> {
        TortureStoreKind::of_name(&self.target)
    }

    /// Returns true if a side is an object store.
    pub fn has_store(&self) -> bool {
        self.source_store().or(self.target_store()).is_some()
    }

    /// Returns true for plain directories of this machine.
    pub fn is_plain(&self) -> bool {
        self.source == "plain" && matches!(self.target.as_str(), "plain" | "versitygw")
    }

    /// Returns true if a large file that was rewritten with its time restored is noticed: sizes and times are reported
    /// truthfully, and there is enough space.
    pub fn may_be_resumed(&self) -> bool {
        let roomy = |name: &str| ["tmpfs", "ext4", "xfs", "btrfs", "plain"].contains(&name);
        roomy(&self.source) && roomy(&self.target) && !self.is_plain() && !self.route.is_sftp()
    }

    /// Returns the percentage of steps with a fault.
    pub fn faults_percent(&self) -> u64 {
        // With permanent faults the effect of another one could not be told.
        if self.spoils_reading() || self.spoils_writing() { 0 } else { 50 }
    }

    /// Returns true if the source is an image that is created anew from a directory.
    pub fn source_is_image(&self) -> bool {
        Self::kind(&self.source).is_some_and(|kind| kind.is_read_only())
    }

    /// Returns the source as its file system and the transport show it.
    pub fn as_seen(&self, source: Snapshot) -> Snapshot {
        let mut source = source;
        let step =
            Abilities { mtime_step_ns: Self::lies(&self.source).time_step_ns(), ..Abilities::default() };
        source.values_mut().for_each(|entry| entry.mtime = step.time(entry.mtime));
        if Self::lies(&self.source).no_xattrs {
            source.values_mut().for_each(|entry| entry.xattrs.clear());
        }
        if Self::lies(&self.source).size_zero {
            source.values_mut().for_each(|entry| entry.told_bytes = 0);
        }
        self.route.as_seen(source)
    }

    /// Returns the target as its file system shows it. Mutations bypass the lies.
    pub fn target_as_seen(&self, target: Snapshot) -> Snapshot {
        let mut target = target;
        let lies = Self::lies(&self.target);
        let step = Abilities { mtime_step_ns: lies.time_step_ns(), ..Abilities::default() };
        for entry in target.values_mut() {
            entry.mtime = step.time(entry.mtime);
            if lies.no_xattrs {
                entry.xattrs.clear();
            }
        }
        target
    }

    /// Returns limits of a tree for which both sides have space.
    pub fn within(&self, limits: Limits) -> Limits {
        let mut limits = limits;
        let slow = self.source.starts_with("fuse") || self.target.starts_with("fuse") || self.route.is_sftp();
        if slow || matches!(self.target.as_str(), "ntfs3g" | "exfatfuse") || self.source_is_image() {
            limits.size_bytes = limits.size_bytes.min(9 << 20);
        }
        if self.has_store() {
            // Holes are lost, and the servers keep objects in memory.
            limits.size_bytes = limits.size_bytes.min(70 << 20);
        }
        if [self.source_store(), self.target_store()]
            .into_iter()
            .flatten()
            .any(|kind| kind != TortureStoreKind::Versitygw)
        {
            limits.size_bytes = limits.size_bytes.min(18 << 20);
        }
        let is_small = self.target == "ext4small" || self.source == "ext4small";
        if is_small || self.has_little_space() && self.target != "fullinodes" {
            limits.data_bytes = limits.data_bytes.min(6 << 20);
            limits.size_bytes = limits.size_bytes.min(9 << 20);
        }
        if self.target == "ntfs3g" {
            // ntfs-3g moves a replaced entry aside under a longer name, and fails if that is too long. So does `mv`.
            limits.name_bytes = limits.name_bytes.min(200);
        }
        if self.source == "erofs" {
            // mkfs.erofs 1.5 truncates a name of 255 bytes, does not find the file and exits. It stores sizes of
            // attributes in 16 bits: it accepts one of 65 536 bytes, but the result cannot be read.
            limits.name_bytes = limits.name_bytes.min(254);
            limits.value_bytes = limits.value_bytes.min(65_535);
        }
        limits
    }

    /// Removes from a step what the setting does not allow.
    pub fn fit(&self, step: &mut Step) {
        self.route.fit(step);
        step.fit_fleet();
        if self.has_store() {
            step.in_place = false;
            step.check = step.check.take().filter(|how| how != "medium");
        }
        let small = ["ntfs3g", "exfatfuse"].contains(&self.target.as_str()) || !self.abilities().hard_links;
        if small {
            step.in_place = false;
        }
        // The limits use the size that the source reports, which is 0 here.
        if Self::lies(&self.source).size_zero {
            step.sizes = None;
        }
    }

    /// Returns the capabilities of the target and the transport of a step.
    pub fn abilities_of(&self, step: &Step) -> Abilities {
        match step.from_store {
            true => Abilities { keys: [self.target_store(), None], ..Abilities::default() },
            // "Names at the target that are one file although the source has several files there are only found if one
            // unit has both."
            false if step.fleet.is_some() => Abilities { tells_inodes_for_good: false, ..self.abilities() },
            false => self.abilities(),
        }
    }

    /// Returns the capabilities of the target and the transport.
    pub fn abilities(&self) -> Abilities {
        let mut able = match Self::kind(&self.target) {
            Some(kind) => {
                let capabilities = capabilities::of(&kind);
                Abilities {
                    owners: capabilities.owners,
                    modes: capabilities.modes,
                    symlinks: capabilities.symlinks,
                    link_bytes_max: capabilities.link_bytes_max,
                    hard_links: capabilities.hard_links,
                    tells_inodes: true,
                    tells_source_inodes: true,
                    inode_numbers: u64::MAX,
                    remembers_names: Self::lies(&self.target).inode_numbers_lie,
                    // Where change times are in seconds, and behind FUSE, a number alone does not tell a file.
                    tells_inodes_for_good: !self.target.starts_with("fuse")
                        && !["ntfs3g", "exfatfuse"].contains(&self.target.as_str())
                        && capabilities.mtime_step_ns < 1_000_000_000,
                    cuts_times: false,
                    special_files: capabilities.special_files,
                    user_xattrs: capabilities.user_xattrs,
                    trusted_xattrs: capabilities.trusted_xattrs,
                    acls: capabilities.acls,
                    any_names: capabilities.any_names,
                    case_sensitive: capabilities.case_sensitive,
                    loose: matches!(kind, FileSystemKind::Ntfs3g | FileSystemKind::ExfatFuse),
                    mtime_step_ns: capabilities.mtime_step_ns,
                    seen_step_ns: 1,
                    seen_early_step_ns: 1,
                    mtime_range_s: capabilities.mtime_range_s,
                    // A full file system has no space for attributes either, and tmpfs counts them as inodes.
                    xattr_bytes_max: if self.has_little_space() {
                        0
                    } else if capabilities.xattr_bytes_max >= 65_536 {
                        usize::MAX
                    } else {
                        capabilities.xattr_bytes_max
                    },
                    ..Abilities::default()
                }
            }
            None => Abilities { replaces_whole: self.target_store().is_some(), ..Abilities::default() },
        };
        able.keys = [self.source_store(), self.target_store()];
        able.change_times = !self.source.starts_with("fuse") && !self.source_is_image();
        let mut able = self.route.limit(able);
        if Self::lies(&self.source).no_xattrs {
            // Attributes that a source cannot have are left as they are. Access control lists are removed, since they
            // would grant other permissions than the mode.
            (able.user_xattrs, able.trusted_xattrs) = (false, false);
        }
        // From an SFTP server each name is a file of its own, whatever its inode number.
        if self.route != Route::PullSftp {
            able.inode_numbers = Self::lies(&self.source).inode_numbers();
        }
        able.seen_step_ns = Self::kind(&self.source).map_or(1, |kind| capabilities::of(&kind).mtime_step_ns);
        // Over SFTP both sides show whole seconds, and entries that are equal in these are left alone.
        if self.route.is_sftp() {
            able.seen_step_ns = able.seen_step_ns.max(1_000_000_000);
        }
        let early_ns = if self.source.starts_with("fuse") { 1_000_000_000 } else { 1 };
        able.seen_early_step_ns = able.seen_step_ns.max(early_ns);
        able
    }
}

/// The mounts, hosts and store that a worker reuses for several histories, since they cost more than a history. Dropping it
/// removes all.
#[derive(Debug)]
pub struct Pool {
    scratch: PathBuf,
    program: PathBuf,
    mounts: HashMap<(bool, String), MountedFileSystem>,
    hosts: Option<TestHosts>,
    stores: HashMap<TortureStoreKind, TortureStore>,
    fleet: Option<TortureFleet>,
    number: u64,
}

impl Pool {
    /// Returns the pool of a worker.
    pub fn new(worker: &str, program: &Path) -> anyhow::Result<Self> {
        let scratch = PathBuf::from(format!("/dev/shm/hakobu-torture-{}-{worker}", std::process::id()));
        std::fs::create_dir_all(&scratch)?;
        let (program, mounts) = (program.to_owned(), HashMap::new());
        let stores = HashMap::new();
        Ok(Self { scratch, program, mounts, hosts: None, stores, fleet: None, number: 0 })
    }

    /// Returns the hosts, which are started on first use.
    pub fn hosts(&mut self) -> anyhow::Result<&TestHosts> {
        if self.hosts.is_none() {
            self.hosts = Some(TestHosts::start(&self.scratch, &self.program)?);
        }
        self.hosts.as_ref().context("hosts")
    }

    /// Returns the fleet whose processes have a planted fault, or none. It is started on first use.
    pub fn fleet(&mut self, plant: Option<&str>) -> anyhow::Result<&mut TortureFleet> {
        self.fleet = self.fleet.take().filter(|fleet| fleet.has_plant(plant));
        if self.fleet.is_none() {
            self.fleet = Some(TortureFleet::start(&self.scratch, &self.program, plant)?);
        }
        self.fleet.as_mut().context("no fleet")
    }

    /// Ends the fleet, if there is one.
    pub fn drop_fleet(&mut self) {
        self.fleet = None;
    }

    /// Returns a store, which is started on first use.
    pub fn store(&mut self, kind: TortureStoreKind) -> anyhow::Result<&mut TortureStore> {
        if !self.stores.contains_key(&kind) {
            self.stores.insert(kind, TortureStore::start(kind, &self.scratch)?);
        }
        self.stores.get_mut(&kind).context("no store")
    }

    /// Drops the stores whose servers have ended by themselves, and returns what one of them said last.
    pub fn drop_ended_stores(&mut self) -> Option<String> {
        let mut said = None;
        self.stores.retain(|_, store| {
            let words = store.last_words();
            let goes_on = words.is_none();
            said = said.take().or(words);
            goes_on
        });
        said
    }

    /// Returns a store, if it was started.
    pub fn started_store(&self, kind: TortureStoreKind) -> Option<&TortureStore> {
        self.stores.get(&kind)
    }

    /// Takes a store out, so that it can be changed during a run.
    pub fn take_store(&mut self, kind: TortureStoreKind) -> Option<TortureStore> {
        self.stores.remove(&kind)
    }

    /// Puts a store back.
    pub fn put_store(&mut self, kind: TortureStoreKind, store: TortureStore) {
        self.stores.insert(kind, store);
    }

    /// Returns the hosts, if they were started.
    pub fn started_hosts(&self) -> Option<&TestHosts> {
        self.hosts.as_ref()
    }

    /// Returns the hosts, and the mount of a target.
    pub fn both(&mut self, target: &str) -> (Option<&TestHosts>, Option<&mut MountedFileSystem>) {
        (self.hosts.as_ref(), self.mounts.get_mut(&(false, target.to_owned())))
    }

    /// Returns the directory of one side as hakobu sees it, and as the oracle does.
    fn side(&mut self, is_source: bool, name: &str) -> anyhow::Result<[PathBuf; 2]> {
        let folder = format!("h{}", self.number);
        if let Some(kind) = TortureStoreKind::of_name(name) {
            let prefix = prefix(&self.scratch, self.number, is_source);
            let directory = self.scratch.join(format!("{folder}-{}", if is_source { "s" } else { "t" }));
            let store = self.store(kind)?;
            store.clear(&prefix)?;
            // The tree of the source is made as files first.
            let files = store.files(&prefix).filter(|_| !is_source);
            return Ok([store.url(&prefix), files.unwrap_or(directory)]);
        }
        if ["tmpfs", "plain"].contains(&name)
            || HistorySetting::kind(name).is_some_and(|kind| kind.is_read_only())
        {
            let directory = self.scratch.join(format!("{folder}-{}", if is_source { "s" } else { "t" }));
            return Ok([directory.clone(), directory]);
        }
        let kind = FileSystemKind::parse(name)?;
        let key = (is_source, name.to_owned());
        if !self.mounts.contains_key(&key) {
            // Each combination of lies needs its own mount. Keep only one, since each has a server process.
            let lies = |key: &(bool, String)| key.0 == is_source && key.1.starts_with("fuse:");
            if name.starts_with("fuse:") {
                self.mounts.retain(|key, _| !lies(key));
            }
            self.mounts.insert(key.clone(), mount(&kind, &self.scratch)?);
        }
        let mounted = &self.mounts[&key];
        Ok([
            mounted.path().join(&folder),
            mounted.backing().unwrap_or(mounted.path().to_owned()).join(&folder),
        ])
    }

    /// Removes the mounts of a setting and the fleet, so that a failure does not affect the next history.
    pub fn forget(&mut self, setting: &HistorySetting) {
        self.mounts.remove(&(true, setting.source.clone()));
        self.mounts.remove(&(false, setting.target.clone()));
        self.fleet = None;
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Its processes may have files open.
        self.fleet = None;
        self.mounts.clear();
        self.hosts = None;
        self.stores.clear();
        clear(&self.scratch);
    }
}

/// The directories of one history. Dropping it removes them.
#[derive(Debug)]
pub struct HistoryDirectories {
    /// The side of the source as hakobu sees it. Contains `source`.
    pub source: PathBuf,
    /// The side of the target. Contains `target` and `one`.
    pub target: PathBuf,
    /// The side of the source as the oracle sees it, without lies.
    pub true_source: PathBuf,
    /// The side of the target as the oracle sees it.
    pub true_target: PathBuf,
    /// The side to which a store is copied back. Contains `target`.
    pub back: PathBuf,
    /// The directory of reports, lists and outputs.
    pub notes: PathBuf,
    number: u64,
    image: Option<MountedFileSystem>,
    keep: bool,
}

impl HistoryDirectories {
    /// Creates the directories of a history.
    pub fn new(setting: &HistorySetting, pool: &mut Pool, keep: bool) -> anyhow::Result<Self> {
        pool.number += 1;
        let [source, true_source] = pool.side(true, &setting.source)?;
        let [target, true_target] = pool.side(false, &setting.target)?;
        let notes = pool.scratch.join(format!("n{}", pool.number));
        let back = pool.scratch.join(format!("b{}", pool.number));
        let number = pool.number;
        let directories =
            Self { source, target, true_source, true_target, back, notes, number, image: None, keep };
        for directory in directories.all() {
            clear(directory);
            std::fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
        }
        for kind in [setting.source_store(), setting.target_store()].into_iter().flatten() {
            let signature = !number.is_multiple_of(3);
            pool.store(kind)?.settle_in(&directories.notes.join("home"), signature)?;
        }
        Ok(directories)
    }

    /// Returns the objects of a side, if it is a store. `tree` is the path below the side.
    pub fn objects(
        &self,
        setting: &HistorySetting,
        pool: &Pool,
        is_source: bool,
        tree: &[u8],
    ) -> Option<ObjectTree> {
        let kind = if is_source { setting.source_store() } else { setting.target_store() }?;
        let store = pool.started_store(kind)?;
        let prefix = prefix(&pool.scratch, self.number, is_source);
        let files = store.files(&prefix);
        Some(ObjectTree { kind, client: store.client(), prefix, tree: Name(tree.to_vec()), files })
    }

    fn all(&self) -> [&PathBuf; 4] {
        [&self.true_source, &self.true_target, &self.back, &self.notes]
    }

    /// Creates the image of a read-only source anew.
    pub fn make_image(&mut self, setting: &HistorySetting) -> anyhow::Result<()> {
        let folder = self.image.take().map(|image| image.folder().to_owned());
        let kind = FileSystemKind::parse(&setting.source)?;
        self.image = Some(match folder {
            Some(folder) => mount_read_only_at(&kind, &self.true_source, folder)?,
            None => mount_read_only_of(&kind, &self.true_source, &self.notes)?,
        });
        Ok(())
    }

    /// Returns the path of the source for hakobu.
    pub fn shown_source(&self) -> PathBuf {
        self.image.as_ref().map_or(self.source.as_path(), MountedFileSystem::path).join("source")
    }

    /// Returns the path of the source for the oracle, as it is for this step.
    pub fn seen_source(&self) -> PathBuf {
        self.image.as_ref().map_or(self.true_source.as_path(), MountedFileSystem::path).join("source")
    }
}

impl Drop for HistoryDirectories {
    fn drop(&mut self) {
        self.image = None;
        if !self.keep {
            self.all().into_iter().for_each(|directory| clear(directory));
        }
    }
}

/// Returns the prefix of the objects of a side. No other worker has the same: two copies between equal locations exclude
/// each other, although each worker has its own stores.
fn prefix(scratch: &Path, number: u64, is_source: bool) -> String {
    let worker = scratch.file_name().unwrap_or_default().to_string_lossy().replace("hakobu-torture-", "");
    format!("{}{number}-{worker}", if is_source { "s" } else { "t" })
}

fn clear(directory: &Path) {
    // If this fails, creating the directory again fails too.
    let _ = std::fs::remove_dir_all(directory);
}
