//! Keys and names of object stores: a key that is read is the spelling of its name, and each name has one key.

#![no_main]

use hakobu_core::key_spelling::KeySpelling;
use hakobu_core::path::{EntryPath, check_name};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for spelling in KeySpelling::ALL {
        if check_name(bytes).is_ok() {
            let key = spelling.spell(bytes).unwrap();
            assert!(!key.contains('/') && *spelling.read(&key).unwrap() == *bytes);
        }
        if let Ok(key) = std::str::from_utf8(bytes)
            && let Ok(path) = spelling.read_path(key)
        {
            let names: Vec<_> = path.names().map(|name| spelling.spell(name).unwrap()).collect();
            assert_eq!(names.join("/"), key);
            assert_eq!(EntryPath::new(path.as_bytes()), Ok(path));
        }
    }
});
