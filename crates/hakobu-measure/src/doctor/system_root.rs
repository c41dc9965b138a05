//! Reads files below a root directory, with limits. Files of the kernel are small, but other files may have any size.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hakobu_core::host::HostFacts;

/// The maximum number of bytes read from a file.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// The maximum number of entries read from a directory.
const ENTRIES_MAX: usize = 4096;

/// The root directory of the system.
pub(super) struct SystemRoot<'a>(&'a Path);

impl<'a> SystemRoot<'a> {
    pub fn new(root: &'a Path) -> Self {
        Self(root)
    }

    /// Returns the path below the root for a path of the system, such as `/proc/mounts`.
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// Returns the text of a file without surrounding white space. Invalid UTF-8 is replaced.
    pub fn read(&self, path: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        File::open(self.path(path))?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Reads a file like [`SystemRoot::read`]; returns `None` if that fails.
    pub fn text(&self, path: &str) -> Option<String> {
        self.read(path).ok().filter(|text| !text.is_empty())
    }

    /// Reads a file like [`SystemRoot::text`], and records it if it exists but this login may not read it.
    pub fn text_or_note(&self, path: &str, facts: &mut HostFacts) -> Option<String> {
        match self.read(path) {
            Ok(text) => Some(text).filter(|text| !text.is_empty()),
            Err(error) => {
                note(path, &error, facts);
                None
            }
        }
    }

    /// Returns the number in a file.
    pub fn number<N: std::str::FromStr>(&self, path: &str) -> Option<N> {
        self.text(path)?.parse().ok()
    }

    /// Returns true if the path exists; symbolic links are followed.
    pub fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Returns the sorted names in a directory; none if it cannot be read.
    pub fn names(&self, path: &str) -> Vec<String> {
        self.entries(path).unwrap_or_default()
    }

    fn entries(&self, path: &str) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.path(path))?.flatten().take(ENTRIES_MAX);
        let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }
}

fn note(path: &str, error: &io::Error, facts: &mut HostFacts) {
    if error.kind() == io::ErrorKind::PermissionDenied {
        facts.unread(format!("{path}: this login may not read it (root may)"));
    }
}

/// Recorded trees for tests.
#[cfg(test)]
pub(super) mod recorded {
    use std::net::IpAddr;
    use std::path::Path;

    use hakobu_core::host::{HostFacts, Offloads, PacketBuffers, QueueDiscipline, WayOut};
    use tempfile::TempDir;

    use super::super::device::Hardware;

    /// Creates a tree with these files.
    pub fn tree(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        add(root.path(), files);
        root
    }

    pub fn add(root: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    /// A kernel that reports nothing beyond the files.
    pub struct SilentKernel;

    impl Hardware for SilentKernel {
        fn way_out(&self, _: IpAddr) -> Option<WayOut> {
            None
        }

        fn queues(&self, _: &str) -> Vec<QueueDiscipline> {
            Vec::new()
        }

        fn offloads(&self, _: &[u8]) -> Option<Offloads> {
            None
        }

        fn receive_ring(&self, _: &[u8]) -> Option<PacketBuffers> {
            None
        }
    }

    /// Returns the facts of a machine with these files.
    pub fn facts(files: &[(&str, &str)], toward: Option<&str>) -> HostFacts {
        let toward: Option<IpAddr> = toward.map(|address| address.parse().unwrap());
        super::super::read(tree(files).path(), &SilentKernel, toward, None)
    }
}
