//! Runs a copy by rsync: examine both endpoints, scan, copy, agree on deletions, and apply what could not be split.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Event;
use hakobu_core::filter::Filter;
use hakobu_core::losses::{Loss, LossKind};
use hakobu_core::path::EntryPath;

use super::endpoints::{RsyncEndpoints, here};
use super::lanes::{RsyncLanes, change_of};
use super::losses;
use super::options::RsyncPurpose;
use super::output::{ItemizedEntry, RsyncMessage};
use super::pool::{ChangeByRsync, FilePool, FileSizes};
use super::record::RsyncRecord;
use super::remote_rsync::{RemoteAccess, RsyncOrder};
use super::removal::Extras;
use super::scan::{RsyncScan, ScanResults};
use super::target_index::TargetIndex;
use hakobu_core::outcome::{RunEnvironment, Transfer};
use hakobu_core::prompts::Prompts;
use hakobu_core::request::{Deletion, Durability};

/// The notice before anything is copied.
const WHAT_IT_LACKS: &str = "rsync moves the data: its own checksums check it, no digest is taken, and the daemon does \
                             not say when it is on stable storage";

/// A run with known endpoints.
pub(super) struct RsyncRun<'a> {
    pub way: &'a RemoteAccess<'a>,
    pub ends: &'a RsyncEndpoints,
    pub record: &'a RsyncRecord<'a>,
    filter: Option<Filter>,
    pub pool: FilePool,
    found: Mutex<ScanResults>,
    /// True if the target directory was just created, so that it is empty.
    is_fresh: AtomicBool,
}

impl<'a> RsyncRun<'a> {
    pub fn new(
        way: &'a RemoteAccess<'a>,
        ends: &'a RsyncEndpoints,
        record: &'a RsyncRecord<'a>,
    ) -> Result<Self> {
        let filter = Filter::new(&way.request.filter)?;
        let (pool, found, is_fresh) = (FilePool::default(), Mutex::default(), AtomicBool::new(false));
        Ok(Self { way, ends, record, filter, pool, found, is_fresh })
    }

    /// Runs the copy to its end.
    ///
    /// # Errors
    /// The error that ended it early; failures of single entries are in the record.
    pub fn run(&self, transfer: &mut Transfer, surroundings: &mut RunEnvironment<'_>) -> Result<u16> {
        if let Some((from, to)) = &self.ends.single {
            let order = RsyncOrder { from: from.clone(), to: to.clone(), names: None };
            self.single(&order, surroundings)?;
            return Ok(1);
        }
        self.begin(surroundings.prompts)?;
        transfer.connect = self.record.elapsed();
        let deletion = self.way.request.deletion;
        let first = deletion.filter(|deletion| deletion.first && !self.way.request.dry_run);
        let mut blocked = FileSizes::new();
        let lanes = match (self.way.request.dry_run, first) {
            (true, _) => {
                self.scan(surroundings.prompts)?;
                blocked = self.plan(surroundings)?;
                1
            }
            (false, Some(deletion)) => {
                self.scan(surroundings.prompts)?;
                self.remove(&deletion, &blocked, transfer, surroundings)?;
                self.bring_over(None)?
            }
            (false, None) => self.bring_over(Some(&mut *surroundings.prompts))?,
        };
        let removed = match deletion {
            Some(deletion) if first.is_none() => self.remove(&deletion, &blocked, transfer, surroundings),
            _ => Ok(()),
        };
        // Directories get their times even if nothing may be removed.
        if !self.way.request.dry_run {
            self.finish(surroundings.prompts)?;
            let owners = self.found().owners.clone();
            let losses = &mut transfer.summary.losses;
            losses::add_owner((self.way, self.ends), &owners, surroundings.prompts, losses);
        }
        removed.map(|()| lanes)
    }

    /// Creates the target directory, which also reveals the options that both sides accept.
    fn begin(&self, prompts: &mut dyn Prompts) -> Result<()> {
        let is_fresh = self.top(prompts, false)?.is_some_and(|top| top.is_new);
        self.is_fresh.store(is_fresh, Relaxed);
        let mut words = WHAT_IT_LACKS.to_owned();
        if self.way.version.protocol < 31 {
            words.push_str("; the installed rsync is older than 3.1, so times are kept in whole seconds");
        }
        if self.way.request.deletion.is_some() {
            words.push_str(
                "; a directory takes the place of a file, and a file that of an empty directory, unasked",
            );
        }
        self.way.observer.event(Event::Notice { words });
        Ok(())
    }

