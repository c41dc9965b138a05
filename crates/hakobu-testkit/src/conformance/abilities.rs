//! Abilities of both ends of a harness, and what they make of attributes.

use hakobu_core::capabilities::Capabilities;
use hakobu_core::entry::{Attributes, Metadata, SET_ID, Time};
use hakobu_core::grant::Grant;

use super::harness::Harness;

const NANOSECONDS: u32 = 1_000_000_000;

/// The abilities of the endpoints that a harness makes.
pub struct Abilities {
    /// Of its targets, where the grant allows everything.
    pub target: Capabilities,
    /// Of its sources.
    pub source: Capabilities,
    /// Places are directories of this machine.
    pub in_directory: bool,
    /// What is written can be read.
    pub keeps: bool,
}

impl Abilities {
    /// Asks endpoints on a place of their own.
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

    /// Returns true if an entry has the time that it was given.
    pub fn keeps_times(&self) -> bool {
        self.target.keeps_times && self.source.keeps_times
    }

    /// Returns true if the owner of an entry is known: it is set, or is that of who runs the cases.
    pub fn knows_owners(&self) -> bool {
        self.target.owners || self.in_directory
    }

    /// Returns a time as it is read back once it was set.
    pub fn kept_time(&self, time: Time) -> Time {
        let time = self.target.within_range(time);
        let step_ns = self.target.time_step_ns.max(self.source.time_step_ns).max(1);
        if step_ns < NANOSECONDS {
            return Time { nanoseconds: time.nanoseconds - time.nanoseconds % step_ns, ..time };
        }
        let step_s = i64::from(step_ns / NANOSECONDS);
        Time { seconds: time.seconds - time.seconds.rem_euclid(step_s), nanoseconds: 0 }
    }

    /// Insists that what was found has the attributes that were set, as far as they are kept.
    ///
    /// # Panics
    /// When it has not.
    pub fn check(&self, at: &str, found: &Metadata, wanted: &Attributes) {
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
