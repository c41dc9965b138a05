//! Explains why two rows that differ only in direction, or in which machine starts, differ in speed.
//!
//! A pipeline is as fast as its busiest process. The slow row is searched for a process that ran, or waited for a
//! processor, for most of the run. That process is compared with its counterpart in the fast row.

use hakobu_core::units::format_rate;
use serde::Serialize;

use super::case::{BenchCase, DataDirection, Initiator, Method};
use super::processes::{ProcessCost, is_server};
use super::result::Row;

/// Rows whose speeds differ by less than this factor count as equal.
const TIMES_MIN: f64 = 1.5;
/// The share of a run above which a process counts as busy all the time.
const BUSY_MIN: f64 = 0.8;
/// The lower limit for a process that was already found busy in the other direction. Starts differ, and a run may be
/// little longer than its start.
const ALSO_BUSY_MIN: f64 = 0.6;
/// The share of a run spent waiting for a processor above which a process counts as starved.
const STARVED_MIN: f64 = 0.25;
/// The share of a run, and the number of looks, that the looks at the host must at least cover. With less, a busy
/// process may have been missed: a process can be kept from a processor for long, and a wait is only counted once it
/// has ended.
const SEEN_MIN: f64 = 0.5;
const LOOKS_MIN: usize = 3;
/// A process that uses more processors than this has more than one thread.
const ONE_PROCESSOR_MAX: f64 = 1.1;

/// A difference between two rows, and its cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Asymmetry {
    /// The slow row.
    pub slow: BenchCase,
    /// The fast row.
    pub fast: BenchCase,
    /// The ratio of the fast rate to the slow rate.
    pub times: f64,
    /// The process that limits the slow row: its end (`here`, `there`) and its name. `None` if no process is busy all
    /// the time.
    pub process: Option<(String, String)>,
    /// The busy share of that process, from 0 to 1, including the time it waited for a processor. The sum over all
    /// threads, capped at 1.
    pub busy: Option<f64>,
    /// The explanation as text.
    pub words: String,
}

/// Returns all differences, the largest first. `host` is the name of the host.
#[must_use]
pub fn asymmetries(rows: &[Row], host: &str) -> Vec<Asymmetry> {
    let measured: Vec<(&Row, f64)> = rows.iter().filter_map(|row| Some((row, row.rate()?))).collect();
    let mut found = Vec::new();
    for (index, (one, one_rate)) in measured.iter().enumerate() {
        for (other, other_rate) in &measured[index + 1..] {
            if !differ_in_one(&one.case, &other.case) {
                continue;
            }
            let (slow, fast, times) = match one_rate < other_rate {
                true => (one, other, other_rate / one_rate),
                false => (other, one, one_rate / other_rate),
            };
            if times > TIMES_MIN && are_apart(slow, fast) {
                found.push(explain(slow, fast, times, host, rows));
            }
        }
    }
    found.sort_by(|one, other| other.times.total_cmp(&one.times));
    found
}

/// Returns true if every run of the slow row took longer than every run of the fast row. Otherwise the difference may
/// be chance. With a single run each, chance cannot be excluded.
fn are_apart(slow: &Row, fast: &Row) -> bool {
    let times = |row: &Row| row.runs.iter().map(|run| run.wall_seconds).collect::<Vec<_>>();
    // The amount sent may differ between rows.
    let per_byte = |row: &Row, seconds: f64| (seconds - row.start_seconds()) / row.size_bytes.max(1) as f64;
    let least = times(slow).into_iter().map(|time| per_byte(slow, time)).fold(f64::INFINITY, f64::min);
    let most = times(fast).into_iter().map(|time| per_byte(fast, time)).fold(0.0, f64::max);
    least > most
}

/// Returns true if the cases differ only in direction, or only in who starts.
fn differ_in_one(one: &BenchCase, other: &BenchCase) -> bool {
    let turned = BenchCase { direction: other.direction, ..one.clone() };
    let by_the_other = BenchCase { starter: other.starter, ..one.clone() };
    one != other && (turned == *other || by_the_other == *other)
}

/// The busiest process of a row: its end, its name, the shares of the run that it ran and that it waited for a
/// processor (both summed over its threads), its number of threads, and the duration of the run in seconds.
struct BusiestProcess {
    there: bool,
    name: String,
    cpu: f64,
    waited: f64,
    threads: u32,
    seconds: f64,
}

impl BusiestProcess {
    fn busy(&self) -> f64 {
        self.cpu + self.waited
    }

    /// Returns true if the process uses one processor at a time.
    fn is_one_thread(&self) -> bool {
        self.threads <= 1 && self.cpu <= ONE_PROCESSOR_MAX
    }
}

/// Returns the cost of each process of a row without its start, with true for processes on the host.
fn costs(row: &Row) -> Vec<(bool, ProcessCost)> {
    let Some((here, there)) = row.costs() else { return Vec::new() };
    let there = there.into_iter().flatten().map(|cost| (true, cost));
    here.into_iter().map(|cost| (false, cost)).chain(there).collect()
}

