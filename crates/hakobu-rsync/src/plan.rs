//! Determines what a run would do, without doing it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Event;
use hakobu_core::path::EntryPath;
use hakobu_core::units::format_lack;
use hakobu_endpoints::local::free_bytes_at;

use super::options::RsyncPurpose;
use super::pool::{Batch, ChangeByRsync, FileSizes, PooledFile, Share};
use super::rsync_run::RsyncRun;
use hakobu_core::outcome::RunEnvironment;

impl RsyncRun<'_> {
    /// Plans the run: one rsync that changes nothing reports everything. Returns the files that something is in the way
    /// of.
    pub(super) fn plan(&self, surroundings: &mut RunEnvironment<'_>) -> Result<FileSizes> {
        let mut files = Vec::new();
        while let Some(batch) = self.pool.take(&|| Share { lanes: 1, ..Share::default() }) {
            files.extend(batch.files);
            self.pool.done(None);
        }
        let later = self.found().later.clone();
        let all: Vec<_> = files.iter().map(|file| file.path.clone()).chain(later.iter().cloned()).collect();
        if all.is_empty() {
            return Ok(FileSizes::new());
        }
        let (changes, failures) = self.changes(RsyncPurpose::Finish, &all, surroundings.prompts)?;
        self.ends.failures(self.record, failures);
        let mut planned: Vec<_> =
            changes.iter().filter(|(path, _)| **path != self.ends.prefix && !path.is_root()).collect();
        planned.sort_by_key(|(path, _)| *path);
        for (path, (change, size_bytes)) in planned {
            let action = match change {
                ChangeByRsync::Created => "create",
                ChangeByRsync::Updated => "update",
                ChangeByRsync::Attributes => "attributes",
            };
            if *change != ChangeByRsync::Attributes {
                self.record.count(|counters| counters.planned_bytes += *size_bytes);
            }
            let (action, path, size_bytes) = (action.to_owned(), path.as_bytes().to_vec(), *size_bytes);
            surroundings.observer.event(Event::Planned { action, path, size_bytes });
        }
        for path in &later {
            self.finished(path, changes.get(path).copied());
        }
        if !self.way.outward {
            let comes = |file: &&PooledFile| {
                let change = changes.get(&file.path).map(|(change, _)| *change);
                matches!(change, Some(ChangeByRsync::Created | ChangeByRsync::Updated))
            };
            self.foresee_room(files.iter().filter(comes))?;
        }
        let blocked = files.iter().filter(|file| self.record.has_failed(&file.path));
        let blocked = blocked.map(|file| (file.path.clone(), file.size_bytes)).collect();
        for file in files {
            let mut batch = Batch { files: vec![file], ..Batch::default() };
            let PooledFile { path, .. } = &batch.files[0];
            if let Some((change, _)) = changes.get(path) {
                batch.changes.insert(path.clone(), *change);
            }
            self.record.batch(usize::MAX, &batch);
        }
        // Nothing was written.
        self.record.count(|counters| {
            (counters.target_written_bytes, counters.source_read_bytes) = (0, 0);
        });
        Ok(blocked)
    }

    /// Refuses a plan if this host has too little space for its files, judged by their sizes.
    fn foresee_room<'f>(&self, files: impl Iterator<Item = &'f PooledFile>) -> Result<()> {
        let local = |path: &EntryPath| {
            Path::new(OsStr::from_bytes(&self.ends.local)).join(OsStr::from_bytes(path.as_bytes()))
        };
        let freed = |path: &EntryPath| {
            std::fs::symlink_metadata(local(path))
                .map_or(0, |there| if there.is_file() { there.len() } else { 0 })
        };
        let needed_bytes =
            files.map(|file| i128::from(file.size_bytes) - i128::from(freed(&file.path))).sum::<i128>();
        let tree = PathBuf::from(OsStr::from_bytes(&self.ends.local_tree()));
        let Some(free_bytes) = tree.ancestors().find_map(free_bytes_at) else { return Ok(()) };
        if needed_bytes <= i128::from(free_bytes) {
            return Ok(());
        }
        let words = format!(
            "{}; it would fit only if files have holes, which rsync does not list",
            format_lack(u64::try_from(needed_bytes).unwrap_or(u64::MAX), free_bytes)
        );
        Err(Error::new(ErrorKind::NoSpace, "checking free space", words).at(&self.ends.target_name))
    }

    /// Plans the copies of entries that directories are in the way of.
    pub(super) fn plan_replacements(&self, paths: &[EntryPath], blocked: &FileSizes) {
        self.record.forgive(paths);
        for path in paths.iter().filter(|path| !self.record.has_failed(path)) {
            let size_bytes = blocked.get(path).copied().unwrap_or(0);
            self.record.change(path, ChangeByRsync::Created, size_bytes);
            let (action, path) = ("create".to_owned(), path.as_bytes().to_vec());
            self.way.observer.event(Event::Planned { action, path, size_bytes });
        }
    }
}
