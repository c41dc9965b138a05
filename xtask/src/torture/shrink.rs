//! Reduces a failing history to a small one that fails in the same way.
//!
//! Parts are removed by bisection: halves first, then quarters, down to single ones. Then the rest is simplified. A
//! missing part does not invalidate others: mutations and hard links of missing entries do nothing.

use std::time::{Duration, Instant};

use super::check::Violation;
use super::environment::faults::Fault;
use super::history::{History, HistoryEvent};
use super::model::{Fill, ModelTree, Name, NodeKind, Time, TreeNode};
use super::play::HistoryFailure;
use super::route::Route;
use super::step::Step;

/// The maximum duration of a reduction.
const TIME_MAX: Duration = Duration::from_secs(40);

/// Returns the smallest history that was found, with its failure. `play` plays a history.
pub fn shrink(
    history: History,
    failure: HistoryFailure,
    mut play: impl FnMut(&History) -> Option<HistoryFailure>,
) -> (History, HistoryFailure) {
    let mut shrinker = Shrinker {
        kind: kind_of(&failure),
        best: history,
        failure,
        play: &mut play,
        until: Instant::now() + TIME_MAX,
    };
    shrinker.all();
    (shrinker.best, shrinker.failure)
}

/// Returns the kind of a failure's worst violation.
fn kind_of(failure: &HistoryFailure) -> &'static str {
    let worst = |kind: &str| failure.violations.iter().find(|violation: &&Violation| violation.kind == kind);
    let first = || failure.violations.first();
    ["crash", "content", "missing"]
        .into_iter()
        .find_map(worst)
        .or_else(first)
        .map_or("", |violation| violation.kind)
}

struct Shrinker<'a> {
    kind: &'static str,
    best: History,
    failure: HistoryFailure,
    play: &'a mut dyn FnMut(&History) -> Option<HistoryFailure>,
    until: Instant,
}