fn busiest(row: &Row) -> Option<BusiestProcess> {
    let seconds = row.middle()?.wall_seconds - row.start_seconds();
    if seconds <= 0.0 {
        return None;
    }
    let all = costs(row).into_iter().map(|(there, cost)| BusiestProcess {
        there,
        name: cost.name,
        cpu: cost.cpu_seconds / seconds,
        waited: cost.waited_seconds / seconds,
        threads: cost.threads,
        seconds,
    });
    all.max_by(|one, other| one.busy().total_cmp(&other.busy()))
}

/// Returns the processor seconds per byte that matching processes used at one end.
fn seconds_per_byte(row: &Row, there: bool, matches: impl Fn(&str) -> bool) -> Option<f64> {
    let of_them = costs(row).into_iter().filter(|(at, cost)| *at == there && matches(&cost.name));
    let sum: f64 = of_them.map(|(_, cost)| cost.cpu_seconds).sum();
    (sum > 0.0).then(|| sum / row.size_bytes as f64)
}

fn explain(slow: &Row, fast: &Row, times: f64, host: &str, rows: &[Row]) -> Asymmetry {
    let rate = |row: &Row| format_rate(row.rate().unwrap_or(0.0));
    let mut words = format!(
        "{}: {} {}{}, {} {}{}, {times:.1} times as fast. ",
        slow.case.way.name(slow.case.direction),
        rate(slow),
        manner(&slow.case, &fast.case, host),
        slow.by_another_way(),
        rate(fast),
        manner(&fast.case, &slow.case, host),
        fast.by_another_way()
    );
    let busiest = busiest(slow);
    let bound = busiest.as_ref().filter(|found| found.busy() >= BUSY_MIN);
    match (bound, &busiest) {
        (Some(found), _) => words.push_str(&cause(found, slow, fast, host, rows)),
        (None, busiest) => words.push_str(&no_cause(busiest.as_ref(), slow, host)),
    }
    if let Some(ours) = of_hakobu(&slow.case, &fast.case, rows) {
        words.push_str(&ours);
    }
    let place = |there: bool| if there { "there" } else { "here" }.to_owned();
    Asymmetry {
        slow: slow.case.clone(),
        fast: fast.case.clone(),
        times,
        busy: bound.map(|found| found.busy().min(1.0)),
        process: bound.map(|found| (place(found.there), found.name.clone())),
        words,
    }
}

