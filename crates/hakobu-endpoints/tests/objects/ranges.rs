//! Listings of directories with many entries, which are asked for in several ranges at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use hakobu_core::endpoint::{CompletionWait, SourceOp, SourceOutcome};
use hakobu_core::entry::EntryKind;
use hakobu_core::key_spelling::KeySpelling;
use hakobu_core::listing::Detail;
use hakobu_core::path::EntryPath;
use hakobu_endpoints::object::BucketAccess;
use hakobu_endpoints::store::StoreAccess;
use proptest::prelude::*;

use crate::memory_bucket::MemoryBucket;

/// Returns the names that are listed in `top`, directories with a slash, and the number of requests that took.
fn list(bucket: &MemoryBucket) -> (Vec<String>, u64) {
    let access = BucketAccess::new(Arc::new(bucket.clone()), None);
    let source = access.source(&[EntryPath::root()]).unwrap();
    let mut lane = source.open_source_lane(0).unwrap();
    let before = bucket.requests_so_far().list;
    let directories = vec![EntryPath::new("top").unwrap()];
    let list = SourceOp::List { root: 0, directories, budget: 0, detail: Detail::default() };
    assert!(lane.submit(1, list).is_ok());
    let SourceOutcome::Listed(mut listed) = lane.reap(CompletionWait::Forever).unwrap().result.unwrap()
    else {
        panic!("no listing")
    };
    let listing = listed.swap_remove(0).result.unwrap();
    let name = |index: usize| {
        let (name, kind) = listing.place(index);
        let slash = if kind == EntryKind::Directory { "/" } else { "" };
        format!("{}{slash}", String::from_utf8(name.to_vec()).unwrap())
    };
    assert!(listing.is_sorted());
    ((0..listing.len()).map(name).collect(), bucket.requests_so_far().list - before)
}

fn check(names: &BTreeSet<String>, page: usize) -> u64 {
    let bucket = MemoryBucket::new(page);
    for name in names {
        bucket.add(&format!("top/{name}"), b"");
    }
    bucket.add("tool", b"");
    bucket.add("topmost/x", b"");
    let shown = |name: &String| name.find('/').map_or(name.clone(), |slash| name[..=slash].to_owned());
    let expected: BTreeSet<String> = names.iter().map(shown).collect();
    let (listed, requests) = list(&bucket);
    assert_eq!(listed.len(), expected.len(), "nothing twice, and nothing left out");
    assert!(listed.iter().all(|name| expected.contains(name)));
    requests
}

#[test]
fn numbered_keys_take_hardly_more_requests_than_pages() {
    let names: BTreeSet<String> = (0..20_000).map(|number| format!("k{number:07}")).collect();
    let (page, pages) = (20, 1000);
    let requests = check(&names, page);
    assert!((pages..=pages * 105 / 100).contains(&requests), "{requests} requests for {pages} pages");
}

#[test]
fn directories_between_the_keys_are_listed_once() {
    let file = |number: u32| format!("k{number:05}");
    let below = |number: u32| (0..3).map(move |inner| format!("k{number:05}-d/{inner}"));
    let mut names: BTreeSet<String> = (0..3000).map(file).collect();
    names.extend((1000..3000).step_by(2).flat_map(below));
    // One with many keys, in which ranges may begin.
    names.extend((0..3000).map(|inner| format!("k02500-e/{inner:05}")));
    check(&names, 10);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn all_keys_are_listed_once(
        names in prop_oneof![
            proptest::collection::btree_set("[a-c]{1,9}(/[a-b])?", 0..900),
            proptest::collection::btree_set("x?[0-9]{1,4}é?", 0..900),
            proptest::collection::btree_set("\\PC{1,4}", 0..900),
        ],
        page in 1..9_usize,
    ) {
        // Names that are no names of files or no spelling of one are refused.
        let names: BTreeSet<String> = names
            .into_iter()
            .filter(|name| !name.contains('/') || name.is_ascii() && !name.starts_with('/') && !name.ends_with('/'))
            .filter(|name| name != "." && name != ".." && !name.contains("//"))
            .filter(|name| KeySpelling::S3.read(name).is_ok_and(|read| read == name.as_bytes()))
            .collect();
        prop_assume!(!names.is_empty());
        // No name of a file is that of a directory as well.
        let directories: BTreeSet<String> =
            names.iter().filter_map(|name| Some(name.split_once('/')?.0.to_owned())).collect();
        let names = names.into_iter().filter(|name| !directories.contains(name)).collect();
        check(&names, page);
    }
}
