//! Copies from one directory of a store to another, which the store makes by itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use hakobu_core::endpoint::DraftKind;
use hakobu_core::engine::{Clock, RunSummary, Setup, run};
use hakobu_core::event::{Event, Observer};
use hakobu_core::grant::Grant;
use hakobu_core::job::{Job, JobItem};
use hakobu_core::path::EntryPath;
use hakobu_core::tag::{TAG_KEY_BYTES, TagKey, Tagger};
use hakobu_endpoints::object::BucketAccess;
use hakobu_endpoints::store::StoreAccess;

use crate::memory_bucket::MemoryBucket;

#[derive(Default)]
struct Notices(Mutex<Vec<String>>);

impl Observer for Notices {
    fn event(&self, event: Event) {
        if let Event::Notice { words } = event {
            self.0.lock().unwrap().push(words);
        }
    }
}

#[derive(Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(1000, Relaxed)
    }
}

/// Copies everything below `from/` to `to/`. Returns the notices as well.
fn copy(bucket: &MemoryBucket, clone: bool) -> (RunSummary, Vec<String>) {
    copy_between(bucket, ("from", "to"), clone)
}

fn copy_between(bucket: &MemoryBucket, (from, to): (&str, &str), clone: bool) -> (RunSummary, Vec<String>) {
    let access = BucketAccess::new(Arc::new(bucket.clone()), None);
    let source = access.source(&[EntryPath::new(from).unwrap()]).unwrap();
    let target = access.target(&EntryPath::new(to).unwrap(), &Grant::everything()).unwrap();
    let (root, place) = (EntryPath::root(), DraftKind::File);
    let items = vec![JobItem { root: 0, source: root.clone(), target: root, place }];
    let job = Job { items, lanes: 2, clone, ..Job::default() };
    let notices = Notices::default();
    let summary = run(&Setup {
        source: &*source,
        target: &*target,
        job: &job,
        observer: &notices,
        clock: &Ticking::default(),
        tagger: Tagger::new(TagKey([3; TAG_KEY_BYTES])).unwrap(),
        changes: &(),
        cancel: &AtomicBool::new(false),
        exchange: None,
    });
    assert!(summary.fatal.is_none() && summary.failures.is_empty(), "{summary:?}");
    (summary, notices.0.into_inner().unwrap())
}

const SMALL: usize = 30;

/// Returns a bucket with objects of every size class, one of them with metadata of another tool.
fn bucket() -> MemoryBucket {
    let bucket = MemoryBucket::new(1000).copying(5 << 20);
    for number in 0..SMALL {
        bucket.add(&format!("from/d{}/f{number}", number % 3), &vec![number as u8; number * 100]);
    }
    bucket.add("from/large", &vec![7; 3 << 20]);
    bucket.add("from/larger", &vec![8; 9 << 20]);
    bucket
}

#[test]
fn the_store_copies_objects_as_they_are() {
    let bucket = bucket();
    let (summary, notices) = copy(&bucket, true);
    assert!(notices.is_empty(), "{notices:?}");
    let requests = bucket.requests_so_far();
    assert_eq!((requests.get, requests.copy), (0, SMALL as u64 + 2));
    let counters = &summary.counters;
    assert_eq!((counters.source_read_bytes, counters.cloned_bytes), (0, counters.target_written_bytes));
    let (from, mut to) = (bucket.below("from/"), bucket.below("to/"));
    // Markers of directories are written, because their own metadata follows the entries in them.
    to.retain(|key, _| !key.ends_with('/') && !key.is_empty());
    assert_eq!(from, to);
    assert_eq!(bucket.unfinished(), 0);
}

#[test]
fn a_store_that_refuses_gets_the_content() {
    let bucket = bucket();
    bucket.refuse_copies();
    let (summary, notices) = copy(&bucket, true);
    assert!(matches!(&notices[..], [one] if one.contains("the account must not")), "{notices:?}");
    assert_eq!(summary.counters.cloned_bytes, 0);
    let content = |prefix: &str| {
        let mut below = bucket.below(prefix);
        below.retain(|key, _| !key.ends_with('/') && !key.is_empty());
        below.into_iter().map(|(key, (content, _))| (key, content)).collect::<Vec<_>>()
    };
    assert_eq!(content("from/"), content("to/"));
    // One for each pack that was on its way, and for each large object.
    assert!(bucket.requests_so_far().copy <= 5, "{:?}", bucket.requests_so_far());
}

#[test]
fn the_right_to_list_a_part_of_a_bucket_suffices() {
    let bucket = MemoryBucket::new(1000);
    (0..100).for_each(|number| bucket.add(&format!("ours/from/f{number}"), b"content"));
    bucket.list_only("ours/");
    let (summary, notices) = copy_between(&bucket, ("ours/from", "ours/to"), true);
    assert!(notices.is_empty(), "{notices:?}");
    assert_eq!((summary.counters.source_read_bytes, bucket.requests_so_far().copy), (0, 100));
}

#[test]
fn a_job_that_shares_nothing_reads_everything() {
    let bucket = bucket();
    let (summary, _) = copy(&bucket, false);
    assert_eq!((bucket.requests_so_far().copy, summary.counters.cloned_bytes), (0, 0));
}
