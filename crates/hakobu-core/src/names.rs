//! The names that a target can hold, checked before anything is sent.
//!
//! The rules come from specifications: FAT and exFAT from Microsoft's (forbidden characters, case-insensitive names),
//! NTFS and SMB from the behaviour of Windows, which Linux's drivers follow.

use std::collections::{HashMap, HashSet};

use crate::error::{Error, ErrorKind, Result};
use crate::path::lossy;

/// Characters with a special meaning in Windows.
const WINDOWS_RESERVED: &[u8] = b"\"*:<>?|\\";

/// The rules for names at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameRules {
    /// The maximum length of a name in bytes.
    pub bytes_max: u32,
    /// True if names are text: bytes that are not UTF-8 cannot be stored.
    pub text: bool,
    /// True if the rules of Windows apply: no reserved characters, and no dot or blank at the end.
    pub windows: bool,
    /// True if names that differ only in case are the same name.
    pub ignores_case: bool,
}

impl NameRules {
    /// Any bytes, at most 255, as in Linux's own file systems.
    pub const ANY: Self = Self { bytes_max: 255, text: false, windows: false, ignores_case: false };

    /// Checks that a name can be stored.
    ///
    /// # Errors
    /// `Unsupported`, with the reason.
    pub fn check(&self, name: &[u8]) -> Result<()> {
        let refuse = |words: String| Err(Error::new(ErrorKind::Unsupported, "looking at the name", words));
        let rename = "; rename it at the source, or leave it out (--exclude)";
        if name.len() as u64 > u64::from(self.bytes_max) {
            let max = self.bytes_max;
            return refuse(format!(
                "it has {} bytes, the target's file system takes {max}{rename}",
                name.len()
            ));
        }
        if self.text && std::str::from_utf8(name).is_err() {
            return refuse(format!("the target's file system takes only names that are UTF-8{rename}"));
        }
        if !self.windows {
            return Ok(());
        }
        if let Some(byte) = name.iter().find(|byte| **byte < 32 || WINDOWS_RESERVED.contains(byte)) {
            let shown = lossy(&[*byte]);
            return refuse(format!("the target's file system takes no names with {shown:?}{rename}"));
        }
        if matches!(name.last(), Some(b'.' | b' ')) {
            return refuse(format!("the target's file system drops a dot or blank at the end{rename}"));
        }
        Ok(())
    }
}

/// The names of one directory, as seen by a target that ignores case.
#[derive(Debug, Default)]
pub struct FoldedNames(HashMap<Vec<u8>, Vec<u8>>);

impl FoldedNames {
    /// Adds a name.
    ///
    /// # Errors
    /// `Conflict` if it is the same name as another one at the target.
    pub fn add(&mut self, name: &[u8]) -> Result<()> {
        // The first one is kept: existing entries at the target keep their names.
        let other = self.0.entry(folded(name)).or_insert_with(|| name.to_vec());
        if *other == name {
            return Ok(());
        }
        let words = format!(
            "at the target it is the same name as {}, which ignores case; rename one of them",
            lossy(other)
        );
        Err(Error::new(ErrorKind::Conflict, "looking at the name", words))
    }
}

/// Finds the names of a case-insensitive target that the source spells in another case. Returns pairs of indices into
/// `target` and `source`. Names that match several names of the source are left out, and so are those that the source
/// has in the same spelling.
pub fn other_cases(source: &[&[u8]], target: &[&[u8]]) -> Vec<(usize, usize)> {
    let exact: HashSet<&[u8]> = source.iter().copied().collect();
    let there: HashSet<&[u8]> = target.iter().copied().collect();
    let mut by_folded: HashMap<Vec<u8>, (usize, bool)> = HashMap::new();
    for (index, name) in source.iter().enumerate() {
        let (first, is_only) = by_folded.entry(folded(name)).or_insert((index, true));
        // Several sources may have the same name.
        *is_only &= source[*first] == *name;
    }
    let other = |(index, name): (usize, &&[u8])| {
        let (wanted, is_only) = *by_folded.get(&folded(name))?;
        (is_only && !exact.contains(name) && !there.contains(source[wanted])).then_some((index, wanted))
    };
    target.iter().enumerate().filter_map(other).collect()
}

/// Returns a name without case. File systems have their own tables, which differ in rare letters only.
fn folded(name: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(name) {
        Ok(text) => text.to_lowercase().into_bytes(),
        Err(_) => name.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOWS: NameRules = NameRules { bytes_max: 255, text: true, windows: true, ignores_case: true };

    #[test]
    fn linux_takes_any_bytes() {
        for name in [&b"\xff\x01"[..], b"a.", b"a:b", b"CON", &[b'x'; 255]] {
            assert!(NameRules::ANY.check(name).is_ok());
        }
        assert!(NameRules::ANY.check(&[b'x'; 256]).is_err());
    }

    #[test]
    fn windows_does_not() {
        for (name, words) in [
            (&b"\x93\xfa\x96\x7b"[..], "UTF-8"),
            (b"a:b", "\":\""),
            (b"a\nb", "names with"),
            (b"end.", "at the end"),
            (b"end ", "at the end"),
        ] {
            let error = WINDOWS.check(name).unwrap_err();
            assert!(error.detail.contains(words), "{error}");
        }
        for name in ["日本語.txt", "a.b", " a", ".hidden"] {
            assert!(WINDOWS.check(name.as_bytes()).is_ok(), "{name}");
        }
    }

    #[test]
    fn another_case_of_a_name_is_found() {
        let pairs = |source: &[&str], target: &[&str]| {
            let bytes =
                |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
            let (source, target) = (bytes(source), bytes(target));
            let source: Vec<&[u8]> = source.iter().map(Vec::as_slice).collect();
            let target: Vec<&[u8]> = target.iter().map(Vec::as_slice).collect();
            other_cases(&source, &target)
        };
        assert_eq!(pairs(&["a", "file", "z"], &["File", "a", "y"]), [(0, 1)]);
        assert_eq!(pairs(&["Ärger"], &["ärger"]), [(0, 0)]);
        // Two names that would become one, one that exists in the same spelling, and the same one from two sources.
        assert_eq!(pairs(&["FILE", "file"], &["File"]), []);
        assert_eq!(pairs(&["File", "file"], &["File"]), []);
        assert_eq!(pairs(&["file", "file"], &["File"]), [(0, 0)]);
    }

    #[test]
    fn names_that_become_one_are_found() {
        let mut seen = FoldedNames::default();
        for name in ["a", "ä", "B"] {
            seen.add(name.as_bytes()).unwrap();
        }
        // A repeated name is one entry: two sources may have it.
        seen.add(b"a").unwrap();
        for name in ["A", "Ä", "b"] {
            assert_eq!(seen.add(name.as_bytes()).unwrap_err().kind, ErrorKind::Conflict, "{name}");
        }
        seen.add(b"a").unwrap();
        seen.add(b"\xffA").unwrap();
        assert!(seen.add(b"\xffa").is_err());
    }
}
