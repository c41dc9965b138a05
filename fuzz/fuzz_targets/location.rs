//! Locations as people and scripts type them.

#![no_main]

use hakobu_core::location::Location;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(location) = Location::parse(bytes) else { return };
    assert_eq!(location.as_typed(), bytes);
    let _ = (location.names_a_directory(), location.means_contents(), location.parent_path());
    if let Some(name) = location.final_name() {
        assert!(!name.is_empty() && !name.contains(&b'/'));
    }
    if let Some(host) = location.ssh_host() {
        // Whatever begins with a dash would be an option of ssh's.
        assert!(!host.destination().starts_with('-'));
        assert!(!host.host.is_empty() && !host.host.starts_with('-'));
    }
    assert_eq!(Location::parse(bytes).unwrap().path(), location.path());
});
