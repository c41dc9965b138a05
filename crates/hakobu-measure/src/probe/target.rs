//! Measures how fast data can be written at a path, with a large scratch file without a name, and with small ones.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hakobu_core::probe::{MeasuredWork, ReadAsk, WriteAsk, WriteFigures, WriteHow};
use rustix::fs::{
    Access, AtFlags, FallocateFlags, Mode, StatVfsMountFlags, Timespec, Timestamps, accessat, fallocate,
    fchmod, fdatasync, fstatfs, fstatvfs, futimens, statat,
};
use rustix::io::Errno;

use super::clock::{WorkEnd, median_ns, on_threads, processor_time};
use super::content::ContentBuffer;
use super::load::Load;
use super::read;
use super::scan::scan;
use super::scratch::{self, Scratch};
use crate::memory;

/// The sizes in bytes of one write, and of the range that a thread takes at a time.
const PIECE_BYTES: usize = 256 << 10;
const CHUNK_BYTES: u64 = 4 << 20;
/// The number of bytes of the first write, whose rate determines how much can be written in the available time.
const FIRST_BYTES: u64 = 8 << 20;
/// The divisor of the free space that limits how much is written.
const PART_OF_FREE: u64 = 4;
/// The minimum free space in bytes for writing anything.
const ROOM_MIN_BYTES: u64 = 4 * FIRST_BYTES;
/// The target duration of the sequential write, including the sync.
const CONTENT_TIME: Duration = Duration::from_millis(1300);
const LATENCY_LIMIT: Duration = Duration::from_millis(250);
const SMALL_LIMIT: Duration = Duration::from_millis(500);
const SCAN_LIMIT: Duration = Duration::from_millis(1500);
/// The number of writes for measuring the latency.
const WRITES: usize = 24;
const PAGE_BYTES: usize = 4096;
/// The number of names to look up.
const LOOKUPS: u64 = 1000;
const LOOKUP_LIMIT: Duration = Duration::from_millis(300);
/// The file systems on which files may share blocks, by their magic numbers: Btrfs, XFS, bcachefs, OCFS2, ZFS,
/// overlayfs, NFS, SMB.
const SHARING: [u32; 8] =
    [0x9123_683e, 0x5846_5342, 0xca45_1a4e, 0x7461_636f, 0x2fc1_2fc1, 0x794c_7630, 0x0000_6969, 0xfe53_4d42];
/// The magic number of ext4.
const EXT4: u32 = 0xef53;
/// The number of small files, and their size in bytes.
const SMALL_FILES: u64 = 600;
const SMALL_FILE_BYTES: usize = 8 << 10;

/// Measures a path that will be written. The written files have no name, and disappear when this returns or the
/// process ends.
///
/// # Errors
/// If nothing can be inspected.
pub fn target(ask: &WriteAsk, cancel: &AtomicBool) -> io::Result<WriteFigures> {
    let path = Path::new(std::ffi::OsStr::from_bytes(&ask.path));
    let load = Load { gentle: ask.gentle, lanes: ask.lanes };
    let mut figures = WriteFigures::default();
    if let Ok(found) = std::fs::metadata(path) {
        if found.file_type().is_block_device() {
            let read = ReadAsk { path: ask.path.clone(), gentle: ask.gentle, lanes: ask.lanes };
            let read = read::source(&read, cancel)?;
            (figures.how, figures.content, figures.latency_ns) =
                (WriteHow::Device, read.content, read.latency_ns);
            return Ok(figures);
        }
        if found.file_type().is_char_device() {
            figures.how = WriteHow::Nowhere;
            return Ok(figures);
        }
        if found.is_dir() {
            let found = scan(path, load.threads(), load.limit(SCAN_LIMIT), cancel);
            figures.tree = Some(found.tree);
        }
    }
    let directory = directory_of(path);
    let scratch = Scratch::within(&directory)?;
    figures.directory = std::fs::canonicalize(&directory).unwrap_or(directory).into_os_string().into_vec();
    let room = fstatvfs(scratch.directory())?;
    let free_bytes = room.f_bavail.saturating_mul(room.f_frsize);
    figures.free_bytes = Some(free_bytes);
    // File systems without a fixed number of inodes report zero.
    figures.free_inodes = (room.f_files > 0).then_some(room.f_favail);
    figures.may_share =
        fstatfs(scratch.directory()).is_ok_and(|system| SHARING.contains(&(system.f_type as u32)));
    figures.held_bytes = held_bytes();
    figures.lookups = lookups(&scratch, load, cancel);
    figures.how = match () {
        () if room.f_flag.contains(StatVfsMountFlags::RDONLY) => WriteHow::ReadOnly,
        () if is_denied(&scratch) => WriteHow::Denied,
        () if !ask.write => WriteHow::NotAsked,
        () if free_bytes < ROOM_MIN_BYTES => WriteHow::NoRoom,
        () => write(&scratch, free_bytes / PART_OF_FREE, load, &mut figures, cancel),
    };
    Ok(figures)
}

