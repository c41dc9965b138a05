//! File systems to copy from and to: real ones in images, full ones, read-only ones, and one that lies.
//!
//! To add one, add a variant of [`FileSystemKind`], its creation and mounting in [`mount`], and its capabilities in
//! `capabilities.rs`. Then `cargo xtask environment holds KIND` checks these.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use super::capabilities::{self, FileSystemCapabilities};
use super::fuse::Lies;
use super::leftovers;

/// A kind of file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileSystemKind {
    /// ext4 with its journal and 256-byte inodes, 512 MiB.
    Ext4,
    /// xfs, 512 MiB.
    Xfs,
    /// btrfs, 512 MiB.
    Btrfs,
    /// tmpfs, limited to 75 % of the memory.
    Tmpfs,
    /// overlayfs with both layers on one tmpfs.
    Overlay,
    /// EROFS with lz4, read-only; created by [`mount_read_only_of`].
    Erofs,
    /// squashfs, read-only; created by [`mount_read_only_of`].
    Squashfs,
    /// The lying file system (FUSE) over a directory of the scratch directory.
    Fuse(Lies),
    /// ext4 with 128-byte inodes: times in whole seconds, until 2038.
    Ext4Small,
    /// ext4 with space for about 24 MiB.
    FullBytes,
    /// tmpfs with 200 inodes.
    FullInodes,
    /// tmpfs with 16 MiB and 1000 inodes.
    SmallTmpfs,
    /// The smallest xfs, 300 MiB.
    SmallXfs,
    /// NTFS by ntfs-3g.
    Ntfs3g,
    /// exFAT by exfat-fuse.
    ExfatFuse,
}

impl FileSystemKind {
    /// Returns a short name for people and for counting. The lying file system is `fuse`, followed by its lies.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Fuse(lies) if lies.is_honest() => "fuse".to_owned(),
            Self::Fuse(lies) => format!("fuse {}", told(lies)),
            other => format!("{other:?}").to_lowercase(),
        }
    }

    /// Returns the kind with this name, as typed by hand. Lies are JSON after `fuse:`.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub fn parse(name: &str) -> anyhow::Result<Self> {
        Ok(match name {
            "ext4" => Self::Ext4,
            "xfs" => Self::Xfs,
            "btrfs" => Self::Btrfs,
            "tmpfs" => Self::Tmpfs,
            "overlay" => Self::Overlay,
            "erofs" => Self::Erofs,
            "squashfs" => Self::Squashfs,
            "fuse" => Self::Fuse(Lies::default()),
            "ext4small" => Self::Ext4Small,
            "fullbytes" => Self::FullBytes,
            "fullinodes" => Self::FullInodes,
            "smalltmpfs" => Self::SmallTmpfs,
            "smallxfs" => Self::SmallXfs,
            "ntfs3g" => Self::Ntfs3g,
            "exfatfuse" => Self::ExfatFuse,
            other => match other.strip_prefix("fuse:") {
                Some(lies) => Self::Fuse(serde_json::from_str(lies).context("lies")?),
                None => bail!("no file system is named {other}"),
            },
        })
    }

    /// Returns true for kinds that are created from a tree and cannot be written.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::Erofs | Self::Squashfs)
    }

    /// Returns true if [`MountedFileSystem::power_cut`] works.
    #[must_use]
    pub fn can_lose_power(&self) -> bool {
        matches!(self, Self::Ext4 | Self::Xfs | Self::Ext4Small)
    }
}

/// Describes lies in words.
fn told(lies: &Lies) -> String {
    let (Ok(all), Ok(none)) = (serde_json::to_value(lies), serde_json::to_value(Lies::default())) else {
        return "lies".to_owned();
    };
    let told =
        all.as_object().into_iter().flatten().filter(|(name, value)| none.get(name.as_str()) != Some(*value));
    told.map(|(name, value)| if value.is_boolean() { name.clone() } else { format!("{name}={value}") })
        .collect::<Vec<_>>()
        .join(",")
}

