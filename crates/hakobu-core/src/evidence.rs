//! The evidence of two listings about an entry that both have, where a listing does not show all attributes.

use crate::capabilities::{Capabilities, ContentSharing};
use crate::entry::{EntryKind, EntryMetadata, FileTime};
use crate::listed::{ListedAttributes, StoreClock};

/// Nanoseconds by which the clock of a file server, which sets the times of its files, may differ from this machine's.
const FILE_SERVER_NS: u64 = 86_400_000_000_000;
/// The maximum length of a symbolic link's text in bytes. Larger objects are files.
const LINK_BYTES_MAX: u64 = 4095;

/// The conclusion from listings about an entry that both sides have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingConclusion {
    /// The listings show what is needed to decide.
    Shown,
    /// The entries are equal, because neither has changed since the later one was written.
    Equal,
    /// The listings prove nothing.
    Unknown,
}

/// The attributes that the listings of both sides show, and the clocks of their times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListingEvidence {
    source: SideEvidence,
    target: SideEvidence,
    /// The attributes that are compared.
    compared: ListedAttributes,
    /// Both ends are in one store, whose own copies keep all attributes.
    is_within_store: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SideEvidence {
    listed: ListedAttributes,
    clock: Option<StoreClock>,
    /// The uncertainty of the times of the last change of inodes, in nanoseconds; `None` if there are no such times.
    change_ns: Option<u64>,
}

impl SideEvidence {
    fn of(able: &Capabilities) -> Self {
        let change_ns = if able.answer_ns.is_some() { FILE_SERVER_NS } else { 0 };
        let change_ns = (able.inodes && able.change_times).then_some(change_ns);
        Self { listed: able.listed, clock: able.clock, change_ns }
    }
}

impl ListingEvidence {
    /// Returns the evidence between two endpoints. `able` are the capabilities of the target limited by those of the
    /// source; `extended` is true if extended attributes are compared.
    pub fn new(source: &Capabilities, target: &Capabilities, able: &Capabilities, extended: bool) -> Self {
        let Capabilities { keeps_times: times, modes, owners, .. } = *able;
        let compared = ListedAttributes { times, modes, owners, kinds: true, extended };
        let is_within_store = target.shares_with(source) == Some(ContentSharing::InStore);
        Self { source: SideEvidence::of(source), target: SideEvidence::of(target), compared, is_within_store }
    }

    /// Returns true if listings of the source do not show all that is compared.
    pub fn source_lacks(&self) -> bool {
        !covers(self.source.listed, self.compared)
    }

    /// Returns true if listings of the target do not show all that is compared.
    pub fn target_lacks(&self) -> bool {
        !covers(self.target.listed, self.compared)
    }

    /// Returns the evidence if the entries of a side were asked for by themselves.
    #[must_use]
    pub fn with_exact(mut self, source: bool, target: bool) -> Self {
        for (exact, side) in [(source, &mut self.source), (target, &mut self.target)] {
            if exact {
                side.listed = ListedAttributes::ALL;
            }
        }
        self
    }

    /// Returns true if an entry of the source is equal only if the directories above it are settled.
    pub fn needs_settled(&self) -> bool {
        let measured = self.target.clock.is_some() && self.source.change_ns.is_some();
        self.target_lacks() && !self.source_lacks() && measured
    }

    /// Returns true if the time of an upload may prove later that an entry is equal, so that the entry must not change
    /// between the moment at which it is read and that at which it is uploaded.
    pub fn must_recheck(&self) -> bool {
        self.needs_settled() || self.upload_clocks().is_some()
    }

    /// Returns true if an entry of the source that is listed as a file may be of another kind.
    pub fn may_be_no_file(&self, source: &EntryMetadata) -> bool {
        !self.source.listed.kinds && source.kind == EntryKind::File && source.size_bytes <= LINK_BYTES_MAX
    }

