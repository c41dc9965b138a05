//! Small objects that have grown since they were listed.

use std::sync::Arc;

use hakobu_core::endpoint::{CompletionWait, FetchedPack, Pick, Picks, SourceLane, SourceOp, SourceOutcome};
use hakobu_core::extended::ExtendedAsk;
use hakobu_core::listing::{Detail, Listing};
use hakobu_core::pack::{PACK_BYTES_MAX, PACKED_FILE_BYTES_MAX};
use hakobu_core::path::EntryPath;
use hakobu_endpoints::object::BucketAccess;
use hakobu_endpoints::store::StoreAccess;

use crate::memory_bucket::MemoryBucket;

const OBJECTS: u32 = 40;

fn ask(lane: &mut dyn SourceLane, operation: SourceOp) -> SourceOutcome {
    assert!(lane.submit(1, operation).is_ok());
    lane.reap(CompletionWait::Forever).unwrap().result.unwrap()
}

fn listing(lane: &mut dyn SourceLane) -> Arc<Listing> {
    let directories = vec![EntryPath::root()];
    let list = SourceOp::List { root: 0, directories, budget: 0, detail: Detail::default() };
    let SourceOutcome::Listed(mut listed) = ask(lane, list) else { panic!("no listing") };
    Arc::new(listed.swap_remove(0).result.unwrap())
}

fn read(lane: &mut dyn SourceLane, picks: &Arc<Picks>, from: u32) -> FetchedPack {
    let (directory, target, picks) = (EntryPath::root(), EntryPath::root(), Arc::clone(picks));
    let (ask_for, buffer) = (ExtendedAsk::default(), Vec::new());
    let fetch = SourceOp::ReadPack { root: 0, directory, target, picks, from, ask: ask_for, buffer };
    let SourceOutcome::Pack(fetched) = ask(lane, fetch) else { panic!("no pack") };
    fetched
}

#[test]
fn they_go_into_as_many_packs_as_they_need() {
    let bucket = MemoryBucket::new(1000);
    let names: Vec<String> = (0..OBJECTS).map(|number| format!("{number:02}")).collect();
    names.iter().for_each(|name| bucket.add(name, b"small"));
    let root = [EntryPath::root()];
    let source = BucketAccess::new(Arc::new(bucket.clone()), None).source(&root).unwrap();
    let mut lane = source.open_source_lane(0).unwrap();
    let listing = listing(&mut *lane);
    let entries = (0..OBJECTS).map(|index| Pick { index, replaces: false }).collect();
    let picks = Arc::new(Picks { listing, entries, target_name: None });
    assert_eq!(read(&mut *lane, &picks, 0).until, OBJECTS);

    names.iter().for_each(|name| bucket.add(name, &[7; PACKED_FILE_BYTES_MAX as usize]));
    let (mut from, mut packed, mut content_bytes) = (0, Vec::new(), 0);
    while from < OBJECTS {
        let fetched = read(&mut *lane, &picks, from);
        assert!(fetched.failures.is_empty() && fetched.until > from, "{:?}", fetched.failures);
        assert!(fetched.pack.len() <= PACK_BYTES_MAX);
        packed.extend(fetched.packed);
        content_bytes += fetched.content_bytes;
        from = fetched.until;
    }
    assert_eq!(packed, Vec::from_iter(0..OBJECTS));
    assert_eq!(content_bytes, u64::from(OBJECTS) * PACKED_FILE_BYTES_MAX);
}
