//! Facts about the measured machine, without its name or paths.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use hakobu_measure::memory;
use serde::{Deserialize, Serialize};

/// The machine, the time and the commit of a measurement.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    pub congestion_control: String,
    /// The time of the measurement in UTC, as in RFC 3339.
    pub measured_at: String,
    /// The commit of the workspace, with `+` appended if files differ from it.
    pub commit: Option<String>,
    /// The load average of the last minute when the bench began. Above one or two, the results are affected by other
    /// work.
    pub load_at_start: f64,
}

impl Machine {
    pub fn look(workspace: &Path) -> Self {
        Self {
            cpu: cpu(&read("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory::total_bytes().unwrap_or(0),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            congestion_control: read("/proc/sys/net/ipv4/tcp_congestion_control").trim().to_owned(),
            measured_at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            commit: commit(workspace),
            load_at_start: load(),
        }
    }
}

/// Returns the load average of the last minute.
pub fn load() -> f64 {
    read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn cpu(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':')).map_or("unknown", |(_, name)| name.trim());
    name.to_owned()
}

fn commit(workspace: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(workspace).args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let head = git(&["rev-parse", "--short=12", "HEAD"])?;
    // The bench itself changes the results below `docs`.
    let changed = git(&["status", "--porcelain", "--", ".", ":!docs"])?;
    Some(if changed.is_empty() { head } else { format!("{head}+") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_of_a_recorded_file() {
        assert_eq!(cpu("processor\t: 0\nmodel name\t: AMD EPYC\n"), "AMD EPYC");
        assert_eq!(cpu(""), "unknown");
    }
}
