use std::collections::BTreeSet;

use super::*;
use crate::counters::LaneStage;
use crate::losses::LossKind;

fn filled() -> Report {
    let mut sum = CounterTotals { entries_created: 3, entries_unchanged: 4, ..CounterTotals::default() };
    sum.target_written_bytes = 3_000;
    sum.stage_ns[LaneStage::Read as usize] = 61;
    sum.stage_ns[LaneStage::Send as usize] = 39;
    let mut report = Report { user: "x".into(), ..Report::default() };
    report.source = ReportEnd::typed(b"/a\xff");
    report.target = ReportEnd::typed(b"h:/b");
    report.seconds = ReportSeconds { total: 3.0, transfer: 2.0, ..ReportSeconds::default() };
    let loss = Loss { what: LossKind::Xattr, count: 2, at_target: false, example: b"p".to_vec() };
    report.losses = vec![ReportLoss::from(&loss)];
    report.set_figures(&sum);
    let error = Error::new(ErrorKind::PermissionDenied, "reading", "permission denied");
    let failure = Failure { path: b"q\n\xfe".to_vec(), error };
    report.conclude(&[failure], None, false);
    report
}

#[test]
fn a_report_survives_json() {
    let report = filled();
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    let empty = Report::default();
    let json = serde_json::to_string(&empty).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), empty);
}

#[test]
fn what_an_older_version_did_not_write_has_its_default() {
    let json = r#"{"schema":"hakobu.report/1","outcome":"done","source":{"typed":"a"},"more":1,
        "bottleneck":{"stage":"hash","share":1},"failures":[{"path":"p"}],"losses":[{"what":"acl"}]}"#;
    let report: Report = serde_json::from_str(json).unwrap();
    assert_eq!((report.outcome, report.source.typed.as_str()), (Outcome::Done, "a"));
    assert_eq!((report.failures[0].path.as_str(), report.losses[0].count), ("p", 0));
    assert_eq!((report.timeline, report.entries), (None, ReportEntries::default()));
}

#[test]
fn the_promised_fields_are_there_even_when_nothing_is_known() {
    let value = serde_json::to_value(Report::default()).unwrap();
    let keys = |value: &serde_json::Value| -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let promised = |text: &str| -> BTreeSet<String> { text.split(' ').map(str::to_owned).collect() };
    assert!(keys(&value).is_superset(&promised(
        "schema outcome job version command user started_at ended_at source target transport \
         cipher compression lanes_max entries bytes seconds throughput_bytes_per_second bottleneck \
         digest_blake3 verified losses failures resumed peak_memory_bytes"
    )));
    for (field, names) in [
        ("source", "typed typed_base64 resolved identity"),
        (
            "entries",
            "scanned created updated unchanged attributes_only different compared deleted only_in_target skipped failed \
             directories_created sockets_skipped examined",
        ),
        (
            "bytes",
            "source_read target_read target_written wire_sent wire_received zeros_skipped compressed compressed_to planned",
        ),
        ("seconds", "total connect scan transfer verify paused held_still"),
        ("peak_memory_bytes", "source target"),
    ] {
        assert_eq!(keys(&value[field]), promised(names), "{field}");
    }
    assert_eq!(value["schema"], "hakobu.report/1");
    assert!(value["digest_blake3"].is_null() && value["bottleneck"].is_null());
}

#[test]
fn figures_and_failures_are_taken_over() {
    let report = filled();
    assert_eq!((report.outcome, report.exit_code), (Outcome::Partial, 3));
    assert_eq!(report.throughput_bytes_per_second, 1_500);
    assert_eq!(report.entries.failed, 1);
    let failure = &report.failures[0];
    assert_eq!((failure.path.as_str(), failure.kind.as_str()), ("q\n\u{fffd}", "permission_denied"));
    assert_eq!(failure.path_base64.as_deref(), Some("cQr+"));
    assert_eq!(report.source.typed_base64.as_deref(), Some("L2H/"));
    assert_eq!(report.target.typed_base64, None);
    assert_eq!(report.bottleneck.unwrap().words(), "source read 61 %");
}

#[test]
fn base64_is_the_standard_one() {
    for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
        assert_eq!(base64(bytes.as_bytes()), text);
        assert_eq!(from_base64(text).unwrap(), bytes.as_bytes());
    }
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(from_base64(&base64(&all)).unwrap(), all);
    for wrong in ["Z", "Zg", "Zg=", "Zh==", "====", "Zg==Zg==", "Zm9v\n", "Z=9v", "Zm9-"] {
        assert_eq!(from_base64(wrong), None, "{wrong}");
    }
}

