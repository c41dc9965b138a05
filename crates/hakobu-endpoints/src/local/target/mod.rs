//! The target: one root, written within a grant by any number of lanes.
//!
//! The serving half of the agent drives these lanes with operations from a peer that may be
//! hostile, so every operation is checked against the grant here.

mod apply;
mod attributes;
mod cover;
mod devices;
mod directories;
mod draft;
mod drafts;
mod lane;
mod new_file;
mod store;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use hakobu_core::Result;
use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::{Endpoint, Lane};
use hakobu_core::grant::Grant;
use rustix::fs::{StatVfs, fstatvfs};

use super::beneath::Root;
use attributes::Policy;
use devices::Devices;
pub use draft::Draft;
use drafts::Drafts;
pub use lane::LocalTargetLane;

/// What a target is told about the run.
#[derive(Clone, Debug)]
pub struct TargetOptions {
    /// The job's key. It goes into the names of drafts, so that two jobs never share one.
    pub job: [u8; 32],
    /// Whether `Barrier` brings everything to stable storage; otherwise it does nothing.
    pub durable: bool,
}

/// A directory of this machine, opened to be written within a grant. Drafts that are unfinished
/// when it is dropped are removed.
#[derive(Debug)]
pub struct LocalTarget {
    shared: Arc<Shared>,
    capabilities: Capabilities,
}

/// What all lanes of a target share.
#[derive(Debug)]
pub(crate) struct Shared {
    root: Root,
    grant: Grant,
    options: TargetOptions,
    policy: Policy,
    drafts: Drafts,
    devices: Devices,
    /// Bytes of content taken from the grant so far.
    bytes: AtomicU64,
    /// How many lanes have been opened.
    lanes: AtomicU32,
    /// Whether files without a name may be tried.
    nameless: bool,
}

impl LocalTarget {
    /// Opens the directory. Links in `root` are followed: the user typed it.
    ///
    /// # Errors
    /// When it is missing, is no directory or cannot be entered.
    pub fn open(root: &Path, grant: Grant, options: TargetOptions) -> Result<Self> {
        let root = Root::open(root)?;
        let policy = Policy::new(&grant);
        let mut capabilities = Capabilities::posix(policy.may_chown);
        capabilities.clones = true;
        if let Ok(figures) = fstatvfs(root.fd()) {
            capabilities.free_bytes = free_bytes(&figures);
            capabilities.free_inodes = (figures.f_files > 0).then_some(figures.f_favail);
        }
        let devices = Devices::new();
        let (drafts, bytes, lanes) = (Drafts::default(), AtomicU64::new(0), AtomicU32::new(0));
        let shared = Shared { root, grant, options, policy, drafts, devices, bytes, lanes, nameless: true };
        Ok(Self { shared: Arc::new(shared), capabilities })
    }

    /// As [`LocalTarget::open`] on a system without `openat2` and nameless files.
    #[cfg(test)]
    pub(crate) fn open_plain(root: &Path, grant: Grant, options: TargetOptions) -> Result<Self> {
        let mut target = Self::open(root, grant, options)?;
        if let Some(shared) = Arc::get_mut(&mut target.shared) {
            shared.nameless = false;
            shared.root.walk_only();
        }
        Ok(target)
    }

    /// A lane of the concrete type, which also offers [`LocalTargetLane::draft_writer`].
    pub fn lane(&self) -> LocalTargetLane {
        LocalTargetLane::new(Arc::clone(&self.shared))
    }
}

impl Endpoint for LocalTarget {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn open_lane(&self, _index: usize) -> Result<Box<dyn Lane>> {
        Ok(Box::new(self.lane()))
    }
}

impl Drop for LocalTarget {
    fn drop(&mut self) {
        self.shared.drafts.close();
    }
}

impl Shared {
    /// Takes content bytes from the grant.
    fn take_bytes(&self, bytes: u64) -> Result<()> {
        if self.grant.bytes_max.is_none() {
            return Ok(());
        }
        // Never beyond the limit, not even for a moment: sums of hostile sizes would come round.
        let within = |taken: u64| {
            let sum = taken.checked_add(bytes)?;
            self.grant.check_bytes(sum).ok().map(|()| sum)
        };
        match self.bytes.fetch_update(Relaxed, Relaxed, within) {
            Ok(_) => Ok(()),
            Err(taken) => self.grant.check_bytes(taken.saturating_add(bytes)),
        }
    }

    /// Gives back content bytes that were taken and are not at the target.
    fn return_bytes(&self, bytes: u64) {
        if self.grant.bytes_max.is_some() {
            self.bytes.fetch_sub(bytes, Relaxed);
        }
    }
}

/// The bytes that this user may still write, where the file system counts its blocks.
pub(crate) fn free_bytes(figures: &StatVfs) -> Option<u64> {
    let blocks = if rustix::process::geteuid().is_root() { figures.f_bfree } else { figures.f_bavail };
    (figures.f_blocks > 0).then(|| blocks.saturating_mul(figures.f_frsize))
}
