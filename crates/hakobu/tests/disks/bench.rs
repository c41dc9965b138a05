//! Disks for tests: loop devices on files in memory, and file systems on them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use hakobu_core::disk::DeviceIdentity;
use hakobu_core::extent::PIECE_BYTES;
use hakobu_endpoints::block::inspect::inspect_device;

use crate::program::*;

/// The lowest number of a loop device that tests use. `losetup --find` uses lower ones.
const LOOP_NUMBER_MIN: u32 = 1000;

/// Returns a loop device whose number was not used before. A process that still has an earlier device open cannot
/// disturb another test.
fn loop_device() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(LOOP_NUMBER_MIN);
    PathBuf::from(format!("/dev/loop{}", NEXT.fetch_add(1, Relaxed)))
}

/// The directory of root's journals for devices.
const STATE: &str = "/var/lib/hakobu";
pub const MIB: u64 = 1 << 20;
pub const PIECE: u64 = PIECE_BYTES;

/// On a busy machine the round-trip time seems long and hakobu uses more lanes. All of a small disk would then be in
/// flight at once, and nothing complete until all of it is.
pub const LANES: &str = "--lanes 2";

/// Runs a tool, which has to succeed, and returns its output.
#[track_caller]
pub fn tool<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program} is needed: {error}"));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {words}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A loop device.
pub struct Disk {
    /// The path of the device.
    pub path: PathBuf,
    /// The file behind it.
    pub backing: PathBuf,
    /// The key of the disk in journals.
    place: blake3::Hash,
}

impl Disk {
    /// Creates a disk of zeros.
    pub fn empty(place: &Path, name: &str, size_bytes: u64, sector_bytes: u32) -> Self {
        let backing = place.join(name);
        File::create(&backing).unwrap().set_len(size_bytes).unwrap();
        Self::attach(&backing, sector_bytes, &[])
    }

    /// Creates a disk with this content, which consists of whole sectors.
    pub fn with(place: &Path, name: &str, content: &[u8], sector_bytes: u32) -> Self {
        let backing = place.join(name);
        write_sparse(&backing, content);
        Self::attach(&backing, sector_bytes, &[])
    }

    /// Creates a disk whose bytes all have the same value.
    pub fn full_of(place: &Path, name: &str, byte: u8, size_bytes: u64, sector_bytes: u32) -> Self {
        Self::with(place, name, &vec![byte; size_bytes as usize], sector_bytes)
    }

    /// Creates a loop device for an existing file, with further options of `losetup`.
    pub fn attach(backing: &Path, sector_bytes: u32, options: &[&str]) -> Self {
        loop {
            let path = loop_device();
            let mut losetup = Command::new("losetup");
            losetup.args(["--sector-size", &sector_bytes.to_string()]).args(options).arg(&path).arg(backing);
            let output = losetup.output().unwrap();
            if output.status.success() {
                return Self::at(path, backing.to_owned());
            }
            let words = String::from_utf8_lossy(&output.stderr);
            assert!(words.contains("busy"), "losetup: {words}");
        }
    }

    /// Returns a disk that is no loop device.
    pub fn of_another_kind(path: PathBuf) -> Self {
        Self::at(path, PathBuf::new())
    }

    fn at(path: PathBuf, backing: PathBuf) -> Self {
        let place = inspect_device(&path).unwrap().identity.place_id;
        Self { path, backing, place: blake3::hash(place.as_bytes()) }
    }

    pub fn identity(&self) -> DeviceIdentity {
        inspect_device(&self.path).unwrap().identity
    }

    /// Returns the identity that `--confirm` takes.
    pub fn id(&self) -> String {
        self.identity().id
    }

    /// Returns the content of the device.
    pub fn bytes(&self) -> Vec<u8> {
        // The buffer cache could still have what an earlier reader has read.
        tool("blockdev", [OsStr::new("--flushbufs"), self.path.as_os_str()]);
        fs::read(&self.path).unwrap()
    }

