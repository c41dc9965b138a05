//! The wire format of an endpoint's capabilities.

use super::extended::Classes;
use super::mirror::mirror;

mirror! {
    struct Capabilities of hakobu_core::capabilities::Capabilities {
        owners: bool,
        set_id: bool,
        extended: Classes,
        time_step_ns: u32,
        time_step_before_1970_ns: u32,
        time_first_s: i64,
        time_last_s: i64,
        hard_links: bool,
        inodes: bool,
        special_files: bool,
        symlinks: bool,
        sets_links: bool,
        wants_checksum: bool,
        wants_digest: bool,
        remote: bool,
        clones: bool,
        stream: bool,
        names: NameRules,
        read_only: bool,
        free_bytes: Option<u64>,
        free_inodes: Option<u64>,
        tells_file_systems: bool,
        account_names: bool,
        writes_in_place: bool,
        replaces_in_one_step: bool,
        hashes: bool,
        reads_medium: bool,
        flushes: bool,
        tells_room: bool,
        compresses: bool,
        confines: bool,
        concurrency: Option<Concurrency>,
        answer_ns: Option<u64>,
        modes: bool,
        directories: bool,
        keeps_times: bool,
        reads_at_once: u16,
        lists_in_order: bool,
    } without {
        // No store is reached by this protocol.
        listed, clock, request_costs, shared_names, attributes_first, tells_links, copies_within,
        fills_holes, key_order, change_times
    }
}

mirror! {
    struct NameRules of hakobu_core::names::NameRules {
        bytes_max: u32,
        text: bool,
        windows: bool,
        ignores_case: bool,
    }
}

mirror! {
    struct Concurrency of hakobu_core::capabilities::Concurrency {
        near_max: u16,
        far_max: u16,
        processes: bool,
    }
}
