//! Directories are removed after those in them.

use std::sync::Arc;

use hakobu_core::endpoint::{Change, CompletionWait, TargetOp, TargetOutcome};
use hakobu_core::grant::Grant;
use hakobu_core::path::EntryPath;
use hakobu_endpoints::object::BucketAccess;
use hakobu_endpoints::store::StoreAccess;

use crate::memory_bucket::MemoryBucket;

#[test]
fn a_removal_waits_for_the_one_before() {
    let bucket = MemoryBucket::new(1000);
    ["a/", "a/b/", "a/b/c/"].iter().for_each(|key| bucket.add(key, b""));
    let access = BucketAccess::new(Arc::new(bucket.clone()), None);
    let target = access.target(&EntryPath::root(), &Grant::everything()).unwrap();
    let mut target = target.open_target_lane(0).unwrap();
    for (number, path) in ["a/b/c", "a/b", "a"].into_iter().enumerate() {
        let path = EntryPath::new(path).unwrap();
        let changes = vec![Change::Remove { path, directory: true, kept_names: 0 }];
        assert!(target.submit(number as u64, TargetOp::Apply { changes }).is_ok());
    }
    for _ in 0..3 {
        match target.reap(CompletionWait::Forever).unwrap().result.unwrap() {
            TargetOutcome::PackWritten { failures, .. } => assert!(failures.is_empty(), "{failures:?}"),
            other => panic!("{other:?}"),
        }
    }
    assert!(bucket.content("a/").is_none());
}
