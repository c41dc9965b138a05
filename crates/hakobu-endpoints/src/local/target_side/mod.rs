//! The local target: one root, written within a grant by any number of lanes.
//!
//! The target server of the agent drives these lanes with operations from a peer that may be hostile, so every
//! operation is checked against the grant here.

mod apply;
mod assemble;
mod attributes;
mod devices;
mod directories;
mod draft;
mod drafts;
mod finish;
mod in_place;
mod lane;
mod leftovers;
mod link;
mod new_file;
mod open;
mod recent_tags;
mod remove;
mod rename;
mod run_marks;
mod share;
mod shared;
mod sparse;
mod stable;
mod state;
mod store;
mod stream;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use hakobu_core::Result;
use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::{Endpoint, TargetEndpoint, TargetLane};
use hakobu_core::grant::Grant;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{StatVfsMountFlags, fstatvfs};

use super::draft_name::{DraftKey, DraftName};
use super::extended::settable;
use super::file_system;
use super::free_space::free_bytes;
use super::resolve_beneath::{Confinement, TreeRoot};
use super::tried_properties::{TriedProperties, by_writing, put_seen};
use crate::common::allowance::Allowance;
use crate::common::immediate::AtOnce;
use attributes::Policy;
use devices::Devices;
pub use draft::LocalDraft;
use drafts::LocalDrafts;
pub use lane::{LocalTargetLane, LocalTargetWriter};
use leftovers::LeftoverFiles;
pub use open::open_exclusively;
use run_marks::RunMarks;
use shared::LocalTargetState;
pub use shared::TargetOptions;
pub use state::StateDirectory;
pub use writer::DraftWriter;

/// A directory of this machine, opened for writing within a grant. Unfinished drafts are removed when it is dropped.
#[derive(Debug)]
pub struct LocalTarget {
    shared: Arc<LocalTargetState>,
    capabilities: Capabilities,
}

impl LocalTarget {
    /// Opens the directory. Symbolic links in `root` are followed, because the user typed it.
    ///
    /// # Errors
    /// If it is missing, is not a directory or cannot be searched.
    pub fn open(root: &Path, grant: Grant, options: TargetOptions) -> Result<Self> {
        Self::of(whole_path(root), TreeRoot::open(root)?, grant, options)
    }

    /// Opens the directory for a process that is confined to a directory. `root` is resolved beneath that directory,
    /// without following symbolic links.
    ///
    /// # Errors
    /// As for [`LocalTarget::open`], and `PermissionDenied` for a root outside the directory.
    pub fn open_within(
        confinement: &Confinement,
        root: &Path,
        grant: Grant,
        options: TargetOptions,
    ) -> Result<Self> {
        let opened = TreeRoot::open_within(confinement, root)?;
        Self::of(root.as_os_str().as_encoded_bytes().to_vec(), opened, grant, options)
    }

    fn of(root_path: Vec<u8>, mut root: TreeRoot, grant: Grant, options: TargetOptions) -> Result<Self> {
        root.hold_apart(&grant.source_directories);
        let mut policy = Policy::new(&grant, settable(root.fd(), &grant));
        let mut capabilities = Capabilities::posix(policy.may_chown);
        (capabilities.clones, capabilities.set_id) =
            (file_system::may_share(root.fd().as_fd()), policy.may_set_id);
        capabilities.extended = policy.extended;
        capabilities.time_step_ns = file_system::time_step_ns(root.fd().as_fd());
        match tried(&root, &grant, &options, &root_path) {
            Some(tried) => {
                tried.put(&mut capabilities);
                policy.times_together = tried.together;
            }
            None => put_seen([root.fd()], &mut capabilities),
        }
        policy.times = capabilities.clone();
        capabilities.names = file_system::rules(root.fd().as_fd(), !grant.only_reads);
        capabilities.answer_ns = file_system::answer_ns(root.fd().as_fd());
        capabilities.change_times = file_system::has_change_times(root.fd().as_fd());
        if let Ok(figures) = fstatvfs(root.fd()) {
            capabilities.read_only = figures.f_flag.contains(StatVfsMountFlags::RDONLY);
            capabilities.free_bytes = free_bytes(&figures);
            capabilities.free_inodes = (figures.f_files > 0).then_some(figures.f_favail);
        }
        let (devices, key) = (Devices::new(), DraftKey::new(&options.job));
        let marks = RunMarks::look(&root, &grant);
        let (drafts, allowance, lanes) = (LocalDrafts::default(), Allowance::default(), AtomicU32::new(0));
        let made = AtomicU64::new(0);
        let (nameless, stream, files_only) = (true, None, false);
        let on_network = capabilities.answer_ns.is_some();
        let shared = LocalTargetState {
            root,
            root_path,
            grant,
            options,
            key,
            policy,
            marks,
            leftovers: LeftoverFiles::default(),
            drafts,
            devices,
            allowance,
            lanes,
            made,
            nameless,
            stream,
            files_only,
            on_network,
            has_private_drafts: AtomicBool::new(true),
        };
        Ok(Self { shared: Arc::new(shared), capabilities })
    }

