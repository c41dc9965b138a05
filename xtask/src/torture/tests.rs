//! Tests of the harness itself: it must notice what is wrong, and must not share code with what it tests.

use std::path::Path;

use super::abilities::Abilities;
use super::check::{self, Proof, Violation};
use super::environment::faults::{Fault, Process, Trigger};
use super::environment::hosts::TestHost;
use super::environment::object_store::TortureStoreKind;
use super::file_systems::{self, HistorySetting};
use super::generate::{self, Limits};
use super::history::{self, History, HistoryEvent};
use super::model::{
    Attribute, AttributeValue, Content, FileExtent, Fill, ModelTree, Name, NodeKind, Time, TreeNode,
};
use super::play::HistoryFailure;
use super::promise;
use super::realize::realize;
use super::rng::Rng;
use super::route::Route;
use super::shrink::shrink;
use super::step::{Rule, RulePattern, Shape, Step, StepVerb};
use super::walk::{Snapshot, walk};

struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("torture-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn file(path: &[u8], bytes: u64) -> TreeNode {
    let extents = vec![FileExtent { at: 0, length: bytes, fill: Fill::Count(1) }];
    node(path, NodeKind::File(Content { size: bytes, extents }))
}

fn node(path: &[u8], kind: NodeKind) -> TreeNode {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mtime = Time { s: 1_000_000_000, ns: 7 };
    TreeNode { path: Name(path.to_vec()), kind, mode: 0o755, uid, gid, mtime, attributes: Vec::new() }
}

fn snapshot(folder: &Folder, name: &str, nodes: Vec<TreeNode>) -> Snapshot {
    let mut all = vec![node(b"", NodeKind::Directory)];
    all.extend(nodes);
    let root = folder.0.join(name);
    realize(&ModelTree { nodes: all }, &root).unwrap();
    walk(&root).unwrap()
}

#[test]
fn no_crate_of_hakobu_is_used() {
    let mut left = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/torture")];
    let mut files = 0;
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                files += 1;
                let text = std::fs::read_to_string(&path).unwrap();
                let word = concat!("hakobu", "_");
                let used = ["core", "endpoints", "agent", "proto", "sys", "measure", "testkit"]
                    .iter()
                    .any(|name| text.contains(&format!("{word}{name}")));
                assert!(!used, "{} uses a crate of hakobu", path.display());
            }
        }
    }
    assert!(files > 20, "the files are found");
}

#[test]
fn a_seed_is_one_history_and_it_can_be_written_down() {
    let setting = || file_systems::random(&mut Rng::new(7), false);
    let text = |history: &History| serde_json::to_string(history).unwrap();
    let history = history::of_seed(7, setting());
    assert_eq!(text(&history), text(&history::of_seed(7, setting())));
    let read: History = serde_json::from_str(&text(&history)).unwrap();
    assert_eq!(text(&history), text(&read));
    let name = Name(vec![b'a', 0xff, b'%', b' ', b'4', b'1']);
    assert_eq!(Name::from(String::from(name.clone())), name);
}

#[test]
fn the_oracle_sees_a_tree_as_it_was_generated() {
    let folder = Folder::new("made");
    let limits = Limits {
        entries: 40,
        data_bytes: 1 << 20,
        size_bytes: 1 << 20,
        special: false,
        name_bytes: 255,
        value_bytes: 65_536,
    };
    for seed in 0..5 {
        let tree = generate::tree(&mut Rng::new(seed), limits);
        let root = folder.0.join(format!("{seed}"));
        realize(&tree, &root).unwrap();
        let found = walk(&root).unwrap();
        assert!(found.len() * 10 >= tree.nodes.len() * 8, "most of it can be made anywhere");
        for node in &tree.nodes {
            if let (NodeKind::File(content), Some(entry)) = (&node.kind, found.get(&node.path)) {
                assert_eq!(entry.size(), content.size, "{}", node.path);
            }
        }
    }
}

#[test]
fn the_oracle_sees_a_byte_a_hole_and_a_time() {
    let folder = Folder::new("sees");
    let step = Step::plain(StepVerb::Copy, Shape::Contents);
    let source = snapshot(&folder, "source", vec![file(b"a", 10_000), file(b"b", 5)]);
    let promise = promise::of(&step, &source, &Snapshot::new(), &Abilities::default(), Some(0));
    assert_eq!(promise.codes, [0].into());
    assert!(
        check::target(&promise, &snapshot(&folder, "right", vec![file(b"a", 10_000), file(b"b", 5)]))
            .is_empty()
    );
    let kinds = |found: &Snapshot| -> Vec<&'static str> {
        check::target(&promise, found).iter().map(|violation| violation.kind).collect()
    };
    let mut head = file(b"a", 10_000);
    head.kind = NodeKind::File(Content {
        size: 10_000,
        extents: vec![FileExtent { at: 0, length: 9_999, fill: Fill::Count(1) }],
    });
    assert_eq!(kinds(&snapshot(&folder, "byte", vec![head, file(b"b", 5)])), ["content"]);
    let mut late = file(b"b", 5);
    late.mtime.ns += 1;
    assert_eq!(kinds(&snapshot(&folder, "time", vec![file(b"a", 10_000), late])), ["time"]);
    assert_eq!(kinds(&snapshot(&folder, "less", vec![file(b"a", 10_000)])), ["missing"]);
    let more = vec![file(b"a", 10_000), file(b"b", 5), file(b".hakobu.aaaaaaaaaaaaaaaaaaaaaaaaaa", 1)];
    assert_eq!(kinds(&snapshot(&folder, "more", more)), ["leftover"]);
}

