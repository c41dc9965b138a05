//! Encoding of SFTP version 3 requests and decoding of replies.
//!
//! The format is that of draft-ietf-secsh-filexfer-02 and of OpenSSH's PROTOCOL, whose extensions are used if the
//! server announces them. Strings are bytes: a name is whatever the server sends.

use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata, FileTime};
use hakobu_core::{Error, ErrorKind, Result};

/// The only version that is used. Every server supports it.
pub(crate) const VERSION: u32 = 3;
/// The maximum length of an accepted packet in bytes. OpenSSH's are at most 256 KiB; this allows replies with 256 KiB
/// of data.
pub(crate) const PACKET_BYTES_MAX: usize = 320 * 1024;
/// The maximum length of a handle in bytes that version 3 allows.
const HANDLE_BYTES_MAX: usize = 256;

const INIT: u8 = 1;
const VERSION_REPLY: u8 = 2;
const STATUS: u8 = 101;
const HANDLE: u8 = 102;
const DATA: u8 = 103;
const NAME: u8 = 104;
const ATTRS: u8 = 105;
const EXTENDED_REPLY: u8 = 201;

/// The types of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RequestType {
    Open = 3,
    Close = 4,
    Read = 5,
    Write = 6,
    LStat = 7,
    FStat = 8,
    SetStat = 9,
    FSetStat = 10,
    OpenDir = 11,
    ReadDir = 12,
    Remove = 13,
    MkDir = 14,
    RmDir = 15,
    RealPath = 16,
    Stat = 17,
    Rename = 18,
    ReadLink = 19,
    SymLink = 20,
    Extended = 200,
}

/// The flags for opening a file.
pub(crate) mod open {
    pub(crate) const READ: u32 = 1;
    pub(crate) const WRITE: u32 = 2;
    pub(crate) const CREATE: u32 = 8;
    /// With [`CREATE`]: fails if the name exists, even as a symbolic link.
    pub(crate) const EXCLUSIVE: u32 = 32;
}

/// The status codes.
pub(crate) mod status {
    pub(crate) const OK: u32 = 0;
    pub(crate) const EOF: u32 = 1;
    pub(crate) const NO_SUCH_FILE: u32 = 2;
    pub(crate) const PERMISSION_DENIED: u32 = 3;
    pub(crate) const BAD_MESSAGE: u32 = 5;
    pub(crate) const NO_CONNECTION: u32 = 6;
    pub(crate) const CONNECTION_LOST: u32 = 7;
    pub(crate) const UNSUPPORTED: u32 = 8;
}

const HAS_SIZE: u32 = 1;
const HAS_OWNER: u32 = 2;
const HAS_MODE: u32 = 4;
const HAS_TIMES: u32 = 8;
const HAS_EXTENDED: u32 = 0x8000_0000;

/// Attributes in their wire form, each of which may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attrs {
    pub(crate) size_bytes: Option<u64>,
    /// The user ID and the group ID.
    pub(crate) owner: Option<(u32, u32)>,
    /// Kind and permissions as in `st_mode`.
    pub(crate) mode: Option<u32>,
    /// The times of the last access and the last modification, in seconds since 1970.
    pub(crate) times: Option<(u32, u32)>,
}

impl Attrs {
    /// Converts the attributes to metadata, or returns `None` if the kind is unknown. Version 3 has no inode, no inode
    /// change time and no fractions of a second.
    pub(crate) fn metadata(&self) -> Option<EntryMetadata> {
        let mode = self.mode?;
        let kind = match mode & 0o170_000 {
            0o100_000 => EntryKind::File,
            0o040_000 => EntryKind::Directory,
            0o120_000 => EntryKind::Symlink,
            0o010_000 => EntryKind::Fifo,
            0o140_000 => EntryKind::Socket,
            0o060_000 => EntryKind::BlockDevice,
            0o020_000 => EntryKind::CharDevice,
            _ => return None,
        };
        // The highest number is no valid owner, so it is never set.
        let (uid, gid) = self.owner.unwrap_or((u32::MAX, u32::MAX));
        let seconds = self.times.map_or(0, |(_, changed)| i64::from(changed));
        let mut metadata = EntryMetadata::new(kind);
        (metadata.mode, metadata.uid, metadata.gid) = (mode & 0o7777, uid, gid);
        metadata.mtime = FileTime { seconds, nanoseconds: 0 };
        metadata.size_bytes = match kind {
            EntryKind::File | EntryKind::Symlink => self.size_bytes?,
            _ => self.size_bytes.unwrap_or(0),
        };
        Some(metadata)
    }

    /// Returns attributes with mode and times. Both times are set together, so the access time becomes the current
    /// time.
    pub(crate) fn settled(attributes: &Attributes, mode: u32, now_s: u32) -> Self {
        Self { mode: Some(mode), times: Some((now_s, seconds(attributes.mtime))), ..Self::default() }
    }
}

/// Converts a time to whole seconds from 1970 to 2106, as in version 3. Times outside become the nearest valid time.
pub(crate) fn seconds(time: FileTime) -> u32 {
    u32::try_from(time.seconds.max(0)).unwrap_or(u32::MAX)
}

