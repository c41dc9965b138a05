//! Scans the source: a local tree is listed by hakobu's own lane, a remote one by rsync.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hakobu_core::endpoint::SourceLane;
use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::error::Result;
use hakobu_core::extended::Classes;
use hakobu_core::filter::{Filter, error_of_missing};
use hakobu_core::losses::LossKind;
use hakobu_core::path::{EntryPath, is_draft_name};
use hakobu_endpoints::local::{LocalSource, SourceRoot};

use super::listing::{below_of, list, list_far, without};
use super::options::PARTIAL_DIRECTORY;
use super::output::ItemizedEntry;
use super::pool::{FilePool, PooledFile};
use super::record::RsyncRecord;
use super::remote_rsync::RemoteAccess;
use super::target_index::{EntryVerdict, TargetIndex};
use hakobu_core::prompts::Prompts;

/// The results of a scan that the end of a run needs.
#[derive(Debug, Default)]
pub(super) struct ScanResults {
    /// Directories, symbolic links and nodes, and further names of files.
    pub later: Vec<EntryPath>,
    /// Files that may have further names among those.
    pub firsts: Vec<EntryPath>,
    /// All entries that take part, with true for directories. Only filled if extra entries may be deleted.
    pub known: HashMap<EntryPath, bool>,
    /// Entries that a filter excludes at the source: the target's entries with these names stay, with everything below.
    pub left_out: HashSet<EntryPath>,
    /// True if some files have several names.
    pub has_links: bool,
    /// For each kind of loss, the number of entries and one of them.
    pub lost: HashMap<LossKind, (u64, EntryPath)>,
    /// The number of entries of each owner.
    pub owners: HashMap<(u32, u32), u64>,
}

/// A scan in progress.
pub(super) struct RsyncScan<'a> {
    pub way: &'a RemoteAccess<'a>,
    pub record: &'a RsyncRecord<'a>,
    pub pool: &'a FilePool,
    pub filter: Option<&'a Filter>,
    /// The prefix of each path: the name of the tree, or nothing.
    pub prefix: &'a EntryPath,
    /// True if all names are to be kept.
    pub keeps_names: bool,
    pub found: &'a Mutex<ScanResults>,
    pub standing: &'a TargetIndex,
}

