//! The results of a probe as a page, for text or HTML.

use hakobu_core::path::lossy;
use hakobu_core::probe::{MeasuredWork, ReadFigures, TreeFigures, WayFigures, WriteFigures, WriteHow};
use hakobu_core::units::{format_bytes, format_count, format_rate};
use hakobu_measure::probe::{Prediction, StageRate};
use hakobu_transfer::probe::{EndMeasurements, ProbeResults};

use super::figures::{core_rate, counts, latency, rate, read_how, seconds, step, write_how};
use super::{caveats, obstacle};
use crate::language::Language;
use crate::report::page::{
    NewsTone, PageBlock, PageLine, PageSection, RateBar, ReportPage, name, said, words,
};
use crate::words::Machines;

/// Returns the page of a probe.
pub fn page(probed: &ProbeResults, machines: &Machines) -> ReportPage {
    let (outcome, meaning) = outcome(probed);
    let sections = [
        PageSection::of("What a copy will get", prediction(probed)),
        PageSection::of("Network", network(probed)),
        PageSection::of("Source", probed.source.as_ref().map(source).unwrap_or_default()),
        PageSection::of(
            "Target",
            probed.target.as_ref().map(|figures| target(probed, figures)).unwrap_or_default(),
        ),
        PageSection::of("What one core does", cores(probed)),
        PageSection::of("Not measured", remarks(probed)),
    ];
    ReportPage {
        language: Language::En,
        warning: probed
            .obstacle
            .as_ref()
            .map(|obstacle| obstacle::lines(obstacle, machines))
            .unwrap_or_default(),
        title: title(probed),
        outcome,
        tone: match (&probed.failure, probed.prediction.slowest) {
            (Some(_), _) => NewsTone::Bad,
            (None, Some(_)) if probed.prediction.unknown.is_empty() && probed.obstacle.is_none() => {
                NewsTone::Good
            }
            _ => NewsTone::Mixed,
        },
        meaning,
        sections: sections.into_iter().flatten().collect(),
    }
}

fn title(probed: &ProbeResults) -> PageLine {
    let mut title = vec![words("Probe of ")];
    if !probed.source_end.name.is_empty() {
        title.extend([shown(&probed.source_end.name), words(" to ")]);
    }
    title.push(shown(&probed.target_end.name));
    title
}

fn shown(bytes: &[u8]) -> crate::report::page::LineSpan {
    crate::report::page::LineSpan::Name(lossy(bytes))
}

/// Returns the main line of the prediction and the sentences that explain it.
fn outcome(probed: &ProbeResults) -> (String, Vec<String>) {
    let made = &probed.prediction;
    let mut meaning = Vec::new();
    if let Some((bytes, span)) = made.file {
        let size = format_bytes(bytes);
        meaning.push(format!(
            "One file of {size} takes {}, most of it for: {}.",
            seconds(span.seconds),
            span.limited_by
        ));
    }
    if let Some(tree) = made.tree {
        let least = if tree.at_least { "at least " } else { "" };
        meaning.push(format!(
            "The first copy takes {least}{}, most of it for: {}.",
            seconds(tree.first.seconds),
            tree.first.limited_by
        ));
        meaning.push(format!(
            "A run that finds nothing to do takes {least}{}.",
            seconds(tree.unchanged.seconds)
        ));
        if tree.at_least {
            meaning.push("There was no time to list all of the tree, so it is larger than that.".to_owned());
        }
    }
    if let (Some(slowest), Some(held)) = (made.slowest, lower_bound(made)) {
        meaning.push(format!(
            "{} may be slower than {}: it is only known to be at least {}.",
            capitalised(held.stage.name()),
            format_rate(slowest.bytes_per_second),
            format_rate(held.bytes_per_second)
        ));
    }
    // Without a predicted rate there is nothing that unknown stages could lower.
    if !made.unknown.is_empty() && made.slowest.is_some() {
        let stages: Vec<_> = made.unknown.iter().map(|stage| stage.name()).collect();
        meaning.push(format!("Not known, so it may be slower: {}.", stages.join(", ")));
    }
    meaning.extend(caveats::limits(&probed.limits));
    meaning.extend(caveats::compression(probed));
    if let Some(place) = probed.measured_in.as_ref().filter(|_| probed.obstacle.is_some()) {
        meaning.push(format!("The target was measured in {}.", lossy(place)));
    }
    if probed.failure.is_some() {
        meaning.insert(0, "It ended early; this is what was measured until then.".to_owned());
    }
    let line = match made.slowest {
        Some(slowest) => {
            let least = if slowest.at_least { "at least " } else { "" };
            let begin = match (probed.obstacle.is_some(), made.unknown.is_empty()) {
                (true, true) => "Without that, a copy gets",
                (true, false) => "Without that, and as far as is known, a copy gets",
                (false, true) => "A copy gets",
                (false, false) => "As far as is known, a copy gets",
            };
            format!(
                "{begin} {least}{}; limited by: {}",
                format_rate(slowest.bytes_per_second),
                slowest.stage.name()
            )
        }
        None => "What a copy gets cannot be told".to_owned(),
    };
    (line, meaning)
}

