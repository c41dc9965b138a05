//! Predictions from made-up figures.

use std::time::Duration;

use hakobu_core::host::KernelName;
use hakobu_core::probe::{TreeFigures, WayFigures, WayStep, WriteFigures};

use super::prediction::SECONDS_MAX;
use super::*;

const SECOND: u64 = 1_000_000_000;

/// `bytes` in one second, by one thread with `processor_ns` of processor time.
fn work(bytes: u64, processor_ns: u64) -> MeasuredWork {
    MeasuredWork { count: 1, bytes, elapsed_ns: SECOND, processor_ns, queued_ns: 0, threads: 1 }
}

fn machine(name: &str) -> MachineFigures {
    MachineFigures {
        boot_id: KernelName::new(name),
        processors: 4,
        quota_permille: None,
        copied_bytes_per_second: 10_000_000_000,
        hashed_bytes_per_second: 10_000_000_000,
        compressors: Vec::new(),
    }
}

fn source(bytes_per_second: u64) -> ReadFigures {
    ReadFigures {
        size_bytes: 10_000_000_000,
        how: ReadHow::Dropped,
        content: Some(work(bytes_per_second, SECOND / 10)),
        cached_permille: Some(0),
        ..ReadFigures::default()
    }
}

fn target(bytes_per_second: u64) -> WriteFigures {
    WriteFigures {
        how: WriteHow::Written,
        content: Some(work(bytes_per_second, SECOND / 10)),
        in_memory: Some(work(bytes_per_second, SECOND / 10)),
        held_bytes: Some(1_000_000_000),
        ..WriteFigures::default()
    }
}

/// A network path with this rate, which costs the processors little.
fn line(bytes_per_second: u64) -> WayFigures {
    let step = |connections, bytes| WayStep {
        connections,
        sent: work(bytes, SECOND / 20),
        receiver_processor_ns: SECOND / 20,
        ..WayStep::default()
    };
    let steps = vec![step(1, bytes_per_second / 4), step(2, bytes_per_second / 2), step(4, bytes_per_second)];
    WayFigures { steps, ..WayFigures::default() }
}

struct Case {
    source: ReadFigures,
    target: WriteFigures,
    way: Option<WayFigures>,
    machines: [MachineFigures; 2],
}

impl Case {
    fn new(read: u64, way: u64, write: u64) -> Self {
        let machines = [machine("one"), machine("other")];
        Self { source: source(read), target: target(write), way: Some(line(way)), machines }
    }

    fn predict(&self) -> Prediction {
        predict(&Measurements {
            source: Some(&self.source),
            target: Some(&self.target),
            source_machine: Some(&self.machines[0]),
            target_machine: Some(&self.machines[1]),
            way: self.way.as_ref(),
            apart: self.way.is_some(),
            start: Duration::from_secs(1),
            round_trip: Duration::from_millis(1),
            lanes: (4, 32),
            gentle: false,
            limit_bytes_per_second: None,
        })
    }
}

#[track_caller]
fn limited(case: &Case, stage: TransferStage, bytes_per_second: f64) {
    let slowest = case.predict().slowest.unwrap();
    assert_eq!(slowest.stage, stage);
    assert!((slowest.bytes_per_second / bytes_per_second - 1.0).abs() < 0.03, "{slowest:?}");
}

#[test]
fn the_slowest_stage_limits() {
    limited(&Case::new(100_000_000, 1_000_000_000, 500_000_000), TransferStage::SourceRead, 100e6);
    // Lanes that alternate between reading and processing get less than either stage.
    assert!((in_turn(1e9, 1e9, 1.0) - 0.5e9).abs() < 1.0 && (in_turn(1e9, 1e9, 2.0) - 2e9 / 3.0).abs() < 1.0);
    assert!((in_turn(1e9, 50e9, 8.0) / 1e9 - 1.0).abs() < 1e-6);
    limited(&Case::new(1_000_000_000, 110_000_000, 500_000_000), TransferStage::Network, 110e6);
    limited(&Case::new(1_000_000_000, 900_000_000, 50_000_000), TransferStage::TargetWrite, 50e6);
}

#[test]
fn what_is_in_memory_is_not_read_from_the_medium() {
    let mut case = Case::new(100_000_000, 150_000_000, 500_000_000);
    case.source.cached_permille = Some(500);
    limited(&case, TransferStage::Network, 150e6);
    assert!(case.predict().stages.iter().any(|stage| (stage.bytes_per_second - 200e6).abs() < 1e6));
}

