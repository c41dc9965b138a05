use super::super::large::LargeFileMode;
use super::super::node::{CountedDirectory, Origin, TouchedAttributes};
use super::*;
use crate::endpoint::{DraftKind, Pick, SourceFile};
use crate::entry::{Attributes, EntryKind, EntryMetadata, FileTime};
use crate::extent::CHUNK_BYTES;
use crate::path::EntryPath;

fn node(name: &str, parent: Option<Arc<DirectoryNode>>) -> Arc<DirectoryNode> {
    let path = EntryPath::new(name).unwrap();
    let mtime = FileTime::default();
    let attributes = Attributes { mode: 0o755, uid: 0, gid: 0, mtime };
    DirectoryNode::new(
        (vec![Origin::whole(0, path.clone())], path),
        (Some(attributes), CountedDirectory::Created),
        parent,
        TouchedAttributes::Yes,
    )
}

#[test]
fn a_directory_is_finished_after_what_it_holds() {
    let (queue, counters) = (TaskQueue::new(false, 24), LaneCounters::default());
    let top = node("top", None);
    let (a, b) = (node("top/a", Some(top.clone())), node("top/b", Some(top.clone())));
    queue.release(&top, &counters);
    queue.release(&a, &counters);
    assert_eq!(queue.take_finished().len(), 1);
    queue.release(&b, &counters);
    let order: Vec<_> = queue.take_finished().iter().map(|node| node.target.to_string()).collect();
    assert_eq!(order, ["top/b", "top"]);
}

#[test]
fn unknown_directories_are_asked_for_together() {
    let queue = TaskQueue::new(false, 24);
    let tasks = (0..40)
        .map(|number| DirectoryTask::new(node(&format!("d{number}"), None), TargetState::Unknown))
        .collect();
    queue.add(tasks, Vec::new(), Vec::new());
    queue.start();
    let NextTask::Task(LaneTask::Directories(tasks)) = queue.take(0) else { panic!("no task") };
    assert_eq!(tasks.len(), 24);
    assert_eq!(tasks[0].node.target.to_string(), "d0");
    queue.complete(40);
    assert!(matches!(queue.take(1), NextTask::Ended));
}

fn pack(node: &Arc<DirectoryNode>) -> PackTask {
    let picks = Picks { listing: Arc::default(), entries: Vec::new(), target_name: None };
    PackTask { may_be_given: true, ..PackTask::new(node.clone(), 0, Arc::new(picks)) }
}

#[test]
fn the_rest_of_a_directory_comes_before_the_last_packs_and_no_sooner() {
    let (queue, node) = (TaskQueue::new(false, 24), node("d", None));
    let task = || DirectoryTask::new(node.clone(), TargetState::Absent);
    queue.add(vec![task()], Vec::new(), Vec::new());
    queue.start();
    assert!(matches!(queue.take(0), NextTask::Task(LaneTask::Directory(_))));
    // Its first page contained a directory and packs.
    let packs = (0..=PACKS_FEW).map(|_| pack(&node)).collect();
    queue.add(vec![task()], packs, Vec::new());
    let rest = TargetState::Rest(crate::handle::Cursor::new(()));
    queue.add_before(DirectoryTask::new(node.clone(), rest), Vec::new(), Vec::new(), Vec::new());
    for lane in [0, 1] {
        assert!(matches!(queue.take(lane), NextTask::Task(LaneTask::Pack(_))));
    }
    let NextTask::Task(LaneTask::Directory(DirectoryTask { target, .. })) = queue.take(1) else {
        panic!("no rest")
    };
    assert!(matches!(target, TargetState::Rest(_)));
    assert!(matches!(queue.take(0), NextTask::Task(LaneTask::Pack(_))));
    assert!(!queue.scan_done());
}

#[test]
fn nothing_to_do_is_the_end_only_after_the_start() {
    let queue = TaskQueue::new(false, 24);
    assert!(matches!(queue.take(0), NextTask::Nothing));
    queue.start();
    assert!(matches!(queue.take(0), NextTask::Ended));
}

fn file(name: &str) -> Arc<LargeFile> {
    let path = EntryPath::new(name).unwrap();
    let metadata = EntryMetadata { size_bytes: 3 * CHUNK_BYTES, ..EntryMetadata::new(EntryKind::File) };
    let source = SourceFile { root: 0, path: path.clone(), metadata, tolerant: false };
    let how = LargeFileMode { kind: DraftKind::File, replaces: false, named: false, digest: false };
    Arc::new(LargeFile::new(node("top", None), source, path, 1, how))
}

