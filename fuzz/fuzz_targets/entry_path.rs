//! Paths below a root: none leads out of it, and its parts make it again.

#![no_main]

use hakobu_core::path::{EntryPath, NAME_BYTES_MAX, PATH_BYTES_MAX, lossy};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let words = lossy(bytes);
    assert!(!words.chars().any(char::is_control));
    let Ok(path) = EntryPath::new(bytes) else { return };
    assert!(path.as_bytes() == bytes && bytes.len() <= PATH_BYTES_MAX);
    assert!(!bytes.starts_with(b"/") && !bytes.contains(&0));
    let mut again = EntryPath::root();
    for name in path.names() {
        assert!(!name.is_empty() && name != b"." && name != b".." && name.len() <= NAME_BYTES_MAX);
        let parent = again;
        again = parent.join(name).unwrap();
        assert!(again.is_within(&parent) && !parent.is_within(&again));
        assert_eq!(again.split_last().unwrap(), (parent, name));
    }
    assert_eq!(again, path);
    // A joined name adds itself and nothing else.
    if let Ok(below) = path.join(b"x") {
        assert!(below.is_within(&path));
        assert_eq!(below.names().count(), path.names().count() + 1);
    }
});
