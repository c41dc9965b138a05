//! The wire format of a run's limits.

use super::mirror::mirror;

mirror! {
    struct RunLimits of hakobu_core::pace::RunLimits {
        rate: RateLimit,
        operations_per_second: Option<u32>,
        source_p99_us: Option<u64>,
    }
}

mirror! {
    enum RateSetting of hakobu_core::pace::RateSetting {
        Unlimited,
        BytesPerSecond(bytes: u64),
        Paused,
    }
}

mirror! {
    struct RateLimit of hakobu_core::pace::RateLimit {
        steps: Vec<(u32, RateSetting)>,
        began_s: u32,
    }
}