/// Returns the stage that may be the bottleneck because only a lower bound of its rate is known.
fn lower_bound(made: &Prediction) -> Option<StageRate> {
    let slowest = made.slowest.filter(|slowest| !slowest.at_least)?;
    let below = |stage: &&StageRate| stage.at_least && stage.bytes_per_second < slowest.bytes_per_second;
    made.stages.iter().filter(below).min_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second)).copied()
}

fn capitalised(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn prediction(probed: &ProbeResults) -> Vec<PageBlock> {
    let stages = &probed.prediction.stages;
    if stages.is_empty() {
        return Vec::new();
    }
    let least = |at_least: bool| if at_least { "at least " } else { "" };
    let rows = stages.iter().map(|stage| {
        vec![
            stage.stage.name().to_owned(),
            format!("{}{}", least(stage.at_least), format_rate(stage.bytes_per_second)),
        ]
    });
    let bars = stages.iter().map(|stage| {
        let is_slowest = probed.prediction.slowest.is_some_and(|slowest| slowest.stage == stage.stage);
        RateBar {
            of: vec![words(stage.stage.name())],
            bytes_per_second: stage.bytes_per_second,
            colour: if is_slowest { 5 } else { 1 },
        }
    });
    vec![
        PageBlock::Table(vec!["Stage".to_owned(), "Rate".to_owned()], rows.collect()),
        PageBlock::Rates(bars.collect()),
    ]
}

fn network(probed: &ProbeResults) -> Vec<PageBlock> {
    if !probed.apart {
        return Vec::new();
    }
    let ways = [probed.there.as_ref(), probed.back.as_ref()];
    let mut facts = Vec::new();
    let mut fact = |label: &str, text: String| facts.push((label.to_owned(), vec![words(text)]));
    let tcp = ways.into_iter().flatten().filter_map(|way| way.round_trip_us).filter(|time| *time > 0).min();
    let round_trip = tcp.map_or(probed.round_trip.as_nanos() as u64, |time| u64::from(time) * 1000);
    if let Some(round_trip) = latency(Some(round_trip)) {
        fact("Round trip", format!("{round_trip}{}", if tcp.is_some() { " of TCP, at least" } else { "" }));
    }
    if let Some(mtu) =
        ways.into_iter().flatten().filter_map(|way| way.mtu_bytes).find(|mtu| (576..=65_536).contains(mtu))
    {
        fact("MTU", format!("{mtu} bytes"));
    }
    if let Some(cipher) = probed.cipher {
        fact(
            "Cipher",
            if probed.by_ssh { "that of ssh, which carries the data".to_owned() } else { cipher.to_owned() },
        );
    }
    fact("Login and connections", seconds(probed.start.as_secs_f64()));
    let mut blocks = vec![PageBlock::Facts(facts)];
    let counts = counts(ways);
    if counts.is_empty() {
        return blocks;
    }
    let head = ["Connections", "to the target", "sent again", "from the target", "sent again"];
    let row = |count: &u16| {
        let of = |way: Option<&WayFigures>| match step(way, *count) {
            Some(step) => [rate(step.sent.bytes_per_second()), format_count(step.retransmits)],
            None => ["".to_owned(), "".to_owned()],
        };
        let [there, back] = ways.map(of);
        [vec![count.to_string()], there.to_vec(), back.to_vec()].concat()
    };
    blocks.push(PageBlock::Table(head.map(str::to_owned).to_vec(), counts.iter().map(row).collect()));
    blocks.push(PageBlock::Rates(bars(ways, &counts)));
    if ways.into_iter().flatten().any(|way| way.at_least) {
        blocks.push(PageBlock::Words(vec![words("The link was not saturated, so it may carry more.")]));
    }
    blocks
}

fn bars(ways: [Option<&WayFigures>; 2], counts: &[u16]) -> Vec<RateBar> {
    let mut bars = Vec::new();
    for (way, direction, colour) in [(ways[0], "to the target", 1), (ways[1], "from the target", 2)] {
        for count in counts {
            if let Some(bytes_per_second) = step(way, *count).and_then(|step| step.sent.bytes_per_second()) {
                let of = vec![words(format!("{count}, {direction}"))];
                bars.push(RateBar { of, bytes_per_second, colour });
            }
        }
    }
    bars
}

fn source(figures: &ReadFigures) -> Vec<PageBlock> {
    let mut facts = Vec::new();
    let mut fact = |label: &str, text: String| facts.push((label.to_owned(), vec![words(text)]));
    if figures.size_bytes > 0 {
        fact("Size", format_bytes(figures.size_bytes));
    }
    if let Some(content) = &figures.content {
        fact("Reading in order", format!("{}, {}", rate(content.bytes_per_second()), read_how(figures.how)));
    }
    if let Some(permille) = figures.cached_permille {
        fact("In memory before", format!("{:.0} %", f64::from(permille.min(1000)) / 10.0));
    }
    if let Some(latency) = latency(figures.latency_ns) {
        fact("One page, anywhere", latency);
    }
    if let Some(tree) = &figures.tree {
        tree_facts(tree, &mut fact);
    }
    if let Some(rate) = figures.small.as_ref().and_then(MeasuredWork::per_second) {
        fact("Small files", format!("{} read a second", format_count(rate as u64)));
    }
    let mut blocks = vec![PageBlock::Facts(facts)];
    blocks.extend(figures.remarks.iter().map(|remark| PageBlock::Words(vec![said(remark)])));
    blocks
}

fn tree_facts(tree: &TreeFigures, fact: &mut impl FnMut(&str, String)) {
    if !tree.is_sound() {
        return fact("Tree", "the figures make no sense".to_owned());
    }
    let least = if tree.complete { "" } else { "at least " };
    let of = |count: u64, one: &str, several: &str| {
        format!("{} {}", format_count(count), if count == 1 { one } else { several })
    };
    let (files, directories) =
        (of(tree.files, "file", "files"), of(tree.directories, "directory", "directories"));
    fact("Tree", format!("{least}{files} in {directories}, {}", format_bytes(tree.bytes)));
    if let Some(rate) = tree.scan.per_second() {
        fact("Listing", format!("{} entries a second", format_count(rate as u64)));
    }
}

fn target(probed: &ProbeResults, figures: &WriteFigures) -> Vec<PageBlock> {
    let mut facts = Vec::new();
    if let Some(place) = &probed.measured_in {
        facts.push(("Measured in".to_owned(), vec![shown(place)]));
    }
    let mut fact = |label: &str, text: String| facts.push((label.to_owned(), vec![words(text)]));
    let label = if figures.how == WriteHow::Device { "Reading in order" } else { "Writing in order" };
    match &figures.content {
        Some(content) => {
            fact(label, format!("{}, {}", rate(content.bytes_per_second()), write_how(figures.how)));
        }
        None => fact(label, write_how(figures.how).to_owned()),
    }
    if let Some(latency) = latency(figures.latency_ns) {
        let label =
            if figures.how == WriteHow::Device { "One page, anywhere" } else { "One page made stable" };
        fact(label, latency);
    }
    if let Some(rate) = figures.small.as_ref().and_then(MeasuredWork::per_second) {
        fact("Small files", format!("{} made a second", format_count(rate as u64)));
    }
    if let Some(free) = figures.free_bytes {
        fact("Free", format_bytes(free));
    }
    if let Some(tree) = figures.tree.as_ref().filter(|tree| tree.entries() > 0) {
        tree_facts(tree, &mut fact);
    }
    let mut blocks = vec![PageBlock::Facts(facts)];
    blocks.extend(figures.remarks.iter().map(|remark| PageBlock::Words(vec![said(remark)])));
    blocks
}

fn cores(probed: &ProbeResults) -> Vec<PageBlock> {
    let ends: Vec<&EndMeasurements> = match probed.apart {
        true => vec![&probed.source_end, &probed.target_end],
        false => vec![&probed.target_end],
    };
    if ends.iter().all(|end| end.machine.is_none()) {
        return Vec::new();
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |label: String, of: &dyn Fn(&EndMeasurements) -> Option<String>| {
        let cells: Vec<_> = ends.iter().map(|end| of(end)).collect();
        if cells.iter().any(Option::is_some) {
            rows.push([vec![label], cells.into_iter().map(Option::unwrap_or_default).collect()].concat());
        }
    };
    row("processors".to_owned(), &|end| Some(end.machine.as_ref()?.processors.to_string()));
    row("copying in memory".to_owned(), &|end| {
        Some(core_rate(end.machine.as_ref()?.copied_bytes_per_second))
    });
    row("BLAKE3".to_owned(), &|end| Some(core_rate(end.machine.as_ref()?.hashed_bytes_per_second)));
    row("AES-128-GCM".to_owned(), &|end| Some(core_rate(end.ciphers?.aes_128_gcm)));
    row("AES-256-GCM".to_owned(), &|end| Some(core_rate(end.ciphers?.aes_256_gcm)));
    row("ChaCha20-Poly1305".to_owned(), &|end| Some(core_rate(end.ciphers?.chacha20_poly1305)));
    let packers =
        ends.iter().filter_map(|end| end.machine.as_ref()).map(|machine| machine.compressors.len()).max();
    for index in 0..packers.unwrap_or(0) {
        let packer = |end: &EndMeasurements| end.machine.as_ref()?.compressors.get(index).cloned();
        let label =
            ends.iter().find_map(|end| packer(end)).map(|packer| packer.name.shown()).unwrap_or_default();
        row(format!("{label}, text"), &|end| {
            let packer = packer(end)?;
            let left = f64::from(packer.packed_permille.min(9_999)) / 10.0;
            Some(format!("{} to {left:.0} %", core_rate(packer.bytes_per_second)))
        });
    }
    let head = match probed.apart {
        true => vec!["".to_owned(), "Source".to_owned(), "Target".to_owned()],
        false => vec!["".to_owned(), "Rate".to_owned()],
    };
    vec![PageBlock::Table(head, rows)]
}

fn remarks(probed: &ProbeResults) -> Vec<PageBlock> {
    let remark = |text: &String| PageBlock::Words(vec![name(text)]);
    probed.remarks.iter().map(remark).collect()
}

#[cfg(test)]
mod tests;
