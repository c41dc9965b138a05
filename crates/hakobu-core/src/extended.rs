//! Extended attributes of an entry: access control lists, capabilities, and those set by users.
//!
//! They are encoded as one block of bytes: the classes that it covers (u8), a count (u16), and for each attribute the
//! lengths of its name (u8) and value (u32), the name and the value. Numbers are little endian, names ascend. An entry
//! that receives such a block has exactly these attributes of these classes afterwards.

use std::ops::{BitAnd, BitOr};

use crate::error::{Error, ErrorKind, Result};
use crate::losses::LossKind;
/// The maximum length of an attribute's name in bytes: the kernel's limit.
pub const ATTRIBUTE_NAME_BYTES_MAX: usize = 255;
/// The maximum length of an attribute's value in bytes: the kernel's limit.
pub const ATTRIBUTE_VALUE_BYTES_MAX: usize = 64 * 1024;
/// The maximum size of one entry's encoded attributes in bytes. An entry with more cannot be copied: it fails. They
/// share a frame of at most 4 MiB with a small file.
pub const EXTENDED_BYTES_MAX: usize = 3 * 1024 * 1024 + 512 * 1024;
/// The size in bytes of encoded attributes up to which every target keeps them with the entry itself. A store keeps larger
/// ones in an object of their own.
pub const KEPT_WITH_ENTRY_BYTES: usize = 1024;
/// Stands in a listing for extended attributes that could not be read. Such attributes are not equal to any others, not
/// even to themselves.
pub const UNREADABLE: u64 = u64::MAX;

/// Returns true if the digests of two entries' extended attributes mean that these are equal.
pub fn are_equal(one: u64, other: u64) -> bool {
    one == other && one != UNREADABLE
}

/// A set of classes of extended attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Classes(u8);

impl Classes {
    /// No class.
    pub const NONE: Self = Self(0);
    /// `user.*`.
    pub const USER: Self = Self(1);
    /// POSIX access control lists in the kernel's format.
    pub const ACL: Self = Self(2);
    /// `security.capability`: privileges of a program that root did not start.
    pub const CAPABILITY: Self = Self(4);
    /// `trusted.*`, and those of `security.*` that have no class of their own.
    pub const TRUSTED: Self = Self(8);
    /// `security.selinux`, which belongs to the policy of the machine that the entry is on.
    pub const SELINUX: Self = Self(16);
    /// `system.nfs4_acl`: NFSv4 access control lists. They are never copied, and count as lost where access control lists
    /// are to be preserved and one says more than the mode.
    pub const NFS4_ACL: Self = Self(32);
    /// The classes that are preserved by default.
    pub const USUAL: Self = Self(1 | 2 | 4 | 8);

    /// Returns the set with these bits, which are those of the protocol.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Returns the bits.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Returns the class of an attribute. Attributes without one, such as a file system's own, are never copied.
    pub fn of(name: &[u8]) -> Option<Self> {
        match name {
            b"system.posix_acl_access" | b"system.posix_acl_default" => Some(Self::ACL),
            NFS4_ACCESS_LIST => Some(Self::NFS4_ACL),
            b"security.capability" => Some(Self::CAPABILITY),
            b"security.selinux" => Some(Self::SELINUX),
            // XFS shows access control lists a second time under these names.
            _ if name.starts_with(b"trusted.SGI_ACL_") => None,
            _ if name.starts_with(b"user.") => Some(Self::USER),
            _ if name.starts_with(b"trusted.") || name.starts_with(b"security.") => Some(Self::TRUSTED),
            _ => None,
        }
    }

    /// Returns true if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if all of `other` are in the set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the classes that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the names for people.
    pub fn words(self) -> String {
        let names = [
            (Self::USER, "user.*"),
            (Self::ACL, "access lists"),
            (Self::CAPABILITY, "capabilities"),
            (Self::TRUSTED, "trusted.* and security.*"),
            (Self::SELINUX, "SELinux labels"),
            (Self::NFS4_ACL, "NFSv4 access lists"),
        ];
        let own = names.into_iter().filter(|(class, _)| self.contains(*class));
        own.map(|(_, name)| name).collect::<Vec<_>>().join(", ")
    }

