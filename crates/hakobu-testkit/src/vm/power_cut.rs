//! What a power cut leaves of a disk that has a cache: what was flushed is there, and of the rest nothing, or any part.
//!
//! Killing a virtual machine alone is none: whatever it wrote is in the files of the machine below. So a disk is
//! logged: every write and flush goes, in order, to a log of the form of dm-log-writes as well. After the cut the
//! state of before is brought forward to the last flush, and what is left is chosen from the writes behind it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MAGIC: u64 = 0x006a_7366_7773_6872;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
/// The log is a file of this size, nearly all of it a hole.
const LOG_BYTES: u64 = 8 << 30;
/// No write of a virtio disk is as long as this.
const WRITE_BYTES_MAX: u64 = 256 << 20;

/// What becomes of what was written and not flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unflushed {
    /// All of it is gone.
    Lost,
    /// Every second write is on the disk, beginning with the second: a disk keeps no order.
    EverySecond,
}

/// How many writes a cut has met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cut {
    /// These were flushed.
    pub flushed: u64,
    /// These were not, and are on the disk all the same.
    pub kept: u64,
    /// These are gone.
    pub lost: u64,
}

/// A disk's file whose writes are logged during one run of a machine.
#[derive(Debug)]
pub struct Logged {
    file: PathBuf,
    before: PathBuf,
    pub(super) log: PathBuf,
}

/// A write in the log.
#[derive(Debug, Clone, Copy)]
struct Write {
    to: u64,
    from: u64,
    bytes: u64,
    sure: bool,
}

impl Logged {
    /// Remembers what is in a disk's file, and begins a log beside it.
    ///
    /// # Errors
    /// When there is no room for that.
    pub fn new(file: &Path) -> io::Result<Self> {
        let (before, log) = (file.with_extension("before"), file.with_extension("log"));
        std::fs::copy(file, &before)?;
        File::create(&log)?.set_len(LOG_BYTES)?;
        Ok(Self { file: file.to_path_buf(), before, log })
    }

    /// Makes the disk's file what it is after the cut. The machine must have ended.
    ///
    /// # Errors
    /// When the log is none, or files cannot be read or written.
    pub fn cut(self, unflushed: Unflushed) -> io::Result<Cut> {
        let (log, disk) = (File::open(&self.log)?, File::options().write(true).open(&self.before)?);
        let (writes, flushed) = read_log(&log)?;
        let mut cut = Cut::default();
        for (number, write) in writes.iter().enumerate() {
            if number < flushed || write.sure {
                cut.flushed += 1;
            } else if unflushed == Unflushed::EverySecond && (number - flushed) % 2 == 1 {
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

/// All writes, and how many of them are before the last flush.
fn read_log(log: &File) -> io::Result<(Vec<Write>, usize)> {
    let head = numbers(log, 0)?;
    // Its head is written at the first flush.
    let begun = head[0] != 0;
    if begun && head[0] != MAGIC {
        return Err(io::Error::other("the log of a disk's writes does not begin like one"));
    }
    // Behind magic, version and number of entries, in 32 bits.
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
        // Discarding promises nothing, so it is left out.
        if sectors == 0 || flags & DISCARD != 0 {
            continue;
        }
        if bytes > WRITE_BYTES_MAX {
            return Err(io::Error::other(format!(
                "a write of {bytes} bytes is in the log of a disk's writes"
            )));
        }
        writes.push(Write { to: sector * sector_bytes, from: at, bytes, sure: flags & FUA != 0 });
        at += bytes;
    }
}

/// Four numbers at a place of the log.
fn numbers(log: &File, at: u64) -> io::Result<[u64; 4]> {
    let mut bytes = [0; 32];
    log.read_exact_at(&mut bytes, at)?;
    let (words, _) = bytes.as_chunks::<8>();
    Ok([0, 1, 2, 3].map(|place| u64::from_le_bytes(words[place])))
}
