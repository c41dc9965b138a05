//! Spellings of names in the keys of object stores, and the order that they have there.
//!
//! A key is text, and each store refuses or spoils some characters. A spelling is a key that the store takes and that
//! leads back to the same bytes. It is rclone's wherever rclone's leads back: U+201B (`‛`) quotes the character after it,
//! or is followed by the two hexadecimal digits of a byte, and pictures (`␊`) and wide forms (`＼`) stand for characters
//! that a store does not take. S3's keys are spelled as with rclone's `Ctl`, which is not its default there. Other
//! characters that a store refuses are written as bytes; rclone shows such a name and cannot open it.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::entry::EntryKind;
use crate::entry_order::order;
use crate::error::{Error, ErrorKind, Result};
use crate::path::{EntryPath, check_name, lossy};

/// The maximum length of a key in S3 and GCS, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// The maximum length of a key in Azure, in UTF-16 units.
pub const AZURE_KEY_UNITS_MAX: usize = 1024;
/// The maximum number of names in a key in Azure.
pub const AZURE_KEY_NAMES_MAX: usize = 254;

/// The character that quotes the one after it, or is followed by the hexadecimal digits of a byte.
const QUOTE: char = '‛';
const SPELLING: &str = "spelling the key";
const READING: &str = "reading the key";
const SHORTEN: &str = "shorten names or the prefix, or leave it out (--exclude)";
const RENAME: &str =
    "rename the object, or leave it out (--exclude); between stores of one kind it is copied as it is";

/// The distance of a control character's picture from it.
const PICTURES: u32 = 0x2400;

/// The spelling of names in the keys of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeySpelling {
    /// S3 and stores that are compatible with it.
    S3,
    /// Azure Blob Storage.
    Azure,
    /// Google Cloud Storage.
    Gcs,
}

/// The spelling of one character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CharSpelling {
    /// The character itself.
    Plain,
    /// The character after [`QUOTE`], because it stands for another one if it is alone.
    Quoted,
    /// Another character.
    Picture(char),
    /// Its bytes in hexadecimal.
    Bytes,
}

impl KeySpelling {
    /// All spellings.
    pub const ALL: [Self; 3] = [Self::S3, Self::Azure, Self::Gcs];

