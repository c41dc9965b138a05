//! The program that is uploaded to a host without hakobu.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use sha2::{Digest as _, Sha256};

use hakobu_core::stopping;

use super::answer::wait_for;

/// Architectures by their number in an ELF header, with their names in `uname -m`. All are little-endian.
const MACHINES: [(u16, &str); 4] = [(62, "x86_64"), (183, "aarch64"), (243, "riscv64"), (21, "ppc64le")];
/// The bytes read and sent at once: the capacity of a pipe.
const PIECE_BYTES: usize = 64 * 1024;
/// More program headers than any program has.
const MAX_HEADERS: u16 = 256;

/// Returns the file name of the static build for an architecture: `hakobu-static-x86_64`.
#[must_use]
pub fn static_name(machine: &str) -> String {
    format!("hakobu-static-{machine}")
}

/// Returns the static programs that can be uploaded, for [`SshSettings::uploads`](super::SshSettings::uploads): `exe`
/// itself (the running program's path) if it is static, then `hakobu-static-MACHINE` beside it, in `../dist`, and in
/// `dist` beside the build directory. Files with that name that are not static, or for another architecture, are
/// omitted.
#[must_use]
pub fn find_uploads(exe: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if matches!(inspect(exe), Ok(Some(elf)) if elf.is_static) {
        found.push(exe.to_owned());
    }
    let beside = exe.parent().unwrap_or(Path::new("."));
    let places = [beside.to_owned(), beside.join("../dist"), beside.join("../../dist")];
    for place in places {
        for (_, machine) in MACHINES {
            let path = place.join(static_name(machine));
            if matches!(inspect(&path), Ok(Some(elf)) if elf.is_static && elf.machine == machine) {
                found.push(path);
            }
        }
    }
    found
}

/// The relevant fields of an ELF header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Elf {
    /// The architecture as in `uname -m`, or "another" if it is unknown.
    pub machine: &'static str,
    /// True if the program needs no loader.
    pub is_static: bool,
}

/// Reads a file's ELF header. Returns `None` if it has none, as a script.
pub(super) fn inspect(path: &Path) -> io::Result<Option<Elf>> {
    let file = File::open(path)?;
    let mut head = [0; 64];
    match file.read_exact_at(&mut head, 0) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    if !head.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let number = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let mut elf = Elf { machine: "another", is_static: false };
    // All known architectures are 64-bit and little-endian.
    if head[4..6] != [2, 1] {
        return Ok(Some(elf));
    }
    if let Some((_, name)) = MACHINES.iter().find(|(code, _)| *code == number(18)) {
        elf.machine = name;
    }
    let mut table = [0; 8];
    table.copy_from_slice(&head[32..40]);
    let (entry_bytes, count) = (number(54), number(56).min(MAX_HEADERS));
    elf.is_static = count > 0;
    for index in 0..count {
        let offset = u64::from(entry_bytes) * u64::from(index);
        let mut kind = [0; 4];
        let at = u64::from_le_bytes(table).saturating_add(offset);
        file.read_exact_at(&mut kind, at)?;
        // PT_INTERP names the loader.
        elf.is_static &= u32::from_le_bytes(kind) != 3;
    }
    Ok(Some(elf))
}

/// A program that is about to be sent.
pub(super) struct Parcel {
    file: File,
    size_bytes: u64,
    sha256: String,
}

impl Parcel {
    /// Opens and hashes the program.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let (size_bytes, sha256) = sha256(&mut file)?;
        file.rewind()?;
        Ok(Self { file, size_bytes, sha256 })
    }

    /// Sends the line that announces the program, and then the program. `limit` applies to each piece, not to the
    /// whole: a slow link may take its time, a dead one may not.
    ///
    /// If the remote side stopped reading, that is not an error here, because its output states the reason. An exceeded
    /// limit is [`ErrorKind::TimedOut`].
    pub(super) fn send(&mut self, to: &mut ChildStdin, limit: Duration) -> io::Result<()> {
        let announcement = format!("{} {}\n", self.size_bytes, self.sha256).into_bytes();
        let mut piece = vec![0; PIECE_BYTES];
        let mut left = self.size_bytes;
        let mut sent = send_all(to, &announcement, limit);
        while sent.is_ok() && left > 0 {
            let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
            let piece = &mut piece[..wanted];
            // If the file shrinks meanwhile, this fails, and the remote side never runs an incomplete program.
            self.file.read_exact(piece)?;
            left -= wanted as u64;
            sent = send_all(to, piece, limit);
        }
        match sent {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }
}