#[test]
fn processors_that_hold_the_connections_limit_more_with_files_at_both_ends() {
    // Both ends share the same four processors, which the connections used completely.
    let mut case = Case::new(20_000_000_000, 0, 20_000_000_000);
    case.machines[1] = case.machines[0].clone();
    let sent = MeasuredWork { processor_ns: 2 * SECOND, threads: 4, ..work(2_000_000_000, 0) };
    let step = WayStep { connections: 4, sent, receiver_processor_ns: 2 * SECOND, ..WayStep::default() };
    case.way = Some(WayFigures { steps: vec![step], ..WayFigures::default() });
    case.source.content = Some(work(4_000_000_000, SECOND));
    case.target.in_memory = Some(work(4_000_000_000, SECOND));
    // Two nanoseconds per byte for the connections, and half a nanosecond for the files.
    limited(&case, TransferStage::Processor, 2e9 * 2.0 / 2.5);
    // Separate processors for each end: the source is the limit.
    case.machines[1] = machine("other");
    case.machines[0].processors = 2;
    let found = case.predict();
    assert_eq!(found.slowest.unwrap().stage, TransferStage::SourceProcessor);
    assert!(found.stages.iter().any(|stage| stage.stage == TransferStage::Network && stage.at_least));
}

#[test]
fn a_file_takes_its_login_its_bytes_and_what_is_held_at_the_end() {
    let case = Case::new(10_000_000_000, 100_000_000, 1_000_000_000);
    let (bytes, span) = case.predict().file.unwrap();
    assert_eq!((bytes, span.limited_by), (10_000_000_000, "network"));
    // 1 s for the login, 100 s for the network, and the data that arrived in the last second.
    assert!((span.seconds - 101.1).abs() < 0.1, "{span:?}");
    let slow = Case::new(10_000_000_000, 100_000_000, 50_000_000);
    let (_, span) = slow.predict().file.unwrap();
    assert!((span.seconds - 202.0).abs() < 0.5, "{span:?}");
}

fn tree(files: u64) -> TreeFigures {
    TreeFigures {
        files,
        directories: files / 100,
        others: 0,
        bytes: files * 1000,
        allocated_bytes: files * 1000,
        small_files: files,
        small_bytes: files * 1000,
        scan: MeasuredWork {
            count: files + files / 100,
            elapsed_ns: SECOND,
            processor_ns: SECOND,
            queued_ns: 0,
            threads: 1,
            bytes: 0,
        },
        complete: true,
    }
}

#[test]
fn files_cost_more_than_their_bytes() {
    let mut case = Case::new(1_000_000_000, 1_000_000_000, 1_000_000_000);
    (case.source.size_bytes, case.source.tree) = (0, Some(tree(100_000)));
    let each = |microseconds: u64| {
        Some(MeasuredWork { count: 1000, processor_ns: microseconds * 1_000_000, ..work(1_000_000, 0) })
    };
    (case.source.small, case.target.small) = (each(20), each(100));
    let made = case.predict().tree.unwrap();
    assert!(made.first.seconds > 1.0 + 100_000.0 * 100e-6 / 4.0, "{made:?}");
    assert!((2.0..3.0).contains(&made.unchanged.seconds) && !made.at_least, "{made:?}");
    // A server on which each file waits.
    case.target.small = Some(MeasuredWork { count: 100, ..work(1, 1_000_000) });
    let waits = case.predict().tree.unwrap();
    assert_eq!(waits.first.limited_by, "making small files");
    // Each of four lanes creates one file at a time.
    assert!((waits.first.seconds - 251.0).abs() < 1.0, "{waits:?}");
    if let Some(tree) = &mut case.source.tree {
        tree.complete = false;
    }
    assert!(case.predict().tree.unwrap().at_least);
}

#[test]
fn what_was_not_measured_is_named() {
    let mut case = Case::new(100_000_000, 1_000_000_000, 1);
    case.target = WriteFigures { how: WriteHow::ReadOnly, ..WriteFigures::default() };
    let made = case.predict();
    assert_eq!(made.unknown, [TransferStage::TargetWrite]);
    assert_eq!(made.slowest.unwrap().stage, TransferStage::SourceRead);
    // A network path whose measurement failed still exists.
    let gentle =
        predict(&Measurements { source: Some(&case.source), gentle: true, ..Measurements::default() });
    assert!(gentle.stages.iter().any(|stage| stage.stage == TransferStage::SourceRead && stage.at_least));
    let broken =
        predict(&Measurements { source: Some(&case.source), apart: true, ..Measurements::default() });
    assert!(broken.unknown.contains(&TransferStage::Network), "{broken:?}");
    let nothing = predict(&Measurements::default());
    assert_eq!((nothing.slowest, nothing.file, nothing.tree), (None, None, None));
}

