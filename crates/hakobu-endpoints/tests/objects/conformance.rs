//! Runs the conformance suite over buckets.

use std::sync::Arc;

use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::grant::Grant;
use hakobu_core::path::EntryPath;
use hakobu_endpoints::object::BucketAccess;
use hakobu_endpoints::object::api::Bucket;
use hakobu_endpoints::store::StoreAccess;
use hakobu_testkit::conformance::{Harness, TestPlace, case_names, run_all};

use crate::memory_bucket::MemoryBucket;

/// Buckets of one kind, with the directory in which the cases run.
struct Buckets {
    make: fn() -> Arc<dyn Bucket>,
    root: &'static str,
}

pub struct InBucket {
    pub access: BucketAccess,
    pub root: EntryPath,
}

impl Harness for Buckets {
    fn keeps(&self) -> bool {
        true
    }

    fn place(&self) -> Box<dyn TestPlace> {
        let root = EntryPath::new(self.root).unwrap();
        Box::new(InBucket { access: BucketAccess::new((self.make)(), None), root })
    }
}

impl TestPlace for InBucket {
    fn target(&self, grant: Grant) -> Box<dyn TargetEndpoint> {
        self.access.target(&self.root, &grant).unwrap()
    }

    fn source(&self) -> Box<dyn SourceEndpoint> {
        self.access.source(std::slice::from_ref(&self.root)).unwrap()
    }
}

fn check(buckets: &Buckets, cases_min: usize) {
    let names = case_names(buckets);
    assert!(names.len() >= cases_min, "{} cases: {names:?}", names.len());
    run_all(buckets);
}

#[test]
fn a_bucket_conforms() {
    check(&Buckets { make: || Arc::new(MemoryBucket::new(1000)), root: "" }, 56);
}

#[test]
fn a_directory_of_a_bucket_with_small_pages_conforms() {
    check(&Buckets { make: || Arc::new(MemoryBucket::new(3)), root: "some/where" }, 56);
}

#[test]
fn a_bucket_without_order_conforms() {
    for (list_page, root) in [(5000, ""), (3, "some/where")] {
        let make = match list_page {
            3 => || -> Arc<dyn Bucket> { Arc::new(MemoryBucket::without_order(3)) },
            _ => || -> Arc<dyn Bucket> { Arc::new(MemoryBucket::without_order(5000)) },
        };
        check(&Buckets { make, root }, 52);
    }
}