/// Returns the directory, or its nearest existing ancestor.
fn directory_of(path: &Path) -> PathBuf {
    let there = path.ancestors().find(|above| above.is_dir());
    there.filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

/// Returns true if this user may not create entries there. If that cannot be checked, permission is assumed.
fn is_denied(scratch: &Scratch) -> bool {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    let asked = accessat(scratch.directory(), ".", access, AtFlags::EACCESS);
    matches!(asked, Err(Errno::ACCESS | Errno::PERM))
}

/// Performs all write measurements, and returns the outcome.
fn write(
    scratch: &Scratch,
    most_bytes: u64,
    load: Load,
    figures: &mut WriteFigures,
    cancel: &AtomicBool,
) -> WriteHow {
    let made = scratch.file().and_then(|file| {
        content(&file, most_bytes, load, figures, cancel)?;
        figures.latency_ns = latency(&file, load, cancel)?;
        drop(file);
        figures.small = small(scratch, load, cancel)?;
        Ok(())
    });
    match made {
        Ok(()) => WriteHow::Written,
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => WriteHow::ReadOnly,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => WriteHow::Denied,
        Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            WriteHow::NoRoom
        }
        Err(error) => {
            figures.remark(&format!("writing a scratch file: {error}"));
            WriteHow::Failed
        }
    }
}

/// Writes sequentially until the data is stable. The first part determines how much fits into the time.
fn content(
    file: &File,
    most_bytes: u64,
    load: Load,
    figures: &mut WriteFigures,
    cancel: &AtomicBool,
) -> io::Result<()> {
    let most_bytes = most_bytes.min(load.bytes_max());
    let first = written(file, 0, FIRST_BYTES.min(most_bytes), 1, cancel)?;
    figures.in_memory = Some(first.0);
    figures.content = Some(first.1);
    let Some(rate) = first.1.bytes_per_second() else { return Ok(()) };
    let fits = (rate * load.limit(CONTENT_TIME).as_secs_f64()) as u64;
    let bytes = fits.min(most_bytes.saturating_sub(FIRST_BYTES)) / CHUNK_BYTES * CHUNK_BYTES;
    if bytes <= FIRST_BYTES || cancel.load(Relaxed) {
        return Ok(());
    }
    let (in_memory, content) = written(file, FIRST_BYTES, bytes, load.threads(), cancel)?;
    figures.content = Some(content);
    // Threads that only write to one file waste processor time on its lock. Lanes do other work in between.
    let cost = |work: &MeasuredWork| work.processor_seconds_per_byte().unwrap_or(f64::INFINITY);
    if cost(&in_memory) < cost(&first.0) {
        figures.in_memory = Some(in_memory);
    }
    Ok(())
}

