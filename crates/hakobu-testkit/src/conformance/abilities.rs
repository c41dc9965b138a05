//! The capabilities of both endpoints of a harness, and their effect on attributes.

use hakobu_core::capabilities::Capabilities;
use hakobu_core::entry::{Attributes, EntryMetadata, FileTime, SET_ID};
use hakobu_core::grant::Grant;

use super::harness::Harness;

const NANOSECONDS: u32 = 1_000_000_000;

/// The capabilities of the endpoints that a harness creates.
pub struct HarnessCapabilities {
    /// The capabilities of targets with a grant that allows everything.
    pub target: Capabilities,
    /// The capabilities of sources.
    pub source: Capabilities,
    /// True if places are directories on this machine.
    pub in_directory: bool,
    /// True if written data can be read back.
    pub keeps: bool,
}

impl HarnessCapabilities {
    /// Queries the endpoints of a new place.
    pub fn of(harness: &dyn Harness) -> Self {
        let place = harness.place();
        Self {
            target: place.target(Grant::everything()).capabilities().clone(),
            source: place.source().capabilities().clone(),
            in_directory: place.directory().is_some(),
            keeps: harness.keeps(),
        }
    }

    /// Returns true if permissions are kept.
    pub fn keeps_modes(&self) -> bool {
        self.target.modes && self.source.modes
    }

    /// Returns true if a directory above an entry exists without being made, with the attributes of no directory in
    /// particular. Then an entry of another kind can have its name.
    pub fn implies_directories(&self) -> bool {
        self.target.shared_names
    }

    /// Returns true if entries keep the time that was set.
    pub fn keeps_times(&self) -> bool {
        self.target.keeps_times && self.source.keeps_times
    }

    /// Returns true if the owner of an entry is known: it can be set, or it is the user who runs the cases.
    pub fn knows_owners(&self) -> bool {
        self.target.owners || self.in_directory
    }

    /// Returns the value that is read back after `time` was set.
    pub fn kept_time(&self, time: FileTime) -> FileTime {
        let time = self.target.within_range(time);
        let step_ns = self.target.time_step_ns.max(self.source.time_step_ns).max(1);
        if step_ns < NANOSECONDS {
            return FileTime { nanoseconds: time.nanoseconds - time.nanoseconds % step_ns, ..time };
        }
        let step_s = i64::from(step_ns / NANOSECONDS);
        FileTime { seconds: time.seconds - time.seconds.rem_euclid(step_s), nanoseconds: 0 }
    }

    /// Checks that the found attributes equal those that were set, as far as they are kept.
    ///
    /// # Panics
    /// If they do not.
    pub fn check(&self, at: &str, found: &EntryMetadata, wanted: &Attributes) {
        let set_id = if self.target.set_id { 0 } else { SET_ID };
        let modes = if self.keeps_modes() { !set_id } else { 0 };
        let seen = |it: Attributes, mtime| {
            let owner = self.knows_owners().then_some((it.uid, it.gid));
            (format!("{:o}", it.mode & modes), owner, mtime)
        };
        let (found, wanted) = (found.attributes(), *wanted);
        let time = if self.keeps_times() { self.kept_time(wanted.mtime) } else { found.mtime };
        assert_eq!(seen(found, found.mtime), seen(wanted, time), "{at}");
    }
}