impl Shrinker<'_> {
    fn all(&mut self) {
        for _ in 0..3 {
            let before = weight(&self.best);
            self.truncate();
            self.cut(|history| history.events.len(), |history, keep| retain(&mut history.events, keep));
            self.attempt(|history| history.target = None);
            self.cut(
                |history| count(history.target.as_ref()),
                |history, keep| prune(history.target.as_mut(), keep),
            );
            self.cut(
                |history| history.source.nodes.len(),
                |history, keep| prune(Some(&mut history.source), keep),
            );
            self.attempt(|history| history.setting.route = Route::Local);
            self.attempt(|history| history.setting.source = "plain".to_owned());
            // A power cut needs a file system of its own, and its consequences are promised for these only.
            let is_cut = |event: &HistoryEvent| matches!(event, HistoryEvent::Run(step) | HistoryEvent::Interrupted(step) if matches!(step.fault, Some(Fault::PowerCut { .. })));
            // A ballast would fill a file system that is not small.
            let is_space = |event: &HistoryEvent| matches!(event, HistoryEvent::Space(_));
            if !self.best.events.iter().any(|event| is_cut(event) || is_space(event)) {
                self.attempt(|history| history.setting.target = "plain".to_owned());
            }
            self.plainer_steps();
            self.plainer_nodes();
            if weight(&self.best) == before || Instant::now() > self.until {
                return;
            }
        }
    }

    /// Removes the events after the failure.
    fn truncate(&mut self) {
        let end = self.failure.event + 1;
        self.attempt(|history| history.events.truncate(end));
    }

    /// Tries a change. Returns true if the failure remains, and keeps the change then.
    fn attempt(&mut self, change: impl FnOnce(&mut History)) -> bool {
        if Instant::now() > self.until {
            return false;
        }
        let mut next = self.best.clone();
        change(&mut next);
        if serde_json::to_string(&next).ok() == serde_json::to_string(&self.best).ok() {
            return false;
        }
        match (self.play)(&next) {
            Some(failure) if failure.violations.iter().any(|violation| violation.kind == self.kind) => {
                self.best = next;
                self.failure = failure;
                self.failure.violations.sort_by_key(|violation| violation.kind != self.kind);
                true
            }
            _ => false,
        }
    }

    /// Removes as many elements of a list as possible, by bisection.
    fn cut(&mut self, count: impl Fn(&History) -> usize, keep_only: impl Fn(&mut History, &[bool])) {
        let mut chunk = count(&self.best).div_ceil(2);
        while chunk > 0 {
            let mut at = 0;
            while at < count(&self.best) {
                let total = count(&self.best);
                let keep: Vec<bool> = (0..total).map(|index| index < at || index >= at + chunk).collect();
                if !self.attempt(|history| keep_only(history, &keep)) {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
    }

    fn plainer_steps(&mut self) {
        let simpler: &[fn(&mut Step)] = &[
            |step| step.fault = None,
            |step| step.fleet = None,
            |step| step.fleet.iter_mut().for_each(|part| part.fault = None),
            |step| step.fleet.iter_mut().for_each(|part| part.slow = None),
            |step| {
                step.fleet.iter_mut().for_each(|part| (part.verify, part.repeats) = (false, false));
            },
            |step| step.manner.clear(),
            |step| step.itemize = false,
            |step| step.json = false,
            |step| step.log = false,
            |step| step.rules.clear(),
            |step| step.files_from = None,
            |step| step.sizes = None,
            |step| step.without.clear(),
            |step| step.check = None,
            |step| step.by_digest = false,
            |step| step.whole_file = false,
            |step| step.in_place = false,
            |step| (step.delete, step.during, step.all_may_go) = (false, false, false),
            |step| step.during = false,
            |step| step.all_may_go &= step.during,
        ];
        for index in 0..self.best.events.len() {
            for change in simpler {
                self.attempt(|history| {
                    if let Some(HistoryEvent::Run(step) | HistoryEvent::Interrupted(step)) =
                        history.events.get_mut(index)
                    {
                        change(step);
                        step.fit_fleet();
                    }
                });
            }
        }
    }

    fn plainer_nodes(&mut self) {
        let plain = Time { s: 1_000_000_000, ns: 0 };
        // Try all at once first, then one by one.
        self.attempt(|history| history.source.nodes.iter_mut().for_each(|node| bare(node, plain)));
        for index in 0..self.best.source.nodes.len() {
            let node = |history: &mut History, act: &dyn Fn(&mut TreeNode)| {
                if let Some(node) = history.source.nodes.get_mut(index) {
                    act(node);
                }
            };
            self.attempt(|history| node(history, &|node| bare(node, plain)));
            self.attempt(|history| node(history, &|node| node.attributes.clear()));
            self.attempt(|history| node(history, &|node| node.mode = 0o755));
            self.attempt(|history| node(history, &|node| (node.uid, node.gid) = (0, 0)));
            self.attempt(|history| node(history, &|node| node.mtime = plain));
            for length in 1..5 {
                self.attempt(|history| node(history, &|node| fewer_extents(node, length)));
            }
            for size in [1, 100, 4096, 100_000, 300_000, 5 << 20] {
                if self.attempt(|history| node(history, &|node| smaller(node, size))) {
                    break;
                }
            }
            self.attempt(|history| {
                node(history, &|node| {
                    if let NodeKind::File(content) = &mut node.kind {
                        content.extents.iter_mut().for_each(|extent| extent.fill = Fill::Count(1));
                    }
                });
            });
            self.attempt(|history| rename(history, index));
        }
    }
}

fn bare(node: &mut TreeNode, plain: Time) {
    node.attributes.clear();
    (node.uid, node.gid) = (0, 0);
    node.mode = if node.kind == NodeKind::Directory { 0o755 } else { 0o644 };
    node.mtime = plain;
}

fn fewer_extents(node: &mut TreeNode, length: usize) {
    if let NodeKind::File(content) = &mut node.kind {
        content.extents.truncate(length);
    }
}

fn smaller(node: &mut TreeNode, size: u64) {
    if let NodeKind::File(content) = &mut node.kind
        && size < content.size
    {
        content.size = size;
        content.extents.retain(|extent| extent.at < size);
        for extent in &mut content.extents {
            extent.length = extent.length.min(size - extent.at);
        }
    }
}

/// Moves an entry that nothing refers to to a short name in the root.
fn rename(history: &mut History, index: usize) {
    let Some(node) = history.source.nodes.get(index) else { return };
    let text = serde_json::to_string(&history.events).unwrap_or_default();
    let used =
        history.source.nodes.iter().any(|other| {
            other.path.is_below(&node.path) || other.kind == NodeKind::SameAs(node.path.clone())
        });
    if used || node.path.0.is_empty() || text.contains(&node.path.to_string()) {
        return;
    }
    history.source.nodes[index].path = Name(format!("f{index}").into_bytes());
}

fn weight(history: &History) -> usize {
    serde_json::to_string(history).map_or(0, |text| text.len())
}

fn count(tree: Option<&ModelTree>) -> usize {
    tree.map_or(0, |tree| tree.nodes.len())
}

fn retain<T>(list: &mut Vec<T>, keep: &[bool]) {
    let mut keep = keep.iter();
    list.retain(|_| keep.next().copied().unwrap_or(true));
}

/// Removes entries, and everything below those that are directories. The root stays.
fn prune(tree: Option<&mut ModelTree>, keep: &[bool]) {
    let Some(tree) = tree else { return };
    let gone: Vec<Name> = tree
        .nodes
        .iter()
        .zip(keep)
        .filter(|(node, keep)| !**keep && !node.path.0.is_empty())
        .map(|(node, _)| node.path.clone())
        .collect();
    tree.nodes.retain(|node| !gone.iter().any(|path| node.path == *path || node.path.is_below(path)));
}
