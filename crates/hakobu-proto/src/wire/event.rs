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
        Located { sources: Vec<BoundedBytes>, target: BoundedBytes, machines: Box<ReportMachines> },
        Planned { action: String, path: BoundedBytes, size_bytes: u64 },
        Digest { path: BoundedBytes, digest: [u8; 32] },
        Difference(difference: Difference),
        Progress(snapshot: Box<CounterTotals>),
        Changed(change: EntryChange),
    }
}

mirror! {
    struct EntryChange of hakobu_core::event::EntryChange {
        action: EntryAction,
        path: BoundedBytes,
        size_bytes: u64,
    }
}

mirror! {
    enum EntryAction of hakobu_core::event::EntryAction {
        Create,
        Update,
        Attributes,
        Directory,
        Replace,
        Link,
        Delete,
    }
}

mirror! {
    struct ReportMachines of hakobu_core::report::ReportMachines {
        controller: Option<ReportMachine>,
        source: Option<ReportMachine>,
        target: Option<ReportMachine>,
    }
}

mirror! {
    struct ReportMachine of hakobu_core::report::ReportMachine {
        name: Option<String>,
        host: Option<String>,
        address: Option<String>,
        system: Option<String>,
        hakobu: Option<String>,
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
        values: Option<DifferingValues>,
    }
}

mirror! {
    struct DifferingValues of hakobu_core::event::DifferingValues {
        source: String,
        target: String,
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
