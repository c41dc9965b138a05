//! The wire format of a run's result.

use hakobu_core::compression::{self, LEVEL_MAX, LEVEL_MIN};
use serde::{Deserialize, Serialize};

use super::counters::CounterTotals;
use super::error::Error;
use super::event::{Difference, Failure};
use super::loss::Loss;
use super::mirror::{Mirror, mirror};
use super::path::EntryPath;

mirror! {
    struct RunSummary of hakobu_core::engine::RunSummary {
        counters: CounterTotals,
        failures: Vec<Failure>,
        failures_of_source: u64,
        fatal: Option<Error>,
        losses: Vec<Loss>,
        digest: Option<[u8; 32]>,
        digests: Vec<(u16, [u8; 32])>,
        differences: Vec<Difference>,
        differing_bytes: u64,
        only_in_target: Vec<EntryPath>,
        lanes: u16,
        levels: Levels,
        scan_ns: u64,
        transfer_ns: u64,
        deleted: Vec<EntryPath>,
    } without {
        // `StoreRunUsage` has them.
        requests, planned_requests
    }
}

/// A set of zstd levels: the lowest bit is the lowest level.
#[derive(Serialize, Deserialize)]
pub(crate) struct Levels(u32);

impl Mirror<compression::Levels> for Levels {
    fn of(value: &compression::Levels) -> Self {
        Self(value.iter().map(|level| 1 << (level - LEVEL_MIN)).sum())
    }

    fn into_value(self) -> compression::Levels {
        let mut levels = compression::Levels::default();
        let is_in = |level: &i8| self.0 >> (level - LEVEL_MIN) & 1 == 1;
        (LEVEL_MIN..=LEVEL_MAX).filter(is_in).for_each(|level| levels.insert(level));
        levels
    }
}
