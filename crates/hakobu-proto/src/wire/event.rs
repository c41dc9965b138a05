//! The wire format of a run's events.

use super::bounded::BoundedBytes;
use super::counters::CounterTotals;
use super::draft::Extent;
use super::error::Error;
use super::mirror::mirror;

mirror! {
    enum Event of hakobu_core::event::Event {
        Decision { choice: String, reason: String },
        Failure(failure: Failure),
        Notice { words: String },
        Located { sources: Vec<BoundedBytes>, target: BoundedBytes },
        Planned { action: String, path: BoundedBytes, size_bytes: u64 },
        Digest { path: BoundedBytes, digest: [u8; 32] },
        Difference(difference: Difference),
        Progress(snapshot: Box<CounterTotals>),
    }
}

mirror! {
    struct Failure of hakobu_core::event::Failure {
        path: BoundedBytes,
        error: Error,
    }
}

mirror! {
    struct Difference of hakobu_core::event::Difference {
        path: BoundedBytes,
        what: Different,
    }
}

mirror! {
    enum Different of hakobu_core::event::Different {
        OnlyInSource,
        OnlyInTarget,
        Kind,
        Size,
        Content,
        Range(extent: Extent),
        Mode,
        Owner,
        Time,
        Extended,
        Links,
    }
}
