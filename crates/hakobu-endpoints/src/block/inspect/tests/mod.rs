use hakobu_core::disk::DeviceFacts;

use super::*;

mod chance;
mod machine;
mod marks;
mod tables;

/// Returns the findings on a device of 512-byte sectors with these contents.
fn found_on(image: &Image) -> DeviceFacts {
    found_with_sectors(image, 512)
}

fn found_with_sectors(image: &Image, logical_sector_bytes: u32) -> DeviceFacts {
    let size_bytes = image.size_bytes;
    let mut facts = DeviceFacts { size_bytes, logical_sector_bytes, ..DeviceFacts::default() };
    of_contents(image, &mut facts);
    of_the_unknown(image, &mut facts);
    facts
}

/// Returns true if the only finding is unknown content.
fn is_unknown(image: &Image) -> bool {
    matches!(&found_on(image).contents[..], [one] if one.kind == SignatureKind::Unknown)
}

/// A device made of a few pieces, with zeros between them.
#[derive(Clone, Default)]
pub struct Image {
    size_bytes: u64,
    pieces: Vec<(u64, Vec<u8>)>,
}

impl Image {
    pub fn new(size_bytes: u64) -> Self {
        Self { size_bytes, pieces: Vec::new() }
    }

    /// Adds these bytes at an offset.
    pub fn with(mut self, offset_bytes: u64, bytes: impl Into<Vec<u8>>) -> Self {
        self.pieces.push((offset_bytes, bytes.into()));
        self
    }
}

impl ReadableMedium for Image {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> bool {
        if offset_bytes + into.len() as u64 > self.size_bytes {
            return false;
        }
        into.fill(0);
        for (at, piece) in &self.pieces {
            let from = offset_bytes.max(*at);
            let to = (offset_bytes + into.len() as u64).min(at + piece.len() as u64);
            if from < to {
                let source = &piece[(from - at) as usize..(to - at) as usize];
                into[(from - offset_bytes) as usize..(to - offset_bytes) as usize].copy_from_slice(source);
            }
        }
        true
    }
}
