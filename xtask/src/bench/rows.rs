//! What a table is made of: groups of commands that share their rounds, and the rows judged from them.
//!
//! A command line runs in `bash -o pipefail`, with the paths in its environment, so that what is published is what
//! ran: `$SOURCE`, `$TARGET`, `$BYTES` (the size of the source), `$HOST` (ssh's name of the other end), `$ADDRESS`
//! (its IP address) and `$PORT` (free there). Ciphers are named as ssh spells them.

pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

/// Where the two ends are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// An sshd on the loopback interface; also where nothing travels at all.
    Loopback,
    /// The emulated long link: RTT 100 ms, 1 Gbit/s, MTU 9000.
    LongLink,
    /// Two namespaces joined by veth with MTU 1500.
    Veth,
    /// The same with TCP's cubic.
    VethCubic,
}

impl Place {
    pub fn title(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::LongLink => "emulated link, RTT 100 ms, 1 Gbit/s, MTU 9000",
            Self::Veth => "veth, MTU 1500",
            Self::VethCubic => "veth, MTU 1500, cubic",
        }
    }
}

/// Test data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// One file of random bytes.
    File { bytes: u64 },
    /// Files of random bytes, spread evenly over directories side by side.
    Tree { files: u64, directories: u64, file_bytes: u64 },
}

impl Source {
    pub const LARGE: Self = Self::File { bytes: 8 * GIB };
    pub const MIDDLE: Self = Self::File { bytes: 2 * GIB };
    pub const LINK_FILE: Self = Self::File { bytes: 500_000_000 };
    pub const TREE: Self = Self::Tree { files: 100_000, directories: 1000, file_bytes: 10 << 10 };
    pub const LINK_TREE: Self = Self::Tree { files: 10_000, directories: 100, file_bytes: 4 << 10 };
    /// What baselines are measured with, so that login and start are all there is.
    pub const ONE_BYTE_FILE: Self = Self::File { bytes: 1 };
    pub const ONE_BYTE_TREE: Self = Self::Tree { files: 1, directories: 0, file_bytes: 1 };

    pub fn bytes(self) -> u64 {
        match self {
            Self::File { bytes } => bytes,
            Self::Tree { files, file_bytes, .. } => files * file_bytes,
        }
    }

    /// Memory that a copy on tmpfs takes, or a little more: what is warmed before each round.
    pub fn memory_bytes(self) -> u64 {
        match self {
            Self::File { bytes } => bytes.next_multiple_of(MIB),
            // A page for each file's last bytes, and its inode and name.
            Self::Tree { files, file_bytes, directories } => {
                files * (file_bytes.next_multiple_of(4096) + 1024) + directories * 4096
            }
        }
    }

    pub fn one_byte(self) -> Self {
        match self {
            Self::File { .. } => Self::ONE_BYTE_FILE,
            Self::Tree { .. } => Self::ONE_BYTE_TREE,
        }
    }

    pub fn smaller(self, divisor: u64) -> Self {
        match self {
            Self::File { bytes } => Self::File { bytes: (bytes / divisor).max(1) },
            Self::Tree { files, directories, file_bytes } => {
                Self::Tree { files: (files / divisor).max(1), directories: directories / divisor, file_bytes }
            }
        }
    }
}

/// What becomes of the target between runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// There is none: data goes to `/dev/null`.
    Discard,
    /// It is removed after each run.
    Fresh,
    /// It is equal to the source already, and stays.
    Equal,
}

/// One command that does the work of its group.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    pub name: &'static str,
    /// The command line at the near end.
    pub near: &'static str,
    /// What listens at the far end on `$PORT` first, started before the clock. The clock stops when both have ended.
    pub far: Option<&'static str>,
    /// Whether it leaves nothing at `$TARGET` though others of its group do: it is the ceiling.
    pub discards: bool,
    /// The program whose absence excuses the way.
    pub tool: &'static str,
    /// Measured only when asked for.
    pub extra: bool,
}

/// The tool name of our own ways.
pub const OURS: &str = "hakobu";

impl Way {
    /// A way at the near end alone.
    pub const fn new(name: &'static str, tool: &'static str, near: &'static str) -> Self {
        Self { name, near, far: None, discards: false, tool, extra: false }
    }

    /// One of ours.
    pub const fn ours(name: &'static str, near: &'static str) -> Self {
        Self::new(name, OURS, near)
    }

    /// The same with this listening at the far end.
    pub const fn far(mut self, line: &'static str) -> Self {
        self.far = Some(line);
        self
    }

    /// The same, leaving nothing at the target.
    pub const fn discarding(mut self) -> Self {
        self.discards = true;
        self
    }

    /// The same, for when more is asked for.
    pub const fn extra(mut self) -> Self {
        self.extra = true;
        self
    }

    pub fn is_ours(&self) -> bool {
        self.tool == OURS
    }
}

/// What a row demands.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    /// How many times as fast as another way.
    Times { peer: &'static str, at_least: f64, aim: f64 },
    /// Seconds after the baseline.
    Seconds { at_least: f64, aim: f64 },
    /// How the other way compares, for information.
    Beside { peer: &'static str },
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Short, for `--rows`.
    pub key: &'static str,
    pub title: &'static str,
    /// The way that is judged.
    pub way: &'static str,
    pub goals: &'static [Goal],
}

/// Ways that share source, place and rounds.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    pub name: &'static str,
    pub place: Place,
    pub source: Source,
    pub target: Target,
    /// Whether the data crosses the network, which is then checked by the interface's counters.
    pub travels: bool,
    pub ways: &'static [Way],
    pub rows: &'static [Row],
    /// Measured only when asked for, in fewer rounds, and never checked.
    pub extra: bool,
}

/// Peak memory of each process, of ours, in any group.
pub const MEMORY_KEY: &str = "memory";
pub const MEMORY_TITLE: &str = "peak memory of each process";
pub const MEMORY_AT_LEAST_BYTES: u64 = 256 * MIB;
pub const MEMORY_AIM_BYTES: u64 = 96 * MIB;

impl Goal {
    /// The way that ours is compared with.
    pub fn peer(&self) -> Option<&'static str> {
        match self {
            Self::Times { peer, .. } | Self::Beside { peer } => Some(peer),
            Self::Seconds { .. } => None,
        }
    }
}

impl Group {
    pub fn way(&self, name: &str) -> Option<&'static Way> {
        self.ways.iter().find(|way| way.name == name)
    }
}