#[test]
fn the_worst_that_holds_decides_the_outcome() {
    use ErrorKind::{
        Cancelled, ConnectionLost, Io, Locked, NoSpace, NotFound, Refused, Requirement, SourceChanged,
        SourceVanished, Usage,
    };
    // The columns are: failures, fatal, interrupted, differences, something done, expected.
    for (failures, fatal, interrupted, differences, something_done, expected) in [
        (&[][..], None, false, false, true, Outcome::Done),
        (&[], None, false, false, false, Outcome::Done),
        (&[Io], None, false, false, true, Outcome::Partial),
        (&[Io], None, false, false, false, Outcome::Failed),
        (&[SourceVanished, SourceChanged], None, false, false, true, Outcome::SourceChanged),
        (&[SourceChanged], None, false, false, false, Outcome::SourceChanged),
        (&[SourceChanged, Io], None, false, false, true, Outcome::Partial),
        (&[], Some(SourceChanged), false, false, false, Outcome::SourceChanged),
        (&[Io], None, false, true, true, Outcome::Differences),
        (&[], Some(NoSpace), false, true, true, Outcome::Failed),
        (&[], Some(NotFound), false, false, false, Outcome::Failed),
        (&[Io], Some(Refused), true, true, true, Outcome::Refused),
        (&[], Some(Locked), false, false, false, Outcome::Refused),
        (&[], Some(Requirement), false, false, false, Outcome::Refused),
        (&[Requirement], None, false, false, true, Outcome::Refused),
        (&[Requirement], None, false, false, false, Outcome::Refused),
        (&[Refused], None, false, false, false, Outcome::Refused),
        (&[Io, Locked], None, false, false, true, Outcome::Refused),
        (&[], Some(ConnectionLost), true, false, true, Outcome::Interrupted),
        (&[], Some(Cancelled), false, false, true, Outcome::Interrupted),
        (&[], Some(Usage), false, false, false, Outcome::WrongUsage),
    ] {
        let facts = OutcomeFacts {
            failures,
            fatal,
            interrupted,
            differences,
            something_done,
            ..OutcomeFacts::default()
        };
        assert_eq!(outcome(&facts), expected, "{facts:?}");
    }
    let refused = OutcomeFacts { refused: true, interrupted: true, ..OutcomeFacts::default() };
    assert_eq!(outcome(&refused), Outcome::Refused);
    for failures in [&[][..], &[ErrorKind::SourceVanished]] {
        let withheld =
            OutcomeFacts { withheld: true, failures, something_done: true, ..OutcomeFacts::default() };
        assert_eq!(outcome(&withheld), Outcome::Partial);
    }
}

#[test]
fn outcomes_have_the_promised_names_and_codes() {
    for (outcome, name, code) in [
        (Outcome::Done, "done", 0),
        (Outcome::Failed, "failed", 1),
        (Outcome::WrongUsage, "failed", 2),
        (Outcome::Partial, "partial", 3),
        (Outcome::Differences, "differences", 4),
        (Outcome::SourceChanged, "source_changed", 5),
        (Outcome::Refused, "refused", 6),
        (Outcome::Interrupted, "interrupted", 130),
    ] {
        assert_eq!(serde_json::to_value(outcome).unwrap(), name);
        assert_eq!(outcome.exit_code(), code);
    }
}

#[test]
fn the_scan_is_the_limit_only_when_it_dominates_and_idleness_when_there_is_nothing_else() {
    // The columns are: scan, read, hash, send, wait, idle, sync, held, compress.
    for (stage_ns, expected) in [
        ([0, 0, 0, 0, 0, 0, 0, 0, 0], None),
        ([40, 30, 0, 10, 0, 20, 0, 0, 0], Some("source read 38 %")),
        ([10, 20, 0, 10, 15, 45, 0, 0, 0], Some("target 27 %")),
        ([60, 30, 0, 10, 0, 0, 0, 0, 0], Some("scan 60 %")),
        // Lanes without work do not hide the stages of a lane that has some.
        ([10, 10, 0, 0, 0, 80, 0, 0, 0], Some("source read 50 %")),
        ([30, 0, 0, 0, 0, 30, 0, 0, 0], Some("scan 100 %")),
        ([0, 0, 0, 0, 0, 30, 0, 0, 0], Some("idle 100 %")),
        ([0, 0, 60, 20, 11, 0, 9, 0, 0], Some("hash 60 %")),
        ([0, 10, 0, 35, 0, 0, 0, 55, 0], Some("rate limit 55 %")),
        ([0, 10, 0, 20, 10, 0, 0, 0, 60], Some("source processor 60 %")),
    ] {
        let words = Bottleneck::of(&CounterTotals { stage_ns, remote: true, ..CounterTotals::default() })
            .map(|bottleneck| bottleneck.words());
        assert_eq!(words.as_deref(), expected, "{stage_ns:?}");
    }
}

