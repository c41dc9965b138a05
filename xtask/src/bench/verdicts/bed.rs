//! The two ends of a stage, with one resource slowed down.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hakobu_measure::generate::{self, FileSpec, SizeDistribution, TreeSpec};
use hakobu_testkit::devices::{self, LoopDevice, Undo};
use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::{Sshd, SshdOptions};
use hakobu_testkit::sshfs::Sshfs;
use hakobu_testkit::throttle::{Throttle, ThrottledAccess};

use super::super::workshop::{Workshop, remove};
use super::stages::{Content, DISK_BYTES_PER_SECOND, PROCESSOR_PERCENT, Slow};

/// The time that processes at the far end have to exit after the near end.
const SESSIONS_END_LIMIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Space in bytes beyond the copied data, for the file system itself.
const DISK_SPARE_BYTES: u64 = 64 << 20;

/// Two ends; hakobu is started at the near one. Dropping it removes everything.
pub struct Bed {
    program: PathBuf,
    source: PathBuf,
    target: PathBuf,
    /// True if the target is reached through ssh.
    apart: bool,
    /// The path of the report.
    pub report: PathBuf,
    // Fields are dropped in this order.
    mounted: Option<Sshfs>,
    disk: Option<Disk>,
    near: Option<Throttle>,
    far: Option<Throttle>,
    sshd: Sshd,
    link: Option<Link>,
}

/// An ext4 file system in memory, on a slow device.
struct Disk {
    at: PathBuf,
    mounted: Option<Undo>,
    device: LoopDevice,
}

impl Bed {
    /// Creates the ends and the content, and slows down one resource.
    ///
    /// # Errors
    /// Returns an error if something cannot be set up; root is needed.
    pub fn up(shop: &Workshop, program: &Path, slow: Slow, content: Content) -> Result<Self> {
        let memory = shop.memory();
        let place = |name: &str| -> Result<PathBuf> {
            let path = memory.join(name);
            remove(&path);
            fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
            Ok(path)
        };
        let (sources, targets, seen) = (place("source")?, place("target")?, place("seen")?);
        let link = settings(slow).map(Link::up).transpose().context("bringing up a link")?;
        let far = link.as_ref().map(Link::far);
        if let (Slow::Window, Some(far)) = (slow, far) {
            far.set_parameter("ipv4/tcp_rmem", "4096 131072 262144")?;
        }
        let usual = SshdOptions::default();
        let sshd = Sshd::start(&SshdOptions {
            address: far.map_or(usual.address, |far| IpAddr::V4(far.address())),
            netns: far.map(|far| far.name().to_owned()),
            path_dirs: program.parent().map(Path::to_owned).into_iter().collect(),
            ..usual
        })
        .context("starting sshd")?;
        let mut bed = Self {
            program: program.to_owned(),
            source: sources.join("content"),
            target: targets.join("content"),
            apart: !matches!(slow, Slow::SourceServer | Slow::TargetServer | Slow::ServerRate),
            report: memory.join("report.json"),
            mounted: None,
            disk: None,
            near: None,
            far: None,
            sshd,
            link,
        };
        let size_bytes = bytes_of(content) * 5 / 4 + DISK_SPARE_BYTES;
        if slow == Slow::SourceRead {
            bed.source = bed.disk.insert(Disk::new(memory, seen.clone(), size_bytes)?).at.join("content");
        }
        make(&bed.source, content)?;
        match slow {
            Slow::Network | Slow::Window => {}
            Slow::SourceRead => bed.near = bed.throttled(ThrottledAccess::Read)?,
            Slow::SourceProcessor => bed.near = Some(Throttle::processor(PROCESSOR_PERCENT)?),
            Slow::TargetProcessor => bed.far = Some(Throttle::processor(PROCESSOR_PERCENT)?),
            Slow::TargetWrite => {
                bed.target = bed.disk.insert(Disk::new(memory, seen, size_bytes)?).at.join("content");
                bed.far = bed.throttled(ThrottledAccess::Write)?;
            }
            Slow::SourceServer | Slow::ServerRate => {
                bed.mounted = Some(bed.mount(&seen, &sources)?);
                bed.source = seen.join("content");
            }
            Slow::TargetServer => {
                bed.mounted = Some(bed.mount(&seen, &targets)?);
                bed.target = seen.join("content");
            }
        }
        if let Some(far) = &bed.far {
            far.add(bed.sshd.id()).context("slowing down sshd")?;
        }
        Ok(bed)
    }

    fn throttled(&self, access: ThrottledAccess) -> Result<Option<Throttle>> {
        let throttled = |disk: &Disk| Throttle::disk(disk.device.path(), access, DISK_BYTES_PER_SECOND);
        self.disk.as_ref().map(throttled).transpose().context("slowing down a disk")
    }