/// A request being encoded. Its length is inserted at the end.
pub(crate) struct Packet<'a> {
    bytes: &'a mut Vec<u8>,
    begin: usize,
}

impl<'a> Packet<'a> {
    /// Begins a request at the end of `bytes`.
    pub(crate) fn begin(bytes: &'a mut Vec<u8>, ask: RequestType, id: u32) -> Self {
        let begin = bytes.len();
        bytes.extend_from_slice(&[0; 4]);
        bytes.push(ask as u8);
        let mut packet = Self { bytes, begin };
        packet.number(id);
        packet
    }

    /// Encodes the greeting, which has no ID.
    pub(crate) fn greeting(bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&5u32.to_be_bytes());
        bytes.push(INIT);
        bytes.extend_from_slice(&VERSION.to_be_bytes());
    }

    pub(crate) fn number(&mut self, number: u32) -> &mut Self {
        self.bytes.extend_from_slice(&number.to_be_bytes());
        self
    }

    pub(crate) fn long(&mut self, number: u64) -> &mut Self {
        self.bytes.extend_from_slice(&number.to_be_bytes());
        self
    }

    /// Appends bytes preceded by their length. Paths, handles and pieces are all far below 4 GiB.
    pub(crate) fn string(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u32);
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(crate) fn attrs(&mut self, attrs: &Attrs) -> &mut Self {
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let flags = flag(attrs.size_bytes.is_some(), HAS_SIZE)
            | flag(attrs.owner.is_some(), HAS_OWNER)
            | flag(attrs.mode.is_some(), HAS_MODE)
            | flag(attrs.times.is_some(), HAS_TIMES);
        self.number(flags);
        if let Some(size_bytes) = attrs.size_bytes {
            self.long(size_bytes);
        }
        if let Some((uid, gid)) = attrs.owner {
            self.number(uid).number(gid);
        }
        if let Some(mode) = attrs.mode {
            self.number(mode);
        }
        if let Some((read, changed)) = attrs.times {
            self.number(read).number(changed);
        }
        self
    }

    /// Inserts the length.
    pub(crate) fn end(&mut self) {
        let length = (self.bytes.len() - self.begin - 4) as u32;
        self.bytes[self.begin..self.begin + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// A server's identifier of an open file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handle(pub(crate) Vec<u8>);

/// An entry in a directory listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedEntry {
    pub(crate) name: Vec<u8>,
    /// A human-readable line as of `ls -l`; servers differ.
    pub(crate) line: Vec<u8>,
    pub(crate) attrs: Attrs,
}

/// A reply of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Status { code: u32, words: Vec<u8> },
    Handle(Handle),
    Data(Vec<u8>),
    Names(Vec<NamedEntry>),
    Attrs(Attrs),
    Extended(Vec<u8>),
}

/// Decodes a server's first packet: its version, and its extensions with their data.
pub(crate) fn read_version(packet: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut reader = FieldReader(packet);
    if reader.byte()? != VERSION_REPLY {
        return Err(malformed("it does not begin with a version"));
    }
    let version = reader.number()?;
    if version != VERSION {
        let words = format!("the server speaks version {version} of SFTP; hakobu knows version {VERSION}");
        return Err(Error::new(ErrorKind::Unsupported, "greeting the sftp server", words));
    }
    let mut extensions = Vec::new();
    while !reader.0.is_empty() {
        extensions.push((reader.string()?.to_vec(), reader.string()?.to_vec()));
    }
    Ok(extensions)
}

/// Decodes a reply. Returns the ID of its request as well.
pub(crate) fn read_reply(packet: &[u8]) -> Result<(u32, Reply)> {
    let mut reader = FieldReader(packet);
    let kind = reader.byte()?;
    let id = reader.number()?;
    let reply = match kind {
        STATUS => {
            let code = reader.number()?;
            // Old servers omit the text.
            let words = if reader.0.is_empty() { &[][..] } else { reader.string()? };
            return Ok((id, Reply::Status { code, words: words.to_vec() }));
        }
        HANDLE => {
            let handle = reader.string()?;
            if handle.len() > HANDLE_BYTES_MAX {
                return Err(malformed("a handle of more than 256 bytes"));
            }
            Reply::Handle(Handle(handle.to_vec()))
        }
        DATA => Reply::Data(reader.string()?.to_vec()),
        NAME => Reply::Names(reader.names()?),
        ATTRS => Reply::Attrs(reader.attrs()?),
        EXTENDED_REPLY => return Ok((id, Reply::Extended(reader.0.to_vec()))),
        _ => return Err(malformed("a packet of an unknown type")),
    };
    if !reader.0.is_empty() {
        return Err(malformed("bytes behind the end of a reply"));
    }
    Ok((id, reply))
}

/// Decodes the fields of a reply.
pub(crate) struct FieldReader<'a>(pub(crate) &'a [u8]);

