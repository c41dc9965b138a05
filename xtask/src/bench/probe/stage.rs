//! The two ends of a pair of runs under one limit. Dropping it removes everything.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hakobu_testkit::devices::{LoopDevice, Undo, mount, run};
use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::{Sshd, SshdOptions};
use hakobu_testkit::throttle::Throttle as Group;
use serde_json::Value;

use super::limits::{Limit, Throttle};
use crate::bench::content;
use crate::bench::sources::{GIB, Source};
use crate::bench::workshop::{Workshop, remove};
use crate::bench::world::FAR_BIN;

/// The directory in which the block layer is told the limits of processes outside of all control groups.
const BLOCK_LAYER: &str = "/sys/fs/cgroup/blkio";
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// The time that processes at the far end have to exit.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const TARGET: &str = "target";

/// The result of one run of the program.
pub struct Ran {
    pub seconds: f64,
    pub printed: Vec<u8>,
    /// The limit that hakobu reported.
    pub limit: Option<String>,
}

/// Both ends. Fields are dropped in this order.
pub struct Stage<'a> {
    shop: &'a Workshop,
    program: &'a Path,
    is_local: bool,
    source: PathBuf,
    target: PathBuf,
    /// The directory of targets, reached directly and not through the file server.
    behind: PathBuf,
    report: PathBuf,
    server: Option<Server>,
    disk: Option<Disk>,
    near: Option<Group>,
    sshd: Option<Sshd>,
    _far: Option<Group>,
    link: Option<Link>,
}

impl<'a> Stage<'a> {
    /// Sets up both ends.
    ///
    /// # Errors
    /// Returns an error if something cannot be set up; root is needed.
    pub fn up(
        shop: &'a Workshop,
        program: &'a Path,
        limit: &Limit,
        made: &Path,
        source: Source,
    ) -> Result<Self> {
        let link = limit.has_link().then(|| Link::up(link_settings(limit))).transpose()?;
        if let (Some(link), Throttle::Window(bytes)) = (&link, limit.throttle) {
            for end in [link.near(), link.far()] {
                end.set_parameter("ipv4/tcp_rmem", &format!("4096 131072 {bytes}"))?;
                end.set_parameter("ipv4/tcp_wmem", &format!("4096 16384 {bytes}"))?;
            }
        }
        let group = |percent| Group::processor(percent).context("a control group for processors");
        let (mut near, mut far) = (None, None);
        match limit.throttle {
            Throttle::SourceProcessor(percent) => near = Some(group(percent)?),
            Throttle::TargetProcessor(percent) => far = Some(group(percent)?),
            _ => {}
        }
        let is_server = matches!(limit.throttle, Throttle::SourceServer | Throttle::TargetServer);
        let sshd = (!limit.is_local() || is_server).then(|| start_sshd(shop, link.as_ref())).transpose()?;
        if let (Some(far), Some(sshd)) = (&far, &sshd) {
            far.add(sshd.id()).context("holding sshd to a part of a processor")?;
        }
        let behind = shop.memory().join("behind");
        remove(&behind);
        fs::create_dir_all(&behind)?;
        let mut stage = Self {
            shop,
            program,
            is_local: limit.is_local(),
            source: made.to_owned(),
            target: behind.join(TARGET),
            behind,
            report: shop.tools().join("report.json"),
            server: None,
            disk: None,
            near,
            sshd,
            _far: far,
            link,
        };
        stage.throttle(limit.throttle, source)?;
        Ok(stage)
    }

