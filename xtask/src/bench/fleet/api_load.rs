//! Calls of the interface, many a second.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::FleetBench;
use super::results::{FleetBound, FleetRow};
use super::served::ServedFleet;
use crate::bench::session::say;

const RELATIONSHIPS: u64 = 10_000;
const CALLS_PER_SECOND: u32 = 200;
const SECONDS: u64 = 60;
const CLIENTS: u32 = 8;
const P99_MS: f64 = 100.0;
const PATHS: [&str; 8] = [
    "/api/v1/relationships?limit=50",
    "/api/v1/relationships?limit=50&order=state",
    "/api/v1/relationships?limit=50&search=ship%2000",
    "/api/v1/relationships/77",
    "/api/v1/runs?limit=50",
    "/api/v1/brokers",
    "/api/v1/groups",
    "/api/v1/session",
];

impl FleetBench<'_> {
    /// Measures the times of calls.
    pub(super) fn calls(&self) -> Result<Vec<FleetRow>> {
        let (scratch, program) = (&self.prepared.scratch, &self.prepared.program);
        let fleet = ServedFleet::start(scratch, program, &["--no-broker"])?;
        let relationships = self.sized(RELATIONSHIPS);
        for number in 0..relationships {
            scratch.go_on()?;
            let request =
                json!({ "sources": [format!("/src/{number}")], "target": format!("/dst/{number}") });
            let input = json!({
                "name": format!("relationship {number:05}"),
                "group": format!("group-{}", number % 3),
                "request": request,
            });
            let _made: Value = fleet.client.send("POST", "/api/v1/relationships", &input)?;
        }
        let turns = self.sized(SECONDS) as u32 * CALLS_PER_SECOND / CLIENTS;
        let began = Instant::now();
        let mut times_ms = thread::scope(|scope| {
            let fleet = &fleet;
            let threads: Vec<_> = (0..CLIENTS)
                .map(|number| scope.spawn(move || caller(fleet, (number, turns), began)))
                .collect();
            let mut all = Vec::new();
            for thread in threads {
                match thread.join() {
                    Ok(times) => all.extend(times?),
                    Err(_) => bail!("a client failed"),
                }
            }
            Ok(all)
        })?;
        times_ms.sort_by(f64::total_cmp);
        let of =
            |share: f64| times_ms.get((times_ms.len().saturating_sub(1) as f64 * share) as usize).copied();
        let (p50, p99, longest) = (of(0.5), of(0.99), of(1.0));
        let p99 = p99.context("there was no call")?;
        let notes = format!(
            "{} calls, half within {:.1} ms, the longest {:.1} ms",
            times_ms.len(),
            p50.unwrap_or_default(),
            longest.unwrap_or_default()
        );
        say(&format!("p99 {p99:.1} ms; {notes}"));
        Ok(vec![FleetRow {
            title: format!("p99 of {CALLS_PER_SECOND} calls a second, {relationships} relationships"),
            unit: "ms",
            values: vec![p99],
            bound: FleetBound::AtMost(P99_MS),
            notes,
        }])
    }
}

/// Makes the calls of one client. Returns their times in milliseconds, from the moments at which they were due.
fn caller(fleet: &ServedFleet, (number, turns): (u32, u32), began: Instant) -> Result<Vec<f64>> {
    let client = fleet.another_client()?;
    let mut times = Vec::new();
    for turn in 0..turns {
        let due = began + Duration::from_secs(1) * (turn * CLIENTS + number) / CALLS_PER_SECOND;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        client.get_bytes(PATHS[(turn + number) as usize % PATHS.len()])?;
        times.push(due.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(times)
}
