//! Real block devices for tests: loop devices over files, and what can be done with them. All of
//! it takes root.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;

static ATTACHING: Mutex<()> = Mutex::new(());

/// A loop device over a file, both gone when it is dropped.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    file: PathBuf,
    _directory: Option<TempDir>,
}

impl LoopDevice {
    /// A device of this size, all zeros.
    ///
    /// # Errors
    /// When there is no room, or losetup fails; its words are in the error.
    pub fn new(size_bytes: u64) -> io::Result<Self> {
        Self::with_options(size_bytes, &[])
    }

    /// As [`LoopDevice::new`], with options of losetup: `--sector-size 4096`, `--read-only`,
    /// `--partscan`.
    ///
    /// # Errors
    /// As [`LoopDevice::new`].
    pub fn with_options(size_bytes: u64, options: &[&str]) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("hakobu-loop-").tempdir()?;
        let file = directory.path().join("image");
        File::create_new(&file)?.set_len(size_bytes)?;
        let mut device = Self::over(&file, options)?;
        device._directory = Some(directory);
        Ok(device)
    }

    /// A device over a file, or over another device, that stays.
    ///
    /// # Errors
    /// As [`LoopDevice::new`].
    pub fn over(file: &Path, options: &[&str]) -> io::Result<Self> {
        // losetup opens a free device to set it up, which must not be one that a test just got.
        let _one = ATTACHING.lock().unwrap_or_else(PoisonError::into_inner);
        let output = Command::new("losetup").args(["--find", "--show"]).args(options).arg(file).output()?;
        let path = PathBuf::from(stdout("losetup", &output)?.trim());
        Ok(Self { path, file: file.to_path_buf(), _directory: None })
    }

    /// The device's node.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the kernel know the partitions that are on it, also a kernel that reads no tables by
    /// itself. The device has to be made with `--partscan`.
    ///
    /// # Errors
    /// When partx fails; its words are in the error.
    pub fn update_partitions(&self) -> io::Result<()> {
        run("partx", &["--update"], &self.path).map(drop)
    }

    /// The node of a partition.
    pub fn partition(&self, number: u32) -> PathBuf {
        self.path.with_file_name(format!("{}p{number}", self.name()))
    }

    /// The kernel's name.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The file behind it.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).output();
    }
}

/// Something that is undone by a command.
#[derive(Debug)]
pub struct Undo {
    program: &'static str,
    argument: PathBuf,
}

impl Drop for Undo {
    fn drop(&mut self) {
        let _ = Command::new(self.program).arg(&self.argument).output();
    }
}

/// Mounts a device, until what is given back is dropped.
///
/// # Errors
/// When mount fails; its words are in the error.
pub fn mount(device: &Path, directory: &Path, options: &[&str]) -> io::Result<Undo> {
    let output = Command::new("mount").args(options).arg(device).arg(directory).output()?;
    stdout("mount", &output)?;
    Ok(Undo { program: "umount", argument: directory.to_path_buf() })
}

/// Swaps to a device, until what is given back is dropped.
///
/// # Errors
/// When swapon fails; its words are in the error.
pub fn swap_on(device: &Path) -> io::Result<Undo> {
    stdout("swapon", &Command::new("swapon").arg(device).output()?)?;
    Ok(Undo { program: "swapoff", argument: device.to_path_buf() })
}

/// Runs a program that must succeed, such as `mkfs.ext4`; gives what it printed.
///
/// # Errors
/// When it is not there or fails; its words are in the error.
pub fn run(program: &str, arguments: &[&str], device: &Path) -> io::Result<String> {
    let output = Command::new(program).args(arguments).arg(device).output();
    stdout(program, &output.map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?)
}

fn stdout(program: &str, output: &Output) -> io::Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(format!("{program} failed: {words}")))
}