    /// Overwrites a part of the disk and closes it.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) {
        let device = File::options().write(true).open(&self.path).unwrap();
        device.write_all_at(bytes, offset).unwrap();
        device.sync_all().unwrap();
    }

    /// Returns true if the list of disks says that a copy onto the disk has not ended.
    pub fn is_listed_as_unfinished(&self) -> bool {
        let list: serde_json::Value = serde_json::from_str(&tool(HAKOBU, ["disks", "--json"])).unwrap();
        let disks = list["disks"].as_array().unwrap();
        let disk = disks.iter().find(|disk| disk["path"] == self.path.to_str().unwrap()).unwrap();
        let notes = disk["notes"].as_array().unwrap();
        notes.iter().any(|note| note.as_str().unwrap().starts_with("a copy onto it has not ended"))
    }

    /// Returns the files that hakobu keeps about the disk between two runs.
    pub fn remembered(&self) -> Vec<PathBuf> {
        let unfinished = format!("unfinished.{}", &self.place.to_hex()[..24]);
        let is_about_it = |path: &PathBuf| {
            path.file_name() == Some(OsStr::new(&unfinished))
                || fs::read(path).is_ok_and(|journal| journal.get(56..88) == Some(self.place.as_bytes()))
        };
        let there = fs::read_dir(STATE).into_iter().flatten().flatten();
        there.map(|entry| entry.path()).filter(is_about_it).collect()
    }

    pub fn as_typed(&self) -> OsString {
        self.path.clone().into_os_string()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.remembered().iter().for_each(|path| drop(fs::remove_file(path)));
        }
        if !self.backing.as_os_str().is_empty() {
            let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
        }
    }
}

/// Returns the number of bytes that a journal among these files records as stable, or 0 without a journal.
pub fn recorded_bytes(files: &[PathBuf]) -> u64 {
    const HEADER_BYTES: usize = 128;
    const RECORD_BYTES: usize = 64;
    let is_journal = |path: &&PathBuf| {
        let mut magic = [0; 14];
        File::open(path).is_ok_and(|file| file.read_exact_at(&mut magic, 0).is_ok())
            && &magic == b"hakobu journal"
    };
    let Some(path) = files.iter().find(is_journal) else { return 0 };
    let journal = fs::read(path).unwrap_or_default();
    let records = journal.get(HEADER_BYTES..).unwrap_or_default().chunks_exact(RECORD_BYTES);
    records.map(|record| u64::from_le_bytes(record[8..16].try_into().unwrap())).sum()
}

/// Returns pseudo-random content.
pub fn content(size_bytes: u64, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; size_bytes as usize];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// Returns content with zeros: in the middle of a chunk, across chunks, a whole chunk, and at the end.
pub fn content_with_zeros(size_bytes: u64, seed: u64) -> Vec<u8> {
    let mut bytes = content(size_bytes, seed);
    let last = size_bytes / PIECE;
    for pieces in [2..3, 5..6, 14..18, 30..50, last.saturating_sub(2)..last + 1] {
        let begin = (pieces.start * PIECE).min(size_bytes) as usize;
        let end = (pieces.end * PIECE).min(size_bytes) as usize;
        bytes[begin..end].fill(0);
    }
    bytes
}

/// Returns the number of bytes in pieces that consist of zeros.
pub fn zeros_in(bytes: &[u8]) -> u64 {
    let pieces = bytes.chunks(PIECE as usize);
    pieces.filter(|piece| piece.iter().all(|byte| *byte == 0)).map(|piece| piece.len() as u64).sum()
}

/// Returns a sector with an MBR with one partition.
pub fn table(disk_number: u8) -> [u8; 512] {
    let mut sector = [0; 512];
    sector[440] = disk_number;
    sector[446..462].copy_from_slice(&[0, 0, 2, 0, 0x83, 0, 3, 0, 1, 0, 0, 0, 0, 16, 0, 0]);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// Writes a file in which zeros are holes.
pub fn write_sparse(path: &Path, bytes: &[u8]) {
    let file = File::create(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (index, piece) in bytes.chunks(PIECE as usize).enumerate() {
        if piece.iter().any(|byte| *byte != 0) {
            file.write_all_at(piece, index as u64 * PIECE).unwrap();
        }
    }
}

/// Returns the digest that `b3sum` prints.
pub fn b3sum(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Returns the digest of the first bytes of a file or device.
pub fn b3sum_of(path: &Path, size_bytes: u64) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path).unwrap().take(size_bytes)).unwrap();
    hasher.finalize().to_hex().to_string()
}

