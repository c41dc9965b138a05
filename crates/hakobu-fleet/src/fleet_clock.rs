//! The clocks of the fleet: one that people read, and one that neither jumps nor stops while a machine sleeps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::ids::Moment;

/// The clocks.
pub trait FleetClock: Send + Sync {
    /// Returns the present moment of the calendar.
    fn moment(&self) -> Moment;

    /// Returns the milliseconds since some moment of the past, sleep included. Leases are counted with it.
    fn elapsed_ms(&self) -> u64;

    /// Returns after a time.
    fn sleep(&self, time: Duration);
}

/// The clocks of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineClock;

/// Returns the nanoseconds since the machine was started, sleep included.
pub fn boot_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanoseconds) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

impl FleetClock for MachineClock {
    fn moment(&self) -> Moment {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment::default().plus_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn elapsed_ms(&self) -> u64 {
        boot_ns() / 1_000_000
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
