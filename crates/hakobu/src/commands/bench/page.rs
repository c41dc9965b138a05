//! The results of a bench for people: tables sorted by rate, the winner, and the causes of unexpected differences.

use hakobu_core::path::lossy;
use hakobu_core::units::{format_bytes, format_rate};
use hakobu_measure::bench::asymmetry::asymmetries;
use hakobu_measure::bench::case::{DataDirection, Initiator};
use hakobu_measure::bench::processes::ProcessCost;
use hakobu_measure::bench::result::{
    BenchResults, PartSpeed, Row, RowGroup, groups, main_group, not_measured, winners,
};
use jiff::Timestamp;

use super::host_settings::BenchHostSettings;
use crate::language::Language;
use crate::report::page::{
    NewsTone, PageBlock, PageLine, PageSection, RateBar, ReportPage, name, said, words,
};

/// Processes that used less than this share of their end's time are not listed.
const SHARE_MIN: f64 = 0.01;

/// Returns the page for a terminal: the tables, the causes and the omitted rows.
pub fn short(bench: &BenchResults, held: &BenchHostSettings) -> ReportPage {
    page(bench, held, false)
}

/// Returns the complete page, with processes, command lines, the time and the version.
pub fn whole(bench: &BenchResults, held: &BenchHostSettings, ended_at: Timestamp) -> ReportPage {
    let mut page = page(bench, held, true);
    page.sections.insert(0, PageSection::measured(ended_at));
    page
}

fn page(bench: &BenchResults, held: &BenchHostSettings, whole: bool) -> ReportPage {
    let groups = groups(&bench.rows);
    let host = safe(bench.host.as_deref().unwrap_or("this machine"));
    let title = match &bench.host {
        Some(typed) => vec![words("hakobu bench: this machine and "), name(typed)],
        None => vec![words("hakobu bench: this machine")],
    };
    let mut sections: Vec<Option<PageSection>> = vec![PageSection::of("Machines", machines(bench))];
    for group in &groups {
        let title = heading(group, &host);
        let mut blocks = vec![table(group, bench)];
        let bars = |row: &&Row| {
            Some(RateBar { of: vec![name(&row.label())], bytes_per_second: row.rate()?, colour: 0 })
        };
        blocks.push(PageBlock::Rates(group.rows.iter().filter_map(bars).collect()));
        sections.push(PageSection::of(&title, blocks));
    }
    sections.push(PageSection::of("Why similar rows differ", causes(bench, &host)));
    sections.push(PageSection::of("Failed", failed(bench)));
    sections.push(PageSection::of("Ciphers, one core of this machine", parts(&bench.ciphers, false)));
    sections.push(PageSection::of("Compressors of this machine, on text", parts(&bench.compressors, true)));
    if whole {
        sections.push(PageSection::of("Processor time of every process", processes(bench)));
        sections.push(PageSection::of("Command lines", commands(bench)));
    }
    sections.push(PageSection::of("Left out", left_out(bench)));
    let settings = held.words().into_iter().map(|line| PageBlock::Words(vec![words(line)]));
    sections.push(PageSection::of("Settings files", settings.collect()));
    sections.push(PageSection::of("What the figures are", method(bench)));
    let (outcome, tone) = outcome(bench, &groups, &host);
    ReportPage {
        language: Language::En,
        warning: Vec::new(),
        title,
        outcome,
        tone,
        meaning: winner_of_each(&groups, &host),
        sections: sections.into_iter().flatten().collect(),
    }
}

