//! Generates plain and difficult names.
//!
//! Every name contains the number of its entry, so names in a directory never collide.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The maximum length of a name in Linux file systems, in bytes.
const LONGEST_NAME_BYTES: usize = 255;

/// The number of kinds of difficult names. The last kind has the longest names.
pub(super) const KINDS: u64 = 16;

/// Returns a plain name: the letter of its kind and its number.
pub(super) fn plain(letter: char, index: u64) -> OsString {
    format!("{letter}{index:07}").into()
}

/// Returns a difficult name of the kind that `choice` selects. It is always a valid name: 1 to 255 bytes, no `/`, no
/// NUL, not `.` or `..`.
pub(super) fn nasty(letter: char, index: u64, choice: u64) -> OsString {
    let number = format!("{letter}{index:07}");
    let name: Vec<u8> = match choice % KINDS {
        // Invalid UTF-8: stray bytes, a truncated sequence, an encoded surrogate.
        0 => [b"\xff\xfe".as_slice(), number.as_bytes(), b"\xe3\x81"].concat(),
        1 => [number.as_bytes(), b"\xed\xa0\x80"].concat(),
        // Line ends, inside and at the end.
        2 => format!("{number}\nsecond line").into(),
        3 => format!("{number}\r\n").into(),
        // Control characters, and an escape sequence that colours a terminal.
        4 => format!("{number}\x01\t\x07\x7f\x1b[31m\u{9b}2J").into(),
        // Names that look like an option, a remote host, a home directory or a comment.
        5 => format!("-rf {number}").into(),
        6 => format!("--delete={number}").into(),
        7 => format!("host:{number}").into(),
        8 => format!("~{number}#%2e%2e%00").into(),
        9 => format!("  {number}  ").into(),
        10 => format!("{number}'\"`$(exit)${{HOME}};&|<>").into(),
        11 => format!("{number}*?[a-z]{{x,y}}!\\").into(),
        12 => format!("...{number}.").into(),
        // One letter composed and decomposed, and a right-to-left override.
        13 => format!("{number} caf\u{e9} cafe\u{301} \u{202e}txt").into(),
        14 => format!("{number} 運ぶ 🚚").into(),
        _ => {
            let mut name = number.into_bytes();
            name.resize(LONGEST_NAME_BYTES, b'n');
            name
        }
    };
    OsString::from_vec(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::os::unix::ffi::OsStrExt;

    fn all() -> Vec<OsString> {
        (0..10 * KINDS).map(|index| nasty('f', index, index)).collect()
    }

    #[test]
    fn every_name_is_valid_and_unlike_the_others() {
        let names = all();
        for name in &names {
            let bytes = name.as_bytes();
            assert!((1..=LONGEST_NAME_BYTES).contains(&bytes.len()));
            assert!(!bytes.contains(&b'/') && !bytes.contains(&0));
            assert!(bytes != b"." && bytes != b"..");
        }
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        // All kinds with the same number: the names still differ.
        let same: HashSet<_> = (0..KINDS).map(|choice| nasty('f', 7, choice)).collect();
        assert_eq!(same.len() as u64, KINDS);
    }

    #[test]
    fn the_promised_kinds_are_there() {
        let names = all();
        let any = |test: fn(&[u8]) -> bool| names.iter().any(|name| test(name.as_bytes()));
        assert!(any(|name| std::str::from_utf8(name).is_err()));
        assert!(any(|name| name.contains(&b'\n')));
        assert!(any(|name| name.contains(&0x1b)));
        assert!(any(|name| name.starts_with(b"-")));
        assert!(any(|name| name.len() == 255));
        assert!(any(|name| name.starts_with(b" ") && name.ends_with(b" ")));
        assert!(any(|name| name.contains(&b'\'') && name.contains(&b'"')));
    }
}
