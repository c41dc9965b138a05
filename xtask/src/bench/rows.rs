//! The elements of a table: groups of commands that share their rounds, and the rows that are judged from them.
//!
//! Command lines run in `bash -o pipefail` with the paths in their environment, so that the published line is the one
//! that ran. The variables are `$SOURCE`, `$TARGET`, `$ID` (the ID of the target's disk), `$BYTES` (the size of the
//! source), `$HOST` (the remote host's name for ssh), `$ADDRESS` (its IP address), `$PORT` (a port that is free there)
//! and `$URL` (the target on the remote host's rsync daemon). Ciphers are named as in ssh. Where there is an object store,
//! `$STORE` is its address and port, and `$FILES` the local files that the objects are made of.

use super::goal_quantity::GoalQuantity;
use super::sources::{BenchSource, MIB};

/// One bench: a subcommand, its rows and its page.
#[derive(Debug)]
pub struct Table {
    /// The name of the subcommand and of the result files.
    pub key: &'static str,
    pub heading: &'static str,
    /// A description of how it is measured.
    pub method: &'static str,
    pub groups: &'static [Group],
}

/// The hosts of a group and the network between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// An sshd on the loopback interface. Also used for local copies.
    Loopback,
    /// The emulated long link: RTT 100 ms, 1 Gbit/s, MTU 9000.
    LongLink,
    /// An emulated link with an rsync daemon on its remote host: RTT 20 ms, each TCP connection limited to 50 Mbit/s.
    CappedLink,
    /// Two network namespaces joined by veth with MTU 1500.
    Veth,
    /// [`Self::Veth`] with TCP congestion control cubic.
    VethCubic,
    /// One machine with source and target on a file system on which each operation takes 1 ms.
    SlowFs,
    /// A loopback interface of its own, with an object store on it.
    Store(StoreKind),
    /// An emulated link with an object store at its far end: RTT 40 ms, 1 Gbit/s, MTU 9000.
    StoreLink(StoreKind),
}

/// The server of an object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// A gateway to a directory, with S3's interface.
    Versitygw,
}

/// The ends of a group that are in an object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreSides {
    None,
    Source,
    Target,
    Both,
}

impl StoreSides {
    pub fn has_source(self) -> bool {
        matches!(self, Self::Source | Self::Both)
    }

    pub fn has_target(self) -> bool {
        matches!(self, Self::Target | Self::Both)
    }
}

impl Topology {
    pub fn title(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::LongLink => "emulated link, RTT 100 ms, 1 Gbit/s, MTU 9000",
            Self::CappedLink => "emulated link, RTT 20 ms, 50 Mbit/s for each TCP connection, MTU 9000",
            Self::Veth => "veth, MTU 1500",
            Self::SlowFs => "a FUSE file system, 1 ms for each operation",
            Self::VethCubic => "veth, MTU 1500, cubic",
            Self::Store(StoreKind::Versitygw) => "versitygw, loopback",
            Self::StoreLink(StoreKind::Versitygw) => {
                "versitygw, emulated link, RTT 40 ms, 1 Gbit/s, MTU 9000"
            }
        }
    }

    /// Returns the object store, if there is one.
    pub fn store(self) -> Option<StoreKind> {
        match self {
            Self::Store(kind) | Self::StoreLink(kind) => Some(kind),
            _ => None,
        }
    }
}

/// The state of the target before each run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// No target: data goes to `/dev/null`.
    Discard,
    /// Absent; removed after each run.
    Fresh,
    /// Equal to the source, and left in place.
    Equal,
    /// Equal to the source, and only read.
    Same,
    /// Equal to the source except for one file in a hundred.
    Outdated,
    /// Equal to the source except for one block of 4 KiB in a hundred of each file, and older.
    Pages,
    /// Older than the source, with the first byte of each file missing.
    Shifted,
    /// Equal to the source, and everything in it is to be deleted. An empty directory is next to it.
    Surplus,
    /// A disk like the source, full of other data.
    Disk,
    /// A disk like the source, with no space allocated.
    Blank,
    /// A disk equal to the source except for one piece in a hundred.
    Changed,
}

impl Target {
    /// Returns true if it is a block device.
    pub fn is_disk(self) -> bool {
        matches!(self, Self::Disk | Self::Blank | Self::Changed)
    }

    /// Returns true if what a run writes takes as much memory as the source.
    pub fn takes_memory(self) -> bool {
        matches!(self, Self::Fresh | Self::Blank | Self::Pages | Self::Shifted)
    }
}

/// How a method is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunMode {
    /// From its start to its end.
    Whole,
    /// Killed once half of the source has been read, and then run again to its end.
    Killed,
    /// Until the first file is at the target.
    FirstFile,
}