    /// Returns the kind of loss if an attribute of this class is lost.
    pub fn loss(self) -> LossKind {
        match self {
            Self::ACL | Self::NFS4_ACL => LossKind::Acl,
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

/// The extended attributes to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtendedAsk {
    /// The classes to preserve.
    pub keep: Classes,
    /// The classes that count as lost if an entry has attributes of them.
    pub miss: Classes,
    /// True if it is an error that the entry's content cannot be read.
    pub readable: bool,
}

/// The extended attributes of one entry, encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extended(Vec<u8>);

/// Encoded extended attributes that are a slice of a larger buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedRef<'a>(&'a [u8]);

const HEADER_BYTES: usize = 3;
const ATTRIBUTE_HEADER_BYTES: usize = 5;

impl Extended {
    /// Encodes attributes given in any order. Those of other classes are left out.
    ///
    /// # Errors
    /// `Unsupported` if they exceed a limit.
    pub fn new(classes: Classes, attributes: &mut [(Vec<u8>, Vec<u8>)]) -> Result<Self> {
        attributes.sort_unstable();
        let of_these = |name: &[u8]| Classes::of(name).is_some_and(|class| classes.contains(class));
        let mut bytes = vec![classes.0, 0, 0];
        let mut count = 0u16;
        for (name, value) in attributes.iter().filter(|(name, _)| of_these(name)) {
            let bytes_after = bytes.len() + ATTRIBUTE_HEADER_BYTES + name.len() + value.len();
            let fits = name.len() <= ATTRIBUTE_NAME_BYTES_MAX && value.len() <= ATTRIBUTE_VALUE_BYTES_MAX;
            if !fits || bytes_after > EXTENDED_BYTES_MAX {
                let words = format!(
                    "they take more than {EXTENDED_BYTES_MAX} bytes, which is more than can be copied; remove some of \
                     them, or leave all out (--preserve no-xattr)"
                );
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

    /// Checks and wraps an encoding from a peer.
    ///
    /// # Errors
    /// Those of [`ExtendedRef::decode`].
    pub fn decode(bytes: Vec<u8>) -> Result<Self> {
        ExtendedRef::decode(&bytes)?;
        Ok(Self(bytes))
    }

    /// Returns the encoding.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the encoding as an owned buffer, which can be reused.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Borrows the attributes.
    pub fn as_ref(&self) -> ExtendedRef<'_> {
        ExtendedRef(&self.0)
    }
}

impl<'a> ExtendedRef<'a> {
    /// Checks and wraps a whole encoding.
    ///
    /// # Errors
    /// `Protocol` if it is invalid: too long, out of order, or with an attribute of another class.
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

    /// Returns the encoding.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the classes that it covers.
    pub fn classes(self) -> Classes {
        Classes(self.0.first().copied().unwrap_or(0))
    }

    /// Returns true if the entry has none of these attributes.
    pub fn is_empty(self) -> bool {
        self.0.len() <= HEADER_BYTES
    }

    /// Returns true if a target may keep them apart from the entry.
    pub fn is_bulky(self) -> bool {
        self.0.len() > KEPT_WITH_ENTRY_BYTES
    }

    /// Returns names and values in order.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut rest = self.0.get(HEADER_BYTES..).unwrap_or_default();
        std::iter::from_fn(move || split_attribute(&mut rest))
    }

    /// Returns the value of an attribute.
    pub fn get(self, name: &[u8]) -> Option<&'a [u8]> {
        self.iter().find_map(|(known, value)| (known == name).then_some(value))
    }

    /// Returns the hash of the attributes used in listings; 0 if there are none. Equal attributes of equal classes have
    /// equal hashes.
    pub fn digest(self) -> u64 {
        if self.is_empty() {
            return 0;
        }
        listed_digest(blake3::hash(self.0).as_bytes())
    }
}

/// Returns the hash that stands in a listing of a target for attributes that are lost there, given the hash of these; and
/// given that, the hash again. It is not that of the attributes, and of no others either.
pub fn lost_digest(digest: u64) -> u64 {
    !digest
}

/// Returns the hash used in listings, given the BLAKE3 of the encoding of attributes.
pub fn listed_digest(digest: &[u8; 32]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *digest;
    u64::from_le_bytes([a, b, c, d, e, f, g, h]).clamp(1, UNREADABLE - 1)
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

/// The name of the attribute with the access control list of an entry.
pub const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// The name of the attribute with the access control list of an entry on NFSv4.
pub const NFS4_ACCESS_LIST: &[u8] = b"system.nfs4_acl";

/// Returns true if an NFSv4 access control list says more than the mode: if it names a user or a group, or is inherited
/// by new entries. The value has the form that `system.nfs4_acl` shows (RFC 7530, section 6.2: a count, and for each
/// entry a type, flags, a mask and a name). A value of another form says more.
pub fn says_more_than_mode(list: &[u8]) -> bool {
    /// The flags of an entry that new entries inherit.
    const INHERITED: u32 = 0x0F;
    const BY_MODE: [&[u8]; 3] = [b"OWNER@", b"GROUP@", b"EVERYONE@"];
    let number = |rest: &mut &[u8]| {
        let (number, tail) = rest.split_first_chunk::<4>()?;
        *rest = tail;
        Some(u32::from_be_bytes(*number))
    };
    let by_mode = |rest: &mut &[u8]| {
        let [_, flags, _, name_bytes] = [number(rest)?, number(rest)?, number(rest)?, number(rest)?];
        let name_bytes = name_bytes as usize;
        let (padded, tail) = rest.split_at_checked(name_bytes.checked_next_multiple_of(4)?)?;
        *rest = tail;
        Some(flags & INHERITED == 0 && BY_MODE.contains(&&padded[..name_bytes]))
    };
    let mut rest = list;
    let Some(count) = number(&mut rest) else { return true };
    !((0..count).all(|_| by_mode(&mut rest) == Some(true)) && rest.is_empty())
}

/// The version of an access control list in an extended attribute (Linux, `posix_acl_xattr.h`), and the tags of its entries.
const LIST_VERSION: u32 = 2;
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;

/// Returns the tag and the permission bits of each entry of an access control list, or `None` if it cannot be parsed.
fn list_entries(list: &[u8]) -> Option<impl Iterator<Item = (u16, u32)> + Clone> {
    let (version, rest) = list.split_first_chunk::<4>()?;
    let (entries, rest) = rest.as_chunks::<8>();
    let entries = entries
        .iter()
        .map(|&[tag, tag_high, bits, ..]| (u16::from_le_bytes([tag, tag_high]), u32::from(bits & 7)));
    (u32::from_le_bytes(*version) == LIST_VERSION && rest.is_empty()).then_some(entries)
}

/// Returns the mode bits that may remain if an access control list cannot be kept, so that nobody gains permissions
/// that the list denies.
///
/// With a list, the group bits of a mode are the list's mask: the most that anybody named in it may have. Without it
/// they apply to the owning group, whose own entry may grant less, and those named in the list fall under the group or
/// under others. For a list that cannot be parsed, only the owner's bits remain.
pub fn mode_without_list(list: &[u8]) -> u32 {
    const ONLY_OWNER: u32 = 0o7700;
    let Some(entries) = list_entries(list) else { return ONLY_OWNER };
    let mask = entries.clone().find_map(|(tag, bits)| (tag == MASK).then_some(bits)).unwrap_or(7);
    let (mut group, mut others) = (mask, 7);
    for (tag, bits) in entries {
        match tag {
            USER => (group, others) = (group & bits & mask, others & bits & mask),
            OWNING_GROUP => group &= bits,
            GROUP => others &= bits & mask,
            _ => {}
        }
    }
    ONLY_OWNER | (group << 3) | others
}

/// Returns an access control list as a change of the mode leaves it on a file system (acl(5)): the mask, if there is one,
/// becomes the bits of the group. A list that cannot be parsed stays as it is.
pub fn list_with_mode(list: &[u8], mode: u32) -> Vec<u8> {
    let mut changed = list.to_vec();
    let Some(entries) = list_entries(list) else { return changed };
    let has_mask = entries.clone().any(|(tag, _)| tag == MASK);
    for (entry, (tag, _)) in changed[4..].chunks_exact_mut(8).zip(entries) {
        let bits = match tag {
            OWNER => mode >> 6,
            OWNING_GROUP if !has_mask => mode >> 3,
            MASK => mode >> 3,
            OTHERS => mode,
            _ => continue,
        };
        (entry[2], entry[3]) = ((bits & 7) as u8, 0);
    }
    changed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_list_follows_the_mode_as_on_a_file_system() {
        let entry = |tag: u16, bits: u16, id: u32| {
            [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let list = |entries: &[(u16, u16, u32)]| {
            let entries = entries.iter().flat_map(|(tag, bits, id)| entry(*tag, *bits, *id));
            [2, 0, 0, 0].into_iter().chain(entries).collect::<Vec<u8>>()
        };
        let all = |owner, group, mask, others| {
            list(&[
                (OWNER, owner, u32::MAX),
                (USER, 7, 1000),
                (OWNING_GROUP, group, u32::MAX),
                (GROUP, 6, 1001),
                (MASK, mask, u32::MAX),
                (OTHERS, others, u32::MAX),
            ])
        };
        assert_eq!(list_with_mode(&all(7, 5, 7, 0), 0o6452), all(4, 5, 5, 2));
        let least =
            |owner, group, others| list(&[(OWNER, owner, 0), (OWNING_GROUP, group, 0), (OTHERS, others, 0)]);
        assert_eq!(list_with_mode(&least(7, 5, 0), 0o641), least(6, 4, 1));
        for malformed in [&b""[..], b"\x02\0\0", b"\x03\0\0\0", b"\x02\0\0\0\x01"] {
            assert_eq!(list_with_mode(malformed, 0), malformed);
        }
    }

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
        let mut found: Vec<_> =
            (0..55).map(|index| attribute(&format!("user.{index:02}"), &[1; 65_536])).collect();
        assert!(Extended::new(Classes::USER, &mut found).is_ok());
        found.extend((0..5).map(|index| attribute(&format!("user.a{index}"), &[3; 65_536])));
        assert_eq!(Extended::new(Classes::USER, &mut found).unwrap_err().kind, ErrorKind::Unsupported);
    }

    #[test]
    fn what_could_not_be_read_is_equal_to_nothing() {
        assert!(are_equal(0, 0) && are_equal(5, 5) && !are_equal(5, 6));
        assert!(!are_equal(UNREADABLE, UNREADABLE) && !are_equal(UNREADABLE, 0));
    }

    /// Returns an NFSv4 list with these entries of flags and name.
    fn nfs4_list(entries: &[(u32, &str)]) -> Vec<u8> {
        let mut list = (entries.len() as u32).to_be_bytes().to_vec();
        for (flags, name) in entries {
            for number in [0, *flags, 0x0016_01bf, name.len() as u32] {
                list.extend_from_slice(&number.to_be_bytes());
            }
            list.extend_from_slice(name.as_bytes());
            list.resize(list.len().next_multiple_of(4), 0);
        }
        list
    }

    #[test]
    fn an_nfs4_list_of_owner_group_and_everyone_says_no_more_than_the_mode() {
        // Flag 0x40 says that the name is a group's.
        let plain = nfs4_list(&[(0, "OWNER@"), (0x40, "GROUP@"), (0, "EVERYONE@")]);
        assert!(!says_more_than_mode(&plain));
        for entries in
            [&[(0, "OWNER@"), (0, "alice@example.org")][..], &[(0x0B, "OWNER@")], &[(0x40, "staff")]]
        {
            assert!(says_more_than_mode(&nfs4_list(entries)), "{entries:?}");
        }
        for cut in 0..plain.len() {
            assert!(says_more_than_mode(&plain[..cut]), "{cut} bytes");
        }
        assert!(says_more_than_mode(&[&plain[..], &[0; 4]].concat()));
        assert!(says_more_than_mode(&[255; 64]));
    }

    /// Returns a list with these entries of tag and bits.
    fn list(entries: &[(u16, u16)]) -> Vec<u8> {
        let mut list = 2u32.to_le_bytes().to_vec();
        for (tag, bits) in entries {
            list.extend_from_slice(&tag.to_le_bytes());
            list.extend_from_slice(&bits.to_le_bytes());
            list.extend_from_slice(&[9, 0, 0, 0]);
        }
        list
    }

    #[test]
    fn without_its_list_an_entry_grants_no_more() {
        for (entries, mode, expected) in [
            // user::rw-, user:9:r--, group::---, mask::r--, other::---: the group may do nothing.
            (&[(1, 6), (2, 4), (4, 0), (0x10, 4), (0x20, 0)][..], 0o640, 0o600),
            // user:9:--- falls under others, who may read, and may be in the group.
            (&[(1, 6), (2, 0), (4, 6), (0x10, 6), (0x20, 4)], 0o664, 0o600),
            // group:9:--x for users who are not in the owning group.
            (&[(1, 7), (4, 5), (8, 1), (0x10, 7), (0x20, 5)], 0o2775, 0o2751),
            // The mask restricts named entries.
            (&[(1, 7), (2, 7), (4, 7), (0x10, 4), (0x20, 7)], 0o747, 0o744),
        ] {
            assert_eq!(mode & mode_without_list(&list(entries)), expected, "{entries:?}");
        }
        for broken in [&b""[..], &[1, 0, 0, 0], &[2, 0, 0, 0, 1]] {
            assert_eq!(0o4777 & mode_without_list(broken), 0o4700);
        }
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