    fn throttle(&mut self, throttle: Throttle, source: Source) -> Result<()> {
        let room = source.memory_bytes() + source.memory_bytes() / 4 + GIB;
        match throttle {
            Throttle::SourceDisk(rate) => {
                let disk = Disk::make(self.shop, room)?;
                self.source = disk.mounted.join("source");
                content::make(source, &self.source)?;
                rustix::fs::syncfs(fs::File::open(&disk.mounted)?)?;
                disk.hold("read", rate)?;
                self.disk = Some(disk);
            }
            Throttle::TargetDisk(rate) => {
                let disk = Disk::make(self.shop, room)?;
                self.behind.clone_from(&disk.mounted);
                self.target = disk.mounted.join(TARGET);
                disk.hold("write", rate)?;
                self.disk = Some(disk);
            }
            Throttle::SourceServer => {
                let server = Server::mount(self)?;
                let name = self.source.file_name().context("a source without a name")?.to_owned();
                let below = self.source.parent().context("a source without a directory")?.to_owned();
                self.source = server.at(&below)?.join(name);
                self.server = Some(server);
            }
            Throttle::TargetServer => {
                let server = Server::mount(self)?;
                self.target = server.at(&self.behind)?.join(TARGET);
                self.server = Some(server);
            }
            _ => {}
        }
        Ok(())
    }

    /// Removes the copy, and drops the caches of both ends.
    pub fn fresh(&self) -> Result<()> {
        remove(&self.behind.join(TARGET));
        fs::create_dir_all(&self.behind)?;
        rustix::fs::syncfs(fs::File::open(&self.behind)?)?;
        self.cold()
    }

    /// Waits for the processes at the far end, and drops the kernel's caches of the disk and the file server.
    pub fn cold(&self) -> Result<()> {
        let deadline = Instant::now() + SETTLE_LIMIT;
        while self.sshd.as_ref().is_some_and(|sshd| self.server.is_none() && !sshd.processes().is_empty()) {
            ensure!(Instant::now() < deadline, "the far end goes on after the near one has ended");
            std::thread::sleep(LOOK_EVERY);
        }
        if let Some(disk) = &self.disk {
            disk.remount()?;
            // Unmounting does not drop the cache of what another namespace still has mounted.
            fs::write(DROP_CACHES, "3").with_context(|| format!("writing {DROP_CACHES}"))?;
        }
        if let Some(server) = &self.server {
            server.unmount()?;
            server.mount_again(self)?;
        }
        Ok(())
    }

    /// Runs `hakobu copy`. The limit is taken from its report.
    pub fn copy(&self) -> Result<Ran> {
        remove(&self.report);
        let report = self.report.display().to_string();
        let mut ran = self.hakobu(&["copy", "--quiet", "--report", &report])?;
        let report: Value = serde_json::from_slice(&fs::read(&self.report)?)?;
        ran.limit = report["bottleneck"]["stage"].as_str().map(str::to_owned);
        Ok(ran)
    }

    /// Runs hakobu with these arguments, followed by source and target.
    pub fn hakobu(&self, arguments: &[&str]) -> Result<Ran> {
        let program = self.program.display().to_string();
        let mut words: Vec<&str> = Vec::new();
        if let Some(link) = self.link.as_ref().filter(|_| !self.is_local) {
            words.extend(["ip", "netns", "exec", link.near().name()]);
        }
        words.push(&program);
        words.extend(arguments);
        let mut command = match &self.near {
            Some(group) => group.command(words[0]),
            None => Command::new(words[0]),
        };
        // The slash selects the contents of the tree.
        let of_tree = if self.source.is_dir() { "/" } else { "" };
        let host = match (&self.sshd, self.is_local) {
            (Some(sshd), false) => format!("{}:", sshd.host()),
            _ => String::new(),
        };
        command.args(&words[1..]).stdin(Stdio::null()).env("LC_ALL", "C.UTF-8").env_remove("HAKOBU_SSH");
        command.arg(format!("{}{of_tree}", self.source.display()));
        command.arg(format!("{host}{}{of_tree}", self.target.display()));
        if let Some(sshd) = &self.sshd {
            command.env("HAKOBU_SSH", sshd.ssh_command());
        }
        let started = Instant::now();
        let Output { status, stdout, stderr } = command.output().context("running the program")?;
        let seconds = started.elapsed().as_secs_f64();
        if !status.success() {
            let said = String::from_utf8_lossy(&stderr);
            let last: Vec<&str> = said.lines().rev().take(3).collect();
            bail!("hakobu {}: {status}: {}", arguments[0], last.join(" / "));
        }
        Ok(Ran { seconds, printed: stdout, limit: None })
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        self.server = None;
        self.disk = None;
        remove(&self.shop.memory().join("behind"));
    }
}

