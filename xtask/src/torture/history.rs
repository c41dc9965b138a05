//! A history: the setting, the trees that it starts with, and the events. It is generated from a seed, can be stored
//! and shrunk, and is played by [`play`](super::play).

use serde::{Deserialize, Serialize};

use super::environment::faults::{Fault, Process, Trigger};
use super::file_systems::HistorySetting;
use super::generate::{self, Limits};
use super::headroom::Headroom;
use super::misfortune;
use super::model::{Content, FileExtent, Fill, ModelTree, Name, NodeKind, Time, TreeNode};
use super::mutate::{self, Mutation};
use super::rng::Rng;
use super::scarcity;
use super::step::{self, Shape, Step, StepVerb};

/// One seed in this many is about resuming a large file.
const RESUMED_ONE_IN: u64 = 60;

/// One seed in this many is about a target with little space.
const SCARCE_ONE_IN: u64 = 12;

/// A history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct History {
    /// The seed.
    pub seed: u64,
    /// The file systems, hosts and transport.
    pub setting: HistorySetting,
    /// The initial source.
    pub source: ModelTree,
    /// The initial target, if there is one.
    pub target: Option<ModelTree>,
    /// The events, in order.
    pub events: Vec<HistoryEvent>,
}

impl History {
    /// Returns the metadata that some step excludes.
    pub fn left_out(&self) -> Vec<String> {
        let steps = self.events.iter().filter_map(|event| match event {
            HistoryEvent::Run(step) | HistoryEvent::Interrupted(step) => Some(step),
            _ => None,
        });
        steps.flat_map(|step| step.without.clone()).collect()
    }
}

/// An event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum HistoryEvent {
    /// Changes the source, as another program would.
    Source(Mutation),
    /// Changes the target, as another program would.
    Target(Mutation),
    /// Leaves so much free at the target's file system.
    Space(Headroom),
    /// Runs hakobu. After a fault the same command is run again.
    Run(Step),
    /// Runs hakobu with a fault, and not again before the next events.
    Interrupted(Step),
}

/// Returns the history of a seed in a setting.
pub fn of_seed(seed: u64, setting: HistorySetting) -> History {
    // Resuming a large file takes seconds and is rare otherwise.
    if seed.is_multiple_of(RESUMED_ONE_IN) && setting.may_be_resumed() {
        return resumed(seed, setting);
    }
    if seed % SCARCE_ONE_IN == 5 && !setting.is_plain() && !setting.has_store() {
        return scarcity::history(seed, &setting);
    }
    of_seed_within(seed, setting, u64::MAX)
}

/// Returns the history of a seed with no file larger than `size_bytes_max`.
pub fn of_seed_within(seed: u64, setting: HistorySetting, size_bytes_max: u64) -> History {
    let mut rng = Rng::new(seed);
    let mut limits = limits(&mut rng, &setting);
    limits.size_bytes = limits.size_bytes.min(size_bytes_max);
    let source = generate::tree(&mut rng, limits);
    let target = rng.percent(25).then(|| {
        let mut tree = if rng.percent(50) { source.clone() } else { generate::tree(&mut rng, limits) };
        tree.nodes.truncate(rng.between(1, tree.nodes.len() as u64) as usize);
        tree
    });
    let mut events = Vec::new();
    for _ in 0..rng.between(2, 5) {
        let mut next = step::random(&mut rng, &source);
        // The first step writes, since a history that only reads would test little.
        if events.is_empty() && !next.writes() {
            next = Step::plain(StepVerb::Copy, Shape::Contents);
        }
        setting.fit(&mut next);
        if next.writes() && !setting.is_plain() && rng.percent(setting.faults_percent()) {
            next.fault = Some(misfortune::random(&mut rng, &setting, false));
        }
        if next.in_place
            && rng.percent(40)
            && let Some((one, other)) = two_files(&mut rng, &source)
        {
            // Changes to one name in place would reach the others.
            events.push(HistoryEvent::Target(Mutation::LinkTo(one, other)));
        }
        let interrupted = next.fault.is_some() && rng.percent(30);
        let again = content_alone_differs(&mut rng, &next);
        events.push(if interrupted { HistoryEvent::Interrupted(next) } else { HistoryEvent::Run(next) });
        events.extend(again.into_iter().flatten());
        if setting.target_store().is_some() && rng.percent(60) {
            events.push(HistoryEvent::Run(copied_back(&mut rng, &setting, &source)));
        }
        for _ in 0..rng.below(5) {
            let mutation = mutate::random(&mut rng, &source, limits);
            events.push(if rng.percent(65) {
                HistoryEvent::Source(mutation)
            } else {
                HistoryEvent::Target(mutation)
            });
        }
    }
    // The last run has to complete what was interrupted.
    if matches!(
        events
            .iter()
            .rev()
            .find(|event| matches!(event, HistoryEvent::Run(_) | HistoryEvent::Interrupted(_))),
        Some(HistoryEvent::Interrupted(_))
    ) {
        events.push(HistoryEvent::Run(Step::plain(StepVerb::Copy, Shape::Contents)));
    }
    History { seed, setting, source, target, events }
}