/// Returns the fastest row of all in one line.
fn outcome(bench: &BenchResults, groups: &[RowGroup<'_>], host: &str) -> (String, NewsTone) {
    let Some(group) = main_group(groups) else {
        let too_short = bench.rows.iter().any(|row| row.failed.is_none());
        let why = if too_short {
            ": runs were too short to be told from their start; --time-budget gives longer ones"
        } else {
            ""
        };
        return (format!("nothing could be measured{why}"), NewsTone::Bad);
    };
    let Some((first, sound)) = winners(group) else {
        return (format!("no winner, {}: {}", heading(group, host), incomplete(group)), NewsTone::Mixed);
    };
    let tone = match bench.ended_early.is_some() || bench.rows.iter().any(|row| row.failed.is_some()) {
        true => NewsTone::Mixed,
        false => NewsTone::Good,
    };
    (format!("the winner, {}: {}", heading(group, host), winner(first, sound)), tone)
}

fn winner_of_each(groups: &[RowGroup<'_>], host: &str) -> Vec<String> {
    let first = main_group(groups).map(|group| group.key);
    let others = groups.iter().filter(|group| Some(group.key) != first);
    let one = |group: &RowGroup<'_>| {
        let words = winners(group).map_or_else(|| incomplete(group), |(first, sound)| winner(first, sound));
        format!("{}: {words}", heading(group, host))
    };
    others.map(one).collect()
}

/// Returns the reason why a group has no winner.
fn incomplete(group: &RowGroup<'_>) -> String {
    let names: Vec<&str> = not_measured(group).into_iter().map(|way| way.name(group.key.direction)).collect();
    let were = if names.len() == 1 { "was" } else { "were" };
    format!("not complete, as {} {were} not measured", names.join(" and "))
}

fn winner(first: &Row, sound: Option<&Row>) -> String {
    let figure =
        |row: &Row| format!("{} with {}", safe(&row.label()), format_rate(row.rate().unwrap_or(0.0)));
    match (first.case.encrypted(), sound) {
        (Some(false), Some(sound)) => {
            format!("{}, not encrypted; of those that encrypt {}", figure(first), figure(sound))
        }
        (Some(false), None) => format!("{}, not encrypted", figure(first)),
        _ => figure(first),
    }
}

/// Returns the heading of a group: the properties that its rows share.
fn heading(group: &RowGroup<'_>, host: &str) -> String {
    let key = group.key;
    let direction = match key.direction {
        DataDirection::ToHost => format!("to {host}, "),
        DataDirection::FromHost => format!("from {host}, "),
        DataDirection::Here => String::new(),
    };
    format!("{direction}{}, {}", key.content.name(), key.ends.name())
}

fn machines(bench: &BenchResults) -> Vec<PageBlock> {
    let fact = |machine: &hakobu_measure::bench::result::MachineFacts| {
        let whose = if machine.whose == "here" { "this machine".to_owned() } else { safe(&machine.whose) };
        let processors = match machine.processors {
            None => "number of processors not known".to_owned(),
            Some(1) => "1 processor".to_owned(),
            Some(count) => format!("{count} processors"),
        };
        let processor = if machine.processor.is_empty() { "processor not known" } else { &machine.processor };
        let facts = format!("{processor}, {processors}, {}", machine.kernel);
        (whose, vec![said(&facts)])
    };
    let mut blocks = vec![PageBlock::Facts(bench.machines.iter().map(fact).collect())];
    if bench.host.is_some() && bench.same_machine {
        blocks
            .push(PageBlock::Words(vec![words("Both ends are one machine, so they share its processors.")]));
    }
    blocks
}

fn table(group: &RowGroup<'_>, bench: &BenchResults) -> PageBlock {
    let here_only = group.key.direction == DataDirection::Here;
    let mut head = vec!["way", "rate", "run", "sent", "start", "CPU here"];
    if !here_only {
        head.extend(["CPU there", "sent again", "encrypted"]);
    }
    let rows = group.rows.iter().map(|row| {
        let seconds = |seconds: Option<f64>| {
            seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.2} s"))
        };
        let per_gb = |cpu: Option<f64>| match cpu {
            Some(cpu) if row.size_bytes > 0 => format!("{:.2} s/GB", cpu / row.size_bytes as f64 * 1e9),
            _ => "-".to_owned(),
        };
        let rate = match (row.rate(), &row.failed) {
            (Some(rate), _) => format_rate(rate),
            (None, Some(_)) => "failed".to_owned(),
            (None, None) => "too short".to_owned(),
        };
        let cpu = row.cpu_seconds();
        let mut cells =
            vec![safe(&row.label()), rate, seconds(row.wall_seconds()), format_bytes(row.size_bytes)];
        cells.extend([format!("{:.2} s", row.start_seconds()), per_gb(cpu.0)]);
        if !here_only {
            let again = row
                .retransmitted(bench.same_network)
                .map_or_else(|| "-".to_owned(), |count| count.to_string());
            let encrypted = if row.case.encrypted() == Some(false) { "no" } else { "yes" };
            cells.extend([per_gb(cpu.1), again, encrypted.to_owned()]);
        }
        cells
    });
    PageBlock::Table(head.into_iter().map(str::to_owned).collect(), rows.collect())
}

