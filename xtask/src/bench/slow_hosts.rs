//! A pair of hosts of which one resource is slow, for runs of hakobu that copy one source.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use hakobu_measure::process::{CommandGroup, RunFailure};
use hakobu_testkit::link::LinkSettings;
use hakobu_testkit::sshfs::Sshfs;
use hakobu_testkit::throttle::{Throttle, ThrottledAccess};
use serde_json::Value;

use super::content;
use super::ext4_disk::Ext4Disk;
use super::hosts::{BenchHosts, HostNetwork};
use super::scratch_space::{ScratchSpace, remove};
use super::sources::{BenchSource, GIB, MIB, Medium};

/// The time after which a run counts as failed.
const RUN_LIMIT: Duration = Duration::from_secs(600);
/// Less than this fits into the page cache, unless that is limited.
const SMALL_BYTES: u64 = 512 * MIB;
/// Only the copied data is to be written to a disk later.
const DISK_OPTIONS: [&str; 6] = ["-O", "^has_journal", "-E", "lazy_itable_init=0", "-i", "16384"];

/// The resource that is slowed down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowPart {
    /// None, or the network. Processors are the limit if that is fast, as everything is in memory.
    Network,
    /// The local process gets this many percent of a processor.
    SourceProcessor(u32),
    /// The remote process gets this many percent of a processor.
    TargetProcessor(u32),
    /// The source is on a disk that reads at most this many bytes per second.
    SourceDisk(u64),
    /// The target is on a disk that writes at most this many bytes per second.
    TargetDisk(u64),
    /// The source is on a file server, mounted with sshfs over the network.
    SourceServer,
    /// The target is on a file server, mounted with sshfs over the network.
    TargetServer,
}

/// The network between the hosts, or to the file server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowNetwork {
    /// None: source and target are directories of this machine.
    Local,
    Loopback,
    /// An emulated link with this rate in bits per second and round-trip time in milliseconds.
    Rate(u64, u64),
    /// A [`Self::Rate`], and the target's windows have at most this many bytes.
    TargetWindow(u64, u64, u64),
    /// A link with this round-trip time in milliseconds and any rate, and windows of at most this many bytes.
    Windows(u64, u64),
}

impl SlowNetwork {
    fn up(self, scratch: &ScratchSpace) -> Result<BenchHosts> {
        let link = |rate, rtt_ms| {
            let usual = LinkSettings::with_rtt(Duration::from_millis(rtt_ms));
            HostNetwork::Link(LinkSettings { rate_bits_per_second: rate, mtu: 9000, ..usual })
        };
        let read = |bytes| ("ipv4/tcp_rmem", format!("4096 131072 {bytes}"));
        let write = |bytes| ("ipv4/tcp_wmem", format!("4096 16384 {bytes}"));
        let (network, near, far) = match self {
            Self::Local | Self::Loopback => (HostNetwork::Loopback, vec![], vec![]),
            Self::Rate(rate, rtt_ms) => (link(Some(rate), rtt_ms), vec![], vec![]),
            Self::TargetWindow(rate, rtt_ms, bytes) => (link(Some(rate), rtt_ms), vec![], vec![read(bytes)]),
            Self::Windows(rtt_ms, bytes) => {
                let both = vec![read(bytes), write(bytes)];
                (link(None, rtt_ms), both.clone(), both)
            }
        };
        let hosts = BenchHosts::up(scratch, network)?;
        for (name, value) in near {
            hosts.link()?.near().set_parameter(name, &value)?;
        }
        for (name, value) in far {
            hosts.link()?.far().set_parameter(name, &value)?;
        }
        Ok(hosts)
    }
}

/// A mounted directory of the file server.
struct MountedServer {
    at: PathBuf,
    directory: PathBuf,
    mounted: Option<Sshfs>,
}

impl MountedServer {
    fn remount(&mut self, hosts: &BenchHosts) -> Result<()> {
        drop(self.mounted.take());
        let netns = hosts.netns().map(|(near, _)| near);
        let mounted = Sshfs::mount(&self.at, hosts.sshd(), &self.directory, netns);
        self.mounted = Some(mounted.context("mounting over sshfs (apt install sshfs)")?);
        Ok(())
    }
}

/// The result of one run.
pub struct SlowRun {
    pub seconds: f64,
    /// The report of a copy, or what another verb has printed.
    pub report: Value,
}

/// Both hosts. Dropping it removes everything.
pub struct SlowHosts<'a> {
    scratch: &'a ScratchSpace,
    program: &'a Path,
    is_local: bool,
    source: PathBuf,
    target: PathBuf,
    /// The target, reached directly and not through the file server.
    target_behind: PathBuf,
    // Fields are dropped in this order.
    server: Option<MountedServer>,
    disk: Option<Ext4Disk>,
    local_throttle: Option<Throttle>,
    _remote_throttle: Option<Throttle>,
    hosts: BenchHosts,
}

