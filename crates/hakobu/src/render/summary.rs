//! The last lines of a run.

use std::time::Duration;

use hakobu_core::counters::LaneStage;
use hakobu_core::losses::LossKind;
use hakobu_core::path::lossy;
use hakobu_core::report::{
    self, Bottleneck, LATENCY_LIMIT, NETWORK, OPERATION_LIMIT, Outcome, Report, ReportDifference, ReportEnd,
    ReportEntries, UsedTransport, Verified, from_base64,
};
use hakobu_core::request::CipherChoice;
use hakobu_core::units::{format_bytes, format_count, format_duration, format_milliseconds, format_rate};

use crate::report::words::loss_name;

/// The most failures that are shown; the report has them all.
pub const FAILURES_SHOWN_MAX: u64 = 20;
/// The duration in seconds after which a run prints advice.
const ADVICE_FROM_SECONDS: f64 = 10.0;

/// A shorter run has no bottleneck worth removing.
const VERDICT_FROM_SECONDS: f64 = 0.1;

/// The summary, line by line.
pub fn lines(report: &Report, verbose: bool) -> Vec<String> {
    let began = report.something_done() || report.entries.scanned > 0;
    if report.error.is_some() && !began && report.outcome != Outcome::Interrupted {
        // The error has been said; zeros would add nothing.
        return Vec::new();
    }
    let mut lines = vec![format!("{}: {}", outcome_words(report), entries(report))];
    lines.push(speed(report));
    lines.extend(outages(report));
    lines.extend(paused(report));
    lines.extend(held_still(report));
    if report.verified == Verified::Medium && !verbose {
        lines.push(format!("verified: {}", check(report)));
    }
    lines.extend(advice(report, verbose));
    if let Some(digest) = &report.digest_blake3 {
        lines.push(format!("blake3 {}", lossy(digest.as_bytes())));
    } else if verbose && let Some(reason) = &report.digest_blake3_reason {
        lines.push(format!("no digest: {}", lossy(reason.as_bytes())));
    }
    lines.extend(report.pairs.iter().map(|pair| {
        let digest = pair.digest_blake3.as_deref().unwrap_or("no digest");
        let ends = format!("{} to {}", lossy(pair.source.as_bytes()), lossy(pair.target.as_bytes()));
        format!("blake3 {}  {ends}", lossy(digest.as_bytes()))
    }));
    lines.extend(differences(report));
    lines.extend(sampled(report));
    lines.extend(losses(report));
    lines.extend(failures(report));
    if verbose {
        lines.extend(details(report));
    }
    lines
}

/// Returns true if the command, run again, resumes this run.
pub fn can_go_on(report: &Report) -> bool {
    let kind = report.error.as_ref().map(|error| error.kind.as_str());
    // Data on standard output cannot be resumed.
    let kept = !report.command.is_empty() && report.target.typed != "-" && report.source.typed != "-";
    kept && report::can_go_on(report.outcome, kind)
}

fn outcome_words(report: &Report) -> &'static str {
    match report.outcome {
        Outcome::Done if report.dry_run => "plan",
        Outcome::Partial if report.is_partly_compared() && report.failures.is_empty() => "partly compared",
        Outcome::Partial if report.dry_run => "plan, with failures",
        Outcome::Failed if report.dry_run => "plan that would fail",
        outcome => words_of(outcome),
    }
}

/// How a run ended.
pub fn words_of(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::Partial => "partly done",
        Outcome::Failed | Outcome::WrongUsage => "failed",
        Outcome::Refused => "refused",
        Outcome::Interrupted => "interrupted",
        Outcome::Differences => "differences found",
        Outcome::SourceChanged => "not all done: the source changed while it was read",
    }
}