/// Writes all of `bytes`, waiting at most `limit` each time the pipe is full. The total time is limited by `limit` and
/// a minimum rate.
pub(super) fn send_all(to: &mut ChildStdin, mut bytes: &[u8], limit: Duration) -> io::Result<()> {
    let flags = fcntl_getfl(&*to)?;
    fcntl_setfl(&*to, flags | OFlags::NONBLOCK)?;
    let mut outcome = Ok(());
    let deadline = Instant::now() + limit + stopping::time_for(bytes.len() as u64);
    while outcome.is_ok() && !bytes.is_empty() {
        outcome = match to.write(bytes) {
            Ok(0) => Err(ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = bytes.get(count..).unwrap_or_default();
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                match wait_for(&*to, PollFlags::OUT, deadline.min(Instant::now() + limit)) {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(ErrorKind::TimedOut.into()),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
    }
    fcntl_setfl(&*to, flags)?;
    outcome
}

/// Returns the size in bytes and the SHA-256 in hexadecimal, as `sha256sum` on the remote host prints it.
fn sha256(from: &mut impl Read) -> io::Result<(u64, String)> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut size_bytes = 0;
    loop {
        let count = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(piece.get(..count).unwrap_or_default());
        size_bytes += count as u64;
    }
    let hex = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((size_bytes, hex))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the header of a program for `machine`, with or without a loader.
    fn program(machine: u16, loader: bool) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = 2;
        for kind in [1_u32, if loader { 3 } else { 2 }] {
            bytes.extend_from_slice(&kind.to_le_bytes());
            bytes.resize(bytes.len() + 52, 0);
        }
        bytes
    }

    #[test]
    fn only_static_programs_are_found_and_each_under_its_own_machine() {
        let tree = tempfile::tempdir().unwrap();
        let built = tree.path().join("target/release");
        let dist = tree.path().join("dist");
        std::fs::create_dir_all(&built).unwrap();
        std::fs::create_dir_all(&dist).unwrap();
        let exe = built.join("hakobu");
        let arm = dist.join(static_name("aarch64"));
        std::fs::write(&exe, program(62, true)).unwrap();
        std::fs::write(&arm, program(183, false)).unwrap();
        std::fs::write(dist.join(static_name("x86_64")), program(62, true)).unwrap();
        std::fs::write(dist.join(static_name("riscv64")), program(62, false)).unwrap();
        let found = find_uploads(&exe);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].canonicalize().unwrap(), arm.canonicalize().unwrap());

        std::fs::write(&exe, program(62, false)).unwrap();
        assert_eq!(find_uploads(&exe)[0], exe);
    }

    #[test]
    fn damaged_headers_are_errors_or_nothing_and_never_static() {
        let tree = tempfile::tempdir().unwrap();
        let path = tree.path().join("x");
        let whole = program(62, false);
        for length in 0..whole.len() - 52 {
            std::fs::write(&path, &whole[..length]).unwrap();
            let elf = inspect(&path);
            assert!(!matches!(elf, Ok(Some(elf)) if elf.is_static), "{length}");
        }
        let mut far_table = whole;
        far_table[32..40].fill(0xff);
        std::fs::write(&path, far_table).unwrap();
        assert!(inspect(&path).is_err());
    }

    #[test]
    fn the_digest_is_what_sha256sum_prints() {
        let (size_bytes, digest) = sha256(&mut &b"abc"[..]).unwrap();
        assert_eq!(size_bytes, 3);
        assert_eq!(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
