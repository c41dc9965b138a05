//! The results of a bench as JSON: `hakobu.bench/1`, described in `docs/book/bench.md`.

use hakobu_core::error::{Error, Result};
use hakobu_measure::bench::asymmetry::asymmetries;
use hakobu_measure::bench::result::{BenchResults, Row, groups, main_group, winners};
use jiff::Timestamp;
use serde_json::{Value, json as object};

use super::host_settings::BenchHostSettings;
use crate::render::json::pretty;

/// The schema.
pub const BENCH_SCHEMA: &str = "hakobu.bench/1";

/// Returns the results as one object.
///
/// # Errors
/// None that is known; serialising could fail.
pub fn json(bench: &BenchResults, held: &BenchHostSettings, ended_at: Timestamp) -> Result<String> {
    let groups = groups(&bench.rows);
    let index = |row: &Row| bench.rows.iter().position(|other| std::ptr::eq(other, row));
    let of_group = |group: &hakobu_measure::bench::result::RowGroup<'_>| {
        let (first, sound) = winners(group)?;
        Some(object!({
            "direction": group.key.direction,
            "ends": group.key.ends,
            "content": group.key.content,
            "fastest_row": index(first),
            "fastest_encrypted_row": sound.and_then(index),
        }))
    };
    let all = object!({
        "schema": BENCH_SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "ended_at": ended_at.to_string(),
        "host": bench.host,
        "same_machine": bench.same_machine,
        "machines": bench.machines,
        "rounds": bench.rounds,
        "settings": held,
        "script_of_ssh": bench.script_of_ssh,
        "ended_early": bench.ended_early,
        "winner": main_group(&groups).and_then(of_group),
        "winners": groups.iter().filter_map(of_group).collect::<Vec<_>>(),
        "rows": bench.rows.iter().map(|row| one(row, bench.same_network)).collect::<Vec<_>>(),
        "asymmetries": asymmetries(&bench.rows, bench.host.as_deref().unwrap_or_default()),
        "ciphers": bench.ciphers,
        "compressors": bench.compressors,
        "left_out": bench.left_out,
    });
    pretty(&all).map_err(|error| Error::io("writing the figures", &error))
}

fn one(row: &Row, same_network: bool) -> Value {
    let (here, there) = row.cpu_seconds();
    let processes = row.costs();
    object!({
        "label": row.label(),
        "case": row.case,
        "transport": row.transport,
        "encrypted": row.case.encrypted(),
        "command": row.command,
        "size_bytes": row.size_bytes,
        "start_seconds": row.start_seconds(),
        "wall_seconds": row.runs.iter().map(|run| run.wall_seconds).collect::<Vec<_>>(),
        "seconds": row.seconds(),
        "bytes_per_second": row.rate().map(f64::round),
        "cpu_seconds": { "here": here, "there": there },
        "processes": {
            "here": processes.as_ref().map(|(here, _)| here),
            "there": processes.as_ref().and_then(|(_, there)| there.as_ref()),
        },
        "retransmitted_segments": row.retransmitted(same_network),
        "failed": row.failed,
    })
}
