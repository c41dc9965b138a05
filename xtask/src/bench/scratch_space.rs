//! The scratch space of one bench: its directories, sources and warmed memory, and their removal.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail, ensure};
use hakobu_measure::memory::available_bytes;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::content;
use super::loops::detach_below;
use super::sources::{BenchSource, GIB, Medium};

/// The tmpfs that every Linux has.
const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "hakobu-bench-";
const TARGETS: &str = "targets";
/// The directory of installed tools, on both PATHs.
pub const INSTALLED_BIN: &str = "bin";
/// The folder of buckets in memory.
pub const STORE_FOLDER: &str = "store";
/// The bucket of all objects.
pub const BUCKET: &str = "bench";
/// Memory in bytes that is left for the measured programs and other processes.
const SPARE_BYTES: u64 = 3 * GIB;

/// The scratch directories of a bench: data in memory, programs on disk. Dropping it removes both.
#[derive(Debug)]
pub struct ScratchSpace {
    data: PathBuf,
    tools: PathBuf,
    /// Installed tools. They stay for the next bench.
    installed: PathBuf,
    interrupted: Arc<AtomicBool>,
}

impl ScratchSpace {
    /// Creates the directories, removes those of benches that were killed, and watches for signals to end.
    ///
    /// # Errors
    /// Returns an error if a directory cannot be created or a signal cannot be watched.
    pub fn open(target_dir: &Path) -> Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted)).context("watching for signals")?;
        }
        sweep(Path::new(MEMORY));
        sweep(target_dir);
        let name = format!("{PREFIX}{}", std::process::id());
        let scratch = Self {
            data: Path::new(MEMORY).join(&name),
            tools: target_dir.join(&name),
            installed: target_dir.join("bench-tools"),
            interrupted,
        };
        for path in [&scratch.data, &scratch.tools, &scratch.installed] {
            fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
        }
        Ok(scratch)
    }

    /// Returns the directory for programs and logs.
    pub fn tools(&self) -> &Path {
        &self.tools
    }

    /// Returns the directory for installed tools, which stay for the next bench.
    pub fn installed(&self) -> &Path {
        &self.installed
    }

    /// Returns true if the user has interrupted.
    pub fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Checks for an interruption by the user.
    ///
    /// # Errors
    /// Returns an error if there was one.
    pub fn go_on(&self) -> Result<()> {
        if self.interrupted() {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Checks that the missing sources and a target fit into memory. tmpfs accepts more than there is, and then the
    /// kernel kills processes.
    ///
    /// # Errors
    /// Returns an error if they do not fit.
    pub fn check_room(&self, sources: &[BenchSource], target_bytes: u64) -> Result<()> {
        let missing = sources.iter().filter(|source| !self.source_path(**source).exists());
        let needed = missing.map(|source| source.memory_bytes()).sum::<u64>() + target_bytes + SPARE_BYTES;
        let available = available_bytes().unwrap_or(0);
        let gib = |bytes: u64| bytes as f64 / GIB as f64;
        ensure!(
            needed <= available,
            "{:.1} GiB of memory are needed, {:.1} GiB are available: end what takes them, or choose other rows",
            gib(needed),
            gib(available)
        );
        Ok(())
    }

    /// Returns the path of a source, which is created if it does not exist.
    ///
    /// # Errors
    /// Returns the generator's error, most likely that memory is full.
    pub fn source(&self, source: BenchSource) -> Result<PathBuf> {
        let path = self.source_path(source);
        if !path.exists() {
            let directory = path.parent().unwrap_or(&self.data);
            fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
            content::make(source, &path).with_context(|| format!("making the source {source:?}"))?;
        }
        Ok(path)
    }

    /// Removes a source.
    pub fn forget(&self, source: BenchSource) {
        remove(&self.source_path(source));
        remove(&self.stored_path(source));
    }

    /// Returns the path at which the object store keeps a source.
    pub fn stored_path(&self, source: BenchSource) -> PathBuf {
        let path = self.source_path(source);
        bucket_folder(&self.data).join(path.file_name().unwrap_or_default())
    }

    /// Returns the path at which the object store keeps a target.
    pub fn stored_target(&self, name: &str) -> PathBuf {
        bucket_folder(&self.data).join(TARGETS).join(name)
    }

    fn source_path(&self, source: BenchSource) -> PathBuf {
        match source {
            BenchSource::File { bytes } => self.data.join(format!("file-{bytes}")),
            BenchSource::Tree { files, file_bytes, .. } => {
                self.data.join(format!("tree-{files}-{file_bytes}"))
            }
            BenchSource::Dressed { files, .. } => self.data.join(format!("dressed-{files}")),
            BenchSource::Mixed { small_files, .. } => {
                self.data.join(format!("mixed-{small_files}-{}", source.bytes()))
            }
            BenchSource::Disk { bytes, data_bytes, medium } => {
                self.root(medium).join(format!("disk-{bytes}-{data_bytes}"))
            }
            BenchSource::Image { bytes, data_bytes } => self.data.join(format!("image-{bytes}-{data_bytes}")),
            BenchSource::Made { bytes } => self.data.join(format!("made-{bytes}")),
        }
    }

    /// Returns the path of a target on a medium.
    pub fn target(&self, name: &str, medium: Medium) -> PathBuf {
        self.root(medium).join(TARGETS).join(name)
    }

    /// Returns the directory in memory that contains sources and targets.
    pub fn memory(&self) -> &Path {
        &self.data
    }

    /// Creates the directories of [`target`](Self::target)s, or empties them.
    ///
    /// # Errors
    /// Returns an error if they cannot be created.
    pub fn clear_targets(&self) -> Result<()> {
        remove(&bucket_folder(&self.data).join(TARGETS));
        for medium in [Medium::Memory, Medium::OwnDisk] {
            let path = self.root(medium).join(TARGETS);
            remove(&path);
            fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        }
        Ok(())
    }

    fn root(&self, medium: Medium) -> PathBuf {
        match medium {
            Medium::Memory => self.data.clone(),
            Medium::OwnDisk => self.tools.join("disk"),
        }
    }

    /// Makes the machine provide this much memory once, since the first write to untouched memory is far slower than
    /// later ones.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn warm(&self, bytes: u64) -> Result<()> {
        let path = self.data.join("warm");
        let written = content::fill(&path, bytes);
        remove(&path);
        written.context("warming memory")
    }

    /// Writes a shell script into a directory of tools.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn script(&self, directory: &str, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.tool_path(directory, name)?;
        fs::write(&path, format!("#!/bin/sh\n{text}\n"))
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o755)))
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    /// Copies a program into the directory for programs.
    ///
    /// # Errors
    /// Returns an error if it cannot be copied.
    pub fn take(&self, program: &Path, name: &str) -> Result<PathBuf> {
        let copied = self.tools.join(name);
        fs::copy(program, &copied).with_context(|| format!("copying {}", program.display()))?;
        Ok(copied)
    }

    /// Creates a symbolic link in a directory of tools, replacing what is there.
    ///
    /// # Errors
    /// Returns an error if it cannot be created.
    pub fn link(&self, directory: &str, name: &str, to: &Path) -> Result<()> {
        let path = self.tool_path(directory, name)?;
        remove(&path);
        symlink(to, &path).with_context(|| format!("making {}", path.display()))
    }

    fn tool_path(&self, directory: &str, name: &str) -> Result<PathBuf> {
        let directory = self.tools.join(directory);
        fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
        Ok(directory.join(name))
    }

    /// Returns the text with placeholders instead of this machine's paths.
    pub fn scrub(&self, text: &str) -> String {
        let text = text.replace(&self.data.display().to_string(), "$WORK");
        let text = text.replace(&self.tools.display().to_string(), "$TOOLS");
        let text = text.replace(&self.installed.display().to_string(), "$TOOLS");
        // The server's keys and settings are there.
        text.replace(&std::env::temp_dir().display().to_string(), "$TMP")
    }
}

