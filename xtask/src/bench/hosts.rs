//! The hosts of a bench: the local one, where commands start, and the remote one behind an ssh server.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::{Sshd, SshdOptions};

use super::group_hosts::REMOTE_BIN;
use super::own_loopback::OwnLoopback;
use super::scratch_space::{INSTALLED_BIN, ScratchSpace};
use super::veth::Veth;

/// The time that processes on the remote host have to exit after those on the local host.
const SESSIONS_END_LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The network between the hosts.
#[derive(Debug, Clone, Copy)]
pub enum HostNetwork {
    Loopback,
    /// A loopback interface in a namespace of its own.
    OwnLoopback,
    Link(LinkSettings),
    /// A pair of veth devices, with a congestion control other than the machine's if one is named.
    Veth(Option<&'static str>),
}

/// Both hosts. Dropping it stops the server and then removes the network.
#[derive(Debug)]
pub struct BenchHosts {
    // Fields are dropped in this order.
    sshd: Sshd,
    link: Option<Link>,
    veth: Option<Veth>,
    own: Option<OwnLoopback>,
}

impl BenchHosts {
    /// Sets up the network, and a server on the remote host that has the tools of the bench.
    ///
    /// # Errors
    /// Returns an error if the server cannot be started, or a namespace or device cannot be created (root is needed).
    pub fn up(scratch: &ScratchSpace, network: HostNetwork) -> Result<Self> {
        let (mut link, mut veth, mut own) = (None, None, None);
        let far: Option<(String, Ipv4Addr)> = match network {
            HostNetwork::Loopback => None,
            HostNetwork::OwnLoopback => {
                Some((own.insert(OwnLoopback::up()?).name().to_owned(), Ipv4Addr::LOCALHOST))
            }
            HostNetwork::Link(settings) => {
                let far = link.insert(Link::up(settings).context("bringing up a link")?).far();
                Some((far.name().to_owned(), far.address()))
            }
            HostNetwork::Veth(congestion_control) => {
                let veth = veth.insert(Veth::up(congestion_control)?);
                Some((veth.far().to_owned(), veth.far_address()))
            }
        };
        let sshd = Sshd::start(&SshdOptions {
            address: far.as_ref().map_or(Ipv4Addr::LOCALHOST, |far| far.1).into(),
            netns: far.map(|far| far.0),
            path_dirs: vec![scratch.tools().join(REMOTE_BIN), scratch.installed().join(INSTALLED_BIN)],
            ..SshdOptions::default()
        });
        Ok(Self { sshd: sshd.context("starting sshd")?, link, veth, own })
    }

    pub fn sshd(&self) -> &Sshd {
        &self.sshd
    }

    /// Returns the emulated link.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub fn link(&self) -> Result<&Link> {
        self.link.as_ref().context("there is no link")
    }

    /// Returns the network namespaces of the local and of the remote host.
    pub fn netns(&self) -> Option<(&str, &str)> {
        let of_veth = || self.veth.as_ref().map(|veth| (veth.near(), veth.far()));
        let of_own = || self.own.as_ref().map(|own| (own.name(), own.name()));
        self.link
            .as_ref()
            .map(|link| (link.near().name(), link.far().name()))
            .or_else(of_veth)
            .or_else(of_own)
    }

    /// Returns a command on the local host that reaches the remote one by ssh.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = match self.netns() {
            Some((near, _)) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", near]).arg(program);
                command
            }
            None => Command::new(program),
        };
        self.set_environment(&mut command);
        command
    }

    /// Sets the environment of a command of hakobu. The user's settings must not affect the measurement.
    pub fn set_environment(&self, command: &mut Command) {
        command.stdin(Stdio::null()).env("LC_ALL", "C.UTF-8");
        command.env("HAKOBU_SSH", self.sshd.ssh_command()).env("HAKOBU_SETTINGS", "none");
    }

    /// Waits until nobody is logged in on the remote host. Processes there may run for a moment after the local host
    /// has ended, and keep their disk open.
    ///
    /// # Errors
    /// Returns an error if they keep running.
    pub fn wait_for_sessions(&self) -> Result<()> {
        let deadline = Instant::now() + SESSIONS_END_LIMIT;
        while !self.sshd.processes().is_empty() {
            let limit = SESSIONS_END_LIMIT;
            ensure!(
                Instant::now() < deadline,
                "the remote host still runs processes {limit:?} after the local one"
            );
            sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Returns the longest delay of a packet on the emulated link beyond its due time. More than some milliseconds mean
    /// that the machine was too busy for the link.
    pub fn link_late_most(&self) -> Option<Duration> {
        let counters = self.link.as_ref()?.counters();
        Some(counters.near_to_far.late_most.max(counters.far_to_near.late_most))
    }
}