#[test]
fn a_control_group_holds_its_end_and_no_other() {
    // Both ends are on one machine with four processors. A byte costs half a nanosecond at each end.
    let mut case = Case::new(20_000_000_000, 0, 20_000_000_000);
    case.machines[1] = case.machines[0].clone();
    (case.machines[0].processors, case.machines[0].quota_permille) = (1, Some(200));
    let sent = MeasuredWork { processor_ns: SECOND / 5, ..work(400_000_000, 0) };
    let step = WayStep { connections: 1, sent, receiver_processor_ns: SECOND / 5, ..WayStep::default() };
    case.way = Some(WayFigures { steps: vec![step], ..WayFigures::default() });
    case.source.content = Some(work(4_000_000_000, SECOND));
    // A fifth of a processor, for half a nanosecond of the connections and a quarter for reading.
    limited(&case, TransferStage::SourceProcessor, 0.2e9 / 0.75);
    case.machines.swap(0, 1);
    limited(&case, TransferStage::TargetProcessor, 0.2e9 / 0.5);
    // In one process the limit applies to both ends.
    case.way = None;
    case.machines.swap(0, 1);
    assert_eq!(case.predict().slowest.unwrap().stage, TransferStage::Processor);
}

#[test]
fn what_processors_held_is_no_medium() {
    // Reading from memory at the speed of a copying processor.
    let mut case = Case::new(2_000_000_000, 10_000_000_000, 20_000_000_000);
    case.source.content = Some(work(2_000_000_000, SECOND));
    let made = case.predict();
    let read = made.stages.iter().find(|stage| stage.stage == TransferStage::SourceRead).unwrap();
    assert!(read.is_held && read.at_least, "{made:?}");
    assert_ne!(made.slowest.unwrap().stage, TransferStage::SourceRead);
}

#[test]
fn a_copy_begins_with_its_lanes_and_ends_with_the_best_count() {
    let mut case = Case::new(20_000_000_000, 320_000_000, 20_000_000_000);
    let steps = [1, 2, 4, 8, 16, 32].map(|connections: u16| WayStep {
        connections,
        sent: work(u64::from(connections) * 10_000_000, SECOND / 20),
        receiver_processor_ns: SECOND / 20,
        ..WayStep::default()
    });
    case.way = Some(WayFigures { steps: steps.to_vec(), ..WayFigures::default() });
    // Ten seconds with four lanes, then 32.
    let (_, span) = case.predict().file.unwrap();
    assert!((span.seconds - (1.0 + 10.0 + 9.6e9 / 320e6)).abs() < 0.2, "{span:?}");
    // Through ssh, the number of lanes stays at four.
    let measured = Measurements {
        source: Some(&case.source),
        target: Some(&case.target),
        source_machine: Some(&case.machines[0]),
        target_machine: Some(&case.machines[1]),
        way: case.way.as_ref(),
        apart: true,
        lanes: (4, 4),
        ..Measurements::default()
    };
    let slowest = predict(&measured).slowest.unwrap();
    assert_eq!((slowest.stage, slowest.bytes_per_second), (TransferStage::Network, 40e6));
}

#[test]
fn a_limit_that_was_asked_for_is_named_as_what_limits() {
    let mut case = Case::new(1_000_000_000, 1_000_000_000, 1_000_000_000);
    let limited = |case: &Case, limit_bytes_per_second| {
        let measured = Measurements {
            source: Some(&case.source),
            target: Some(&case.target),
            source_machine: Some(&case.machines[0]),
            target_machine: Some(&case.machines[1]),
            way: case.way.as_ref(),
            apart: true,
            lanes: (4, 4),
            limit_bytes_per_second,
            ..Measurements::default()
        };
        predict(&measured)
    };
    assert_ne!(limited(&case, None).slowest.unwrap().stage, TransferStage::Limit);
    let made = limited(&case, Some(20_000_000));
    assert_eq!(
        made.slowest.map(|slowest| (slowest.stage, slowest.bytes_per_second)),
        Some((TransferStage::Limit, 20e6))
    );
    let (bytes, span) = made.file.unwrap();
    assert!((span.seconds / (bytes as f64 / 20e6) - 1.0).abs() < 0.1, "{span:?}");
    (case.source.size_bytes, case.source.tree) = (0, Some(tree(100_000)));
    let first = limited(&case, Some(2_000_000)).tree.unwrap().first;
    assert_eq!(first.limited_by, "rate limit");
    assert!(first.seconds > 100e6 / 2e6, "{first:?}");
    // A limit above all other rates has no effect.
    assert_ne!(limited(&case, Some(u64::MAX >> 30)).slowest.unwrap().stage, TransferStage::Limit);
}

