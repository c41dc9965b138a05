//! Conversion of times for system calls.

use hakobu_core::entry::FileTime;
use rustix::fs::{Timespec, Timestamps, UTIME_OMIT};
use rustix::time::{ClockId, clock_gettime};

/// Returns the modification time alone, or with `together` also the current time as the access time.
pub(crate) fn modified(mtime: FileTime, together: bool) -> Timestamps {
    let last_access = match together {
        true => clock_gettime(ClockId::Realtime),
        false => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    };
    Timestamps {
        last_access,
        last_modification: Timespec {
            tv_sec: mtime.seconds,
            tv_nsec: i64::from(mtime.nanoseconds.min(999_999_999)),
        },
    }
}