/// `3 created (1 directory), 2 updated, 1 000 unchanged, 2 failed`. The first three are there even if they are 0, except for
/// a single file, disk or stream.
pub(crate) fn entries(report: &Report) -> String {
    let entries = &report.entries;
    let compares = report.only_compared;
    // Of a plan that holds, its first word says what it is.
    let would_fail = report.dry_run && report.outcome == Outcome::Failed;
    let is_one = entries.scanned == 1 && entries.created + entries.updated + entries.unchanged == 1;
    let (created, updated) = match would_fail {
        true => ("to create", "to update"),
        false if is_one && report.target.identity.is_some() => ("created", "disk written"),
        false if is_one && keeps_nothing(&report.target) => ("created", "written"),
        false => ("created", "updated"),
    };
    [
        (entries.created, created, !compares),
        (entries.updated, updated, !compares),
        (entries.unchanged, if compares { "equal" } else { "unchanged" }, true),
        (entries.attributes_only, "with new attributes only", false),
        (entries.different, "different", false),
        (entries.deleted, "deleted", false),
        (entries.only_in_target, "only in the target", false),
        (entries.skipped, "skipped", false),
        (entries.failed, "failed", false),
    ]
    .into_iter()
    .filter(|(count, _, always)| *always && !is_one || *count > 0)
    .map(|(count, word, _)| format!("{} {word}{}", format_count(count), kinds(entries, word)))
    .collect::<Vec<_>>()
    .join(", ")
}

/// Returns true if the target is standard output or a device that keeps nothing.
fn keeps_nothing(target: &ReportEnd) -> bool {
    target.typed == "-" || target.typed.ends_with("/dev/null")
}

/// ` (31 directories)` behind the word for created entries, ` (1 socket)` behind that for skipped ones.
fn kinds(entries: &ReportEntries, word: &str) -> String {
    let (count, one, many) = match word {
        "created" | "to create" => (entries.directories_created, "directory", "directories"),
        "skipped" => (entries.sockets_skipped, "socket", "sockets"),
        _ => return String::new(),
    };
    match count {
        0 => String::new(),
        1 => format!(" (1 {one})"),
        count => format!(" ({} {many})", format_count(count)),
    }
}

fn speed(report: &Report) -> String {
    let words = |seconds: f64| format_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    // The time that the rate is of: logging in is no part of it.
    let moving = if report.seconds.transfer > 0.0 { report.seconds.transfer } else { report.seconds.total };
    if report.dry_run {
        let (bytes, total) = (format_bytes(report.bytes.planned), words(report.seconds.total));
        return format!("up to {bytes} to transfer, checked in {total}");
    }
    let mut line = format!("{} in {}", format_bytes(report.bytes_done), words(moving));
    if report.bytes_done > report.bytes.target_written && !report.only_compared {
        line.push_str(&format!(" ({} written)", format_bytes(report.bytes.target_written)));
    }
    if let Some(ratio) = ratio(report) {
        line.push_str(&format!(" (compressed {ratio:.1} to 1)"));
    }
    if report.throughput_bytes_per_second > 0 {
        line.push_str(&format!(": {}", format_rate(report.throughput_bytes_per_second as f64)));
    }
    if let Some(limit) = report.bottleneck.as_ref().filter(|_| has_verdict(report)) {
        line.push_str(&format!(", limited by: {}", limit_words(limit, is_little_sent(report))));
    }
    if report.resumed {
        line.push_str("; the rest was there from an interrupted run");
    }
    if report.seconds.total > moving {
        line.push_str(&format!("; {} in all", words(report.seconds.total)));
    }
    line
}

/// Returns true if the run was long enough to have a bottleneck: in a shorter one, start and end take the time.
fn has_verdict(report: &Report) -> bool {
    report.bytes_done > 0
        && (report.seconds.transfer >= VERDICT_FROM_SECONDS || report.seconds.transfer <= 0.0)
}

/// How much more content there was than bytes of it on the way, where that is worth a word.
fn ratio(report: &Report) -> Option<f64> {
    let bytes = &report.bytes;
    let sent = bytes.target_written.saturating_sub(bytes.compressed).saturating_add(bytes.compressed_to);
    let ratio = bytes.target_written.max(bytes.compressed) as f64 / sent.max(1) as f64;
    (bytes.compressed > 0 && ratio >= 1.05).then_some(ratio)
}

/// Returns true if little data was sent, for example because digests were compared: connections are then always busy, which
/// does not make the network the bottleneck.
fn is_little_sent(report: &Report) -> bool {
    const PART: u64 = 16;
    let bytes = &report.bytes;
    let sent = bytes.wire_sent.zip(bytes.wire_received).map(|(sent, received)| sent.max(received));
    sent.is_some_and(|sent| sent < report.bytes_done / PART)
}

