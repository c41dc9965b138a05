//! The wire format of a grant.

use super::mirror::mirror;
use super::path::EntryPath;

mirror! {
    struct Grant of hakobu_core::grant::Grant {
        places: Vec<GrantedPlace>,
        may_chown: bool,
        may_set_id: bool,
        may_make_devices: bool,
        may_remove: bool,
        only_reads: bool,
        bytes_max: Option<u64>,
        may_write_in_place: bool,
    } without { source_directories, lease }
}

mirror! {
    struct GrantedPlace of hakobu_core::grant::GrantedPlace {
        path: EntryPath,
        tree: bool,
        device: Option<String>,
        only_goes_on: bool,
    }
}