    /// Returns the conclusion about an entry of the source and the target's entry of that name. `settled` is true if no
    /// directory that contains it at the source was replaced by another one since it was last copied.
    pub fn conclude(
        &self,
        source: &EntryMetadata,
        target: &EntryMetadata,
        settled: bool,
    ) -> ListingConclusion {
        if !(self.source_lacks() || self.target_lacks()) {
            return ListingConclusion::Shown;
        }
        match (source.kind, target.kind) {
            (EntryKind::Directory, EntryKind::Directory) => {}
            // A directory takes the place of a symbolic link, and not that of a file.
            (EntryKind::Directory, EntryKind::File)
                if !self.target.listed.kinds && target.size_bytes <= LINK_BYTES_MAX =>
            {
                return ListingConclusion::Unknown;
            }
            (EntryKind::Directory, _) | (_, EntryKind::Directory) => return ListingConclusion::Shown,
            _ if object_bytes(source) != object_bytes(target) => return ListingConclusion::Shown,
            (one, other) => {
                let kinds = self.source.listed.kinds && self.target.listed.kinds;
                let times = self.source.listed.times && self.target.listed.times;
                if kinds && one != other || times && source.mtime != target.mtime {
                    return ListingConclusion::Shown;
                }
            }
        }
        // A time of an upload at the target is compared with that at the source; the stored time proves less.
        if !self.compared.times && self.source_lacks() {
            return ListingConclusion::Shown;
        }
        if self.proves_equality(source, target, settled) {
            ListingConclusion::Equal
        } else {
            ListingConclusion::Unknown
        }
    }

    /// Returns the clocks of the source and of the target if times of uploads may prove equality between stores. A store
    /// that lists attributes may change them without another time, and a copy from one store to another may lack some.
    fn upload_clocks(&self) -> Option<(StoreClock, StoreClock)> {
        self.source.clock.zip(self.target.clock).filter(|_| self.source_lacks() && self.is_within_store)
    }

    fn proves_equality(&self, source: &EntryMetadata, target: &EntryMetadata, settled: bool) -> bool {
        if let Some((of_source, of_target)) = self.upload_clocks() {
            // The order of the uploads proves nothing of the content: another program may have put either there.
            let is_copy = of_source.moments(source.ctime, 0).1 < of_target.moments(target.ctime, 0).0;
            return is_copy && has_same_content(source, target);
        }
        match (self.source_lacks(), self.target_lacks()) {
            (false, true) => settled && self.is_before_upload(source, target),
            (true, false) => {
                let (Some(clock), Some(more_ns)) = (self.source.clock, self.target.change_ns) else {
                    return false;
                };
                let (_, last_ns) = clock.moments(source.ctime, more_ns);
                // An object without a time of its own gives the file that of its upload, in whole seconds. Any older time
                // proves nothing: a file that was restored from a backup after the upload has one, too.
                let is_time_of_upload =
                    target.mtime.seconds == source.ctime.seconds && target.mtime.nanoseconds == 0;
                is_time_of_upload && target.ctime.as_nanoseconds() > last_ns
            }
            (true, true) | (false, false) => false,
        }
    }

    /// Returns the modification time with which an entry of the target is compared. A store that copied an object without a
    /// time of its own gave the copy none either: then it has that of the source, unless the content is another. From one
    /// store to another, each object gets a time.
    pub fn time_of_copy(&self, source: &EntryMetadata, target: &EntryMetadata) -> FileTime {
        let Some((of_source, of_target)) = self.source.clock.zip(self.target.clock) else {
            return target.mtime;
        };
        let listed = self.is_within_store && self.source.listed.times && self.target.listed.times;
        let is_copy = of_source.moments(source.ctime, 0).0 <= of_target.moments(target.ctime, 0).1;
        let is_bare = |it: &EntryMetadata| it.kind != EntryKind::Directory && it.mtime == it.ctime;
        let may_be_equal = is_copy && !source.content_mark.is_other(target.content_mark);
        match listed && is_bare(source) && is_bare(target) {
            true if may_be_equal || has_same_content(source, target) => source.mtime,
            _ => target.mtime,
        }
    }