fn link_settings(limit: &Limit) -> LinkSettings {
    let rate = match limit.throttle {
        Throttle::Line(bits) => Some(bits),
        Throttle::SourceServer | Throttle::TargetServer => Some(1_000_000_000),
        _ => None,
    };
    LinkSettings { rate_bits_per_second: rate, mtu: 9000, ..LinkSettings::with_rtt(limit.round_trip) }
}

fn start_sshd(shop: &Workshop, link: Option<&Link>) -> Result<Sshd> {
    let address = link.map_or(Ipv4Addr::LOCALHOST, |link| link.far().address());
    Sshd::start(&SshdOptions {
        address: IpAddr::V4(address),
        netns: link.map(|link| link.far().name().to_owned()),
        path_dirs: vec![shop.tools().join(FAR_BIN)],
        ..SshdOptions::default()
    })
    .context("starting sshd")
}

/// A file system on a loop device whose speed the block layer can limit.
struct Disk {
    mounted: PathBuf,
    undo: std::cell::RefCell<Option<Undo>>,
    device: LoopDevice,
    file: PathBuf,
}

impl Disk {
    fn make(shop: &Workshop, bytes: u64) -> Result<Self> {
        let (file, mounted) = (shop.memory().join("medium"), shop.tools().join("mounted"));
        remove(&file);
        fs::File::create_new(&file)?.set_len(bytes)?;
        let device = LoopDevice::over(&file, &[]).context("a loop device")?;
        run("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"], device.path())?;
        fs::create_dir_all(&mounted)?;
        let disk = Self { mounted, undo: None.into(), device, file };
        disk.remount()?;
        Ok(disk)
    }

    fn remount(&self) -> Result<()> {
        drop(self.undo.take());
        let undo = mount(self.device.path(), &self.mounted, &[]).context("mounting the disk")?;
        self.undo.replace(Some(undo));
        Ok(())
    }

    /// Limits the device to this many bytes per second; 0 removes the limit.
    fn hold(&self, direction: &str, bytes_per_second: u64) -> Result<()> {
        let number = fs::read_to_string(format!("/sys/class/block/{}/dev", self.device.name()))?;
        let file = format!("{BLOCK_LAYER}/blkio.throttle.{direction}_bps_device");
        fs::write(&file, format!("{} {bytes_per_second}", number.trim()))
            .with_context(|| format!("writing {file}"))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for direction in ["read", "write"] {
            // The limit disappears with the device in any case.
            let _ = self.hold(direction, 0);
        }
        drop(self.undo.take());
        remove(&self.file);
    }
}

/// The root directory of this machine, mounted by sshfs over the link.
struct Server {
    mounted: PathBuf,
}

impl Server {
    fn mount(stage: &Stage<'_>) -> Result<Self> {
        let server = Self { mounted: stage.shop.tools().join("server") };
        fs::create_dir_all(&server.mounted)?;
        server.mount_again(stage)?;
        Ok(server)
    }

    fn mount_again(&self, stage: &Stage<'_>) -> Result<()> {
        let (Some(link), Some(sshd)) = (&stage.link, &stage.sshd) else { bail!("no way to the file server") };
        // In the link's network namespace, but in the mount namespace of everybody.
        let network = format!("--net=/run/netns/{}", link.near().name());
        let output = Command::new("nsenter")
            .args([&network, "sshfs", "-o", &format!("ssh_command={}", sshd.ssh_command())])
            .arg(format!("{}:/", sshd.host()))
            .arg(&self.mounted)
            .stdin(Stdio::null())
            .output()
            .context("running sshfs")?;
        ensure!(output.status.success(), "sshfs: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(())
    }

    fn unmount(&self) -> Result<()> {
        let output =
            Command::new("fusermount3").arg("-u").arg(&self.mounted).stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "fusermount3: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(())
    }

    /// Returns the path of a local directory through the server.
    fn at(&self, directory: &Path) -> Result<PathBuf> {
        Ok(self.mounted.join(directory.strip_prefix("/")?))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.unmount();
    }
}
