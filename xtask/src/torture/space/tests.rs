use super::*;
use crate::torture::abilities::Abilities;
use crate::torture::model::{Content, FileExtent, Fill, ModelTree, NodeKind, TreeNode};
use crate::torture::promise;
use crate::torture::realize::realize;
use crate::torture::step::Shape;
use crate::torture::walk::walk;

const KIB: u64 = 1024;
const SLACK: u64 = 128 * KIB;

fn file(name: &str, size: u64, data: Option<(u64, u64)>) -> TreeNode {
    let extents = data.map(|(at, length)| FileExtent { at, length, fill: Fill::Count(1) });
    let content = Content { size, extents: extents.into_iter().collect() };
    node(name, NodeKind::File(content))
}

fn node(name: &str, kind: NodeKind) -> TreeNode {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mtime = Time { s: 1_000_000_000, ns: 0 };
    let path = Name(name.as_bytes().to_vec());
    TreeNode { path, kind, mode: 0o755, uid, gid, mtime, attributes: Vec::new() }
}

/// Returns the demand of a step that copies one tree to another.
fn demand(name: &str, step: &Step, source: Vec<TreeNode>, target: Vec<TreeNode>) -> SpaceDemand {
    let folder = std::env::temp_dir().join(format!("torture-space-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let make = |side: &str, nodes: Vec<TreeNode>| {
        let mut all = vec![node("", NodeKind::Directory)];
        all.extend(nodes);
        realize(&ModelTree { nodes: all }, &folder.join(side)).unwrap();
        walk(&folder.join(side)).unwrap()
    };
    let (source, target) = (make("source", source), make("target", target));
    let promise = promise::of(step, &source, &target, &Abilities::default(), Some(0));
    let data = data(&folder.join("source"), &source).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let question = SpaceQuestion {
        step,
        promise: &promise,
        source: &source,
        target: &target,
        data: &data,
        names_are_inodes: true,
    };
    question.demand()
}

fn copy() -> Step {
    Step::plain(StepVerb::Copy, Shape::Contents)
}

#[test]
fn holes_take_no_space_and_data_does() {
    let size = 200 * KIB;
    let sparse = |count: u64| (0..count).map(|number| file(&format!("f{number}"), size, None)).collect();
    let holes = demand("holes", &copy(), sparse(100), Vec::new());
    let free = SpaceAmount { bytes: 1 << 20, inodes: 1_000 };
    assert_eq!(holes.outlook(free, SLACK), SpaceOutlook::Enough, "{holes:?}");
    assert_eq!(holes.at_least, SpaceAmount { bytes: 0, inodes: 100 });
    // Few inodes are too few for many names.
    assert_eq!(holes.outlook(SpaceAmount { inodes: 99, ..free }, SLACK), SpaceOutlook::TooLittle);
    assert_eq!(holes.outlook(SpaceAmount { inodes: 105, ..free }, SLACK), SpaceOutlook::Open);
    let with_data = vec![
        file("beginning", size, Some((0, 5_000))),
        file("middle", size, Some((100 * KIB, 4 * KIB))),
        file("end", size, Some((size - 1, 1))),
        file("dense", size, Some((0, size))),
    ];
    let data = demand("data", &copy(), with_data, Vec::new());
    let (dense, few) = (200 * KIB, 9 * KIB);
    assert!((dense + few..dense + few + 4 * KIB).contains(&data.at_least.bytes), "{data:?}");
    assert!((dense + 16 * KIB..dense + 32 * KIB).contains(&data.at_once.bytes), "{data:?}");
    let outlook = |bytes| data.outlook(SpaceAmount { bytes, inodes: 1_000 }, SLACK);
    assert_eq!(outlook(data.at_once.bytes + SLACK), SpaceOutlook::Enough);
    assert_eq!(outlook(data.at_least.bytes), SpaceOutlook::Open);
    assert_eq!(outlook(data.at_least.bytes - 1), SpaceOutlook::TooLittle);
}

#[test]
fn an_update_needs_more_at_once_than_afterwards() {
    let dense = |name: &str, size: u64| file(name, size, Some((0, size)));
    let mut old = dense("file", 600 * KIB);
    old.mtime.s -= 5;
    let source = || vec![dense("file", 500 * KIB)];
    let update = demand("update", &copy(), source(), vec![old.clone()]);
    let free = SpaceAmount { bytes: 200 * KIB, inodes: 100 };
    assert_eq!(update.outlook(free, SLACK), SpaceOutlook::EnoughAfterwards, "{update:?}");
    // Files that are already there need nothing.
    let equal = demand("equal", &copy(), source(), source());
    assert_eq!(equal.outlook(free, SLACK), SpaceOutlook::Enough, "{equal:?}");
    // Deletion may make room, but only after everything has arrived.
    let mut sync = Step::plain(StepVerb::Sync, Shape::Contents);
    (sync.delete, sync.all_may_go) = (true, true);
    old.path = Name(b"extra".to_vec());
    let deleting = demand("delete", &sync, source(), vec![old.clone()]);
    assert_eq!(deleting.outlook(free, SLACK), SpaceOutlook::Open, "{deleting:?}");
    let adding = demand("add", &copy(), source(), vec![old]);
    assert_eq!(adding.outlook(free, SLACK), SpaceOutlook::TooLittle, "{adding:?}");
}

#[test]
fn names_of_one_file_share_its_data() {
    let size = 300 * KIB;
    let names = || vec![file("a", size, Some((0, size))), node("b", NodeKind::SameAs(Name(b"a".to_vec())))];
    let linked = demand("linked", &copy(), names(), Vec::new());
    let mut step = copy();
    step.without.push("hardlinks".to_owned());
    let apart = demand("apart", &step, names(), Vec::new());
    assert!(linked.at_once.bytes < 320 * KIB && apart.at_once.bytes > 600 * KIB, "{linked:?} {apart:?}");
}

#[test]
fn what_is_written_in_place_takes_whole_pieces() {
    let size = 10 * PIECE_BYTES;
    let demand = |name, in_place| {
        let step = Step { in_place, ..Step::plain(StepVerb::Sync, Shape::Contents) };
        demand(name, &step, vec![file("f", size, Some((0, 1)))], vec![file("f", 5_000, Some((0, 5_000)))])
    };
    let (beside, in_place) = (demand("beside", false), demand("in-place", true));
    assert_eq!(in_place.at_once.bytes, beside.at_once.bytes + 2 * PIECE_BYTES);
    assert_eq!(in_place.at_least, beside.at_least);
}
