//! Extended attributes of an entry: access control lists, capabilities, and what users put there.
//!
//! They travel as one block of bytes: the classes that it is about (u8), a count (u16), and for each attribute the
//! lengths of its name (u8) and value (u32), the name and the value; numbers are little endian, names ascend. An
//! entry that gets such a block has, of these classes, these attributes afterwards and no others.

use std::ops::{BitAnd, BitOr};

use serde::{Deserialize, Deserializer, Serialize};

use crate::endpoint::LossKind;
use crate::error::{Error, ErrorKind, Result};
use crate::path::serde_bytes_vec;

/// The longest name of an attribute, in bytes: the kernel's limit.
pub const ATTRIBUTE_NAME_BYTES_MAX: usize = 255;
/// The longest value of an attribute, in bytes: the kernel's limit.
pub const ATTRIBUTE_VALUE_BYTES_MAX: usize = 64 * 1024;
/// The most bytes that the attributes of one entry may take, encoded. What has more loses them.
pub const EXTENDED_BYTES_MAX: usize = 128 * 1024;

/// Kinds of extended attributes, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Classes(u8);

impl Classes {
    /// No class.
    pub const NONE: Self = Self(0);
    /// `user.*`.
    pub const USER: Self = Self(1);
    /// POSIX access control lists, as the kernel stores them.
    pub const ACL: Self = Self(2);
    /// `security.capability`: what a program may do though root did not start it.
    pub const CAPABILITY: Self = Self(4);
    /// `trusted.*`, and those of `security.*` that have no class of their own.
    pub const TRUSTED: Self = Self(8);
    /// `security.selinux`: it belongs to the policy of the machine that the entry is on.
    pub const SELINUX: Self = Self(16);
    /// What is kept unless the user says otherwise.
    pub const USUAL: Self = Self(1 | 2 | 4 | 8);

    /// The class of an attribute. Those without one, such as a file system's own, stay where they are.
    pub fn of(name: &[u8]) -> Option<Self> {
        match name {
            b"system.posix_acl_access" | b"system.posix_acl_default" => Some(Self::ACL),
            b"security.capability" => Some(Self::CAPABILITY),
            b"security.selinux" => Some(Self::SELINUX),
            // XFS shows access lists a second time.
            _ if name.starts_with(b"trusted.SGI_ACL_") => None,
            _ if name.starts_with(b"user.") => Some(Self::USER),
            _ if name.starts_with(b"trusted.") || name.starts_with(b"security.") => Some(Self::TRUSTED),
            _ => None,
        }
    }

    /// Whether there is none in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `other` are in it.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Their names for people.
    pub fn words(self) -> String {
        let names = [
            (Self::USER, "user.*"),
            (Self::ACL, "access lists"),
            (Self::CAPABILITY, "capabilities"),
            (Self::TRUSTED, "trusted.* and security.*"),
            (Self::SELINUX, "SELinux labels"),
        ];
        let own = names.into_iter().filter(|(class, _)| self.contains(*class));
        own.map(|(_, name)| name).collect::<Vec<_>>().join(", ")
    }

    /// What an entry loses that loses an attribute of this class.
    pub fn loss(self) -> LossKind {
        match self {
            Self::ACL => LossKind::Acl,
            Self::CAPABILITY => LossKind::SetId,
            _ => LossKind::Xattr,
        }
    }
}

impl BitAnd for Classes {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Classes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Which extended attributes are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtendedAsk {
    /// Those that are kept.
    pub keep: Classes,
    /// Those that count as lost where an entry has them.
    pub miss: Classes,
    /// Whether it is an error if the entry's content could not be read.
    pub readable: bool,
}

/// The extended attributes of one entry, encoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Extended(#[serde(with = "serde_bytes_vec")] Vec<u8>);

/// Extended attributes that lie in a larger buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedRef<'a>(&'a [u8]);

const HEADER_BYTES: usize = 3;
const ATTRIBUTE_HEADER_BYTES: usize = 5;

impl Extended {
    /// Encodes attributes, in any order; those of other classes are left out.
    ///
    /// # Errors
    /// `Unsupported` if they are more than can travel.
    pub fn new(classes: Classes, attributes: &mut [(Vec<u8>, Vec<u8>)]) -> Result<Self> {
        attributes.sort_unstable();
        let of_these = |name: &[u8]| Classes::of(name).is_some_and(|class| classes.contains(class));
        let mut bytes = vec![classes.0, 0, 0];
        let mut count = 0u16;
        for (name, value) in attributes.iter().filter(|(name, _)| of_these(name)) {
            let bytes_after = bytes.len() + ATTRIBUTE_HEADER_BYTES + name.len() + value.len();
            let fits = name.len() <= ATTRIBUTE_NAME_BYTES_MAX && value.len() <= ATTRIBUTE_VALUE_BYTES_MAX;
            if !fits || bytes_after > EXTENDED_BYTES_MAX {
                let words = format!("more than {EXTENDED_BYTES_MAX} bytes of extended attributes");
                return Err(Error::new(ErrorKind::Unsupported, "reading the extended attributes", words));
            }
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(value);
            count += 1;
        }
        bytes[1..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
        Ok(Self(bytes))
    }

    /// Takes what came from a peer.
    ///
    /// # Errors
    /// As [`ExtendedRef::decode`].
    pub fn decode(bytes: Vec<u8>) -> Result<Self> {
        ExtendedRef::decode(&bytes)?;
        Ok(Self(bytes))
    }

    /// The encoding.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same bytes, for those who reuse them.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The same without owning it.
    pub fn as_ref(&self) -> ExtendedRef<'_> {
        ExtendedRef(&self.0)
    }
}

impl<'de> Deserialize<'de> for Extended {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let bytes = serde_bytes_vec::deserialize(deserializer)?;
        Self::decode(bytes).map_err(serde::de::Error::custom)
    }
}