fn causes(bench: &BenchResults, host: &str) -> Vec<PageBlock> {
    let found = asymmetries(&bench.rows, host);
    found.iter().map(|asymmetry| PageBlock::Words(vec![words(safe(&asymmetry.words))])).collect()
}

fn failed(bench: &BenchResults) -> Vec<PageBlock> {
    let failed = bench.rows.iter().filter_map(|row| Some((row, row.failed.as_ref()?)));
    let mut rows: Vec<Vec<PageLine>> = Vec::new();
    let mut told: Option<&String> = None;
    for (row, why) in failed {
        // Adjacent rows usually have the same obstacle.
        let why_line = if told == Some(why) { vec![words("as above")] } else { vec![said(why)] };
        told = Some(why);
        rows.push(vec![vec![name(&full_label(row))], why_line]);
    }
    let head = ["Row", "Why"].map(str::to_owned).to_vec();
    if rows.is_empty() { Vec::new() } else { vec![PageBlock::Records(head, rows)] }
}

fn parts(speeds: &[PartSpeed], ratio: bool) -> Vec<PageBlock> {
    if speeds.is_empty() {
        return Vec::new();
    }
    let mut sorted: Vec<&PartSpeed> = speeds.iter().collect();
    sorted.sort_by(|one, other| other.bytes_per_second.total_cmp(&one.bytes_per_second));
    let head = if ratio { ["compressor", "rate", "ratio"] } else { ["cipher", "rate", "by"] };
    let rows = sorted.iter().map(|speed| {
        let last = match speed.ratio {
            Some(ratio) => format!("{ratio:.2}"),
            None => safe(&speed.by),
        };
        vec![safe(&speed.name), format_rate(speed.bytes_per_second), last]
    });
    vec![PageBlock::Table(head.map(str::to_owned).to_vec(), rows.collect())]
}

fn processes(bench: &BenchResults) -> Vec<PageBlock> {
    let listed = |costs: &[ProcessCost]| {
        let sum: f64 = costs.iter().map(|cost| cost.cpu_seconds).sum();
        let shown = costs.iter().filter(|cost| cost.cpu_seconds >= sum * SHARE_MIN);
        let one = |cost: &ProcessCost| match cost.waited_seconds > 0.1 * cost.cpu_seconds.max(0.5) {
            true => format!(
                "{} {:.2} s (and {:.2} s without a processor{})",
                cost.name,
                cost.cpu_seconds,
                cost.waited_seconds,
                if cost.threads > 1 { ", added up over its threads" } else { "" }
            ),
            false => format!("{} {:.2} s", cost.name, cost.cpu_seconds),
        };
        shown.map(one).collect::<Vec<_>>().join(", ")
    };
    let rows = bench.rows.iter().filter_map(|row| {
        let (here, there) = row.costs()?;
        let there = there.as_deref().map(listed).unwrap_or_default();
        Some(vec![vec![name(&full_label(row))], vec![said(&listed(&here))], vec![said(&there)]])
    });
    let head = ["Row", "Here", "There"].map(str::to_owned).to_vec();
    vec![PageBlock::Records(head, rows.collect())]
}

