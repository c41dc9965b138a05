//! Real block devices for tests: loop devices over files, with mounts and swap. Everything here requires root.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;

static ATTACHING: Mutex<()> = Mutex::new(());

/// A loop device over a file. Dropping it removes both.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    file: PathBuf,
    _directory: Option<TempDir>,
}

impl LoopDevice {
    /// Creates a device of this size, filled with zeros.
    ///
    /// # Errors
    /// If there is not enough space, or losetup fails; the error contains its message.
    pub fn new(size_bytes: u64) -> io::Result<Self> {
        Self::with_options(size_bytes, &[])
    }

    /// Creates a device like [`LoopDevice::new`], with options of losetup: `--sector-size 4096`, `--read-only`,
    /// `--partscan`.
    ///
    /// # Errors
    /// The errors of [`LoopDevice::new`].
    pub fn with_options(size_bytes: u64, options: &[&str]) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("hakobu-loop-").tempdir()?;
        let file = directory.path().join("image");
        File::create_new(&file)?.set_len(size_bytes)?;
        let mut device = Self::over(&file, options)?;
        device._directory = Some(directory);
        Ok(device)
    }

    /// Creates a device over an existing file or device, which is kept.
    ///
    /// # Errors
    /// The errors of [`LoopDevice::new`].
    pub fn over(file: &Path, options: &[&str]) -> io::Result<Self> {
        // losetup first finds a free device and then sets it up. Another test must not get the same one in between.
        let _one = ATTACHING.lock().unwrap_or_else(PoisonError::into_inner);
        let output = Command::new("losetup").args(["--find", "--show"]).args(options).arg(file).output()?;
        let path = PathBuf::from(stdout("losetup", &output)?.trim());
        Ok(Self { path, file: file.to_path_buf(), _directory: None })
    }

    /// Returns the path of the device node.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the kernel aware of the partitions on the device, even if the kernel cannot read partition tables
    /// itself. The device must have been created with `--partscan`.
    ///
    /// # Errors
    /// If partx fails; the error contains its message.
    pub fn update_partitions(&self) -> io::Result<()> {
        run("partx", &["--update"], &self.path).map(drop)
    }

    /// Returns the path of a partition's node.
    pub fn partition(&self, number: u32) -> PathBuf {
        self.path.with_file_name(format!("{}p{number}", self.name()))
    }

    /// Returns the kernel's name of the device.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the path of the backing file.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).output();
    }
}

/// A state that a command undoes on drop.
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

/// Mounts a device until the returned value is dropped.
///
/// # Errors
/// If mount fails; the error contains its message.
pub fn mount(device: &Path, directory: &Path, options: &[&str]) -> io::Result<Undo> {
    let output = Command::new("mount").args(options).arg(device).arg(directory).output()?;
    stdout("mount", &output)?;
    Ok(Undo { program: "umount", argument: directory.to_path_buf() })
}

/// Enables swap on a device until the returned value is dropped.
///
/// # Errors
/// If swapon fails; the error contains its message.
pub fn swap_on(device: &Path) -> io::Result<Undo> {
    stdout("swapon", &Command::new("swapon").arg(device).output()?)?;
    Ok(Undo { program: "swapoff", argument: device.to_path_buf() })
}

/// Runs a program that must succeed, such as `mkfs.ext4`. Returns its output.
///
/// # Errors
/// If it is not installed or fails; the error contains its message.
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
