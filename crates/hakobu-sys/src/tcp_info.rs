//! Reads the kernel's state of a TCP connection (`TCP_INFO`).
//!
//! Neither rustix nor the standard library supports it.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The kernel's view of a TCP connection. Totals count from the start of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpInfo {
    /// The smoothed round-trip time in microseconds.
    pub rtt_us: u32,
    /// The shortest recent round-trip time in microseconds.
    pub min_rtt_us: u32,
    /// The number of retransmitted segments.
    pub retransmits: u32,
    /// The number of times that the oldest unacknowledged data was retransmitted since the peer last acknowledged
    /// anything. A closed window does not count, since it is acknowledged.
    pub unanswered_retransmits: u32,
    /// The time since the peer last acknowledged anything, in milliseconds.
    pub since_acknowledged_ms: u32,
    /// The congestion window in segments.
    pub congestion_window_segments: u32,
    /// The largest segment that is sent, in bytes.
    pub segment_bytes: u32,
    /// The largest packet that the path carries without fragmentation, in bytes.
    pub path_mtu_bytes: u32,
    /// The number of bytes that the peer has acknowledged.
    pub acknowledged_bytes: u64,
    /// The number of segments that arrived after a gap, and so are not part of the acknowledged bytes.
    pub ahead_segments: u32,
    /// The recent rate at which data reached the peer, in bytes per second.
    pub delivery_bytes_per_second: u64,
    /// The time during which there was data to send, in microseconds.
    pub busy_us: u64,
    /// The part of it in which the peer's window was full.
    pub rwnd_limited_us: u64,
    /// The part of it in which this end's send buffer was full.
    pub sndbuf_limited_us: u64,
    /// The window that the peer advertises, in bytes.
    pub window_bytes: u32,
}

const IPPROTO_TCP: c_int = 6;
const TCP_INFO: c_int = 11;

/// The number of bytes of `struct tcp_info` that are read here; newer kernels have more.
const WANTED_BYTES: usize = 232;

unsafe extern "C" {
    fn getsockopt(socket: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut u32) -> c_int;
}

/// Queries a connected TCP socket. Fields that an old kernel does not support are 0.
///
/// # Errors
/// If `fd` is not a TCP socket.
pub fn tcp_info(fd: impl AsFd) -> io::Result<TcpInfo> {
    let mut bytes = [0_u8; WANTED_BYTES];
    let mut length = WANTED_BYTES as u32;
    // SAFETY: the descriptor is open while `fd` is borrowed, and the kernel writes at most `length` bytes, the size
    // of the array.
    let failed = unsafe {
        getsockopt(fd.as_fd().as_raw_fd(), IPPROTO_TCP, TCP_INFO, bytes.as_mut_ptr().cast(), &raw mut length)
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(parse(&bytes))
}

/// Parses the bytes at the offsets of `struct tcp_info` in `linux/tcp.h`, which only grows.
fn parse(bytes: &[u8; WANTED_BYTES]) -> TcpInfo {
    TcpInfo {
        unanswered_retransmits: u32::from(bytes[2]),
        since_acknowledged_ms: word(bytes, 56),
        segment_bytes: word(bytes, 16),
        path_mtu_bytes: word(bytes, 60),
        acknowledged_bytes: long(bytes, 120),
        ahead_segments: word(bytes, 28),
        rtt_us: word(bytes, 68),
        min_rtt_us: word(bytes, 148),
        congestion_window_segments: word(bytes, 80),
        retransmits: word(bytes, 100),
        delivery_bytes_per_second: long(bytes, 160),
        busy_us: long(bytes, 168),
        rwnd_limited_us: long(bytes, 176),
        sndbuf_limited_us: long(bytes, 184),
        window_bytes: word(bytes, 228),
    }
}

fn word(bytes: &[u8; WANTED_BYTES], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(word)
}

fn long(bytes: &[u8; WANTED_BYTES], at: usize) -> u64 {
    let mut long = [0; 8];
    long.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(long)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_used_connection_has_a_round_trip_and_a_segment_size() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[1; 1000]).unwrap();
        far.read_exact(&mut [0; 1000]).unwrap();
        far.write_all(&[2]).unwrap();
        near.read_exact(&mut [0; 1]).unwrap();
        let info = tcp_info(&near).unwrap();
        assert!(info.rtt_us > 0, "{info:?}");
        assert!((1..=60_000_000).contains(&info.min_rtt_us), "{info:?}");
        assert!((500..=65_536).contains(&info.segment_bytes), "{info:?}");
        assert!(info.congestion_window_segments > 0, "{info:?}");
        assert_eq!((info.retransmits, info.unanswered_retransmits), (0, 0), "{info:?}");
        assert!(info.since_acknowledged_ms < 60_000, "{info:?}");
        assert!((1000..=65_536).contains(&info.path_mtu_bytes), "{info:?}");
        assert!((1000..=1001).contains(&info.acknowledged_bytes), "{info:?}");
        assert!((1000..=1 << 30).contains(&info.window_bytes), "{info:?}");
    }

    #[test]
    fn what_is_not_tcp_is_an_error() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(tcp_info(&file).is_err());
    }
}
