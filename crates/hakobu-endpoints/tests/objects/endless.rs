//! A store that lists without an end is refused.

use std::sync::Arc;

use hakobu_core::endpoint::{Change, CompletionWait, SourceOp, SourceOutcome, TargetOp, TargetOutcome};
use hakobu_core::error::ErrorKind;
use hakobu_core::grant::Grant;
use hakobu_core::listing::Detail;
use hakobu_core::path::EntryPath;
use hakobu_endpoints::object::BucketAccess;
use hakobu_endpoints::store::StoreAccess;

use crate::memory_bucket::MemoryBucket;

#[test]
fn neither_listings_nor_removals_wait_forever() {
    for bucket in [MemoryBucket::new(1000), MemoryBucket::without_order(1000)] {
        bucket.list_endlessly();
        check(bucket);
    }
}

fn check(bucket: MemoryBucket) {
    let access = BucketAccess::new(Arc::new(bucket), None);
    let root = [EntryPath::root()];
    let source = access.source(&root).unwrap();
    let mut source = source.open_source_lane(0).unwrap();
    let list = SourceOp::List { root: 0, directories: root.to_vec(), budget: 100, detail: Detail::default() };
    assert!(source.submit(1, list).is_ok());
    let SourceOutcome::Listed(mut listed) = source.reap(CompletionWait::Forever).unwrap().result.unwrap()
    else {
        panic!("no listing")
    };
    assert_eq!(listed.swap_remove(0).result.unwrap_err().kind, ErrorKind::Protocol);

    let target = access.target(&root[0], &Grant::everything()).unwrap();
    let mut target = target.open_target_lane(0).unwrap();
    let path = EntryPath::new("a").unwrap();
    let changes = vec![Change::Remove { path, directory: true, kept_names: 0 }];
    assert!(target.submit(1, TargetOp::Apply { changes }).is_ok());
    match target.reap(CompletionWait::Forever).unwrap().result {
        Ok(TargetOutcome::PackWritten { failures, .. }) => {
            assert_eq!(failures[0].1.kind, ErrorKind::Protocol);
        }
        other => assert_eq!(other.unwrap_err().kind, ErrorKind::Protocol),
    }
}