    /// Returns true if symbolic links of equal length and time may have different texts. In a store the text is content, which
    /// costs a request: that is spared where the order of the upload and of the last change, or a checksum, shows that it is
    /// the text that was copied.
    pub fn may_have_other_text(&self, source: &EntryMetadata, target: &EntryMetadata) -> bool {
        match (self.source.clock, self.target.clock) {
            (None, None) => true,
            (None, Some(_)) => !self.is_before_upload(source, target),
            (Some(of_source), None) => self.target.change_ns.is_none_or(|more_ns| {
                target.ctime.as_nanoseconds() <= of_source.moments(source.ctime, more_ns).1
            }),
            (Some(_), Some(_)) => !has_same_content(source, target),
        }
    }

    /// Returns true if an entry of the source has not changed since that of the target was uploaded.
    pub fn is_before_upload(&self, source: &EntryMetadata, target: &EntryMetadata) -> bool {
        let (Some(clock), Some(more_ns)) = (self.target.clock, self.source.change_ns) else { return false };
        let (first_ns, _) = clock.moments(target.ctime, more_ns);
        let last_ns = source.mtime.as_nanoseconds().max(source.ctime.as_nanoseconds());
        last_ns < first_ns && !source.lacks_change_times
    }
}

/// Returns true if all attributes that are compared are listed.
fn covers(listed: ListedAttributes, compared: ListedAttributes) -> bool {
    let ListedAttributes { times, modes, owners, kinds, extended } = compared;
    (listed.times || !times)
        && (listed.modes || !modes)
        && (listed.owners || !owners)
        && (listed.kinds || !kinds)
        && (listed.extended || !extended)
}

/// Returns true if listings prove that two entries of one size have the same content.
fn has_same_content(source: &EntryMetadata, target: &EntryMetadata) -> bool {
    source.content_mark.is_same(target.content_mark) || object_bytes(source) == 0
}

