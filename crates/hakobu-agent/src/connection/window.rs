//! The send buffer of a short path.
//!
//! The kernel lets a send buffer grow to megabytes even where the path holds a few kilobytes. On a path within one
//! machine what waits there has left the processor's caches when it is read, and a paced congestion control (BBR)
//! spends its timers on it: together a quarter of the throughput. So a short path gets a buffer of its own measure,
//! and a long one keeps what the kernel does.

use std::os::fd::AsFd;

use hakobu_sys::tcp_info::tcp_info;
use rustix::net::sockopt;

/// The least that is set: what systems allow everybody as they come. The kernel doubles it, for its own bookkeeping.
/// Measured on two cores; twice as much is slower by a fifth, half as much no faster.
const BUFFER_MIN_BYTES: u64 = 212_992;
/// From here on the kernel decides.
const BUFFER_MAX_BYTES: u64 = 2 << 20;
/// Bytes for each microsecond of round trip. With the doubling that is 16 GB/s, so no connection is bound by it.
const BYTES_PER_MICROSECOND: u64 = 8_000;

/// Fits the send buffer of a connection to its path. What cannot be measured or set stays as it is.
pub(super) fn fit(stream: impl AsFd) {
    let stream = stream.as_fd();
    let Ok(info) = tcp_info(stream) else { return };
    let Some(bytes) = wanted_bytes(info.min_rtt_us) else { return };
    if sockopt::set_socket_send_buffer_size_force(stream, bytes).is_ok() {
        return;
    }
    // Without the right to force it the system's limit counts, and less than the path needs is worse than what the
    // kernel does.
    if limit_bytes().is_some_and(|limit| limit >= bytes) {
        let _ = sockopt::set_socket_send_buffer_size(stream, bytes);
    }
}

/// The buffer for a path with this round trip, or none where the kernel shall decide.
fn wanted_bytes(min_rtt_us: u32) -> Option<usize> {
    let bytes = u64::from(min_rtt_us) * BYTES_PER_MICROSECOND;
    let fits = min_rtt_us > 0 && bytes <= BUFFER_MAX_BYTES;
    fits.then(|| bytes.max(BUFFER_MIN_BYTES) as usize)
}

/// The largest buffer that everybody may set.
fn limit_bytes() -> Option<usize> {
    std::fs::read_to_string("/proc/sys/net/core/wmem_max").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn only_short_paths_get_a_buffer_of_their_own() {
        assert_eq!(wanted_bytes(0), None);
        assert_eq!(wanted_bytes(20), Some(212_992));
        assert_eq!(wanted_bytes(100), Some(800_000));
        assert_eq!(wanted_bytes(300), None);
        assert_eq!(wanted_bytes(u32::MAX), None);
    }

    #[test]
    fn a_connection_within_the_machine_is_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let wanted = wanted_bytes(tcp_info(&stream).unwrap().min_rtt_us);
        let before = sockopt::socket_send_buffer_size(&stream).unwrap();
        fit(&stream);
        let after = sockopt::socket_send_buffer_size(&stream).unwrap();
        // Left alone by a machine that is very busy, or that allows its users less.
        let allowed = rustix::process::geteuid().is_root() || limit_bytes() >= wanted;
        let expected = wanted.filter(|_| allowed).map_or(before, |bytes| 2 * bytes);
        assert_eq!(after, expected, "{wanted:?}");
    }
}
