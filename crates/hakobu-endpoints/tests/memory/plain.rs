//! Tests of copies from file system to file system.

use std::sync::Arc;

use hakobu_core::endpoint::Change;
use hakobu_core::entry::{Attributes, FileTime};
use hakobu_core::error::ErrorKind;
use hakobu_core::grant::Grant;
use hakobu_core::job::{Mode, Removal};
use hakobu_endpoints::memory::MemoryFileSystem;
use hakobu_endpoints::store::{EntryContent, ObjectPlace};

use crate::bench::{bytes, contents, copy, path, put, view};

/// Returns a tree with entries of all kinds.
fn tree() -> Arc<MemoryFileSystem> {
    let store = Arc::new(MemoryFileSystem::new());
    for (at, length) in
        [("a", 0), ("b/c", 1), ("b/d", 4096), ("b/large", 700_000), ("e/f/g/h", 300_000), ("z", 262_144)]
    {
        put(&*store, at, &bytes(length, length as u64));
    }
    let attributes =
        Attributes { mode: 0o4711, uid: 5, gid: 6, mtime: FileTime { seconds: -5, nanoseconds: 9 } };
    let everything = Grant::everything();
    store.put(&path("b/link"), EntryContent::Symlink(b"../z"[..].into()), &attributes, &everything).unwrap();
    store.put(&path("set"), EntryContent::File(b"x"[..].into()), &attributes, &everything).unwrap();
    for change in [
        Change::Link { path: path("again"), to: path("b/d"), replaces: false },
        Change::Directory {
            path: path("empty"),
            attributes: Attributes { mode: 0o500, ..attributes },
            extended: None,
        },
        Change::Directory { path: path("b"), attributes, extended: None },
        Change::Directory { path: path(""), attributes, extended: None },
    ] {
        store.apply(&change, &everything).unwrap();
    }
    store
}

#[test]
fn all_of_a_tree_is_brought_over_and_then_equal() {
    let (source, target) = (tree(), Arc::new(MemoryFileSystem::new()));
    let first = copy(&source, &target, &contents());
    assert!(first.fatal.is_none() && first.failures.is_empty(), "{:?} {:?}", first.fatal, first.failures);
    assert!(first.losses.is_empty(), "{:?}", first.losses);
    assert_eq!(view(&*source), view(&*target));
    let before = view(&*target);
    let again = copy(&source, &target, &contents());
    let counters = &again.counters;
    let made = (counters.entries_created, counters.entries_updated, counters.entries_attributes_only);
    assert_eq!(made, (0, 0, 0));
    assert_eq!(view(&*target), before);
    let mut verify = contents();
    verify.mode = Mode::Compare;
    assert_eq!(copy(&source, &target, &verify).counters.entries_different, 0);
}

#[test]
fn what_differs_is_found_and_mended() {
    let (source, target) = (tree(), Arc::new(MemoryFileSystem::new()));
    copy(&source, &target, &contents());
    put(&*target, "b/c", b"other");
    put(&*target, "extra/deep", b"x");
    let mut verify = contents();
    verify.mode = Mode::Compare;
    let found = copy(&source, &target, &verify).counters;
    assert!(found.entries_different >= 1 && found.entries_only_in_target >= 1);
    let mut removing = contents();
    (removing.removal, removing.removals_max) = (Removal::Remove, 100);
    assert!(copy(&source, &target, &removing).failures.is_empty());
    assert!(copy(&source, &target, &contents()).failures.is_empty());
    assert_eq!(view(&*source), view(&*target));
}

#[test]
fn a_link_with_a_text_that_none_can_have_fails_by_itself() {
    let source = tree();
    let attributes = Attributes { mode: 0o777, uid: 0, gid: 0, mtime: FileTime::default() };
    for (name, text) in [("l/nul", &b"a\0b"[..]), ("l/empty", b""), ("l/long", &[b'x'; 5000])] {
        let content = EntryContent::Symlink(text.into());
        source.put(&path(name), content, &attributes, &Grant::everything()).unwrap();
    }
    let target = Arc::new(MemoryFileSystem::new());
    let made = copy(&source, &target, &contents());
    assert!(made.fatal.is_none(), "{:?}", made.fatal);
    let failed: Vec<_> = made.failures.iter().map(|failure| failure.error.kind).collect();
    assert_eq!(failed, [ErrorKind::Unsupported; 3]);
    assert_eq!(view(&*target).len() + 3, view(&*source).len());
}
