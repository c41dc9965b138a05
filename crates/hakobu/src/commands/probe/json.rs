//! The results of a probe as one JSON object: `hakobu.probe/1`, described in `docs/book/probe.md`.

use hakobu_core::compression::Compression;
use hakobu_core::error::{Error, Result};
use hakobu_core::pace::{RateSetting, time_words};
use hakobu_core::probe::{
    MeasuredWork, ReadFigures, TreeFigures, WayFigures, WayStep, WriteFigures, sound_latency, sound_rate,
};
use hakobu_core::report::{ReportError, text_and_base64};
use hakobu_measure::probe::{PredictedTime, StageRate};
use hakobu_transfer::probe::{EndMeasurements, ProbeResults};
use serde_json::{Value, json as object};

use super::figures::{read_how_name, write_how_name};
use super::obstacle;
use crate::render::json::pretty;

/// The schema of a probe.
pub const PROBE_SCHEMA: &str = "hakobu.probe/1";

/// Returns the results as one object. Figures that make no sense are null.
///
/// # Errors
/// None that is known; serialising could fail.
pub fn json(probed: &ProbeResults) -> Result<String> {
    let all = object!({
        "schema": PROBE_SCHEMA,
        "source": end(&probed.source_end),
        "target": end(&probed.target_end),
        "network": probed.apart.then(|| network(probed)),
        "source_figures": probed.source.as_ref().map(source),
        "target_figures": probed.target.as_ref().map(|figures| target(probed, figures)),
        "obstacle": probed.obstacle.as_ref().map(obstacle::object),
        "prediction": prediction(probed),
        "remarks": probed.remarks,
        "error": probed.failure.as_ref().map(ReportError::from),
    });
    pretty(&all).map_err(|error| Error::io("writing the figures", &error))
}

fn end(end: &EndMeasurements) -> Value {
    let (path, base64) = text_and_base64(&end.name);
    let machine = end.machine.as_ref().map(|machine| {
        let packers = machine.compressors.iter().map(|packer| {
            object!({
                "name": packer.name.shown(),
                "bytes_per_second": sane(packer.bytes_per_second),
                "packed_share": f64::from(packer.packed_permille.min(9_999)) / 1000.0,
            })
        });
        object!({
            "processors": machine.processors,
            "processors_granted": machine.quota(),
            "memory_copy_bytes_per_second": sane(machine.copied_bytes_per_second),
            "blake3_bytes_per_second": sane(machine.hashed_bytes_per_second),
            "compressors": packers.collect::<Vec<_>>(),
        })
    });
    let ciphers = end.ciphers.map(|speed| {
        object!({
            "aes-128-gcm": sane(speed.aes_128_gcm),
            "aes-256-gcm": sane(speed.aes_256_gcm),
            "chacha20-poly1305": sane(speed.chacha20_poly1305),
        })
    });
    let is_named = !end.name.is_empty();
    let mut value = object!({
        "path": is_named.then_some(path),
        "machine": machine,
        "ciphers_bytes_per_second": ciphers,
    });
    if let Some(base64) = base64 {
        value["path_base64"] = base64.into();
    }
    value
}

fn sane(rate: u64) -> Option<u64> {
    sound_rate(rate as f64).map(|_| rate)
}

fn per_second(rate: Option<f64>) -> Option<u64> {
    rate.map(|rate| rate.round() as u64)
}

fn network(probed: &ProbeResults) -> Value {
    object!({
        "round_trip_seconds": probed.round_trip.as_secs_f64(),
        "start_seconds": probed.start.as_secs_f64(),
        "by_ssh": probed.by_ssh,
        "cipher": probed.cipher,
        "to_target": probed.there.as_ref().map(way),
        "from_target": probed.back.as_ref().map(way),
    })
}

fn way(way: &WayFigures) -> Value {
    let step = |step: &WayStep| {
        object!({
            "connections": step.connections,
            "bytes_per_second": per_second(step.sent.bytes_per_second()),
            "retransmits": step.retransmits,
        })
    };
    let best = way.best();
    object!({
        "round_trip_seconds": way.round_trip_us.map(|time| f64::from(time) / 1e6),
        "mtu_bytes": way.mtu_bytes,
        "steps": way.steps.iter().map(step).collect::<Vec<_>>(),
        "connections": best.map(|best| best.connections),
        "bytes_per_second": per_second(best.and_then(|best| best.sent.bytes_per_second())),
        "at_least": way.at_least,
    })
}

