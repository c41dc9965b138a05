//! The operations that a peer may perform on the target. The target server checks every operation against the grant,
//! because a source may be hostile too.

use crate::entry::Inode;
use crate::error::{Error, ErrorKind, Result};
use crate::path::EntryPath;
use crate::target_lease::TargetLease;

/// The permissions that a controller gives a target for one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The paths below the target's root that may be written. With `tree`, a path also covers everything below it.
    pub places: Vec<GrantedPlace>,
    /// True if owner and group may be set.
    pub may_chown: bool,
    /// True if set-user-ID and set-group-ID bits may be set.
    pub may_set_id: bool,
    /// True if device nodes may be created.
    pub may_make_devices: bool,
    /// True if entries in granted trees may be removed without a replacement.
    pub may_remove: bool,
    /// True if nothing may be written: existing entries may only be listed and compared.
    pub only_reads: bool,
    /// The maximum number of content bytes that may be written, if there is a limit.
    pub bytes_max: Option<u64>,
    /// True if files in granted trees may be changed in place, which affects all their hard links.
    pub may_write_in_place: bool,
    /// Directories of the source if it is on the target's machine. They are left alone if the target leads to them by
    /// another name.
    ///
    /// They are sent ahead, in a request of their own.
    pub source_directories: Vec<Inode>,
    /// The time for which the grant holds, if it is limited. It is known to this process alone.
    pub lease: Option<TargetLease>,
}

/// One path that a grant opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedPlace {
    /// The path below the target's root.
    pub path: EntryPath,
    /// True if everything below it is open as well.
    pub tree: bool,
    /// The identity of the block device at this path that may be written to.
    pub device: Option<String>,
    /// True if the device holds what an interrupted run of the same job left, so the user was not asked about its
    /// contents. It is written to only if that is confirmed.
    pub only_goes_on: bool,
}

impl GrantedPlace {
    /// Opens a path and, with `tree`, everything below it.
    pub fn new(path: EntryPath, tree: bool) -> Self {
        Self { path, tree, device: None, only_goes_on: false }
    }
}

impl Grant {
    /// Returns a grant for everything below the root.
    pub fn everything() -> Self {
        Self {
            places: vec![GrantedPlace::new(EntryPath::root(), true)],
            may_chown: true,
            may_set_id: true,
            may_make_devices: true,
            may_remove: true,
            only_reads: false,
            bytes_max: None,
            may_write_in_place: true,
            source_directories: Vec::new(),
            lease: None,
        }
    }

    /// Checks that `path` may be created or changed.
    ///
    /// # Errors
    /// `BeyondGrant`, naming the path.
    pub fn check_write(&self, path: &EntryPath) -> Result<()> {
        if self.places.iter().any(|place| path == &place.path || (place.tree && path.is_within(&place.path)))
        {
            return Ok(());
        }
        Err(beyond("writing").at(path))
    }

    /// Returns true if leftovers beside the entries that the user named may be removed: no other run of the job writes there.
    pub fn may_clear_beside(&self) -> bool {
        !self.only_reads && self.lease.as_ref().is_none_or(TargetLease::is_of_items)
    }

    /// Checks that the time for which it holds is not over.
    ///
    /// # Errors
    /// `BeyondGrant`
    pub fn check_time(&self) -> Result<()> {
        self.lease.as_ref().map_or(Ok(()), TargetLease::check)
    }

    /// Checks that `path` may be removed: it must lie in a granted tree and not be its top.
    ///
    /// # Errors
    /// `BeyondGrant`, naming the path.
    pub fn check_remove(&self, path: &EntryPath) -> Result<()> {
        let is_in = |place: &GrantedPlace| place.tree && path != &place.path && path.is_within(&place.path);
        match self.may_remove && self.places.iter().any(is_in) {
            true => Ok(()),
            false => Err(beyond("removing").at(path)),
        }
    }

    /// Returns true if `path` is in a granted tree.
    pub fn is_in_tree(&self, path: &EntryPath) -> bool {
        self.places.iter().any(|place| place.tree && path.is_within(&place.path))
    }

    /// Returns the identity of the block device at `path` that may be written to, and true if it may only be written to
    /// resume an interrupted run.
    ///
    /// # Errors
    /// `BeyondGrant`, naming the path, if no device may be written to there.
    pub fn device(&self, path: &EntryPath) -> Result<(&str, bool)> {
        let granted = self.places.iter().find(|place| place.path == *path);
        granted
            .and_then(|place| Some((place.device.as_deref()?, place.only_goes_on)))
            .ok_or_else(|| beyond("writing to a device").at(path))
    }

    /// Checks that the directory `path` may be listed or entered: it must lie in a granted tree or lead to a granted
    /// path.
    ///
    /// # Errors
    /// `BeyondGrant`, naming the path.
    pub fn check_enter(&self, path: &EntryPath) -> Result<()> {
        if self.places.iter().any(|place| place.path.is_within(path)) {
            return Ok(());
        }
        self.check_write(path)
    }

    /// Checks that `total_bytes` of content are within the limit.
    ///
    /// # Errors
    /// `BeyondGrant`.
    pub fn check_bytes(&self, total_bytes: u64) -> Result<()> {
        match self.bytes_max {
            Some(limit) if total_bytes > limit => Err(beyond("writing more bytes than granted")),
            _ => Ok(()),
        }
    }
}

fn beyond(during: &'static str) -> Error {
    Error::new(ErrorKind::BeyondGrant, during, "the job's grant does not allow it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(path: &str, tree: bool) -> Grant {
        let place = GrantedPlace::new(EntryPath::new(path).unwrap(), tree);
        Grant {
            places: vec![place],
            may_chown: false,
            may_set_id: false,
            may_make_devices: false,
            may_remove: true,
            may_write_in_place: true,
            only_reads: false,
            bytes_max: Some(10),
            source_directories: Vec::new(),
            lease: None,
        }
    }

    #[test]
    fn a_tree_is_open_below_its_name_only() {
        let grant = grant("in/tree", true);
        let path = |text: &str| EntryPath::new(text).unwrap();
        assert!(grant.check_write(&path("in/tree/a/b")).is_ok());
        assert!(grant.check_write(&path("in/tree")).is_ok());
        assert_eq!(grant.check_write(&path("in/treeX")).unwrap_err().kind, ErrorKind::BeyondGrant);
        assert!(grant.check_write(&path("in")).is_err());
        assert!(grant.check_enter(&path("in")).is_ok());
        assert!(grant.check_enter(&path("other")).is_err());
    }

    #[test]
    fn what_is_in_a_tree_may_be_removed_if_anything_may() {
        let mut grant = grant("in/tree", true);
        let path = |text: &str| EntryPath::new(text).unwrap();
        assert!(grant.check_remove(&path("in/tree/a")).is_ok());
        assert!(grant.check_remove(&path("in/tree")).is_err());
        assert!(grant.check_remove(&path("in/other")).is_err());
        grant.may_remove = false;
        assert!(grant.check_remove(&path("in/tree/a")).is_err());
    }

    #[test]
    fn one_name_is_one_name() {
        let grant = grant("file", false);
        assert!(grant.check_write(&EntryPath::new("file").unwrap()).is_ok());
        assert!(grant.check_write(&EntryPath::new("file/x").unwrap()).is_err());
        assert!(grant.check_bytes(11).is_err());
    }
}
