//! The bottlenecks of a run, and its rate over time.

use hakobu_core::counters::LaneStage;
use hakobu_core::report::{
    Bottleneck, FileServer, LATENCY_LIMIT, OPERATION_LIMIT, Report, ReportLimits, Timeline, TimelineSample,
};
use hakobu_core::units::format_rate;

use super::page::{Chart, PageBlock, PageLine, PageSection, Series, said, words};
use super::words as vocabulary;
use crate::language::{Language, clamped};

/// As many stages are shown; there are fewer, but for a report that somebody else made.
const STAGES_MAX: usize = 12;
/// As many limits are shown, which is all that a run remembers.
const LIMITS_MAX: usize = 257;
/// The minimum length in seconds, and the minimum number of bytes at the mean rate, of the intervals that the text describes:
/// lanes confirm whole chunks, so shorter intervals reflect the chunks rather than the rate.
const TOLD_SECONDS_MIN: f64 = 1.0;
const TOLD_BYTES_MIN: f64 = 64.0 * 1024.0 * 1024.0;
/// Fewer of them are no course.
const TOLD_MIN: usize = 4;
/// The last interval is the rest of the run. If it is shorter than this share of the others, its rate is meaningless.
const LAST_PART_MIN: f64 = 0.25;

/// Returns the section on bottlenecks, with charts over time.
pub fn section(report: &Report, language: Language) -> Option<PageSection> {
    let mut blocks: Vec<_> = held(&report.limits, language).into_iter().collect();
    if let Some(bottleneck) = &report.bottleneck {
        blocks.extend(limit(bottleneck, report, language));
    }
    if let Some(timeline) = report.timeline.as_ref().filter(|timeline| !timeline.samples.is_empty()) {
        blocks.extend(course(timeline, report, language));
    }
    PageSection::of(language.say("What limited it", "速度を決めた要因"), blocks)
}

/// Returns the limits that the user set.
fn held(limits: &[ReportLimits], language: Language) -> Option<PageBlock> {
    let one = |held: &ReportLimits| {
        let since = match held.since_seconds > 0.0 {
            true => {
                let seconds = language.seconds(held.since_seconds);
                match language {
                    Language::En => format!("Held to, after {seconds}"),
                    Language::Ja => format!("{seconds}後からの上限"),
                }
            }
            false => language.say("Held to", "上限").to_owned(),
        };
        let words = match language {
            Language::En => held.words.clone(),
            Language::Ja => in_japanese(held),
        };
        (since, vec![said(&words)])
    };
    let facts: Vec<_> = limits.iter().take(LIMITS_MAX).map(one).collect();
    (!facts.is_empty()).then_some(PageBlock::Facts(facts))
}

/// All limits of one moment; the words of a report are English.
fn in_japanese(held: &ReportLimits) -> String {
    let rate = held.rate.as_deref().map(|rate| {
        let steps: Vec<_> = rate.split(", ").take(LIMITS_MAX).map(step_in_japanese).collect();
        format!("{} (--bwlimit)", steps.join("、"))
    });
    let operations = held
        .operations_per_second
        .map(|operations| format!("両端でそれぞれ毎秒 {operations} 操作まで (--iops-limit)"));
    let latency =
        held.source_p99_ms.map(|ms| format!("コピー元の読み取りの 99 % を {ms} ms 以内に (--source-p99)"));
    let all: Vec<_> = [rate, operations, latency].into_iter().flatten().collect();
    if all.is_empty() { "制限なし".to_owned() } else { all.join("、") }
}

/// A rate, or one of a timetable: `at most 20.0 MB/s = 160 Mbit/s from 08:00`.
fn step_in_japanese(step: &str) -> String {
    let (rate, from) = match step.split_once(" from ") {
        Some((rate, from)) => (rate, format!("{from} から")),
        None => (step, String::new()),
    };
    match (rate, rate.strip_prefix("at most ")) {
        ("no limit", _) => format!("{from}制限なし"),
        ("a pause", _) => format!("{from}一時停止"),
        (_, Some(most)) => format!("{from}最大 {most}"),
        _ => step.to_owned(),
    }
}

