//! The clocks of the fleet: one that people read, and one that neither jumps nor stops while a machine sleeps.

use std::time::{SystemTime, UNIX_EPOCH};

use hakobu_transfer::shared_run::boot_time_ns;

use crate::ids::Moment;

/// The clocks.
pub trait FleetClock: Send + Sync {
    /// Returns the present moment of the calendar.
    fn moment(&self) -> Moment;

    /// Returns the milliseconds since some moment of the past, sleep included. Leases are counted with it.
    fn elapsed_ms(&self) -> u64;
}

/// The clocks of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineClock;

impl FleetClock for MachineClock {
    fn moment(&self) -> Moment {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment::default().plus_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn elapsed_ms(&self) -> u64 {
        boot_time_ns() / 1_000_000
    }
}
