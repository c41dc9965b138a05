//! The short IDs of jobs.

use std::fmt;
use std::fs::File;
use std::io::Read;

use hakobu_core::error::{Error, Result};

/// The number of characters of an ID.
const LENGTH: usize = 7;
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The ID of a job: 7 characters of base32, short enough to be typed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId([u8; LENGTH]);

impl JobId {
    /// Returns a random ID.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn random() -> Result<Self> {
        let mut bytes = [0; LENGTH];
        File::open("/dev/urandom")
            .and_then(|mut source| source.read_exact(&mut bytes))
            .map_err(|error| Error::io("choosing a name for the job", &error))?;
        Ok(Self(bytes.map(|byte| ALPHABET[usize::from(byte & 31)])))
    }

    /// Parses an ID. Returns `None` if the text is not one.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let letters: [u8; LENGTH] = text.try_into().ok()?;
        letters.iter().all(|letter| ALPHABET.contains(letter)).then_some(Self(letters))
    }

    /// Returns the ID as text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_nothing_else_is() {
        let id = JobId::random().unwrap();
        assert_eq!(JobId::parse(id.as_str().as_bytes()), Some(id));
        assert_ne!(JobId::random().unwrap(), id);
        for wrong in ["", "abc", "abcdefgh", "../../a", "ABCDEFG", "abcdef1", "abcdef\u{e9}"] {
            assert_eq!(JobId::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