/// Describes the bottleneck and its utilization, and that of the network if it is not the bottleneck and data was sent.
fn limit_words(limit: &Bottleneck, little_sent: bool) -> String {
    let busy = |share: f64| format!("{:.0} %", share * 100.0);
    let asked = [
        (LaneStage::Held.name(), "--bwlimit"),
        (OPERATION_LIMIT, "--iops-limit"),
        (LATENCY_LIMIT, "--source-p99"),
    ];
    if let Some((name, option)) = asked.into_iter().find(|(name, _)| *name == limit.stage) {
        return format!("{name} ({option}, as requested, for {} of the time)", busy(limit.share));
    }
    let network = limit.resources.get(NETWORK).filter(|_| limit.stage != NETWORK && !little_sent);
    let network = network.map(|share| format!(", network {} used", busy(*share))).unwrap_or_default();
    let each = limit.file_server.map(|server| format_milliseconds(server.operation_ms));
    let each = each.map(|each| format!("{each} for each operation, ")).unwrap_or_default();
    format!("{} ({each}{} busy{network})", lossy(limit.stage.as_bytes()), busy(limit.share))
}

/// Returns advice on a faster run, if the run was long enough to matter.
fn advice(report: &Report, verbose: bool) -> Option<String> {
    let limit = report.bottleneck.as_ref()?;
    // The error that ended the run says what is wrong.
    let matters = report.error.is_none()
        && has_verdict(report)
        && (verbose || report.seconds.transfer >= ADVICE_FROM_SECONDS);
    (matters && !limit.advice.is_empty()).then(|| format!("advice: {}", lossy(limit.advice.as_bytes())))
}

/// The first ranges of large files and disks that differ, and how much that is in all.
fn differences(report: &Report) -> Vec<String> {
    // The others were listed as they were found.
    let ranges: Vec<_> = report.differences.iter().filter(|known| known.offset_bytes.is_some()).collect();
    let mut lines: Vec<_> =
        ranges.iter().take(FAILURES_SHOWN_MAX as usize).map(|range| difference_words(range)).collect();
    if !lines.is_empty() {
        let (count, bytes) = (format_count(ranges.len() as u64), format_bytes(report.differing_bytes));
        let differ = if ranges.len() == 1 { "range differs" } else { "ranges differ" };
        lines.push(format!("{bytes} in {count} {differ}; all are in the report (--report FILE)"));
    }
    lines
}

/// `only in the source: a/b`, `differs: a/c: bytes 0 to 262144`.
pub(crate) fn difference_words(difference: &ReportDifference) -> String {
    // A name that is not UTF-8 is shown by its bytes, so that it can be found.
    let bytes = difference.path_base64.as_deref().and_then(from_base64);
    let path = match (bytes, difference.path.as_str()) {
        (Some(bytes), _) => lossy(&bytes),
        (None, "") => ".".to_owned(),
        (None, path) => lossy(path.as_bytes()),
    };
    let values = difference.source_value.as_deref().zip(difference.target_value.as_deref());
    let lossy = |text: &str| lossy(text.as_bytes());
    let values = values.map(|(source, target)| format!(" {} != {}", lossy(source), lossy(target)));
    let values = values.unwrap_or_default();
    let differs = |what: &str| format!("differs: {path}: {what}{values}");
    match difference.what.as_str() {
        "only_in_source" => format!("only in the source: {path}"),
        "only_in_target" => format!("only in the target: {path}"),
        "kind" if values.is_empty() => differs("another kind of entry"),
        "time" => differs("modification time"),
        "xattr" => differs("extended attributes or ACLs"),
        "links" => differs("not a hard link to the same file"),
        "range" => {
            let offset = difference.offset_bytes.unwrap_or(0);
            let end = offset.saturating_add(difference.length_bytes.unwrap_or(0));
            differs(&format!("bytes {offset} to {end}"))
        }
        what => differs(what),
    }
}

/// Describes how far a sample without differences covers the rest.
fn sampled(report: &Report) -> Option<String> {
    let read = report.entries.compared;
    let differing =
        report.differences.iter().any(|difference| matches!(difference.what.as_str(), "content" | "range"));
    if !report.sampled || differing || read == 0 {
        return None;
    }
    // If a share p of the files differed, none of n would be seen with a chance of (1 - p)^n: 5 % at p = 3 / n.
    let share = 1.0 - 0.05_f64.powf(1.0 / read as f64);
    Some(format!(
        "the content of {} files was compared, taken at random: with 95 % confidence less than {:.2} % of the files differ",
        format_count(read),
        share * 100.0
    ))
}