/// Describes how a row differs from the other.
fn manner(case: &BenchCase, other: &BenchCase, host: &str) -> String {
    let direction = match case.direction {
        DataDirection::ToHost => format!("to {host}"),
        DataDirection::FromHost => format!("from {host}"),
        DataDirection::Here => "here".to_owned(),
    };
    let starter = match case.starter {
        Initiator::Here => "started here".to_owned(),
        Initiator::There => format!("started on {host}"),
    };
    match case.direction == other.direction {
        true => format!("{direction} {starter}"),
        false => direction,
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn end_of(there: bool, host: &str) -> &str {
    if there { host } else { "this machine" }
}

/// Explains what limits the slow row, with figures.
fn cause(found: &BusiestProcess, slow: &Row, fast: &Row, host: &str, rows: &[Row]) -> String {
    let (name, end) = (&found.name, end_of(found.there, host));
    let own = seconds_per_byte(slow, found.there, |other| other == name);
    let mut words = format!("What holds the slow one up is {name} on {end}: {}", share(found, end));
    if let Some(own) = own {
        words.push_str(&format!(" Each GB takes {:.2} s of its processor time", own * 1e9));
        if found.is_one_thread() {
            words.push_str(&format!(
                ", which makes at most {} with a whole processor",
                format_rate(1.0 / own)
            ));
        }
        words.push_str(&counterpart(found, fast, end));
        words.push('.');
    }
    if is_server(name) && binds_in_both_directions(found, slow, rows) {
        words.push_str(&format!(
            " In the other direction it is the same: when the sshd of {end} serves, it is what limits, whichever way the data goes."
        ));
    }
    words
}

/// Describes how much processor time the process had and wanted.
fn share(found: &BusiestProcess, end: &str) -> String {
    if found.waited >= STARVED_MIN && !found.is_one_thread() {
        format!(
            "its threads waited for a processor for {:.1} s and ran for {:.1} s, added up over all of them, in the {:.1} s that it \
             took. Other programs on {end} take the processors, a limit withholds them (the quota of a control group, a \
             container, a virtual machine), or there are fewer of them than threads that want to run.",
            found.waited * found.seconds,
            found.cpu * found.seconds,
            found.seconds
        )
    } else if found.waited >= STARVED_MIN {
        format!(
            "it wanted to run for {} of the time, and was given a processor for {} of it. Other programs on {end} take the \
             processors, or a limit withholds them (the quota of a control group, a container, a virtual machine).",
            percent(found.busy().min(1.0)),
            percent(found.cpu)
        )
    } else if found.is_one_thread() {
        format!(
            "it ran for {} of the time, and does its work in one thread. A thread runs on one processor at a time, so that more \
             of them do not help.",
            percent(found.cpu.min(1.0))
        )
    } else if found.cpu <= ONE_PROCESSOR_MAX {
        format!(
            "its threads ran for {} of the time, added up. Where one of them does most of the work, more processors do not help.",
            percent(found.cpu)
        )
    } else {
        format!("its threads used {:.1} processors.", found.cpu)
    }
}

/// Describes the cost of the same work in the fast row. ssh and sshd count as counterparts of each other.
fn counterpart(found: &BusiestProcess, fast: &Row, end: &str) -> String {
    let encrypts = |name: &str| is_server(name) || name == "ssh";
    let is_it = |name: &str| name == found.name || (encrypts(&found.name) && encrypts(name));
    let Some(seconds) = seconds_per_byte(fast, found.there, is_it) else { return String::new() };
    let known = costs(fast).into_iter().find(|(there, cost)| *there == found.there && is_it(&cost.name));
    let name = known.map_or_else(|| found.name.clone(), |(_, cost)| cost.name);
    format!("; in the fast one {name} on {end} takes {:.2} s", seconds * 1e9)
}

/// Returns an explanation if the processes on the host were looked at too briefly or too rarely to draw conclusions.
fn seen_too_little(slow: &Row, host: &str) -> Option<String> {
    let run = slow.middle()?;
    run.there.as_ref()?;
    let (begin, end) = (slow.start_seconds(), run.wall_seconds);
    let looks = run.looks_there_seconds.iter().filter(|at| **at > begin);
    let seen = looks.clone().copied().fold(begin, f64::max) - begin;
    (looks.count() < LOOKS_MIN || seen < (end - begin) * SEEN_MIN).then(|| {
        format!(
            "Who was busy in the slow one is not known: of the {:.1} s that it took, the processes on {host} could not be looked at \
             often enough. A longer --time-budget makes longer runs.",
            end - begin
        )
    })
}

/// Explains a slow row in which no process was busy all the time.
fn no_cause(busiest: Option<&BusiestProcess>, slow: &Row, host: &str) -> String {
    if let Some(found) = busiest.filter(|found| found.waited >= STARVED_MIN) {
        let (name, end) = (&found.name, end_of(found.there, host));
        let them = if found.is_one_thread() { "it" } else { "its threads, added up," };
        return format!(
            "In the slow one no process was busy all the time, but {name} on {end} was kept waiting: {them} had no processor for \
             {:.1} s in the {:.1} s that it took. So other programs on {end} that take the processors, or a limit, are a part of \
             the cause. What may be the rest: the network in that direction, a disk, or a window of TCP that is too small for the \
             round trip. hakobu doctor looks at these.",
            found.waited * found.seconds,
            found.seconds
        );
    }
    if let Some(unknown) = seen_too_little(slow, host) {
        return unknown;
    }
    let busiest = busiest.map(|found| {
        let (name, end) = (&found.name, end_of(found.there, host));
        format!(" (the busiest, {name} on {end}, for {} of it)", percent(found.busy()))
    });
    format!(
        "In the slow one no process was busy all the time{}, so that no processor limits it. What is left: the network in that \
         direction, a disk, or a window of TCP that is too small for the round trip. hakobu doctor looks at these.",
        busiest.unwrap_or_default()
    )
}

/// Returns true if the same server also limits the row in the other direction.
fn binds_in_both_directions(found: &BusiestProcess, slow: &Row, rows: &[Row]) -> bool {
    let direction = match slow.case.direction {
        DataDirection::ToHost => DataDirection::FromHost,
        _ => DataDirection::ToHost,
    };
    let turned = BenchCase { direction, ..slow.case.clone() };
    let other = rows.iter().find(|row| row.case == turned).and_then(busiest);
    other.is_some_and(|other| {
        other.busy() >= ALSO_BUSY_MIN && other.there == found.there && is_server(&other.name)
    })
}

/// Reports the rates of hakobu for the same two cases if it is not affected by the difference.
fn of_hakobu(slow: &BenchCase, fast: &BenchCase, rows: &[Row]) -> Option<String> {
    if slow.way == Method::Hakobu {
        return None;
    }
    let rate = |case: &BenchCase| {
        let wanted = BenchCase {
            way: Method::Hakobu,
            cipher: None,
            block_bytes: super::case::BLOCK_BYTES,
            ..case.clone()
        };
        let row = rows.iter().find(|row| row.case == wanted)?;
        row.rate().filter(|_| row.transport.as_deref() == Some("agent"))
    };
    let (slow, fast) = (rate(slow)?, rate(fast)?);
    (fast / slow < TIMES_MIN).then(|| {
        format!(
            " hakobu is not affected, with {} and {}: it only logs in by ssh, and its data has connections of its own.",
            format_rate(slow),
            format_rate(fast)
        )
    })
}

#[cfg(test)]
#[path = "asymmetry_tests.rs"]
mod tests;
