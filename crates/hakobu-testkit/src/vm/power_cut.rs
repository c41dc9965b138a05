//! Emulates the effect of a power cut on a disk with a write cache: flushed data is kept, and of the rest nothing or
//! any part.
//!
//! Killing a virtual machine is not a power cut, since everything it wrote is in files of the host. So a disk is
//! logged: every write and flush is also recorded, in order, in a log in the format of dm-log-writes. After the cut,
//! the logged writes up to the last flush are applied to the previous state, and a selection of the writes after it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MAGIC: u64 = 0x006a_7366_7773_6872;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
/// The size of the log file in bytes, nearly all of which is a hole.
const LOG_BYTES: u64 = 8 << 30;
/// The maximum size of a write in bytes, above that of any virtio disk.
const WRITE_BYTES_MAX: u64 = 256 << 20;

/// The fate of data that was written and not flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnflushedFate {
    /// All of it is lost.
    Lost,
    /// Every second write is kept, starting with the second, since a disk keeps no order.
    EverySecond,
}

/// The numbers of writes that a cut affected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PowerCut {
    /// The number of flushed writes.
    pub flushed: u64,
    /// The number of unflushed writes that are kept.
    pub kept: u64,
    /// The number of lost writes.
    pub lost: u64,
}

/// A disk's file whose writes are logged during one run of a machine.
#[derive(Debug)]
pub struct LoggedDisk {
    file: PathBuf,
    before: PathBuf,
    pub(super) log: PathBuf,
}

/// A write in the log.
#[derive(Debug, Clone, Copy)]
struct LoggedWrite {
    to: u64,
    from: u64,
    bytes: u64,
    sure: bool,
}

impl LoggedDisk {
    /// Saves the content of a disk's file, and creates a log beside it.
    ///
    /// # Errors
    /// If there is not enough space.
    pub fn new(file: &Path) -> io::Result<Self> {
        let (before, log) = (file.with_extension("before"), file.with_extension("log"));
        std::fs::copy(file, &before)?;
        File::create(&log)?.set_len(LOG_BYTES)?;
        Ok(Self { file: file.to_path_buf(), before, log })
    }

    /// Changes the disk's file to its state after the cut. The machine must have ended.
    ///
    /// # Errors
    /// If the log is invalid, or files cannot be read or written.
    pub fn cut(self, unflushed: UnflushedFate) -> io::Result<PowerCut> {
        let (log, disk) = (File::open(&self.log)?, File::options().write(true).open(&self.before)?);
        let (writes, flushed) = read_log(&log)?;
        let mut cut = PowerCut::default();
        for (number, write) in writes.iter().enumerate() {
            if number < flushed || write.sure {
                cut.flushed += 1;
            } else if unflushed == UnflushedFate::EverySecond && (number - flushed) % 2 == 1 {
                cut.kept += 1;
            } else {
                cut.lost += 1;
                continue;
            }
            let mut content = vec![0; usize::try_from(write.bytes).unwrap_or(0)];
            log.read_exact_at(&mut content, write.from)?;
            disk.write_all_at(&content, write.to)?;
        }
        std::fs::rename(&self.before, &self.file)?;
        std::fs::remove_file(&self.log)?;
        Ok(cut)
    }
}

/// Returns all writes, and the number of writes before the last flush.
fn read_log(log: &File) -> io::Result<(Vec<LoggedWrite>, usize)> {
    let head = numbers(log, 0)?;
    // The head of the log is written at the first flush.
    let begun = head[0] != 0;
    if begun && head[0] != MAGIC {
        return Err(io::Error::other("the log of a disk's writes does not begin like one"));
    }
    // The sector size follows magic, version and number of entries, in 32 bits.
    let sector_bytes = if begun { head[3] & 0xffff_ffff } else { 512 };
    let (mut writes, mut flushed, mut at) = (Vec::new(), 0, sector_bytes);
    loop {
        let [sector, sectors, flags, _] = numbers(log, at)?;
        if sectors == 0 && flags & FLUSH == 0 {
            return Ok((writes, flushed));
        }
        at += sector_bytes;
        if flags & FLUSH != 0 {
            flushed = writes.len();
        }
        let bytes = sectors * sector_bytes;
        // A discard guarantees nothing, so it is ignored.
        if sectors == 0 || flags & DISCARD != 0 {
            continue;
        }
        if bytes > WRITE_BYTES_MAX {
            return Err(io::Error::other(format!(
                "a write of {bytes} bytes is in the log of a disk's writes"
            )));
        }
        writes.push(LoggedWrite { to: sector * sector_bytes, from: at, bytes, sure: flags & FUA != 0 });
        at += bytes;
    }
}

/// Returns four numbers at an offset of the log.
fn numbers(log: &File, at: u64) -> io::Result<[u64; 4]> {
    let mut bytes = [0; 32];
    log.read_exact_at(&mut bytes, at)?;
    let (words, _) = bytes.as_chunks::<8>();
    Ok([0, 1, 2, 3].map(|place| u64::from_le_bytes(words[place])))
}
