//! What a connection did with its time: by the kernel's counters, and by what its window lets be under way.

use hakobu_core::counters::WayTime;
use hakobu_sys::tcp_info::TcpInfo;

/// A window is full where so much of it is under way, by what arrives in the shortest round trip. Of a line that is full
/// it is half or less, as systems grant twice what came.
const FULL_SHARE: f64 = 0.7;
/// A window that has grown by so much since the last look is not yet what it will be.
const GROWING: f64 = 1.1;

/// Watches one connection.
#[derive(Debug, Default)]
pub(crate) struct WayWatch {
    seen: TcpInfo,
    window_us: u64,
}

impl WayWatch {
    /// The sums so far. A sender that paces itself, as bbr does, hardly ever finds a window shut, although it carries no
    /// more than that in a round trip: of that time the kernel counts a third to a half only.
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

    /// So long after the beginning, at 40 ms.
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
        // At first nobody knows whether it grows.
        assert_eq!(window_ms(at(100, 30, 180_000, 4_000_000)), 30);
        assert_eq!(window_ms(at(200, 70, 180_000, 4_000_000)), 130);
        // It has grown; it is far from full; the kernel's own count holds in any case; old kernels do not tell it.
        assert_eq!(window_ms(at(300, 75, 360_000, 9_000_000)), 135);
        assert_eq!(window_ms(at(400, 80, 360_000, 4_000_000)), 140);
        assert_eq!(window_ms(at(500, 160, 0, 4_000_000)), 220);
        // Of another connection, or nonsense.
        assert_eq!(window_ms(TcpInfo::default()), 220);
    }
}
