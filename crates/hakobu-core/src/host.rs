//! The settings of a machine that decide how fast data moves, as facts.
//!
//! They are gathered on the machine that has them and judged where the user is, so they cross the wire. A peer may say
//! anything: lists and texts have limits, which hold when facts are made and again when they are decoded.

use crate::disk::{NOTES_MAX, shortened};

mod limits;
mod network;

pub use limits::{Capped, LoginServer, Penalties, ProcessLimits};
pub use network::{Bond, Offloads, Queue, Ring, Tcp, WayOut};

/// The most network devices of one machine that are told.
pub const NETWORK_DEVICES_MAX: usize = 256;
/// The most disks of one machine whose settings are told.
pub const HOST_DISKS_MAX: usize = 1024;
/// The most kinds of processor settings that are told.
pub const PROCESSOR_KINDS_MAX: usize = 16;
/// The most mounts of one machine that are told.
pub const MOUNTS_MAX: usize = 512;
/// The most ports of one bond that are told.
pub const BOND_PORTS_MAX: usize = 64;
/// The most queueing disciplines of one device that are told.
pub const QUEUES_MAX: usize = 16;
/// The longest name of a device, a setting or a choice among settings, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// The longest options of one mount, in bytes; what is beyond is left out.
pub const MOUNT_OPTIONS_BYTES_MAX: usize = 1024;

/// A name of at most [`NAME_BYTES_MAX`] bytes, as the kernel spells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name(Vec<u8>);

impl Name {
    /// The name, cut where it is too long.
    pub fn new(name: impl Into<Vec<u8>>) -> Self {
        let mut bytes = name.into();
        bytes.truncate(NAME_BYTES_MAX);
        Self(bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it is this one.
    pub fn is(&self, name: &str) -> bool {
        self.0 == name.as_bytes()
    }

    /// For people: control characters are escaped.
    pub fn shown(&self) -> String {
        crate::path::lossy(&self.0)
    }

    /// Whether it is nothing but letters, digits and `-_.:@+`, so that it can stand in a command as it is.
    pub fn is_plain(&self) -> bool {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:@+".contains(byte);
        !self.0.is_empty() && !self.0.starts_with(b"-") && self.0.iter().all(plain)
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

/// What a machine is set to. What is not known is `None`, or an empty list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// The version of the running kernel, the first two numbers: 6 and 12 of `6.12.3`.
    pub kernel: Option<(u16, u16)>,
    /// TCP.
    pub tcp: Tcp,
    /// Its network devices.
    pub devices: Vec<NetworkDevice>,
    /// How packets leave toward the other machine.
    pub way_out: Option<WayOut>,
    /// How its processors are clocked, each kind of settings once.
    pub processors: Vec<Processors>,
    /// Its disks.
    pub disks: Vec<HostDisk>,
    /// What a process of this login may have.
    pub limits: ProcessLimits,
    /// What its ssh server allows.
    pub login_server: Option<LoginServer>,
    /// File systems that hold data.
    pub mounts: Vec<HostMount>,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

impl HostFacts {
    /// Notes what could not be read.
    pub fn unread(&mut self, words: impl Into<String>) {
        let words = shortened(words.into());
        if self.unread.len() < NOTES_MAX && !self.unread.contains(&words) {
            self.unread.push(words);
        }
    }

    /// The network device of this name.
    pub fn device(&self, name: &Name) -> Option<&NetworkDevice> {
        self.devices.iter().find(|device| device.name == *name)
    }

    /// The device by which packets leave toward the other machine.
    pub fn leaving_device(&self) -> Option<&NetworkDevice> {
        self.device(&self.way_out.as_ref()?.device)
    }
}

/// A network device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkDevice {
    /// Its name.
    pub name: Name,
    /// Whether it is up and has a carrier.
    pub up: bool,
    /// Whether there is hardware behind it, be it of a virtual machine. What others say of their speed means nothing.
    pub hardware: bool,
    /// Its speed in bits per second, of hardware and bonds.
    pub speed_bits_per_second: Option<u64>,
    /// Whether it sends and receives at the same time.
    pub full_duplex: Option<bool>,
    /// The largest packet in bytes.
    pub mtu_bytes: u32,
    /// The NUMA node that it is attached to, on a machine with several.
    pub numa_node: Option<u16>,
    /// Packets received since it came up.
    pub received_packets: u64,
    /// Packets that it had no room for since it came up.
    pub missed_packets: u64,
    /// What it is made of, if it is a bond.
    pub bond: Option<Bond>,
    /// What it does for the processor.
    pub offloads: Option<Offloads>,
    /// Its room for packets received.
    pub receive_ring: Option<Ring>,
    /// What packets wait in before it sends them, told of devices by which they leave toward the other machine.
    pub queues: Vec<Queue>,
}

/// Processors with the same settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processors {
    /// How many.
    pub count: u32,
    /// What chooses their clock.
    pub governor: Name,
    /// What sets it.
    pub driver: Name,
    /// The slowest clock that is allowed, in kHz.
    pub lowest_khz: u64,
    /// The fastest clock that is allowed, in kHz.
    pub highest_khz: u64,
    /// The fastest clock that the hardware has, in kHz.
    pub hardware_khz: u64,
}

/// What is set for a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostDisk {
    /// The kernel's name.
    pub name: Name,
    /// Whether it has a head that moves.
    pub rotational: bool,
    /// What orders its requests.
    pub scheduler: Name,
    /// The NUMA node that it is attached to, on a machine with several.
    pub numa_node: Option<u16>,
}

/// A mounted file system that holds data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostMount {
    /// Where.
    pub path: Vec<u8>,
    /// Its type, such as `ext4`.
    pub kind: Name,
    /// Its options as the kernel writes them, between commas.
    pub options: Vec<u8>,
}

