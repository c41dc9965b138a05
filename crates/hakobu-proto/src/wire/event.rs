//! The wire format of a run's events.

use super::bounded::Bytes;
use super::counters::Snapshot;
use super::draft::Extent;
use super::error::Error;
use super::mirror::mirror;

mirror! {
    enum Event of hakobu_core::event::Event {
        Decision { choice: String, reason: String },
        Failure(failure: Failure),
        Notice { words: String },
        Located { sources: Vec<Bytes>, target: Bytes, machines: Box<ReportMachines> },
        Planned { action: String, path: Bytes, size_bytes: u64 },
        Digest { path: Bytes, digest: [u8; 32] },
        Difference(difference: Difference),
        Progress(snapshot: Box<Snapshot>),
        Changed(change: EntryChange),
    }
}

mirror! {
    struct EntryChange of hakobu_core::event::EntryChange {
        action: EntryAction,
        path: Bytes,
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
        path: Bytes,
        error: Error,
    }
}

mirror! {
    struct Difference of hakobu_core::event::Difference {
        path: Bytes,
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
