//! The decision for one path: a pure function of what both sides have.

use crate::capabilities::Capabilities;
use crate::entry::{EntryKind, EntryMetadata, SET_ID};
use crate::evidence::{ListingConclusion, ListingEvidence};
use crate::plant::planted;

/// The action for one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create it: the target lacks it.
    Create,
    /// Replace it: the target has an entry of another kind or another version.
    Replace,
    /// Set attributes only: the content is the same.
    SetAttributes,
    /// Do nothing: both sides are equal.
    Leave,
    /// Report a conflict: the target has an entry of a kind in its place that `copy` does not remove.
    Conflict,
    /// Remove a directory that the target has in its place first.
    MakeWay,
    /// Ask for the attributes that the listings do not show, and decide again.
    Examine,
    /// Skip it: a socket belongs to a running program and is never copied.
    Skip,
}

/// Decides on the action for an entry of the source, given what the target has under its name.
///
/// Files are equal if size and modification time are. If the target keeps only the time of the upload, they are equal
/// if they have the same size and the source's is not newer. Symbolic links may be equal if text length and modification
/// time are, device nodes are if their numbers are. An existing symbolic link at the target is always replaced, never
/// written through. With `makes_way`, anything in the place of a directory is replaced as well, and a directory in the
/// place of something else is removed.
pub fn decide(
    source: &EntryMetadata,
    target: Option<&EntryMetadata>,
    able: &Capabilities,
    makes_way: bool,
) -> Action {
    if source.kind == EntryKind::Socket {
        return Action::Skip;
    }
    let Some(target) = target else {
        // If the target only has implied directories, this one appears with its contents.
        let is_implied = source.kind == EntryKind::Directory && !able.directories;
        return if is_implied { Action::Leave } else { Action::Create };
    };
    match (source.kind, target.kind) {
        (EntryKind::Directory, EntryKind::Directory) => {
            if !able.directories || same_attributes(source, target, able) && same_time(source, target, able) {
                Action::Leave
            } else {
                Action::SetAttributes
            }
        }
        (EntryKind::Directory, EntryKind::Symlink) => Action::Replace,
        (_, EntryKind::Directory) if makes_way => Action::MakeWay,
        (EntryKind::Directory, _) if makes_way => Action::Replace,
        (EntryKind::Directory, _) | (_, EntryKind::Directory) => Action::Conflict,
        (a, b) if a != b => Action::Replace,
        _ if source.is_special() => match source.device == target.device {
            false => Action::Replace,
            true if same_attributes(source, target, able) && same_time(source, target, able) => Action::Leave,
            true => Action::SetAttributes,
        },
        _ if source.size_bytes != target.size_bytes => Action::Replace,
        _ if !same_time(source, target, able) && !planted("equal-by-size") => Action::Replace,
        _ if same_attributes(source, target, able) => Action::Leave,
        _ => Action::SetAttributes,
    }
}

/// Decides as [`decide`] does, but from listings that may lack attributes. `settled`: see [`ListingEvidence::verdict`].
///
/// Entries that the listings prove to be equal are left alone. Those of which they prove nothing are examined.
pub fn decide_listed(
    source: &EntryMetadata,
    target: Option<&EntryMetadata>,
    able: &Capabilities,
    makes_way: bool,
    (evidence, settled): (&ListingEvidence, bool),
) -> Action {
    let Some(target) = target.filter(|_| source.kind != EntryKind::Socket) else {
        return decide(source, target, able, makes_way);
    };
    match evidence.conclude(source, target, settled) {
        ListingConclusion::Equal => return Action::Leave,
        ListingConclusion::Unknown => return Action::Examine,
        ListingConclusion::Shown => {}
    }
    let target = EntryMetadata { mtime: evidence.time_of_copy(source, target), ..*target };
    let is_other = source.content_mark.is_other(target.content_mark);
    match decide(source, Some(&target), able, makes_way) {
        Action::Leave | Action::SetAttributes
            if is_other && matches!(source.kind, EntryKind::File | EntryKind::Symlink) =>
        {
            Action::Replace
        }
        action => action,
    }
}

