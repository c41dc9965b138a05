//! What is varied from row to row.

use serde::{Deserialize, Serialize};

/// The size of a block where nothing else is asked for, in bytes.
pub const BLOCK_BYTES: u64 = 64 * 1024;

/// What others are compared with, whatever the direction, the data and the endings.
pub const BASELINE: [Way; 2] = [Way::Hakobu, Way::Dd];

/// What moves the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// This program.
    Hakobu,
    /// `dd | ssh | dd`, or `dd` on one machine.
    Dd,
    /// `scp`
    Scp,
    /// `dd | nc`, and `nc | dd` over there.
    Nc,
    /// `mbuffer` at both ends.
    Mbuffer,
    /// `rsync` over ssh, or on one machine.
    Rsync,
    /// `tar | ssh | tar`, or `tar | tar`.
    Tar,
    /// `cp`, on one machine.
    Cp,
}

/// What shrinks the data on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compressor {
    /// Nothing, or what the way does by itself: hakobu compresses where that pays.
    None,
    /// Nothing, of a way that would compress by itself: `--compress none` of hakobu.
    Off,
    /// `gzip`
    Gzip,
    /// `lzop`
    Lzop,
    /// `pigz`
    Pigz,
    /// `zstd -T0`
    Zstd,
    /// `-C` of scp.
    Ssh,
}

/// Where the data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From here to the host.
    ToHost,
    /// From the host to here.
    FromHost,
    /// From here to here.
    Here,
}

/// Who starts the command, and so logs in to the other, whose sshd serves; or connects to the other, which listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Starter {
    /// This machine.
    Here,
    /// The host.
    There,
}

/// What the data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Does not shrink.
    Random,
    /// Words and numbers, which shrink to about half.
    Text,
    /// Zeros, written and no holes.
    Zeros,
    /// What `gzip` makes of text: does not shrink again.
    Gzipped,
}

/// From what to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ends {
    /// From a file in memory to `/dev/null`.
    MemoryToNothing,
    /// From a file in memory to another.
    MemoryToMemory,
    /// From a file on disk that no cache holds to one on disk, until it is on the medium.
    DiskToDisk,
}

/// One row: a command line, but for the size of the data.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Case {
    /// What moves the data.
    pub way: Way,
    /// The cipher by the name that the way has for it; `None` is what it takes by itself.
    pub cipher: Option<String>,
    /// What shrinks it.
    pub compressor: Compressor,
    /// What is read and written at a time, in bytes, where the way has that.
    pub block_bytes: u64,
    /// Where the data goes.
    pub direction: Direction,
    /// Who starts.
    pub starter: Starter,
    /// What the data is.
    pub content: Content,
    /// From what to what.
    pub ends: Ends,
}

impl Case {
    /// The plainest case of a way: random data, from memory to nothing, started here.
    #[must_use]
    pub fn plain(way: Way, direction: Direction) -> Self {
        Self {
            way,
            cipher: None,
            compressor: Compressor::None,
            block_bytes: BLOCK_BYTES,
            direction,
            starter: Starter::Here,
            content: Content::Random,
            ends: Ends::MemoryToNothing,
        }
    }

    /// Whether it is one that others are compared with: hakobu and `dd | ssh`, on one machine `dd`, with nothing chosen.
    #[must_use]
    pub fn is_baseline(&self) -> bool {
        let plain = Self::plain(self.way, self.direction);
        BASELINE.contains(&self.way) && *self == Self { content: self.content, ends: self.ends, ..plain }
    }

    /// Whether anybody on the way could read the data. `None` where there is no way.
    #[must_use]
    pub fn encrypted(&self) -> Option<bool> {
        match (self.direction, self.way) {
            (Direction::Here, _) => None,
            (_, way) if way.has_own_connection() => Some(false),
            (_, Way::Hakobu) => Some(self.cipher.as_deref() != Some("none")),
            _ => Some(true),
        }
    }

    /// Whether the way has blocks whose size can be chosen.
    #[must_use]
    pub fn has_blocks(&self) -> bool {
        matches!(self.way, Way::Dd | Way::Nc | Way::Mbuffer)
    }