    /// Copies the top directory alone: first to create it, last for its attributes.
    fn top(&self, prompts: &mut dyn Prompts, last: bool) -> Result<Option<ItemizedEntry>> {
        let mut top = None;
        let mut each = |said| {
            if let RsyncMessage::Item(item) = said
                && item.path == self.ends.prefix
            {
                top.get_or_insert(item);
            }
        };
        let named = !self.ends.prefix.is_root();
        let order = match named {
            true => self.ends.order_of(self.way, [&self.ends.prefix].into_iter()),
            false => self.ends.order(self.way),
        };
        let failures =
            self.way.run_patiently(RsyncPurpose::Top { last, named }, &order, prompts, &mut each)?;
        // Without its top directory the run cannot continue; a failure to set its attributes is one failure among
        // others.
        match failures.into_iter().next() {
            Some((path, error)) if !last => Err(error.at(path)),
            Some(failure) => {
                self.ends.failures(self.record, vec![failure]);
                Ok(top)
            }
            None => Ok(top),
        }
    }

    fn scan(&self, prompts: &mut dyn Prompts) -> Result<()> {
        let standing = match self.is_fresh.load(Relaxed) {
            true => TargetIndex::nothing(),
            false => TargetIndex::find(self.way, self.ends, prompts)?,
        };
        let scan = RsyncScan {
            standing: &standing,
            way: self.way,
            record: self.record,
            pool: &self.pool,
            filter: self.filter.as_ref(),
            prefix: &self.ends.prefix,
            keeps_names: self.way.request.deletion.is_some(),
            found: &self.found,
        };
        let scanned = match self.way.outward {
            true => scan.local(&self.ends.local, &self.ends.prefix),
            false => scan.far(&self.ends.far_tree(), prompts),
        };
        self.record.end_of_scan();
        self.pool.end_of_scan();
        scanned
    }

    /// Copies all files over several connections while the source is scanned, unless that has been done.
    fn bring_over(&self, prompts: Option<&mut dyn Prompts>) -> Result<u16> {
        let lanes = RsyncLanes::new(self.way, self.ends, &self.pool, self.record);
        let (_, most) = RsyncLanes::counts(self.way);
        let is_over = AtomicBool::new(false);
        self.pool.begin();
        let scanned = std::thread::scope(|scope| {
            scope.spawn(|| lanes.watch(&is_over));
            let workers: Vec<_> = (0..most)
                .map(|index| {
                    let lanes = &lanes;
                    scope.spawn(move || lanes.work(index))
                })
                .collect();
            let scanned = prompts.map_or(Ok(()), |prompts| self.scan(prompts));
            if scanned.is_err() {
                self.pool.stop();
            }
            let defect =
                workers.into_iter().map(std::thread::ScopedJoinHandle::join).any(|ended| ended.is_err());
            is_over.store(true, Relaxed);
            if defect {
                return Err(Error::new(ErrorKind::Io, "copying", "a defect in hakobu ended a lane"));
            }
            scanned
        });
        self.record.error().map_or(scanned, Err)?;
        if !self.pool.is_finished() {
            return Err(Error::new(
                ErrorKind::Io,
                "copying",
                "no connection was left for the files that wait",
            ));
        }
        Ok(lanes.most_at_once().max(1))
    }

