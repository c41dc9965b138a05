//! The wire format of a run's counters.

use super::mirror::mirror;

mirror! {
    struct CounterTotals of hakobu_core::counters::CounterTotals {
        entries_scanned: u64,
        bytes_scanned: u64,
        entries_created: u64,
        entries_updated: u64,
        entries_unchanged: u64,
        bytes_unchanged: u64,
        entries_attributes_only: u64,
        entries_different: u64,
        entries_compared: u64,
        entries_only_in_target: u64,
        entries_in_target: u64,
        entries_absent: u64,
        entries_deleted: u64,
        entries_in_the_way: u64,
        entries_skipped: u64,
        entries_failed: u64,
        source_read_bytes: u64,
        target_written_bytes: u64,
        cloned_bytes: u64,
        zeros_skipped_bytes: u64,
        target_read_bytes: u64,
        bytes_kept: u64,
        bytes_resumed: u64,
        compressed_bytes: u64,
        compressed_to_bytes: u64,
        near_processor_ns: u64,
        near_queued_ns: u64,
        far_ns: u64,
        far_input_ns: u64,
        far_work_ns: u64,
        far_processor_ns: u64,
        far_queued_ns: u64,
        way_busy_us: u64,
        way_window_us: u64,
        way_buffer_us: u64,
        held_by_operations_ns: u64,
        held_by_latency_ns: u64,
        source_reads: u64,
        source_requests: u64,
        target_operations: u64,
        target_requests: u64,
        stage_ns: [u64; 9],
        scan_done: bool,
        remote: bool,
        source_answer_ns: Option<u64>,
        target_answer_ns: Option<u64>,
        paused_until_s: Option<u32>,
        paused_ns: u64,
        planned_bytes: u64,
        sampled_bytes: u64,
        directories_created: u64,
        sockets_skipped: u64,
    } without {
        // `StoreRunUsage` has the first. Only brokers need the second, and their engine is in the same process.
        entries_examined, lanes
    }
}

mirror! {
    struct FarTime of hakobu_core::counters::FarTime {
        all_ns: u64,
        input_ns: u64,
        work_ns: u64,
        processor_ns: u64,
        queued_ns: u64,
    }
}
