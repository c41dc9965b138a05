//! The owners, set-ID bits and device nodes that a grant allows.

use hakobu_core::entry::{Attributes, EntryKind, SET_ID};
use hakobu_core::extended::{Classes, Extended, ExtendedRef};
use hakobu_core::grant::Grant;
use hakobu_core::losses::LossKind;
use hakobu_core::{Error, ErrorKind, Result};

use crate::object::attributes::of_classes;

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

    /// Returns the classes of extended attributes that entries are stored with.
    pub(super) fn classes(self) -> Classes {
        let all = Classes::USUAL | Classes::SELINUX;
        // As elsewhere, those that give rights or belong to the system are granted together with set-ID bits.
        if self.set_id { all } else { all.without(Classes::TRUSTED | Classes::CAPABILITY) }
    }

    /// Returns the extended attributes that an entry is stored with, in `room` if these are not all, and adds what it loses.
    ///
    /// # Errors
    /// None of attributes that come from an endpoint.
    pub(super) fn extended<'a>(
        self,
        wanted: Option<ExtendedRef<'a>>,
        room: &'a mut Option<Extended>,
        lost: &mut Vec<LossKind>,
    ) -> Result<Option<ExtendedRef<'a>>> {
        let classes = self.classes();
        let Some(all) = wanted.filter(|all| !classes.contains(all.classes())) else { return Ok(wanted) };
        for class in all.iter().filter_map(|(name, _)| Classes::of(name)) {
            if !classes.contains(class) && !lost.contains(&class.loss()) {
                lost.push(class.loss());
            }
        }
        Ok(Some(room.insert(of_classes(wanted, all.classes() & classes)?).as_ref()))
    }

    /// Returns the attributes that an entry is stored with, and what it loses. `stored`: the owner and the group that it
    /// has already, if they stay. As elsewhere, an owner who may not be set is no loss if it is that one, or else the user
    /// of this process.
    pub(super) fn allowed(
        self,
        kind: EntryKind,
        wanted: &Attributes,
        stored: Option<(u32, u32)>,
    ) -> (Attributes, Vec<LossKind>) {
        let mine = || (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let (mut attributes, mut lost) = (*wanted, Vec::new());
        let owned = self.owners || (wanted.uid, wanted.gid) == stored.unwrap_or_else(mine);
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
        let (allowed, lost) = GrantedRights::of(grant).allowed(kind, &wanted, None);
        (allowed.mode, lost)
    }

    #[test]
    fn the_owner_that_stays_decides_about_set_id_bits() {
        let mine = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let rights = GrantedRights::of(&Grant { may_chown: false, ..Grant::everything() });
        let stored = |(uid, gid): (u32, u32), stored| {
            let wanted = Attributes { mode: 0o4755, uid, gid, mtime: FileTime::default() };
            rights.allowed(EntryKind::File, &wanted, stored).0.mode
        };
        assert_eq!(stored((33, 34), Some((33, 34))), 0o4755);
        assert_eq!(stored((33, 34), Some((33, 35))), 0o755);
        assert_eq!(stored((33, 34), None), 0o755);
        assert_eq!(stored(mine, None), 0o4755);
        assert_eq!(stored(mine, Some((4711, 4711))), 0o755, "it would give the rights of another user");
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
