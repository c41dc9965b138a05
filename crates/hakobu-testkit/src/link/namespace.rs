//! The network namespaces of a link: created, found and removed with `ip`.

use std::fs;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use hakobu_sys::netns;
use hakobu_sys::tun::Tun;
use rustix::process::{Pid, Signal, kill_process};

use super::error::LinkError;

/// The name of the link's device in both namespaces.
const DEVICE: &str = "hakobu0";
/// The number of packets that the kernel queues for the forwarder. It is large, so that packets are dropped by the
/// emulated queue, where they are counted.
const DEVICE_QUEUE_PACKETS: u32 = 20_000;

/// One end of a [`Link`](super::Link): a network namespace with a loopback interface and the link.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    address: Ipv4Addr,
    peer: Ipv4Addr,
}

impl Namespace {
    /// Creates an empty namespace. [`add_device`](Self::add_device) assigns the addresses.
    pub(super) fn create(name: String, address: Ipv4Addr, peer: Ipv4Addr) -> Result<Self, LinkError> {
        ip(&["netns", "add", &name], "")?;
        Ok(Self { name, address, peer })
    }

    /// Returns the name for `ip netns`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address of this end on the link.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Returns a command that runs `program` in the namespace. The process becomes the program itself, so its ID and
    /// signals work as without the namespace.
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Runs `work` in the namespace, on its own thread. Sockets that it opens remain in the namespace, so it may
    /// return them.
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LinkError> {
        netns::run_in(&self.name, work).map_err(LinkError::io("enter the namespace"))
    }

    /// Sets the TCP congestion control for data that this end sends over the link; a program may still choose another
    /// one. It is set on the route, because outside the initial network namespace the parameter
    /// `ipv4/tcp_congestion_control` accepts only algorithms that the machine allows for everybody.
    ///
    /// # Errors
    /// If the kernel has no such algorithm.
    pub fn set_congestion_control(&self, algorithm: &str) -> Result<(), LinkError> {
        let (peer, own) = (self.peer.to_string(), self.address.to_string());
        let place = ["-n", &self.name, "route", "replace", &peer, "dev", DEVICE];
        let route = ["src", &own, "congctl", algorithm];
        ip(&[&place[..], &route[..]].concat(), "")?;
        Ok(())
    }

    /// Sets a kernel parameter under `net`, such as `ipv4/tcp_wmem`, for this end only.
    ///
    /// # Errors
    /// If there is no such parameter in the namespace, or it rejects the value.
    pub fn set_parameter(&self, name: &str, value: &str) -> Result<(), LinkError> {
        let path = Path::new("/proc/sys/net").join(name);
        self.run(|| fs::write(path, value))?.map_err(LinkError::io("set a parameter of the network"))
    }

    /// Creates the device that leads to the peer, and starts it.
    pub(super) fn add_device(&self, mtu: u32) -> Result<Tun, LinkError> {
        let tun = self.run(|| Tun::create(DEVICE))?.map_err(LinkError::io("create a TUN device"))?;
        // Disables link-local addresses, and thereby packets that no program sent. A kernel without IPv6 has none.
        let _ = ip(&["-n", &self.name, "link", "set", DEVICE, "addrgenmode", "none"], "");
        let script = format!(
            "link set lo up\n\
             link set {DEVICE} mtu {mtu} txqueuelen {DEVICE_QUEUE_PACKETS}\n\
             address add {} peer {} dev {DEVICE}\n\
             link set {DEVICE} up\n",
            self.address, self.peer
        );
        ip(&["-n", &self.name, "-batch", "-"], &script)?;
        Ok(tun)
    }
}

impl Drop for Namespace {
    /// Also ends the processes inside, which would keep the namespace alive without a name.
    fn drop(&mut self) {
        remove(&self.name);
    }
}

fn remove(name: &str) {
    for _ in 0..20 {
        let found = ip(&["netns", "pids", name], "").unwrap_or_default();
        let ours = std::process::id().to_string();
        let inside = found.lines().filter(|line| *line != ours);
        let mut killed = 0;
        for id in inside.filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
            let _ = kill_process(id, Signal::KILL); // it may have ended by itself
            killed += 1;
        }
        if killed == 0 {
            break;
        }
        sleep(Duration::from_millis(10));
    }
    // Nothing can be done if it fails, and the next link tries again.
    let _ = ip(&["netns", "delete", name], "");
}

/// Returns the name of an end of link `number` of this process.
pub(super) fn name_of(number: u32, end: &str) -> String {
    format!("hakobu-{}-{number}-{end}", std::process::id())
}

/// Returns the ID of the process that created a namespace with this name; `None` if it is not one of ours.
fn maker_of(name: &str) -> Option<u32> {
    let (pid, rest) = name.strip_prefix("hakobu-")?.split_once('-')?;
    let (number, end) = rest.split_once('-')?;
    number.parse::<u32>().ok()?;
    matches!(end, "near" | "far").then_some(())?;
    pid.parse().ok()
}

/// Removes namespaces whose creators died without doing so.
pub(super) fn sweep() {
    let Ok(entries) = fs::read_dir(netns::DIRECTORY) else {
        return; // no namespace was ever made here
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let Some(pid) = maker_of(name) else { continue };
        if !Path::new(&format!("/proc/{pid}")).exists() {
            remove(name);
        }
    }
}

/// Runs `ip`, with `input` as its standard input. Returns its output.
fn ip(arguments: &[&str], input: &str) -> Result<String, LinkError> {
    let failed =
        |message: String| LinkError::Tool { command: format!("ip {}", arguments.join(" ")), message };
    let mut child = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("{error} (is iproute2 installed?)")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If `ip` exits early, its own message explains why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let message = String::from_utf8_lossy(&output.stderr);
        Err(failed(format!("{}: {}", output.status, message.trim())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_making_are_swept() {
        assert_eq!(maker_of(&name_of(3, "near")), Some(std::process::id()));
        assert_eq!(maker_of("hakobu-12-0-far"), Some(12));
        for name in [
            "hakobu",
            "hakobu-12",
            "hakobu-12-far",
            "hakobu-12-0-middle",
            "hakobu-x-0-far",
            "other-12-0-far",
            "hakobu-12-0-far-2",
        ] {
            assert_eq!(maker_of(name), None, "{name}");
        }
    }
}
