//! The wire format of a job: what to copy, and with which options.

use super::draft::{DraftKind, Earlier};
use super::entry::Inode;
use super::extended::Classes;
use super::filter::FilterRules;
use super::limits::RunLimits;
use super::loss::LossKind;
use super::mirror::mirror;
use super::path::EntryPath;

mirror! {
    struct Job of hakobu_core::job::Job {
        items: Vec<JobItem>,
        make_directory: Option<EntryPath>,
        lanes: u16,
        lanes_max: u16,
        digest: bool,
        clone: bool,
        durable: bool,
        dry_run: bool,
        require: Vec<LossKind>,
        mode: Mode,
        earlier: Earlier,
        verify_medium: bool,
        live: bool,
        skip_unreadable: bool,
        removal: Removal,
        removals_max: u64,
        filter: FilterRules,
        extended: Classes,
        by_name: bool,
        owners: bool,
        compare_content: bool,
        sample: Option<FileSample>,
        one_file_system: bool,
        hard_links: bool,
        update: Update,
        blocks: bool,
        limits: RunLimits,
        compression: Compression,
        target_directories: Vec<Inode>,
        source_file_systems: Vec<u64>,
        itemize: bool,
        full: bool,
    }
}

mirror! {
    struct JobItem of hakobu_core::job::JobItem {
        root: u16,
        source: EntryPath,
        target: EntryPath,
        place: DraftKind,
    }
}

mirror! {
    enum Mode of hakobu_core::job::Mode {
        Copy,
        Delta,
        Compare,
        Digest(algorithm: Algorithm),
    }
}

mirror! {
    enum Algorithm of hakobu_core::digest::Algorithm {
        Blake3,
        Sha256,
    }
}

mirror! {
    enum Removal of hakobu_core::job::Removal {
        Leave,
        Count,
        Remove,
    }
}

mirror! {
    enum Update of hakobu_core::job::Update {
        Whole,
        Changes,
        InPlace,
    }
}

mirror! {
    struct FileSample of hakobu_core::job::FileSample {
        per_million: u32,
        seed: u64,
    }
}

mirror! {
    enum Compression of hakobu_core::compression::Compression {
        Auto,
        None,
        Adapted,
        Level(level: i8),
    }
}
