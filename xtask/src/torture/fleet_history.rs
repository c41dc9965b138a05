//! Generates histories in which a fleet carries out most steps: alternately with the plain command, on one target, with
//! mutations in between, and with faults of the fleet.

use super::file_systems::HistorySetting;
use super::fleet_step::FleetStep;
use super::generate::{self, Limits};
use super::history::{History, HistoryEvent};
use super::misfortune;
use super::model::{Content, FileExtent, Fill, ModelTree, NodeKind};
use super::mutate;
use super::rng::Rng;
use super::route::Route;
use super::step::{self, Shape, Step, StepVerb};

/// One seed in this many is about a fleet, whose runs take seconds.
const FLEET_ONE_IN: u64 = 24;
/// The file systems of both sides. They keep everything, so that each run has to end complete.
const FILE_SYSTEMS: [&str; 5] = ["tmpfs", "ext4", "xfs", "btrfs", "overlay"];
/// Percentage of the steps that the fleet carries out, apart from the first.
const FLEET_PERCENT: u64 = 65;
/// Percentage of the other steps that are killed or disturbed.
const FAULTS_PERCENT: u64 = 25;
/// Percentage of the trees with files that are given away in ranges.
const LARGE_PERCENT: u64 = 40;

/// Returns true if the history of a seed in a setting is about a fleet.
pub fn is_chosen(seed: u64, setting: &HistorySetting) -> bool {
    seed % FLEET_ONE_IN == 7 && !setting.is_plain() && !setting.has_store()
}

/// Returns a setting on this machine that keeps everything.
fn setting(rng: &mut Rng, given: &HistorySetting) -> HistorySetting {
    let mut fit = |name: &String| {
        let is_fit = FILE_SYSTEMS.contains(&name.as_str());
        if is_fit { name.clone() } else { rng.pick(&["tmpfs", "tmpfs", "ext4", "xfs"]).to_owned() }
    };
    let [source, target] = [&given.source, &given.target].map(&mut fit);
    HistorySetting { source, target, route: Route::Local }
}

/// Makes some of the files of a tree large.
fn enlarge(rng: &mut Rng, tree: &mut ModelTree) {
    let mut files: Vec<_> =
        tree.nodes.iter_mut().filter(|node| matches!(node.kind, NodeKind::File(_))).collect();
    for _ in 0..rng.between(1, 3).min(files.len() as u64) {
        let number = rng.below(files.len() as u64) as usize;
        files.swap_remove(number).kind = NodeKind::File(large_content(rng));
    }
}

/// Returns content of several chunks of the engine: data alone, or data and holes.
fn large_content(rng: &mut Rng) -> Content {
    const MIB: u64 = 1 << 20;
    let size = rng.pick(&[13, 24, 40, 70]) * MIB + rng.pick(&[0, 0, 1, 4096, 70_000]);
    let step = rng.pick(&[size, size, size, 5 * MIB, 4096 + 4 * MIB]);
    let mut extents = Vec::new();
    let mut at = 0;
    while at < size {
        let fill = if rng.percent(50) { Fill::Noise(rng.next()) } else { Fill::Count(rng.below(1 << 30)) };
        extents.push(FileExtent { at, length: step.min(size - at), fill });
        at += step * rng.between(1, 3);
    }
    Content { size, extents }
}

/// Returns the history of a seed. The given setting decides about the file systems if they keep everything.
pub fn history(seed: u64, given: &HistorySetting) -> History {
    let mut rng = Rng::new(seed.rotate_left(41));
    let setting = setting(&mut rng, given);
    let limits = setting.within(Limits {
        entries: rng.pick(&[10, 60, 120, 250]),
        data_bytes: rng.pick(&[200_000, 1 << 20, 4 << 20]),
        size_bytes: rng.pick(&[600 << 10, 600 << 10, 9 << 20, 70 << 20]),
        special: true,
        name_bytes: 255,
        value_bytes: 65_536,
    });
    let mut source = generate::tree(&mut rng, limits);
    if rng.percent(LARGE_PERCENT) {
        enlarge(&mut rng, &mut source);
    }
    let target = rng.percent(30).then(|| {
        let mut tree = if rng.percent(50) { source.clone() } else { generate::tree(&mut rng, limits) };
        tree.nodes.truncate(rng.between(1, tree.nodes.len() as u64) as usize);
        tree
    });
    let mut events = Vec::new();
    for _ in 0..rng.between(2, 4) {
        let mut next = step::random(&mut rng, &source);
        let mut interrupted = false;
        if events.is_empty() || rng.percent(FLEET_PERCENT) {
            next.give_to_fleet(FleetStep::random(&mut rng));
            if rng.percent(60) {
                // A unit gives away the directories that no lane has begun.
                next.manner.retain(|option| !option.starts_with("--lanes"));
                next.manner.push("--lanes=1".to_owned());
            }
        } else {
            setting.fit(&mut next);
            if next.writes() && rng.percent(FAULTS_PERCENT) {
                next.fault = Some(misfortune::random(&mut rng, &setting, false));
                interrupted = rng.percent(50);
            }
        }
        events.push(if interrupted { HistoryEvent::Interrupted(next) } else { HistoryEvent::Run(next) });
        for _ in 0..rng.below(8) {
            let mutation = mutate::random(&mut rng, &source, limits);
            events.push(if rng.percent(65) {
                HistoryEvent::Source(mutation)
            } else {
                HistoryEvent::Target(mutation)
            });
        }
    }
    // The last run has to complete what was interrupted.
    let mut last = Step::plain(rng.pick(&[StepVerb::Copy, StepVerb::Sync]), Shape::Contents);
    last.give_to_fleet(FleetStep { fault: None, ..FleetStep::random(&mut rng) });
    last.delete = last.verb == StepVerb::Sync;
    last.all_may_go = last.delete;
    events.push(HistoryEvent::Run(last));
    History { seed, setting, source, target, events }
}