/// Returns the commands of all rows, to be run by hand.
fn commands(bench: &BenchResults) -> Vec<PageBlock> {
    let mut first = "Each is a line for a shell here in which SOURCE and TARGET are set to paths without blanks, each on the machine \
                     where it is."
        .to_owned();
    if bench.host.is_some() {
        first.push_str(
            " ssh had -o BatchMode=yes, -o ControlMaster=no and -o ControlPath=none as well, so that nobody was asked and each run \
             logged in anew. Where --agent is missing, hakobu is not installed on the host, and was put there for the time.",
        );
    }
    let mut blocks = vec![PageBlock::Words(vec![words(first)])];
    let needs_script = bench.rows.iter().any(|row| row.command.contains("$SSH"));
    if let Some(script) = bench.script_of_ssh.as_ref().filter(|_| needs_script) {
        let first = "scp takes the name of a program for its ssh, and no options: SSH is the path of an executable file with these lines.";
        blocks.push(PageBlock::Words(vec![words(first)]));
        blocks.push(PageBlock::Lines(vec!["#!/bin/sh".to_owned(), safe(script)]));
    }
    let shown = bench.rows.iter().filter(|row| !row.command.is_empty());
    let rows = shown.map(|row| vec![vec![name(&full_label(row))], vec![name(&row.command)]]);
    blocks.push(PageBlock::Records(["Row", "Command"].map(str::to_owned).to_vec(), rows.collect()));
    blocks
}

/// Returns the label of a row together with the properties that its group shares.
fn full_label(row: &Row) -> String {
    let case = &row.case;
    let direction = match case.direction {
        DataDirection::ToHost => "to the host, ",
        DataDirection::FromHost => "from the host, ",
        DataDirection::Here => "",
    };
    format!("{}: {direction}{}, {}", row.label(), case.content.name(), case.ends.name())
}

fn left_out(bench: &BenchResults) -> Vec<PageBlock> {
    if bench.left_out.is_empty() {
        return Vec::new();
    }
    let fact = |out: &hakobu_measure::bench::plan::LeftOut| (safe(&out.what), vec![said(&out.why)]);
    vec![PageBlock::Facts(bench.left_out.iter().map(fact).collect())]
}

fn method(bench: &BenchResults) -> Vec<PageBlock> {
    let mut lines = vec![format!(
        "Rate: what was sent, by the median of {} run{} less the start. Start: the same command on one byte, so logins, \
         start and end. Run: the median with all of it. Rows take turns within a round.",
        bench.rounds,
        if bench.rounds == 1 { "" } else { "s" }
    )];
    lines.push(
        "CPU: user and system time of all processes of the run at that end for each GB, less that of the start; ssh and the sessions of sshd among them; \
         of what lives for less than half a second it may be too little. From disk to disk the source is in no cache, and the target \
         is on the medium; hakobu brings its target onto the medium in memory, too."
            .to_owned(),
    );
    if bench.host.is_some() {
        lines.push(
            "Sent again: segments that TCP has repeated meanwhile, at both ends, whoever sent them."
                .to_owned(),
        );
    }
    if bench.rounds == 1 {
        lines.push(
            "Each row ran once, so how much runs differ is not known: rows that are within a fifth of each other may change places. \
             A longer --time-budget gives more rounds."
                .to_owned(),
        );
    }
    let mut started_there =
        bench.rows.iter().map(|row| &row.case).filter(|case| case.starter == Initiator::There);
    if started_there.clone().any(|case| !case.way.has_own_connection()) {
        lines.push("Started there: the host logs in here, and the sshd of this machine serves.".to_owned());
    }
    if started_there.any(|case| case.way.has_own_connection()) {
        lines.push(
            "Started there, of nc and mbuffer: the host connects to what listens here, and does not log in."
                .to_owned(),
        );
    }
    lines.into_iter().map(|line| PageBlock::Words(vec![words(line)])).collect()
}

fn safe(text: &str) -> String {
    lossy(text.as_bytes())
}
