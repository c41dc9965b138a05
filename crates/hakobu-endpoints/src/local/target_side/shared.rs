//! The state that all lanes of a target share.

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use hakobu_core::Result;
use hakobu_core::grant::Grant;
use hakobu_core::path::EntryPath;
use hakobu_core::stopping;
use rustix::fd::OwnedFd;

use super::attributes::Policy;
use super::devices::Devices;
use super::drafts::Drafts;
use super::leftovers::Leftovers;
use super::run_marks::RunMarks;
use super::state::StateDirectory;
use crate::common::allowance::Allowance;
use crate::local::beneath::Root;
use crate::local::draft_name::DraftName;
use crate::local::metadata;

/// What a target is told about the run.
#[derive(Clone, Debug)]
pub struct TargetOptions {
    /// The job's key. It goes into the names of drafts, so that two jobs never share one.
    pub job: [u8; 32],
    /// Whether `Barrier` brings everything to stable storage; otherwise it does nothing.
    pub durable: bool,
    /// Where journals of devices are kept; without it they have none.
    pub state: Option<StateDirectory>,
}

/// What all lanes of a target share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) root: Root,
    /// The root's whole path, which the names of drafts are made from.
    pub(super) root_path: Vec<u8>,
    pub(super) grant: Grant,
    pub(super) options: TargetOptions,
    pub(super) policy: Policy,
    pub(super) marks: RunMarks,
    pub(super) leftovers: Leftovers,
    pub(super) drafts: Drafts,
    pub(super) devices: Devices,
    /// Bytes of content taken from the grant so far.
    pub(super) allowance: Allowance,
    /// How many lanes have been opened.
    pub(super) lanes: AtomicU32,
    /// How many entries may have been made.
    pub(super) made: AtomicU64,
    /// Whether files without a name may be tried.
    pub(super) nameless: bool,
    /// What may be written to in order, and is in no directory.
    pub(super) stream: Option<OwnedFd>,
    /// Whether no device but a sink may be opened, whatever the grant says.
    pub(super) files_only: bool,
    /// Whether each operation is a message to a file server, or to another program.
    pub(super) on_network: bool,
}

impl Shared {
    /// The name of a draft beside `name` in `directory`. `lane` is 0 for drafts that all lanes share.
    pub(super) fn draft_name(&self, lane: u32, directory: &EntryPath, name: &[u8]) -> DraftName {
        // By the whole path: what an interrupted run left below a root that it had made is found by
        // the next run, whose root is the directory that is there now.
        let directory = match directory.is_root() {
            true => Cow::Borrowed(&self.root_path),
            false => Cow::Owned([&self.root_path, b"/".as_slice(), directory.as_bytes()].concat()),
        };
        DraftName::new(&self.options.job, lane, &directory, name)
    }

    /// Refuses a device where only files may be used: to open one may do something to it already. What is not there
    /// is none.
    pub(super) fn refuse_device(&self, directory: &OwnedFd, name: &[u8]) -> Result<()> {
        if !self.files_only {
            return Ok(());
        }
        match metadata::of_name(directory, name) {
            Ok(found) => metadata::check_kind(true, found.kind, "opening"),
            Err(_) => Ok(()),
        }
    }

    /// A run that has failed leaves its mark only where what it wrote cannot be brought to stable storage now. A user who
    /// has asked to stop does not wait for that.
    pub(super) fn settle(&self) {
        let stays = stopping::is_asked() || !self.options.durable || !self.marks.is_held();
        if !stays && self.devices.flush(&self.root).is_ok() {
            // The run has failed already.
            let _ = self.marks.end(&self.options.job, true, false);
        }
    }

    /// Sees that it will be known if this machine ends before what gets a name now is on stable storage. Returns true if the file
    /// has to be flushed for that.
    pub(super) fn before_naming(&self) -> bool {
        self.options.durable && self.marks.begin(&self.root, &self.grant, &self.options.job)
    }

    /// Takes note that an entry is about to be made where there is none.
    pub(super) fn makes_entry(&self) {
        self.made.fetch_add(1, Relaxed);
    }

    /// Takes content bytes from the grant.
    pub(super) fn take_bytes(&self, bytes: u64) -> Result<()> {
        self.allowance.take(&self.grant, bytes)
    }

    /// Gives back content bytes that were taken and are not at the target.
    pub(super) fn return_bytes(&self, bytes: u64) {
        self.allowance.give_back(&self.grant, bytes);
    }
}