/// Returns the size of the object that an entry becomes in a store.
fn object_bytes(metadata: &EntryMetadata) -> u64 {
    if metadata.is_special() { 0 } else { metadata.size_bytes }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::entry::ContentMark;

    const SECOND_NS: i64 = 1_000_000_000;

    fn at(ns: i64) -> FileTime {
        let nanoseconds = u32::try_from(ns.rem_euclid(SECOND_NS)).unwrap();
        FileTime { seconds: ns.div_euclid(SECOND_NS), nanoseconds }
    }

    /// Returns an entry with its times in nanoseconds since 1970.
    fn entry(kind: EntryKind, size_bytes: u64, (mtime, ctime): (i64, i64)) -> EntryMetadata {
        EntryMetadata { size_bytes, mtime: at(mtime), ctime: at(ctime), ..EntryMetadata::new(kind) }
    }

    fn file(times: (i64, i64)) -> EntryMetadata {
        entry(EntryKind::File, 5, times)
    }

    /// Returns the capabilities of a store that lists no attributes.
    fn store(behind_ns: i64, uncertainty_ns: u64) -> Capabilities {
        let clock = Some(StoreClock { behind_ns, uncertainty_ns });
        Capabilities { inodes: false, listed: ListedAttributes::NONE, clock, ..Capabilities::posix(true) }
    }

    fn between(source: &Capabilities, target: &Capabilities) -> ListingEvidence {
        ListingEvidence::new(source, target, target, false)
    }

    fn all_kinds() -> impl Strategy<Value = EntryKind> {
        (1u8..8).prop_map(|number| EntryKind::from_number(number).unwrap())
    }

    #[test]
    fn a_source_that_is_older_than_the_upload_is_equal() {
        let able = Capabilities::posix(true);
        let evidence = between(&able, &store(-30, 10));
        // The upload was at 100 by the store's clock, which is 70 by ours.
        let uploaded = file((100, 100));
        for (times, settled, expected) in [
            ((59, 59), true, ListingConclusion::Equal),
            ((60, 59), true, ListingConclusion::Unknown),
            ((59, 60), true, ListingConclusion::Unknown),
            ((1, 80), true, ListingConclusion::Unknown),
            ((59, 59), false, ListingConclusion::Unknown),
        ] {
            assert_eq!(evidence.conclude(&file(times), &uploaded, settled), expected, "{times:?} {settled}");
        }
        let of_server = Capabilities { answer_ns: Some(1), ..able.clone() };
        let day_before = (69 - 86_400 * SECOND_NS, 69 - 86_400 * SECOND_NS);
        let evidence = between(&of_server, &store(-30, 0));
        assert_eq!(evidence.conclude(&file((59, 59)), &uploaded, true), ListingConclusion::Unknown);
        assert_eq!(evidence.conclude(&file(day_before), &uploaded, true), ListingConclusion::Equal);
        for without_ctime in [
            Capabilities { inodes: false, ..able.clone() },
            Capabilities { change_times: false, ..able.clone() },
        ] {
            let evidence = between(&without_ctime, &store(0, 0));
            assert_eq!(evidence.conclude(&file((1, 0)), &uploaded, true), ListingConclusion::Unknown);
        }
        let unmeasured = Capabilities { clock: None, ..store(0, 0) };
        assert_eq!(
            between(&able, &unmeasured).conclude(&file((1, 1)), &uploaded, true),
            ListingConclusion::Unknown
        );
    }

    #[test]
    fn a_target_with_the_time_of_the_upload_is_equal() {
        let evidence = between(&store(-30, 10), &Capabilities::posix(true));
        let uploaded = file((100, 100));
        for (times, expected) in [
            // A restored backup has an old time and a late change.
            ((59, 81), ListingConclusion::Unknown),
            ((60, 81), ListingConclusion::Unknown),
            ((90, 90), ListingConclusion::Unknown),
        ] {
            assert_eq!(evidence.conclude(&uploaded, &file(times), false), expected, "{times:?}");
        }
        // The time of the upload itself is that of objects without a time of their own.
        let (upload, later) = (9 * SECOND_NS + 5, 12 * SECOND_NS);
        for (mtime, expected) in [
            (9 * SECOND_NS, ListingConclusion::Equal),
            (9 * SECOND_NS + 1, ListingConclusion::Unknown),
            (10 * SECOND_NS, ListingConclusion::Unknown),
        ] {
            let target = file((mtime, later));
            assert_eq!(evidence.conclude(&file((upload, upload)), &target, false), expected, "{mtime}");
        }
        let early = file((9 * SECOND_NS, 9 * SECOND_NS - 20));
        assert_eq!(evidence.conclude(&file((upload, upload)), &early, false), ListingConclusion::Unknown);
        let other = between(&store(-30, 10), &Capabilities { inodes: false, ..Capabilities::posix(true) });
        assert_eq!(other.conclude(&uploaded, &file((59, 81)), true), ListingConclusion::Unknown);
    }

    #[test]
    fn between_stores_the_later_upload_of_the_same_content_is_the_targets() {
        let mark = |number: u32| match number {
            0 => ContentMark::default(),
            number => ContentMark::of_tag(&[1; 16], number),
        };
        let marked = |at, number| EntryMetadata { content_mark: mark(number), ..file((at, at)) };
        let listed = |able| Capabilities { listed: ListedAttributes::ALL, ..able };
        let within = |able| Capabilities { copies_within: Some(7), ..able };
        let (one, other) = (within(store(0, 10)), within(store(-30, 10)));
        // Between different stores, the copy may lack attributes that a later run is to add.
        for target in [Capabilities { copies_within: Some(8), ..other.clone() }, store(-30, 10)] {
            let apart = between(&one, &target);
            let concluded = apart.conclude(&marked(98, 7), &marked(150, 7), false);
            assert!(concluded == ListingConclusion::Unknown && !apart.must_recheck());
        }
        for target in [other.clone(), listed(other.clone())] {
            let evidence = between(&one, &target);
            assert!(evidence.must_recheck());
            for (at, marks, expected) in [
                (150, (7, 7), ListingConclusion::Equal),
                (149, (7, 7), ListingConclusion::Equal),
                (148, (7, 7), ListingConclusion::Unknown),
                (100, (7, 7), ListingConclusion::Unknown),
                (150, (7, 8), ListingConclusion::Unknown),
                (150, (7, 0), ListingConclusion::Unknown),
                (150, (0, 0), ListingConclusion::Unknown),
            ] {
                let (source, target) = (marked(98, marks.0), marked(at, marks.1));
                assert_eq!(evidence.conclude(&source, &target, false), expected, "{at} {marks:?}");
            }
            // Entries without content need no mark.
            for kind in [EntryKind::Directory, EntryKind::File] {
                let [source, target] = [98, 150].map(|at| entry(kind, 0, (at, at)));
                assert_eq!(evidence.conclude(&source, &target, false), ListingConclusion::Equal, "{kind:?}");
            }
        }
        // Of a store that lists attributes, the time of the upload does not show that they have changed.
        let both = between(&listed(one.clone()), &listed(other.clone()));
        assert_eq!(both.conclude(&marked(98, 7), &marked(98, 8), false), ListingConclusion::Shown);
        let to_lacking = between(&listed(one), &other);
        let concluded = to_lacking.conclude(&marked(98, 7), &marked(150, 7), false);
        assert_eq!(concluded, ListingConclusion::Unknown);
        assert!(!both.must_recheck() && !to_lacking.must_recheck());
    }

    #[test]
    fn a_copy_of_an_object_without_a_time_has_none_either() {
        let at =
            |seconds: i64, own_s: i64| entry(EntryKind::File, 5, (own_s * SECOND_NS, seconds * SECOND_NS));
        let within = |number| Capabilities { copies_within: Some(number), ..store(0, 0) };
        let [exact, apart] = [7, 8].map(|other| between(&within(7), &within(other)).with_exact(true, true));
        let [md5, other] = [1, 2].map(|byte| ContentMark::of_md5(&[byte; 16]));
        let tag = ContentMark::of_tag(&[1; 16], 2);
        for (source, target, marks, expected) in [
            (at(5, 5), at(9, 9), (md5, md5), 5),
            (at(5, 5), at(9, 9), (md5, other), 9),
            (at(5, 5), at(9, 9), (tag, md5), 5),
            (at(5, 5), at(4, 4), (tag, md5), 4),
            (at(5, 5), at(4, 4), (md5, md5), 5),
            (at(5, 3), at(9, 9), (md5, md5), 9),
            (at(5, 5), at(9, 3), (md5, md5), 3),
        ] {
            let (mut source, mut target) = (source, target);
            (source.content_mark, target.content_mark) = marks;
            let found = exact.time_of_copy(&source, &target).seconds;
            assert_eq!(found, expected, "{source:?} {target:?}");
            assert_eq!(apart.time_of_copy(&source, &target), target.mtime);
            let files = between(&Capabilities::posix(true), &Capabilities::posix(true));
            assert_eq!(files.time_of_copy(&source, &target), target.mtime);
        }
    }

    #[test]
    fn what_any_listing_shows_is_not_examined() {
        let to_store = between(&Capabilities::posix(true), &store(0, 0));
        let (link, pipe) = (entry(EntryKind::Symlink, 5, (9, 9)), entry(EntryKind::Fifo, 77, (9, 9)));
        let directory = entry(EntryKind::Directory, 0, (9, 9));
        let (empty, large) = (entry(EntryKind::File, 0, (1, 1)), entry(EntryKind::File, 4096, (1, 1)));
        for (source, target, expected) in [
            (&file((9, 9)), &empty, ListingConclusion::Shown),
            (&link, &file((1, 1)), ListingConclusion::Unknown),
            (&link, &empty, ListingConclusion::Shown),
            (&pipe, &empty, ListingConclusion::Unknown),
            (&pipe, &file((1, 1)), ListingConclusion::Shown),
            (&empty, &directory, ListingConclusion::Shown),
            (&directory, &file((1, 1)), ListingConclusion::Unknown),
            (&directory, &large, ListingConclusion::Shown),
            (&directory, &entry(EntryKind::Directory, 0, (1, 1)), ListingConclusion::Unknown),
        ] {
            assert_eq!(to_store.conclude(source, target, true), expected, "{source:?} {target:?}");
        }
        let from_store = between(&store(0, 0), &Capabilities::posix(true));
        assert_eq!(from_store.conclude(&directory, &file((1, 1)), true), ListingConclusion::Shown);
        assert!(from_store.may_be_no_file(&file((1, 1))) && !from_store.may_be_no_file(&large));
        assert!(!to_store.may_be_no_file(&file((1, 1))));
        // A listing with times shows a difference, and no equality without a mode.
        let listed = ListedAttributes { times: true, ..ListedAttributes::NONE };
        let timed = between(&Capabilities::posix(true), &Capabilities { listed, ..store(0, 0) });
        assert_eq!(timed.conclude(&file((9, 9)), &file((1, 1)), true), ListingConclusion::Shown);
        assert_eq!(timed.conclude(&file((9, 9)), &file((9, 1)), true), ListingConclusion::Unknown);
        assert_eq!(timed.conclude(&file((9, 9)), &file((9, 10)), true), ListingConclusion::Equal);
    }

    #[test]
    fn attributes_that_are_not_compared_need_not_be_listed() {
        let listed = ListedAttributes { owners: false, extended: false, ..ListedAttributes::ALL };
        let source = Capabilities { listed, ..Capabilities::posix(true) };
        let lacks = |able: &Capabilities, extended| {
            ListingEvidence::new(&source, able, able, extended).source_lacks()
        };
        assert!(lacks(&Capabilities::posix(true), false) && lacks(&Capabilities::posix(false), true));
        assert!(!lacks(&Capabilities::posix(false), false));
    }

    proptest! {
        /// Whatever the kinds and sizes: an entry that changed later than the earliest moment of the upload is examined.
        #[test]
        fn nothing_that_may_have_changed_since_the_upload_is_equal(
            kinds in (all_kinds(), all_kinds()),
            sizes in (0u64..3, 0u64..3),
            times in (0i64..100, 0i64..100),
            uploaded in 0i64..100,
            clock in (-20i64..20, 0u64..20),
            settled: bool,
        ) {
            let able = Capabilities::posix(true);
            let source = entry(kinds.0, sizes.0, times);
            let target = entry(kinds.1, sizes.1, (uploaded, uploaded));
            let concluded = between(&able, &store(clock.0, clock.1)).conclude(&source, &target, settled);
            if times.0.max(times.1) >= uploaded + clock.0 - clock.1.cast_signed() || !settled {
                prop_assert_ne!(concluded, ListingConclusion::Equal);
            }
            let concluded = between(&store(clock.0, clock.1), &able).conclude(&target, &source, settled);
            // The time of the upload is told in whole seconds: of these nanoseconds, 0 is one.
            if times.1 <= uploaded + clock.0 + clock.1.cast_signed() || times.0 != 0 {
                prop_assert_ne!(concluded, ListingConclusion::Equal);
            }
        }

        #[test]
        fn listings_of_file_systems_show_everything(
            kinds in (all_kinds(), all_kinds()),
            sizes in (0u64..3, 0u64..3),
            times in (0i64..9, 0i64..9),
            exact in (any::<bool>(), any::<bool>()),
        ) {
            let able = Capabilities::posix(true);
            let (source, target) = (entry(kinds.0, sizes.0, times), entry(kinds.1, sizes.1, (5, 5)));
            prop_assert_eq!(between(&able, &able).conclude(&source, &target, false), ListingConclusion::Shown);
            let both = between(&store(0, 0), &store(0, 0));
            prop_assert_eq!(both.with_exact(true, true).conclude(&source, &target, true), ListingConclusion::Shown);
            let side = both.with_exact(exact.0, exact.1);
            prop_assert_eq!((side.source_lacks(), side.target_lacks()), (!exact.0, !exact.1));
        }
    }
}
