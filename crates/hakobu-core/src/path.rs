//! Names and paths of entries: relative byte strings that cannot leave the root.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};

/// The maximum length of a path below a root, in bytes. Linux resolves no longer one in a single call.
pub const PATH_BYTES_MAX: usize = 4095;
/// The maximum length of the name of one entry, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// The prefix of the names of drafts.
pub const DRAFT_PREFIX: &[u8] = b".hakobu.";

/// The number of characters after the prefix, five bits each: those that identify the draft, and a checksum of them.
pub const DRAFT_CHARACTERS: usize = DRAFT_BODY_CHARACTERS + DRAFT_SUM_CHARACTERS;
/// The number of characters that identify a draft.
pub const DRAFT_BODY_CHARACTERS: usize = 18;
/// The number of checksum characters: 40 bits, so that no other name is mistaken for that of a draft.
const DRAFT_SUM_CHARACTERS: usize = 8;
/// The length of a draft's name in bytes.
pub const DRAFT_NAME_BYTES: usize = DRAFT_PREFIX.len() + DRAFT_CHARACTERS;
const DRAFT_ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The lifetime of a draft. It is part of the checksum in its name, and determines which further evidence exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DraftLife {
    /// From many seconds to many runs: a large file with its journal. The file itself proves that it is a draft.
    Long,
    /// Within one operation. A killed process leaves at most one for each of its lanes.
    Short,
}

/// Returns true if `name` has the form of a draft's name: the prefix and 26 characters with a correct checksum. A file
/// can have such a name only if hakobu created it, or if somebody copied the name.
pub fn is_draft_name(name: &[u8]) -> bool {
    draft_life(name).is_some()
}

/// Returns the lifetime of the draft with that name, or `None` for any other name.
pub fn draft_life(name: &[u8]) -> Option<DraftLife> {
    let characters = name.strip_prefix(DRAFT_PREFIX).filter(|rest| rest.len() == DRAFT_CHARACTERS)?;
    if !characters.iter().all(|byte| DRAFT_ALPHABET.contains(byte)) {
        return None;
    }
    let (body, sum) = characters.split_at(DRAFT_BODY_CHARACTERS);
    [DraftLife::Long, DraftLife::Short]
        .into_iter()
        .find(|life| draft_sum(body, *life).eq(sum.iter().copied()))
}

/// Returns the characters of the checksum.
fn draft_sum(body: &[u8], life: DraftLife) -> impl Iterator<Item = u8> {
    let about: &[u8] = match life {
        DraftLife::Long => b"hakobu draft, long life",
        DraftLife::Short => b"hakobu draft, short life",
    };
    let mut hasher = blake3::Hasher::new();
    hasher.update(about).update(body);
    let sum = *hasher.finalize().as_bytes();
    (0..DRAFT_SUM_CHARACTERS).map(move |index| DRAFT_ALPHABET[usize::from(sum[index] & 31)])
}

/// Returns the name of a draft with this body, of which the first [`DRAFT_BODY_CHARACTERS`] are used.
pub fn draft_name_of(body: impl Iterator<Item = u8>, life: DraftLife) -> [u8; DRAFT_NAME_BYTES] {
    let mut name = [DRAFT_ALPHABET[0]; DRAFT_NAME_BYTES];
    name[..DRAFT_PREFIX.len()].copy_from_slice(DRAFT_PREFIX);
    let (head, sum_place) = name.split_at_mut(DRAFT_PREFIX.len() + DRAFT_BODY_CHARACTERS);
    let body_place = &mut head[DRAFT_PREFIX.len()..];
    body_place.iter_mut().zip(body).for_each(|(place, letter)| *place = letter);
    sum_place.iter_mut().zip(draft_sum(body_place, life)).for_each(|(place, letter)| *place = letter);
    name
}

/// Returns the name of a draft that lives for one operation and is derived from a value.
pub fn draft_name(value: &[u8]) -> Vec<u8> {
    let hash = blake3::hash(value);
    draft_name_of(draft_characters(hash.as_bytes(), DRAFT_BODY_CHARACTERS), DraftLife::Short).to_vec()
}

/// Returns `count` characters of a draft's name that encode a value, five bits each, from its first byte on. The value
/// is padded with zeros.
pub fn draft_characters(value: &[u8], count: usize) -> impl Iterator<Item = u8> {
    let byte = |index: usize| value.get(index).copied().unwrap_or(0);
    (0..count).map(move |index| {
        let bit = index * 5;
        let pair = u16::from_be_bytes([byte(bit / 8), byte(bit / 8 + 1)]);
        DRAFT_ALPHABET[usize::from(pair >> (11 - bit % 8)) & 31]
    })
}

