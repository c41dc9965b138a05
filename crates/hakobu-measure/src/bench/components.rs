//! Measures ciphers and compressors of this machine separately.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::case::{Compressor, DataKind};
use super::content;
use super::result::PartSpeed;
use super::tools::MachineTools;
use crate::process::MeasuredCommand;

/// The ciphers of ssh, by OpenSSL's names.
const CIPHERS: [(&str, &str); 6] = [
    ("aes128-gcm", "aes-128-gcm"),
    ("aes256-gcm", "aes-256-gcm"),
    ("aes128-ctr", "aes-128-ctr"),
    ("aes192-ctr", "aes-192-ctr"),
    ("aes256-ctr", "aes-256-ctr"),
    ("chacha20-poly1305", "chacha20-poly1305"),
];
/// The size of a compressor's input in bytes.
const SAMPLE_BYTES: u64 = 32 << 20;
/// The time limit for one measurement.
const LIMIT: Duration = Duration::from_secs(20);

/// Returns the rate of one core for each cipher with OpenSSL, measured for a second each with records of 16 KiB.
#[must_use]
pub fn openssl_ciphers(tools: &MachineTools, stop: &dyn Fn() -> bool) -> Vec<PartSpeed> {
    if !tools.has("openssl") {
        return Vec::new();
    }
    let mut speeds = Vec::new();
    for (name, evp) in CIPHERS {
        if stop() {
            break;
        }
        let mut command = Command::new("openssl");
        command.args(["speed", "-mr", "-elapsed", "-seconds", "1", "-bytes", "16384", "-evp", evp]);
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
        let text =
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        if let Some(bytes_per_second) = openssl_speed(&text) {
            speeds.push(PartSpeed {
                name: name.to_owned(),
                by: "openssl".to_owned(),
                bytes_per_second,
                ratio: None,
            });
        }
    }
    speeds
}

/// Parses the figure of `openssl speed -mr`: `+F:22:AES-128-GCM:5713969152.00`.
fn openssl_speed(text: &str) -> Option<f64> {
    let line = text.lines().rev().find_map(|line| line.strip_prefix("+F:"))?;
    let speed: f64 = line.rsplit(':').next()?.trim().parse().ok()?;
    (speed.is_finite() && speed > 0.0).then_some(speed)
}

/// Returns the wall-clock rate of each installed compressor on text, and its compression ratio.
#[must_use]
pub fn compressors(tools: &MachineTools, scratch: &Path, stop: &dyn Fn() -> bool) -> Vec<PartSpeed> {
    let sample = scratch.join("compressors.sample");
    let mut speeds = Vec::new();
    if content::write(&sample, DataKind::Text, SAMPLE_BYTES).is_ok() {
        for compressor in Compressor::PROGRAMS {
            if !stop() && tools.has(compressor.name()) {
                speeds.extend(compressed(compressor, &sample));
            }
        }
    }
    let _ = std::fs::remove_file(&sample);
    speeds
}

fn compressed(compressor: Compressor, sample: &Path) -> Option<PartSpeed> {
    let packed = sample.with_extension("packed");
    let mut command = Command::new(compressor.name());
    match compressor {
        Compressor::Zstd => command.args(["-q", "-T0", "-c"]),
        _ => command.arg("-c"),
    };
    let input = std::fs::File::open(sample).ok()?;
    let output = std::fs::File::create(&packed).ok()?;
    command.stdin(input).stdout(output).stderr(Stdio::null());
    let measured = MeasuredCommand::start(&mut command).and_then(|running| running.finish_within(LIMIT)).ok();
    let size = std::fs::metadata(&packed).map_or(0, |found| found.len());
    let _ = std::fs::remove_file(&packed);
    let measured = measured.filter(|measured| measured.status.success() && size > 0)?;
    Some(PartSpeed {
        name: compressor.name().to_owned(),
        by: compressor.name().to_owned(),
        bytes_per_second: SAMPLE_BYTES as f64 / measured.wall.as_secs_f64().max(1e-6),
        ratio: Some(SAMPLE_BYTES as f64 / size as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openssl_is_understood_and_nonsense_is_not() {
        let text = "+DT:AES-128-GCM:1:16384\n+R:348750:AES-128-GCM:1.000000\n+H:16384\n+F:22:AES-128-GCM:5713920000.00\n";
        assert_eq!(openssl_speed(text), Some(5_713_920_000.0));
        for bad in ["", "+F:", "+F:22:X:inf", "+F:22:X:-1", "speed"] {
            assert_eq!(openssl_speed(bad), None, "{bad}");
        }
    }

    #[test]
    fn compressors_that_are_there_shrink_text() {
        let place = tempfile::tempdir().unwrap();
        let tools = MachineTools { programs: vec!["gzip".to_owned()], ..MachineTools::default() };
        let speeds = compressors(&tools, place.path(), &|| false);
        assert_eq!(speeds.len(), 1);
        assert!(speeds[0].ratio.unwrap() > 1.5 && speeds[0].bytes_per_second > 0.0);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        assert_eq!(compressors(&tools, place.path(), &|| true), []);
    }
}