fn losses(report: &Report) -> impl Iterator<Item = String> {
    report.losses.iter().map(|loss| {
        let (what, example) = (loss_name(&loss.what), lossy(loss.example.as_bytes()));
        // The top of a tree has no name of its own.
        let example = if example.is_empty() { ".".to_owned() } else { example };
        let entries = if loss.count == 1 { "entry" } else { "entries" };
        let (count, side) = (format_count(loss.count), lossy(loss.side.as_bytes()));
        let next = match loss.what == LossKind::SetId.name() && report.rights_withheld {
            true => ": from another host they are copied only with --allow setuid",
            false => "",
        };
        let not = if report.only_compared { "not compared" } else { "not preserved" };
        format!("{not}: {what} of {count} {entries}, such as {example} at the {side}{next}")
    })
}

fn failures(report: &Report) -> Option<String> {
    let count = report.failures.len() as u64;
    let shown = match count {
        0 => return None,
        1..=FAILURES_SHOWN_MAX => "listed above",
        _ => "the first are listed above, all of them in the report (--report FILE)",
    };
    Some(format!("{} failed: {shown}", format_count(count)))
}

/// `transport: sftp, encrypted by ssh, 2 lanes, checked by ssh alone`
fn transport(report: &Report) -> String {
    let lanes = match report.lanes_max {
        1 => "1 lane".to_owned(),
        lanes => format!("{lanes} lanes"),
    };
    let encryption = encryption(report).map(|words| format!(", {words}")).unwrap_or_default();
    format!("transport: {}{encryption}, {lanes}, {}", report.transport.name(), check(report))
}

/// Describes the encryption of the data. `None` if no data leaves this machine.
fn encryption(report: &Report) -> Option<String> {
    let by_ssh = report.transport.relies_on_ssh() || report.transport.is_through_ssh();
    let cipher = report.cipher.as_deref().filter(|cipher| *cipher != CipherChoice::None.name());
    Some(match (by_ssh, cipher.map(|cipher| lossy(cipher.as_bytes()))) {
        _ if report.transport == UsedTransport::Local => return None,
        (true, Some(cipher)) => format!("encrypted by ssh and by {cipher}"),
        (true, None) => "encrypted by ssh".to_owned(),
        (false, Some(cipher)) => format!("encrypted by {cipher}"),
        (false, None) => "not encrypted".to_owned(),
    })
}

/// Returns the words for the way in which the target was verified.
fn check(report: &Report) -> &'static str {
    match report.verified {
        Verified::Medium => "read back from the medium and compared",
        Verified::Wire if report.transport == UsedTransport::Rsync => "checked by rsync's own checksums",
        Verified::Wire => "digests compared",
        Verified::None if report.dry_run || report.only_compared => "nothing written",
        // ssh detects changes in transit, but no errors at either end.
        Verified::None if report.transport.relies_on_ssh() => "checked by ssh alone, no digests compared",
        Verified::None => "not checked",
    }
}

/// How long the service was stopped at most.
fn held_still(report: &Report) -> Option<String> {
    let time = Duration::try_from_secs_f64(report.seconds.held_still?).unwrap_or_default();
    Some(format!("the source was frozen for {}", format_duration(time)))
}

/// Whoever comes back in the morning learns why it took longer.
fn outages(report: &Report) -> Option<String> {
    let outages = &report.outages;
    let time = format_duration(Duration::try_from_secs_f64(outages.seconds).unwrap_or_default());
    match outages.count {
        0 => None,
        1 => Some(format!("connection lost once: {time} without it")),
        count => Some(format!("connection lost {} times: {time} without it", format_count(count))),
    }
}

/// A pause is asked for as well, but says nothing of the rate.
fn paused(report: &Report) -> Option<String> {
    let time = format_duration(Duration::try_from_secs_f64(report.seconds.paused).unwrap_or_default());
    (report.seconds.paused > 0.0).then(|| format!("paused for {time} by the timetable of --bwlimit"))
}

