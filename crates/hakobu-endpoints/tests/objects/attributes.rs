//! Extended attributes and hard links in metadata and sidecars.

use std::sync::Arc;

use hakobu_core::Result;
use hakobu_core::content::content_sum;
use hakobu_core::endpoint::{
    Change, CompletionWait, FetchedPack, Pick, Picks, SourceEndpoint, SourceLane, SourceOp, SourceOutcome,
    TargetEndpoint, TargetLane, TargetOp, TargetOutcome,
};
use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata, FileTime, Inode};
use hakobu_core::error::ErrorKind;
use hakobu_core::extended::{Classes, Extended, ExtendedAsk, UNREADABLE, lost_digest};
use hakobu_core::grant::Grant;
use hakobu_core::listing::{Detail, Listing};
use hakobu_core::losses::LossKind;
use hakobu_core::pack::{PackBuilder, PackContent, PackReader, PackRecord, RecordHead};
use hakobu_core::path::EntryPath;
use hakobu_endpoints::object::BucketAccess;
use hakobu_endpoints::object::api::Bucket;
use hakobu_endpoints::store::StoreAccess;

use crate::memory_bucket::MemoryBucket;

const INODE: Inode = Inode { file_system: 0x803, number: 77 };
const ALL: Classes = Classes::USUAL;

fn path(text: &str) -> EntryPath {
    EntryPath::new(text).unwrap()
}

fn attributes(mode: u32) -> Attributes {
    Attributes { mode, uid: 5, gid: 6, mtime: FileTime { seconds: 1_000, nanoseconds: 9 } }
}

/// Returns attributes that take so many bytes, with one for root.
fn extended(bytes: usize) -> Extended {
    let mut all =
        [(b"user.a".to_vec(), vec![bytes as u8; bytes]), (b"trusted.b".to_vec(), b"for root".to_vec())];
    Extended::new(ALL, &mut all).unwrap()
}

struct InMemory {
    bucket: MemoryBucket,
    target: Box<dyn TargetEndpoint>,
    lane: Box<dyn TargetLane>,
}

impl InMemory {
    fn new(root: &str, grant: &Grant) -> Self {
        let bucket = MemoryBucket::new(1000);
        Self::of(bucket, root, grant)
    }

    fn of(bucket: MemoryBucket, root: &str, grant: &Grant) -> Self {
        let access = BucketAccess::new(Arc::new(bucket.clone()), None);
        let target = access.target(&path(root), grant).unwrap();
        let lane = target.open_target_lane(0).unwrap();
        Self { bucket, target, lane }
    }

    fn ask(&mut self, operation: TargetOp) -> TargetOutcome {
        assert!(self.lane.submit(1, operation).is_ok());
        self.lane.reap(CompletionWait::Forever).unwrap().result.unwrap()
    }

    /// Returns the kinds of losses.
    fn written(&mut self, operation: TargetOp) -> Vec<LossKind> {
        let TargetOutcome::PackWritten { failures, losses } = self.ask(operation) else { panic!() };
        assert!(failures.is_empty(), "{failures:?}");
        losses.iter().map(|loss| loss.what).collect()
    }

    fn store(
        &mut self,
        entries: &[(&str, &[u8], Option<&Extended>)],
        inodes: Vec<(u32, Inode)>,
    ) -> Vec<LossKind> {
        let mut pack = PackBuilder::default();
        pack.directory(&EntryPath::root());
        for (name, content, extended) in entries {
            let head = RecordHead {
                extended: extended.map(Extended::as_ref),
                ..RecordHead::new(name.as_bytes(), attributes(0o640))
            };
            pack.whole_file(&head, content, content_sum(content));
        }
        self.written(TargetOp::WritePack { pack: pack.finish(), inodes })
    }

    fn change(&mut self, changes: Vec<Change>) -> Vec<LossKind> {
        self.written(TargetOp::Apply { changes })
    }

    fn puts(&self) -> u64 {
        self.bucket.requests().put
    }