/// Returns a step that copies a store back.
fn copied_back(rng: &mut Rng, setting: &HistorySetting, source: &ModelTree) -> Step {
    let mut step = step::from_store(rng, source);
    setting.fit(&mut step);
    if step.writes() && !setting.is_plain() && rng.percent(setting.faults_percent()) {
        step.fault = Some(misfortune::random(rng, setting, true));
    }
    step
}

/// Returns the events after the copy of a single file: its content changes while size and time stay the same, which
/// only a comparison of content finds.
fn content_alone_differs(rng: &mut Rng, copied: &Step) -> Option<[HistoryEvent; 2]> {
    let Shape::OneFile(path) = &copied.shape else { return None };
    if copied.verb != StepVerb::Copy || copied.dry_run || !rng.percent(40) {
        return None;
    }
    let extent = FileExtent { at: 0, length: 1, fill: Fill::Noise(rng.next()) };
    let step = Step { by_digest: true, fault: None, ..copied.clone() };
    Some([HistoryEvent::Source(Mutation::RewriteKeepingTime(path.clone(), extent)), HistoryEvent::Run(step)])
}

/// Returns the names of two files of a tree.
fn two_files(rng: &mut Rng, tree: &ModelTree) -> Option<(Name, Name)> {
    let is_file = |node: &&TreeNode| matches!(node.kind, NodeKind::File(_));
    let mut files: Vec<&TreeNode> = tree.nodes.iter().filter(is_file).collect();
    if files.len() < 2 {
        return None;
    }
    let mut take = || files.swap_remove(rng.below(files.len() as u64) as usize).path.clone();
    Some((take(), take()))
}

/// Returns a history in which a large file is copied, hakobu is killed once its journal has begun, the file is
/// rewritten with the same size and time, and copied again.
pub fn resumed(seed: u64, setting: HistorySetting) -> History {
    let mut rng = Rng::new(seed.rotate_left(17));
    let node = |path: &[u8], kind| TreeNode {
        path: Name(path.to_vec()),
        kind,
        mode: 0o755,
        uid: 0,
        gid: 0,
        mtime: Time { s: 1_500_000_000, ns: 5 },
        attributes: Vec::new(),
    };
    let size = 300 << 20;
    let extents = vec![FileExtent { at: 0, length: size, fill: Fill::Noise(rng.next()) }];
    let file = node(b"large", NodeKind::File(Content { size, extents }));
    let copy = Step::plain(StepVerb::Copy, Shape::Contents);
    let when = Trigger::AfterMs(1200 + rng.below(800));
    let slow = Step {
        manner: vec!["--bwlimit=80M".to_owned()],
        fault: Some(Fault::Kill { process: Process::Controller, when }),
        ..copy.clone()
    };
    let rewrite = FileExtent { at: rng.below(40 << 20), length: 8 << 20, fill: Fill::Noise(rng.next()) };
    let events = vec![
        HistoryEvent::Interrupted(slow),
        HistoryEvent::Source(Mutation::RewriteKeepingTime(Name(b"large".to_vec()), rewrite)),
        HistoryEvent::Run(copy),
    ];
    let source = ModelTree { nodes: vec![node(b"", NodeKind::Directory), file] };
    History { seed, setting, source, target: None, events }
}

fn limits(rng: &mut Rng, setting: &HistorySetting) -> Limits {
    let size_bytes = match rng.below(60) {
        0 => 5 << 30,
        1 | 2 => 70 << 20,
        3..18 => 9 << 20,
        _ => 600 << 10,
    };
    let limits = Limits {
        entries: rng.pick(&[3, 8, 20, 60]),
        data_bytes: rng.pick(&[200_000, 1 << 20, 4 << 20, 9 << 20]),
        size_bytes,
        special: true,
        name_bytes: 255,
        value_bytes: 65_536,
    };
    setting.within(limits)
}
