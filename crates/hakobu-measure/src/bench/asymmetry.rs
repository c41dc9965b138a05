//! Why two rows that differ only in their direction, or in who starts, are not equally fast.
//!
//! A pipeline is as fast as the process that is busy all the time. So in the slow row one is looked for that had a processor,
//! or waited for one, for most of the run, and it is compared with its counterpart in the fast row.

use serde::Serialize;

use super::case::{Case, Direction, Starter, Way};
use super::processes::{Cost, is_server};
use super::result::Row;

/// Rows that differ by less than this are alike.
const TIMES_MIN: f64 = 1.5;
/// A process that is busy for this share of a run has no time for more.
const BUSY_MIN: f64 = 0.8;
/// What waits for a processor this share of the run has not got all that it wants.
const STARVED_MIN: f64 = 0.25;

/// One difference and its cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Asymmetry {
    /// The slow row.
    pub slow: Case,
    /// The fast row.
    pub fast: Case,
    /// How many times as fast that is.
    pub times: f64,
    /// The process that binds the slow one: at which end (`here`, `there`), and its name. `None` where none is busy all the time.
    pub process: Option<(String, String)>,
    /// How busy that is, from 0 to 1, time that it waited for a processor included.
    pub busy: Option<f64>,
    /// All of it in words.
    pub words: String,
}

/// Every difference, the largest first. `host` is the host's name.
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
            if times > TIMES_MIN {
                found.push(explain(slow, fast, times, host, rows));
            }
        }
    }
    found.sort_by(|one, other| other.times.total_cmp(&one.times));
    found
}

/// Whether they differ in the direction alone, or in who starts alone.
fn differ_in_one(one: &Case, other: &Case) -> bool {
    let turned = Case { direction: other.direction, ..one.clone() };
    let by_the_other = Case { starter: other.starter, ..one.clone() };
    one != other && (turned == *other || by_the_other == *other)
}

/// The process that is busiest: at which end, its name, its share of a processor and the share that it waited for one.
struct Busiest {
    there: bool,
    name: String,
    cpu: f64,
    waited: f64,
}

/// What each process used in a row without the start: whether there, and its cost.
fn costs(row: &Row) -> Vec<(bool, Cost)> {
    let Some((here, there)) = row.costs() else { return Vec::new() };
    let there = there.into_iter().flatten().map(|cost| (true, cost));
    here.into_iter().map(|cost| (false, cost)).chain(there).collect()
}

fn busiest(row: &Row) -> Option<Busiest> {
    let seconds = row.middle()?.wall_seconds - row.start_seconds();
    if seconds <= 0.0 {
        return None;
    }
    let all = costs(row).into_iter().map(|(there, cost)| Busiest {
        there,
        name: cost.name,
        cpu: cost.cpu_seconds / seconds,
        waited: cost.waited_seconds / seconds,
    });
    all.max_by(|one, other| (one.cpu + one.waited).total_cmp(&(other.cpu + other.waited)))
}

/// What such processes used at one end, in seconds for each byte.
fn seconds_per_byte(row: &Row, there: bool, matches: impl Fn(&str) -> bool) -> Option<f64> {
    let of_them = costs(row).into_iter().filter(|(at, cost)| *at == there && matches(&cost.name));
    let sum: f64 = of_them.map(|(_, cost)| cost.cpu_seconds).sum();
    (sum > 0.0).then(|| sum / row.size_bytes as f64)
}

fn explain(slow: &Row, fast: &Row, times: f64, host: &str, rows: &[Row]) -> Asymmetry {
    let mut words = format!(
        "{} is {times:.1} times as slow {} as {}",
        slow.case.way.name(slow.case.direction),
        manner(&slow.case, &fast.case, host),
        manner(&fast.case, &slow.case, host)
    );
    let bound = busiest(slow).filter(|found| found.cpu + found.waited >= BUSY_MIN);
    match &bound {
        Some(found) => words.push_str(&cause(found, slow, fast, host, rows)),
        None => words.push_str(
            ": no process was busy all the time in the slow one, so it is not the processors; \
             the network or a disk is, in that direction, or a window is too small (hakobu doctor)",
        ),
    }
    if let Some(ours) = of_hakobu(&slow.case, &fast.case, rows) {
        words.push_str(&ours);
    }
    let place = |there: bool| if there { "there" } else { "here" }.to_owned();
    Asymmetry {
        slow: slow.case.clone(),
        fast: fast.case.clone(),
        times,
        busy: bound.as_ref().map(|found| (found.cpu + found.waited).min(1.0)),
        process: bound.map(|found| (place(found.there), found.name.clone())),
        words,
    }
}