    fn mount(&self, at: &Path, directory: &Path) -> Result<Sshfs> {
        let netns = self.link.as_ref().map(|link| link.near().name());
        Sshfs::mount(at, &self.sshd, directory, netns).context("mounting over sshfs (apt install sshfs)")
    }

    /// Returns the command for one run, after restoring the target's initial state.
    ///
    /// # Errors
    /// Returns an error if the far end still runs or a disk cannot be remounted.
    pub fn command(&mut self, content: Content) -> Result<Command> {
        let deadline = Instant::now() + SESSIONS_END_LIMIT;
        while self.apart && !self.sshd.processes().is_empty() {
            ensure!(
                Instant::now() < deadline,
                "the far side still runs {SESSIONS_END_LIMIT:?} after the near one"
            );
            sleep(LOOK_EVERY);
        }
        remove(&self.target);
        remove(&self.report);
        if let Some(disk) = &mut self.disk {
            // Remounting removes its content from the page cache.
            disk.mount()?;
        }
        let mut command = match (&self.near, &self.link) {
            (Some(throttle), _) => throttle.command(&self.program.to_string_lossy()),
            (None, Some(link)) if self.apart => link.near().command(&self.program),
            _ => Command::new(&self.program),
        };
        let mut target = self.target.display().to_string();
        if self.apart {
            target = format!("{}:{target}", self.sshd.host());
        }
        let end = if matches!(content, Content::Tree { .. }) { "/" } else { "" };
        command.args(["copy", "--json", "--report"]).arg(&self.report);
        command.arg(format!("{}{end}", self.source.display())).arg(target);
        command.env("HAKOBU_SSH", self.sshd.ssh_command()).env("HAKOBU_SETTINGS", "none");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }
}

impl Disk {
    fn new(memory: &Path, at: PathBuf, size_bytes: u64) -> Result<Self> {
        let image = memory.join("disk");
        remove(&image);
        fs::File::create(&image)?.set_len(size_bytes)?;
        let device = LoopDevice::over(&image, &[]).context("making a loop device")?;
        // Only the copied data is to be written to it later.
        let options = ["-q", "-O", "^has_journal", "-E", "lazy_itable_init=0", "-i", "16384"];
        devices::run("mkfs.ext4", &options, device.path())?;
        hold_little(&device)?;
        let mut disk = Self { at, mounted: None, device };
        disk.mount()?;
        Ok(disk)
    }

    /// Mounts it, or mounts it again.
    fn mount(&mut self) -> Result<()> {
        drop(self.mounted.take());
        self.mounted = Some(devices::mount(self.device.path(), &self.at, &[])?);
        Ok(())
    }
}

/// Limits the unwritten data that the page cache may hold for a device, so that these small copies behave like much
/// larger ones.
fn hold_little(device: &LoopDevice) -> Result<()> {
    let number = fs::read_to_string(format!("/sys/class/block/{}/dev", device.name()))?;
    let place = Path::new("/sys/class/bdi").join(number.trim());
    for (name, value) in [("strict_limit", "1"), ("max_ratio", "1")] {
        fs::write(place.join(name), value).with_context(|| place.join(name).display().to_string())?;
    }
    Ok(())
}

fn settings(slow: Slow) -> Option<LinkSettings> {
    let (rate, rtt) = match slow {
        Slow::Network => (200_000_000, 5),
        Slow::ServerRate => (50_000_000, 1),
        Slow::Window => (1_000_000_000, 40),
        Slow::SourceServer | Slow::TargetServer => (1_000_000_000, 20),
        _ => return None,
    };
    let usual = LinkSettings::with_rtt(Duration::from_millis(rtt));
    Some(LinkSettings { rate_bits_per_second: Some(rate), mtu: 9000, ..usual })
}

fn bytes_of(content: Content) -> u64 {
    match content {
        Content::File { size_bytes } => size_bytes,
        Content::Tree { files, file_bytes } => files * file_bytes.next_multiple_of(4096),
    }
}

fn make(path: &Path, content: Content) -> Result<()> {
    match content {
        Content::File { size_bytes } => {
            let spec = FileSpec { size_bytes, seed: 1, compressibility: 0.0, threads: 2 };
            generate::file(path, spec)?;
        }
        Content::Tree { files, file_bytes } => {
            let spec = TreeSpec {
                files,
                directories: files / 50,
                size: SizeDistribution::Fixed(file_bytes),
                ..TreeSpec::default()
            };
            ensure!(generate::tree(path, &spec)?.files == files, "a tree that is not whole");
        }
    }
    Ok(())
}