#[test]
fn of_several_limits_that_were_asked_for_the_one_that_held_most_is_named() {
    for (operations, latency, expected, option) in [
        (0, 0, "rate limit 80 %", "--bwlimit"),
        (30, 10, "rate limit 40 %", "--bwlimit"),
        (50, 0, "operation limit 50 %", "--iops-limit"),
        (10, 60, "source latency limit 60 %", "--source-p99"),
        // Figures from another machine may be inconsistent.
        (u64::MAX, u64::MAX, "operation limit 80 %", "--iops-limit"),
    ] {
        let mut figures =
            CounterTotals { stage_ns: [0, 20, 0, 0, 0, 0, 0, 80, 0], ..CounterTotals::default() };
        (figures.held_by_operations_ns, figures.held_by_latency_ns) = (operations, latency);
        let found = Bottleneck::of(&figures).unwrap();
        assert_eq!(found.words(), expected);
        // The stages list this limit with the same share, and the other limits with theirs.
        assert_eq!(found.stages.get(&found.stage), Some(&found.share), "{:?}", found.stages);
        let held = ["rate limit", "operation limit", "source latency limit"];
        let held: f64 = held.iter().filter_map(|name| found.stages.get(*name)).sum();
        assert!((held - 0.8).abs() < 1e-9, "{:?}", found.stages);
        assert!(found.advice.contains(option), "{}", found.advice);
    }
}

/// Returns the figures of two lanes over ten seconds whose threads waited for the remote host and used next to no
/// processor time.
fn waiting() -> CounterTotals {
    let mut figures = CounterTotals { remote: true, near_processor_ns: 1_000, ..CounterTotals::default() };
    figures.stage_ns[LaneStage::Read as usize] = 2_000;
    figures.stage_ns[LaneStage::Send as usize] = 17_000;
    figures.stage_ns[LaneStage::Wait as usize] = 1_000;
    (figures.far_ns, figures.far_input_ns, figures.far_work_ns) = (20_000, 18_000, 1_500);
    (figures.far_processor_ns, figures.way_busy_us) = (1_000, 19);
    figures
}

#[test]
fn what_limits_is_found_beyond_the_lanes() {
    let said = |change: fn(&mut CounterTotals)| {
        let mut figures = waiting();
        change(&mut figures);
        Bottleneck::of(&figures).unwrap().words()
    };
    assert_eq!(said(|_| {}), "network 95 %");
    let between = Bottleneck::of(&CounterTotals { way_busy_us: 0, ..waiting() }).unwrap();
    assert!(between.words().starts_with("network") && between.advice.contains("ssh"), "{between:?}");
    assert_eq!(said(|figures| figures.way_window_us = 15), "target's receive window 79 %");
    assert_eq!(said(|figures| figures.way_buffer_us = 18), "source's send buffer 95 %");
    assert_eq!(said(|figures| figures.way_busy_us = 3), "round trips 90 %");
    // A compressor that takes the lanes' time is the bottleneck only if the network is idle meanwhile.
    fn packs(figures: &mut CounterTotals) {
        figures.stage_ns[LaneStage::Compress as usize] = 9_500;
        figures.stage_ns[LaneStage::Send as usize] = 7_500;
        figures.near_processor_ns = 9_500;
    }
    assert_eq!(said(packs), "network 95 %");
    // Unknown while the remote host has not reported anything.
    let alone = |figures: &mut CounterTotals| {
        packs(figures);
        figures.far_ns = 0;
    };
    assert_eq!(said(alone), "source processor 48 %");
    let packs_alone = |figures: &mut CounterTotals| {
        packs(figures);
        figures.way_busy_us = 5;
    };
    assert_eq!(said(packs_alone), "source processor 48 %");
    let writes = |figures: &mut CounterTotals| (figures.far_input_ns, figures.far_work_ns) = (1_000, 18_800);
    assert_eq!(said(writes), "target write 94 %");
    // Waiting for a processor counts as much as using it.
    assert_eq!(said(|figures| figures.far_queued_ns = 17_000), "target processor 90 %");
    assert_eq!(said(|figures| figures.near_queued_ns = 17_000), "source processor 90 %");
    let both =
        |figures: &mut CounterTotals| (figures.near_queued_ns, figures.far_queued_ns) = (14_000, 18_000);
    assert_eq!(said(both), "target processor 95 %");
    // Both ends take turns, and the network has capacity left, or has not.
    let turns = |figures: &mut CounterTotals| {
        (figures.near_queued_ns, figures.far_queued_ns, figures.way_busy_us) = (12_500, 11_500, 8);
    };
    assert_eq!(said(turns), "source processor 68 %");
    let full =
        |figures: &mut CounterTotals| (figures.near_queued_ns, figures.far_queued_ns) = (10_000, 10_000);
    assert_eq!(said(full), "network 95 %");
    let reads = |figures: &mut CounterTotals| (figures.stage_ns[1], figures.stage_ns[3]) = (17_000, 2_000);
    assert_eq!(said(reads), "source read 85 %");
    // If the remote host has not reported yet, the stage is named instead.
    assert_eq!(said(|figures| figures.far_ns = 0), "send 85 %");
}

