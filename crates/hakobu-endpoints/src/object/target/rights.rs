//! The owners, set-ID bits and device nodes that a grant allows.

use hakobu_core::entry::{Attributes, EntryKind, SET_ID};
use hakobu_core::grant::Grant;
use hakobu_core::losses::LossKind;
use hakobu_core::{Error, ErrorKind, Result};

/// The owners, set-ID bits and device nodes that objects may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrantedRights {
    /// True if owners and groups are stored.
    pub(super) owners: bool,
    set_id: bool,
    devices: bool,
}

impl GrantedRights {
    pub(super) fn of(grant: &Grant) -> Self {
        Self { owners: grant.may_chown, set_id: grant.may_set_id, devices: grant.may_make_devices }
    }

    /// Checks that an entry of a kind may be stored.
    ///
    /// # Errors
    /// `Unsupported` if not.
    pub(super) fn check(self, kind: EntryKind) -> Result<()> {
        match kind {
            EntryKind::BlockDevice | EntryKind::CharDevice if !self.devices => {
                let words = "the job does not allow device nodes; --allow devices does";
                Err(Error::new(ErrorKind::Unsupported, "making the device node", words))
            }
            _ => Ok(()),
        }
    }

    /// Returns the attributes that an entry is stored with, and what it loses. As elsewhere, an owner who may not be set
    /// is no loss if it is the user of this process.
    pub(super) fn allowed(self, kind: EntryKind, wanted: &Attributes) -> (Attributes, Vec<LossKind>) {
        let mine = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let (mut attributes, mut lost) = (*wanted, Vec::new());
        let owned = self.owners || (wanted.uid, wanted.gid) == mine;
        if !owned {
            lost.push(LossKind::Owner);
        }
        // Without its owner, the bit would give the rights of another user, except on a directory.
        let has_rights = self.set_id && (owned || kind == EntryKind::Directory);
        if kind != EntryKind::Symlink && wanted.mode & SET_ID != 0 && !has_rights {
            attributes.mode &= !SET_ID;
            lost.push(LossKind::SetId);
        }
        (attributes, lost)
    }
}

#[cfg(test)]
mod tests {
    use hakobu_core::entry::FileTime;

    use super::*;

    fn lost(grant: &Grant, kind: EntryKind, uid: u32, mode: u32) -> (u32, Vec<LossKind>) {
        let wanted = Attributes { mode, uid, gid: uid, mtime: FileTime::default() };
        let (allowed, lost) = GrantedRights::of(grant).allowed(kind, &wanted);
        (allowed.mode, lost)
    }

    #[test]
    fn what_a_grant_does_not_allow_is_lost() {
        let all = Grant::everything();
        assert_eq!(lost(&all, EntryKind::File, 4711, 0o6755), (0o6755, vec![]));
        let no_owners = Grant { may_chown: false, ..Grant::everything() };
        let both = vec![LossKind::Owner, LossKind::SetId];
        assert_eq!(lost(&no_owners, EntryKind::File, 4711, 0o4755), (0o755, both));
        assert_eq!(lost(&no_owners, EntryKind::Directory, 4711, 0o2755), (0o2755, vec![LossKind::Owner]));
        let no_bits = Grant { may_set_id: false, ..Grant::everything() };
        assert_eq!(lost(&no_bits, EntryKind::Directory, 4711, 0o3755), (0o1755, vec![LossKind::SetId]));
        assert_eq!(lost(&no_bits, EntryKind::Symlink, 4711, 0o6777), (0o6777, vec![]));
    }

    #[test]
    fn device_nodes_need_to_be_granted() {
        let grant = |may_make_devices| Grant { may_make_devices, ..Grant::everything() };
        for kind in [EntryKind::BlockDevice, EntryKind::CharDevice] {
            assert!(GrantedRights::of(&grant(true)).check(kind).is_ok());
            assert_eq!(
                GrantedRights::of(&grant(false)).check(kind).unwrap_err().kind,
                ErrorKind::Unsupported
            );
        }
        assert!(GrantedRights::of(&grant(false)).check(EntryKind::Fifo).is_ok());
    }
}