/// Returns the task for lane 1 as text: `begin a`, or `a` for its chunks.
fn large(queue: &TaskQueue) -> String {
    match queue.take(1) {
        NextTask::Task(LaneTask::Begin(file)) => format!("begin {}", file.target),
        NextTask::Task(LaneTask::Chunks(file)) => file.target.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn writers_are_spread_over_files_where_that_is_better() {
    for (spreads, expected) in [(false, ["a", "a", "a", "a"]), (true, ["a", "begin b", "b", "a"])] {
        let queue = TaskQueue::new(spreads, 24);
        let (a, b) = (file("a"), file("b"));
        queue.add(Vec::new(), Vec::new(), vec![a.clone(), b.clone()]);
        queue.start();
        assert_eq!(large(&queue), "begin a");
        queue.activate(a.clone());
        let mut taken = vec![large(&queue), large(&queue)];
        if spreads {
            queue.activate(b.clone());
        }
        taken.push(large(&queue));
        // The first of its lanes has left.
        a.leave();
        taken.push(large(&queue));
        assert_eq!(taken, expected);
    }
}

fn directory(name: &str, target: TargetState) -> DirectoryTask {
    DirectoryTask::new(node(name, None), target)
}

/// Returns the task for a lane as text.
fn taken(queue: &TaskQueue, lane: usize) -> String {
    match queue.take(lane) {
        NextTask::Task(LaneTask::Directory(task)) => format!("directory {}", task.node.target),
        NextTask::Task(LaneTask::Directories(tasks)) => format!("{} directories", tasks.len()),
        NextTask::Task(LaneTask::Pack(_)) => "pack".to_owned(),
        NextTask::Task(LaneTask::Begin(file)) => format!("begin {}", file.target),
        NextTask::Task(LaneTask::Chunks(file)) => format!("chunks of {}", file.target),
        NextTask::Nothing => "nothing".to_owned(),
        NextTask::Ended => "the end".to_owned(),
    }
}

#[test]
fn the_first_lane_takes_small_things_first_and_the_others_large_ones() {
    for (lane, expected) in [(0, ["pack", "directory d", "begin a"]), (1, ["begin a", "pack", "directory d"])]
    {
        let queue = TaskQueue::new(false, 24);
        queue.add(vec![directory("d", TargetState::Absent)], vec![pack(&node("d", None))], vec![file("a")]);
        queue.start();
        assert_eq!([(); 3].map(|()| taken(&queue, lane)), expected);
        assert_eq!(taken(&queue, lane), "nothing");
    }
}

#[test]
fn directories_are_taken_in_order_and_the_rest_of_one_behind_those_in_it() {
    let queue = TaskQueue::new(false, 24);
    let tasks = ["a", "b", "c"].map(|name| directory(name, TargetState::Absent));
    queue.add(tasks.into(), Vec::new(), Vec::new());
    assert_eq!(taken(&queue, 0), "directory a");
    let within = ["a/x", "a/y"].map(|name| directory(name, TargetState::Absent));
    queue.add_before(directory("a", TargetState::Absent), within.into(), Vec::new(), Vec::new());
    let expected = ["directory a/x", "directory a/y", "directory a", "directory b", "directory c"];
    assert_eq!([(); 5].map(|()| taken(&queue, 0)), expected);
    // A directory whose state at the target is known is not listed in one request with others.
    let tasks = [directory("d", TargetState::Unknown), directory("e", TargetState::Absent)];
    queue.add(tasks.into(), Vec::new(), Vec::new());
    assert_eq!([(); 2].map(|()| taken(&queue, 0)), ["1 directories", "directory e"]);
}

/// Takes directories to give them away, and returns their paths.
fn shares(queue: &TaskQueue, demand: WorkDemand) -> Vec<String> {
    let tasks = queue.take_shares(demand);
    let shares = tasks.iter().map(|task| task.node.share().unwrap().place.target.to_string()).collect();
    tasks.iter().filter_map(|task| task.node.parent.as_ref()).for_each(|parent| parent.open());
    queue.given(&tasks);
    queue.complete(tasks.len() as u64);
    shares
}

#[test]
fn the_directories_that_wait_longest_are_given_away_and_those_above_stay_open() {
    let (queue, counters) = (TaskQueue::new(false, 24), LaneCounters::default());
    let top = node("top", None);
    let inner = node("top/a", Some(top.clone()));
    let task = |name: &str, parent: &Arc<DirectoryNode>, target| {
        DirectoryTask::new(node(name, Some(parent.clone())), target)
    };
    queue.add(vec![DirectoryTask::new(top.clone(), TargetState::Absent)], Vec::new(), Vec::new());
    queue.start();
    assert_eq!(shares(&queue, WorkDemand::All), [""; 0], "the user named it");
    assert_eq!(taken(&queue, 0), "directory top");
    let below = ["top/b", "top/c", "top/d"].map(|name| task(name, &top, TargetState::Unknown));
    queue.add(below.into(), Vec::new(), Vec::new());
    let rest = TargetState::Rest(crate::handle::Cursor::new(()));
    let begun = [rest, TargetState::Occupied].map(|target| task("top/a/begun", &inner, target));
    queue.add(begun.into(), Vec::new(), Vec::new());
    queue.add(vec![task("top/a/x", &inner, TargetState::Absent)], Vec::new(), Vec::new());
    assert_eq!(shares(&queue, WorkDemand::Nothing), [""; 0]);
    // The order is that of the stack: `top/b` would have been taken first of the three.
    assert_eq!(shares(&queue, WorkDemand::Half), ["top/d", "top/c", "top/b"]);
    assert!(top.is_open() && !inner.is_open());
    assert_eq!(shares(&queue, WorkDemand::All), ["top/a/x"]);
    assert!(inner.is_open());
    // An open directory is passed on when all that the run does in it is done.
    queue.release(&top, &counters);
    (0..3).for_each(|_| queue.release(&inner, &counters));
    let finished: Vec<_> = queue.take_finished().iter().map(|node| node.target.to_string()).collect();
    assert_eq!(finished, ["top/a", "top"]);
    assert_eq!(counters.entries_created.get(), 0);
    queue.scanned(3);
    assert!(queue.scan_done());
}

#[test]
fn packs_that_wait_are_given_away_if_there_are_many_entries_in_them() {
    let (queue, counters, top) = (TaskQueue::new(false, 24), LaneCounters::default(), node("top", None));
    let add = |count: usize, may_be_given: bool| {
        let entries = vec![Pick { index: 0, replaces: false }; count];
        let picks = Arc::new(Picks { listing: Arc::default(), entries, target_name: None });
        top.hold(1);
        let pack = PackTask { picks, may_be_given, ..pack(&top) };
        queue.add(Vec::new(), vec![pack], Vec::new());
    };
    let given = |demand| {
        let packs = queue.take_slices(demand);
        packs.iter().for_each(|pack| pack.node.cut());
        queue.given_packs(&packs);
        packs.iter().map(|pack| pack.picks.entries.len()).collect::<Vec<_>>()
    };
    queue.start();
    add(SLICED_ENTRIES_LEAST - 1, true);
    add(500, false);
    assert_eq!(given(WorkDemand::All), [0; 0], "it is soon copied, or depends on this run");
    add(300, true);
    add(200, true);
    assert_eq!(given(WorkDemand::Nothing), [0; 0]);
    assert_eq!(given(WorkDemand::Half), [200], "the first ones are kept");
    assert_eq!(given(WorkDemand::All), [SLICED_ENTRIES_LEAST - 1, 300]);
    assert_eq!(taken(&queue, 0), "pack");
    queue.release(&top, &counters);
    queue.release(&top, &counters);
    let ends: Vec<_> = queue.take_finished().iter().map(|node| node.end(true).unwrap().has_slices).collect();
    assert_eq!(ends, [true]);
    queue.complete(2);
    assert!(queue.is_over());
}

#[test]
fn a_run_is_over_when_all_that_was_begun_is_done() {
    let queue = TaskQueue::new(false, 24);
    queue.add(vec![directory("d", TargetState::Absent)], vec![pack(&node("d", None))], vec![file("a")]);
    queue.add(Vec::new(), Vec::new(), Vec::new());
    assert!(!queue.is_over() && !queue.scan_done() && queue.has_waiting());
    queue.start();
    assert!(!queue.scan_done());
    queue.scanned(1);
    assert!(queue.scan_done() && !queue.is_over());
    queue.hold(2);
    queue.complete(4);
    assert!(!queue.is_over());
    queue.complete(1);
    assert!(queue.is_over() && !queue.is_stopped());
    assert_eq!(taken(&queue, 0), "the end");
    // A wait ends at once when no work can come.
    queue.wait(Duration::from_secs(3600));
}

#[test]
fn a_run_that_is_stopped_is_over_whatever_is_left() {
    let queue = TaskQueue::new(false, 24);
    queue.add(Vec::new(), Vec::new(), vec![file("a")]);
    assert!(!queue.is_stopped() && !queue.is_over());
    queue.stop();
    assert!(queue.is_stopped() && queue.is_over());
    assert_eq!(taken(&queue, 1), "the end");
}

#[test]
fn whatever_no_lane_has_taken_is_waiting() {
    let waits = |queue: &TaskQueue| queue.has_waiting();
    let queue = TaskQueue::new(false, 24);
    assert!(!waits(&queue));
    queue.add(vec![directory("d", TargetState::Absent)], Vec::new(), Vec::new());
    assert!(waits(&queue));
    taken(&queue, 0);
    queue.add(Vec::new(), vec![pack(&node("d", None))], Vec::new());
    assert!(waits(&queue));
    taken(&queue, 0);
    assert!(!waits(&queue));
    queue.add(Vec::new(), Vec::new(), vec![file("a")]);
    assert!(waits(&queue));
    taken(&queue, 0);
    let file = file("a");
    queue.activate(file.clone());
    assert!(waits(&queue));
    while file.take_chunk().is_some() {}
    assert!(!waits(&queue));
}

#[test]
fn a_file_without_chunks_left_is_taken_by_nobody() {
    let queue = TaskQueue::new(false, 24);
    let (empty, other) = (file("a"), file("b"));
    queue.add(Vec::new(), Vec::new(), vec![empty.clone(), other.clone()]);
    queue.start();
    assert_eq!([(); 2].map(|()| taken(&queue, 1)), ["begin a", "begin b"]);
    while empty.take_chunk().is_some() {}
    queue.activate(empty);
    assert_eq!(taken(&queue, 1), "nothing");
    queue.activate(other);
    assert_eq!(taken(&queue, 1), "chunks of b");
}

#[test]
fn no_more_drafts_are_open_than_the_target_has_descriptors_for() {
    let queue = TaskQueue::new(false, 24);
    queue.add(Vec::new(), Vec::new(), (0..=DRAFTS_MAX).map(|_| file("a")).collect());
    queue.start();
    (0..DRAFTS_MAX).for_each(|_| assert_eq!(taken(&queue, 1), "begin a"));
    assert_eq!(taken(&queue, 1), "nothing");
    queue.draft_done();
    assert_eq!(taken(&queue, 1), "begin a");
}

#[test]
fn scanning_pauses_while_much_waits() {
    let queue = TaskQueue::new(false, 24);
    let packs = |count| (0..count).map(|_| pack(&node("d", None))).collect();
    queue.add(vec![directory("d", TargetState::Absent)], packs(PACKS_MAX), Vec::new());
    assert_eq!(taken(&queue, 0), "pack");
    queue.add(Vec::new(), Vec::new(), (0..FILES_MAX).map(|_| file("a")).collect());
    // With this many large files the first lane takes one of them as well.
    assert_eq!(taken(&queue, 0), "begin a");
    assert_eq!((1..PACKS_MAX).filter(|_| taken(&queue, 0) == "pack").count(), PACKS_MAX - 1);
    assert_eq!(taken(&queue, 0), "directory d");
}

#[test]
fn a_directory_of_which_nothing_is_set_is_only_counted() {
    let (queue, counters) = (TaskQueue::new(false, 24), LaneCounters::default());
    let path = EntryPath::new("d").unwrap();
    let place = (vec![Origin::whole(0, path.clone())], path);
    let above =
        DirectoryNode::new(place.clone(), (None, CountedDirectory::Not), None, TouchedAttributes::Yes);
    let node = DirectoryNode::new(
        place,
        (None, CountedDirectory::Created),
        Some(above.clone()),
        TouchedAttributes::Yes,
    );
    queue.add(vec![DirectoryTask::new(node.clone(), TargetState::Absent)], Vec::new(), Vec::new());
    queue.start();
    queue.release(&above, &counters);
    queue.release(&node, &counters);
    assert!(queue.take_finished().is_empty());
    assert_eq!(counters.entries_created.get(), 1);
    queue.complete(1);
    assert!(queue.is_over());
    // A directory with attributes to set keeps the run going.
    queue.release(&self::node("e", None), &counters);
    assert!(!queue.is_over() && queue.take_finished().len() == 1);
}