fn details(report: &Report) -> Vec<String> {
    let seconds = &report.seconds;
    let spent = |seconds: f64| format_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let mut lines = vec![
        transport(report),
        format!(
            "time: connect {}, scan {}, transfer {}",
            spent(seconds.connect),
            spent(seconds.scan),
            spent(seconds.transfer)
        ),
    ];
    if let Some(bottleneck) = &report.bottleneck {
        let mut stages: Vec<_> = bottleneck.stages.iter().collect();
        stages.sort_by(|a, b| b.1.total_cmp(a.1));
        let stages = stages.iter().map(|(stage, share)| {
            let stage = match report.only_compared && *stage == "target write" {
                true => "target read",
                false => stage.as_str(),
            };
            format!("{stage} {:.0} %", *share * 100.0)
        });
        lines.push(format!("lanes: {}", stages.collect::<Vec<_>>().join(", ")));
    }
    if let (Some(sent), Some(received)) = (report.bytes.wire_sent, report.bytes.wire_received) {
        lines.push(format!("wire: {} sent, {} received", format_bytes(sent), format_bytes(received)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use hakobu_core::counters::CounterTotals;
    use hakobu_core::error::{Error, ErrorKind};
    use hakobu_core::report::{FileServer, ReportLoss};

    use super::*;

    fn report() -> Report {
        let mut sum = CounterTotals { entries_created: 3, entries_updated: 2, ..CounterTotals::default() };
        (sum.entries_unchanged, sum.target_written_bytes) = (1_000, 1_070_000_000);
        sum.stage_ns[LaneStage::Read as usize] = 61;
        sum.stage_ns[LaneStage::Hash as usize] = 39;
        let mut report = Report { command: "hakobu copy a b".into(), ..Report::default() };
        report.set_figures(&sum);
        (report.seconds.total, report.seconds.transfer) = (2.9, 2.8);
        report.conclude(&[], None, false);
        report
    }

    #[test]
    fn a_plan_that_would_fail_says_what_would_have_been_done() {
        let mut report = Report { dry_run: true, ..report() };
        let full = Error::new(ErrorKind::NoSpace, "planning", "too little room");
        report.conclude(&[], Some(&full), false);
        assert_eq!(
            lines(&report, false)[0],
            "plan that would fail: 3 to create, 2 to update, 1 000 unchanged"
        );
        report.dry_run = false;
        assert!(lines(&report, false)[0].starts_with("failed: 3 created, 2 updated"));
    }

    #[test]
    fn one_file_or_disk_has_no_zeros() {
        let one = |typed: &str, sum: CounterTotals| {
            let mut report = Report::default();
            report.set_figures(&CounterTotals { entries_scanned: 1, ..sum });
            report.target.typed = typed.into();
            entries(&report)
        };
        let (created, updated) = (
            CounterTotals { entries_created: 1, ..CounterTotals::default() },
            CounterTotals { entries_updated: 1, ..CounterTotals::default() },
        );
        assert_eq!(one("f", created), "1 created");
        assert_eq!(one("f", updated.clone()), "1 updated");
        assert_eq!(one("h:/dev/null", updated.clone()), "1 written");
        assert_eq!(one("-", updated), "1 written");
        let failed = CounterTotals { entries_failed: 1, ..CounterTotals::default() };
        assert_eq!(one("f", failed), "0 created, 0 updated, 0 unchanged, 1 failed");
    }

    #[test]
    fn a_good_end_is_two_lines() {
        let expected = [
            "done: 3 created, 2 updated, 1 000 unchanged",
            "1.07 GB in 2.80 s: 382 MB/s, limited by: source read (61 % busy); 2.90 s in all",
        ];
        assert_eq!(lines(&report(), false), expected);
        assert!(!can_go_on(&report()));
        let advice =
            |report: &Report, verbose| lines(report, verbose).iter().any(|line| line.starts_with("advice: "));
        assert!(advice(&report(), true));
        let mut long = report();
        long.seconds.transfer = 600.0;
        assert!(advice(&long, false));
        let network = |sent: u64| {
            let mut report = report();
            (report.bytes.wire_sent, report.bytes.wire_received) = (Some(sent), Some(9));
            report.bottleneck.as_mut().unwrap().resources.insert(NETWORK.to_owned(), 1.0);
            lines(&report, false)[1].contains("network 100 % used")
        };
        assert!(network(1 << 30) && !network(1 << 20));
        let mut afar = report();
        let limit = afar.bottleneck.as_mut().unwrap();
        limit.stage = "latency of the source's file server".into();
        limit.file_server = Some(FileServer { operation_ms: 6.13, answer_ms: 2.0 });
        assert_eq!(
            lines(&afar, false)[1],
            "1.07 GB in 2.80 s: 382 MB/s, limited by: latency of the source's file server (6.1 ms for each \
             operation, 61 % busy); 2.90 s in all"
        );
    }

    #[test]
    fn the_transport_is_described() {
        let said = |transport: UsedTransport, cipher: Option<&str>, verified, lanes_max, target: &str| {
            let mut report = report();
            (report.transport, report.cipher) = (transport, cipher.map(str::to_owned));
            (report.verified, report.lanes_max) = (verified, lanes_max);
            report.target.typed = target.into();
            super::transport(&report)
        };
        use Verified::{Medium, None as Unchecked, Wire};
        for (words, found) in [
            (
                "sftp, encrypted by ssh, 1 lane, checked by ssh alone, no digests compared",
                said(UsedTransport::Sftp, None, Unchecked, 1, "h:a"),
            ),
            (
                "ssh, encrypted by ssh, 2 lanes, digests compared",
                said(UsedTransport::Ssh, Some("none"), Wire, 2, "h:a"),
            ),
            (
                "ssh, relayed, encrypted by ssh and by aes-128-gcm, 2 lanes, not checked",
                said(UsedTransport::SshRelayed, Some("aes-128-gcm"), Unchecked, 2, "h:a"),
            ),
            (
                "agent, encrypted by aes-128-gcm, 4 lanes, read back from the medium and compared",
                said(UsedTransport::Agent, Some("aes-128-gcm"), Medium, 4, "h:a"),
            ),
            (
                "agent, not encrypted, 4 lanes, digests compared",
                said(UsedTransport::Agent, Some("none"), Wire, 4, "h:a"),
            ),
            ("local, 1 lane, not checked", said(UsedTransport::Local, None, Unchecked, 1, "a")),
            (
                "rsync, not encrypted, 8 lanes, checked by rsync's own checksums",
                said(UsedTransport::Rsync, None, Wire, 8, "h::m/a"),
            ),
        ] {
            assert_eq!(found, format!("transport: {words}"));
        }
        let plan =
            Report { dry_run: true, transport: UsedTransport::Sftp, lanes_max: 1, ..Report::default() };
        assert_eq!(transport(&plan), "transport: sftp, encrypted by ssh, 1 lane, nothing written");
    }

    #[test]
    fn losses_digest_and_failures_have_their_lines() {
        let mut report = report();
        report.digest_blake3 = Some("ab12".into());
        let (example, example_base64) = ("a\x1b[2J".to_owned(), None);
        report.losses = vec![ReportLoss {
            what: "xattr".into(),
            count: 1,
            side: "source".into(),
            example,
            example_base64,
        }];
        let said = lines(&report, true).join("\n");
        assert!(said.contains("\nblake3 ab12\n"), "{said}");
        assert!(
            said.contains(
                "\nnot preserved: extended attributes of 1 entry, such as a\\u{1b}[2J at the source\n"
            ),
            "{said}"
        );
        assert!(said.contains("lanes: source read 61 %, hash 39 %"), "{said}");
    }

    #[test]
    fn an_interrupted_or_cut_run_can_go_on() {
        let mut report = report();
        report.conclude(&[], Some(&Error::new(ErrorKind::Cancelled, "copying", "")), true);
        assert!(can_go_on(&report));
        assert!(lines(&report, false)[0].starts_with("interrupted: 3 created"));
        report.conclude(&[], Some(&Error::new(ErrorKind::ConnectionLost, "copying", "")), false);
        assert!(can_go_on(&report));
        report.conclude(&[], Some(&Error::new(ErrorKind::NoSpace, "copying", "")), false);
        assert!(!can_go_on(&report));
    }

    #[test]
    fn a_run_that_never_began_has_no_summary() {
        let mut report = Report::default();
        report.conclude(&[], Some(&Error::new(ErrorKind::NotFound, "opening", "")), false);
        assert_eq!(lines(&report, false), Vec::<String>::new());
    }
}