    /// Finds the extra entries of the target, and removes them once that is agreed to. A plan needs the `blocked`
    /// files.
    fn remove(
        &self,
        deletion: &Deletion,
        blocked: &FileSizes,
        transfer: &mut Transfer,
        surroundings: &mut RunEnvironment<'_>,
    ) -> Result<()> {
        let found = {
            let mut found = self.found();
            let (known, left_out) = (std::mem::take(&mut found.known), std::mem::take(&mut found.left_out));
            ScanResults { known, left_out, ..ScanResults::default() }
        };
        let mut extras = Extras::find(self.way, self.ends, &found, self.filter.as_ref(), surroundings)?;
        // A plan has created nothing.
        if !self.way.request.dry_run {
            extras.discount(self.record.entries_made());
        }
        extras.tell(&mut transfer.summary);
        if extras.is_empty() {
            return Ok(());
        }
        if self.way.request.dry_run {
            extras.plan(self.way.observer);
        }
        if self.record.failures_count() > 0 {
            let words = "nothing is deleted after failures".to_owned();
            surroundings.observer.event(Event::Notice { words });
            return Ok(());
        }
        if !extras.agree(self.ends, deletion, self.way.request.dry_run, surroundings)? {
            return Ok(());
        }
        if self.way.request.dry_run {
            self.plan_replacements(&extras.in_the_way, blocked);
            return Ok(());
        }
        let deleted = || self.record.snapshot().entries_deleted;
        let before = deleted();
        extras.remove(self.way, self.ends, self.record, surroundings)?;
        self.replace(&extras.in_the_way, surroundings.prompts)?;
        let left = &mut transfer.summary.counters.entries_only_in_target;
        *left = left.saturating_sub(deleted() - before);
        Ok(())
    }