/// Checks that `name` can be the name of one entry: not empty, not `.` or `..`, without `/` and NUL, and at most
/// [`NAME_BYTES_MAX`] bytes.
///
/// # Errors
/// `Protocol` if it cannot.
pub fn check_name(name: &[u8]) -> Result<()> {
    let bad = if name.is_empty() {
        "an empty name"
    } else if name == b"." || name == b".." {
        "a name that is . or .."
    } else if name.len() > NAME_BYTES_MAX {
        "a name that is longer than 255 bytes"
    } else if name.iter().any(|&byte| byte == b'/' || byte == 0) {
        "a name with a slash or a NUL byte"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Protocol, "reading a name", bad))
}

/// A path below a root: names joined by `/`. The empty path is the root itself.
///
/// It cannot contain an absolute path, an empty name, `.` or `..`: it is checked wherever it is created, also when it
/// is decoded from a peer's message.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct EntryPath(Vec<u8>);

impl EntryPath {
    /// Returns the root itself.
    pub fn root() -> Self {
        Self(Vec::new())
    }

    /// Checks and wraps a whole path.
    ///
    /// # Errors
    /// `Protocol` if a name in it could leave the root or the path is too long.
    pub fn new(path: impl Into<Vec<u8>>) -> Result<Self> {
        let path = path.into();
        if path.len() > PATH_BYTES_MAX {
            let detail = format!("a path of {} bytes, at most {PATH_BYTES_MAX} are possible", path.len());
            return Err(Error::new(ErrorKind::Protocol, "reading a path", detail));
        }
        if !path.is_empty() {
            for name in path.split(|&byte| byte == b'/') {
                check_name(name)?;
            }
        }
        Ok(Self(path))
    }

    /// Returns the path of `name` in this directory.
    ///
    /// # Errors
    /// `Protocol` for an invalid name, `Unsupported` if the path would be too long.
    pub fn join(&self, name: &[u8]) -> Result<Self> {
        check_name(name)?;
        let mut path = Vec::with_capacity(self.0.len() + 1 + name.len());
        if !self.0.is_empty() {
            path.extend_from_slice(&self.0);
            path.push(b'/');
        }
        path.extend_from_slice(name);
        if path.len() > PATH_BYTES_MAX {
            let detail =
                format!("the path would have {} bytes, at most {PATH_BYTES_MAX} are possible", path.len());
            return Err(Error::new(ErrorKind::Unsupported, "joining a path", detail).at(&path));
        }
        Ok(Self(path))
    }

    /// Returns the path as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns true if this is the root itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the directory and the last name, or `None` for the root.
    pub fn split_last(&self) -> Option<(EntryPath, &[u8])> {
        if self.0.is_empty() {
            return None;
        }
        match self.0.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => Some((Self(self.0[..slash].to_vec()), &self.0[slash + 1..])),
            None => Some((Self::root(), &self.0)),
        }
    }

    /// Returns the names from the root downwards.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b'/').filter(|name| !name.is_empty())
    }

    /// Returns true if this is `ancestor` or below it.
    pub fn is_within(&self, ancestor: &EntryPath) -> bool {
        ancestor.is_root()
            || (self.0.starts_with(&ancestor.0)
                && (self.0.len() == ancestor.0.len() || self.0[ancestor.0.len()] == b'/'))
    }
}

impl AsRef<[u8]> for EntryPath {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", lossy(&self.0))
    }
}

impl fmt::Display for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&lossy(&self.0))
    }
}

/// Returns bytes as text for people. Invalid UTF-8 is escaped, and so are characters that control a terminal or are
/// invisible ([`is_shown`]), so that no name can move a terminal's cursor or look like another one.
pub fn lossy(bytes: &[u8]) -> String {
    let mut words = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match is_shown(character) {
                true => words.push(character),
                false => words.extend(character.escape_default()),
            }
        }
        for byte in chunk.invalid() {
            words.push_str(&format!("\\x{byte:02x}"));
        }
    }
    words
}

