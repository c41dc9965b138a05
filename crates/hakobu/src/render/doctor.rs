//! The findings of the doctor as text, or as JSON: `hakobu.doctor/1`, described in `docs/book/doctor.md`.

use std::fmt::Write;

use hakobu_core::error::{Error, Result};
use hakobu_core::path::lossy;
use hakobu_core::units::format_rate;
use hakobu_measure::doctor::{ExpectedGain, ExpectedRates, Finding, FindingHost, NetworkPath};
use hakobu_transfer::doctor::Diagnosis;
use serde_json::{Value, json as object};

use crate::render::json::pretty;

/// The schema of the findings.
pub const DOCTOR_SCHEMA: &str = "hakobu.doctor/1";

/// The findings for people: numbered, or one line that there are none.
pub fn text(host: Option<&str>, diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    let way = &diagnosis.way;
    if diagnosis.findings.is_empty() {
        let _ = match host {
            Some(host) => writeln!(
                text,
                "nothing to change: no setting of this machine or {} is predicted to hold a transfer back ({})",
                safe(host),
                way_words(way)
            ),
            None => {
                writeln!(
                    text,
                    "nothing to change: no setting of this machine is predicted to hold a transfer back"
                )
            }
        };
    } else if host.is_some() {
        let _ = writeln!(text, "{}\n", way_words(way));
    }
    for (index, finding) in diagnosis.findings.iter().enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        let _ = write!(text, "{gap}{}. {}", index + 1, one(host, finding));
    }
    if !diagnosis.unread.is_empty() {
        let _ = writeln!(text, "{}not read:", if diagnosis.findings.is_empty() { "" } else { "\n" });
    }
    for (whose, words) in &diagnosis.unread {
        let _ = writeln!(text, "  {}: {}", place(host, *whose), safe(words));
    }
    text
}

fn way_words(way: &NetworkPath) -> String {
    let round_trip = way.round_trip.as_secs_f64() * 1e3;
    let lanes = way.lanes;
    match way.capacity_bytes_per_second {
        Some(rate) => {
            let rate = format_rate(rate as f64);
            format!("round trip {round_trip:.1} ms, {rate} measured, {lanes} lanes")
        }
        None => format!("round trip {round_trip:.1} ms, {lanes} lanes"),
    }
}

fn one(host: Option<&str>, finding: &Finding) -> String {
    let mut text = format!("{}: {}\n", place(host, finding.whose), safe(&finding.fact));
    let _ = writeln!(text, "   why:     {}", safe(&finding.why));
    let _ = writeln!(text, "   command: {}", safe(&finding.command));
    let gain = match (&finding.expected, finding.severity.name()) {
        (Some(expected), _) => gain(expected),
        (None, "fails") => "what fails now will work".to_owned(),
        (None, _) => "cannot be predicted".to_owned(),
    };
    let _ = writeln!(text, "   gain:    {gain}");
    text
}

fn gain(expected: &ExpectedGain) -> String {
    let rate = |change: &ExpectedRates| {
        let after = change.after.map_or("what the link carries without it".to_owned(), format_rate);
        format!("{} -> {after}", format_rate(change.before))
    };
    let mut words = Vec::new();
    if let Some(change) = &expected.hakobu {
        words.push(format!("hakobu with its first {} lanes {}", expected.lanes, rate(change)));
    }
    if let Some(change) = &expected.connection {
        words.push(format!("one connection {}", rate(change)));
    }
    if let Some(times) = expected.times {
        words.push(format!("up to {times:.1} times as fast, where this is the bottleneck"));
    }
    words.join("; ")
}

/// Where something is.
fn place(host: Option<&str>, whose: FindingHost) -> String {
    match (whose, host) {
        (FindingHost::There, Some(host)) => safe(host),
        _ => "this machine".to_owned(),
    }
}

fn safe(text: &str) -> String {
    lossy(text.as_bytes())
}

/// The findings as one object.
///
/// # Errors
/// None that is known; serialising could fail.
pub fn json(host: Option<&str>, diagnosis: &Diagnosis) -> Result<String> {
    let way = &diagnosis.way;
    let findings: Vec<_> = diagnosis.findings.iter().map(|found| finding(host, found)).collect();
    let unread =
        |(whose, words): &(FindingHost, String)| object!({ "host": far(host, *whose), "what": words });
    let all = object!({
        "schema": DOCTOR_SCHEMA,
        "host": host,
        "way": {
            "measured": way.measured,
            "round_trip_seconds": way.round_trip.as_secs_f64(),
            "capacity_bytes_per_second": way.capacity_bytes_per_second,
            "lanes": way.lanes,
        },
        "findings": findings,
        "unread": diagnosis.unread.iter().map(unread).collect::<Vec<_>>(),
    });
    pretty(&all).map_err(|error| Error::io("writing the findings", &error))
}

fn finding(host: Option<&str>, finding: &Finding) -> Value {
    object!({
        "id": finding.id,
        "host": far(host, finding.whose),
        "severity": finding.severity.name(),
        "fact": finding.fact,
        "why": finding.why,
        "command": finding.command,
        "expected": finding.expected.map(expected),
    })
}

fn expected(expected: ExpectedGain) -> Value {
    let change = |change: ExpectedRates| {
        object!({
            "before_bytes_per_second": change.before.round() as u64,
            "after_bytes_per_second": change.after.map(|rate| rate.round() as u64),
        })
    };
    object!({
        "one_connection": expected.connection.map(change),
        "hakobu": expected.hakobu.map(change),
        "lanes": (expected.lanes > 0).then_some(expected.lanes),
        "times": expected.times,
    })
}

/// The other machine's name; nothing for this one.
fn far(host: Option<&str>, whose: FindingHost) -> Option<&str> {
    host.filter(|_| whose == FindingHost::There)
}

#[cfg(test)]
mod tests;
