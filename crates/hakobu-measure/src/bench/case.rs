//! The parameters that vary from row to row.

use serde::{Deserialize, Serialize};

/// The default block size in bytes.
pub const BLOCK_BYTES: u64 = 64 * 1024;

/// The methods that all others are compared with, whatever the direction, content and ends.
pub const BASELINE: [Method; 2] = [Method::Hakobu, Method::Dd];

/// The method that transfers the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// hakobu.
    Hakobu,
    /// `dd | ssh | dd`, or `dd` on one machine.
    Dd,
    /// `scp`
    Scp,
    /// `dd | nc`, and `nc | dd` on the host
    Nc,
    /// `mbuffer` at both ends
    Mbuffer,
    /// `rsync` over ssh, or on one machine
    Rsync,
    /// `tar | ssh | tar`, or `tar | tar`
    Tar,
    /// `cp`, on one machine
    Cp,
}

/// The compressor that shrinks the data in transit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compressor {
    /// No compressor, or the method's own default: hakobu compresses when that pays off.
    None,
    /// No compression for a method that compresses by default: `--compress none` of hakobu.
    Off,
    /// `gzip`
    Gzip,
    /// `lzop`
    Lzop,
    /// `pigz`
    Pigz,
    /// `zstd -T0`
    Zstd,
    /// `-C` of scp
    Ssh,
}

/// The direction of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataDirection {
    /// From this machine to the host.
    ToHost,
    /// From the host to this machine.
    FromHost,
    /// Within this machine.
    Here,
}

/// The machine that starts the command. It logs in to the other machine, whose sshd serves, or connects to it while
/// it listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Initiator {
    /// This machine.
    Here,
    /// The host.
    There,
}

/// The kind of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataKind {
    /// Random bytes, which do not compress.
    Random,
    /// Words and numbers, which compress to about half.
    Text,
    /// Zeros that are written, not holes.
    Zeros,
    /// The output of `gzip` on text, which does not compress again.
    Gzipped,
}

/// The kinds of source and target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndKinds {
    /// From a file in memory to `/dev/null`.
    MemoryToNothing,
    /// From a file in memory to another one.
    MemoryToMemory,
    /// From an uncached file on disk to a file on disk, until it is on stable storage.
    DiskToDisk,
}

/// The parameters of one row: a command line, except for the amount of data.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BenchCase {
    /// The method.
    pub way: Method,
    /// The cipher, by the name that the method uses for it. `None` is the method's default.
    pub cipher: Option<String>,
    /// The compressor.
    pub compressor: Compressor,
    /// The block size for reads and writes in bytes, if the method has one.
    pub block_bytes: u64,
    /// The direction of the data.
    pub direction: DataDirection,
    /// The machine that starts.
    pub starter: Initiator,
    /// The kind of data.
    pub content: DataKind,
    /// The kinds of source and target.
    pub ends: EndKinds,
}

impl BenchCase {
    /// Returns the basic case of a method: random data, from memory to nothing, started here.
    #[must_use]
    pub fn plain(way: Method, direction: DataDirection) -> Self {
        Self {
            way,
            cipher: None,
            compressor: Compressor::None,
            block_bytes: BLOCK_BYTES,
            direction,
            starter: Initiator::Here,
            content: DataKind::Random,
            ends: EndKinds::MemoryToNothing,
        }
    }

    /// Returns true if others are compared with this case: hakobu and `dd | ssh` (on one machine `dd`) with default
    /// options.
    #[must_use]
    pub fn is_baseline(&self) -> bool {
        let plain = Self::plain(self.way, self.direction);
        BASELINE.contains(&self.way) && *self == Self { content: self.content, ends: self.ends, ..plain }
    }

    /// Returns whether the data is encrypted in transit. `None` if it does not leave the machine.
    #[must_use]
    pub fn encrypted(&self) -> Option<bool> {
        match (self.direction, self.way) {
            (DataDirection::Here, _) => None,
            (_, way) if way.has_own_connection() => Some(false),
            (_, Method::Hakobu) => Some(self.cipher.as_deref() != Some("none")),
            _ => Some(true),
        }
    }

    /// Returns true if the method has a block size that can be chosen.
    #[must_use]
    pub fn has_blocks(&self) -> bool {
        matches!(self.way, Method::Dd | Method::Nc | Method::Mbuffer)
    }

    /// Returns a short label of the row: `dd | ssh, aes128-ctr, gzip`.
    #[must_use]
    pub fn label(&self) -> String {
        let mut label = self.way.name(self.direction).to_owned();
        if let Some(cipher) = &self.cipher {
            label.push_str(", ");
            label.push_str(cipher.trim_end_matches("@openssh.com"));
        }
        match (self.way, self.compressor) {
            (_, Compressor::None) => {}
            (Method::Hakobu, other) => {
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
        if self.starter == Initiator::There {
            label.push_str(", started there");
        }
        label
    }
}

/// Formats a block size as `dd` accepts it.
#[must_use]
pub fn block(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{}k", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

impl Method {
    /// Returns the display name.
    #[must_use]
    pub fn name(self, direction: DataDirection) -> &'static str {
        let here = direction == DataDirection::Here;
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

    /// Returns the programs that the method needs, at both ends.
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

    /// Returns true if the method has its own connection besides ssh. One end listens, and the one that starts
    /// connects.
    #[must_use]
    pub fn has_own_connection(self) -> bool {
        matches!(self, Self::Nc | Self::Mbuffer)
    }

    /// Returns true if the method can discard the data.
    #[must_use]
    pub fn discards(self) -> bool {
        self != Self::Rsync
    }
}

impl Compressor {
    /// Returns the name of the program.
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

    /// All compressors that are separate programs.
    pub const PROGRAMS: [Self; 4] = [Self::Gzip, Self::Lzop, Self::Pigz, Self::Zstd];
}

impl DataKind {
    /// Returns the display name.
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

impl EndKinds {
    /// Returns the display name.
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
        let mut case = BenchCase::plain(Method::Dd, DataDirection::ToHost);
        assert_eq!(case.label(), "dd | ssh");
        case.cipher = Some("aes128-gcm@openssh.com".to_owned());
        case.compressor = Compressor::Pigz;
        case.block_bytes = 4 << 20;
        case.starter = Initiator::There;
        assert_eq!(case.label(), "dd | ssh, aes128-gcm, pigz, blocks of 4M, started there");
        assert_eq!(BenchCase::plain(Method::Tar, DataDirection::Here).label(), "tar | tar");
        let hakobu = |compressor| {
            BenchCase { compressor, ..BenchCase::plain(Method::Hakobu, DataDirection::ToHost) }.label()
        };
        assert_eq!(hakobu(Compressor::Off), "hakobu, --compress none");
        assert_eq!(hakobu(Compressor::Zstd), "hakobu, --compress zstd");
        assert_eq!([512, 4096, 1000, 3 << 20].map(block), ["512", "4k", "1000", "3M"]);
    }

    #[test]
    fn only_what_encrypts_is_said_to() {
        let encrypted = |way| BenchCase::plain(way, DataDirection::ToHost).encrypted();
        assert_eq!(
            [Method::Nc, Method::Mbuffer, Method::Scp].map(encrypted),
            [Some(false), Some(false), Some(true)]
        );
        let none = BenchCase {
            cipher: Some("none".to_owned()),
            ..BenchCase::plain(Method::Hakobu, DataDirection::ToHost)
        };
        assert_eq!(none.encrypted(), Some(false));
        assert_eq!(BenchCase::plain(Method::Cp, DataDirection::Here).encrypted(), None);
    }
}