#[test]
fn a_tree_on_a_medium_is_written_when_all_of_it_is_in_memory() {
    let mut case = Case::new(1_000_000_000, 1_000_000_000, 50_000_000);
    (case.source.size_bytes, case.source.tree) = (0, Some(tree(100_000)));
    // 100 MB, and 3 KiB more per file.
    let first = case.predict().tree.unwrap().first;
    assert_eq!(first.limited_by, "target write");
    assert!(first.seconds > 1.0 + (100e6 + 100_000.0 * 3072.0) / 50e6, "{first:?}");
    assert!(first.seconds < 13.0, "{first:?}");
}

#[test]
fn a_server_that_is_asked_for_each_name_is_listed_as_fast() {
    let mut case = Case::new(1_000_000_000, 1_000_000_000, 1_000_000_000);
    (case.source.size_bytes, case.source.tree) = (0, Some(tree(100_000)));
    let asked =
        |elapsed_ns| Some(MeasuredWork { count: 1000, elapsed_ns, processor_ns: 1_000_000, ..work(0, 0) });
    case.target.lookups = asked(1_000_000);
    let near = case.predict().tree.unwrap().unchanged.seconds;
    case.target.lookups = asked(SECOND);
    let far = case.predict().tree.unwrap().unchanged.seconds;
    assert!(near < 4.0 && (far - 101.9).abs() < 1.0, "{near} {far}");
}

#[test]
fn what_is_in_memory_is_read_no_faster_than_memory_is_copied() {
    let mut case = Case::new(1_000_000_000, 1_000_000_000, 1_000_000_000);
    let mut read = |permille| {
        case.source.cached_permille = Some(permille);
        let stages = case.predict().stages;
        stages.iter().find(|stage| stage.stage == TransferStage::SourceRead).unwrap().bytes_per_second
    };
    let [none, half, all] = [0, 500, 1000].map(&mut read);
    assert!(none <= 1e9 && half > none && half <= 2e9, "{none} {half}");
    assert_eq!(all, 4.0 * 10e9);
}

#[test]
fn a_thread_that_is_held_back_from_the_processor_does_not_wait_for_a_disk() {
    let mut case = Case::new(1_000_000_000, 1_000_000_000, 1_000_000_000);
    (case.source.size_bytes, case.source.tree) = (0, Some(tree(100_000)));
    let mut made = |queued_ns| {
        case.target.small = Some(MeasuredWork { count: 600, queued_ns, ..work(0, SECOND / 100) });
        case.predict().tree.unwrap().first
    };
    let (waits, is_held) = (made(0), made(SECOND / 100 * 98));
    assert_eq!(waits.limited_by, "making small files");
    assert_ne!(is_held.limited_by, "making small files");
    assert!(waits.seconds > is_held.seconds * 2.0, "{waits:?} {is_held:?}");
}

/// Whatever figures a peer sends, the prediction contains only plausible times and rates, or nothing.
#[test]
fn nonsense_leads_to_nothing_absurd() {
    let odd = [0, 1, 1 << 40, u64::MAX];
    let mut state = 1_u64;
    let mut any = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        odd[(state >> 60) as usize % odd.len()]
    };
    for _ in 0..20_000 {
        let mut work = || MeasuredWork {
            count: any(),
            bytes: any(),
            elapsed_ns: any(),
            processor_ns: any(),
            queued_ns: any(),
            threads: any() as u16,
        };
        let trees = [work(), work()].map(|scan| TreeFigures {
            scan,
            files: scan.count,
            bytes: scan.bytes,
            small_files: scan.elapsed_ns,
            ..tree(7)
        });
        let (sent, content, small, written, made) = (work(), work(), work(), work(), work());
        let mut case = Case::new(1, 1, 1);
        case.source = ReadFigures {
            content: Some(content),
            small: Some(small),
            tree: Some(trees[0]),
            size_bytes: any(),
            cached_permille: Some(any() as u16),
            ..ReadFigures::default()
        };
        case.target = WriteFigures {
            how: WriteHow::Written,
            content: Some(written),
            in_memory: Some(made),
            small: Some(made),
            tree: Some(trees[1]),
            held_bytes: Some(any()),
            ..WriteFigures::default()
        };
        let step =
            WayStep { connections: any() as u16, sent, receiver_processor_ns: any(), ..WayStep::default() };
        case.way = Some(WayFigures { steps: vec![step], ..WayFigures::default() });
        case.machines[0].processors = any() as u16;
        case.machines[0].copied_bytes_per_second = any();
        let made = case.predict();
        let sound = |seconds: f64| seconds.is_finite() && (0.0..=SECONDS_MAX).contains(&seconds);
        assert!(made.stages.iter().all(|stage| sound_rate(stage.bytes_per_second).is_some()), "{made:?}");
        assert!(made.file.is_none_or(|(_, span)| sound(span.seconds)), "{made:?}");
        assert!(
            made.tree.is_none_or(|tree| sound(tree.first.seconds) && sound(tree.unchanged.seconds)),
            "{made:?}"
        );
    }
}
