//! The two hosts of a group: the local one, where commands start, and the remote one, behind a network and an ssh
//! server.

use std::ffi::OsString;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hakobu_core::shell::quote;
use hakobu_testkit::free_port::free_port;
use hakobu_testkit::link::LinkSettings;
use hakobu_testkit::rsyncd::{DaemonAddress, Module, Rsyncd};
use hakobu_testkit::sshd::Sshd;

use super::hosts::{BenchHosts, HostNetwork};
use super::rows::Topology;
use super::scratch_space::{INSTALLED_BIN, ScratchSpace};
use super::store_server::StoreProcess;

/// The directory of tools that comes first on the local PATH.
pub const LOCAL_BIN: &str = "local-bin";
/// The directory of tools on the PATH of ssh sessions.
pub const REMOTE_BIN: &str = "remote-bin";

/// The time that the rsync daemon has to end its sessions.
const DAEMON_LIMIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The module of the rsync daemon: the bench's directory in memory.
const MODULE: &str = "bench";

/// The hosts of a group. Dropping it stops the servers and then removes the network.
#[derive(Debug)]
pub struct GroupHosts {
    topology: Topology,
    // Fields are dropped in this order.
    rsyncd: Option<Rsyncd>,
    store: Option<StoreProcess>,
    hosts: BenchHosts,
    path: OsString,
    memory: PathBuf,
}

impl GroupHosts {
    /// Sets up the hosts.
    ///
    /// # Errors
    /// Returns the errors of [`BenchHosts::up`].
    pub fn up(topology: Topology, scratch: &ScratchSpace) -> Result<Self> {
        let hosts = BenchHosts::up(scratch, network(topology))?;
        let memory = scratch.memory().to_owned();
        let rsyncd = (topology == Topology::CappedLink)
            .then(|| {
                let address = hosts.link()?.far().address();
                let listens = DaemonAddress { address, netns: Some(hosts.link()?.far().name()) };
                let module = Module { name: MODULE, path: &memory, lines: "" };
                Rsyncd::start_at(listens, &[module]).context("starting an rsync daemon")
            })
            .transpose()?;
        let store = topology.store().map(|kind| {
            let (_, far) = hosts.netns().context("a store without a network of its own")?;
            let address = hosts.link().map_or(Ipv4Addr::LOCALHOST, |link| link.far().address());
            StoreProcess::start(kind, scratch, address, far).context("starting an object store")
        });
        let store = store.transpose()?;
        let path = add_ssh_tools(scratch, hosts.sshd())?;
        Ok(Self { topology, rsyncd, store, hosts, path, memory })
    }

    pub fn topology(&self) -> Topology {
        self.topology
    }

    /// Returns the rsync URL of a path in memory, or `None` if there is no daemon.
    pub fn url(&self, path: &Path) -> Option<String> {
        let below = path.strip_prefix(&self.memory).ok()?;
        Some(self.rsyncd.as_ref()?.url(&format!("{MODULE}/{}", below.display())))
    }

