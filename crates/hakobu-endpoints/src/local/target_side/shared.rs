//! The state that all lanes of a target share.

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use hakobu_core::Result;
use hakobu_core::grant::Grant;
use hakobu_core::path::EntryPath;
use hakobu_core::stopping;
use rustix::fd::OwnedFd;

use super::attributes::Policy;
use super::devices::Devices;
use super::directories::Directory;
use super::drafts::LocalDrafts;
use super::leftovers::LeftoverFiles;
use super::run_marks::RunMarks;
use super::state::StateDirectory;
use crate::common::allowance::Allowance;
use crate::local::draft_name::{DraftKey, DraftName};
use crate::local::metadata;
use crate::local::resolve_beneath::TreeRoot;

/// The options of a target for one run.
#[derive(Clone, Debug)]
pub struct TargetOptions {
    /// The job's key. It is part of the names of drafts, so that two jobs never share one.
    pub job: [u8; 32],
    /// True if `Barrier` flushes everything to stable storage; otherwise it does nothing.
    pub durable: bool,
    /// The directory for journals of devices; without it they have none.
    pub state: Option<StateDirectory>,
}

/// The state that all lanes of a target share.
#[derive(Debug)]
pub(crate) struct LocalTargetState {
    pub(super) root: TreeRoot,
    /// The root's absolute path, from which the names of drafts are derived.
    pub(super) root_path: Vec<u8>,
    pub(super) grant: Grant,
    pub(super) options: TargetOptions,
    pub(super) key: DraftKey,
    pub(super) policy: Policy,
    pub(super) marks: RunMarks,
    pub(super) leftovers: LeftoverFiles,
    pub(super) drafts: LocalDrafts,
    pub(super) devices: Devices,
    /// The bytes of content taken from the grant so far.
    pub(super) allowance: Allowance,
    /// The number of lanes that have been opened.
    pub(super) lanes: AtomicU32,
    /// The maximum number of entries that may have been created.
    pub(super) made: AtomicU64,
    /// True if files without a name may be tried.
    pub(super) nameless: bool,
    /// The stream that may be written in order, and is in no directory.
    pub(super) stream: Option<OwnedFd>,
    /// True if only sinks may be opened among devices, whatever the grant allows.
    pub(super) files_only: bool,
    /// True if each operation is a request to a file server, or to another program.
    pub(super) on_network: bool,
    /// False if large drafts were made that may be those of other users, as far as the file system tells. Nobody could take them over.
    pub(super) has_private_drafts: AtomicBool,
}

impl LocalTargetState {
    /// Returns the draft name for `name` in `directory`. `lane` is 0 for drafts that all lanes share.
    pub(super) fn draft_name(&self, lane: u32, directory: &EntryPath, name: &[u8]) -> DraftName {
        // The absolute path is used because an interrupted run may have created its root. The next run's root is then
        // the existing directory, and finds the same drafts.
        let directory = match directory.is_root() {
            true => Cow::Borrowed(&self.root_path),
            false => Cow::Owned([&self.root_path, b"/".as_slice(), directory.as_bytes()].concat()),
        };
        DraftName::new(&self.key, lane, &directory, name)
    }

    /// Looks for drafts that earlier leases of the job have left of a file. `goes_on`: true if one of them can be taken over.
    pub(super) fn look_for_earlier(&self, directory: &Directory, draft: &DraftName, goes_on: bool) {
        let place = (&directory.path, &*directory.fd);
        if self.grant.lease.as_ref().is_some_and(|lease| lease.is_repeated() && !lease.is_over()) {
            self.leftovers.take_over(&self.key, place, draft, goes_on);
        } else if goes_on {
            self.leftovers.adopt(place, draft);
        }
    }

    /// Refuses a device if only files may be used, because opening one may have an effect. A missing entry is no
    /// device.
    pub(super) fn refuse_device(&self, directory: &OwnedFd, name: &[u8]) -> Result<()> {
        if !self.files_only {
            return Ok(());
        }
        match metadata::of_name(directory, name) {
            Ok(found) => metadata::check_kind(true, found.kind, "opening"),
            Err(_) => Ok(()),
        }
    }

    /// Removes the mark of a failed run, unless its data cannot be flushed to stable storage now. After a request to
    /// stop, the mark stays, because the user must not wait for a flush.
    pub(super) fn settle(&self) {
        let stays = stopping::is_asked() || !self.options.durable || !self.marks.is_held();
        if !stays && self.devices.flush(&self.root).is_ok() {
            // The run has already failed.
            let _ = self.marks.end(&self.options.job, true, false);
        }
    }

    /// Ensures that a crash of this machine before the file is on stable storage is detected. Returns true if that
    /// requires flushing the file.
    pub(super) fn before_naming(&self) -> bool {
        self.options.durable && self.marks.begin(&self.root, &self.grant, &self.options.job)
    }

    /// Records that a new entry is about to be created.
    pub(super) fn makes_entry(&self) {
        self.made.fetch_add(1, Relaxed);
    }

    /// Takes back one [`makes_entry`](Self::makes_entry), because another lane or process was faster.
    pub(super) fn made_by_another(&self) {
        self.made.fetch_sub(1, Relaxed);
    }

    /// Takes content bytes from the grant.
    pub(super) fn take_bytes(&self, bytes: u64) -> Result<()> {
        self.allowance.take(&self.grant, bytes)
    }

    /// Returns content bytes that were taken but are not at the target.
    pub(super) fn return_bytes(&self, bytes: u64) {
        self.allowance.give_back(&self.grant, bytes);
    }
}
