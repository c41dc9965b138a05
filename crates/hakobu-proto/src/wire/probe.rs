//! The wire format of a probe's measurements and their results.

use hakobu_core::disk::{ID_BYTES_MAX, PATH_BYTES_MAX, TEXT_BYTES_MAX};
use hakobu_core::probe::{COMPRESSORS_MAX, REMARKS_MAX, STEPS_MAX};

use super::bounded::{BoundedBytes, BoundedList, BoundedName, BoundedText};
use super::mirror::mirror;

mirror! {
    struct ReadAsk of hakobu_core::probe::ReadAsk {
        path: BoundedBytes<PATH_BYTES_MAX>,
        gentle: bool,
        lanes: u16,
    }
}

mirror! {
    struct WriteAsk of hakobu_core::probe::WriteAsk {
        path: BoundedBytes<PATH_BYTES_MAX>,
        write: bool,
        gentle: bool,
        lanes: u16,
        device: BoundedBytes<ID_BYTES_MAX>,
    }
}

mirror! {
    struct MeasuredWork of hakobu_core::probe::MeasuredWork {
        count: u64,
        bytes: u64,
        elapsed_ns: u64,
        processor_ns: u64,
        queued_ns: u64,
        threads: u16,
    }
}

mirror! {
    struct MachineFigures of hakobu_core::probe::MachineFigures {
        boot_id: BoundedName,
        processors: u16,
        quota_permille: Option<u32>,
        copied_bytes_per_second: u64,
        hashed_bytes_per_second: u64,
        compressors: BoundedList<CompressorFigures, COMPRESSORS_MAX>,
    }
}

mirror! {
    struct CompressorFigures of hakobu_core::probe::CompressorFigures {
        name: BoundedName,
        bytes_per_second: u64,
        packed_permille: u32,
    }
}

mirror! {
    enum ReadHow of hakobu_core::probe::ReadHow {
        Unread,
        Dropped,
        Direct,
        Memory,
    }
}

mirror! {
    struct ReadFigures of hakobu_core::probe::ReadFigures {
        size_bytes: u64,
        allocated_bytes: u64,
        how: ReadHow,
        content: Option<MeasuredWork>,
        cached_permille: Option<u16>,
        latency_ns: Option<u64>,
        tree: Option<TreeFigures>,
        small: Option<MeasuredWork>,
        denied: u64,
        remarks: BoundedList<BoundedText<TEXT_BYTES_MAX>, REMARKS_MAX>,
    }
}

mirror! {
    struct TreeFigures of hakobu_core::probe::TreeFigures {
        files: u64,
        directories: u64,
        others: u64,
        bytes: u64,
        allocated_bytes: u64,
        small_files: u64,
        small_bytes: u64,
        scan: MeasuredWork,
        complete: bool,
    }
}

mirror! {
    enum WriteHow of hakobu_core::probe::WriteHow {
        NotAsked,
        Written,
        ReadOnly,
        NoRoom,
        Device,
        Nowhere,
        Failed,
        WrittenBack,
        Denied,
    }
}

mirror! {
    struct WriteFigures of hakobu_core::probe::WriteFigures {
        how: WriteHow,
        directory: BoundedBytes<PATH_BYTES_MAX>,
        free_bytes: Option<u64>,
        free_inodes: Option<u64>,
        may_share: bool,
        content: Option<MeasuredWork>,
        in_memory: Option<MeasuredWork>,
        latency_ns: Option<u64>,
        small: Option<MeasuredWork>,
        lookups: Option<MeasuredWork>,
        held_bytes: Option<u64>,
        tree: Option<TreeFigures>,
        remarks: BoundedList<BoundedText<TEXT_BYTES_MAX>, REMARKS_MAX>,
    }
}

mirror! {
    struct WayFigures of hakobu_core::probe::WayFigures {
        steps: BoundedList<WayStep, STEPS_MAX>,
        round_trip_us: Option<u32>,
        mtu_bytes: Option<u32>,
        at_least: bool,
    }
}

mirror! {
    struct WayStep of hakobu_core::probe::WayStep {
        connections: u16,
        sent: MeasuredWork,
        receiver_processor_ns: u64,
        retransmits: u64,
    }
}