/// In what way a row differs from the other.
fn manner(case: &Case, other: &Case, host: &str) -> String {
    let direction = match case.direction {
        Direction::ToHost => format!("to {host}"),
        Direction::FromHost => format!("from {host}"),
        Direction::Here => "here".to_owned(),
    };
    let starter = match case.starter {
        Starter::Here => "started here".to_owned(),
        Starter::There => format!("started on {host}"),
    };
    match case.direction == other.direction {
        true => format!("{direction}, {starter}"),
        false => direction,
    }
}

fn cause(found: &Busiest, slow: &Row, fast: &Row, host: &str, rows: &[Row]) -> String {
    let end = if found.there { host } else { "this machine" };
    let percent = |share: f64| format!("{:.0} %", (share * 100.0).min(999.0));
    let mut words = match found.waited >= STARVED_MIN {
        true => format!(
            ": {} on {end} wanted a processor for {} of the time and had one for {}: other work, or a limit of its control group, \
             takes it away",
            found.name,
            percent((found.cpu + found.waited).min(1.0)),
            percent(found.cpu)
        ),
        false => format!(
            ": {} on {end} kept a core {} busy, and one process has no more",
            found.name,
            percent(found.cpu)
        ),
    };
    // In the fast row the same work may be done by ssh at that end, and by sshd at the other.
    let encrypts = |name: &str| is_server(name) || name == "ssh";
    let is_encryption = encrypts(&found.name);
    let counterpart = |name: &str| if is_encryption { encrypts(name) } else { name == found.name };
    let own = seconds_per_byte(slow, found.there, |name| name == found.name);
    let same_end = seconds_per_byte(fast, found.there, counterpart);
    if let (Some(own), Some(same_end)) = (own, same_end) {
        words.push_str(&format!(
            "; it takes {:.2} s of it for each GB, and {:.2} s in the fast one",
            own * 1e9,
            same_end * 1e9
        ));
    }
    if is_server(&found.name) && binds_in_both_directions(found, slow, rows) {
        words.push_str(&format!(". Whenever the sshd of {end} serves, whatever the direction, that binds"));
    }
    words
}

/// Whether the same server is what binds the row in the other direction, too.
fn binds_in_both_directions(found: &Busiest, slow: &Row, rows: &[Row]) -> bool {
    let direction = match slow.case.direction {
        Direction::ToHost => Direction::FromHost,
        _ => Direction::ToHost,
    };
    let turned = Case { direction, ..slow.case.clone() };
    let other = rows.iter().find(|row| row.case == turned).and_then(busiest);
    other.is_some_and(|other| {
        other.cpu + other.waited >= BUSY_MIN && other.there == found.there && is_server(&other.name)
    })
}

/// What became of hakobu where the others differ so.
fn of_hakobu(slow: &Case, fast: &Case, rows: &[Row]) -> Option<String> {
    if slow.way == Way::Hakobu {
        return None;
    }
    let rate = |case: &Case| {
        let wanted =
            Case { way: Way::Hakobu, cipher: None, block_bytes: super::case::BLOCK_BYTES, ..case.clone() };
        rows.iter().find(|row| row.case == wanted)?.rate()
    };
    let (slow, fast) = (rate(slow)?, rate(fast)?);
    let times = fast / slow;
    (times < TIMES_MIN).then(|| {
        ". hakobu is not affected: it only logs in by ssh, and its data has connections of its own".to_owned()
    })
}

#[cfg(test)]
#[path = "asymmetry_tests.rs"]
mod tests;