/// Returns true if the modification times are equal as far as the target can store them or, if it only has the time of
/// the upload, if the source has not changed since.
pub fn same_time(source: &EntryMetadata, target: &EntryMetadata, able: &Capabilities) -> bool {
    if !able.keeps_times {
        return source.mtime <= target.mtime;
    }
    able.same_time(source.mtime, target.mtime)
}

/// Returns true if permissions, owner and extended attributes are equal as far as the target can store them.
pub fn same_attributes(source: &EntryMetadata, target: &EntryMetadata, able: &Capabilities) -> bool {
    if source.is_implied() {
        return true;
    }
    let owned = source.uid == target.uid && source.gid == target.gid;
    let permissions = !able.modes || same_permissions(source, target, able.set_id && (owned || able.owners));
    // The listings only contain extended attributes that the target can store.
    permissions && (owned || !able.owners) && source.same_extended(target)
}

/// Returns true if permissions are equal, with or without set-ID bits. With a wrong owner these bits would grant the
/// privileges of that owner, so they are not kept then. Set-ID bits that the source lacks are removed in any case.
pub fn same_permissions(source: &EntryMetadata, target: &EntryMetadata, with_set_id: bool) -> bool {
    let kept = if with_set_id { 0o7777 } else { 0o7777 & !SET_ID };
    let lends_nothing = target.mode & SET_ID & !source.mode == 0;
    source.kind == EntryKind::Symlink || lends_nothing && source.mode & kept == target.mode & kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::entry::{ContentMark, FileTime};
    use crate::listed::ListedAttributes;

    fn target_is_special(kind: EntryKind) -> bool {
        EntryMetadata::new(kind).is_special() || kind == EntryKind::Socket
    }

    fn metadata(kind: EntryKind, size_bytes: u64, nanoseconds: u32) -> EntryMetadata {
        let mtime = FileTime { seconds: 1, nanoseconds };
        EntryMetadata { mode: 0o644, size_bytes, mtime, ctime: mtime, ..EntryMetadata::new(kind) }
    }

    fn all_kinds() -> impl Strategy<Value = EntryKind> {
        (1u8..8).prop_map(|number| EntryKind::from_number(number).unwrap())
    }

    #[test]
    fn decisions() {
        let able = Capabilities::posix(true);
        let (file, link, dir) = (EntryKind::File, EntryKind::Symlink, EntryKind::Directory);
        let cases = [
            (file, file, 5, 5, Action::Leave),
            (file, file, 5, 6, Action::Replace),
            (file, link, 5, 5, Action::Replace),
            (file, dir, 5, 5, Action::Conflict),
            (dir, file, 5, 5, Action::Conflict),
            (dir, link, 5, 5, Action::Replace),
            (link, link, 5, 5, Action::Leave),
            (EntryKind::Socket, file, 5, 5, Action::Skip),
            (EntryKind::Fifo, EntryKind::Fifo, 5, 6, Action::Leave),
            (EntryKind::Fifo, file, 5, 5, Action::Replace),
            (EntryKind::CharDevice, dir, 5, 5, Action::Conflict),
        ];
        for (source, target, source_size, target_size, expected) in cases {
            let target = metadata(target, target_size, 0);
            let decided = decide(&metadata(source, source_size, 0), Some(&target), &able, false);
            assert_eq!(decided, expected, "{source:?} onto {target:?}");
        }
    }

    #[test]
    fn where_the_time_is_that_of_the_upload_the_source_has_to_be_older() {
        let able = Capabilities { keeps_times: false, modes: false, ..Capabilities::posix(false) };
        let at = |seconds, mode| {
            let mut found = metadata(EntryKind::File, 1, 0);
            (found.mtime.seconds, found.mode) = (seconds, mode);
            found
        };
        for (source, expected) in [(9, Action::Leave), (10, Action::Leave), (11, Action::Replace)] {
            assert_eq!(decide(&at(source, 0o600), Some(&at(10, 0o644)), &able, false), expected, "{source}");
        }
        let larger = EntryMetadata { size_bytes: 2, ..at(9, 0o644) };
        assert_eq!(decide(&larger, Some(&at(10, 0o644)), &able, false), Action::Replace);
    }

    #[test]
    fn a_directory_that_is_only_implied_is_never_made() {
        let able = Capabilities { directories: false, ..Capabilities::posix(true) };
        let (directory, file) = (metadata(EntryKind::Directory, 0, 7), metadata(EntryKind::File, 0, 7));
        assert_eq!(decide(&directory, None, &able, false), Action::Leave);
        assert_eq!(decide(&file, None, &able, false), Action::Create);
        let other = metadata(EntryKind::Directory, 0, 0);
        assert_eq!(decide(&directory, Some(&other), &able, false), Action::Leave);
    }

    #[test]
    fn what_is_in_the_way_goes_where_it_may() {
        let able = Capabilities::posix(true);
        let cases = [
            (EntryKind::File, EntryKind::Directory, Action::MakeWay),
            (EntryKind::Symlink, EntryKind::Directory, Action::MakeWay),
            (EntryKind::Directory, EntryKind::File, Action::Replace),
            (EntryKind::Directory, EntryKind::Directory, Action::Leave),
            (EntryKind::Directory, EntryKind::Fifo, Action::Replace),
            (EntryKind::Directory, EntryKind::Socket, Action::Replace),
            (EntryKind::Directory, EntryKind::BlockDevice, Action::Replace),
        ];
        for (source, target, expected) in cases {
            let (source, target) = (metadata(source, 5, 0), metadata(target, 5, 0));
            assert_eq!(decide(&source, Some(&target), &able, true), expected, "{source:?} onto {target:?}");
        }
    }

    #[test]
    fn what_is_shown_to_be_of_other_content_is_replaced() {
        let able = Capabilities::posix(true);
        let evidence = (&ListingEvidence::new(&able, &able, &able, false), true);
        let marked =
            |mode, mark| EntryMetadata { mode, content_mark: mark, ..metadata(EntryKind::File, 5, 0) };
        let [one, other] = [1, 2].map(ContentMark::of_crc64);
        for (source, target, expected) in [
            (marked(0o644, one), marked(0o644, one), Action::Leave),
            (marked(0o644, one), marked(0o644, other), Action::Replace),
            (marked(0o600, one), marked(0o644, other), Action::Replace),
            (marked(0o600, one), marked(0o644, one), Action::SetAttributes),
            (marked(0o644, one), marked(0o644, ContentMark::of_md5(&[1; 16])), Action::Leave),
        ] {
            let decided = decide_listed(&source, Some(&target), &able, false, evidence);
            assert_eq!(decided, expected, "{source:?} {target:?}");
        }
    }

    #[test]
    fn device_nodes_are_their_numbers() {
        let able = Capabilities::posix(true);
        for kind in [EntryKind::BlockDevice, EntryKind::CharDevice] {
            let (source, mut target) = (metadata(kind, 0, 0), metadata(kind, 0, 0));
            assert_eq!(decide(&source, Some(&target), &able, false), Action::Leave);
            target.mode = 0o600;
            assert_eq!(decide(&source, Some(&target), &able, false), Action::SetAttributes);
            target.device = 5;
            assert_eq!(decide(&source, Some(&target), &able, false), Action::Replace);
        }
    }

    #[test]
    fn a_nanosecond_is_a_difference_where_the_target_can_hold_it() {
        let mut able = Capabilities::posix(true);
        let (source, target) = (metadata(EntryKind::File, 1, 1), metadata(EntryKind::File, 1, 2));
        assert_eq!(decide(&source, Some(&target), &able, false), Action::Replace);
        able.time_step_ns = 100;
        assert_eq!(decide(&source, Some(&target), &able, false), Action::Leave);
    }

    #[test]
    fn a_time_is_equal_within_the_steps_of_the_target() {
        let able = Capabilities { time_step_ns: 2_000_000_000, ..Capabilities::posix(true) };
        let at = |seconds| {
            let mut found = metadata(EntryKind::File, 1, 500);
            found.mtime.seconds = seconds;
            found
        };
        for (source, action) in
            [(9, Action::Leave), (11, Action::Leave), (8, Action::Replace), (12, Action::Replace)]
        {
            assert_eq!(decide(&at(source), Some(&at(10)), &able, false), action, "{source}");
        }
    }

    #[test]
    fn a_time_beyond_what_the_target_holds_is_brought_over_once() {
        let able = Capabilities { time_last_s: 2_147_483_647, ..Capabilities::posix(true) };
        let at = |seconds| {
            let mut found = metadata(EntryKind::File, 1, 0);
            found.mtime.seconds = seconds;
            found
        };
        let source = at(4_294_967_297);
        assert_eq!(decide(&source, Some(&at(2_147_483_647)), &able, false), Action::Leave);
        assert_eq!(decide(&source, Some(&at(1)), &able, false), Action::Replace);
        let any = Capabilities::posix(true);
        assert_eq!(decide(&source, Some(&at(2_147_483_647)), &any, false), Action::Replace);
    }

    #[test]
    fn an_owner_that_cannot_be_set_is_no_difference() {
        let (source, mut target) = (metadata(EntryKind::File, 1, 1), metadata(EntryKind::File, 1, 1));
        target.uid = 9;
        assert_eq!(decide(&source, Some(&target), &Capabilities::posix(false), false), Action::Leave);
        assert_eq!(decide(&source, Some(&target), &Capabilities::posix(true), false), Action::SetAttributes);
    }

    #[test]
    fn other_extended_attributes_move_no_data() {
        let (mut source, target) = (metadata(EntryKind::File, 1, 1), metadata(EntryKind::File, 1, 1));
        source.extended = 5;
        let able = Capabilities::posix(false);
        assert_eq!(decide(&source, Some(&target), &able, false), Action::SetAttributes);
        assert_eq!(decide(&target, Some(&source), &able, false), Action::SetAttributes);
        assert_eq!(decide(&source, Some(&source), &able, false), Action::Leave);
    }

    #[test]
    fn a_set_id_bit_that_cannot_be_set_is_no_difference() {
        let (mut source, target) = (metadata(EntryKind::File, 1, 1), metadata(EntryKind::File, 1, 1));
        source.mode |= 0o4000;
        let mut able = Capabilities::posix(true);
        assert_eq!(decide(&source, Some(&target), &able, false), Action::SetAttributes);
        able.set_id = false;
        assert_eq!(decide(&source, Some(&target), &able, false), Action::Leave);
        let strangers = EntryMetadata { uid: 9, ..target };
        assert_eq!(decide(&source, Some(&strangers), &Capabilities::posix(false), false), Action::Leave);
    }

    #[test]
    fn a_set_id_bit_is_a_difference_where_the_owner_is_the_same_or_can_be_set() {
        let (mut source, target) = (metadata(EntryKind::File, 1, 1), metadata(EntryKind::File, 1, 1));
        source.mode |= 0o2000;
        for owners in [true, false] {
            let able = Capabilities::posix(owners);
            assert_eq!(decide(&source, Some(&target), &able, false), Action::SetAttributes, "{owners}");
        }
        let strangers = EntryMetadata { gid: 9, ..target };
        assert!(!same_attributes(
            &source,
            &EntryMetadata { mode: 0o600, ..strangers },
            &Capabilities::posix(false)
        ));
    }

    #[test]
    fn a_user_or_a_group_alone_is_another_owner() {
        let source = metadata(EntryKind::File, 1, 1);
        for target in [EntryMetadata { uid: 9, ..source }, EntryMetadata { gid: 9, ..source }] {
            let decided = decide(&source, Some(&target), &Capabilities::posix(true), false);
            assert_eq!(decided, Action::SetAttributes, "{target:?}");
        }
    }

    #[test]
    fn permissions_of_a_link_are_no_difference() {
        let source = metadata(EntryKind::Symlink, 5, 1);
        let target = EntryMetadata { mode: 0o777, ..source };
        assert_eq!(decide(&source, Some(&target), &Capabilities::posix(true), false), Action::Leave);
    }

    #[test]
    fn set_id_bits_that_the_source_lacks_are_a_difference_whoever_owns_it() {
        let able = Capabilities { owners: false, ..Capabilities::posix(false) };
        let (plain, set) = (
            metadata(EntryKind::File, 5, 1),
            EntryMetadata { mode: 0o4644, ..metadata(EntryKind::File, 5, 1) },
        );
        for (source, there, expected) in
            [(plain, set, Action::SetAttributes), (set, plain, Action::Leave), (set, set, Action::Leave)]
        {
            let target = EntryMetadata { uid: 9, ..there };
            assert_eq!(decide(&source, Some(&target), &able, false), expected, "{source:?} {target:?}");
        }
    }

    #[test]
    fn a_time_or_a_permission_alone_is_set_on_what_has_no_content() {
        let able = Capabilities::posix(true);
        for kind in [EntryKind::Directory, EntryKind::Fifo, EntryKind::BlockDevice] {
            let source = metadata(kind, 0, 1);
            for target in [metadata(kind, 0, 2), EntryMetadata { mode: 0o600, ..source }] {
                assert_eq!(decide(&source, Some(&target), &able, false), Action::SetAttributes, "{target:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn after_a_copy_nothing_is_left_to_do(kind in all_kinds(), size in 0u64..9, ns in 0u32..9) {
            let source = metadata(kind, size, ns);
            let again = decide(&source, Some(&source), &Capabilities::posix(true), false);
            prop_assert!(matches!(again, Action::Leave | Action::Skip));
        }

        /// Where the listings prove something, it is what all attributes show.
        #[test]
        fn a_decision_from_listings_is_the_one_from_all_attributes(
            kinds in (all_kinds(), all_kinds()),
            sizes in (0u64..3, 0u64..3),
            same_mode: bool,
            mtimes in (0u32..3, 0u32..3),
            makes_way: bool,
        ) {
            let able = Capabilities::posix(true);
            let store = Capabilities { inodes: false, listed: ListedAttributes::NONE, ..able.clone() };
            let source = metadata(kinds.0, sizes.0, mtimes.0);
            let mut target = metadata(kinds.1, if target_is_special(kinds.1) { 0 } else { sizes.1 }, mtimes.1);
            target.mode = if same_mode { source.mode } else { 0o600 };
            let is_directory = kinds.1 == EntryKind::Directory;
            let mut listed = EntryMetadata { kind: EntryKind::File, mode: 0, ..target };
            listed.kind = if is_directory { EntryKind::Directory } else { EntryKind::File };
            let evidence = ListingEvidence::new(&able, &store, &store, false);
            let from_listings = decide_listed(&source, Some(&listed), &store, makes_way, (&evidence, true));
            let exact = decide(&source, Some(&target), &store, makes_way);
            prop_assert!(from_listings == Action::Examine || from_listings == exact, "{from_listings:?} {exact:?}");
            let again = (&evidence.with_exact(true, true), true);
            prop_assert_eq!(decide_listed(&source, Some(&target), &store, makes_way, again), exact);
            prop_assert_eq!(
                decide_listed(&source, None, &store, makes_way, (&evidence, true)),
                decide(&source, None, &store, makes_way)
            );
        }

        #[test]
        fn a_directory_of_the_target_is_never_replaced(kind in all_kinds(), size in 0u64..9) {
            let target = metadata(EntryKind::Directory, 0, 0);
            let action = decide(&metadata(kind, size, 0), Some(&target), &Capabilities::posix(true), false);
            prop_assert!(!matches!(action, Action::Replace | Action::Create));
        }
    }
}
