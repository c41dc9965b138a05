//! Runs the conformance suite over stores, as far as they have the needed capabilities.

use std::sync::Arc;

use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::grant::Grant;
use hakobu_endpoints::memory::{MemoryFileSystem, MemoryObjectStore};
use hakobu_endpoints::null::NullStore;
use hakobu_endpoints::store::{ObjectPlace, StoreSource, StoreSubtree, StoreTarget};
use hakobu_testkit::conformance::{Harness, TestPlace, case_names, run_all};

use crate::bench::path;

/// Stores of one kind, with the directory in which the cases run.
struct Stores {
    make: fn() -> Arc<dyn ObjectPlace>,
    root: &'static str,
    keeps: bool,
}

struct InStore {
    store: Arc<dyn ObjectPlace>,
    root: &'static str,
}

impl Harness for Stores {
    fn keeps(&self) -> bool {
        self.keeps
    }

    fn place(&self) -> Box<dyn TestPlace> {
        Box::new(InStore { store: (self.make)(), root: self.root })
    }
}

impl TestPlace for InStore {
    fn target(&self, grant: Grant) -> Box<dyn TargetEndpoint> {
        Box::new(StoreTarget::open(Arc::clone(&self.store), &path(self.root), &grant).unwrap())
    }

    fn source(&self) -> Box<dyn SourceEndpoint> {
        let root = StoreSubtree::of(Arc::clone(&self.store), &path(self.root));
        Box::new(StoreSource::new(root))
    }
}

fn check(stores: &Stores, cases_min: usize) {
    let names = case_names(stores);
    assert!(names.len() >= cases_min, "{} cases: {names:?}", names.len());
    run_all(stores);
}

#[test]
fn a_file_system_in_memory_conforms() {
    check(&Stores { make: || Arc::new(MemoryFileSystem::new()), root: "", keeps: true }, 60);
}

#[test]
fn an_object_store_in_memory_conforms() {
    check(&Stores { make: || Arc::new(MemoryObjectStore::new()), root: "", keeps: true }, 27);
}

#[test]
fn a_directory_of_an_object_store_conforms() {
    check(&Stores { make: || Arc::new(MemoryObjectStore::new()), root: "some/where", keeps: true }, 27);
}

#[test]
fn what_swallows_everything_conforms() {
    check(&Stores { make: || Arc::new(NullStore), root: "", keeps: false }, 6);
}