/// Returns true if a character is visible and unambiguous: no control or format character (direction, joiners, tags),
/// no line separator, nothing of zero width, nothing private or unassigned.
pub fn is_shown(character: char) -> bool {
    match character {
        ' '..='~' => true,
        // Spaces that occur in ordinary text.
        '\u{a0}' | '\u{3000}' => true,
        // Invisible letters and marks: fillers, joiners, and variation selectors.
        '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{ffa0}'
        | '\u{e0100}'..='\u{e01ef}' => false,
        // The standard library's table of printable characters. The letter in front keeps combining marks from being
        // escaped for standing alone.
        other => {
            let mut room = [b'x'; 5];
            let bytes = other.encode_utf8(&mut room[1..]).len();
            let escaped = |text: &str| text.escape_debug().nth(1) == Some('\\');
            str::from_utf8(&room[..1 + bytes]).is_ok_and(|text| !escaped(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_value_has_a_name_of_a_draft_of_its_own() {
        let (one, other) = (draft_name(&[0; 16]), draft_name(&[255; 16]));
        assert!(is_draft_name(&one) && is_draft_name(&other) && is_draft_name(&draft_name(b"")));
        assert_ne!(one, other);
        // Five bits each, the highest first.
        assert!(draft_characters(&[0b0000_1000, 0b1000_0110], 3).eq(*b"bcd"));
        let body = || b"abcdefghijklmnopqr".iter().copied();
        let (long, short) = (draft_name_of(body(), DraftLife::Long), draft_name_of(body(), DraftLife::Short));
        assert_eq!((draft_life(&long), draft_life(&short)), (Some(DraftLife::Long), Some(DraftLife::Short)));
        assert!(long.starts_with(b".hakobu.abcdefghijklmnopqr") && long != short);
    }

    #[test]
    fn a_name_that_only_looks_like_one_of_a_draft_is_none() {
        let draft = draft_name(b"x");
        for place in 0..draft.len() {
            for other in [b'a', b'q', b'7', b'1', b'A', b' ', 0xff] {
                let mut name = draft.clone();
                name[place] = other;
                assert_eq!(is_draft_name(&name), name == draft, "{}", lossy(&name));
            }
        }
        assert!(!is_draft_name(&draft[..33]) && !is_draft_name(&[&draft[..], b"a"].concat()));
        for name in [
            ".hakobu.NOTES-2026-11-25 (copy).md",
            ".hakobu.abcdefghijklmnopqrstuvwxyz",
            ".hakobu.aaaaaaaaaaaaaaaaaaaaaaaaaa",
            ".hakobu.77777777777777777777777777",
        ] {
            assert!(name.len() == DRAFT_NAME_BYTES && !is_draft_name(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn paths_that_leave_the_root_cannot_be_made() {
        for bad in ["/a", "a/", "a//b", "..", "a/../b", ".", "a/.", "a\0b"] {
            assert!(EntryPath::new(bad).is_err(), "{bad:?}");
        }
        assert!(EntryPath::new(vec![b'a'; 256]).is_err());
        assert!(EntryPath::new("a/b c/..d").is_ok());
        assert!(EntryPath::new("").unwrap().is_root());
    }

    #[test]
    fn within_goes_by_names_not_by_bytes() {
        let path = |text: &str| EntryPath::new(text).unwrap();
        assert!(path("a/b").is_within(&path("a")));
        assert!(path("a").is_within(&path("a")));
        assert!(path("a").is_within(&EntryPath::root()));
        assert!(!path("ab").is_within(&path("a")));
    }

    #[test]
    fn control_characters_and_foreign_bytes_are_escaped() {
        for hidden in [
            "\u{7f}",
            "\u{85}",
            "\u{9b}",
            "\u{ad}",
            "\u{34f}",
            "\u{61c}",
            "\u{180e}",
            "\u{200b}",
            "\u{200d}",
            "\u{200e}",
            "\u{200f}",
            "\u{2028}",
            "\u{2029}",
            "\u{202a}",
            "\u{202e}",
            "\u{2060}",
            "\u{2066}",
            "\u{2069}",
            "\u{206f}",
            "\u{3164}",
            "\u{e000}",
            "\u{fe0f}",
            "\u{feff}",
            "\u{fff9}",
            "\u{378}",
            "\u{fffe}",
            "\u{110bd}",
            "\u{13430}",
            "\u{1d173}",
            "\u{e0001}",
            "\u{e0041}",
            "\u{f0000}",
            "\u{10ffff}",
        ] {
            assert_eq!(lossy(hidden.as_bytes()), hidden.escape_default().to_string());
        }
        for seen in [
            "\u{e9}",
            "e\u{301}",
            "\u{904b}\u{3000}\u{3076}",
            "\u{645}",
            "\u{1f600}",
            "\u{a0}",
            "'\"\\",
            "\u{fffd}",
        ] {
            assert_eq!(lossy(seen.as_bytes()), seen);
        }
        assert_eq!(lossy(b"a\x1b[2Jb\xff\xe9\x81\x8b"), "a\\u{1b}[2Jb\\xff\u{904b}");
    }

    proptest! {
        #[test]
        fn join_and_split_are_inverse(names in proptest::collection::vec("[a-z.]{3,9}", 1..6)) {
            let mut path = EntryPath::root();
            for name in &names {
                path = path.join(name.as_bytes()).unwrap();
            }
            prop_assert_eq!(path.names().count(), names.len());
            let (parent, last) = path.split_last().unwrap();
            prop_assert_eq!(parent.join(last).unwrap(), path.clone());
            prop_assert_eq!(EntryPath::new(path.as_bytes()).unwrap(), path);
        }
    }
}