    /// Returns the spelling of a name.
    ///
    /// # Errors
    /// Those of [`check_name`].
    pub fn spell(self, name: &[u8]) -> Result<Cow<'_, str>> {
        check_name(name)?;
        Ok(self.spelled(name))
    }

    /// Returns the key of an entry: the prefix as it is, the names in their spelling, and a slash after a directory.
    ///
    /// # Errors
    /// `Unsupported` if the key is longer than the store takes.
    pub fn key(self, prefix: &str, path: &EntryPath, kind: EntryKind) -> Result<String> {
        let mut key = String::with_capacity(prefix.len() + path.as_bytes().len() + 1);
        key.push_str(prefix);
        for (index, name) in path.names().enumerate() {
            if index > 0 {
                key.push('/');
            }
            key.push_str(&self.spelled(name));
        }
        if kind == EntryKind::Directory && !path.is_root() {
            key.push('/');
        }
        self.check_length(&key).map_err(|error| error.at(path.as_bytes()))?;
        Ok(key)
    }

    /// Returns the name with this spelling.
    ///
    /// # Errors
    /// `Unsupported` if it is no spelling of a name: reading it and spelling it again would give another key.
    pub fn read<'a>(self, spelling: &'a str) -> Result<Cow<'a, [u8]>> {
        let name = match self.is_plain_ascii(spelling.as_bytes()) {
            true => Cow::Borrowed(spelling.as_bytes()),
            false => self.decode(spelling).map(Cow::Owned).ok_or_else(|| self.no_spelling(spelling))?,
        };
        check_name(&name).map_err(|error| no_path(spelling, &error.detail))?;
        if matches!(name, Cow::Owned(_)) && self.spelled(&name) != spelling {
            return Err(self.no_spelling(spelling));
        }
        Ok(name)
    }

    /// Returns the path below the prefix that a key stands for. The slash at the end of a directory's key is not part of
    /// it.
    ///
    /// # Errors
    /// `Unsupported` if the key is no path, as `a//b` or `../a`, or if one of its names is no spelling of a name.
    pub fn read_path(self, key: &str) -> Result<EntryPath> {
        let mut path = Vec::with_capacity(key.len());
        for (index, spelling) in key.split('/').enumerate() {
            if index > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(&self.read(spelling).map_err(|error| Error { at: key.into(), ..error })?);
        }
        EntryPath::new(path).map_err(|error| no_path(key, &error.detail))
    }

    /// Compares two entries of one directory by their keys, bytewise. A directory's key ends with a slash.
    pub fn compare(self, (a, a_kind): (&[u8], EntryKind), (b, b_kind): (&[u8], EntryKind)) -> Ordering {
        order((self.spelled(a).as_bytes(), a_kind), (self.spelled(b).as_bytes(), b_kind))
    }

    fn store(self) -> &'static str {
        match self {
            Self::S3 => "S3",
            Self::Azure => "Azure",
            Self::Gcs => "Google Cloud Storage",
        }
    }

    /// Returns true if a name or spelling is printable ASCII without a character that any spelling changes.
    fn is_plain_ascii(self, bytes: &[u8]) -> bool {
        let plain = bytes.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'\\');
        plain && !(self == Self::Azure && bytes.ends_with(b"."))
    }

    fn spelling_of(self, character: char, is_last: bool) -> CharSpelling {
        use CharSpelling::{Bytes, Picture, Plain, Quoted};
        let picture = || char::from_u32(PICTURES + u32::from(character)).map_or(Bytes, Picture);
        match (self, character) {
            (_, QUOTE) => Quoted,
            // Lists and deletions are XML, which cannot hold any of these, or changes them.
            (Self::S3, '\u{fffe}' | '\u{ffff}') => Bytes,
            (Self::Gcs, '\n' | '\r') | (Self::S3 | Self::Azure, '\x01'..='\x1f') => picture(),
            (Self::Gcs, '␊' | '␍') | (Self::S3 | Self::Azure, '␁'..='␟') => Quoted,
            (Self::Azure, '␡' | '＼') => Quoted,
            (Self::Azure, '\x7f') => Picture('␡'),
            (Self::Azure, '\\') => Picture('＼'),
            (Self::Azure, '.') if is_last => Picture('．'),
            (Self::Azure, '．') if is_last => Quoted,
            (Self::Azure, _) if !is_in_iri(character) => Bytes,
            _ => Plain,
        }
    }

    fn spelled(self, name: &[u8]) -> Cow<'_, str> {
        // rclone takes these for the local spelling of `.` and `..`.
        if self == Self::Azure
            && let Some(spelling) = wide_dots(name)
        {
            return Cow::Borrowed(spelling);
        }
        let text = std::str::from_utf8(name).ok();
        if let Some(text) = text
            && (self.is_plain_ascii(name)
                || with_last(text).all(|(it, last)| self.spelling_of(it, last) == CharSpelling::Plain))
        {
            return Cow::Borrowed(text);
        }
        let mut spelling = String::with_capacity(name.len() + 16);
        for (begin, chunk) in chunks(name) {
            let at_end = begin + chunk.valid().len() == name.len();
            for (character, last) in with_last(chunk.valid()) {
                match self.spelling_of(character, last && at_end) {
                    CharSpelling::Plain => spelling.push(character),
                    CharSpelling::Quoted => spelling.extend([QUOTE, character]),
                    CharSpelling::Picture(picture) => spelling.push(picture),
                    CharSpelling::Bytes => {
                        push_bytes(&mut spelling, character.encode_utf8(&mut [0; 4]).as_bytes());
                    }
                }
            }
            push_bytes(&mut spelling, chunk.invalid());
        }
        Cow::Owned(spelling)
    }

    /// Decodes a spelling. Spelling the result again tells whether it was one.
    fn decode(self, spelling: &str) -> Option<Vec<u8>> {
        if self == Self::Azure
            && let Some(name) =
                ["．", "．．"].into_iter().find(|name| wide_dots(name.as_bytes()) == Some(spelling))
        {
            return Some(name.into());
        }
        let mut name = Vec::with_capacity(spelling.len());
        let mut rest = spelling.chars();
        while let Some(character) = rest.next() {
            let is_last = rest.as_str().is_empty();
            if character != QUOTE {
                push(&mut name, self.pictured(character, is_last).unwrap_or(character));
                continue;
            }
            let quoted = rest.next()?;
            match quoted.to_digit(16) {
                Some(high) => name.push((high * 16 + rest.next()?.to_digit(16)?) as u8),
                None => push(&mut name, quoted),
            }
        }
        Some(name)
    }

    /// Checks the length of a whole key.
    fn check_length(self, key: &str) -> Result<()> {
        let units = || key.encode_utf16().count();
        let (length, max, unit) = match self {
            Self::S3 | Self::Gcs => (key.len(), KEY_BYTES_MAX, "bytes"),
            Self::Azure if key.len() <= AZURE_KEY_UNITS_MAX || units() <= AZURE_KEY_UNITS_MAX => {
                (key.trim_end_matches('/').split('/').count(), AZURE_KEY_NAMES_MAX, "names")
            }
            Self::Azure => (units(), AZURE_KEY_UNITS_MAX, "UTF-16 units"),
        };
        if length <= max {
            return Ok(());
        }
        let words = format!("its key would have {length} {unit}, {} takes at most {max}", self.store());
        Err(Error::new(ErrorKind::Unsupported, SPELLING, words).hint(SHORTEN))
    }

    fn no_spelling(self, spelling: &str) -> Error {
        let again = self.spelled(spelling.as_bytes());
        let words = format!(
            "no file name is spelled so in {}: a file of this name would get the key {:?}",
            self.store(),
            lossy(again.as_bytes())
        );
        Error::new(ErrorKind::Unsupported, READING, words).hint(RENAME).at(spelling)
    }

    /// Returns the character that a picture or wide form stands for.
    fn pictured(self, picture: char, is_last: bool) -> Option<char> {
        let of_picture = char::from_u32(u32::from(picture).wrapping_sub(PICTURES));
        match (self, picture) {
            (Self::Gcs, '␊' | '␍') | (Self::S3 | Self::Azure, '␁'..='␟') => of_picture,
            (Self::Azure, '␡') => Some('\x7f'),
            (Self::Azure, '＼') => Some('\\'),
            (Self::Azure, '．') if is_last => Some('.'),
            _ => None,
        }
    }
}

