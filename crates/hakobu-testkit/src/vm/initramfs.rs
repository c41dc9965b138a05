//! Builds the initial file system of a virtual machine, an archive. Neither root nor an archiver is needed.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CONSOLE: u32 = 0o020_600;

/// An archive in cpio's `newc` format, which the kernel unpacks.
#[derive(Debug, Clone, Default)]
pub struct Initramfs {
    bytes: Vec<u8>,
    there: BTreeSet<PathBuf>,
}

impl Initramfs {
    /// Creates an archive with mount points and a console.
    pub fn new() -> Self {
        let mut new = Self::default();
        for path in ["/proc", "/sys", "/run", "/tmp", "/state", "/mnt", "/etc"] {
            new.directory(Path::new(path));
        }
        new.directory(Path::new("/dev"));
        new.entry(Path::new("/dev/console"), CONSOLE, (5, 1), &[]);
        new
    }

    /// Adds an executable file with this content, and its parent directories.
    pub fn file(&mut self, path: impl AsRef<Path>, content: &[u8]) {
        let path = path.as_ref();
        if self.there.insert(path.to_path_buf()) {
            path.parent().iter().for_each(|parent| self.directory(parent));
            self.entry(path, PROGRAM, (0, 0), content);
        }
    }

    /// Adds a file of this machine, and the libraries that it is linked with at their paths.
    ///
    /// # Errors
    /// If it does not exist, or ldd is not installed.
    pub fn program(&mut self, path: &Path, to: impl AsRef<Path>) -> io::Result<()> {
        self.file(to, &read(path)?);
        // For a static program ldd fails, and there is nothing to add.
        let output = Command::new("ldd").arg(path).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
            let library = Path::new(library.trim_end_matches(':'));
            self.file(library, &read(library)?);
        }
        Ok(())
    }

    /// Returns the complete archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry(Path::new("/TRAILER!!!"), 0, (0, 0), &[]);
        self.bytes
    }

    fn directory(&mut self, path: &Path) {
        if path == Path::new("/") || !self.there.insert(path.to_path_buf()) {
            return;
        }
        path.parent().iter().for_each(|parent| self.directory(parent));
        self.entry(path, DIRECTORY, (0, 0), &[]);
    }

    fn entry(&mut self, path: &Path, mode: u32, device: (u32, u32), content: &[u8]) {
        let name = path.as_os_str().as_bytes();
        let name = name.strip_prefix(b"/").unwrap_or(name);
        // The inode number, mode, owner, group, number of links, time, size, device of the file system, device number
        // of a node, length of the name, checksum.
        let inode = u32::try_from(self.there.len()).unwrap_or(0);
        let sizes = [content.len(), name.len() + 1].map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        let fields = [inode, mode, 0, 0, 1, 0, sizes[0], 0, 0, device.0, device.1, sizes[1], 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// Reads a file of this machine; the error contains its path.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