impl Drop for ScratchSpace {
    fn drop(&mut self) {
        for path in [&self.data, &self.tools] {
            detach_below(path);
        }
        remove(&self.data);
        remove(&self.tools);
    }
}

/// Returns the folder with the objects of the bucket, each a file. It exists once a server has been started.
pub fn bucket_folder(memory: &Path) -> PathBuf {
    memory.join(STORE_FOLDER).join(BUCKET)
}

/// Removes a file or tree. Ignores errors: the next step fails if its target still exists.
pub fn remove(path: &Path) {
    let _ = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
}

/// Removes what benches left behind that were killed.
fn sweep(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            detach_below(&entry.path());
            remove(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_space_is_removed_with_those_of_killed_benches() {
        let around = std::env::temp_dir().join(format!("hakobu-scratch-test-{}", std::process::id()));
        // Process IDs end below this.
        let dead = around.join(format!("{PREFIX}4194999"));
        let stranger = around.join("hakobu-bench-notes");
        for path in [&dead, &stranger] {
            fs::create_dir_all(path).unwrap();
        }
        let scratch = ScratchSpace::open(&around).unwrap();
        let (data, tools) = (scratch.data.clone(), scratch.tools.clone());
        assert!(!dead.exists() && stranger.exists());
        let tree = BenchSource::Tree { files: 20, directories: 4, file_bytes: 100 };
        assert_eq!(fs::read_dir(scratch.source(tree).unwrap()).unwrap().count(), 4);
        scratch.forget(tree);
        assert!(!scratch.source_path(tree).exists());
        assert_eq!(fs::metadata(scratch.source(BenchSource::ONE_BYTE_FILE).unwrap()).unwrap().len(), 1);
        scratch.warm(3_000_000).unwrap();
        let script = scratch.script("bin", "five", "exit 5").unwrap();
        assert_eq!(std::process::Command::new(script).status().unwrap().code(), Some(5));
        assert_eq!(scratch.scrub(&format!("no {}/x", data.display())), "no $WORK/x");
        drop(scratch);
        assert!(!data.exists() && !tools.exists());
        fs::remove_dir_all(&around).unwrap();
    }
}