/// A mounted file system. Dropping it unmounts it, frees its loop device and removes its image.
#[derive(Debug)]
pub struct MountedFileSystem {
    kind: FileSystemKind,
    capabilities: FileSystemCapabilities,
    /// The directory of everything that belongs to it. Its name identifies the process that created it.
    folder: PathBuf,
    /// The mount point.
    point: PathBuf,
    /// The mount that contains the layers of an overlay.
    below: Option<PathBuf>,
    image: Option<PathBuf>,
    /// The type and options with which the image was mounted.
    mounted_as: (String, String),
    server: Option<Child>,
}

/// Mounts a new, empty file system below a scratch directory.
///
/// # Errors
/// Returns an error if a tool is missing (the text names its package), or creating or mounting fails.
pub fn mount(kind: &FileSystemKind, scratch: &Path) -> anyhow::Result<MountedFileSystem> {
    ensure!(!kind.is_read_only(), "{} is made of a tree: mount_read_only_of", kind.name());
    let mut new = MountedFileSystem::new(kind, scratch)?;
    match kind {
        FileSystemKind::Ext4 => {
            new.image(
                512,
                "mkfs.ext4",
                &["-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1"],
                "e2fsprogs",
            )?;
            new.mount_image("ext4", "")?;
        }
        FileSystemKind::Ext4Small => {
            new.image(128, "mkfs.ext4", &["-q", "-F", "-I", "128", "-E", "lazy_itable_init=1"], "e2fsprogs")?;
            new.mount_image("ext4", "")?;
        }
        FileSystemKind::FullBytes => {
            new.image(32, "mkfs.ext4", &["-q", "-F", "-m", "0", "-J", "size=4"], "e2fsprogs")?;
            new.mount_image("ext4", "")?;
        }
        FileSystemKind::SmallXfs => {
            new.image(300, "mkfs.xfs", &["-q", "-f"], "xfsprogs")?;
            new.mount_image("xfs", "")?;
        }
        FileSystemKind::Xfs => {
            new.image(512, "mkfs.xfs", &["-q", "-f"], "xfsprogs")?;
            new.mount_image("xfs", "")?;
        }
        FileSystemKind::Btrfs => {
            new.image(512, "mkfs.btrfs", &["-q", "-f"], "btrfs-progs")?;
            new.mount_image("btrfs", "")?;
        }
        FileSystemKind::Tmpfs => new.mount_tmpfs(&new.point, "size=75%,nr_inodes=0")?,
        FileSystemKind::FullInodes => new.mount_tmpfs(&new.point, "size=256m,nr_inodes=200")?,
        FileSystemKind::SmallTmpfs => new.mount_tmpfs(&new.point, "size=16m,nr_inodes=1000")?,
        FileSystemKind::Overlay => {
            let below = new.folder.join("layers");
            fs::create_dir(&below)?;
            new.below = Some(below.clone());
            new.mount_tmpfs(&below, "size=75%,nr_inodes=0")?;
            for layer in ["lower", "upper", "work"] {
                fs::create_dir(below.join(layer))?;
            }
            let at = below.display();
            let options = format!("lowerdir={at}/lower,upperdir={at}/upper,workdir={at}/work");
            run(
                Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options]).arg(&new.point),
                "mount",
            )?;
        }
        FileSystemKind::Fuse(lies) => new.mount_lying(lies)?,
        FileSystemKind::Ntfs3g => {
            new.image(64, "mkfs.ntfs", &["-F", "-q", "-f"], "ntfs-3g")?;
            new.mount_image("ntfs-3g", "permissions")?;
        }
        FileSystemKind::ExfatFuse => {
            new.image(64, "mkfs.exfat", &[], "exfatprogs")?;
            new.mount_image("exfat-fuse", "")?;
        }
        FileSystemKind::Erofs | FileSystemKind::Squashfs => {}
    }
    Ok(new)
}