fn work(work: Option<&MeasuredWork>) -> Option<u64> {
    per_second(work.and_then(MeasuredWork::bytes_per_second))
}

fn seconds(latency_ns: Option<u64>) -> Option<f64> {
    sound_latency(latency_ns).map(|time| time.as_secs_f64())
}

fn source(figures: &ReadFigures) -> Value {
    object!({
        "how": read_how_name(figures.how),
        // The size of a directory says nothing; its content is described below.
        "size_bytes": figures.tree.is_none().then_some(figures.size_bytes),
        "bytes_per_second": work(figures.content.as_ref()),
        "latency_seconds": seconds(figures.latency_ns),
        "cached_share": figures.cached_permille.map(|_| figures.cached_share()),
        "small_files_per_second": per_second(figures.small.as_ref().and_then(MeasuredWork::per_second)),
        "tree": figures.tree.as_ref().and_then(tree),
        "remarks": figures.remarks,
    })
}

fn target(probed: &ProbeResults, figures: &WriteFigures) -> Value {
    let place = probed.measured_in.as_deref().map(text_and_base64);
    let mut value = object!({
        "how": write_how_name(figures.how),
        "measured_in": place.as_ref().map(|(text, _)| text),
        "free_bytes": figures.free_bytes,
        "free_inodes": figures.free_inodes,
        "bytes_per_second": work(figures.content.as_ref()),
        "latency_seconds": seconds(figures.latency_ns),
        "small_files_per_second": per_second(figures.small.as_ref().and_then(MeasuredWork::per_second)),
        "tree": figures.tree.as_ref().and_then(tree),
        "remarks": figures.remarks,
    });
    if let Some((_, Some(base64))) = place {
        value["measured_in_base64"] = base64.into();
    }
    value
}

fn tree(tree: &TreeFigures) -> Option<Value> {
    tree.is_sound().then(|| {
        object!({
            "files": tree.files,
            "directories": tree.directories,
            "others": tree.others,
            "bytes": tree.bytes,
            "small_files": tree.small_files,
            "listed_per_second": per_second(tree.scan.per_second()),
            "complete": tree.complete,
        })
    })
}

fn prediction(probed: &ProbeResults) -> Value {
    let made = &probed.prediction;
    let stage = |stage: &StageRate| {
        object!({
            "stage": stage.stage.name(),
            "bytes_per_second": stage.bytes_per_second.round() as u64,
            "at_least": stage.at_least,
        })
    };
    let span = |span: PredictedTime| object!({ "seconds": span.seconds, "limited_by": span.limited_by });
    object!({
        "bytes_per_second": made.slowest.map(|slowest| slowest.bytes_per_second.round() as u64),
        "limited_by": made.slowest.map(|slowest| slowest.stage.name()),
        "at_least": made.slowest.map(|slowest| slowest.at_least),
        "lanes": probed.lanes.0,
        "lanes_max": probed.lanes.1,
        "limit_bytes_per_second": match probed.limits.rate.first_moving() {
            RateSetting::BytesPerSecond(bytes) => Some(bytes),
            RateSetting::Unlimited | RateSetting::Paused => None,
        },
        "limit": probed.limits.rate.is_some().then(|| probed.limits.rate.words()),
        "operations_per_second_limit": probed.limits.operations_per_second,
        "source_p99_limit_seconds": probed.limits.source_p99_us.map(|us| us as f64 / 1e6),
        "paused_until": probed.limits.rate.first_pause().map(|(until_s, _)| time_words(until_s)),
        "without_compression": probed.apart && probed.compression != Compression::None,
        "stages": made.stages.iter().map(stage).collect::<Vec<_>>(),
        "file": made.file.map(|(bytes, taken)| object!({ "bytes": bytes, "span": span(taken) })),
        "tree": made.tree.map(|tree| object!({
            "first_copy": span(tree.first),
            "unchanged": span(tree.unchanged),
            "at_least": tree.at_least,
        })),
        "unknown": made.unknown.iter().map(|stage| stage.name()).collect::<Vec<_>>(),
    })
}
