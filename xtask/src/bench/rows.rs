//! What a table is made of: groups of commands that share their rounds, and the rows judged from them.
//!
//! A command line runs in `bash -o pipefail`, with the paths in its environment, so that what is published is what
//! ran: `$SOURCE`, `$TARGET`, `$ID` (what the target's disk is known by), `$BYTES` (the size of the source), `$HOST`
//! (ssh's name of the other end), `$ADDRESS` (its IP address), `$PORT` (free there) and `$URL` (the target, as its rsync
//! daemon knows it). Ciphers are named as ssh
//! spells them.

use super::judged::Judged;
use super::sources::{MIB, Source};

/// One bench: a subcommand, its rows and its page.
#[derive(Debug)]
pub struct Table {
    /// The subcommand's name, and that of the files.
    pub key: &'static str,
    pub heading: &'static str,
    /// How it is measured, in words.
    pub method: &'static str,
    pub groups: &'static [Group],
}

/// Where the two ends are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// An sshd on the loopback interface; also where nothing travels at all.
    Loopback,
    /// The emulated long link: RTT 100 ms, 1 Gbit/s, MTU 9000.
    LongLink,
    /// An emulated link with a rsync daemon at its far end: RTT 20 ms, each TCP connection capped at 50 Mbit/s.
    CappedLink,
    /// Two namespaces joined by veth with MTU 1500.
    Veth,
    /// The same with TCP's cubic.
    VethCubic,
    /// One machine, both ends on a file system on which each operation takes 1 ms.
    SlowFs,
}

impl Place {
    pub fn title(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::LongLink => "emulated link, RTT 100 ms, 1 Gbit/s, MTU 9000",
            Self::CappedLink => "emulated link, RTT 20 ms, 50 Mbit/s for each TCP connection, MTU 9000",
            Self::Veth => "veth, MTU 1500",
            Self::SlowFs => "a FUSE file system, 1 ms for each operation",
            Self::VethCubic => "veth, MTU 1500, cubic",
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
    /// It is equal to the source, and is only looked at.
    Same,
    /// It is equal to the source but for one file in a hundred, before each run.
    Outdated,
    /// It is equal to the source, but older and for one block of 4 KiB in a hundred in each file, before each run.
    Pages,
    /// It is older than the source, and the first byte of each file is missing, before each run.
    Shifted,
    /// It is equal to the source before each run, and everything in it is to go. An empty directory is beside it.
    Surplus,
    /// A disk like the source, which is full of something else before each run.
    Disk,
    /// A disk like the source, of which nothing is taken before each run.
    Blank,
    /// A disk that is equal to the source but for one piece in a hundred, before each run.
    Changed,
}

impl Target {
    /// Whether it is a block device.
    pub fn is_disk(self) -> bool {
        matches!(self, Self::Disk | Self::Blank | Self::Changed)
    }

    /// Whether a run takes as much memory for what it writes as the source has.
    pub fn takes_memory(self) -> bool {
        matches!(self, Self::Fresh | Self::Blank | Self::Pages | Self::Shifted)
    }
}

/// How a way is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// From its start to its end.
    Whole,
    /// Killed when half of the source has been read, and then run again to its end.
    Killed,
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
    /// Where it is another one than the group's.
    pub source: Option<Source>,
    pub course: Course,
    /// Whether its lines have places for the settings of `dd`, of which the best are looked for first.
    pub tuned: bool,
}

/// The tool name of our own ways.
pub const OURS: &str = "hakobu";

impl Way {
    /// A way at the near end alone.
    pub const fn new(name: &'static str, tool: &'static str, near: &'static str) -> Self {
        Self {
            name,
            near,
            far: None,
            discards: false,
            tool,
            extra: false,
            source: None,
            course: Course::Whole,
            tuned: false,
        }
    }

    /// One of ours.
    pub const fn ours(name: &'static str, near: &'static str) -> Self {
        Self::new(name, OURS, near)
    }

    /// Whether it is ours over SFTP, which has times in whole seconds and no digests.
    pub fn is_over_sftp(&self) -> bool {
        self.near.contains("--transport sftp")
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

    /// The same, from another source than others of its group.
    pub const fn of(mut self, source: Source) -> Self {
        self.source = Some(source);
        self
    }

    /// The same, killed half way and run again.
    pub const fn killed(mut self) -> Self {
        self.course = Course::Killed;
        self
    }

    /// The same, with the best settings of `dd`.
    pub const fn tuned(mut self) -> Self {
        self.tuned = true;
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
    /// How many times as long as another way it takes.
    TimesLonger { peer: &'static str, at_most: f64, aim: f64 },
    /// How many times as many bytes the other way puts on the network.
    TimesFewerBytes { peer: &'static str, at_least: f64, aim: f64 },
    /// Seconds after the baseline.
    Seconds { at_most: f64, aim: f64 },
    /// Bytes read for each byte of the source, on the side where it is more.
    BytesRead { at_most: f64, aim: f64 },
    /// Seconds of work that are done again after a kill; at most so much, or 2 % of the source where that is more.
    Repeated { at_most: f64, aim: f64 },
    /// How the other way compares, for information.
    Beside { peer: &'static str },
}

impl Goal {
    /// The way that ours is compared with.
    pub fn peer(&self) -> Option<&'static str> {
        match self {
            Self::Times { peer, .. }
            | Self::TimesLonger { peer, .. }
            | Self::TimesFewerBytes { peer, .. }
            | Self::Beside { peer } => Some(peer),
            Self::Seconds { .. } | Self::BytesRead { .. } | Self::Repeated { .. } => None,
        }
    }

    pub fn judged(&self) -> Judged {
        match self {
            Self::Times { .. } | Self::Beside { .. } => Judged::TimesFaster,
            Self::TimesLonger { .. } => Judged::TimesLonger,
            Self::TimesFewerBytes { .. } => Judged::TimesFewerBytes,
            Self::Seconds { .. } => Judged::Seconds,
            Self::BytesRead { .. } => Judged::BytesRead,
            Self::Repeated { .. } => Judged::SecondsRepeated,
        }
    }

    /// What must be reached, and what is hoped for; `None` where the figure is for information.
    pub fn marks(&self) -> Option<(f64, f64)> {
        match *self {
            Self::Times { at_least, aim, .. } | Self::TimesFewerBytes { at_least, aim, .. } => {
                Some((at_least, aim))
            }
            Self::TimesLonger { at_most, aim, .. }
            | Self::Seconds { at_most, aim }
            | Self::BytesRead { at_most, aim }
            | Self::Repeated { at_most, aim } => Some((at_most, aim)),
            Self::Beside { .. } => None,
        }
    }
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

/// Ways that share place, target and rounds, and most often the source.
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

impl Group {
    pub fn way(&self, name: &str) -> Option<&'static Way> {
        self.ways.iter().find(|way| way.name == name)
    }

    /// All that its ways copy, each once.
    pub fn sources(&self) -> Vec<Source> {
        let mut sources = Vec::new();
        for source in self.ways.iter().map(|way| way.source.unwrap_or(self.source)) {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        sources
    }
}

/// Peak memory of each process, of ours, in any group.
pub const MEMORY_KEY: &str = "memory";
pub const MEMORY_TITLE: &str = "peak memory of each process";
pub const MEMORY_AT_LEAST_BYTES: u64 = 256 * MIB;
pub const MEMORY_AIM_BYTES: u64 = 96 * MIB;