    /// Returns a TCP port that nothing uses now.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub fn free_port(&self) -> Result<u16> {
        // Almost nothing listens in the bench's own namespaces, so a port that is free here is free there too.
        Ok(free_port()?)
    }

    /// Returns a command line on the local host, with its environment except for the paths.
    pub fn local_command(&self, line: &str) -> Command {
        self.shell(self.hosts.netns().map(|(near, _)| near), line)
    }

    /// Returns a command line on the remote host, started without ssh.
    pub fn remote_command(&self, line: &str) -> Command {
        self.shell(self.hosts.netns().map(|(_, far)| far), line)
    }

    fn shell(&self, netns: Option<&str>, line: &str) -> Command {
        let mut words: Vec<&str> = Vec::new();
        if let Some(netns) = netns {
            words.extend(["ip", "netns", "exec", netns]);
        }
        words.extend(["bash", "-o", "pipefail", "-c", line]);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).env("PATH", &self.path).env("LC_ALL", "C.UTF-8");
        let sshd = self.hosts.sshd();
        command.env("HOST", sshd.host()).env("ADDRESS", sshd.address().to_string());
        if let Some(store) = &self.store {
            store.set_environment(&mut command);
        }
        // The user's settings for hakobu must not affect the measurement.
        command.env_remove("HAKOBU_SSH");
        command
    }

    /// Returns the bytes sent between the two hosts so far, in the direction that carried more, by the interface's
    /// counters.
    ///
    /// # Errors
    /// Returns an error if the counters cannot be read.
    pub fn travelled_bytes(&self) -> Result<u64> {
        let table = fs::read_to_string(format!("/proc/{}/net/dev", self.hosts.sshd().id()))?;
        let on_loopback = matches!(self.topology, Topology::Store(_)) || self.hosts.netns().is_none();
        travelled(&table, on_loopback).context("/proc/net/dev has another format")
    }

    /// Copies a local file or tree into the object store, with hakobu.
    ///
    /// # Errors
    /// Returns its words if it fails.
    pub fn store_copy(&self, local: &Path, url: &str) -> Result<()> {
        let slash = if local.is_dir() { "/" } else { "" };
        let mut command = self.local_command(&format!("hakobu copy $SOURCE{slash} $TARGET{slash}"));
        let output = command.env("SOURCE", local).env("TARGET", url).output().context("running hakobu")?;
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "filling the object store: {}", words.trim());
        Ok(())
    }

    /// Waits until nobody is logged in on the remote host, and the rsync daemon serves nobody.
    ///
    /// # Errors
    /// Returns an error if they keep running.
    pub fn wait_for_sessions(&self) -> Result<()> {
        self.hosts.wait_for_sessions()?;
        let deadline = Instant::now() + DAEMON_LIMIT;
        while self.rsyncd.as_ref().is_some_and(|daemon| !daemon.serving().is_empty()) {
            ensure!(Instant::now() < deadline, "the rsync daemon still serves after {DAEMON_LIMIT:?}");
            sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Returns the longest delay of a packet on the emulated link beyond its due time.
    pub fn link_late_most(&self) -> Option<Duration> {
        self.hosts.link_late_most()
    }
}

/// Returns the bytes received or sent, whichever are more, of the loopback interface or of all others.
fn travelled(table: &str, on_loopback: bool) -> Option<u64> {
    let lines = table.lines().skip(2).filter_map(|line| line.rsplit_once(':'));
    let ours = lines.filter(|(name, _)| (name.trim() == "lo") == on_loopback);
    let bytes = |figures: &str| {
        let mut figures = figures.split_ascii_whitespace().map(|figure| figure.parse::<u64>().ok());
        Some(figures.next()??.max(figures.nth(7)??))
    };
    ours.map(|(_, figures)| bytes(figures)).sum()
}

fn network(topology: Topology) -> HostNetwork {
    match topology {
        Topology::Loopback | Topology::SlowFs => HostNetwork::Loopback,
        Topology::Store(_) => HostNetwork::OwnLoopback,
        Topology::StoreLink(_) => HostNetwork::Link(LinkSettings {
            rate_bits_per_second: Some(1_000_000_000),
            mtu: 9000,
            ..LinkSettings::with_rtt(Duration::from_millis(40))
        }),
        Topology::Veth => HostNetwork::Veth(None),
        Topology::VethCubic => HostNetwork::Veth(Some("cubic")),
        Topology::CappedLink => HostNetwork::Link(LinkSettings {
            connection_rate_bits_per_second: Some(50_000_000),
            mtu: 9000,
            ..LinkSettings::with_rtt(Duration::from_millis(20))
        }),
        Topology::LongLink => HostNetwork::Link(LinkSettings {
            rate_bits_per_second: Some(1_000_000_000),
            mtu: 9000,
            ..LinkSettings::with_rtt(Duration::from_millis(100))
        }),
    }
}

/// Puts ssh, scp and sftp that know the server on the local PATH, so that command lines are as users type them. Returns
/// that PATH.
fn add_ssh_tools(scratch: &ScratchSpace, sshd: &Sshd) -> Result<OsString> {
    let usual = std::env::var_os("PATH").unwrap_or_default();
    for tool in ["ssh", "scp", "sftp"] {
        let found = std::env::split_paths(&usual).map(|dir| dir.join(tool)).find(|path| path.is_file());
        let found = found.with_context(|| format!("there is no {tool}"))?;
        let config = sshd.client_config();
        let line = format!("exec {} -F {} \"$@\"", quote(&found), quote(&config));
        scratch.script(LOCAL_BIN, tool, &line)?;
    }
    let first = [scratch.tools().join(LOCAL_BIN), scratch.installed().join(INSTALLED_BIN)];
    std::env::join_paths(first.into_iter().chain(std::env::split_paths(&usual))).context("making the PATH")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_bytes_are_read_from_a_recorded_file() {
        let table = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo: 1000 10 0 0 0 0 0 0 1000 10 0 0 0 0 0 0
  eth0:1: 7 20 1 2 0 0 0 3 4000 40 5 6 0 0 0 0
";
        assert_eq!((travelled(table, true), travelled(table, false)), (Some(1000), Some(4000)));
        assert_eq!(travelled("a\nb\neth0: 1 2 3\n", false), None);
    }
}
