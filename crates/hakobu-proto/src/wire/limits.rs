//! The wire format of a run's limits.

use super::mirror::mirror;

mirror! {
    struct Limits of hakobu_core::pace::Limits {
        rate: RateLimit,
        operations_per_second: Option<u32>,
        source_p99_us: Option<u64>,
    }
}

mirror! {
    enum Rate of hakobu_core::pace::Rate {
        Unlimited,
        BytesPerSecond(bytes: u64),
        Paused,
    }
}

mirror! {
    struct RateLimit of hakobu_core::pace::RateLimit {
        steps: Vec<(u32, Rate)>,
        began_s: u32,
    }
}
