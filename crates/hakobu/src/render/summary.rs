//! The last lines of a run.

use hakobu_core::counters::LaneStage;
use hakobu_core::losses::LossKind;
use hakobu_core::path::lossy;
use hakobu_core::report::ReportRequests;
use hakobu_core::report::{
    self, Bottleneck, LATENCY_LIMIT, NETWORK, OPERATION_LIMIT, Outcome, Report, ReportDifference, ReportEnd,
    UsedTransport, Verified, from_base64,
};
use hakobu_core::request::CipherChoice;
use hakobu_core::requests::RequestCounts;
use hakobu_core::units::{format_bytes, format_rate};

use crate::language::Language;
use crate::report::words::loss_name;
use crate::translation::{localized, phrase, text};

/// The most failures that are shown; the report has them all.
pub const FAILURES_SHOWN_MAX: u64 = 20;
/// The duration in seconds after which a run prints advice.
const ADVICE_FROM_SECONDS: f64 = 10.0;

/// A shorter run has no bottleneck worth removing.
const VERDICT_FROM_SECONDS: f64 = 0.1;

/// The summary, line by line.
pub fn lines(report: &Report, verbose: bool, language: Language) -> Vec<String> {
    let began = report.something_done() || report.entries.scanned > 0;
    if report.error.is_some() && !began && report.outcome != Outcome::Interrupted {
        // The error has been said; zeros would add nothing.
        return Vec::new();
    }
    let outcome = phrase(language, outcome_words(report));
    let mut lines = vec![format!("{outcome}: {}", entries(report, language))];
    lines.push(speed(report, language));
    lines.extend(route(report, language));
    lines.extend(outages(report, language));
    lines.extend(paused(report, language));
    lines.extend(held_still(report, language));
    lines.extend(requests(report, language));
    if report.verified == Verified::Medium && !verbose {
        lines.push(localized!(language, "verified: {}", phrase(language, check(report))));
    }
    lines.extend(advice(report, verbose, language));
    if let Some(digest) = &report.digest_blake3 {
        lines.push(format!("blake3 {}", lossy(digest.as_bytes())));
    } else if verbose && let Some(reason) = &report.digest_blake3_reason {
        let reason = lossy(reason.as_bytes());
        lines.push(localized!(language, "no digest: {}", text(language, &reason)));
    }
    lines.extend(report.pairs.iter().map(|pair| {
        let digest = pair.digest_blake3.clone().unwrap_or_else(|| phrase(language, "no digest"));
        let (source, target) = (lossy(pair.source.as_bytes()), lossy(pair.target.as_bytes()));
        let ends = localized!(language, "{} to {}", source, target);
        format!("blake3 {}  {ends}", lossy(digest.as_bytes()))
    }));
    lines.extend(differences(report, language));
    lines.extend(sampled(report, language));
    lines.extend(kept_digests(report, language));
    lines.extend(losses(report, language));
    lines.extend(failures(report, language));
    if verbose {
        lines.extend(details(report, language));
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

/// `3 created (1 directory), 2 updated, 1 000 unchanged, 2 failed`; the first three are said even when there are none.
pub(crate) fn entries(report: &Report, language: Language) -> String {
    let entries = &report.entries;
    let compares = report.only_compared;
    // Of a plan that holds, its first word says what it is.
    let would_fail = report.dry_run && report.outcome == Outcome::Failed;
    let is_one = entries.scanned == 1 && entries.created + entries.updated + entries.unchanged == 1;
    let count = |count| language.count(count);
    let created = count(entries.created);
    let created = match would_fail {
        true => localized!(language, "{} to create", created),
        false => localized!(language, "{} created", created),
    };
    let updated = count(entries.updated);
    let updated = match would_fail {
        true => localized!(language, "{} to update", updated),
        false if is_one && report.target.identity.is_some() => {
            localized!(language, "{} disk written", updated)
        }
        false if is_one && keeps_nothing(&report.target) => localized!(language, "{} written", updated),
        false => localized!(language, "{} updated", updated),
    };
    let unchanged = count(entries.unchanged);
    let unchanged = match compares {
        true => localized!(language, "{} equal", unchanged),
        false => localized!(language, "{} unchanged", unchanged),
    };
    let directories = match entries.directories_created {
        0 => String::new(),
        1 => phrase(language, " (1 directory)"),
        many => localized!(language, " ({} directories)", count(many)),
    };
    let sockets = match entries.sockets_skipped {
        0 => String::new(),
        1 => phrase(language, " (1 socket)"),
        many => localized!(language, " ({} sockets)", count(many)),
    };
    let attributes_only = count(entries.attributes_only);
    let only_in_target = count(entries.only_in_target);
    let counts = [
        (entries.created, !compares, created + &directories),
        (entries.updated, !compares, updated),
        (entries.unchanged, true, unchanged),
        (
            entries.attributes_only,
            false,
            localized!(language, "{} with new attributes only", attributes_only),
        ),
        (entries.different, false, localized!(language, "{} different", count(entries.different))),
        (entries.deleted, false, localized!(language, "{} deleted", count(entries.deleted))),
        (entries.only_in_target, false, localized!(language, "{} only in the target", only_in_target)),
        (entries.skipped, false, localized!(language, "{} skipped", count(entries.skipped)) + &sockets),
        (entries.failed, false, localized!(language, "{} failed", count(entries.failed))),
        (entries.examined, false, localized!(language, "{} examined", count(entries.examined))),
    ];
    let shown = counts.into_iter().filter(|(count, always, _)| *always && !is_one || *count > 0);
    shown.map(|(_, _, words)| words).collect::<Vec<_>>().join(language.say(", ", "、"))
}

/// Returns true if the target is standard output or a device that keeps nothing.
fn keeps_nothing(target: &ReportEnd) -> bool {
    target.typed == "-" || target.typed.ends_with("/dev/null")
}

fn speed(report: &Report, language: Language) -> String {
    let words = |seconds: f64| language.seconds(seconds);
    // The time that the rate is of: logging in is no part of it.
    let moving = if report.seconds.transfer > 0.0 { report.seconds.transfer } else { report.seconds.total };
    if report.dry_run {
        let (bytes, total) = (format_bytes(report.bytes.planned), words(report.seconds.total));
        return localized!(language, "up to {} to transfer, checked in {}", bytes, total);
    }
    let mut line = localized!(language, "{} in {}", format_bytes(report.bytes_done), words(moving));
    if report.bytes_done > report.bytes.target_written && !report.only_compared {
        line.push_str(&localized!(language, " ({} written)", format_bytes(report.bytes.target_written)));
    }
    if let Some(ratio) = ratio(report) {
        line.push_str(&localized!(language, " (compressed {} to 1)", format!("{ratio:.1}")));
    }
    if report.throughput_bytes_per_second > 0 {
        line.push_str(&format!(": {}", format_rate(report.throughput_bytes_per_second as f64)));
    }
    if let Some(limit) = report.bottleneck.as_ref().filter(|_| has_verdict(report)) {
        let limit = limit_words(limit, is_little_sent(report), language);
        line.push_str(&localized!(language, ", limited by: {}", limit));
    }
    if report.resumed {
        line.push_str(&phrase(language, "; the rest was there from an interrupted run"));
    }
    if report.seconds.total > moving {
        line.push_str(&localized!(language, "; {} in all", words(report.seconds.total)));
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
fn limit_words(limit: &Bottleneck, little_sent: bool, language: Language) -> String {
    let busy = |share: f64| format!("{:.0} %", share * 100.0);
    let asked = [
        (LaneStage::Held.name(), "--bwlimit"),
        (OPERATION_LIMIT, "--iops-limit"),
        (LATENCY_LIMIT, "--source-p99"),
    ];
    let name = phrase(language, &lossy(limit.stage.as_bytes()));
    if let Some((_, option)) = asked.into_iter().find(|(name, _)| *name == limit.stage) {
        let share = busy(limit.share);
        return localized!(language, "{} ({}, as requested, for {} of the time)", name, option, share);
    }
    let network = limit.resources.get(NETWORK).filter(|_| limit.stage != NETWORK && !little_sent);
    let network =
        network.map(|share| localized!(language, ", network {} used", busy(*share))).unwrap_or_default();
    let each = limit.file_server.map(|server| language.milliseconds(server.operation_ms));
    let each = each.map(|each| localized!(language, "{} for each operation, ", each)).unwrap_or_default();
    let share = localized!(language, "{} busy", busy(limit.share));
    format!("{name} ({each}{share}{network})")
}

/// Returns advice on a faster run, if the run was long enough to matter.
fn advice(report: &Report, verbose: bool, language: Language) -> Option<String> {
    let limit = report.bottleneck.as_ref()?;
    // The error that ended the run says what is wrong.
    let matters = report.error.is_none()
        && has_verdict(report)
        && (verbose || report.seconds.transfer >= ADVICE_FROM_SECONDS);
    let advice = lossy(limit.advice.as_bytes());
    (matters && !advice.is_empty()).then(|| localized!(language, "advice: {}", text(language, &advice)))
}

/// The first ranges of large files and disks that differ, and how much that is in all.
fn differences(report: &Report, language: Language) -> Vec<String> {
    // The others were listed as they were found.
    let ranges: Vec<_> = report.differences.iter().filter(|known| known.offset_bytes.is_some()).collect();
    let shown = ranges.iter().take(FAILURES_SHOWN_MAX as usize);
    let mut lines: Vec<_> = shown.map(|range| difference_words(range, language)).collect();
    let bytes = format_bytes(report.differing_bytes);
    match ranges.len() {
        0 => {}
        1 => lines.push(localized!(
            language,
            "{} in 1 range differs; all are in the report (--report FILE)",
            bytes
        )),
        count => lines.push(localized!(
            language,
            "{} in {} ranges differ; all are in the report (--report FILE)",
            bytes,
            language.count(count as u64)
        )),
    }
    lines
}

/// `only in the source: a/b`, `differs: a/c: bytes 0 to 262144`.
pub(crate) fn difference_words(difference: &ReportDifference, language: Language) -> String {
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
    let differs = |what: String| localized!(language, "differs: {}: {}{}", path, what, values);
    match difference.what.as_str() {
        "only_in_source" => localized!(language, "only in the source: {}", path),
        "only_in_target" => localized!(language, "only in the target: {}", path),
        "kind" if values.is_empty() => differs(phrase(language, "another kind of entry")),
        "time" => differs(phrase(language, "modification time")),
        "xattr" => differs(phrase(language, "extended attributes or ACLs")),
        "links" => differs(phrase(language, "not a hard link to the same file")),
        "range" => {
            let offset = difference.offset_bytes.unwrap_or(0);
            let end = offset.saturating_add(difference.length_bytes.unwrap_or(0));
            differs(localized!(language, "bytes {} to {}", offset, end))
        }
        what => differs(phrase(language, what)),
    }
}

/// Says how much content was compared by digests that stores keep.
fn kept_digests(report: &Report, language: Language) -> Option<String> {
    let of = |requests: &Option<RequestCounts>| requests.map_or(0, |requests| requests.kept_digests);
    let kept = of(&report.requests.source).max(of(&report.requests.target));
    let count = language.count(kept);
    (report.only_compared && kept > 0).then(|| {
        localized!(
            language,
            "the content of {} files was compared by digests that the store keeps; --full reads it instead",
            count
        )
    })
}

/// Describes how far a sample without differences covers the rest.
fn sampled(report: &Report, language: Language) -> Option<String> {
    let read = report.entries.compared;
    let differing =
        report.differences.iter().any(|difference| matches!(difference.what.as_str(), "content" | "range"));
    if !report.sampled || differing || read == 0 {
        return None;
    }
    // If a share p of the files differed, none of n would be seen with a chance of (1 - p)^n: 5 % at p = 3 / n.
    let share = 1.0 - 0.05_f64.powf(1.0 / read as f64);
    Some(localized!(
        language,
        "the content of {} files, chosen at random, is equal: with 95 % confidence, that of fewer than {} % of all files differs",
        language.count(read),
        format!("{:.2}", share * 100.0)
    ))
}

fn losses(report: &Report, language: Language) -> impl Iterator<Item = String> {
    report.losses.iter().map(move |loss| {
        let (what, example) = (loss_name(&loss.what, language), lossy(loss.example.as_bytes()));
        // The top of a tree has no name of its own.
        let example = if example.is_empty() { ".".to_owned() } else { example };
        let (entries, side) = (language.entries(loss.count), lossy(loss.side.as_bytes()));
        let side = match language {
            Language::En => side,
            Language::Ja => phrase(language, &format!("the {side}")),
        };
        let next = match loss.what == LossKind::SetId.name() && report.rights_withheld {
            true => phrase(language, ": from another host they are copied only with --allow setuid"),
            false => String::new(),
        };
        match report.only_compared {
            true => localized!(
                language,
                "not compared: {} of {}, such as {} at the {}{}",
                what,
                entries,
                example,
                side,
                next
            ),
            false => {
                localized!(
                    language,
                    "not preserved: {} of {}, such as {} at the {}{}",
                    what,
                    entries,
                    example,
                    side,
                    next
                )
            }
        }
    })
}

fn failures(report: &Report, language: Language) -> Option<String> {
    let count = report.failures.len() as u64;
    let failed = language.count(count);
    match count {
        0 => None,
        1..=FAILURES_SHOWN_MAX => Some(localized!(language, "{} failed: listed above", failed)),
        _ => Some(localized!(
            language,
            "{} failed: the first are listed above, all of them in the report (--report FILE)",
            failed
        )),
    }
}

/// `transport: sftp, encrypted by ssh, 2 lanes, checked by ssh alone`
fn transport(report: &Report, language: Language) -> String {
    let lanes = match report.lanes_max {
        1 => phrase(language, "1 lane"),
        lanes => localized!(language, "{} lanes", lanes),
    };
    let check = phrase(language, check(report));
    let words =
        [Some(report.transport.name().to_owned()), encryption(report, language), Some(lanes), Some(check)];
    let words: Vec<_> = words.into_iter().flatten().collect();
    localized!(language, "transport: {}", words.join(language.say(", ", "、")))
}

/// Describes the encryption of the data. `None` if no data leaves this machine.
fn encryption(report: &Report, language: Language) -> Option<String> {
    let by_ssh = report.transport.relies_on_ssh() || report.transport.is_through_ssh();
    let cipher = report.cipher.as_deref().filter(|cipher| *cipher != CipherChoice::None.name());
    Some(match (by_ssh, cipher.map(|cipher| lossy(cipher.as_bytes()))) {
        _ if report.transport == UsedTransport::Local => return None,
        (true, Some(cipher)) => localized!(language, "encrypted by ssh and by {}", cipher),
        (true, None) => phrase(language, "encrypted by ssh"),
        (false, Some(cipher)) => localized!(language, "encrypted by {}", cipher),
        (false, None) => phrase(language, "not encrypted"),
    })
}

/// Returns the words for the way in which the target was verified.
fn check(report: &Report) -> &'static str {
    match report.verified {
        Verified::Medium => "read back from the medium and compared",
        Verified::Wire if report.transport == UsedTransport::Rsync => "checked by rsync's own checksums",
        Verified::Wire if is_to_store(report) => "checked by the checksums of the store",
        Verified::Wire => "digests compared",
        Verified::None if report.dry_run || report.only_compared => "nothing written",
        // ssh detects changes in transit, but no errors at either end.
        Verified::None if report.transport.relies_on_ssh() => "checked by ssh alone, no digests compared",
        Verified::None if is_to_store(report) && report.requests.target.is_some_and(|sent| sent.put == 0) => {
            "copied by the store itself"
        }
        Verified::None => "not checked",
    }
}

/// Returns true if the target is in a store that counts requests.
fn is_to_store(report: &Report) -> bool {
    report.requests.target.is_some()
}

/// How long the service was stopped at most.
fn held_still(report: &Report, language: Language) -> Option<String> {
    let time = language.seconds(report.seconds.held_still?);
    Some(localized!(language, "the source was frozen for {}", time))
}

/// Returns the route that content would take by a plan, unless both ends are in one place.
fn route(report: &Report, language: Language) -> Option<String> {
    let name = |machine: &String| phrase(language, &lossy(machine.as_bytes()));
    let machines: Vec<_> = report.route.iter().map(name).collect();
    (report.dry_run && machines.len() > 1).then(|| localized!(language, "route: {}", machines.join(" -> ")))
}

/// Whoever comes back in the morning learns why it took longer.
fn outages(report: &Report, language: Language) -> Option<String> {
    let outages = &report.outages;
    let time = language.seconds(outages.seconds);
    match outages.count {
        0 => None,
        1 => Some(localized!(language, "connection lost once: {} without it", time)),
        count => {
            let count = language.count(count);
            Some(localized!(language, "connection lost {} times: {} without it", count, time))
        }
    }
}

/// A pause is asked for as well, but says nothing of the rate.
fn paused(report: &Report, language: Language) -> Option<String> {
    let time = language.seconds(report.seconds.paused);
    (report.seconds.paused > 0.0)
        .then(|| localized!(language, "paused for {} by the timetable of --bwlimit", time))
}

fn requests(report: &Report, language: Language) -> Vec<String> {
    let ReportRequests { source, target, planned_source, planned_target } = &report.requests;
    let kinds = |counts: &RequestCounts| {
        let kinds = counts.kinds().map(|(kind, count)| format!("{} {kind}", language.count(count)));
        kinds.collect::<Vec<_>>().join(", ")
    };
    let of = |counts: &Option<RequestCounts>| counts.as_ref().map(kinds).filter(|kinds| !kinds.is_empty());
    let with_bytes = |counts: &Option<RequestCounts>| {
        let mut told = of(counts)?;
        let RequestCounts { sent_bytes, received_bytes, .. } = counts.unwrap_or_default();
        if sent_bytes > 0 {
            told += &localized!(language, "; {} to send", format_bytes(sent_bytes));
        }
        if received_bytes > 0 {
            told += &localized!(language, "; {} to receive", format_bytes(received_bytes));
        }
        Some(told)
    };
    [
        of(source).map(|kinds| localized!(language, "requests at the source: {}", kinds)),
        of(target).map(|kinds| localized!(language, "requests at the target: {}", kinds)),
        with_bytes(planned_source)
            .map(|kinds| localized!(language, "the plan takes, at the source: {}", kinds)),
        with_bytes(planned_target)
            .map(|kinds| localized!(language, "the plan takes, at the target: {}", kinds)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn details(report: &Report, language: Language) -> Vec<String> {
    let seconds = &report.seconds;
    let spent = |seconds: f64| language.seconds(seconds);
    let (connect, scan, transfer) = (spent(seconds.connect), spent(seconds.scan), spent(seconds.transfer));
    let mut lines = vec![
        transport(report, language),
        localized!(language, "time: connect {}, scan {}, transfer {}", connect, scan, transfer),
    ];
    if let Some(bottleneck) = &report.bottleneck {
        let mut stages: Vec<_> = bottleneck.stages.iter().collect();
        stages.sort_by(|a, b| b.1.total_cmp(a.1));
        let stage = |(stage, share): (&String, &f64)| {
            let stage = match report.only_compared && *stage == "target write" {
                true => "target read",
                false => stage.as_str(),
            };
            format!("{} {:.0} %", phrase(language, stage), *share * 100.0)
        };
        let stages: Vec<_> = stages.into_iter().map(stage).collect();
        lines.push(localized!(language, "lanes: {}", stages.join(language.say(", ", "、"))));
    }
    if let (Some(sent), Some(received)) = (report.bytes.wire_sent, report.bytes.wire_received) {
        let (sent, received) = (format_bytes(sent), format_bytes(received));
        lines.push(localized!(language, "wire: {} sent, {} received", sent, received));
    }
    lines
}

#[cfg(test)]
mod tests {
    use hakobu_core::counters::CounterTotals;
    use hakobu_core::error::{Error, ErrorKind};
    use hakobu_core::report::{FileServer, ReportLoss};

    use super::*;

    const EN: Language = Language::En;

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
            lines(&report, false, EN)[0],
            "plan that would fail: 3 to create, 2 to update, 1 000 unchanged"
        );
        report.dry_run = false;
        assert!(lines(&report, false, EN)[0].starts_with("failed: 3 created, 2 updated"));
    }

    #[test]
    fn one_file_or_disk_has_no_zeros() {
        let one = |typed: &str, sum: CounterTotals| {
            let mut report = Report::default();
            report.set_figures(&CounterTotals { entries_scanned: 1, ..sum });
            report.target.typed = typed.into();
            entries(&report, EN)
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
    fn requests_are_told_if_there_were_any() {
        let mut report = report();
        let source = RequestCounts { list: 1_000, head: 3, sent_bytes: 7, ..RequestCounts::default() };
        report.requests.source = Some(source);
        report.requests.planned_target =
            Some(RequestCounts { put: 2, sent_bytes: 7, ..RequestCounts::default() });
        assert_eq!(
            lines(&report, false, EN)[2..],
            [
                "requests at the source: 1 000 list, 3 head",
                "the plan takes, at the target: 2 put; 7 B to send"
            ]
        );
    }

    #[test]
    fn what_was_examined_is_told_if_anything_was() {
        let mut report = report();
        report.entries.examined = 14;
        assert_eq!(entries(&report, EN), "3 created, 2 updated, 1 000 unchanged, 14 examined");
    }

    #[test]
    fn a_good_end_is_two_lines() {
        let expected = [
            "done: 3 created, 2 updated, 1 000 unchanged",
            "1.07 GB in 2.80 s: 382 MB/s, limited by: source read (61 % busy); 2.90 s in all",
        ];
        assert_eq!(lines(&report(), false, EN), expected);
        assert!(!can_go_on(&report()));
        let advice = |report: &Report, verbose| {
            lines(report, verbose, EN).iter().any(|line| line.starts_with("advice: "))
        };
        assert!(advice(&report(), true));
        let mut long = report();
        long.seconds.transfer = 600.0;
        assert!(advice(&long, false));
        let network = |sent: u64| {
            let mut report = report();
            (report.bytes.wire_sent, report.bytes.wire_received) = (Some(sent), Some(9));
            report.bottleneck.as_mut().unwrap().resources.insert(NETWORK.to_owned(), 1.0);
            lines(&report, false, EN)[1].contains("network 100 % used")
        };
        assert!(network(1 << 30) && !network(1 << 20));
        let mut afar = report();
        let limit = afar.bottleneck.as_mut().unwrap();
        limit.stage = "latency of the source's file server".into();
        limit.file_server = Some(FileServer { operation_ms: 6.13, answer_ms: 2.0 });
        assert_eq!(
            lines(&afar, false, EN)[1],
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
            super::transport(&report, EN)
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
        assert_eq!(transport(&plan, EN), "transport: sftp, encrypted by ssh, 1 lane, nothing written");
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
        let said = lines(&report, true, EN).join("\n");
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
        assert!(lines(&report, false, EN)[0].starts_with("interrupted: 3 created"));
        report.conclude(&[], Some(&Error::new(ErrorKind::ConnectionLost, "copying", "")), false);
        assert!(can_go_on(&report));
        report.conclude(&[], Some(&Error::new(ErrorKind::NoSpace, "copying", "")), false);
        assert!(!can_go_on(&report));
    }

    #[test]
    fn a_run_that_never_began_has_no_summary() {
        let mut report = Report::default();
        report.conclude(&[], Some(&Error::new(ErrorKind::NotFound, "opening", "")), false);
        assert_eq!(lines(&report, false, EN), Vec::<String>::new());
    }

    #[test]
    fn the_japanese_summary_has_all_of_it() {
        let mut report = report();
        report.entries.directories_created = 1;
        report.entries.skipped = 2;
        assert_eq!(
            lines(&report, false, Language::Ja),
            [
                "完了: 作成 3(うちディレクトリ 1)、更新 2、変更なし 1,000、スキップ 2",
                "2.80 秒で 1.07 GB: 382 MB/s、ボトルネック: コピー元の読み取り (61 % 使用)、合計 2.90 秒",
            ]
        );
        let verbose = lines(&report, true, Language::Ja).join("\n");
        assert!(
            !verbose.contains("time:") && verbose.contains("レーン: コピー元の読み取り 61 %"),
            "{verbose}"
        );
    }
}