    /// The row in short: `dd | ssh, aes128-ctr, gzip`.
    #[must_use]
    pub fn label(&self) -> String {
        let mut label = self.way.name(self.direction).to_owned();
        if let Some(cipher) = &self.cipher {
            label.push_str(", ");
            label.push_str(cipher.trim_end_matches("@openssh.com"));
        }
        match (self.way, self.compressor) {
            (_, Compressor::None) => {}
            (Way::Hakobu, other) => {
                label.push_str(", --compress ");
                label.push_str(other.name());
            }
            (_, Compressor::Ssh) => label.push_str(", -C"),
            (_, other) => {
                label.push_str(", ");
                label.push_str(other.name());
            }
        }
        if self.has_blocks() && self.block_bytes != BLOCK_BYTES {
            label.push_str(", blocks of ");
            label.push_str(&block(self.block_bytes));
        }
        if self.starter == Starter::There {
            label.push_str(", started there");
        }
        label
    }
}

/// The size of a block as `dd` takes it.
#[must_use]
pub fn block(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{}k", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

impl Way {
    /// What people call it.
    #[must_use]
    pub fn name(self, direction: Direction) -> &'static str {
        let here = direction == Direction::Here;
        match self {
            Self::Hakobu => "hakobu",
            Self::Dd if here => "dd",
            Self::Dd => "dd | ssh",
            Self::Scp => "scp",
            Self::Nc => "nc",
            Self::Mbuffer => "mbuffer",
            Self::Rsync => "rsync",
            Self::Tar if here => "tar | tar",
            Self::Tar => "tar | ssh",
            Self::Cp => "cp",
        }
    }

    /// The programs that it takes, at both ends.
    #[must_use]
    pub fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Hakobu => &[],
            Self::Dd => &["dd"],
            Self::Scp => &["scp"],
            Self::Nc => &["dd", "nc"],
            Self::Mbuffer => &["mbuffer"],
            Self::Rsync => &["rsync"],
            Self::Tar => &["tar"],
            Self::Cp => &["cp"],
        }
    }

    /// Whether it has a connection of its own beside ssh: one end listens, and the one that starts connects.
    #[must_use]
    pub fn has_own_connection(self) -> bool {
        matches!(self, Self::Nc | Self::Mbuffer)
    }

    /// Whether it can write to nothing.
    #[must_use]
    pub fn discards(self) -> bool {
        self != Self::Rsync
    }
}

impl Compressor {
    /// The program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None | Self::Off => "none",
            Self::Gzip => "gzip",
            Self::Lzop => "lzop",
            Self::Pigz => "pigz",
            Self::Zstd => "zstd",
            Self::Ssh => "ssh -C",
        }
    }

    /// All that are programs of their own.
    pub const PROGRAMS: [Self; 4] = [Self::Gzip, Self::Lzop, Self::Pigz, Self::Zstd];
}

impl Content {
    /// What people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random data",
            Self::Text => "text",
            Self::Zeros => "zeros",
            Self::Gzipped => "gzip'd text",
        }
    }
}

impl Ends {
    /// What people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MemoryToNothing => "memory to nothing",
            Self::MemoryToMemory => "memory to memory",
            Self::DiskToDisk => "disk to disk",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_says_what_is_not_plain() {
        let mut case = Case::plain(Way::Dd, Direction::ToHost);
        assert_eq!(case.label(), "dd | ssh");
        case.cipher = Some("aes128-gcm@openssh.com".to_owned());
        case.compressor = Compressor::Pigz;
        case.block_bytes = 4 << 20;
        case.starter = Starter::There;
        assert_eq!(case.label(), "dd | ssh, aes128-gcm, pigz, blocks of 4M, started there");
        assert_eq!(Case::plain(Way::Tar, Direction::Here).label(), "tar | tar");
        let hakobu = |compressor| Case { compressor, ..Case::plain(Way::Hakobu, Direction::ToHost) }.label();
        assert_eq!(hakobu(Compressor::Off), "hakobu, --compress none");
        assert_eq!(hakobu(Compressor::Zstd), "hakobu, --compress zstd");
        assert_eq!([512, 4096, 1000, 3 << 20].map(block), ["512", "4k", "1000", "3M"]);
    }

    #[test]
    fn only_what_encrypts_is_said_to() {
        let encrypted = |way| Case::plain(way, Direction::ToHost).encrypted();
        assert_eq!([Way::Nc, Way::Mbuffer, Way::Scp].map(encrypted), [Some(false), Some(false), Some(true)]);
        let none = Case { cipher: Some("none".to_owned()), ..Case::plain(Way::Hakobu, Direction::ToHost) };
        assert_eq!(none.encrypted(), Some(false));
        assert_eq!(Case::plain(Way::Cp, Direction::Here).encrypted(), None);
    }
}