impl RsyncScan<'_> {
    /// Adds one entry that takes part. `twin`: another name of the file has been seen.
    fn entry(&self, below: &EntryPath, metadata: &EntryMetadata, twin: bool) -> Result<()> {
        let path = below_of(self.prefix, below)?;
        self.record.count(|counters| {
            counters.entries_scanned += 1;
            if metadata.kind == EntryKind::File {
                counters.bytes_scanned += metadata.size_bytes;
            }
        });
        if metadata.kind == EntryKind::Socket {
            self.record.count(|counters| counters.entries_skipped += 1);
            return Ok(());
        }
        match self.standing.judge(&path, metadata.kind) {
            EntryVerdict::Goes => {}
            EntryVerdict::Held => {
                self.record.count(|counters| counters.entries_skipped += 1);
                return Ok(());
            }
            EntryVerdict::Conflict(error) => {
                self.record.failure(path.as_bytes().to_vec(), error);
                return Ok(());
            }
        }
        let mut found = self.found();
        *found.owners.entry((metadata.uid, metadata.gid)).or_default() += 1;
        if self.keeps_names {
            found.known.insert(path.clone(), metadata.kind == EntryKind::Directory);
        }
        match metadata.kind {
            EntryKind::File if twin => {
                found.has_links = true;
                found.later.push(path.clone());
            }
            // For a remote source it is unknown which files have further names.
            EntryKind::File if self.way.keeps_hard_links() && (metadata.links > 1 || !self.way.outward) => {
                found.firsts.push(path.clone());
            }
            EntryKind::File => {}
            _ => found.later.push(path.clone()),
        }
        drop(found);
        if metadata.kind == EntryKind::File && !twin {
            // Holes of a remote file are unknown.
            let may_have_holes = metadata.sparse || !self.way.outward;
            let file = PooledFile { size_bytes: metadata.size_bytes, path, may_have_holes };
            self.pool.put(file, self.way.cancel);
        }
        Ok(())
    }

    /// Records an entry that is excluded; the target's entry with its name stays.
    fn left_out(&self, below: &EntryPath) -> Result<()> {
        if self.keeps_names {
            self.found().left_out.insert(below_of(self.prefix, below)?);
        }
        Ok(())
    }

    fn found(&self) -> MutexGuard<'_, ScanResults> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.record.is_stopped() || self.way.cancel.load(Relaxed)
    }

    /// Lists a local tree: `tree` below `root`.
    ///
    /// # Errors
    /// The root cannot be opened.
    pub fn local(&self, root: &[u8], tree: &EntryPath) -> Result<()> {
        let root = SourceRoot { path: PathBuf::from(OsStr::from_bytes(root)) };
        let source = LocalSource::open(&[root])?;
        let mut lane = source.lane();
        let mut open = VecDeque::from([tree.clone()]);
        let mut files = HashSet::new();
        let lost = self.way.losses();
        while let Some(directory) = open.pop_front() {
            if self.is_over() {
                return Ok(());
            }
            let listing = list(&mut lane, &directory, Classes::NONE)?;
            let entries = match listing.result {
                Ok(entries) => entries,
                Err(error) if directory == *tree => return Err(error),
                Err(error) => {
                    self.record.failure_of_scan(directory.as_bytes().to_vec(), error);
                    continue;
                }
            };
            self.record.drafts(&directory, entries.drafts());
            for index in 0..entries.len() {
                let metadata = entries.metadata(index);
                let path = directory.join(entries.name(index))?;
                let below = without(&path, tree)?;
                self.saw(&below);
                if is_partial(entries.name(index), metadata.kind) {
                    self.record.partial(&below);
                }
                if is_partial(entries.name(index), metadata.kind)
                    || self.filter.is_some_and(|filter| filter.leaves_out(below.as_bytes(), metadata))
                {
                    self.left_out(&below)?;
                    continue;
                }
                let inode = metadata.inode.filter(|_| metadata.kind == EntryKind::File && metadata.links > 1);
                let twin = self.way.keeps_hard_links() && inode.is_some_and(|inode| !files.insert(inode));
                self.entry(&below, metadata, twin)?;
                self.lose(&lost, &below, metadata);
                let stays = self.way.request.one_file_system && metadata.mount_point;
                if metadata.kind == EntryKind::Directory && !stays {
                    open.push_back(path);
                }
            }
            self.lose_extended(&mut lane, &lost, &directory, tree)?;
        }
        self.miss_listed();
        Ok(())
    }

    fn saw(&self, below: &EntryPath) {
        if let Some(filter) = self.filter {
            filter.saw(below.as_bytes());
        }
    }

    /// Records the listed paths that the source lacks, once all of it has been scanned.
    fn miss_listed(&self) {
        for path in self.filter.iter().flat_map(|filter| filter.missing()) {
            self.record.failure_of_scan(path.to_vec(), error_of_missing());
        }
    }

    /// Counts the losses of an entry due to refused options.
    fn lose(&self, lost: &[LossKind], below: &EntryPath, metadata: &EntryMetadata) {
        let linked = metadata.kind == EntryKind::File && metadata.links > 1;
        for (kind, loses) in [(LossKind::HardLinks, linked), (LossKind::Holes, metadata.sparse)] {
            if loses && lost.contains(&kind) {
                self.found().lost.entry(kind).or_insert_with(|| (0, below.clone())).0 += 1;
            }
        }
    }

    /// Counts the losses of extended attributes, for which the directory is listed once more.
    fn lose_extended(
        &self,
        lane: &mut impl SourceLane,
        lost: &[LossKind],
        directory: &EntryPath,
        tree: &EntryPath,
    ) -> Result<()> {
        let usual = self.way.request.preserve.extended.without(Classes::ACL);
        for (kind, classes) in [(LossKind::Acl, Classes::ACL), (LossKind::Xattr, usual)] {
            if !lost.contains(&kind) {
                continue;
            }
            let Ok(entries) = list(lane, directory, classes)?.result else { continue };
            for index in 0..entries.len() {
                let metadata = entries.metadata(index);
                let below = without(&directory.join(entries.name(index))?, tree)?;
                let is_out = self.filter.is_some_and(|filter| filter.leaves_out(below.as_bytes(), metadata));
                if metadata.extended != 0 && !is_out {
                    self.found().lost.entry(kind).or_insert_with(|| (0, below)).0 += 1;
                }
            }
        }
        Ok(())
    }

    /// Lists a remote tree.
    ///
    /// # Errors
    /// The errors of [`RemoteAccess::run_patiently`].
    pub fn far(&self, tree: &[u8], prompts: &mut dyn Prompts) -> Result<()> {
        let mut left_out: HashSet<EntryPath> = HashSet::new();
        // After a lost connection the list starts from the beginning.
        let mut seen: HashSet<EntryPath> = HashSet::new();
        let mut wrong = None;
        let mut each = |item: ItemizedEntry| -> Result<()> {
            if item.path.is_root() || !seen.insert(item.path.clone()) {
                return Ok(());
            }
            self.saw(&item.path);
            let metadata = metadata_of(&item);
            let (parent, name) = item.path.split_last().unwrap_or_default();
            if is_partial(name, item.kind) {
                self.record.partial(&item.path);
            }
            // Of a remote entry only the name can be checked.
            let is_draft = is_draft_name(name) && matches!(item.kind, EntryKind::File | EntryKind::Symlink);
            if is_draft {
                self.record.drafts(&parent, 1);
            }
            let is_out = is_draft
                || left_out.contains(&parent)
                || is_partial(name, item.kind)
                || self.filter.is_some_and(|filter| filter.leaves_out(item.path.as_bytes(), &metadata));
            if is_out {
                self.left_out(&item.path)?;
                if item.kind == EntryKind::Directory {
                    left_out.insert(item.path);
                }
                return Ok(());
            }
            if item.has_set_id() && !self.way.request.allow.set_id {
                self.found().lost.entry(LossKind::SetId).or_insert_with(|| (0, item.path.clone())).0 += 1;
            }
            self.entry(&item.path, &metadata, item.is_link)
        };
        let failures = list_far(self.way, tree, prompts, &mut |item| {
            if wrong.is_none() {
                wrong = each(item).err();
            }
        })?;
        for (path, error) in failures {
            self.record.failure_of_scan(path, error);
        }
        self.miss_listed();
        wrong.map_or(Ok(()), Err)
    }
}

fn metadata_of(item: &ItemizedEntry) -> EntryMetadata {
    EntryMetadata {
        size_bytes: item.size_bytes,
        mtime: item.mtime,
        ctime: item.mtime,
        uid: item.owner.0,
        gid: item.owner.1,
        ..EntryMetadata::new(item.kind)
    }
}

/// Returns true for rsync's directory of interrupted files. It is skipped, as by rsync itself.
fn is_partial(name: &[u8], kind: EntryKind) -> bool {
    kind == EntryKind::Directory && name == PARTIAL_DIRECTORY.as_bytes()
}
