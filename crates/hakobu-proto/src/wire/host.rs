//! The wire format of a machine's settings.

use hakobu_core::disk::{NOTES_MAX, PATH_BYTES_MAX, TEXT_BYTES_MAX};
use hakobu_core::host::{
    HOST_DISKS_MAX, MOUNT_OPTIONS_BYTES_MAX, MOUNTS_MAX, NETWORK_DEVICES_MAX, PROCESSOR_KINDS_MAX,
};

use super::bounded::{BoundedBytes, BoundedList, BoundedName, BoundedText};
use super::mirror::mirror;
use super::network::{NetworkDevice, Tcp, WayOut};

mirror! {
    struct HostFacts of hakobu_core::host::HostFacts {
        kernel: Option<(u16, u16)>,
        tcp: Tcp,
        devices: BoundedList<NetworkDevice, NETWORK_DEVICES_MAX>,
        way_out: Option<WayOut>,
        processors: BoundedList<Processors, PROCESSOR_KINDS_MAX>,
        disks: BoundedList<HostDisk, HOST_DISKS_MAX>,
        limits: ProcessLimits,
        login_server: Option<LoginServer>,
        mounts: BoundedList<HostMount, MOUNTS_MAX>,
        unread: BoundedList<BoundedText<TEXT_BYTES_MAX>, NOTES_MAX>,
    }
}

mirror! {
    struct Processors of hakobu_core::host::Processors {
        count: u32,
        governor: BoundedName,
        driver: BoundedName,
        lowest_khz: u64,
        highest_khz: u64,
        hardware_khz: u64,
    }
}

mirror! {
    struct HostDisk of hakobu_core::host::HostDisk {
        name: BoundedName,
        rotational: bool,
        scheduler: BoundedName,
        numa_node: Option<u16>,
    }
}

mirror! {
    struct HostMount of hakobu_core::host::HostMount {
        path: BoundedBytes<PATH_BYTES_MAX>,
        kind: BoundedName,
        options: BoundedBytes<MOUNT_OPTIONS_BYTES_MAX>,
    }
}

mirror! {
    enum Capped of hakobu_core::host::Capped {
        Unknown,
        Unlimited,
        At(number: u64),
    }
}

mirror! {
    struct ProcessLimits of hakobu_core::host::ProcessLimits {
        open_files: (Capped, Capped),
        file_bytes: Capped,
        processor_seconds: Capped,
        address_space_bytes: Capped,
    }
}

mirror! {
    struct LoginServer of hakobu_core::host::LoginServer {
        max_startups: Option<(u32, u32, u32)>,
        max_startups_of_one: Option<u32>,
        max_sessions: Option<u32>,
        rekey_bytes: Option<u64>,
        of_match: (bool, bool),
        penalties: Option<Penalties>,
    }
}

mirror! {
    struct Penalties of hakobu_core::host::Penalties {
        refused_seconds: Option<u32>,
        silent_seconds: Option<u32>,
        from_seconds: Option<u32>,
    }
}