fn limit(bottleneck: &Bottleneck, report: &Report, language: Language) -> Vec<PageBlock> {
    let compares = report.only_compared;
    let share = language.share(bottleneck.share);
    let is_asked_for = [LaneStage::Held.name(), OPERATION_LIMIT, LATENCY_LIMIT].contains(&&*bottleneck.stage);
    let mut line: PageLine = vec![words(language.say("The bottleneck was ", "速度を決めたのは「"))];
    line.extend(vocabulary::stage(&bottleneck.stage, compares, language));
    line.push(words(match (language, is_asked_for) {
        (Language::En, true) => format!(", as requested, for {share} of the time."),
        (Language::En, false) => format!(", {share} busy."),
        (Language::Ja, true) => format!("」(指定どおり) で、抑えられた時間は{share}です。"),
        (Language::Ja, false) => format!("」で、稼働率は{share}です。"),
    }));
    if let Some(FileServer { operation_ms, answer_ms }) = bottleneck.file_server {
        let (each, answer) = (language.milliseconds(operation_ms), language.milliseconds(answer_ms));
        line.push(words(match language {
            Language::En => format!(" An operation took {each}, an answer before the run {answer}."),
            Language::Ja => format!("1 回の操作に{each}、開始前の応答 1 回に{answer}かかりました。"),
        }));
    }
    // Of a run that an error ended, that error says what is wrong.
    if report.error.is_none()
        && let Some(means) = vocabulary::limit(&bottleneck.stage, compares, language)
    {
        line.push(words(format!("{}{means}", language.say(" ", ""))));
    }
    let mut stages: Vec<_> =
        bottleneck.stages.iter().map(|(stage, share)| (stage, clamped(*share))).collect();
    stages.sort_by(|a, b| b.1.total_cmp(&a.1));
    stages.truncate(STAGES_MAX);
    let bars = stages
        .into_iter()
        .map(|(stage, share)| (vocabulary::stage(stage, compares, language), share))
        .collect();
    let lanes = words(language.say("What the lanes did with their time:", "レーンの時間の内訳:"));
    vec![PageBlock::Words(line), PageBlock::Words(vec![lanes]), PageBlock::Bars(bars)]
}

/// The course in words, and in pictures.
fn course(timeline: &Timeline, report: &Report, language: Language) -> Vec<PageBlock> {
    let samples = &timeline.samples;
    let interval_seconds = timeline.interval_ms as f64 / 1000.0;
    let before_last = (samples.len() - 1) as f64 * interval_seconds;
    let rest = report.seconds.total - before_last;
    let last_seconds = if rest.is_finite() { rest } else { interval_seconds };
    let last_seconds = last_seconds.clamp(interval_seconds * LAST_PART_MIN, interval_seconds);
    let seconds_of = |index| if index + 1 == samples.len() { last_seconds } else { interval_seconds };
    let rate = |(index, sample): (usize, &TimelineSample)| {
        let per_second = |bytes: u64| bytes as f64 / seconds_of(index);
        (per_second(sample.bytes_done.max(sample.bytes)), per_second(sample.bytes))
    };
    let rates: Vec<_> = samples.iter().enumerate().map(rate).collect();
    let mut blocks = Vec::new();
    if rates.iter().any(|(all, _)| *all > 0.0) {
        let told = rates_in_words(&rates, interval_seconds, language);
        blocks.extend(told.map(|told| PageBlock::Words(vec![words(told)])));
        let labels = match report.only_compared {
            true => [("written", "書き込み"), ("compared", "比較")],
            false => [("written", "書き込み"), ("zeros or found equal", "ゼロまたは一致")],
        };
        let labels = labels.map(|(english, japanese)| language.say(english, japanese).to_owned());
        blocks.push(PageBlock::Chart(Chart {
            title: language.say("Throughput over time", "スループットの推移").to_owned(),
            seconds: before_last + last_seconds,
            interval_seconds,
            series: Series::Rates(rates, labels),
        }));
    }
    if let Some(series) = shares(samples, report.only_compared, language) {
        blocks.push(PageBlock::Chart(Chart {
            title: language.say("Stages over time", "処理段階の推移").to_owned(),
            seconds: before_last + last_seconds,
            interval_seconds,
            series,
        }));
    }
    blocks
}

/// The least, the middle and the most. Nothing of runs that were too short to have a course.
fn rates_in_words(rates: &[(f64, f64)], interval_seconds: f64, language: Language) -> Option<String> {
    let sum: f64 = rates.iter().map(|(all, _)| all).sum();
    let of_seconds = TOLD_SECONDS_MIN / interval_seconds;
    let of_bytes = TOLD_BYTES_MIN / (sum / rates.len() as f64 * interval_seconds);
    // NaN becomes 0.
    let together = (of_seconds.max(of_bytes).ceil() as usize).clamp(1, rates.len().max(1));
    // A shorter last window is left out.
    let windows = rates.chunks_exact(together);
    let mut sorted: Vec<f64> =
        windows.map(|window| window.iter().map(|(all, _)| all).sum::<f64>() / together as f64).collect();
    sorted.sort_by(f64::total_cmp);
    // If most bytes are in the incomplete last window, the others do not represent the run.
    let is_course = sorted.last().is_some_and(|most| *most >= sum / rates.len() as f64);
    if sorted.len() < TOLD_MIN || !is_course {
        return None;
    }
    let idle = sorted.iter().filter(|rate| **rate <= 0.0).count();
    let at = |index: usize| format_rate(sorted.get(index).copied().unwrap_or(0.0));
    let (least, median, most) = (at(0), at(sorted.len() / 2), at(sorted.len().saturating_sub(1)));
    let interval = language.seconds(interval_seconds * together as f64);
    let mut words = match language {
        Language::En => {
            format!("In intervals of {interval}: {least} at least, {median} in the middle, {most} at most.")
        }
        Language::Ja => format!("{interval}ごとのスループット: 最小 {least}、中央値 {median}、最大 {most}。"),
    };
    if idle > 0 {
        let idle = language.count(idle as u64);
        words.push_str(&match language {
            Language::En => format!(" Nothing was moved in {idle} of them."),
            Language::Ja => format!("うち {idle} 区間ではデータの移動がありませんでした。"),
        });
    }
    Some(words)
}

