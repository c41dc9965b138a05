//! Generates histories on targets with little space: trees that fit, just fit and do not fit, many of them sparse, and
//! runs that follow once there is room.

use super::file_systems::{HistorySetting, LITTLE_SPACE};
use super::generate::Limits;
use super::headroom::Headroom;
use super::history::{History, HistoryEvent};
use super::misfortune;
use super::model::{Content, FileExtent, Fill, ModelTree, Name, NodeKind, Time, TreeNode};
use super::mutate;
use super::rng::Rng;
use super::route::Route;
use super::step::{self, Shape, Step, StepVerb};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// The maximum amount of data in a source, in bytes. All targets hold it twice.
const DATA_BYTES_MAX: u64 = 5 * MIB;
/// The maximum number of entries that all targets hold.
const ENTRIES_MAX: u64 = 120;

/// Returns a setting whose target has little space.
pub fn setting(rng: &mut Rng, setting: &HistorySetting) -> HistorySetting {
    let weights: Vec<u64> = LITTLE_SPACE.iter().map(|(_, weight)| *weight).collect();
    let target = LITTLE_SPACE[rng.weighted(&weights)].0.to_owned();
    let plain = ["tmpfs", "ext4", "xfs", "btrfs"].contains(&setting.source.as_str());
    let source = if plain { setting.source.clone() } else { "tmpfs".to_owned() };
    let route = if setting.route.is_sftp() { Route::Local } else { setting.route };
    HistorySetting { source, target, route }
}

/// Returns the history of a seed. The setting decides about hosts and the source's file system.
pub fn history(seed: u64, given: &HistorySetting) -> History {
    let mut rng = Rng::new(seed.rotate_left(29));
    let setting = setting(&mut rng, given);
    let source = tree(&mut rng);
    let target = rng.percent(40).then(|| earlier(&mut rng, &source));
    let mut events = vec![HistoryEvent::Space(headroom(&mut rng, &source, &setting.target))];
    for _ in 0..rng.between(1, 3) {
        let mut next = step(&mut rng);
        if next.writes() && rng.percent(20) {
            next.fault = Some(misfortune::random(&mut rng, &setting, false));
        }
        events.push(HistoryEvent::Run(next));
        let limits = Limits {
            entries: 10,
            data_bytes: MIB,
            size_bytes: MIB,
            special: false,
            name_bytes: 100,
            value_bytes: 100,
        };
        for _ in 0..rng.below(4) {
            events.push(HistoryEvent::Source(mutate::random(&mut rng, &source, limits)));
        }
        if rng.percent(50) {
            events.push(HistoryEvent::Space(headroom(&mut rng, &source, &setting.target)));
        }
    }
    // Once there is room, everything has to arrive.
    events.push(HistoryEvent::Space(Headroom::default()));
    events.push(HistoryEvent::Run(Step { in_place: false, fault: None, ..step(&mut rng) }));
    History { seed, setting, source, target, events }
}

/// Returns a step that writes everything.
fn step(rng: &mut Rng) -> Step {
    let verb = rng.pick(&[StepVerb::Copy, StepVerb::Sync]);
    let mut next = Step::plain(verb, if rng.percent(85) { Shape::Contents } else { Shape::Directory });
    if verb == StepVerb::Sync {
        next.delete = rng.percent(70);
        next.during = next.delete && rng.percent(20);
        next.all_may_go = next.delete;
        next.in_place = rng.percent(20);
    }
    next.dry_run = rng.percent(10);
    if rng.percent(30) {
        next.manner.push(format!("--lanes={}", rng.between(1, 8)));
    }
    if rng.percent(15) {
        next.manner.push("--durable=none".to_owned());
    }
    if !next.dry_run {
        step::choose_lists(rng, &mut next);
    }
    next
}

/// The layout of the data of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataLayout {
    /// Data from the first byte to the last.
    Dense,
    /// Nothing but a hole.
    Hole,
    /// Data at the beginning, before a hole.
    Beginning,
    /// Data in the middle, between holes.
    Middle,
    /// Data at the end, behind a hole.
    End,
}