#[test]
fn on_one_machine_there_is_neither_way_nor_far_end() {
    let mut figures = CounterTotals::default();
    figures.stage_ns[LaneStage::Send as usize] = 70;
    figures.stage_ns[LaneStage::Read as usize] = 30;
    assert_eq!(Bottleneck::of(&figures).unwrap().words(), "target write 70 %");
    let mut comparison = Bottleneck::of(&figures).unwrap();
    comparison.name_comparison();
    assert_eq!(comparison.words(), "target read 70 %");
    assert!(comparison.advice.contains("reads from it"), "{}", comparison.advice);
    figures.near_processor_ns = 90;
    let limit = Bottleneck::of(&figures).unwrap();
    assert_eq!((limit.words().as_str(), limit.resources.len()), ("processor 90 %", 1));
    assert!(!limit.advice.is_empty());
}

/// The latency of a file server is named as the bottleneck if operations take about as long as the answers to their
/// requests.
#[test]
fn a_slow_file_server_is_told_from_a_slow_disk_by_its_latency() {
    const MS: u64 = 1_000_000;
    // A hundred small files, each of which takes eight requests to the server.
    let reading = |answer_ns: Option<u64>, each_ns: u64| {
        let mut figures = CounterTotals { source_answer_ns: answer_ns, ..CounterTotals::default() };
        (figures.source_reads, figures.source_requests) = (100, 800);
        figures.stage_ns[LaneStage::Read as usize] = 100 * each_ns;
        Bottleneck::of(&figures).unwrap()
    };
    let found = reading(Some(20 * MS), 126 * MS);
    assert_eq!(found.words(), "latency of the source's file server 100 %");
    assert_eq!(found.file_server, Some(FileServer { operation_ms: 126.0, answer_ms: 20.0 }));
    assert!(found.advice.contains("--lanes"), "{}", found.advice);
    // The server answers fast but reads take long; the server is on this machine; there is no server.
    for (answer_ns, each_ns) in [(Some(2 * MS), 316 * MS), (Some(50_000), 400_000), (None, 126 * MS)] {
        let found = reading(answer_ns, each_ns);
        assert_eq!((found.stage.as_str(), found.file_server), ("source read", None), "{answer_ns:?}");
    }
    // A file server at the target, on this host and on a remote host.
    let mut figures = CounterTotals { target_answer_ns: Some(5 * MS), target_requests: 30, ..waiting() };
    (figures.target_operations, figures.far_input_ns, figures.far_work_ns) = (10, 1_000, 18_800);
    let server = "latency of the target's file server";
    assert_eq!(Bottleneck::of(&figures).unwrap().words(), format!("{server} 94 %"));
    figures.far_work_ns = 310 * MS;
    figures.far_ns = figures.far_work_ns;
    assert_eq!(Bottleneck::of(&figures).unwrap().stage, "target write");
    let mut here = CounterTotals { remote: false, far_ns: 0, ..figures };
    here.stage_ns[LaneStage::Send as usize] = 290 * MS;
    assert_eq!(Bottleneck::of(&here).unwrap().stage, server);
    // If both ends are listed, the slower one decides. The network between two machines is not a file server.
    let mut listing = CounterTotals { source_answer_ns: Some(MS), entries_scanned: 50, ..here };
    listing.stage_ns[LaneStage::Scan as usize] = 490 * MS;
    assert_eq!(Bottleneck::of(&listing).unwrap().stage, server);
    listing.remote = true;
    assert_eq!(Bottleneck::of(&listing).unwrap().stage, "scan");
    let both = CounterTotals { source_answer_ns: Some(MS), target_answer_ns: Some(MS), ..waiting() };
    assert_eq!(Bottleneck::of(&both).unwrap().stage, "network");
}

#[test]
fn figures_from_the_far_end_may_be_anything() {
    let all = CounterTotals { far_ns: 1, far_input_ns: u64::MAX, far_work_ns: u64::MAX, ..waiting() };
    let all = CounterTotals { target_answer_ns: Some(u64::MAX), target_operations: u64::MAX, ..all };
    let most = CounterTotals { way_busy_us: u64::MAX, far_queued_ns: u64::MAX, ..all };
    let limit = Bottleneck::of(&most).unwrap();
    assert!(limit.share <= 1.0 && limit.resources.values().all(|share| (0.0..=1.0).contains(share)));
    let mut sum = most.clone();
    sum.merge(&most);
    sum.add_times(&most);
    assert_eq!(sum.far_queued_ns, u64::MAX);
}
