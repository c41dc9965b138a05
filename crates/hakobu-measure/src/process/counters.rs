//! Reads the kernel's counters of processes.

use std::fs;
use std::path::PathBuf;

use crate::MeasureError;
use crate::MeasureResult;

/// Returns the peak resident set size of a running process (`VmHWM`) in bytes, without its children and since its
/// `exec`.
///
/// # Errors
///
/// [`MeasureError::Io`] if there is no such process, [`MeasureError::Counters`] if it no longer has memory (it has ended) or never
/// had any (a kernel thread).
pub fn peak_rss_bytes(pid: u32) -> MeasureResult<u64> {
    let path = PathBuf::from(format!("/proc/{pid}/status"));
    // A process's name may be invalid UTF-8.
    let status = fs::read(&path).map_err(MeasureError::io("read", &path))?;
    let peak = parse_peak_rss(&String::from_utf8_lossy(&status));
    peak.ok_or(MeasureError::Counters { path, what: "no VmHWM" })
}

fn parse_peak_rss(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_memory_from_a_recorded_status() {
        let status = "Name:\tVmHWM: 1 kB\nVmPeak:\t  9 kB\nVmHWM:\t    7312 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(parse_peak_rss(status), Some(7312 * 1024));
        assert_eq!(parse_peak_rss("Name:\tkthreadd\n"), None);
        assert_eq!(parse_peak_rss("VmHWM: many kB\n"), None);
    }

    #[test]
    fn own_peak_grows_with_what_is_touched() {
        let before = peak_rss_bytes(std::process::id()).unwrap();
        let block = vec![1_u8; 64 << 20];
        let after = peak_rss_bytes(std::process::id()).unwrap();
        assert_eq!(block.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 64 << 20);
        assert!(after >= before && after >= 64 << 20);
    }
}