/// Creates a compressed read-only file system from a tree and mounts it.
///
/// # Errors
/// Returns an error if a tool is missing (the text names its package), or creating or mounting fails.
pub fn mount_read_only_of(
    kind: &FileSystemKind,
    from: &Path,
    scratch: &Path,
) -> anyhow::Result<MountedFileSystem> {
    mount_read_only_at(kind, from, MountedFileSystem::new_folder(scratch)?)
}

/// Mounts like [`mount_read_only_of`], in a folder that an earlier mount may have had. To hakobu, a source at another
/// path is another job.
///
/// # Errors
/// The errors of [`mount_read_only_of`].
pub fn mount_read_only_at(
    kind: &FileSystemKind,
    from: &Path,
    folder: PathBuf,
) -> anyhow::Result<MountedFileSystem> {
    let mut new = MountedFileSystem::in_folder(kind, folder)?;
    let image = new.folder.join("image");
    match kind {
        FileSystemKind::Erofs => {
            let mut make = Command::new("mkfs.erofs");
            run(make.args(["-zlz4hc", "--quiet", "-x2"]).arg(&image).arg(from), "erofs-utils")?;
            new.image = Some(image);
            new.mount_image("erofs", "ro")?;
        }
        FileSystemKind::Squashfs => {
            let mut make = Command::new("mksquashfs");
            run(
                make.arg(from).arg(&image).args(["-noappend", "-quiet", "-no-progress", "-xattrs"]),
                "squashfs-tools",
            )?;
            new.image = Some(image);
            new.mount_image("squashfs", "ro")?;
        }
        other => bail!("{} is not read-only", other.name()),
    }
    Ok(new)
}