/// Returns the known stages that took any time; stages of other versions are left out.
fn shares(samples: &[TimelineSample], compares: bool, language: Language) -> Option<Series> {
    let of = |stage: &str| -> Vec<f64> {
        samples.iter().map(|sample| clamped(sample.stages.get(stage).copied().unwrap_or(0.0))).collect()
    };
    // A stage has the same colour in all reports.
    let all = vocabulary::stages(compares, language)
        .enumerate()
        .map(|(colour, (stage, label))| ((label.to_owned(), colour), of(stage)));
    let (labels, columns): (Vec<_>, Vec<_>) =
        all.filter(|(_, shares)| shares.iter().any(|share| *share > 0.0)).unzip();
    let stacked =
        |index: usize| columns.iter().map(|shares| shares.get(index).copied().unwrap_or(0.0)).collect();
    (!labels.is_empty()).then(|| Series::Shares(labels, (0..samples.len()).map(stacked).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_told_in_the_language_of_the_page() {
        let timetable = "at most 20.0 MB/s = 160 Mbit/s from 08:00, a pause from 12:30, no limit from 19:00";
        let held = ReportLimits {
            rate: Some(timetable.to_owned()),
            operations_per_second: Some(500),
            source_p99_ms: Some(2.5),
            ..ReportLimits::default()
        };
        assert_eq!(
            in_japanese(&held),
            "08:00 から最大 20.0 MB/s = 160 Mbit/s、12:30 から一時停止、19:00 から制限なし (--bwlimit)、\
             両端でそれぞれ毎秒 500 操作まで (--iops-limit)、コピー元の読み取りの 99 % を 2.5 ms 以内に (--source-p99)"
        );
        assert_eq!(in_japanese(&ReportLimits::default()), "制限なし");
    }

    fn sample(bytes: u64, share: f64) -> TimelineSample {
        let stages = [("hash".to_owned(), share), ("\x07".to_owned(), 1.0)].into();
        TimelineSample { bytes, bytes_done: bytes, stages }
    }

    #[test]
    fn the_last_interval_ends_with_the_run() {
        let timeline = Timeline { interval_ms: 1000, samples: vec![sample(100, 0.5), sample(50, 9.0)] };
        let lasting = |total| {
            let mut report = Report::default();
            report.seconds.total = total;
            report
        };
        let charts: Vec<Chart> = course(&timeline, &lasting(1.5), Language::En)
            .into_iter()
            .filter_map(|block| if let PageBlock::Chart(chart) = block { Some(chart) } else { None })
            .collect();
        let Series::Rates(rates, _) = &charts[0].series else { panic!("{charts:?}") };
        assert_eq!((rates[..].to_vec(), charts[0].seconds), (vec![(100.0, 100.0), (100.0, 100.0)], 1.5));
        assert_eq!(charts[1].series, Series::Shares(vec![("hash".into(), 1)], vec![vec![0.5], vec![1.0]]));
        for odd in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            let blocks = course(&timeline, &lasting(odd), Language::Ja);
            assert!(
                matches!(&blocks[1], PageBlock::Chart(chart) if (1.25..=2.0).contains(&chart.seconds)),
                "{odd}"
            );
        }
    }

    #[test]
    fn the_rates_are_told_in_words() {
        let rates: Vec<_> =
            [400e6, 0.0, 100e6, 0.0, 0.0, 0.0, 200e6, 100e6, 50e6].map(|all| (all, 0.0)).into();
        assert_eq!(
            rates_in_words(&rates, 0.5, Language::En).unwrap(),
            "In intervals of 1.00 s: 0 B/s at least, 150 MB/s in the middle, 200 MB/s at most. \
             Nothing was moved in 1 of them."
        );
        assert_eq!(rates_in_words(&rates[..6], 0.5, Language::En), None);
        // Few chunks in an interval say little.
        let slow: Vec<_> = (0..64).map(|index| (if index % 2 == 0 { 40e6 } else { 0.0 }, 0.0)).collect();
        let told = rates_in_words(&slow, 0.25, Language::En).unwrap();
        assert!(told.starts_with("In intervals of 3.50 s: 20.0 MB/s at least"), "{told}");
        for odd in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            let _no_panic = rates_in_words(&[(odd, odd); 9], odd, Language::Ja);
        }
        assert_eq!(rates_in_words(&[], 1.0, Language::En), None);
    }
}
