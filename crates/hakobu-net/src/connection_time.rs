//! Tracks how a connection spent its time, by the kernel's counters and by how much its window lets be in flight.

use hakobu_core::counters::WayTime;
use hakobu_sys::tcp_info::TcpInfo;

/// The share of a window from which it counts as full, by the data that arrives in the shortest round trip. If the
/// link is full it is half or less, because systems grant twice what arrived.
const FULL_SHARE: f64 = 0.7;
/// The factor of growth since the last look beyond which a window is still growing.
const GROWING: f64 = 1.1;

/// Watches one connection.
#[derive(Debug, Default)]
pub struct WayWatch {
    seen: TcpInfo,
    window_us: u64,
}

impl WayWatch {
    /// Returns the sums so far. A sender that paces itself, as BBR does, hardly ever finds the window closed,
    /// although it sends no more than the window in a round trip. The kernel counts a third to a half of that time.
    pub fn take(&mut self, info: &TcpInfo) -> WayTime {
        let before = std::mem::replace(&mut self.seen, *info);
        let held_us = info.rwnd_limited_us.saturating_sub(before.rwnd_limited_us);
        let buffer_us = info.sndbuf_limited_us.saturating_sub(before.sndbuf_limited_us);
        let busy_us = info.busy_us.saturating_sub(before.busy_us).saturating_sub(buffer_us);
        self.window_us += if is_full(info, &before) { busy_us.max(held_us) } else { held_us };
        WayTime { busy_us: info.busy_us, window_us: self.window_us, buffer_us: info.sndbuf_limited_us }
    }
}

fn is_full(info: &TcpInfo, before: &TcpInfo) -> bool {
    let (window, earlier) = (f64::from(info.window_bytes), f64::from(before.window_bytes));
    let under_way = info.delivery_bytes_per_second as f64 * f64::from(info.min_rtt_us) / 1e6;
    window > 0.0 && window <= earlier * GROWING && under_way >= window * FULL_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the counters at `busy_ms` after the beginning, with a round-trip time of 40 ms.
    fn at(busy_ms: u64, held_ms: u64, window_bytes: u32, delivery_bytes_per_second: u64) -> TcpInfo {
        let (busy_us, rwnd_limited_us) = (busy_ms * 1000, held_ms * 1000);
        let min_rtt_us = 40_000;
        TcpInfo {
            busy_us,
            rwnd_limited_us,
            window_bytes,
            delivery_bytes_per_second,
            min_rtt_us,
            ..TcpInfo::default()
        }
    }

    #[test]
    fn a_window_holds_back_who_paces_himself_to_it() {
        let mut watch = WayWatch::default();
        let mut window_ms = |info| watch.take(&info).window_us / 1000;
        // At first it is not known whether the window grows.
        assert_eq!(window_ms(at(100, 30, 180_000, 4_000_000)), 30);
        assert_eq!(window_ms(at(200, 70, 180_000, 4_000_000)), 130);
        // Grown; far from full; the kernel's own count applies in any case; old kernels do not report the window.
        assert_eq!(window_ms(at(300, 75, 360_000, 9_000_000)), 135);
        assert_eq!(window_ms(at(400, 80, 360_000, 4_000_000)), 140);
        assert_eq!(window_ms(at(500, 160, 0, 4_000_000)), 220);
        // Another connection, or nonsense.
        assert_eq!(window_ms(TcpInfo::default()), 220);
    }
}