/// Fails unless all bytes are equal, and names the offset of the first difference.
#[track_caller]
pub fn assert_bytes(found: &[u8], expected: &[u8]) {
    assert_eq!(found.len(), expected.len(), "lengths");
    let differs = found.iter().zip(expected).position(|(one, other)| one != other);
    assert_eq!(differs, None, "where the first byte differs");
}

/// A file system on a disk of its own.
pub struct Mounted {
    pub at: PathBuf,
    pub disk: Option<Disk>,
}

impl Mounted {
    /// Creates a file system: `ext4`, `xfs`, `btrfs` or `tmpfs`.
    pub fn new(place: &Path, kind: &str) -> Self {
        Self::of_size(place, kind, 320 * MIB)
    }

    pub fn of_size(place: &Path, kind: &str, size_bytes: u64) -> Self {
        let at = place.join(format!("on {kind}"));
        fs::create_dir(&at).unwrap();
        if kind == "tmpfs" {
            let size = format!("size={size_bytes}");
            tool("mount", ["-t", "tmpfs", "-o", &size, "none", at.to_str().unwrap()]);
            return Self { at, disk: None };
        }
        let disk = Disk::empty(place, &format!("{kind} disk"), size_bytes, 512);
        make_file_system(kind, &disk.path);
        Self::mount(at, disk)
    }

    /// Mounts an existing file system.
    pub fn mount(at: PathBuf, disk: Disk) -> Self {
        fs::create_dir_all(&at).unwrap();
        tool("mount", [disk.path.as_os_str(), at.as_os_str()]);
        Self { at, disk: Some(disk) }
    }

    /// Unmounts the file system, and returns its mount point and disk.
    pub fn unmount(mut self) -> (PathBuf, Disk) {
        tool("umount", [&self.at]);
        (self.at.clone(), self.disk.take().unwrap())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--quiet").arg(&self.at).status();
    }
}

/// Makes a file system on a device.
pub fn make_file_system(kind: &str, device: &Path) {
    let force = if kind == "ext4" { "-F" } else { "-f" };
    tool(&format!("mkfs.{kind}"), [OsStr::new("-q"), OsStr::new(force), device.as_os_str()]);
}

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Here,
    Push,
    Pull,
    HostToHost,
}

impl Way {
    pub const ALL: [Way; 4] = [Way::Here, Way::Push, Way::Pull, Way::HostToHost];

    /// Returns source and target as they are typed.
    pub fn typed(self, host: &Host, source: &Path, target: &Path) -> [OsString; 2] {
        let here = |path: &Path| path.as_os_str().to_owned();
        match self {
            Way::Here => [here(source), here(target)],
            Way::Push => [here(source), host.at(target)],
            Way::Pull => [host.at(source), here(target)],
            Way::HostToHost => [host.at(source), host.at_another(target)],
        }
    }
}

impl Ran {
    /// Returns a number of bytes from the report.
    pub fn bytes(&self, name: &str) -> u64 {
        self.report["bytes"][name].as_u64().unwrap()
    }

    /// Fails unless the report says that all of this content was copied.
    #[track_caller]
    pub fn assert_copied(&self, content: &[u8]) {
        assert_eq!(self.report["outcome"], "done", "{:#}", self.report);
        assert_eq!(self.report["digest_blake3"], b3sum(content), "{:#}", self.report);
        let zeros = zeros_in(content);
        assert_eq!(self.bytes("zeros_skipped"), zeros, "{:#}", self.report);
        assert_eq!(self.bytes("target_written"), content.len() as u64 - zeros, "{:#}", self.report);
        assert_eq!(self.report["bytes_done"], content.len() as u64, "{:#}", self.report);
        assert_eq!(self.report["resumed"], false);
    }
}
