//! Objects with the extended attributes of other objects are no entries.

use std::sync::Arc;

use hakobu_core::Result;
use hakobu_core::content::content_sum;
use hakobu_core::endpoint::{Change, CompletionWait, SourceOp, SourceOutcome, TargetOp, TargetOutcome};
use hakobu_core::entry::{Attributes, FileTime};
use hakobu_core::error::ErrorKind;
use hakobu_core::grant::Grant;
use hakobu_core::listing::{Detail, Listing};
use hakobu_core::pack::{PackBuilder, RecordHead};
use hakobu_core::path::EntryPath;
use hakobu_endpoints::object::BucketAccess;
use hakobu_endpoints::store::StoreAccess;

use crate::memory_bucket::MemoryBucket;

const DIRECTORY: &str = ".hakobu.attributes";

/// Returns the names that both ends list in a directory, which must be equal.
fn names(bucket: &MemoryBucket, root: &str, directory: &str) -> Result<Vec<String>> {
    let access = BucketAccess::new(Arc::new(bucket.clone()), None);
    let (root, directory) = (EntryPath::new(root).unwrap(), EntryPath::new(directory).unwrap());
    let source = access.source(std::slice::from_ref(&root)).unwrap();
    let mut source = source.open_source_lane(0).unwrap();
    let (directories, detail) = (vec![directory.clone()], Detail::default());
    let list = SourceOp::List { root: 0, directories, budget: 100, detail };
    assert!(source.submit(1, list).is_ok());
    let SourceOutcome::Listed(mut listed) = source.reap(CompletionWait::Forever).unwrap().result? else {
        panic!("no listing")
    };
    let of_source = listed.swap_remove(0).result;

    let target = access.target(&root, &Grant::everything()).unwrap();
    let mut target = target.open_target_lane(0).unwrap();
    let page = TargetOp::Page { directory, from: None, entries: 100, detail: Detail::default() };
    assert!(target.submit(1, page).is_ok());
    let of_target = target.reap(CompletionWait::Forever).unwrap().result.map(|outcome| match outcome {
        TargetOutcome::Page(page) => page.listing,
        other => panic!("no page: {other:?}"),
    });

    let text = |listing: &Listing| -> Vec<String> {
        (0..listing.len()).map(|index| String::from_utf8(listing.name(index).to_vec()).unwrap()).collect()
    };
    assert_eq!(of_source.as_ref().ok().map(text), of_target.as_ref().ok().map(text));
    Ok(text(&of_source?))
}

#[test]
fn names_are_in_order_whatever_their_keys() {
    let bucket = MemoryBucket::new(1000);
    ["a/b/\u{2409}", "a/b/c", "a/b/\u{201b}FF", "a/\u{2409}"].iter().for_each(|key| bucket.add(key, b"x"));
    let access = BucketAccess::new(Arc::new(bucket), None);
    let source = access.source(&[EntryPath::root()]).unwrap();
    let mut source = source.open_source_lane(0).unwrap();
    let (directories, detail) = (vec![EntryPath::new("a").unwrap()], Detail::default());
    let list = SourceOp::List { root: 0, directories, budget: 100, detail };
    assert!(source.submit(1, list).is_ok());
    let SourceOutcome::Listed(listed) = source.reap(CompletionWait::Forever).unwrap().result.unwrap() else {
        panic!("no listing")
    };
    let names = |listing: &Listing| -> Vec<Vec<u8>> {
        (0..listing.len()).map(|index| listing.name(index).to_vec()).collect()
    };
    let names: Vec<_> = listed.iter().map(|listing| names(listing.result.as_ref().unwrap())).collect();
    assert_eq!(
        names,
        [vec![b"\t".to_vec(), b"b".to_vec()], vec![b"\t".to_vec(), b"c".to_vec(), b"\xff".to_vec()]]
    );
}

#[test]
fn they_are_listed_nowhere() {
    let sidecar = format!("{DIRECTORY}/{}", "0a".repeat(32));
    for (root, prefix, page) in [("", "", 1000), ("some/where", "some/where/", 1000), ("some", "some/", 1)] {
        let bucket = MemoryBucket::new(page);
        bucket.add(&format!("{prefix}{sidecar}"), b"");
        assert!(names(&bucket, root, "").unwrap().is_empty());
        let missing = names(&bucket, root, DIRECTORY).unwrap_err();
        assert_eq!(missing.kind, ErrorKind::SourceVanished);

        // Other objects there belong to the user.
        for key in ["a", &format!("{DIRECTORY}/{}", "f".repeat(63)), "b/", &format!("b/{sidecar}")] {
            bucket.add(&format!("{prefix}{key}"), b"");
        }
        assert_eq!(names(&bucket, root, "").unwrap(), [DIRECTORY, "a", "b"]);
        assert_eq!(names(&bucket, root, DIRECTORY).unwrap(), ["f".repeat(63)]);
        assert!(names(&bucket, root, "b").unwrap().is_empty());
    }
}

#[test]
fn they_go_with_their_directory_and_are_not_written_as_entries() {
    let bucket = MemoryBucket::new(2);
    let sidecar = |digit: char| format!("{DIRECTORY}/{}", digit.to_string().repeat(64));
    let keys = ['0', '1', '2', '3'].map(|digit| format!("a/{}", sidecar(digit)));
    keys.iter().map(String::as_str).chain(["a/", "a/file"]).for_each(|key| bucket.add(key, b""));
    let access = BucketAccess::new(Arc::new(bucket.clone()), None);
    let target = access.target(&EntryPath::root(), &Grant::everything()).unwrap();
    let mut lane = target.open_target_lane(0).unwrap();
    let mut failures = |operation| {
        assert!(lane.submit(1, operation).is_ok());
        match lane.reap(CompletionWait::Forever).unwrap().result.unwrap() {
            TargetOutcome::PackWritten { failures, .. } => failures,
            other => panic!("another outcome: {other:?}"),
        }
    };
    let remove = |name: &str, directory| {
        let path = EntryPath::new(name).unwrap();
        TargetOp::Apply { changes: vec![Change::Remove { path, directory, kept_names: 0 }] }
    };
    assert_eq!(failures(remove("a", true))[0].1.kind, ErrorKind::Conflict);
    assert!(keys.iter().all(|key| bucket.content(key).is_some()), "as long as the directory is not empty");
    bucket.add(&format!("a/{DIRECTORY}/"), b"");
    assert!(failures(remove(&format!("a/{DIRECTORY}"), true)).is_empty());
    assert!(bucket.content(&format!("a/{DIRECTORY}/")).is_none());
    assert!(keys.iter().all(|key| bucket.content(key).is_some()), "as long as entries beside them exist");
    assert!(failures(remove("a/file", false)).is_empty() && failures(remove("a", true)).is_empty());
    assert!(keys.iter().map(String::as_str).chain(["a/"]).all(|key| bucket.content(key).is_none()));

    let mut pack = PackBuilder::default();
    pack.directory(&EntryPath::new(DIRECTORY).unwrap());
    let attributes = Attributes { mode: 0o644, uid: 0, gid: 0, mtime: FileTime::default() };
    for name in ["0".repeat(64), "notes".to_owned()] {
        pack.whole_file(&RecordHead::new(name.as_bytes(), attributes), b"x", content_sum(b"x"));
    }
    let refused = failures(TargetOp::WritePack { pack: pack.finish() });
    assert_eq!(refused.len(), 1);
    assert_eq!((refused[0].0, refused[0].1.kind), (0, ErrorKind::Unsupported));
    assert_eq!(names(&bucket, "", DIRECTORY).unwrap(), ["notes"]);
}