#[test]
fn a_time_out_of_range_is_equal_to_the_nearest_one() {
    let folder = Folder::new("range");
    let dated = |bytes, s, ns| TreeNode { mtime: Time { s, ns }, ..file(b"a", bytes) };
    let mut other = dated(5, 0, 7);
    let fill = Fill::Count(2);
    other.kind = NodeKind::File(Content { size: 5, extents: vec![FileExtent { at: 0, length: 5, fill }] });
    let source = snapshot(&folder, "source", vec![dated(5, -3, 0)]);
    let target = snapshot(&folder, "target", vec![other]);
    let step = Step::plain(StepVerb::Copy, Shape::Contents);
    let is_left_alone = |able: &Abilities| {
        let promise = promise::of(&step, &source, &target, able, Some(0));
        !promise.entries[&Name(b"a".to_vec())].or.is_empty()
    };
    let able =
        Abilities { seen_step_ns: 1_000_000_000, seen_early_step_ns: 1_000_000_000, ..Abilities::default() };
    assert!(!is_left_alone(&able));
    assert!(is_left_alone(&Route::PushSftp.limit(able)));
}

#[test]
fn a_failure_leaves_directories_of_a_store_as_they_are_and_nowhere_else() {
    let folder = Folder::new("open");
    let directory = |path: &[u8], s| TreeNode { mtime: Time { s, ns: 0 }, ..node(path, NodeKind::Directory) };
    let source = snapshot(&folder, "source", vec![directory(b"a", 5), directory(b"b", 2)]);
    let in_the_way = snapshot(&folder, "other", vec![file(b"a", 5), directory(b"b", 1)]);
    let alike = snapshot(&folder, "alike", vec![directory(b"a", 5), directory(b"b", 1)]);
    let step = Step::plain(StepVerb::Copy, Shape::Contents);
    let may_stay = |target: &Snapshot, keys, code| {
        let able = Abilities { keys: [None, keys], ..Abilities::default() };
        promise::of(&step, &source, target, &able, Some(code)).entries[&Name(b"b".to_vec())].free.mtime
    };
    let store = Some(TortureStoreKind::Versitygw);
    assert!(may_stay(&in_the_way, store, 3));
    assert!(!may_stay(&in_the_way, None, 3) && !may_stay(&alike, store, 0) && !may_stay(&alike, store, 3));
}

#[test]
fn a_directory_in_the_way_of_a_name_of_a_file_that_may_fail_may_become_a_file() {
    let folder = Folder::new("late");
    // The server may not accept the first name, so the directory in the way may be deleted or not.
    let long = [b'l'; 255];
    let source =
        snapshot(&folder, "source", vec![file(&long, 1), node(b"b", NodeKind::SameAs(Name(long.to_vec())))]);
    let target = snapshot(&folder, "target", vec![node(b"b", NodeKind::Directory)]);
    let step = Step { delete: true, ..Step::plain(StepVerb::Sync, Shape::Contents) };
    let able = Abilities { keys: [None, Some(TortureStoreKind::Versitygw)], ..Abilities::default() };
    let promise = promise::of(&step, &source, &target, &able, Some(3));
    assert!(promise.entries[&Name(b"b".to_vec())].free.all);
}

#[test]
fn a_lost_access_list_leaves_a_mode_that_grants_no_more() {
    let entry = |tag: u8, bits: u8, id: u32| [&[tag, 0, bits, 0], &id.to_le_bytes()[..]].concat();
    let list = [(1, 7, u32::MAX), (2, 4, 1000), (4, 6, u32::MAX), (16, 6, u32::MAX), (32, 5, u32::MAX)]
        .iter()
        .fold(2_u32.to_le_bytes().to_vec(), |list, (tag, bits, id)| [list, entry(*tag, *bits, *id)].concat());
    let folder = Folder::new("list");
    let name = Name(b"system.posix_acl_access".to_vec());
    let list = Attribute { name, value: AttributeValue::Text(Name(list)) };
    let listed = TreeNode { mode: 0o765, attributes: vec![list], ..file(b"a", 5) };
    let source = snapshot(&folder, "source", vec![listed]);
    let step = Step::plain(StepVerb::Copy, Shape::Contents);
    let mode = |acls| {
        let able = Abilities { acls, ..Abilities::default() };
        promise::of(&step, &source, &Snapshot::new(), &able, Some(0)).entries[&Name(b"a".to_vec())].entry.mode
    };
    assert_eq!((mode(true), mode(false)), (0o765, 0o744));
}