    /// Opens the directory as on a system without `openat2` and nameless files.
    #[cfg(test)]
    pub(crate) fn open_plain(root: &Path, grant: Grant, options: TargetOptions) -> Result<Self> {
        let mut target = Self::open(root, grant, options)?;
        if let Some(shared) = Arc::get_mut(&mut target.shared) {
            shared.nameless = false;
            shared.root.walk_only();
        }
        Ok(target)
    }

    /// Lets [`DraftKind::Stream`](hakobu_core::endpoint::DraftKind::Stream) be written to `stream`. No peer can request
    /// it.
    #[must_use]
    pub fn with_stream(mut self, stream: OwnedFd) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.stream = Some(stream);
        }
        self
    }

    /// Refuses to open devices other than sinks, whatever the grant allows.
    #[must_use]
    pub fn files_only(mut self) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.files_only = true;
        }
        self
    }

    /// Removes unfinished drafts as dropping the target does, except progress that a later run can use, and accepts no
    /// more. This is for a process that may end before all owners of the target have dropped it.
    pub fn close(&self) {
        // Whoever has the work after the end of a lease has begun anew.
        self.shared.drafts.close(self.shared.grant.check_time().is_ok());
        self.shared.settle();
    }

    /// Returns the maximum number of new entries that it may have created, including those that failed half way.
    pub fn entries_made(&self) -> u64 {
        self.shared.made.load(Relaxed)
    }

    /// Returns a lane of the concrete type, which also offers [`LocalTargetLane::draft_writer`].
    pub fn lane(&self) -> LocalTargetLane {
        AtOnce::new(LocalTargetWriter::new(Arc::clone(&self.shared)))
    }
}

impl Endpoint for LocalTarget {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Closes the drafts of a stream, since a stream that nobody reads would block its lane forever.
    fn interrupt(&self) {
        if self.shared.stream.is_some() {
            self.shared.drafts.close(false);
        }
    }
}

impl TargetEndpoint for LocalTarget {
    fn shares_drafts(&self) -> bool {
        self.shared.has_private_drafts.load(Relaxed)
    }

    fn open_target_lane(&self, _index: usize) -> Result<Box<dyn TargetLane>> {
        Ok(Box::new(self.lane()))
    }
}

impl Drop for LocalTarget {
    fn drop(&mut self) {
        self.close();
    }
}

/// Tests which names and times the file system of a root can hold. A job that only compares creates no visible file.
fn tried(
    root: &TreeRoot,
    grant: &Grant,
    options: &TargetOptions,
    root_path: &[u8],
) -> Option<TriedProperties> {
    // A disk has no times.
    if grant.places.iter().all(|place| place.device.is_some()) {
        return None;
    }
    let key = DraftKey::new(&options.job);
    let names = [0, 1].map(|number| DraftName::new(&key, u32::MAX - 2 - number, root_path, b""));
    let drafts = (!grant.only_reads).then_some([&names[0], &names[1]]);
    by_writing(root.fd().as_fd(), drafts)
}

/// Returns the absolute path with symbolic links resolved, or the path as it is if that fails.
fn whole_path(path: &Path) -> Vec<u8> {
    let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    whole.into_os_string().into_encoded_bytes()
}