impl<'a> FieldReader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length).ok_or_else(|| malformed("it ends early"))?;
        self.0 = rest;
        Ok(head)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn number(&mut self) -> Result<u32> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        Ok(u32::from_be_bytes(bytes))
    }

    pub(crate) fn long(&mut self) -> Result<u64> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_be_bytes(bytes))
    }

    pub(crate) fn string(&mut self) -> Result<&'a [u8]> {
        let length = self.number()? as usize;
        self.take(length)
    }

    fn attrs(&mut self) -> Result<Attrs> {
        let flags = self.number()?;
        let mut attrs = Attrs::default();
        if flags & HAS_SIZE != 0 {
            attrs.size_bytes = Some(self.long()?);
        }
        if flags & HAS_OWNER != 0 {
            attrs.owner = Some((self.number()?, self.number()?));
        }
        if flags & HAS_MODE != 0 {
            attrs.mode = Some(self.number()?);
        }
        if flags & HAS_TIMES != 0 {
            attrs.times = Some((self.number()?, self.number()?));
        }
        if flags & HAS_EXTENDED != 0 {
            // Each takes at least eight bytes, so a false count ends with the packet.
            for _ in 0..self.number()? {
                self.string()?;
                self.string()?;
            }
        }
        Ok(attrs)
    }

    fn names(&mut self) -> Result<Vec<NamedEntry>> {
        let count = self.number()?;
        let mut names = Vec::new();
        for _ in 0..count {
            let (name, line) = (self.string()?.to_vec(), self.string()?.to_vec());
            names.push(NamedEntry { name, line, attrs: self.attrs()? });
        }
        Ok(names)
    }
}

pub(crate) fn malformed(what: &str) -> Error {
    let words = format!("the server's answer is malformed: {what}");
    Error::new(ErrorKind::Protocol, "talking to the sftp server", words)
}

/// For the fuzzer: decodes a packet as a greeting and as a reply.
#[doc(hidden)]
pub fn fuzz_reply(packet: &[u8]) {
    let _ = read_version(packet);
    if let Ok((_, Reply::Names(names))) = read_reply(packet) {
        names.iter().for_each(|named| {
            let _ = named.attrs.metadata();
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn status(code: u32) -> Vec<u8> {
        [&[STATUS, 0, 0, 0, 7][..], &code.to_be_bytes()].concat()
    }

    #[test]
    fn a_request_has_its_length_number_and_parts() {
        let mut bytes = vec![9];
        let attrs = Attrs { mode: Some(0o600), size_bytes: Some(5), ..Attrs::default() };
        Packet::begin(&mut bytes, RequestType::Open, 7).string(b"a").number(open::WRITE).attrs(&attrs).end();
        let expected = [
            &[9, 0, 0, 0, 30][..],
            &[3, 0, 0, 0, 7, 0, 0, 0, 1, b'a', 0, 0, 0, 2],
            &[0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 1, 0o200],
        ];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn a_status_needs_no_words() {
        assert_eq!(read_reply(&status(2)).unwrap(), (7, Reply::Status { code: 2, words: Vec::new() }));
        let mut with_words = status(4);
        with_words.extend_from_slice(b"\0\0\0\x07Failure\0\0\0\0");
        assert_eq!(
            read_reply(&with_words).unwrap(),
            (7, Reply::Status { code: 4, words: b"Failure".to_vec() })
        );
    }

    #[test]
    fn counts_and_lengths_are_not_believed() {
        let names = [&[NAME, 0, 0, 0, 1][..], &u32::MAX.to_be_bytes(), &[0; 4]].concat();
        assert_eq!(read_reply(&names).unwrap_err().kind, ErrorKind::Protocol);
        let data = [&[DATA, 0, 0, 0, 1][..], &u32::MAX.to_be_bytes(), b"x"].concat();
        assert!(read_reply(&data).is_err());
        let handle = [&[HANDLE, 0, 0, 0, 1][..], &257u32.to_be_bytes(), &[0; 257]].concat();
        assert!(read_reply(&handle).is_err());
    }

    #[test]
    fn times_outside_of_what_can_be_told_become_the_nearest() {
        let time = |seconds| FileTime { seconds, nanoseconds: 9 };
        assert_eq!([-1, 0, 7, 1 << 32].map(|at| seconds(time(at))), [0, 0, 7, u32::MAX]);
    }

    #[test]
    fn only_version_three_is_spoken() {
        let version = |number: u32| [&[VERSION_REPLY][..], &number.to_be_bytes()].concat();
        assert!(read_version(&version(3)).unwrap().is_empty());
        assert_eq!(read_version(&version(6)).unwrap_err().kind, ErrorKind::Unsupported);
        let with = [&version(3)[..], b"\0\0\0\x01a\0\0\0\x011"].concat();
        assert_eq!(read_version(&with).unwrap(), [(b"a".to_vec(), b"1".to_vec())]);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 101u8..106) {
            let mut bytes = bytes;
            fuzz_reply(&bytes);
            if let Some(first) = bytes.first_mut() { *first = kind; }
            fuzz_reply(&bytes);
        }
    }
}
