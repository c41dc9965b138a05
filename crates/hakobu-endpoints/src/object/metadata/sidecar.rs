//! Extended attributes that do not fit into the metadata of an object: an object of their own, which all entries with
//! equal attributes share.
//!
//! Its key is `.hakobu.attributes/` below the target, and the BLAKE3 of its content in hexadecimal. Its content is the
//! attributes as [`Extended`] encodes them.

use hakobu_core::digest::hex;
use hakobu_core::extended::{Classes, EXTENDED_BYTES_MAX, Extended, ExtendedRef, listed_digest};
use hakobu_core::{Error, ErrorKind, Result};

use super::values::{hex_bytes, hexadecimal};

/// The directory of the sidecars below a target.
pub const SIDECAR_DIRECTORY: &str = ".hakobu.attributes";
const VALUE_PREFIX: &str = "sidecar:";

/// The identity of a sidecar, which the metadata of an object holds as `sidecar:CLASSES:DIGEST` in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SidecarName {
    /// The classes of extended attributes that it covers.
    pub classes: Classes,
    /// The BLAKE3 of its content.
    pub digest: [u8; 32],
}

/// A sidecar to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sidecar<'a> {
    /// Its identity.
    pub name: SidecarName,
    /// Its content.
    pub content: &'a [u8],
}

impl<'a> Sidecar<'a> {
    /// Returns the sidecar with these attributes.
    pub fn new(extended: ExtendedRef<'a>) -> Self {
        let content = extended.as_bytes();
        let digest = *blake3::hash(content).as_bytes();
        Self { name: SidecarName { classes: extended.classes(), digest }, content }
    }
}

impl SidecarName {
    /// Returns the key below the target.
    pub fn key(&self) -> String {
        format!("{SIDECAR_DIRECTORY}/{}", hex(&self.digest))
    }

    /// Returns true if a key is one that [`SidecarName::key`] returns, in any directory: the same objects can be below
    /// targets at several levels.
    pub fn is_key(key: &str) -> bool {
        let mut names = key.rsplit('/');
        names.next().and_then(hex_bytes::<32>).is_some() && names.next() == Some(SIDECAR_DIRECTORY)
    }

    /// Returns the value in the metadata of an object.
    pub fn value(&self) -> String {
        format!("{VALUE_PREFIX}{:02x}:{}", self.classes.bits(), hex(&self.digest))
    }

    /// Reads a value that [`SidecarName::value`] returned. Base64 has no colons, so nothing else is one.
    pub fn from_value(value: &str) -> Option<Self> {
        let (classes, digest) = value.strip_prefix(VALUE_PREFIX)?.split_once(':')?;
        let bits = hexadecimal(classes).filter(|_| classes.len() == 2)?;
        Some(Self { classes: Classes::from_bits(u8::try_from(bits).ok()?), digest: hex_bytes(digest)? })
    }

    /// Returns the hash of the attributes that listings show, without a look at the content.
    pub fn listed_digest(&self) -> u64 {
        listed_digest(&self.digest)
    }

    /// Returns the error of an entry whose sidecar does not exist.
    pub fn missing(&self) -> Error {
        self.corrupt("the object that has them does not exist")
    }

    fn corrupt(&self, words: &str) -> Error {
        let words = format!("{words}: {}", self.key());
        let error = Error::new(ErrorKind::Corrupt, "reading the extended attributes", words);
        error.hint(
            "copy the entries without them (--preserve no-xattr,no-acl), or copy them to the store again, which restores that object",
        )
    }

    /// Checks and decodes the content.
    ///
    /// # Errors
    /// `Corrupt` if it is not what the name says.
    pub fn read(&self, content: Vec<u8>) -> Result<Extended> {
        let corrupt = |words: &str| self.corrupt(words);
        if content.len() > EXTENDED_BYTES_MAX || blake3::hash(&content) != self.digest {
            return Err(corrupt("the object has other content than its name says"));
        }
        let extended = Extended::decode(content).map_err(|error| corrupt(&error.detail))?;
        match extended.as_ref().classes() == self.classes {
            true => Ok(extended),
            false => Err(corrupt("it covers other classes than the entry's metadata says")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes() -> Extended {
        Extended::new(Classes::USUAL, &mut [(b"user.a".to_vec(), vec![7; 10_000])]).unwrap()
    }

    #[test]
    fn a_sidecar_is_found_by_its_name_and_checked() {
        let extended = attributes();
        let sidecar = Sidecar::new(extended.as_ref());
        let name = SidecarName::from_value(&sidecar.name.value()).unwrap();
        assert_eq!(name, sidecar.name);
        assert_eq!(name.key(), format!(".hakobu.attributes/{}", blake3::hash(extended.as_bytes()).to_hex()));
        let key = name.key();
        assert!(SidecarName::is_key(&key) && SidecarName::is_key(&format!("a/b/{key}")));
        for other in
            [".hakobu.attributes", ".hakobu.attributes/notes", &format!("a{key}"), &format!("{key}0")]
        {
            assert!(!SidecarName::is_key(other), "{other}");
        }
        assert_eq!(name.listed_digest(), extended.as_ref().digest());
        assert_eq!(name.read(sidecar.content.to_vec()).unwrap(), extended);

        let mut changed = sidecar.content.to_vec();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(name.read(changed).unwrap_err().kind, ErrorKind::Corrupt);
        let other = SidecarName { classes: Classes::USER, ..name };
        assert_eq!(other.read(sidecar.content.to_vec()).unwrap_err().kind, ErrorKind::Corrupt);
        let junk = SidecarName { digest: *blake3::hash(b"junk").as_bytes(), ..name };
        assert_eq!(junk.read(b"junk".to_vec()).unwrap_err().kind, ErrorKind::Corrupt);
    }

    #[test]
    fn other_values_are_no_names_of_sidecars() {
        let digest = "0".repeat(64);
        assert!(SidecarName::from_value(&format!("sidecar:0f:{digest}")).is_some());
        for value in [
            "",
            "sidecar:",
            "sidecar:0f:",
            &digest,
            &format!("sidecar:f:{digest}"),
            &format!("sidecar:0f:{digest}0"),
            &format!("sidecar:100:{digest}"),
            &format!("sidecar:0F:{digest}"),
            "sidecar:0f:ü",
        ] {
            assert_eq!(SidecarName::from_value(value), None, "{value}");
        }
    }
}
