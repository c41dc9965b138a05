//! Settings files as people write them.

#![no_main]

use hakobu::settings_file::host_settings::{HERE, HostSettings, RunHosts};
use libfuzzer_sys::fuzz_target;

const KNOWN: [&str; 3] = ["bwlimit", "lanes", "ssh"];

fuzz_target!(|bytes: &[u8]| {
    match HostSettings::parse(bytes, &KNOWN) {
        Ok(settings) => {
            let host = "a.example.org".to_owned();
            let run = RunHosts { hosts: vec![host.clone()], pairs: vec![(HERE.to_owned(), host)] };
            assert!(settings.of(&run).count() <= settings.all().count());
            for setting in settings.all() {
                assert!(KNOWN.contains(&setting.keyword) && !setting.value.is_empty());
                assert!(!setting.value.contains(['\n', '\0']) && setting.line > 0 && setting.column > 1);
            }
        }
        Err(error) => assert!(error.line > 0 && error.column > 0 && error.column <= bytes.len() + 1),
    }
});