#[test]
fn holes_and_written_zeros_are_one_content_and_sizes_are_not() {
    let folder = Folder::new("holes");
    let zeros = |size, extents| node(b"f", NodeKind::File(Content { size, extents }));
    let written = vec![FileExtent { at: 0, length: 8192, fill: Fill::Zeros }];
    let one = snapshot(&folder, "one", vec![zeros(8192, Vec::new())]);
    let two = snapshot(&folder, "two", vec![zeros(8192, written)]);
    let three = snapshot(&folder, "three", vec![zeros(8193, Vec::new())]);
    let kind = |snapshot: &Snapshot| snapshot[&Name(b"f".to_vec())].kind.clone();
    assert_eq!(kind(&one), kind(&two));
    assert_ne!(kind(&one), kind(&three));
    // This holds for files that are not read whole too, and a changed byte in the middle is noticed.
    let size = (64 << 20) + 5;
    let middle = vec![FileExtent { at: 33_333_333, length: 1, fill: Fill::Count(1) }];
    let large = snapshot(&folder, "large", vec![zeros(size, Vec::new())]);
    let other = snapshot(&folder, "other", vec![zeros(size, middle)]);
    assert_ne!(kind(&large), kind(&other));
}

#[test]
fn sync_removes_what_rules_do_not_protect() {
    let folder = Folder::new("sync");
    let source = snapshot(&folder, "source", vec![file(b"a", 5)]);
    let target = snapshot(&folder, "target", vec![file(b"a", 5), file(b"b", 5), file(b"c.tmp", 5)]);
    let mut step = Step::plain(StepVerb::Sync, Shape::Contents);
    let has = |step: &Step, code, name: &[u8]| {
        let promise = promise::of(step, &source, &target, &Abilities::default(), Some(code));
        promise.codes.contains(&code) && promise.entries.contains_key(&Name(name.to_vec()))
    };
    assert!(has(&step, 6, b"b"), "without leave nothing goes");
    (step.delete, step.all_may_go) = (true, true);
    assert!(!has(&step, 0, b"b") && has(&step, 0, b"a"));
    step.rules.push(Rule { include: false, pattern: RulePattern::Suffix(".tmp".to_owned()) });
    assert!(has(&step, 0, b"c.tmp") && !has(&step, 0, b"b"));
}

#[test]
fn half_of_the_target_may_go_and_more_only_with_leave() {
    let folder = Folder::new("half");
    let source = snapshot(&folder, "source", vec![file(b"a", 5), file(b"new", 5), file(b"newer", 5)]);
    let kept = |count: u8| (0..count).map(|number| file(&[b'k', b'0' + number], 5));
    let few = snapshot(&folder, "few", [file(b"a", 5)].into_iter().chain(kept(6)).collect());
    let source_of_many = snapshot(&folder, "many-source", kept(6).collect());
    let many = snapshot(&folder, "many", [file(b"a", 5)].into_iter().chain(kept(6)).collect());
    let mut step = Step { delete: true, ..Step::plain(StepVerb::Sync, Shape::Contents) };
    let allows = |step: &Step, source, target, code| {
        promise::of(step, source, target, &Abilities::default(), Some(code)).codes.contains(&code)
    };
    let host = TestHost::A;
    let (ms, when) = (1, Trigger::AfterMs(1));
    let killed = Fault::Kill { process: Process::Agent(host), when };
    for (fault, may_not_know) in
        [(None, false), (Some(killed), false), (Some(Fault::LinkDown { host, ms, when }), true)]
    {
        step.fault = fault;
        assert!(allows(&step, &source, &few, 6) && !allows(&step, &source, &few, 0), "{:?}", step.fault);
        assert!(allows(&step, &source_of_many, &many, 0), "{:?}", step.fault);
        assert_eq!(allows(&step, &source_of_many, &many, 6), may_not_know, "{:?}", step.fault);
    }
}

#[test]
fn a_failure_is_cut_down_to_what_it_needs() {
    let setting =
        HistorySetting { source: "plain".to_owned(), target: "plain".to_owned(), route: Route::Local };
    let mut history = history::of_seed(3, setting);
    let culprit = Name(b"culprit".to_vec());
    history.source.nodes.push(file(b"culprit", 1_000));
    let step = Step { by_digest: true, ..Step::plain(StepVerb::Sync, Shape::Contents) };
    history.events.push(HistoryEvent::Run(step));
    // Fails if the file exists and a step compares by digest.
    let play = |history: &History| {
        let there = history.source.nodes.iter().any(|node| node.path == culprit);
        let event = history
            .events
            .iter()
            .position(|event| matches!(event, HistoryEvent::Run(step) if step.by_digest))?;
        let violations = vec![Violation::at("content", &culprit, "wrong", Proof::LikeSource)];
        there.then(|| HistoryFailure { event, violations, said: String::new() })
    };
    let failure = play(&history).unwrap();
    let (small, _) = shrink(history, failure, play);
    assert_eq!((small.events.len(), small.source.nodes.len(), small.target.is_none()), (1, 2, true));
}