    /// Copies the entries that directories were in the way of. The directories are empty by now, or remain.
    fn replace(&self, paths: &[EntryPath], prompts: &mut dyn Prompts) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        self.record.forgive(paths);
        let (changes, failures) = self.changes(RsyncPurpose::Replace, paths, prompts)?;
        self.ends.failures(self.record, failures);
        for path in paths.iter().filter(|path| !self.record.has_failed(path)) {
            if let Some((change, size_bytes)) = changes.get(path) {
                // rsync does not report the removal of the directory itself.
                self.record.deleted(path);
                self.record.change(path, *change, *size_bytes);
                self.record.count(|counters| {
                    counters.target_written_bytes += size_bytes;
                    counters.source_read_bytes += size_bytes;
                });
            }
        }
        Ok(())
    }

    /// Copies directories' attributes, symbolic links and nodes.
    fn finish(&self, prompts: &mut dyn Prompts) -> Result<()> {
        let (later, firsts) = {
            let mut found = self.found();
            (std::mem::take(&mut found.later), std::mem::take(&mut found.firsts))
        };
        // Entries that replaced a directory are already done.
        let later: Vec<_> = later.into_iter().filter(|path| !self.record.has_failed(path)).collect();
        let mut all: Vec<_> = later.clone();
        if self.found().has_links {
            all.extend(firsts);
        }
        if !all.is_empty() {
            let (changes, failures) = self.changes(RsyncPurpose::Finish, &all, prompts)?;
            self.ends.failures(self.record, failures);
            for path in &later {
                self.finished(path, changes.get(path).copied());
            }
        }
        self.top(prompts, true)?;
        self.stable()
    }

    /// Counts an entry that is not a file copied by the lanes.
    pub(super) fn finished(&self, path: &EntryPath, change: Option<(ChangeByRsync, u64)>) {
        if self.record.has_failed(path) {
            return;
        }
        match change {
            _ if self.record.was_made(path) => self.record.change(path, ChangeByRsync::Created, 0),
            Some((change, size_bytes)) => self.record.change(path, change, size_bytes),
            None => self.record.count(|counters| counters.entries_unchanged += 1),
        }
    }

    /// Runs one rsync for these names. Returns what it did and what failed.
    #[allow(clippy::type_complexity)]
    pub(super) fn changes(
        &self,
        purpose: RsyncPurpose,
        paths: &[EntryPath],
        prompts: &mut dyn Prompts,
    ) -> Result<(HashMap<EntryPath, (ChangeByRsync, u64)>, Vec<(Vec<u8>, Error)>)> {
        let order = self.ends.order_of(self.way, paths.iter());
        let mut changes = HashMap::new();
        let mut skipped = Vec::new();
        let mut failures = self.way.run_patiently(purpose, &order, prompts, &mut |said| match said {
            RsyncMessage::Item(item) => {
                let sent = if item.has_content { item.size_bytes } else { 0 };
                let change = change_of(&item);
                changes.entry(item.path).or_insert((change, sent));
            }
            RsyncMessage::Skipped(path) => skipped.push(path),
            RsyncMessage::Deleted(path) => self.record.deleted(&path),
            RsyncMessage::Bytes(_)
            | RsyncMessage::Traffic(_)
            | RsyncMessage::NotEmpty(_)
            | RsyncMessage::Unread(_) => {}
        })?;
        let words = "the receiving rsync may not make devices, or the source may not give them";
        let refused = |path| (path, Error::new(ErrorKind::Unsupported, "making the node", words));
        failures.extend(skipped.into_iter().map(refused));
        Ok((changes, failures))
    }

    /// Copies one file or link, which may get another name.
    fn single(&self, order: &RsyncOrder, surroundings: &mut RunEnvironment<'_>) -> Result<()> {
        let RsyncOrder { from, to, .. } = order;
        let before = self.way.outward.then(|| version(Path::new(from))).flatten();
        self.way.decided("connections: 1", "it is a single entry, which rsync does not split".to_owned());
        self.record.count(|counters| counters.entries_scanned += 1);
        self.record.end_of_scan();
        let holes = !self.way.outward || may_have_holes(Path::new(from));
        let mut change = None;
        let order = RsyncOrder { from: from.clone(), to: to.clone(), names: None };
        let (record, observer) = (self.record, self.way.observer);
        let failures = self.way.run_patiently(
            RsyncPurpose::Single { holes },
            &order,
            surroundings.prompts,
            &mut |said| match said {
                RsyncMessage::Item(item) => {
                    change = Some((change_of(&item), if item.has_content { item.size_bytes } else { 0 }));
                }
                RsyncMessage::Bytes(bytes) => {
                    record.moved_at_least(0, bytes);
                    observer.event(Event::Progress(Box::new(record.snapshot())));
                }
                RsyncMessage::Deleted(_)
                | RsyncMessage::Traffic(_)
                | RsyncMessage::Skipped(_)
                | RsyncMessage::NotEmpty(_)
                | RsyncMessage::Unread(_) => {}
            },
        )?;
        if self.ends.has_set_id && !self.way.outward && !self.way.request.allow.set_id {
            self.found().lost.insert(LossKind::SetId, (1, self.ends.prefix.clone()));
        }
        self.record.begin(0);
        let failed = !failures.is_empty();
        self.ends.failures(self.record, failures);
        let path = self.ends.prefix.as_bytes().to_vec();
        match change {
            _ if failed => {}
            Some((change, bytes)) => {
                self.record.change(&self.ends.single_name()?, change, bytes);
                self.record.count(|counters| {
                    (counters.target_written_bytes, counters.source_read_bytes) = (bytes, bytes);
                });
            }
            None => self.record.count(|counters| counters.entries_unchanged += 1),
        }
        if self.way.outward && before != version(Path::new(from)) {
            let words = "it changed while it was copied";
            self.record.failure(path, Error::new(ErrorKind::SourceChanged, "reading", words));
        }
        self.stable()
    }

    /// Syncs data written on this host to stable storage.
    fn stable(&self) -> Result<()> {
        if self.way.outward || self.way.request.dry_run || self.way.request.durable == Durability::None {
            return Ok(());
        }
        let place = here(&self.ends.target_name);
        let failed = |error: std::io::Error| {
            Error::io("flushing the file system of", &error).at(&self.ends.target_name)
        };
        let opened = match std::fs::symlink_metadata(&place) {
            Ok(found) if found.is_dir() || found.is_file() => place,
            _ => place.parent().map(Path::to_path_buf).unwrap_or(place),
        };
        let file = std::fs::File::open(opened).map_err(failed)?;
        rustix::fs::syncfs(&file).map_err(|errno| failed(errno.into()))
    }

    pub(super) fn found(&self) -> std::sync::MutexGuard<'_, ScanResults> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the losses due to refused options, as far as they can be detected.
    pub fn add_losses(&self, losses: &mut Vec<Loss>) {
        let lost = self.found().lost.clone();
        losses.extend(lost.into_iter().map(|(what, (count, example))| Loss {
            what,
            count,
            at_target: what.is_of_target(),
            example: example.as_bytes().to_vec(),
        }));
    }
}

/// Returns true if less space is allocated than the size requires.
fn may_have_holes(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.blocks() * 512 < found.size())
}

fn version(path: &Path) -> Option<(u64, i64, i64, i64, i64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.size(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()))
}
