//! Creates sources, and the content that targets have before a run.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use hakobu_measure::generate::{self, FileSpec, Pattern, SizeDistribution, TreeSpec, available_threads};

use rustix::fs::{FallocateFlags, XattrFlags};

use super::sources::{BenchSource, CHANGED_ONE_IN, CHANGED_PIECE_BYTES, RUN_BYTES, SMALL_OF_MIXED_BYTES};

const SEED: u64 = 1;
/// The byte that fills targets before they are overwritten.
const OLD_BYTE: u8 = 0x5a;
/// The write size of databases and file systems, in bytes.
const PAGE_BYTES: u64 = 4096;

/// Creates a source's file or tree. A disk's zeros are written; those of an image are holes.
///
/// # Errors
/// Returns the system's error, most likely that memory is full.
pub fn make(source: BenchSource, path: &Path) -> anyhow::Result<()> {
    let threads = available_threads();
    match source {
        BenchSource::Disk { bytes, data_bytes, .. } | BenchSource::Image { bytes, data_bytes }
            if data_bytes < bytes =>
        {
            let zeros = matches!(source, BenchSource::Disk { .. });
            Ok(runs(path, bytes, data_bytes, zeros)?)
        }
        BenchSource::File { bytes } | BenchSource::Disk { bytes, .. } | BenchSource::Image { bytes, .. } => {
            let spec = FileSpec { size_bytes: bytes, seed: SEED, compressibility: 0.0, threads };
            generate::file(path, spec)?;
            // Otherwise, if it is on a disk, the kernel would still be writing it during the measurement.
            Ok(File::open(path)?.sync_all()?)
        }
        BenchSource::Dressed { files, directories, file_bytes } => {
            make(BenchSource::Tree { files, directories, file_bytes }, path)?;
            Ok(dress(path)?)
        }
        BenchSource::Tree { files, directories, file_bytes } => {
            let spec = TreeSpec {
                files,
                directories,
                fanout: directories.max(1),
                size: SizeDistribution::Fixed(file_bytes),
                seed: SEED,
                threads,
                ..TreeSpec::default()
            };
            Ok(generate::tree(path, &spec).map(|_| ())?)
        }
        BenchSource::Mixed { small_files, large_files, large_bytes, alone_bytes } => {
            std::fs::create_dir(path)?;
            let directories = small_files / 100;
            let small =
                BenchSource::Tree { files: small_files, directories, file_bytes: SMALL_OF_MIXED_BYTES };
            make(small, &path.join("small"))?;
            std::fs::create_dir(path.join("large"))?;
            for index in 0..large_files {
                let file = path.join(format!("large/{index:03}"));
                make(BenchSource::File { bytes: large_bytes }, &file)?;
            }
            if alone_bytes > 0 {
                make(BenchSource::File { bytes: alone_bytes }, &path.join("alone"))?;
            }
            Ok(())
        }
        BenchSource::Made { .. } => Ok(()),
    }
}

/// Writes runs of random bytes, spread as evenly as whole runs allow.
fn runs(path: &Path, bytes: u64, data_bytes: u64, zeros: bool) -> io::Result<()> {
    let file = File::create_new(path)?;
    file.set_len(bytes)?;
    let (all, data) = (bytes / RUN_BYTES, data_bytes / RUN_BYTES);
    let pattern = Pattern::new(SEED, 0.0);
    let none = vec![0; RUN_BYTES as usize];
    let mut buffer = none.clone();
    let mut next_zeros = 0;
    for run in (0..data).map(|index| index * all / data) {
        if zeros {
            for empty in next_zeros..run {
                file.write_all_at(&none, empty * RUN_BYTES)?;
            }
            next_zeros = run + 1;
        }
        let offset = run * RUN_BYTES;
        pattern.fill(offset, &mut buffer);
        file.write_all_at(&buffer, offset)?;
    }
    for empty in next_zeros..if zeros { all } else { 0 } {
        file.write_all_at(&none, empty * RUN_BYTES)?;
    }
    Ok(())
}

/// Fills a file with bytes that no source has, creating it if necessary. Existing content is overwritten in place.
/// Syncs the file, so that the kernel has nothing left to write later.
///
/// # Errors
/// Returns the system's error.
pub fn fill(path: &Path, bytes: u64) -> io::Result<()> {
    let block = vec![OLD_BYTE; RUN_BYTES as usize];
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    let mut offset = 0;
    while offset < bytes {
        let now = (bytes - offset).min(RUN_BYTES);
        file.write_all_at(&block[..now as usize], offset)?;
        offset += now;
    }
    file.sync_all()
}

/// Creates a file of `bytes` bytes that takes no space.
///
/// # Errors
/// Returns the system's error.
pub fn hollow(path: &Path, bytes: u64) -> io::Result<()> {
    File::create(path)?.set_len(bytes)
}

/// Discards the content of a device or file.
///
/// # Errors
/// Returns the system's error.
pub fn empty(path: &Path, bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file, how, 0, bytes)?)
}

/// Returns the files of a tree in a stable order.
fn files_of(root: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut files, mut open) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            let list = if entry.file_type()?.is_dir() { &mut open } else { &mut files };
            list.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Returns an access control list that lets user 7 read: a version, then entries for owner, user 7, group, mask and