impl HostMount {
    /// Whether it has this option, such as `sync`.
    pub fn has(&self, option: &str) -> bool {
        self.options.split(|&byte| byte == b',').any(|found| found == option.as_bytes())
    }

    /// The number behind an option, such as 1048576 of `wsize=1048576`.
    pub fn number(&self, option: &str) -> Option<u64> {
        let mut found = self.options.split(|&byte| byte == b',');
        let value = found.find_map(|found| found.strip_prefix(option.as_bytes())?.strip_prefix(b"="))?;
        std::str::from_utf8(value).ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_and_only_plain_ones_go_into_commands() {
        assert_eq!(Name::new(vec![b'x'; NAME_BYTES_MAX + 1]).as_bytes().len(), NAME_BYTES_MAX);
        for (name, plain) in
            [("eth0", true), ("bond0.7", true), ("", false), ("a;b", false), ("-x", false), ("a b", false)]
        {
            assert_eq!(Name::from(name).is_plain(), plain, "{name:?}");
        }
        assert!(!Name::from("e\x1b[2J").shown().contains('\x1b'));
    }

    #[test]
    fn options_of_a_mount_are_whole_words() {
        let mount = HostMount { options: b"rw,async,wsize=4096,rsize=x".to_vec(), ..HostMount::default() };
        assert!(mount.has("rw") && !mount.has("sync") && !mount.has("wsize"));
        assert_eq!(
            (mount.number("wsize"), mount.number("rsize"), mount.number("size")),
            (Some(4096), None, None)
        );
    }

    #[test]
    fn only_so_much_is_noted() {
        let mut facts = HostFacts::default();
        (0..NOTES_MAX + 5).for_each(|number| facts.unread(format!("{number} {}", "x".repeat(1000))));
        assert_eq!(facts.unread.len(), NOTES_MAX);
        facts.unread.truncate(1);
        facts.unread("again");
        facts.unread("again");
        assert_eq!(facts.unread.len(), 2);
    }
}
