//! Runs whole transfers from and to stores: the local file system, an object store in memory, and the null store.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use hakobu_core::error::ErrorKind;
use hakobu_core::event::{Event, Observer};
use hakobu_core::job::{Mode, Removal};
use hakobu_core::live_limits::LiveLimits;
use hakobu_core::location::Location;
use hakobu_core::losses::LossKind;
use hakobu_core::outcome::{RunEnvironment, Transfer};
use hakobu_core::pace::RunLimits;
use hakobu_core::prompts::{Prompts, Secret};
use hakobu_core::request::{CopyRequest, Deletion, DeletionMax};
use hakobu_endpoints::memory::object_store;
use hakobu_transfer::copy::copy;

/// Prompts that are never answered.
struct Nobody;

impl Prompts for Nobody {
    fn sudo_password(&mut self, _: &str, _: u32) -> Option<Secret> {
        None
    }
}

/// The notices of a run.
#[derive(Default)]
struct Notices(Mutex<Vec<String>>);

impl Observer for Notices {
    fn event(&self, event: Event) {
        if let Event::Notice { words } = event {
            self.0.lock().unwrap().push(words);
        }
    }
}

fn run(request: &CopyRequest) -> (Transfer, Vec<String>) {
    let observer = Notices::default();
    let limits = Arc::new(LiveLimits::new(RunLimits::default(), Instant::now));
    let mut surroundings =
        RunEnvironment { prompts: &mut Nobody, observer: &observer, cancel: Arc::default(), limits };
    let transfer = copy(request, &mut surroundings);
    (transfer, observer.0.into_inner().unwrap())
}

fn request(source: &str, target: &str) -> CopyRequest {
    let location = |typed: &str| Location::parse(typed.as_bytes()).unwrap();
    for typed in [source, target] {
        if let Some(store) = location(typed).store().filter(|store| store.scheme == "memory") {
            object_store(&store.name);
        }
    }
    CopyRequest { sources: vec![location(source)], target: location(target), ..CopyRequest::default() }
}

/// Returns the contents of all files below a directory.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut open) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => {
                    let below = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                    found.insert(below, fs::read(path).unwrap());
                }
            }
        }
    }
    found
}

fn tree(root: &Path) {
    fs::create_dir_all(root.join("a/b")).unwrap();
    for (at, length) in [("one", 1), ("a/small", 5000), ("a/b/large", 3_000_000), ("a/b/empty", 0)] {
        fs::write(root.join(at), vec![7; length]).unwrap();
    }
}

#[test]
fn a_tree_goes_to_an_object_store_and_comes_back() {
    let place = tempfile::tempdir().unwrap();
    let (tree_root, back) = (place.path().join("tree"), place.path().join("back"));
    tree(&tree_root);
    let typed = |path: &Path| path.to_str().unwrap().to_owned();
    let (made, notices) = run(&request(&typed(&tree_root), "memory://goes/in/to"));
    assert!(made.summary.fatal.is_none() && made.summary.failures.is_empty(), "{:?}", made.summary);
    assert!(notices.iter().any(|words| words.contains("times of the last change")), "{notices:?}");
    assert_eq!(made.target.as_deref(), Some(&b"memory://goes/in/to/tree"[..]));
    let (again, _) = run(&request(&typed(&tree_root), "memory://goes/in/to"));
    assert_eq!((again.summary.counters.entries_created, again.summary.counters.entries_updated), (0, 0));
    let (returned, _) = run(&request("memory://goes/in/to/tree/", &typed(&back)));
    assert!(returned.summary.fatal.is_none() && returned.summary.failures.is_empty());
    assert_eq!(files(&tree_root), files(&back));
    let verify =
        CopyRequest { mode: Mode::Compare, ..request(&typed(&tree_root), "memory://goes/in/to/tree") };
    let verify = CopyRequest { sources: request(&(typed(&tree_root) + "/"), "null://").sources, ..verify };
    let (verified, _) = run(&verify);
    assert_eq!((verified.summary.fatal, verified.summary.counters.entries_different), (None, 0));
}

#[test]
fn a_store_is_made_equal_and_never_copied_onto_itself() {
    let place = tempfile::tempdir().unwrap();
    tree(place.path());
    let store = object_store(b"equal");
    store.upload(b"p/extra", b"x");
    store.upload(b"beside", b"y");
    let source = format!("{}/", place.path().to_str().unwrap());
    let sync = CopyRequest {
        removal: Removal::Remove,
        deletion: Some(Deletion {
            agreed: true,
            max: Some(DeletionMax::Percent(100)),
            ..Deletion::default()
        }),
        ..request(&source, "memory://equal/p")
    };
    let (made, _) = run(&sync);
    assert!(made.summary.fatal.is_none() && made.summary.failures.is_empty(), "{:?}", made.summary);
    assert_eq!(made.summary.counters.entries_deleted, 1);
    for (source, target) in
        [("memory://equal/p", "memory://equal/p"), ("memory://equal/", "memory://equal/p/q")]
    {
        let refused = run(&request(source, target)).0.summary.fatal.unwrap();
        assert_eq!(refused.kind, ErrorKind::Refused, "{source} {target}: {refused}");
    }
    let (between, _) = run(&request("memory://equal/p/", "memory://another/x"));
    assert!(between.summary.fatal.is_none() && between.summary.failures.is_empty());
}

#[test]
fn what_a_store_cannot_do_is_said() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), "x").unwrap();
    symlink("file", place.path().join("link")).unwrap();
    let source = format!("{}/", place.path().to_str().unwrap());
    let (made, _) = run(&request(&source, "memory://cannot"));
    let failed: Vec<_> = made.summary.failures.iter().map(|failure| failure.error.kind).collect();
    assert_eq!(failed, [ErrorKind::Unsupported]);
    let strict = CopyRequest { require: [LossKind::Times].into(), ..request(&source, "memory://cannot") };
    assert_eq!(run(&strict).0.summary.fatal.unwrap().kind, ErrorKind::Requirement);
    let missing = run(&request("memory://cannot/nothing", &source)).0.summary.fatal.unwrap();
    assert_eq!((missing.kind, &missing.at[..]), (ErrorKind::NotFound, &b"memory://cannot/nothing"[..]));
}

#[test]
fn everything_is_read_and_nothing_kept() {
    let place = tempfile::tempdir().unwrap();
    tree(place.path());
    let (made, _) = run(&request(place.path().to_str().unwrap(), "null://"));
    assert!(made.summary.fatal.is_none() && made.summary.failures.is_empty(), "{:?}", made.summary);
    assert_eq!(made.summary.counters.source_read_bytes, 3_005_001);
    let named = run(&request(place.path().to_str().unwrap(), "null://name")).0.summary.fatal.unwrap();
    assert_eq!(named.kind, ErrorKind::Usage);
    let (nothing, _) = run(&request("null://", &format!("{}/new", place.path().to_str().unwrap())));
    assert!(nothing.summary.fatal.is_none());
}