/// A method: one command that does the work of its group.
#[derive(Debug, Clone, Copy)]
pub struct BenchMethod {
    pub name: &'static str,
    /// The command line on the local host.
    pub local: &'static str,
    /// The command that listens on `$PORT` on the remote host from before the clock starts. The clock stops when both
    /// ended.
    pub remote: Option<&'static str>,
    /// True if it leaves nothing at `$TARGET` although others of its group do. Such a method shows the ceiling.
    pub discards: bool,
    /// The program without which the method is skipped.
    pub tool: &'static str,
    /// True if it is measured only with `--extra`.
    pub extra: bool,
    /// The source, if it differs from the group's.
    pub source: Option<BenchSource>,
    pub mode: RunMode,
    /// True if its command lines have placeholders for the settings of `dd`, the best of which are looked for first.
    pub tuned: bool,
    /// The numbers to try in place of `{n}` in command lines, of which the best is looked for first.
    pub counts: &'static [u16],
}

/// The tool name of hakobu's own methods.
pub const OURS: &str = "hakobu";

impl BenchMethod {
    /// Returns a method with a command on the local host only.
    pub const fn new(name: &'static str, tool: &'static str, local: &'static str) -> Self {
        Self {
            name,
            local,
            remote: None,
            discards: false,
            tool,
            extra: false,
            source: None,
            mode: RunMode::Whole,
            tuned: false,
            counts: &[],
        }
    }

    /// Returns a method of hakobu's own.
    pub const fn ours(name: &'static str, local: &'static str) -> Self {
        Self::new(name, OURS, local)
    }

    /// Returns true if it is hakobu over SFTP, which has times in whole seconds and no digests.
    pub fn is_over_sftp(&self) -> bool {
        self.local.contains("--transport sftp")
    }

    /// Returns the method with `line` listening on the remote host.
    pub const fn remote(mut self, line: &'static str) -> Self {
        self.remote = Some(line);
        self
    }

    /// Returns the method, marked as leaving nothing at the target.
    pub const fn discarding(mut self) -> Self {
        self.discards = true;
        self
    }

    /// Returns the method, marked as measured only with `--extra`.
    pub const fn extra(mut self) -> Self {
        self.extra = true;
        self
    }

    /// Returns the method with its own source.
    pub const fn of(mut self, source: BenchSource) -> Self {
        self.source = Some(source);
        self
    }

    /// Returns the method, marked to be killed half way and run again.
    pub const fn killed(mut self) -> Self {
        self.mode = RunMode::Killed;
        self
    }

    /// Returns the method, marked to use the best settings of `dd`.
    pub const fn tuned(mut self) -> Self {
        self.tuned = true;
        self
    }

    /// Returns the method, marked to use the best of these values for `{n}`.
    pub const fn counting(mut self, counts: &'static [u16]) -> Self {
        self.counts = counts;
        self
    }

    /// Returns the method, marked to end with the first file at the target.
    pub const fn until_first_file(mut self) -> Self {
        self.mode = RunMode::FirstFile;
        self
    }

    pub fn is_ours(&self) -> bool {
        self.tool == OURS
    }
}

/// A requirement of a row.
#[derive(Debug, Clone, Copy)]
pub struct Goal {
    pub judged: GoalQuantity,
    /// The name of the method that ours is compared with.
    pub peer: Option<&'static str>,
    /// The required value and the aim, or `None` if the value is for information only. Work that is done again after a
    /// kill may take 2 % of the source if that is longer.
    pub marks: Option<(f64, f64)>,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct TableRow {
    /// A short name for `--rows`.
    pub key: &'static str,
    pub title: &'static str,
    /// The name of the method that is judged.
    pub method: &'static str,
    pub goals: &'static [Goal],
}

/// Methods that share topology, target and rounds, and in most groups the source.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    pub name: &'static str,
    pub topology: Topology,
    pub source: BenchSource,
    pub target: Target,
    /// The ends in the object store.
    pub store: StoreSides,
    /// True if the data crosses the network, which is then checked with the interface's counters.
    pub travels: bool,
    pub methods: &'static [BenchMethod],
    pub rows: &'static [TableRow],
    /// True if it is measured only with `--extra`, in fewer rounds, and never checked.
    pub extra: bool,
}

impl Group {
    /// A group without methods and rows, to take from what most groups have.
    pub const USUAL: Self = Self {
        name: "",
        topology: Topology::Loopback,
        source: BenchSource::ONE_BYTE_FILE,
        target: Target::Fresh,
        store: StoreSides::None,
        travels: true,
        methods: &[],
        rows: &[],
        extra: false,
    };

    pub fn method(&self, name: &str) -> Option<&'static BenchMethod> {
        self.methods.iter().find(|method| method.name == name)
    }

    /// Returns all sources of its methods, each once.
    pub fn sources(&self) -> Vec<BenchSource> {
        let mut sources = Vec::new();
        for source in self.methods.iter().map(|method| method.source.unwrap_or(self.source)) {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        sources
    }
}

/// The key of the row on the peak memory of each hakobu process, over all groups.
pub const MEMORY_KEY: &str = "memory";
pub const MEMORY_TITLE: &str = "peak memory of each process";
pub const MEMORY_AT_LEAST_BYTES: u64 = 256 * MIB;
pub const MEMORY_AIM_BYTES: u64 = 96 * MIB;
