//! Where a history happens: the file systems of both sides and the way between them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::generate::Limits;
use super::promise::Abilities;
use super::rng::Rng;

/// Where a history happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The file system of the source, by its name.
    pub source: String,
    /// The file system of the target.
    pub target: String,
    /// The way between them.
    pub way: String,
}

/// Returns a random setting out of those that can be had here.
pub fn random(rng: &mut Rng) -> Setting {
    let pick = |rng: &mut Rng| if rng.percent(70) { "tmpfs" } else { "disk" };
    Setting { source: pick(rng).to_owned(), target: pick(rng).to_owned(), way: "local".to_owned() }
}

impl Setting {
    /// Returns the limits of a tree that both sides have room for.
    pub fn within(&self, limits: Limits) -> Limits {
        limits
    }

    /// Returns what the target and the way can hold.
    pub fn abilities(&self) -> Abilities {
        match self.target.as_str() {
            // The disk of this machine is ext4, which keeps attributes in the inode and one block.
            "disk" => Abilities {
                xattr_bytes_max: 3900,
                mtime_range_s: (-(1 << 31), 15_032_385_535),
                ..Abilities::default()
            },
            _ => Abilities::default(),
        }
    }
}

/// The folders of one history. Dropping it removes them.
#[derive(Debug)]
pub struct Ground {
    /// The side of the source: `source` is in it.
    pub source: PathBuf,
    /// The side of the target: `target` and `one` are in it.
    pub target: PathBuf,
    /// Reports, lists and outputs.
    pub notes: PathBuf,
    keep: bool,
}

impl Ground {
    /// Makes the folders of a history.
    pub fn new(setting: &Setting, worker: &str, keep: bool) -> anyhow::Result<Self> {
        let base = |kind: &str| match kind {
            "tmpfs" => PathBuf::from("/dev/shm"),
            _ => PathBuf::from("/var/tmp"),
        };
        let folder = |kind: &str, side: &str| {
            base(kind).join(format!("hakobu-torture-{}-{worker}-{side}", std::process::id()))
        };
        let ground = Self {
            source: folder(&setting.source, "s"),
            target: folder(&setting.target, "t"),
            notes: folder("tmpfs", "n"),
            keep,
        };
        for place in [&ground.source, &ground.target, &ground.notes] {
            clear(place);
            std::fs::create_dir_all(place)?;
        }
        Ok(ground)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if !self.keep {
            for place in [&self.source, &self.target, &self.notes] {
                clear(place);
            }
        }
    }
}

fn clear(place: &Path) {
    // What cannot be removed is found by whoever makes it again.
    let _ = std::fs::remove_dir_all(place);
}
