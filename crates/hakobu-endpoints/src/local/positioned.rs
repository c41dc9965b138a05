//! Reading and writing at explicit offsets. The position of a descriptor is never used, because queries for holes move
//! it, and other lanes may share it.

use hakobu_core::content::ContentSum;
use hakobu_core::plant::planted;
use hakobu_core::{Error, ErrorKind};
use rustix::fd::AsFd;
use rustix::fs::tell;
use rustix::io::{Errno, pread, pwrite, retry_on_intr};

/// Reads until `room` is full or the file ends. Returns the number of bytes read.
pub(crate) fn read_at(file: impl AsFd, offset: u64, room: &mut [u8]) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < room.len() {
        match retry_on_intr(|| pread(&file, &mut room[filled..], offset + filled as u64))? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Reads a file whose reported size is `size_bytes`, and returns the number of bytes read. `room` must be larger than
/// that, so that a longer file is detected: the result is then larger than the size, and it is smaller if the file ends
/// early. A file of the reported size costs one system call. `each` receives each range with its offset.
pub(crate) fn read_file(
    file: impl AsFd,
    size_bytes: u64,
    room: &mut [u8],
    mut each: impl FnMut(u64, &[u8]),
) -> Result<u64, Errno> {
    let mut filled = 0;
    loop {
        let read = retry_on_intr(|| pread(&file, &mut room[filled..], filled as u64))?;
        if planted("sparse-head-lost") {
            // The position at which a query for holes has left the descriptor.
            let hole = tell(&file).unwrap_or(0) as usize;
            room[filled..(filled + read).min(hole).max(filled)].fill(0);
        }
        each(filled as u64, &room[filled..filled + read]);
        filled += read;
        if read == 0 && planted("early-end-accepted") {
            room[filled..].fill(0);
        }
        if read == 0 || filled as u64 >= size_bytes {
            return Ok(filled as u64);
        }
    }
}

/// Reads a file as [`read_file`] does and computes its checksum.
pub(crate) fn read_summed(file: impl AsFd, size_bytes: u64, room: &mut [u8]) -> Result<ContentSum, Errno> {
    let mut sum = ContentSum::default();
    read_file(file, size_bytes, room, |offset, bytes| sum.add(offset, bytes))?;
    Ok(sum)
}

/// Returns true if a file has data at `offset`.
pub(crate) fn has_more(file: impl AsFd, offset: u64) -> Result<bool, Errno> {
    retry_on_intr(|| pread(&file, &mut [0], offset)).map(|read| read > 0)
}

/// Writes all bytes, and adds each range that was written to the checksum.
pub(crate) fn write_at(
    file: impl AsFd,
    mut offset: u64,
    mut bytes: &[u8],
    sum: &mut ContentSum,
) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match retry_on_intr(|| pwrite(&file, bytes, offset))? {
            0 => return Err(Errno::IO),
            written => {
                let (done, rest) = bytes.split_at(written);
                sum.add(offset, done);
                offset += written as u64;
                bytes = rest;
            }
        }
    }
    Ok(())
}

/// Returns the error for a file whose size and time do not change although it returns `read` bytes instead of
/// `size_bytes`. One more than the size stands for any larger number.
pub(crate) fn wrong_size(during: &'static str, read: u64, size_bytes: u64) -> Error {
    let found = match read < size_bytes {
        true => format!("it ends after {read} bytes, but its reported size is {size_bytes}"),
        false => format!("it has more than the {size_bytes} bytes of its reported size"),
    };
    let words = format!(
        "{found}; what a system makes up while it is read can go through a pipe: cat FILE | hakobu copy - TARGET"
    );
    Error::new(ErrorKind::SourceChanged, during, words)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, SeekFrom};
    use std::os::unix::fs::FileExt;

    use super::*;

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all_at(content, 0).unwrap();
        // The position of the descriptor must not matter.
        file.seek(SeekFrom::Start(3)).unwrap();
        file
    }

    #[test]
    fn a_file_is_read_from_its_beginning_wherever_its_descriptor_stands() {
        let file = file(b"content");
        let mut room = [b'x'; 8];
        let sum = read_summed(&file, 7, &mut room).unwrap();
        assert_eq!((&room, sum.end()), (b"contentx", 7));
        assert_eq!(sum.value(7), Some(hakobu_core::content::content_sum(b"content")));
        assert_eq!((read_at(&file, 5, &mut room).unwrap(), &room[..2]), (2, &b"nt"[..]));
        assert!(has_more(&file, 6).unwrap() && !has_more(&file, 7).unwrap());
    }

    #[test]
    fn more_and_fewer_bytes_than_the_size_are_both_found() {
        let file = file(b"content");
        for (size_bytes, end) in [(0, 1), (6, 7), (7, 7), (8, 7), (100, 7)] {
            let mut room = vec![0; size_bytes as usize + 1];
            assert_eq!(read_summed(&file, size_bytes, &mut room).unwrap().end(), end, "{size_bytes}");
        }
        assert_eq!(wrong_size("reading", 7, 8).kind, ErrorKind::SourceChanged);
    }

    #[test]
    fn what_was_written_is_summed_at_its_place() {
        let file = file(b"");
        let mut sum = ContentSum::default();
        write_at(&file, 2, b"ab", &mut sum).unwrap();
        write_at(&file, 4, b"c", &mut sum).unwrap();
        let mut room = [1; 8];
        assert_eq!((read_at(&file, 0, &mut room).unwrap(), &room[..5]), (5, &b"\0\0abc"[..]));
        assert_eq!(sum.value(5), Some(hakobu_core::content::content_sum(b"\0\0abc")));
    }
}