fn push(name: &mut Vec<u8>, character: char) {
    name.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

fn push_bytes(spelling: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
        spelling.extend([QUOTE, digit(byte >> 4), digit(*byte)]);
    }
}

/// Returns the spelling in Azure of the two names that rclone takes for `.` and `..`.
fn wide_dots(name: &[u8]) -> Option<&'static str> {
    match name {
        name if name == "．".as_bytes() => Some("．"),
        name if name == "．．".as_bytes() => Some(".．"),
        _ => None,
    }
}

/// Returns true if RFC 3987 allows a character in the path of an address. Azure refuses all others, even if they are
/// percent-encoded.
fn is_in_iri(character: char) -> bool {
    match character {
        '\0'..='\x7f' => true,
        '\u{a0}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{ffef}' => true,
        '\u{10000}'..='\u{dffff}' | '\u{e1000}'..='\u{effff}' => u32::from(character) & 0xfffe != 0xfffe,
        _ => false,
    }
}

/// Returns the characters of a text, each with true if it is the last one.
fn with_last(text: &str) -> impl Iterator<Item = (char, bool)> {
    text.char_indices().map(|(begin, it)| (it, begin + it.len_utf8() == text.len()))
}

/// Returns the parts of a name that are UTF-8 with the bytes after each that are not, and where they begin.
fn chunks(name: &[u8]) -> impl Iterator<Item = (usize, std::str::Utf8Chunk<'_>)> {
    name.utf8_chunks().scan(0, |end, chunk| {
        let begin = *end;
        *end += chunk.valid().len() + chunk.invalid().len();
        Some((begin, chunk))
    })
}

fn no_path(key: &str, reason: &str) -> Error {
    let words = format!("it is not the path of a file: {reason}");
    Error::new(ErrorKind::Unsupported, READING, words).hint(RENAME).at(key)
}

#[cfg(test)]
mod tests;