/// Writes `length` bytes. Returns the work until they were in memory, and until they were stable.
fn written(
    file: &File,
    begin: u64,
    length: u64,
    threads: usize,
    cancel: &AtomicBool,
) -> io::Result<(MeasuredWork, MeasuredWork)> {
    let began = Instant::now();
    // A copy does this too, and only on ext4.
    if fstatfs(file.as_fd()).is_ok_and(|system| system.f_type as u32 == EXT4) {
        let _ = fallocate(file.as_fd(), FallocateFlags::KEEP_SIZE, begin, length);
    }
    let next = AtomicU64::new(0);
    let failed = std::sync::Mutex::new(None);
    let in_memory = on_threads(threads, |index| {
        let piece = ContentBuffer::filled(PIECE_BYTES, begin + index as u64 + 1);
        let mut bytes = 0;
        loop {
            let chunk = next.fetch_add(CHUNK_BYTES, Relaxed);
            if chunk >= length || cancel.load(Relaxed) {
                return (0, bytes);
            }
            let end = (chunk + CHUNK_BYTES).min(length);
            for offset in (chunk..end).step_by(PIECE_BYTES) {
                let piece = &piece.bytes()[..(end - offset).min(PIECE_BYTES as u64) as usize];
                if let Err(error) = file.write_all_at(piece, begin + offset) {
                    *failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
                    return (0, bytes);
                }
                bytes += piece.len() as u64;
            }
        }
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(error);
    }
    let before = processor_time();
    fdatasync(file)?;
    let processor = processor_time().saturating_sub(before).as_nanos() as u64;
    let elapsed_ns = began.elapsed().as_nanos() as u64;
    let stable = MeasuredWork { elapsed_ns, processor_ns: in_memory.processor_ns + processor, ..in_memory };
    Ok((in_memory, stable))
}

/// Returns the median time to make one small write stable.
fn latency(file: &File, load: Load, cancel: &AtomicBool) -> io::Result<Option<u64>> {
    let until = WorkEnd::after(load.limit(LATENCY_LIMIT), cancel);
    let page = ContentBuffer::filled(PAGE_BYTES, 1);
    let mut times = Vec::new();
    while times.len() < WRITES && !until.is_over() {
        let began = Instant::now();
        file.write_all_at(page.bytes(), (times.len() * PAGE_BYTES) as u64)?;
        fdatasync(file)?;
        times.push(began.elapsed());
    }
    Ok(median_ns(&times))
}

/// Creates small files as a copy does: each is created, written, and given its mode and times.
fn small(scratch: &Scratch, load: Load, cancel: &AtomicBool) -> io::Result<Option<MeasuredWork>> {
    let own = (0..load.threads()).map(|_| scratch.apart()).collect::<io::Result<Vec<_>>>()?;
    let until = WorkEnd::after(load.limit(SMALL_LIMIT), cancel);
    let next = AtomicU64::new(0);
    let work = on_threads(load.threads(), |index| {
        let content = ContentBuffer::filled(SMALL_FILE_BYTES, index as u64 + 1);
        let (mut count, mut bytes) = (0, 0);
        let Some(own) = own.get(index) else { return (0, 0) };
        while next.fetch_add(1, Relaxed) < SMALL_FILES && !until.is_over() {
            if one(&own.scratch, content.bytes()).is_err() {
                break;
            }
            count += 1;
            bytes += content.bytes().len() as u64;
        }
        (count, bytes)
    });
    Ok((work.count > 0).then_some(work))
}

/// Looks up missing names that no cache holds, to measure a server's cost for each.
fn lookups(scratch: &Scratch, load: Load, cancel: &AtomicBool) -> Option<MeasuredWork> {
    let until = WorkEnd::after(load.limit(LOOKUP_LIMIT), cancel);
    let next = AtomicU64::new(0);
    let work = on_threads(load.threads(), |_| {
        let mut count = 0;
        while next.fetch_add(1, Relaxed) < LOOKUPS && !until.is_over() {
            let _missing = statat(scratch.directory(), scratch::name(), AtFlags::SYMLINK_NOFOLLOW);
            count += 1;
        }
        (count, 0)
    });
    (work.count > 0).then_some(work)
}

fn one(scratch: &Scratch, content: &[u8]) -> io::Result<()> {
    let file = scratch.file()?;
    file.write_all_at(content, 0)?;
    fchmod(&file, Mode::RUSR | Mode::WUSR | Mode::RGRP)?;
    let time = Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
    futimens(&file, &Timestamps { last_access: time, last_modification: time })?;
    Ok(())
}

/// Returns the number of bytes that the system holds in memory before it starts writing.
fn held_bytes() -> Option<u64> {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    if let Some(bytes @ 1..) = number("/proc/sys/vm/dirty_background_bytes") {
        return Some(bytes);
    }
    let percent = number("/proc/sys/vm/dirty_background_ratio")?;
    memory::available_bytes()?.checked_mul(percent).map(|bytes| bytes / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(path: &Path, write: bool) -> WriteFigures {
        let path = path.as_os_str().as_bytes().to_vec();
        let ask = WriteAsk { path, write, gentle: true, lanes: 2, device: Vec::new() };
        target(&ask, &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn writing_leaves_nothing_behind() {
        let place = tempfile::tempdir().unwrap();
        let figures = measured(&place.path().join("not/there/yet"), true);
        assert_eq!(figures.how, WriteHow::Written, "{figures:?}");
        assert!(figures.content.unwrap().bytes >= FIRST_BYTES && figures.latency_ns.is_some());
        assert!(figures.small.unwrap().count > 0 && figures.held_bytes.is_some());
        assert!(figures.lookups.unwrap().count > 0);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn nothing_is_written_unless_asked_for() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("file"), "content").unwrap();
        let figures = measured(place.path(), false);
        assert_eq!((figures.how, figures.content, figures.small), (WriteHow::NotAsked, None, None));
        assert_eq!(figures.tree.unwrap().files, 1);
        assert_eq!(measured(Path::new("/dev/null"), true).how, WriteHow::Nowhere);
    }
}
