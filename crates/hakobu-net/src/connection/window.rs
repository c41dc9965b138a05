//! The send buffer for a short network path.
//!
//! The kernel lets a send buffer grow to megabytes even if the path holds a few kilobytes. Within one machine, queued
//! data has then left the processor's caches when it is read, and a paced congestion control (BBR) spends its timers on
//! it: together a quarter of the throughput. A short path therefore gets a buffer of suitable size. A long one keeps
//! the kernel's setting.

use std::os::fd::AsFd;

use hakobu_sys::tcp_info::tcp_info;
use rustix::net::sockopt;

/// The smallest buffer in bytes that is set: the default limit for unprivileged users. The kernel doubles it for its
/// own bookkeeping. Measured on two cores: twice as much is slower by a fifth, half as much is no faster.
const BUFFER_MIN_BYTES: u64 = 212_992;
/// The size in bytes from which the kernel decides.
const BUFFER_MAX_BYTES: u64 = 2 << 20;
/// The bytes for each microsecond of round trip. Doubled, that allows 16 GB/s, so it limits no connection.
const BYTES_PER_MICROSECOND: u64 = 8_000;

/// Sets the send buffer of a connection to suit its path. If something cannot be measured or set, nothing changes.
pub(super) fn fit(stream: impl AsFd) {
    let stream = stream.as_fd();
    let Ok(info) = tcp_info(stream) else { return };
    let Some(bytes) = wanted_bytes(info.min_rtt_us) else { return };
    if sockopt::set_socket_send_buffer_size_force(stream, bytes).is_ok() {
        return;
    }
    // Without the privilege to force a size, the system's limit applies, and a buffer smaller than the path needs is
    // worse than the kernel's.
    if limit_bytes().is_some_and(|limit| limit >= bytes) {
        let _ = sockopt::set_socket_send_buffer_size(stream, bytes);
    }
}

/// Returns the buffer in bytes for a path with this round trip, or none if the kernel is to decide.
fn wanted_bytes(min_rtt_us: u32) -> Option<usize> {
    let bytes = u64::from(min_rtt_us) * BYTES_PER_MICROSECOND;
    let fits = min_rtt_us > 0 && bytes <= BUFFER_MAX_BYTES;
    fits.then(|| bytes.max(BUFFER_MIN_BYTES) as usize)
}

/// Returns the largest buffer in bytes that unprivileged processes may set.
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
        // A very busy machine, or one that allows its users less, leaves the buffer unchanged.
        let allowed = rustix::process::geteuid().is_root() || limit_bytes() >= wanted;
        let expected = wanted.filter(|_| allowed).map_or(before, |bytes| 2 * bytes);
        assert_eq!(after, expected, "{wanted:?}");
    }
}
