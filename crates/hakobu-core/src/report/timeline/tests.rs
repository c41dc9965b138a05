use proptest::prelude::*;

use super::*;

fn figures(written: u64, kept: u64, read_ns: u64) -> CounterTotals {
    let mut figures =
        CounterTotals { target_written_bytes: written, bytes_kept: kept, ..CounterTotals::default() };
    figures.stage_ns[LaneStage::Read as usize] = read_ns;
    figures
}

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn bytes(timeline: &Timeline) -> Vec<u64> {
    timeline.samples.iter().map(|sample| sample.bytes).collect()
}

#[test]
fn what_was_done_lies_where_it_was_done() {
    let mut recorder = TimelineRecorder::default();
    recorder.record(at(700), &figures(100, 0, 10));
    recorder.record(at(900), &figures(300, 50, 30));
    let timeline = recorder.finish(at(1000), 400, &figures(400, 50, 40)).unwrap();
    // 500 to 700 has 100; 700 to 900 has 200, a quarter of it before 750; 900 to 1000 has the remaining 100.
    assert_eq!(bytes(&timeline), [0, 0, 150, 250]);
    let done: u64 = timeline.samples.iter().map(|sample| sample.bytes_done).sum();
    assert_eq!((timeline.interval_ms, done), (250, 450));
    assert!(timeline.samples[0].stages.is_empty());
    assert_eq!(timeline.samples[2].stages["source read"], 1.0);
}

#[test]
fn a_run_too_short_for_figures_has_one_sample_and_one_without_content_none() {
    let timeline = TimelineRecorder::default().finish(at(60), 5, &figures(5, 2, 0)).unwrap();
    assert_eq!((bytes(&timeline), timeline.samples[0].bytes_done), (vec![5], 7));
    let timeline = TimelineRecorder::default().finish(at(0), 5, &figures(5, 0, 0)).unwrap();
    assert_eq!(bytes(&timeline), [5]);
    assert_eq!(TimelineRecorder::default().finish(at(60), 0, &figures(0, 0, 0)), None);
}

#[test]
fn another_attempt_counts_from_zero_and_not_over_the_time_between() {
    let mut recorder = TimelineRecorder::default();
    recorder.record(at(250), &figures(1000, 0, 10));
    recorder.record(at(1250), &figures(40, 0, 1));
    let timeline = recorder.finish(at(1250), 1040, &figures(1040, 0, 11)).unwrap();
    assert_eq!(bytes(&timeline), [1000, 0, 0, 0, 40]);
}

#[test]
fn a_flush_that_is_told_when_it_is_over_fills_the_time_that_it_took() {
    let mut recorder = TimelineRecorder::default();
    let mut flushed = figures(100, 0, 10);
    recorder.record(at(250), &flushed);
    recorder.record(at(450), &flushed);
    recorder.record(at(1000), &flushed);
    flushed.stage_ns[LaneStage::Sync as usize] = 1000;
    let timeline = recorder.finish(at(1200), 100, &flushed).unwrap();
    assert_eq!(bytes(&timeline), [100, 0, 0, 0, 0]);
    assert!(timeline.samples[1..].iter().all(|sample| sample.stages["target sync"] == 1.0));
}

#[test]
fn of_passes_the_summary_is_the_last_ones_only() {
    let mut recorder = TimelineRecorder::default();
    recorder.record(at(250), &figures(900, 0, 10));
    recorder.record(at(500), &figures(10, 5, 1));
    let timeline = recorder.finish(at(500), 1000 + 12, &figures(12, 5, 1)).unwrap();
    assert_eq!(bytes(&timeline).iter().sum::<u64>(), 1012);
    assert!(timeline.samples.iter().all(|sample| sample.bytes_done >= sample.bytes));
}

#[test]
fn days_fit_and_time_that_runs_backwards_does_no_harm() {
    let mut recorder = TimelineRecorder::default();
    recorder.record(at(86_400_000), &figures(7, 0, 0));
    recorder.record(at(1), &figures(9, 0, 0));
    recorder.record(Duration::from_millis(u64::MAX), &figures(10, 0, 0));
    let timeline = recorder.finish(at(5), 10, &figures(10, 0, 0)).unwrap();
    assert!(timeline.samples.len() <= TIMELINE_SAMPLES_MAX);
    assert_eq!(bytes(&timeline).iter().sum::<u64>(), 10);
}

#[test]
fn a_timeline_of_others_is_cut_to_size() {
    let samples = r#"{"bytes":1,"stages":{"hash":1.0}},{"stages":{"x":0.5},"more":0}"#;
    let json = format!(r#"{{"interval_ms":0,"samples":[{}]}}"#, vec![samples; 1000].join(","));
    let timeline: Timeline = serde_json::from_str(&json).unwrap();
    assert_eq!((timeline.interval_ms, timeline.samples.len()), (16, 125));
    assert_eq!((timeline.samples[0].bytes, timeline.samples[0].stages["x"]), (8, 0.25));
    assert_eq!(serde_json::from_str::<Timeline>("{}").unwrap().samples, []);
}

proptest! {
    #[test]
    fn all_bytes_are_kept_in_their_order(
        steps in proptest::collection::vec((0_u64..5_000_000, 0_u64..1 << 40, 0_u64..1 << 40), 1..400),
    ) {
        let mut recorder = TimelineRecorder::default();
        let (mut now, mut written, mut kept) = (0, 0, 0);
        let mut told = Vec::new();
        for (milliseconds, more, also) in steps {
            (now, written, kept) = (now + milliseconds, written + more, kept + also);
            recorder.record(at(now), &figures(written, kept, written));
            told.push((now, written));
        }
        let end = figures(written + 5, kept, written);
        let timeline = recorder.finish(at(now + 1), written + 5, &end).unwrap();
        prop_assert!(timeline.samples.len() <= TIMELINE_SAMPLES_MAX);
        prop_assert_eq!(bytes(&timeline).iter().sum::<u64>(), written + 5);
        let done: u64 = timeline.samples.iter().map(|sample| sample.bytes_done).sum();
        prop_assert_eq!(done, written + 5 + kept);
        // At the end of each interval, the sum lies between the figure reported before it and the one reported next.
        let mut sum = 0;
        for (index, sample) in timeline.samples.iter().enumerate() {
            sum += sample.bytes;
            let end = (index as u64 + 1) * timeline.interval_ms;
            let before = told.iter().rev().find(|(at, _)| *at <= end).map_or(0, |(_, bytes)| *bytes);
            let after = told.iter().find(|(at, _)| *at >= end).map_or(written + 5, |(_, bytes)| *bytes);
            prop_assert!((before..=after).contains(&sum), "{} not in {before}..={after}", sum);
        }
    }
}
