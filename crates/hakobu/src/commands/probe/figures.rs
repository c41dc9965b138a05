//! Measured values as text.

use hakobu_core::probe::{ReadHow, WayFigures, WayStep, WriteHow, sound_latency};
use hakobu_core::units::{format_duration, format_rate};

/// Formats a rate, or says that there is none.
pub fn rate(bytes_per_second: Option<f64>) -> String {
    bytes_per_second.map_or_else(|| "not known".to_owned(), format_rate)
}

/// Formats the rate of one core, or says that it makes no sense.
pub fn core_rate(bytes_per_second: u64) -> String {
    rate(hakobu_core::probe::sound_rate(bytes_per_second as f64))
}

/// Formats a duration in seconds for people.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        none if (0.0..0.05).contains(&none) => "less than 0.1 s".to_owned(),
        short if short < 9.95 => format!("{short:.1} s"),
        long => format_duration(std::time::Duration::from_secs_f64(long.min(1e15).round())),
    }
}

/// Formats a latency.
pub fn latency(latency_ns: Option<u64>) -> Option<String> {
    let seconds = sound_latency(latency_ns)?.as_secs_f64();
    Some(if seconds < 1e-3 {
        format!("{:.0} \u{b5}s", seconds * 1e6)
    } else {
        format!("{:.1} ms", seconds * 1e3)
    })
}

/// Describes for people how content was read.
pub fn read_how(how: ReadHow) -> &'static str {
    match how {
        ReadHow::Unread => "not read",
        ReadHow::Dropped => "dropped from memory first",
        ReadHow::Direct => "past the page cache",
        ReadHow::Memory => "out of memory, which it could not be dropped from",
    }
}

/// Returns the JSON name of a read method.
pub fn read_how_name(how: ReadHow) -> &'static str {
    match how {
        ReadHow::Unread => "unread",
        ReadHow::Dropped => "dropped",
        ReadHow::Direct => "direct",
        ReadHow::Memory => "memory",
    }
}

/// Describes the result of the write test for people.
pub fn write_how(how: WriteHow) -> &'static str {
    match how {
        WriteHow::NotAsked => "nothing was written, as asked",
        WriteHow::Written => "written, until it was on stable storage",
        WriteHow::ReadOnly => "not written: the file system is mounted for reading only",
        WriteHow::NoRoom => "not written: there is too little room for a scratch file (32 MiB free at least)",
        WriteHow::Device => "only read: it is a disk, and --confirm did not name it",
        WriteHow::WrittenBack => "what it held was written back, until it was on stable storage",
        WriteHow::Nowhere => "nothing is kept there",
        WriteHow::Failed => "not written",
        WriteHow::Denied => "not written: this user may not write there",
    }
}

/// Returns the JSON name of the result of the write test.
pub fn write_how_name(how: WriteHow) -> &'static str {
    match how {
        WriteHow::NotAsked => "not_asked",
        WriteHow::Written => "written",
        WriteHow::ReadOnly => "read_only",
        WriteHow::NoRoom => "no_room",
        WriteHow::Device => "device",
        WriteHow::WrittenBack => "written_back",
        WriteHow::Nowhere => "nowhere",
        WriteHow::Failed => "failed",
        WriteHow::Denied => "denied",
    }
}

/// Returns the measurement with this number of connections.
pub fn step(way: Option<&WayFigures>, connections: u16) -> Option<&WayStep> {
    way?.steps.iter().find(|step| step.connections == connections)
}

/// Returns the numbers of connections of both directions, in order.
pub fn counts(ways: [Option<&WayFigures>; 2]) -> Vec<u16> {
    let mut counts: Vec<u16> =
        ways.into_iter().flatten().flat_map(|way| way.steps.iter().map(|step| step.connections)).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}