/// Returns a tree of one kind of files, or of all kinds.
fn tree(rng: &mut Rng) -> ModelTree {
    use DataLayout::{Beginning, Dense, End, Hole, Middle};
    let layouts: &[DataLayout] = match rng.below(6) {
        0 => &[Hole],
        1 => &[Hole, Beginning, Middle, End],
        2 => &[Beginning, Middle, End],
        3 => &[Dense],
        _ => &[Dense, Dense, Hole, Beginning, Middle, End],
    };
    let is_large = rng.percent(20);
    let count = if is_large { rng.between(1, 6) } else { rng.between(5, ENTRIES_MAX - 10) };
    let folders = rng.between(0, 4);
    let mut nodes = vec![node(Name::default(), NodeKind::Directory)];
    nodes.extend(
        (0..folders).map(|number| node(Name(format!("d{number}").into_bytes()), NodeKind::Directory)),
    );
    let mut left = DATA_BYTES_MAX;
    let mut files: Vec<Name> = Vec::new();
    for number in 0..count {
        let base = format!("f{number}");
        let path = match rng.below(folders + 1) {
            0 => base,
            folder => format!("d{}/{base}", folder - 1),
        };
        let path = Name(path.into_bytes());
        if !files.is_empty() && rng.percent(8) {
            let of = files[rng.below(files.len() as u64) as usize].clone();
            nodes.push(node(path, NodeKind::SameAs(of)));
            continue;
        }
        let layout = rng.pick(layouts);
        let size = match (is_large, layout) {
            (true, Dense) => rng.between(256 * KIB, 2 * MIB),
            (true, _) => rng.pick(&[20 * MIB, 64 * MIB, 70 * MIB, 1 << 30]) + rng.below(10_000),
            (false, Dense) => rng.between(0, 90 * KIB),
            (false, _) => rng.between(20 * KIB, 300 * KIB),
        };
        let content = content(rng, layout, size, &mut left);
        nodes.push(node(path.clone(), NodeKind::File(content)));
        files.push(path);
    }
    ModelTree { nodes }
}

fn content(rng: &mut Rng, layout: DataLayout, size: u64, left: &mut u64) -> Content {
    let piece = rng.pick(&[1, 4096, 5000, 20_000]).min(size);
    let (at, length) = match layout {
        DataLayout::Dense => (0, size),
        DataLayout::Hole => (0, 0),
        DataLayout::Beginning => (0, piece),
        DataLayout::Middle => ((size - piece) / 2, piece),
        DataLayout::End => (size - piece, piece),
    };
    // A file for which no data is left is a hole.
    let length = if length.div_ceil(4 * KIB) * 4 * KIB <= *left { length } else { 0 };
    if length == 0 {
        return Content { size, extents: Vec::new() };
    }
    *left -= length.div_ceil(4 * KIB) * 4 * KIB;
    Content { size, extents: vec![FileExtent { at, length, fill: Fill::Noise(rng.next()) }] }
}

fn node(path: Name, kind: NodeKind) -> TreeNode {
    let mtime = Time { s: 1_600_000_000, ns: 0 };
    let mode = if kind == NodeKind::Directory { 0o755 } else { 0o644 };
    TreeNode { path, kind, mode, uid: 0, gid: 0, mtime, attributes: Vec::new() }
}

/// Returns an earlier state of a tree: files that are older, smaller, larger, or not there yet, and extra ones.
fn earlier(rng: &mut Rng, tree: &ModelTree) -> ModelTree {
    let mut nodes = Vec::new();
    let mut left = DATA_BYTES_MAX;
    for node in &tree.nodes {
        let mut node = node.clone();
        if node.kind != NodeKind::Directory && rng.percent(30) {
            continue;
        }
        if let NodeKind::File(content) = &mut node.kind
            && rng.percent(50)
        {
            let size = if rng.percent(50) { content.size } else { rng.below(120 * KIB) };
            let layout = if size < MIB { DataLayout::Dense } else { DataLayout::Beginning };
            *content = self::content(rng, layout, size, &mut left);
            node.mtime.s -= 1_000;
        }
        nodes.push(node);
    }
    for number in 0..rng.below(4) {
        let size = rng.between(1, 300 * KIB);
        let content = content(rng, DataLayout::Dense, size, &mut left);
        nodes.push(node(Name(format!("extra{number}").into_bytes()), NodeKind::File(content)));
    }
    ModelTree { nodes }
}

/// Returns the free space before a run: more than a tree needs, just as much, less, or all there is.
fn headroom(rng: &mut Rng, tree: &ModelTree, target: &str) -> Headroom {
    let extents = tree.nodes.iter().filter_map(|node| match &node.kind {
        NodeKind::File(content) => Some(&content.extents),
        _ => None,
    });
    let need: u64 = extents.flatten().map(|extent| extent.length.div_ceil(4 * KIB) * 4 * KIB).sum();
    let entries = tree.nodes.len() as u64;
    let bytes = match rng.below(9) {
        0 => None,
        1 => Some(need + 2 * MIB),
        8 => Some(need + 30 * MIB),
        // A little more than what the oracle calls enough.
        2 | 3 => Some(need + 160 * KIB + entries * 5 * KIB),
        4 => Some(need + 160 * KIB),
        5 => Some(need),
        6 => Some(need / 10 * 9),
        _ => Some(need / 2),
    };
    let inodes = match rng.below(10) {
        0 => Some(entries + 20),
        1 => Some(entries + rng.below(20)),
        2 => Some(entries / 2),
        _ => None,
    };
    // A ballast must not be large, nor have thousands of files.
    let few_inodes = ["smalltmpfs", "fullinodes"].contains(&target);
    Headroom { bytes: bytes.filter(|_| target != "fullinodes"), inodes: inodes.filter(|_| few_inodes) }
}