impl<'a> ExtendedRef<'a> {
    /// Checks a whole encoding.
    ///
    /// # Errors
    /// `Protocol` if it is none: too long, out of order, or with an attribute of another class.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        if bytes.len() > EXTENDED_BYTES_MAX {
            return Err(malformed("too many"));
        }
        let [classes, low, high, rest @ ..] = bytes else { return Err(malformed("an early end")) };
        let (classes, mut rest) = (Classes(*classes), rest);
        let mut last: &[u8] = b"";
        for _ in 0..u16::from_le_bytes([*low, *high]) {
            let (name, value) = split_attribute(&mut rest).ok_or_else(|| malformed("an early end"))?;
            if value.len() > ATTRIBUTE_VALUE_BYTES_MAX || name.contains(&0) {
                return Err(malformed("an impossible one"));
            }
            if name <= last || Classes::of(name).is_none_or(|class| !classes.contains(class)) {
                return Err(malformed("one that does not belong there"));
            }
            last = name;
        }
        if rest.is_empty() { Ok(Self(bytes)) } else { Err(malformed("something behind the end")) }
    }

    /// The encoding.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// What it is about.
    pub fn classes(self) -> Classes {
        Classes(self.0.first().copied().unwrap_or(0))
    }

    /// Whether the entry has none of these attributes.
    pub fn is_empty(self) -> bool {
        self.0.len() <= HEADER_BYTES
    }

    /// Names and values, in order.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut rest = self.0.get(HEADER_BYTES..).unwrap_or_default();
        std::iter::from_fn(move || split_attribute(&mut rest))
    }

    /// The value of an attribute.
    pub fn get(self, name: &[u8]) -> Option<&'a [u8]> {
        self.iter().find_map(|(known, value)| (known == name).then_some(value))
    }

    /// Stands for the attributes in a listing; 0 where there are none. Equal for equal attributes of equal classes.
    pub fn digest(self) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let digest = blake3::hash(self.0);
        let [a, b, c, d, e, f, g, h, ..] = *digest.as_bytes();
        u64::from_le_bytes([a, b, c, d, e, f, g, h]).max(1)
    }
}

fn split_attribute<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (header, tail) = rest.split_first_chunk::<ATTRIBUTE_HEADER_BYTES>()?;
    let name_bytes = usize::from(header[0]);
    let value_bytes = u32::from_le_bytes([header[1], header[2], header[3], header[4]]) as usize;
    let (name, tail) = tail.split_at_checked(name_bytes)?;
    let (value, tail) = tail.split_at_checked(value_bytes)?;
    *rest = tail;
    Some((name, value))
}

fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, "reading extended attributes", what)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attribute(name: &str, value: &[u8]) -> (Vec<u8>, Vec<u8>) {
        (name.as_bytes().to_vec(), value.to_vec())
    }

    #[test]
    fn attributes_of_the_classes_come_back_in_order() {
        let mut found =
            [attribute("user.b", b"2"), attribute("security.selinux", b"x"), attribute("user.a", b"")];
        let extended = Extended::new(Classes::USUAL, &mut found).unwrap();
        let read: Vec<_> = extended.as_ref().iter().collect();
        assert_eq!(read, [(&b"user.a"[..], &b""[..]), (b"user.b", b"2")]);
        assert_eq!(extended.as_ref().get(b"user.b"), Some(&b"2"[..]));
        assert_eq!(Extended::decode(extended.as_bytes().to_vec()).unwrap(), extended);
        assert_ne!(extended.as_ref().digest(), 0);
        let none = Extended::new(Classes::ACL, &mut found).unwrap();
        assert!(none.as_ref().is_empty() && none.as_ref().digest() == 0);
    }

    #[test]
    fn what_does_not_belong_there_is_refused() {
        let bytes = |classes: Classes, names: &[&str]| {
            let mut bytes = vec![classes.0, names.len() as u8, 0];
            for name in names {
                bytes.push(name.len() as u8);
                bytes.extend_from_slice(&[0; 4]);
                bytes.extend_from_slice(name.as_bytes());
            }
            bytes
        };
        assert!(Extended::decode(bytes(Classes::USER, &["user.a", "user.b"])).is_ok());
        for (classes, names) in [
            (Classes::USER, &["user.b", "user.a"][..]),
            (Classes::USER, &["user.a", "user.a"]),
            (Classes::USER, &["trusted.a"]),
            (Classes::USUAL, &["system.other"]),
            (Classes::USER, &["user.\0"]),
        ] {
            assert!(Extended::decode(bytes(classes, names)).is_err(), "{names:?}");
        }
        let mut long = bytes(Classes::USER, &["user.a"]);
        long.push(0);
        assert!(Extended::decode(long).is_err());
    }

    #[test]
    fn more_than_can_travel_is_refused() {
        let mut found = [attribute("user.a", &[1; 65_000]), attribute("user.b", &[2; 65_000])];
        assert!(Extended::new(Classes::USER, &mut found).is_ok());
        let mut found = [&found[..], &[attribute("user.c", &[3; 9_000])]].concat();
        assert_eq!(Extended::new(Classes::USER, &mut found).unwrap_err().kind, ErrorKind::Unsupported);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(extended) = ExtendedRef::decode(&bytes) {
                prop_assert!(extended.iter().count() <= bytes.len());
            }
        }
    }
}
