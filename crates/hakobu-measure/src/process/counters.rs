//! Reads the kernel's counters of processes and network interfaces.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::MeasureError;
use crate::MeasureResult;

/// The I/O counters of a process, including the children it has waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIo {
    /// Bytes returned by read calls, from any source: files, caches, pipes, sockets read with `read`. Mapped or
    /// spliced data, and data received with `recv`, is not included.
    pub read_call_bytes: u64,
    /// Bytes passed to write calls, with the same exceptions.
    pub write_call_bytes: u64,
    /// The number of read calls.
    pub read_calls: u64,
    /// The number of write calls.
    pub write_calls: u64,
    /// Bytes that storage had to read; 0 for data in the cache or tmpfs.
    pub storage_read_bytes: u64,
    /// Bytes that storage has written or will have to write.
    pub storage_write_bytes: u64,
    /// The part of these that will not be written, because the file was truncated first.
    pub cancelled_write_bytes: u64,
}

/// The counters of one network interface since its creation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceCounters {
    /// The name of the interface.
    pub name: String,
    /// Bytes received, including link headers.
    pub received_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Packets received in error.
    pub received_errors: u64,
    /// Received packets that were dropped.
    pub received_dropped: u64,
    /// Bytes sent, including link headers.
    pub sent_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets that could not be sent because of an error.
    pub sent_errors: u64,
    /// Packets that were dropped instead of sent.
    pub sent_dropped: u64,
}

/// Returns the peak resident set size of a running process (`VmHWM`) in bytes, without its children and since its
/// `exec`.
///
/// # Errors
///
/// [`MeasureError::Io`] if there is no such process, [`MeasureError::Counters`] if it no longer has memory (it has ended) or never
/// had any (a kernel thread).
pub fn peak_rss_bytes(pid: u32) -> MeasureResult<u64> {
    let path = PathBuf::from(format!("/proc/{pid}/status"));
    parse_peak_rss(&read(&path)?).ok_or(MeasureError::Counters { path, what: "no VmHWM" })
}

/// Returns the I/O counters of a process so far. This also works between the end of a process and its reaping.
///
/// # Errors
///
/// [`MeasureError::Io`] if there is no such process or it belongs to another user, [`MeasureError::Counters`] if a line is missing.
pub fn process_io(pid: u32) -> MeasureResult<ProcessIo> {
    let path = PathBuf::from(format!("/proc/{pid}/io"));
    parse_io(&read(&path)?).ok_or(MeasureError::Counters { path, what: "a counter is missing" })
}

/// Returns the counters of the interfaces in a process's network namespace, in the kernel's order.
///
/// # Errors
///
/// [`MeasureError::Io`] if there is no such process, or [`MeasureError::Counters`].
pub fn interface_counters_of(pid: u32) -> MeasureResult<Vec<InterfaceCounters>> {
    let path = PathBuf::from(format!("/proc/{pid}/net/dev"));
    parse_interfaces(&read(&path)?)
        .ok_or(MeasureError::Counters { path, what: "a line does not read as an interface" })
}

fn read(path: &Path) -> MeasureResult<String> {
    // Names of processes and interfaces may be invalid UTF-8; figures never are.
    fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .map_err(MeasureError::io("read", path))
}

fn parse_peak_rss(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn parse_io(text: &str) -> Option<ProcessIo> {
    let value = |name: &str| {
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(found, _)| *found == name)
            .and_then(|(_, value)| value.trim().parse().ok())
    };
    Some(ProcessIo {
        read_call_bytes: value("rchar")?,
        write_call_bytes: value("wchar")?,
        read_calls: value("syscr")?,
        write_calls: value("syscw")?,
        storage_read_bytes: value("read_bytes")?,
        storage_write_bytes: value("write_bytes")?,
        cancelled_write_bytes: value("cancelled_write_bytes")?,
    })
}

fn parse_interfaces(text: &str) -> Option<Vec<InterfaceCounters>> {
    text.lines().skip(2).map(parse_interface).collect()
}

fn parse_interface(line: &str) -> Option<InterfaceCounters> {
    // A name may contain colons (an alias), the figures cannot.
    let (name, figures) = line.rsplit_once(':')?;
    let figures =
        figures.split_ascii_whitespace().map(|figure| figure.parse().ok()).collect::<Option<Vec<u64>>>()?;
    let figure = |column: usize| figures.get(column).copied();
    Some(InterfaceCounters {
        name: name.trim_start().to_owned(),
        received_bytes: figure(0)?,
        received_packets: figure(1)?,
        received_errors: figure(2)?,
        received_dropped: figure(3)?,
        sent_bytes: figure(8)?,
        sent_packets: figure(9)?,
        sent_errors: figure(10)?,
        sent_dropped: figure(11)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

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

    #[test]
    fn io_from_a_recorded_file() {
        let text = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n\
                    cancelled_write_bytes: 7\n";
        let io = parse_io(text).unwrap();
        assert_eq!((io.read_call_bytes, io.write_call_bytes), (1, 2));
        assert_eq!((io.storage_read_bytes, io.storage_write_bytes), (5, 6));
        assert_eq!(io.cancelled_write_bytes, 7);
        assert_eq!(parse_io("rchar: 1\n"), None);
    }

    #[test]
    fn interfaces_from_a_recorded_file() {
        let text = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo: 1000 10 0 0 0 0 0 0 1000 10 0 0 0 0 0 0
  eth0:1:18446744073709551615 20 1 2 0 0 0 3 4000 40 5 6 0 0 0 0
";
        let found = parse_interfaces(text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].name, "lo");
        let eth = &found[1];
        assert_eq!(eth.name, "eth0:1");
        assert_eq!(eth.received_bytes, u64::MAX);
        assert_eq!((eth.received_errors, eth.received_dropped), (1, 2));
        assert_eq!((eth.sent_bytes, eth.sent_packets), (4000, 40));
        assert_eq!((eth.sent_errors, eth.sent_dropped), (5, 6));
        assert_eq!(parse_interfaces("a\nb\nlo: 1 2 3\n"), None);
    }

    #[test]
    fn loopback_counts_what_is_sent() {
        let bytes = || {
            let all = interface_counters_of(std::process::id()).unwrap();
            let lo = all.into_iter().find(|interface| interface.name == "lo");
            lo.unwrap().sent_bytes
        };
        let before = bytes();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        socket.send_to(&[0; 10_000], address).unwrap();
        assert!(bytes() - before >= 10_000);
    }
}