    fn stat(&mut self, at: &str) -> EntryMetadata {
        let detail = Detail { extended: ALL, ..Detail::default() };
        match self.ask(TargetOp::Stat { path: path(at), detail }) {
            TargetOutcome::Stat(Some(found)) => found,
            other => panic!("{other:?}"),
        }
    }

    fn source(&self, root: &str) -> Box<dyn SourceEndpoint> {
        let access = BucketAccess::new(Arc::new(self.bucket.clone()), None);
        access.source(&[path(root)]).unwrap()
    }

    /// Returns the sidecars below a directory.
    fn sidecars(&self, below: &str) -> Vec<String> {
        let keys = self.bucket.keys().into_iter();
        keys.filter(|key| key.starts_with(&format!("{below}.hakobu.attributes/"))).collect()
    }
}

fn ask(lane: &mut dyn SourceLane, operation: SourceOp) -> Result<SourceOutcome> {
    assert!(lane.submit(1, operation).is_ok());
    lane.reap(CompletionWait::Forever).unwrap().result
}

/// Reads the files of a directory.
fn fetch(lane: &mut dyn SourceLane, directory: &str, ask_for: ExtendedAsk) -> (Arc<Listing>, FetchedPack) {
    let (directory, target) = (path(directory), EntryPath::root());
    let (directories, detail) = (vec![directory.clone()], Detail::default());
    let list = SourceOp::List { root: 0, directories, budget: 0, detail };
    let Ok(SourceOutcome::Listed(mut listed)) = ask(lane, list) else { panic!("no listing") };
    let listing = Arc::new(listed.swap_remove(0).result.unwrap());
    let is_file = |index: &u32| listing.metadata(*index as usize).kind == EntryKind::File;
    let entries = (0..listing.len() as u32).filter(is_file);
    let entries = entries.map(|index| Pick { index, replaces: false }).collect();
    let picks = Arc::new(Picks { listing: listing.clone(), entries, target_name: None });
    let read =
        SourceOp::ReadPack { root: 0, directory, target, picks, from: 0, ask: ask_for, buffer: Vec::new() };
    let Ok(SourceOutcome::Pack(fetched)) = ask(lane, read) else { panic!("no pack") };
    (listing, fetched)
}

/// Returns the extended attributes of the files of a pack, with their names.
fn in_pack(fetched: &FetchedPack) -> Vec<(String, Option<Extended>)> {
    let (mut reader, mut found) = (PackReader::new(&fetched.pack), Vec::new());
    while let Some(record) = reader.read().unwrap() {
        let PackRecord::Entry(head, PackContent::File(_)) = record else { continue };
        let extended = head.extended.map(|it| Extended::decode(it.as_bytes().to_vec()).unwrap());
        found.push((String::from_utf8(head.name.to_vec()).unwrap(), extended));
    }
    found
}