impl MountedFileSystem {
    /// Returns the folder with the image and the mount point, which is removed with the file system.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn new(kind: &FileSystemKind, scratch: &Path) -> anyhow::Result<Self> {
        Self::in_folder(kind, Self::new_folder(scratch)?)
    }

    fn new_folder(scratch: &Path) -> anyhow::Result<PathBuf> {
        let scratch =
            scratch.canonicalize().with_context(|| format!("scratch folder {}", scratch.display()))?;
        Ok(scratch.join(leftovers::new_name()))
    }

    fn in_folder(kind: &FileSystemKind, folder: PathBuf) -> anyhow::Result<Self> {
        let point = folder.join("mount");
        fs::create_dir_all(&point).with_context(|| format!("make {}", point.display()))?;
        let capabilities = capabilities::of(kind);
        let kind = kind.clone();
        Ok(Self {
            kind,
            capabilities,
            folder,
            point,
            below: None,
            image: None,
            mounted_as: Default::default(),
            server: None,
        })
    }

    /// Returns the mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.point
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> &FileSystemKind {
        &self.kind
    }

    /// Returns the capabilities.
    #[must_use]
    pub fn capabilities(&self) -> &FileSystemCapabilities {
        &self.capabilities
    }

    /// Returns the directory behind the lying file system, with the true state, or `None` for other kinds.
    #[must_use]
    pub fn backing(&self) -> Option<PathBuf> {
        matches!(self.kind, FileSystemKind::Fuse(_)).then(|| self.folder.join("backing"))
    }

    /// Loses everything that is not on the disk yet, as in a power failure, and mounts again. Processes with open files
    /// there must end within 20 s.
    ///
    /// # Errors
    /// Returns an error if the file system has no such operation or cannot be mounted again.
    pub fn power_cut(&mut self) -> anyhow::Result<()> {
        self.cut()?;
        self.remount()
    }

    /// Stops the file system as in a power failure: nothing more reaches the disk, and every call fails. To be followed
    /// by [`Self::remount`].
    ///
    /// # Errors
    /// Returns an error if the file system has no such operation.
    pub fn cut(&self) -> anyhow::Result<()> {
        ensure!(self.kind.can_lose_power(), "{} cannot be cut off", self.kind.name());
        // Without -f nothing is flushed, not even the journal.
        run(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(&self.point), "xfsprogs")
    }

    /// Returns true if [`Self::remount`] works.
    #[must_use]
    pub fn can_remount(&self) -> bool {
        self.image.is_some()
    }

    /// Unmounts and mounts again, so that only the content of the disk remains.
    ///
    /// # Errors
    /// Returns an error if it is not in an image, stays in use, or cannot be mounted again.
    pub fn remount(&mut self) -> anyhow::Result<()> {
        ensure!(self.can_remount(), "{} is in no image", self.kind.name());
        leftovers::unmount(&self.point);
        // While files are open the old mount holds the image, and a second mount would show the same file system.
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.loop_devices()? > 0 {
            ensure!(Instant::now() < deadline, "the image of {} is still in use", self.point.display());
            thread::sleep(Duration::from_millis(20));
        }
        let (file_system, options) = std::mem::take(&mut self.mounted_as);
        self.mount_image(&file_system, &options)
    }

    fn loop_devices(&self) -> anyhow::Result<usize> {
        let Some(image) = &self.image else { return Ok(0) };
        let said = Command::new("losetup").args(["-n", "-O", "NAME", "-j"]).arg(image).output()?;
        Ok(String::from_utf8_lossy(&said.stdout).lines().count())
    }

    fn image(&mut self, size_mib: u64, make: &str, words: &[&str], package: &str) -> anyhow::Result<()> {
        let image = self.folder.join("image");
        File::create(&image)?.set_len(size_mib << 20)?;
        run(Command::new(make).args(words).arg(&image), package)?;
        self.image = Some(image);
        Ok(())
    }

    /// Mounts the image on a loop device that disappears with the mount.
    fn mount_image(&mut self, file_system: &str, options: &str) -> anyhow::Result<()> {
        let image = self.image.as_ref().context("no image")?;
        let mut all = "loop".to_owned();
        for option in [options].into_iter().filter(|options| !options.is_empty()) {
            all.push(',');
            all.push_str(option);
        }
        run(
            Command::new("mount").args(["-t", file_system, "-o", &all]).arg(image).arg(&self.point),
            file_system,
        )?;
        self.mounted_as = (file_system.to_owned(), options.to_owned());
        Ok(())
    }

    fn mount_tmpfs(&self, at: &Path, options: &str) -> anyhow::Result<()> {
        run(Command::new("mount").args(["-t", "tmpfs", "tmpfs", "-o", options]).arg(at), "mount")
    }

    /// Starts the lying file system and waits until it is mounted.
    fn mount_lying(&mut self, lies: &Lies) -> anyhow::Result<()> {
        let backing = self.folder.join("backing");
        fs::create_dir(&backing)?;
        let lies = serde_json::to_string(lies)?;
        let words: [OsString; 5] =
            ["environment".into(), "lying-fs".into(), backing.into(), self.point.clone().into(), lies.into()];
        let program = std::env::current_exe().context("own program")?;
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::null());
        let server = self.server.insert(command.spawn().context("start the lying file system")?);
        let deadline = Instant::now() + Duration::from_secs(20);
        while !leftovers::mount_points()?.contains(&self.point) {
            if let Some(status) = server.try_wait()? {
                bail!("the lying file system ended: {status}");
            }
            ensure!(Instant::now() < deadline, "the lying file system does not come up");
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl Drop for MountedFileSystem {
    fn drop(&mut self) {
        leftovers::unmount(&self.point);
        if let Some(below) = &self.below {
            leftovers::unmount(below);
        }
        if let Some(server) = &mut self.server {
            // The server ends once it is unmounted, but not if a process keeps the mount busy.
            let _ = server.kill();
            let _ = server.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Runs a tool. If it is missing, the error names its package.
pub(super) fn run(command: &mut Command, package: &str) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let said = command.stdin(Stdio::null()).output();
    let said = said.with_context(|| format!("run {name} (of the Debian package {package})"))?;
    if !said.status.success() {
        let error = String::from_utf8_lossy(&said.stderr);
        bail!("{name} {:?}: {}: {}", command.get_args().collect::<Vec<_>>(), said.status, error.trim());
    }
    Ok(())
}