impl<'a> SlowHosts<'a> {
    /// Sets up the hosts and the source, and slows down one resource.
    ///
    /// # Errors
    /// Returns an error if something cannot be set up; root is needed.
    pub fn up(
        scratch: &'a ScratchSpace,
        program: &'a Path,
        (slow, network): (SlowPart, SlowNetwork),
        source: BenchSource,
    ) -> Result<Self> {
        let hosts = network.up(scratch)?;
        scratch.clear_targets()?;
        let is_server = matches!(slow, SlowPart::SourceServer | SlowPart::TargetServer);
        let disk = || {
            let room = source.memory_bytes() + source.memory_bytes() / 4 + GIB;
            let disk = Ext4Disk::new(scratch, "disk", room, &DISK_OPTIONS)?;
            if source.bytes() < SMALL_BYTES {
                disk.hold_little()?;
            }
            anyhow::Ok(disk)
        };
        let target_behind = scratch.target("copy", Medium::Memory);
        let mut both = Self {
            scratch,
            program,
            is_local: is_server || network == SlowNetwork::Local,
            source: PathBuf::new(),
            target: target_behind.clone(),
            target_behind,
            server: None,
            disk: None,
            local_throttle: None,
            _remote_throttle: None,
            hosts,
        };
        if let SlowPart::SourceDisk(rate) = slow {
            let disk = disk()?;
            both.source = disk.at().join("content");
            content::make(source, &both.source)?;
            rustix::fs::syncfs(File::open(disk.at())?)?;
            both.local_throttle = Some(disk.throttle(ThrottledAccess::Read, rate)?);
            both.disk = Some(disk);
            return Ok(both);
        }
        both.source = scratch.source(source)?;
        let mut remote_throttle = None;
        match slow {
            SlowPart::Network | SlowPart::SourceDisk(_) => {}
            SlowPart::SourceProcessor(percent) => both.local_throttle = Some(Throttle::processor(percent)?),
            SlowPart::TargetProcessor(percent) => remote_throttle = Some(Throttle::processor(percent)?),
            SlowPart::TargetDisk(rate) => {
                let disk = disk()?;
                both.target = disk.at().join("copy");
                both.target_behind.clone_from(&both.target);
                remote_throttle = Some(disk.throttle(ThrottledAccess::Write, rate)?);
                both.disk = Some(disk);
            }
            SlowPart::SourceServer => both.source = both.serve(&both.source.clone())?,
            SlowPart::TargetServer => both.target = both.serve(&both.target.clone())?,
        }
        if let Some(throttle) = &remote_throttle {
            throttle.add(both.hosts.sshd().id()).context("slowing down sshd")?;
        }
        both._remote_throttle = remote_throttle;
        Ok(both)
    }

    /// Mounts the directory of a path, and returns the path there.
    fn serve(&mut self, path: &Path) -> Result<PathBuf> {
        let (directory, name) = path.parent().zip(path.file_name()).context("a path without a directory")?;
        let at = self.scratch.tools().join("server");
        fs::create_dir_all(&at)?;
        let mut server = MountedServer { at, directory: directory.to_owned(), mounted: None };
        server.remount(&self.hosts)?;
        let served = server.at.join(name);
        self.server = Some(server);
        Ok(served)
    }

    /// Removes the copy, and has both hosts forget what they have cached.
    ///
    /// # Errors
    /// Returns the errors of [`Self::cold`].
    pub fn fresh(&mut self) -> Result<()> {
        remove(&self.target_behind);
        self.cold()
    }

    /// Waits for the processes on the remote host, and drops the kernel's caches of the disk and the file server.
    ///
    /// # Errors
    /// Returns an error if they keep running, or a disk or server cannot be mounted again.
    pub fn cold(&mut self) -> Result<()> {
        if let Some(server) = &mut self.server {
            return server.remount(&self.hosts);
        }
        self.hosts.wait_for_sessions()?;
        self.disk.as_mut().map_or(Ok(()), Ext4Disk::remount)
    }

    /// Runs `hakobu copy`, and reads its report.
    ///
    /// # Errors
    /// Returns an error if it fails or there is no report.
    pub fn copy(&self) -> Result<SlowRun> {
        let report = self.scratch.tools().join("report.json");
        remove(&report);
        let seconds =
            self.run(&["copy", "--quiet", "--report", &report.display().to_string()], "copy.log")?;
        let text = fs::read(&report).context("there is no report")?;
        Ok(SlowRun { seconds, report: serde_json::from_slice(&text)? })
    }

    /// Runs `hakobu probe`, and reads what it prints.
    ///
    /// # Errors
    /// Returns an error if it fails or prints something else.
    pub fn probe(&self) -> Result<SlowRun> {
        let seconds = self.run(&["probe", "--json"], "probe.log")?;
        let text = fs::read(self.scratch.tools().join("printed.json"))?;
        Ok(SlowRun { seconds, report: serde_json::from_slice(&text).context("reading the prediction")? })
    }

    /// Runs hakobu with these arguments, followed by source and target. Its standard output goes to a file.
    fn run(&self, arguments: &[&str], log: &str) -> Result<f64> {
        let mut command = match &self.local_throttle {
            Some(throttle) => throttle.command("sh"),
            None if self.is_local => Command::new("sh"),
            None => self.hosts.command(Path::new("sh")),
        };
        self.hosts.set_environment(&mut command);
        command.args(["-c", "out=$1; shift; exec \"$@\" >\"$out\"", "sh"]);
        command.arg(self.scratch.tools().join("printed.json")).arg(self.program).args(arguments);
        // The slash selects the contents of the tree.
        let of_tree = if self.source.is_dir() { "/" } else { "" };
        let host = if self.is_local { String::new() } else { format!("{}:", self.hosts.sshd().host()) };
        command.arg(format!("{}{of_tree}", self.source.display()));
        command.arg(format!("{host}{}{of_tree}", self.target.display()));
        let group = CommandGroup::start(command, &self.scratch.tools().join(log))?;
        let look = || self.scratch.go_on().map_err(|error| RunFailure(error.to_string()));
        Ok(group.finish(RUN_LIMIT, look)?.wall.as_secs_f64())
    }
}

impl Drop for SlowHosts<'_> {
    fn drop(&mut self) {
        self.server = None;
        remove(&self.target_behind);
    }
}