fn of(lane: &mut dyn SourceLane, at: &str) -> Result<Option<Extended>> {
    let keep = ExtendedAsk { keep: ALL, ..ExtendedAsk::default() };
    match ask(lane, SourceOp::Extended { root: 0, path: path(at), ask: keep })? {
        SourceOutcome::Extended { extended, .. } => Ok(extended),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_does_not_fit_is_stored_once_and_found_from_everywhere_below() {
    let mut all = InMemory::new("top", &Grant::everything());
    let [small, large] = [extended(10), extended(9000)];
    let names: Vec<String> = (0..40).map(|number| format!("f{number:02}")).collect();
    let entries: Vec<_> = names.iter().map(|name| (name.as_str(), &b"x"[..], Some(&large))).collect();
    assert!(all.store(&entries, Vec::new()).is_empty());
    assert_eq!((all.puts(), all.sidecars("top/").len()), (41, 1));
    all.store(&[("small", b"x", Some(&small)), ("none", b"x", None)], Vec::new());
    let directory = |at: &str, extended: Option<&Extended>| Change::Directory {
        path: path(at),
        attributes: attributes(0o750),
        extended: extended.cloned(),
    };
    all.change(vec![directory("deep/deeper", Some(&large)), directory("", Some(&large))]);
    assert_eq!(all.sidecars("top/").len(), 1);
    assert_eq!(all.stat("f07").extended, large.as_ref().digest());
    assert_eq!((all.stat("none").extended, all.stat("").extended), (0, large.as_ref().digest()));

    let keep = ExtendedAsk { keep: ALL, ..ExtendedAsk::default() };
    for (root, inside) in [("", "top"), ("top", "")] {
        let source = all.source(root);
        let mut lane = source.open_source_lane(0).unwrap();
        let before = all.bucket.requests().get;
        let (_, fetched) = fetch(&mut *lane, inside, keep);
        let found = in_pack(&fetched);
        assert_eq!(found.len(), 42);
        for (name, found) in &found {
            let expected = match name.as_str() {
                "small" => &small,
                "none" => &Extended::new(ALL, &mut []).unwrap(),
                _ => &large,
            };
            assert_eq!(found.as_ref(), Some(expected), "{name}");
        }
        // Below another root, the first place that is tried has none.
        let places = if root.is_empty() { 2 } else { 1 };
        assert_eq!(all.bucket.requests().get - before, 42 + places, "{root}");
        // Other classes than those that were stored.
        let user = ExtendedAsk { keep: Classes::USER, miss: Classes::TRUSTED, readable: false };
        let (_, fetched) = fetch(&mut *lane, inside, user);
        assert_eq!(
            fetched.losses.iter().map(|loss| (loss.what, loss.count)).collect::<Vec<_>>(),
            [(LossKind::Xattr, 41)]
        );
        let only = in_pack(&fetched)[0].1.clone().unwrap();
        assert_eq!(only.as_ref().classes(), Classes::USER);
        assert_eq!(only.as_ref().iter().map(|(name, _)| name).collect::<Vec<_>>(), [b"user.a"]);
    }
    let source = all.source("top/deep");
    let mut lane = source.open_source_lane(0).unwrap();
    assert_eq!(of(&mut *lane, "deeper").unwrap(), Some(large));
}

#[test]
fn an_entry_without_its_sidecar_is_unreadable() {
    let mut all = InMemory::new("", &Grant::everything());
    let [large, other] = [extended(9000), extended(8000)];
    all.store(&[("a", b"x", Some(&large)), ("b", b"x", Some(&other)), ("c", b"x", None)], Vec::new());
    let sidecar =
        all.sidecars("").into_iter().find(|key| all.bucket.content(key).unwrap().len() > 9000).unwrap();
    for damaged in [true, false] {
        match damaged {
            true => all.bucket.add(&sidecar, b"junk"),
            false => all.bucket.remove(&sidecar),
        }
        let source = all.source("");
        let mut lane = source.open_source_lane(0).unwrap();
        let error = of(&mut *lane, "a").unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt);
        assert!(error.to_string().contains(&sidecar), "{error}");
        assert_eq!(of(&mut *lane, "b").unwrap().as_ref(), Some(&other));
        let keep = ExtendedAsk { keep: ALL, ..ExtendedAsk::default() };
        let (listing, fetched) = fetch(&mut *lane, "", keep);
        let failed: Vec<&[u8]> =
            fetched.failures.iter().map(|(index, _)| listing.name(*index as usize)).collect();
        assert_eq!((failed, in_pack(&fetched).len()), (vec![&b"a"[..]], 2));
        let (_, fetched) = fetch(&mut *lane, "", ExtendedAsk::default());
        assert_eq!((fetched.failures.len(), in_pack(&fetched).len()), (0, 3), "nobody asked for them");
        // The classes are in the metadata of the entry, so that a listing of a source need not read them, unless it has to
        // prove them.
        for (proven, expected) in [(false, large.as_ref().digest()), (true, UNREADABLE)] {
            let detail = Detail { extended: ALL, proven, ..Detail::default() };
            let stat = SourceOp::Stat { root: 0, path: path("a"), detail };
            let Ok(SourceOutcome::Stat(Some(found))) = ask(&mut *lane, stat) else { panic!() };
            assert_eq!(found.extended, expected);
        }
        let detail = Detail { extended: Classes::USER, ..Detail::default() };
        let Ok(SourceOutcome::Stat(Some(found))) =
            ask(&mut *lane, SourceOp::Stat { root: 0, path: path("a"), detail })
        else {
            panic!()
        };
        assert_eq!(found.extended, UNREADABLE);
    }
    // A later run writes it again.
    let mut again = InMemory::of(all.bucket.clone(), "", &Grant::everything());
    again.store(&[("d", b"x", Some(&large))], Vec::new());
    let source = again.source("");
    assert_eq!(of(&mut *source.open_source_lane(0).unwrap(), "a").unwrap(), Some(large));
}

/// Returns the entries that a target lists at the top.
fn listed(all: &mut InMemory) -> Vec<(String, EntryMetadata)> {
    let detail = Detail { extended: ALL, ..Detail::default() };
    let list = TargetOp::List { directories: vec![EntryPath::root()], budget: 0, detail };
    let TargetOutcome::Listed(mut listed) = all.ask(list) else { panic!() };
    let listing = listed.swap_remove(0).result.unwrap();
    let entry =
        |index: usize| (String::from_utf8(listing.name(index).to_vec()).unwrap(), *listing.metadata(index));
    (0..listing.len()).map(entry).collect()
}

#[test]
fn a_target_shows_what_it_has_lost_and_takes_it_again() {
    for bucket in [MemoryBucket::new(1000), MemoryBucket::without_order(1000)] {
        let mut all = InMemory::of(bucket, "top", &Grant::everything());
        let [large, other] = [extended(19_000), extended(18_000)];
        let names: Vec<String> = (0..40).map(|number| format!("f{number:02}")).collect();
        let mut entries: Vec<_> = names.iter().map(|name| (name.as_str(), &b"x"[..], Some(&large))).collect();
        entries.push(("other", b"x", Some(&other)));
        all.store(&entries, Vec::new());
        let directory = |extended: &Extended| Change::Directory {
            path: path("d"),
            attributes: attributes(0o750),
            extended: Some(extended.clone()),
        };
        all.change(vec![directory(&large)]);
        let content = |key: &String| all.bucket.content(key).unwrap().to_vec();
        let sidecar = all.sidecars("top/").into_iter().find(|key| content(key) == large.as_bytes()).unwrap();
        for damaged in [Some(&b"junk"[..]), Some(&large.as_bytes()[1..]), None] {
            match damaged {
                Some(junk) => all.bucket.add(&sidecar, junk),
                None => all.bucket.remove(&sidecar),
            }
            let mut later = InMemory::of(all.bucket.clone(), "top", &Grant::everything());
            let found: Vec<_> = ["f07", "f08", "d", "other"].iter().map(|at| later.stat(at)).collect();
            for lost in &found[..3] {
                assert_eq!((lost.extended, lost.missed), (lost_digest(large.as_ref().digest()), true));
            }
            assert_eq!((found[3].extended, found[3].missed), (other.as_ref().digest(), false));
            if later.bucket.limits().lists_metadata {
                let lost = listed(&mut later).iter().filter(|(_, it)| it.missed).count();
                assert_eq!(lost, 41);
            }
            // Only some classes are asked for.
            let detail = Detail { extended: Classes::USER, ..Detail::default() };
            let found = later.ask(TargetOp::Stat { path: path("f07"), detail });
            let TargetOutcome::Stat(Some(found)) = found else { panic!() };
            assert!(found.missed && found.extended == lost_digest(large.as_ref().digest()));

            // Equal attributes are set again; one change is as good as all.
            let before = later.bucket.requests();
            let set = |at: &str| Change::Attributes {
                path: path(at),
                attributes: attributes(0o640),
                extended: Some(large.clone()),
            };
            later.change(vec![set("f07"), set("f08")]);
            let after = later.bucket.requests();
            assert_eq!((after.put - before.put, after.copy), (1, before.copy));
            assert_eq!(&*later.bucket.content(&sidecar).unwrap(), large.as_bytes());
            assert_eq!(later.stat("f09").extended, large.as_ref().digest(), "in the same run");
            let set = Change::Attributes { path: path("f07"), attributes: attributes(0o600), extended: None };
            later.change(vec![set]);
            assert_eq!(later.stat("f07").mode, 0o600);
            later.change(vec![Change::Attributes {
                path: path("f07"),
                attributes: attributes(0o640),
                extended: None,
            }]);
            let mut last = InMemory::of(all.bucket.clone(), "top", &Grant::everything());
            let before = last.bucket.requests().get;
            for name in &names {
                assert_eq!(last.stat(name).extended, large.as_ref().digest());
            }
            assert_eq!(last.bucket.requests().get, before + 1, "each is read once");
            if last.bucket.limits().lists_metadata {
                assert!(listed(&mut last).iter().all(|(_, it)| !it.missed));
                assert_eq!(last.bucket.requests().get, before + 2);
            }
        }
    }
}

/// Returns an access control list: a user and the owning group may read, and the mask allows writing as well.
fn access_list() -> Vec<u8> {
    let entry = |tag: u16, bits: u16, id: u32| {
        [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let others = [(1, 7, u32::MAX), (2, 4, 1000), (4, 4, u32::MAX), (16, 6, u32::MAX), (32, 5, u32::MAX)];
    others
        .iter()
        .fold(2_u32.to_le_bytes().to_vec(), |list, (tag, bits, id)| [list, entry(*tag, *bits, *id)].concat())
}

#[test]
fn a_lost_access_control_list_leaves_a_mode_that_grants_no_more() {
    for bucket in [MemoryBucket::new(1000), MemoryBucket::without_order(1000)] {
        let shows_all = bucket.limits().lists_metadata;
        let mut all = InMemory::of(bucket, "", &Grant::everything());
        let list = (b"system.posix_acl_access".to_vec(), access_list());
        let inline = Extended::new(ALL, &mut [list.clone()]).unwrap();
        let large = Extended::new(ALL, &mut [list, (b"user.a".to_vec(), vec![1; 19_000])]).unwrap();
        let mut entries = Vec::new();
        for (name, directory, extended) in
            [("a", "da", &inline), ("b", "db", &large), ("c", "dc", &extended(9))]
        {
            all.store(&[(name, b"x", Some(extended))], Vec::new());
            let (path, extended) = (path(directory), Some(extended.clone()));
            all.change(vec![
                Change::Attributes {
                    path: crate::attributes::path(name),
                    attributes: attributes(0o765),
                    extended: extended.clone(),
                },
                Change::Directory { path, attributes: attributes(0o765), extended },
            ]);
            entries.extend([name, directory]);
        }
        let source = all.source("");
        let mut lane = source.open_source_lane(0).unwrap();
        let detail = Detail { missed: Classes::ACL, ..Detail::default() };
        let expected = |name: &str| if name.ends_with('c') { 0o765 } else { 0o744 };
        for name in &entries {
            let stat = SourceOp::Stat { root: 0, path: path(name), detail };
            let Ok(SourceOutcome::Stat(Some(found))) = ask(&mut *lane, stat) else { panic!() };
            assert_eq!(found.mode, expected(name), "{name}");
        }
        if !shows_all {
            continue;
        }
        let directories = vec![EntryPath::root()];
        let list = SourceOp::List { root: 0, directories, budget: 0, detail };
        let Ok(SourceOutcome::Listed(mut listed)) = ask(&mut *lane, list) else { panic!() };
        let page = SourceOp::Page { root: 0, directory: EntryPath::root(), from: None, entries: 100, detail };
        let Ok(SourceOutcome::Page(page)) = ask(&mut *lane, page) else { panic!() };
        for listing in [listed.swap_remove(0).result.unwrap(), page.listing] {
            assert_eq!(listing.len(), entries.len());
            for index in 0..listing.len() {
                let name = std::str::from_utf8(listing.name(index)).unwrap();
                assert_eq!(listing.metadata(index).mode, expected(name), "{name}");
            }
        }
    }
}

#[test]
fn a_sidecar_counts_only_for_what_is_below_its_directory() {
    let large = extended(9000);
    let mut all = InMemory::new("top", &Grant::everything());
    all.store(&[("a", b"x", Some(&large))], Vec::new());
    let mut deeper = InMemory::of(all.bucket.clone(), "top/deeper", &Grant::everything());
    deeper.store(&[("b", b"x", Some(&large))], Vec::new());
    let [above, below] = ["top/", "top/deeper/"].map(|at| all.sidecars(at).swap_remove(0));
    all.bucket.remove(&above);
    let mut later = InMemory::of(all.bucket.clone(), "top", &Grant::everything());
    let missed = ["deeper/b", "a", "deeper/b"].map(|at| later.stat(at).missed);
    assert_eq!(missed, [false, true, false]);
    // One above serves both.
    all.bucket.remove(&below);
    later.store(&[("c", b"x", Some(&large))], Vec::new());
    let mut last = InMemory::of(all.bucket.clone(), "top", &Grant::everything());
    assert_eq!(["deeper/b", "a", "c"].map(|at| last.stat(at).missed), [false; 3]);
}

#[test]
fn what_a_target_may_not_read_is_no_loss() {
    let large = extended(9000);
    let all = InMemory::new("top/tree", &Grant::everything());
    let mut writer = InMemory::of(all.bucket.clone(), "top/tree", &Grant::everything());
    writer.store(&[("a", b"x", Some(&large))], Vec::new());
    let missed = |read: &str, list: &str| {
        all.bucket.read_only(read);
        all.bucket.list_only(list);
        InMemory::of(all.bucket.clone(), "top/tree", &Grant::everything()).stat("a").missed
    };
    assert!(!missed("", "") && !missed("top/tree/", "top/tree/"));
    assert!(!missed("elsewhere/", "top/tree/"), "with rights to write and to list");
    let sidecar = all.sidecars("top/tree/").swap_remove(0);
    all.bucket.remove(&sidecar);
    assert!(missed("", "") && missed("top/tree/", "top/tree/") && missed("elsewhere/", "top/tree/"));
    assert!(!missed("elsewhere/", "elsewhere/"), "nobody can know");
}

#[test]
fn attributes_that_are_not_set_stay() {
    for bytes in [10, 9000] {
        let mut all = InMemory::new("", &Grant::everything());
        let (first, second) = (extended(bytes), extended(bytes + 1));
        all.store(&[("a", b"x", Some(&first))], vec![(0, INODE)]);
        let both = |mode, extended: Option<&Extended>| {
            let (attributes, extended) = (attributes(mode), extended.cloned());
            let change = Change::Attributes { path: path("a"), attributes, extended: extended.clone() };
            vec![change, Change::Directory { path: path("d"), attributes, extended }]
        };
        all.change(both(0o600, Some(&first)));
        for (mode, set, expected) in
            [(0o601, None, &first), (0o602, Some(&second), &second), (0o603, None, &second)]
        {
            all.change(both(mode, set));
            for at in ["a", "d"] {
                let found = all.stat(at);
                assert_eq!((found.mode, found.extended), (mode, expected.as_ref().digest()), "{at}");
            }
            assert!(all.stat("a").inode.is_some(), "the identity stays, too");
        }
        let none = Extended::new(ALL, &mut []).unwrap();
        all.change(both(0o604, Some(&none)));
        assert_eq!((all.stat("a").extended, all.stat("d").extended), (0, 0));
    }
}

#[test]
fn what_gives_rights_needs_a_grant() {
    let mut all = InMemory::new("", &Grant { may_set_id: false, ..Grant::everything() });
    let given = all.target.capabilities().extended;
    assert!(!given.contains(Classes::TRUSTED) && given.contains(Classes::USER | Classes::ACL));
    assert_eq!(all.store(&[("a", b"x", Some(&extended(10)))], Vec::new()), [LossKind::Xattr]);
    let source = all.source("");
    let found = of(&mut *source.open_source_lane(0).unwrap(), "a").unwrap().unwrap();
    assert_eq!(found.as_ref().iter().map(|(name, _)| name).collect::<Vec<_>>(), [b"user.a"]);
}

fn link(at: &str, to: &str) -> Change {
    Change::Link { path: path(at), to: path(to), replaces: false }
}

#[test]
fn names_of_one_file_share_an_identity() {
    let mut all = InMemory::new("", &Grant::everything());
    all.store(&[("a", b"x", Some(&extended(10))), ("b", b"x", Some(&extended(10)))], vec![(0, INODE)]);
    let before = all.bucket.requests();
    all.change(vec![link("a2", "a"), link("d/a3", "a")]);
    let after = all.bucket.requests();
    assert_eq!((after.copy - before.copy, after.head, after.put), (2, before.head, before.put));
    let inode = |all: &mut InMemory, at: &str| all.stat(at).inode;
    let one = inode(&mut all, "a");
    assert!(one.is_some() && one == inode(&mut all, "a2") && one == inode(&mut all, "d/a3"));
    assert_eq!(inode(&mut all, "b"), None);
    // One that was alone gets an identity once, however many names it gets at the same time.
    let mut later = InMemory::of(all.bucket.clone(), "", &Grant::everything());
    later.change(vec![link("b2", "b"), link("b3", "b"), link("a4", "a")]);
    assert_eq!(all.bucket.requests().copy - after.copy, 4);
    let two = inode(&mut later, "b");
    assert!(two.is_some() && two != one && two == inode(&mut later, "b2") && two == inode(&mut later, "b3"));
    assert_eq!(inode(&mut later, "a4"), one);
    assert_eq!(later.stat("b").extended, extended(10).as_ref().digest());
    // An equal inode number in another run, perhaps on another machine, is another file.
    later.store(&[("c", b"x", Some(&extended(10)))], vec![(0, INODE)]);
    assert_ne!(inode(&mut later, "c"), one);
    let missing = TargetOp::Apply { changes: vec![link("x", "missing")] };
    let TargetOutcome::PackWritten { failures, .. } = later.ask(missing) else { panic!() };
    assert_eq!((failures.len(), all.bucket.content("x")), (1, None));
}

#[test]
fn a_name_with_other_content_belongs_to_another_file() {
    let mut all = InMemory::new("", &Grant::everything());
    all.store(&[("a", b"one", None)], vec![(0, INODE)]);
    all.change(vec![link("b", "a"), link("c", "a")]);
    let linked = |all: &InMemory| -> Vec<(String, Option<Inode>)> {
        let source = all.source("");
        let (listing, fetched) = fetch(&mut *source.open_source_lane(0).unwrap(), "", ExtendedAsk::default());
        let name = |index: u32| String::from_utf8(listing.name(index as usize).to_vec()).unwrap();
        fetched.linked.iter().map(|(index, it)| (name(*index), it.inode)).collect()
    };
    let names = |all: &InMemory| linked(all).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(&all), ["a", "b", "c"]);
    // Another program replaces the content, and keeps all metadata.
    all.bucket.replace_content("b", b"two");
    assert_eq!(names(&all), ["a", "c"]);
    assert_ne!(all.stat("b").inode, all.stat("a").inode);
    all.bucket.check_nothing();
    assert_eq!(names(&all), ["a", "c"], "without a checksum of the store as well");
    // It changes the mode of one.
    let change = Change::Attributes { path: path("c"), attributes: attributes(0o600), extended: None };
    all.change(vec![change]);
    let inodes: Vec<_> = linked(&all).into_iter().map(|(_, inode)| inode).collect();
    assert_ne!(inodes[0], inodes[1]);
}
