//! Bounded reading of a device's contents.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;

use rustix::fs::{Advice, fadvise};

/// The number of bytes at the beginning of a device that are read at once for probing.
const HEAD_BYTES: u64 = 256 * 1024;
/// The maximum number of bytes per read.
pub const READ_BYTES_MAX: usize = 1 << 20;

/// The largest page size of any machine in bytes. The kernel evicts whole pages only.
const PAGE_BYTES_MAX: u64 = 64 * 1024;

/// A medium that can be read at any offset.
pub trait ReadableMedium {
    /// Returns the size in bytes.
    fn size_bytes(&self) -> u64;
    /// Fills `into` from `offset_bytes` on. Returns false if that is not possible.
    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> bool;
}

/// An open device.
pub struct OpenMedium<'a> {
    descriptor: BorrowedFd<'a>,
    size_bytes: u64,
    unreadable: Cell<bool>,
}

impl<'a> OpenMedium<'a> {
    /// Wraps a descriptor. Its position is never changed.
    pub fn new(descriptor: BorrowedFd<'a>, size_bytes: u64) -> Self {
        Self { descriptor, size_bytes, unreadable: Cell::new(false) }
    }

    /// Returns true if a range within the device could not be read.
    pub fn was_unreadable(&self) -> bool {
        self.unreadable.get()
    }
}

impl ReadableMedium for OpenMedium<'_> {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> bool {
        // The kernel caches a disk and its partitions separately, so the disk's cache may be outdated.
        let start_bytes = offset_bytes & !(PAGE_BYTES_MAX - 1);
        let length_bytes = (offset_bytes - start_bytes + into.len() as u64).next_multiple_of(PAGE_BYTES_MAX);
        let _ = fadvise(self.descriptor, start_bytes, NonZeroU64::new(length_bytes), Advice::DontNeed);
        let mut filled = 0;
        while filled < into.len() {
            match rustix::io::pread(self.descriptor, &mut into[filled..], offset_bytes + filled as u64) {
                Ok(0) => return false,
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    self.unreadable.set(true);
                    return false;
                }
            }
        }
        true
    }
}

/// A device or one of its partitions, with the beginning cached.
pub struct View<'a> {
    medium: &'a dyn ReadableMedium,
    start_bytes: u64,
    size_bytes: u64,
    head: Vec<u8>,
}

impl<'a> View<'a> {
    /// Returns a view of the whole medium.
    pub fn whole(medium: &'a dyn ReadableMedium) -> Self {
        Self::new(medium, 0, medium.size_bytes())
    }

    /// Returns a view of a range, clipped to the medium.
    pub fn part(medium: &'a dyn ReadableMedium, start_bytes: u64, size_bytes: u64) -> Self {
        let start_bytes = start_bytes.min(medium.size_bytes());
        Self::new(medium, start_bytes, size_bytes.min(medium.size_bytes() - start_bytes))
    }

    fn new(medium: &'a dyn ReadableMedium, start_bytes: u64, size_bytes: u64) -> Self {
        let mut head = vec![0; size_bytes.min(HEAD_BYTES) as usize];
        if !medium.read(start_bytes, &mut head) {
            // One bad sector must not hide the rest of the beginning.
            head = Vec::new();
        }
        Self { medium, start_bytes, size_bytes, head }
    }

    /// Returns the size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns `length` bytes, or `None` if they cannot be read, lie outside, or exceed [`READ_BYTES_MAX`].
    pub fn bytes(&self, offset_bytes: u64, length: usize) -> Option<Vec<u8>> {
        let end_bytes = offset_bytes.checked_add(length as u64)?;
        if end_bytes > self.size_bytes || length > READ_BYTES_MAX {
            return None;
        }
        if end_bytes <= self.head.len() as u64 {
            return self.head.get(offset_bytes as usize..end_bytes as usize).map(<[u8]>::to_vec);
        }
        let mut bytes = vec![0; length];
        self.medium.read(self.start_bytes.checked_add(offset_bytes)?, &mut bytes).then_some(bytes)
    }

    /// Returns true if these bytes are at the offset.
    pub fn has(&self, offset_bytes: u64, expected: &[u8]) -> bool {
        self.bytes(offset_bytes, expected.len()).is_some_and(|bytes| bytes == expected)
    }
}

/// Returns a little-endian 16-bit number, 0 beyond the end.
pub fn le_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

/// Returns a little-endian 32-bit number, 0 beyond the end.
pub fn le_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

/// Returns a little-endian 64-bit number, 0 beyond the end.
pub fn le_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

/// Returns a big-endian 16-bit number, 0 beyond the end.
pub fn be_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

/// Returns a big-endian 32-bit number, 0 beyond the end.
pub fn be_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// Returns the text of a field that is padded with zeros or spaces.
pub fn text(field: &[u8]) -> Vec<u8> {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    field[..end].trim_ascii().to_vec()
}

/// Returns the UTF-16 text of a field that is padded with zeros.
pub fn utf16_text(field: &[u8]) -> String {
    let (units, _) = field.as_chunks::<2>();
    let units = units.iter().map(|unit| u16::from_le_bytes(*unit)).take_while(|unit| *unit != 0);
    char::decode_utf16(units).map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// Formats sixteen bytes as a UUID in their order. Returns an empty string if there are fewer bytes or all are 0.
pub fn uuid(bytes: &[u8]) -> String {
    match bytes.first_chunk::<16>() {
        Some(bytes) if bytes != &[0; 16] => grouped(*bytes),
        _ => String::new(),
    }
}

/// Formats sixteen bytes as a GUID, whose first three fields are little-endian.
pub fn guid(bytes: &[u8]) -> String {
    let Some(&[a, b, c, d, e, f, g, h, rest @ ..]) = bytes.first_chunk::<16>() else {
        return String::new();
    };
    let mut ordered = [0; 16];
    ordered[..8].copy_from_slice(&[d, c, b, a, f, e, h, g]);
    ordered[8..].copy_from_slice(&rest);
    grouped(ordered)
}

fn grouped(bytes: [u8; 16]) -> String {
    let mut words = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            words.push('-');
        }
        words += &format!("{byte:02x}");
    }
    words
}
