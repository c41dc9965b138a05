//! Two network namespaces joined by a pair of veth devices: the kernel's network stack with a usual MTU and no delay.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

const NEAR: Ipv4Addr = Ipv4Addr::new(10, 214, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 214, 0, 2);
const DEVICE: &str = "hakobu0";

/// The pair. Dropping it removes both namespaces, and the devices with them.
#[derive(Debug)]
pub struct Veth {
    near: String,
    far: String,
}

impl Veth {
    /// Creates the pair with MTU 1500 and, if given, a congestion control other than the machine's.
    ///
    /// # Errors
    /// Returns the error of `ip`, most likely that root is needed.
    pub fn up(congestion_control: Option<&str>) -> Result<Self> {
        let name = |end| format!("hakobu-bench-{}-{end}", std::process::id());
        let pair = Self { near: name("near"), far: name("far") };
        for end in [&pair.near, &pair.far] {
            ip(&["netns", "add", end])?;
            ip(&["-n", end, "link", "set", "lo", "up"])?;
        }
        let peer = ["peer", "name", DEVICE, "netns", &pair.far];
        ip(&[&["-n", &pair.near, "link", "add", DEVICE, "mtu", "1500", "type", "veth"][..], &peer].concat())?;
        for (end, address) in [(&pair.near, NEAR), (&pair.far, FAR)] {
            ip(&["-n", end, "address", "add", &format!("{address}/30"), "dev", DEVICE])?;
            ip(&["-n", end, "link", "set", DEVICE, "mtu", "1500", "up"])?;
        }
        if let Some(name) = congestion_control {
            // By route: inside a namespace the sysctl accepts only what the machine allows to all users.
            for (end, address) in [(&pair.near, NEAR), (&pair.far, FAR)] {
                let route = ["-n", end, "route", "replace", "10.214.0.0/30", "dev", DEVICE, "src"];
                ip(&[&route[..], &[&address.to_string(), "congctl", name]].concat())?;
            }
        }
        Ok(pair)
    }

    pub fn near(&self) -> &str {
        &self.near
    }

    pub fn far(&self) -> &str {
        &self.far
    }

    pub fn far_address(&self) -> Ipv4Addr {
        FAR
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        for end in [&self.near, &self.far] {
            // The namespace may not exist.
            let _ = ip(&["netns", "delete", end]);
        }
    }
}

/// Runs `ip`.
///
/// # Errors
/// Returns its words if it fails.
pub(super) fn ip(arguments: &[&str]) -> Result<()> {
    let output =
        Command::new("ip").args(arguments).stdin(Stdio::null()).output().context("running ip (iproute2)")?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("ip {}: {}", arguments.join(" "), words.trim());
    }
    Ok(())
}
