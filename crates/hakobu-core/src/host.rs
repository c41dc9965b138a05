//! The settings of a machine that affect transfer speed.
//!
//! They are gathered on that machine and judged on the user's machine, so they are sent over the wire. A peer may send
//! anything: lists and texts have limits, which are enforced when facts are created and again when they are decoded.

use crate::disk::{NOTES_MAX, shortened};

mod limits;
mod network;

pub use limits::{Capped, LoginServer, Penalties, ProcessLimits};
pub use network::{Bond, Offloads, PacketBuffers, QueueDiscipline, Tcp, WayOut};

/// The maximum number of network devices reported per machine.
pub const NETWORK_DEVICES_MAX: usize = 256;
/// The maximum number of disks with settings reported per machine.
pub const HOST_DISKS_MAX: usize = 1024;
/// The maximum number of groups of processors reported.
pub const PROCESSOR_KINDS_MAX: usize = 16;
/// The maximum number of mounts reported per machine.
pub const MOUNTS_MAX: usize = 512;
/// The maximum number of ports reported per bond.
pub const BOND_PORTS_MAX: usize = 64;
/// The maximum number of queueing disciplines reported per device.
pub const QUEUES_MAX: usize = 16;
/// The maximum length of the name of a device, a setting or a setting's value, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// The maximum length of one mount's options in bytes; the rest is cut off.
pub const MOUNT_OPTIONS_BYTES_MAX: usize = 1024;

/// A name of at most [`NAME_BYTES_MAX`] bytes, in the kernel's spelling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelName(Vec<u8>);

impl KernelName {
    /// Creates a name, truncated if it is too long.
    pub fn new(name: impl Into<Vec<u8>>) -> Self {
        let mut bytes = name.into();
        bytes.truncate(NAME_BYTES_MAX);
        Self(bytes)
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns true if this is the name.
    pub fn is(&self, name: &str) -> bool {
        self.0 == name.as_bytes()
    }

    /// Returns the name for people, with control characters escaped.
    pub fn shown(&self) -> String {
        crate::path::lossy(&self.0)
    }

    /// Returns true if it consists of letters, digits and `-_.:@+` only and does not start with `-`, so that it needs
    /// no quoting in a command.
    pub fn is_plain(&self) -> bool {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:@+".contains(byte);
        !self.0.is_empty() && !self.0.starts_with(b"-") && self.0.iter().all(plain)
    }
}

impl From<&str> for KernelName {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

/// The settings of a machine. Unknown values are `None` or an empty list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// The first two numbers of the running kernel's version: 6 and 12 for `6.12.3`.
    pub kernel: Option<(u16, u16)>,
    /// The TCP settings.
    pub tcp: Tcp,
    /// The network devices.
    pub devices: Vec<NetworkDevice>,
    /// The route of packets to the other machine.
    pub way_out: Option<WayOut>,
    /// The clock settings of the processors, each distinct group once.
    pub processors: Vec<Processors>,
    /// The disks.
    pub disks: Vec<HostDisk>,
    /// The limits on a process of this login.
    pub limits: ProcessLimits,
    /// The limits of the ssh server.
    pub login_server: Option<LoginServer>,
    /// The file systems that hold data.
    pub mounts: Vec<HostMount>,
    /// Settings that could not be read, with the reasons.
    pub unread: Vec<String>,
}

impl HostFacts {
    /// Records a setting that could not be read, unless it is a repetition or the list is full.
    pub fn unread(&mut self, words: impl Into<String>) {
        let words = shortened(words.into());
        if self.unread.len() < NOTES_MAX && !self.unread.contains(&words) {
            self.unread.push(words);
        }
    }

    /// Returns the network device of this name.
    pub fn device(&self, name: &KernelName) -> Option<&NetworkDevice> {
        self.devices.iter().find(|device| device.name == *name)
    }

    /// Returns the device through which packets leave for the other machine.
    pub fn leaving_device(&self) -> Option<&NetworkDevice> {
        self.device(&self.way_out.as_ref()?.device)
    }
}

/// A network device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkDevice {
    /// The name.
    pub name: KernelName,
    /// True if it is up and has a carrier.
    pub up: bool,
    /// True if it is backed by hardware, possibly that of a virtual machine. The speed reported by other devices is
    /// meaningless.
    pub hardware: bool,
    /// The speed of hardware and bonds in bits per second.
    pub speed_bits_per_second: Option<u64>,
    /// True if it sends and receives at the same time.
    pub full_duplex: Option<bool>,
    /// The maximum packet size in bytes.
    pub mtu_bytes: u32,
    /// The NUMA node that it is attached to, on a machine with several.
    pub numa_node: Option<u16>,
    /// The number of packets received since it came up.
    pub received_packets: u64,
    /// The number of packets dropped for lack of buffers since it came up.
    pub missed_packets: u64,
    /// The composition, if it is a bond.
    pub bond: Option<Bond>,
    /// The work that it takes off the processor.
    pub offloads: Option<Offloads>,
    /// The buffer for received packets.
    pub receive_ring: Option<PacketBuffers>,
    /// The queueing disciplines for outgoing packets, reported only for devices through which packets leave for the
    /// other machine.
    pub queues: Vec<QueueDiscipline>,
}

/// A group of processors with the same settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processors {
    /// The number of processors.
    pub count: u32,
    /// The policy that chooses their clock rate.
    pub governor: KernelName,
    /// The driver that sets it.
    pub driver: KernelName,
    /// The lowest permitted clock rate in kHz.
    pub lowest_khz: u64,
    /// The highest permitted clock rate in kHz.
    pub highest_khz: u64,
    /// The highest clock rate of the hardware in kHz.
    pub hardware_khz: u64,
}

/// The settings of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostDisk {
    /// The kernel's name.
    pub name: KernelName,
    /// True if it is a rotating disk.
    pub rotational: bool,
    /// The I/O scheduler.
    pub scheduler: KernelName,
    /// The NUMA node that it is attached to, on a machine with several.
    pub numa_node: Option<u16>,
}

/// A mounted file system that holds data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostMount {
    /// The mount point.
    pub path: Vec<u8>,
    /// The type, such as `ext4`.
    pub kind: KernelName,
    /// The options in the kernel's format, separated by commas.
    pub options: Vec<u8>,
}

impl HostMount {
    /// Returns true if it has this option, such as `sync`.
    pub fn has(&self, option: &str) -> bool {
        self.options.split(|&byte| byte == b',').any(|found| found == option.as_bytes())
    }

    /// Returns the numeric value of an option, such as 1048576 for `wsize=1048576`.
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
        assert_eq!(KernelName::new(vec![b'x'; NAME_BYTES_MAX + 1]).as_bytes().len(), NAME_BYTES_MAX);
        for (name, plain) in
            [("eth0", true), ("bond0.7", true), ("", false), ("a;b", false), ("-x", false), ("a b", false)]
        {
            assert_eq!(KernelName::from(name).is_plain(), plain, "{name:?}");
        }
        assert!(!KernelName::from("e\x1b[2J").shown().contains('\x1b'));
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
