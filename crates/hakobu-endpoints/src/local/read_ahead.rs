//! Read-ahead that bypasses the page cache: one system call reads several pieces of a chunk, each directly into the
//! buffer in which it stays.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::sync::Arc;

use hakobu_core::endpoint::{PIECE_ALIGNMENT, PieceBuffer};
use hakobu_core::extent::{CHUNK_BYTES, PIECE_BYTES};
use rustix::fd::OwnedFd;
use rustix::io::{preadv, retry_on_intr};

/// The number of pieces read at once. More gain little on a loop device; fewer cost a third of the rate.
const PIECES: usize = 4;

/// A device that one lane reads in order.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    file: Arc<OwnedFd>,
    /// Pieces that were read, with their offsets.
    ready: VecDeque<(u64, PieceBuffer)>,
    spare: Vec<PieceBuffer>,
}

impl ReadAhead {
    /// Creates a reader of a file that was opened for direct I/O.
    pub(crate) fn new(file: Arc<OwnedFd>) -> Self {
        Self { file, ready: VecDeque::new(), spare: Vec::new() }
    }

    /// Returns the file.
    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Returns the piece at `offset`, in the given buffer or another of the same size.
    ///
    /// # Errors
    /// The unused buffer, if direct I/O cannot read the piece. A normal read then reports the cause.
    pub(crate) fn read(
        &mut self,
        offset: u64,
        length: usize,
        buffer: PieceBuffer,
    ) -> Result<PieceBuffer, PieceBuffer> {
        if self.ready.front().is_some_and(|(ready, _)| *ready == offset)
            && let Some((_, ready)) = self.ready.pop_front()
        {
            self.spare.push(buffer);
            return if ready.filled().len() == length { Ok(ready) } else { Err(ready) };
        }
        self.spare.extend(self.ready.drain(..).map(|(_, buffer)| buffer));
        if !offset.is_multiple_of(PIECE_BYTES) || !length.is_multiple_of(PIECE_ALIGNMENT) {
            return Err(buffer);
        }
        self.read_step(offset, buffer);
        match self.ready.pop_front() {
            Some((_, first)) if first.filled().len() == length => Ok(first),
            Some((_, first)) => Err(first),
            None => Err(PieceBuffer::new()),
        }
    }

    /// Reads at most to the end of the chunk that the lane has taken: the next chunk may belong to another lane.
    fn read_step(&mut self, offset: u64, buffer: PieceBuffer) {
        let rest = (CHUNK_BYTES - offset % CHUNK_BYTES).div_ceil(PIECE_BYTES) as usize;
        let mut buffers = vec![buffer];
        while buffers.len() < rest.min(PIECES) {
            buffers.push(self.spare.pop().unwrap_or_default());
        }
        let mut rooms: Vec<_> = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer.room())).collect();
        let mut read = retry_on_intr(|| preadv(&self.file, &mut rooms, offset)).unwrap_or(0);
        for (buffer, at) in buffers.into_iter().zip((offset..).step_by(PIECE_BYTES as usize)) {
            let mut buffer = buffer;
            let filled = read.min(PIECE_BYTES as usize);
            buffer.set_read(at, filled);
            read -= filled;
            self.ready.push_back((at, buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn pieces_come_in_order_and_each_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let size = CHUNK_BYTES as usize + 3 * PIECE_BYTES as usize + PIECE_ALIGNMENT;
        let bytes: Vec<u8> = (0..size).map(|index| (index / 1000) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let mut ahead = ReadAhead::new(Arc::new(File::open(&path).unwrap().into()));
        let mut buffer = PieceBuffer::new();
        // Not in order from the beginning, because a lane may take every other chunk.
        for begin in [CHUNK_BYTES as usize, 0] {
            for offset in (begin..size.min(begin + CHUNK_BYTES as usize)).step_by(PIECE_BYTES as usize) {
                let length = (size - offset).min(PIECE_BYTES as usize);
                buffer = ahead.read(offset as u64, length, buffer).unwrap();
                assert!(buffer.filled() == &bytes[offset..offset + length], "{offset}");
            }
        }
        // Reads beyond the end and unaligned reads are left to normal reading.
        buffer = ahead.read(size as u64 * 2, PIECE_ALIGNMENT, buffer).unwrap_err();
        buffer = ahead.read(0, 100, buffer).unwrap_err();
        assert!(ahead.read(17, PIECE_ALIGNMENT, buffer).is_err());
    }
}