/// others, each with a tag, permissions and an ID.
fn access_list() -> Vec<u8> {
    let entries = [(1u16, 6u16, u32::MAX), (2, 4, 7), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 4, u32::MAX)];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, rights, number) in entries {
        list.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
        list.extend(number.to_le_bytes());
    }
    list
}

/// Adds attributes and access lists to the files of a tree, and makes every tenth a hard link to the previous one.
fn dress(root: &Path) -> io::Result<()> {
    let list = access_list();
    let mut last: Option<PathBuf> = None;
    for (index, path) in files_of(root)?.into_iter().enumerate() {
        if let (9, Some(last)) = (index % 10, &last) {
            std::fs::remove_file(&path)?;
            std::fs::hard_link(last, &path)?;
            continue;
        }
        let value = index.to_le_bytes();
        rustix::fs::setxattr(&path, "user.bench", &value, XattrFlags::empty())?;
        rustix::fs::setxattr(&path, "system.posix_acl_access", &list, XattrFlags::empty())?;
        last = Some(path);
    }
    Ok(())
}

/// Makes one file in a hundred of a tree differ from the source's, and older.
///
/// # Errors
/// Returns the system's error.
pub fn outdate(root: &Path) -> io::Result<()> {
    for path in files_of(root)?.into_iter().step_by(CHANGED_ONE_IN as usize) {
        let file = OpenOptions::new().append(true).open(path)?;
        std::io::Write::write_all(&mut &file, b"old")?;
        make_old(&file)?;
    }
    Ok(())
}

/// Makes one block in a hundred of each file of a tree differ from the source's, and the file older.
///
/// # Errors
/// Returns the system's error.
pub fn change_pages(root: &Path) -> io::Result<()> {
    let block = [OLD_BYTE; PAGE_BYTES as usize];
    for path in files_of(root)? {
        let file = OpenOptions::new().write(true).open(path)?;
        let pages = file.metadata()?.len() / PAGE_BYTES;
        let changed = (0..pages).step_by(CHANGED_ONE_IN as usize);
        changed.map(|page| page * PAGE_BYTES).try_for_each(|offset| file.write_all_at(&block, offset))?;
        make_old(&file)?;
    }
    Ok(())
}

/// Removes the first byte of each file of a tree, and makes the file older.
///
/// # Errors
/// Returns the system's error.
pub fn shift(root: &Path) -> io::Result<()> {
    let mut buffer = vec![0; RUN_BYTES as usize];
    for path in files_of(root)? {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let bytes = file.metadata()?.len().saturating_sub(1);
        let mut offset = 0;
        while offset < bytes {
            let now = (bytes - offset).min(RUN_BYTES) as usize;
            file.read_exact_at(&mut buffer[..now], offset + 1)?;
            file.write_all_at(&buffer[..now], offset)?;
            offset += now as u64;
        }
        file.set_len(bytes)?;
        make_old(&file)?;
    }
    Ok(())
}

fn make_old(file: &File) -> io::Result<()> {
    let day = std::time::Duration::from_secs(86_400);
    file.set_modified(std::time::SystemTime::UNIX_EPOCH + day)
}

/// Makes one piece in a hundred, at least one, differ from the source's.
///
/// # Errors
/// Returns the system's error.
pub fn change(path: &Path, bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let block = vec![OLD_BYTE; CHANGED_PIECE_BYTES as usize];
    let pieces = bytes / CHANGED_PIECE_BYTES;
    let changed = (pieces / CHANGED_ONE_IN).max(1);
    (0..changed)
        .try_for_each(|index| file.write_all_at(&block, index * pieces / changed * CHANGED_PIECE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hakobu_testkit::file_difference::first_difference;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn an_image_has_holes_where_a_disk_has_zeros() {
        let dir = std::env::temp_dir().join(format!("hakobu-content-test-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (bytes, data_bytes) = (10 * RUN_BYTES, 3 * RUN_BYTES);
        let (disk, image) = (dir.join("disk"), dir.join("image"));
        let medium = super::super::sources::Medium::Memory;
        make(BenchSource::Disk { bytes, data_bytes, medium }, &disk).unwrap();
        make(BenchSource::Image { bytes, data_bytes }, &image).unwrap();
        assert_eq!(first_difference(&disk, &image).unwrap(), None);
        let allocated = |path: &Path| path.metadata().unwrap().blocks() * 512;
        assert!(allocated(&disk) >= bytes && allocated(&image) < bytes / 2);
        let content = std::fs::read(&disk).unwrap();
        let zeros = content.chunks(RUN_BYTES as usize).filter(|run| run.iter().all(|byte| *byte == 0));
        assert_eq!(zeros.count(), 7);
        fill(&image, bytes).unwrap();
        assert!(std::fs::read(&image).unwrap().iter().all(|byte| *byte == OLD_BYTE));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn one_piece_in_a_hundred_is_changed() {
        let path = std::env::temp_dir().join(format!("hakobu-change-test-{}", std::process::id()));
        for (pieces, changed) in [(16, 1), (300, 3)] {
            std::fs::write(&path, vec![0; (pieces * CHANGED_PIECE_BYTES) as usize]).unwrap();
            change(&path, pieces * CHANGED_PIECE_BYTES).unwrap();
            let content = std::fs::read(&path).unwrap();
            let other = content.chunks(CHANGED_PIECE_BYTES as usize).filter(|piece| piece[0] != 0);
            assert_eq!(other.count(), changed);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
