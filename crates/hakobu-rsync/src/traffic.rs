//! Counts the bytes that an rsync has moved, by the kernel's counters. rsync itself reports progress on a large file
//! only once per second, which is too coarse to judge more connections within a second or two.

use std::fs;
use std::time::{Duration, Instant};

/// The interval between readings.
const LOOK: Duration = Duration::from_millis(50);

/// The counter of one rsync.
#[derive(Debug)]
pub(super) struct RsyncTraffic {
    pid: u32,
    /// True if it sends; otherwise a child of it receives.
    sends: bool,
    looked_at: Option<Instant>,
    bytes: u64,
}

impl RsyncTraffic {
    pub fn of(pid: u32, sends: bool) -> Self {
        Self { pid, sends, looked_at: None, bytes: 0 }
    }

    /// Returns the bytes so far if they have increased since the last call. Rate-limited.
    pub fn news(&mut self) -> Option<u64> {
        if self.looked_at.is_some_and(|at| at.elapsed() < LOOK) {
            return None;
        }
        self.looked_at = Some(Instant::now());
        let bytes = match self.sends {
            true => count(self.pid, "wchar: "),
            // The other child, if it is ssh, reads the same data.
            false => children(self.pid).into_iter().filter_map(|child| count(child, "rchar: ")).max(),
        }?;
        (bytes > self.bytes).then(|| {
            self.bytes = bytes;
            bytes
        })
    }
}

/// Returns the kernel's counter for a process. `None` if it has ended, or the kernel does not count.
fn count(pid: u32, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name))?.parse().ok()
}

fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    /// Returns the bytes that a shell has moved when it prints that it is ready. It continues until its input, also
    /// open as 3, ends.
    fn moved(line: &str, sends: bool) -> u64 {
        let mut child = Command::new("sh")
            .args(["-c", &format!("exec 3<&0; {line}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stderr.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
        let mut traffic = RsyncTraffic::of(child.id(), sends);
        let news = traffic.news();
        assert_eq!(traffic.news(), None, "it was just asked");
        drop(child.stdin.take());
        child.wait().unwrap();
        std::thread::sleep(LOOK);
        assert_eq!(traffic.news(), None, "it has ended");
        news.unwrap()
    }

    #[test]
    fn what_is_sent_and_what_a_child_receives_is_counted() {
        let sent = moved("printf %050000d 0; echo ready >&2; read wait", true);
        assert!((50_000..60_000).contains(&sent), "{sent}");
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [b'x'; 20_000]).unwrap();
        let line = format!("(read line <{}; echo ready >&2; read wait <&3) & wait $!", file.path().display());
        let received = moved(&line, false);
        assert!((20_000..30_000).contains(&received), "{received}");
    }
}
