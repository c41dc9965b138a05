//! Stores, runs between them, and their contents afterwards.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::engine::{Clock, RunSummary, Setup, run};
use hakobu_core::entry::{Attributes, EntryKind, FileTime};
use hakobu_core::event::{Event, Observer};
use hakobu_core::exchange::WorkExchange;
use hakobu_core::grant::Grant;
use hakobu_core::job::{Job, JobItem};
use hakobu_core::path::EntryPath;
use hakobu_core::tag::{TAG_KEY_BYTES, TagKey, Tagger};
use hakobu_endpoints::store::{EntryContent, ObjectPlace, StoreSource, StoreTarget};

/// The events of a run.
#[derive(Default)]
pub struct Events(pub Mutex<Vec<Event>>);

impl Observer for Events {
    fn event(&self, event: Event) {
        if !matches!(event, Event::Progress(_)) {
            self.0.lock().unwrap().push(event);
        }
    }
}

/// A clock that advances whenever it is read.
#[derive(Default)]
pub struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(1000, Relaxed)
    }
}

/// Returns a job that copies the contents of the source into the target.
pub fn contents() -> Job {
    let item = JobItem { root: 0, source: EntryPath::root(), target: EntryPath::root(), ..whole() };
    Job { items: vec![item], lanes: 2, digest: true, hard_links: true, ..Job::default() }
}

fn whole() -> JobItem {
    let (source, target) = (EntryPath::root(), EntryPath::root());
    JobItem { root: 0, source, target, place: hakobu_core::endpoint::DraftKind::File }
}

/// Runs a job between two endpoints.
pub fn run_between(
    source: &dyn SourceEndpoint,
    target: &dyn TargetEndpoint,
    job: &Job,
    cancel: &AtomicBool,
) -> RunSummary {
    run_sharing(source, target, job, (cancel, None))
}

/// Runs a job, or shares of it, between two endpoints.
pub fn run_sharing(
    source: &dyn SourceEndpoint,
    target: &dyn TargetEndpoint,
    job: &Job,
    (cancel, exchange): (&AtomicBool, Option<&dyn WorkExchange>),
) -> RunSummary {
    let events = Events::default();
    let setup = Setup {
        source,
        target,
        job,
        observer: &events,
        clock: &Ticking::default(),
        tagger: Tagger::new(TagKey([3; TAG_KEY_BYTES])).unwrap(),
        changes: &(),
        cancel,
        exchange,
    };
    run(&setup)
}

/// Runs a job between two stores.
pub fn copy(source: &Arc<impl ObjectPlace>, target: &Arc<impl ObjectPlace>, job: &Job) -> RunSummary {
    let source = StoreSource::new(Arc::clone(source) as Arc<dyn ObjectPlace>);
    let target = Arc::clone(target) as Arc<dyn ObjectPlace>;
    let target = StoreTarget::open(target, &EntryPath::root(), &Grant::everything()).unwrap();
    run_between(&source, &target, job, &AtomicBool::new(false))
}

/// A short form of a content for comparing and printing: its kind, its length in bytes, and a hash.
pub type Print = (&'static str, usize, u64);

/// Returns the short form of a content.
pub fn print(content: &EntryContent) -> Print {
    let mut hasher = DefaultHasher::new();
    match content {
        EntryContent::File(bytes) => {
            bytes.hash(&mut hasher);
            ("file", bytes.len(), hasher.finish())
        }
        EntryContent::Symlink(text) => {
            text.hash(&mut hasher);
            ("link", text.len(), hasher.finish())
        }
        EntryContent::Special(kind, device) => (kind.words(), 0, u64::from(*device)),
    }
}

/// The properties of an entry that two stores can have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub kind: EntryKind,
    pub mode: u32,
    pub mtime: FileTime,
    pub content: Option<Print>,
    /// The number of its names.
    pub links: u32,
}

/// Returns everything in a store, by path.
pub fn view(store: &dyn ObjectPlace) -> BTreeMap<Vec<u8>, Seen> {
    let mut seen = BTreeMap::new();
    let mut open = vec![EntryPath::root()];
    while let Some(directory) = open.pop() {
        let mut after = None;
        loop {
            // A page size that the engine never uses.
            let page = store.page(&directory, after.as_ref(), 7).unwrap();
            for index in 0..page.listing.len() {
                let path = directory.join(page.listing.name(index)).unwrap();
                let found = *page.listing.metadata(index);
                let content = match found.kind {
                    EntryKind::Directory => {
                        open.push(path.clone());
                        None
                    }
                    _ => Some(print(&store.get(&path).unwrap().content)),
                };
                let (kind, mode, mtime, links) = (found.kind, found.mode, found.mtime, found.links);
                let mut key = path.as_bytes().to_vec();
                if kind == EntryKind::Directory {
                    key.push(b'/');
                }
                assert!(seen.insert(key, Seen { kind, mode, mtime, content, links }).is_none());
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    seen
}

/// Returns the contents of all files, by path.
pub fn contents_of(store: &dyn ObjectPlace) -> BTreeMap<Vec<u8>, Print> {
    let files = view(store).into_iter().filter_map(|(path, seen)| Some((path, seen.content?)));
    files.collect()
}

pub fn path(text: &str) -> EntryPath {
    EntryPath::new(text).unwrap()
}

/// Puts a file into a store.
pub fn put(store: &impl ObjectPlace, at: &str, bytes: &[u8]) {
    let attributes = Attributes {
        mode: 0o640,
        uid: 0,
        gid: 0,
        mtime: FileTime { seconds: 1_000_000_000, nanoseconds: 7 },
    };
    store.put(&path(at), EntryContent::File(bytes.into()), &attributes, &Grant::everything()).unwrap();
}

/// Returns bytes that vary with the offset and the seed.
pub fn bytes(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64).map(|index| ((index ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 29) as u8).collect()
}
