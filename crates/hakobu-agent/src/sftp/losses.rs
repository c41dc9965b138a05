//! What the way over SFTP costs, said before anything moves.

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::job::Mode;
use hakobu_core::losses::LossKind;
use hakobu_endpoints::sftp::Abilities;

use super::side::SftpSide;
use crate::request::{CopyRequest, Durable, Verify};

/// What is lost to a server with these abilities.
pub(super) fn as_target(abilities: Abilities, is_root: bool, durable: Durable) -> Vec<&'static str> {
    let mut lost = vec![
        "fractions of a second, and times before 1970 and after 2105",
        "extended attributes and access lists",
        "device nodes and named pipes",
    ];
    if !is_root {
        lost.push("owners");
    }
    if !abilities.hard_links {
        lost.push("hard links");
    }
    if !abilities.sets_links {
        lost.push("times of symbolic links");
    }
    if !abilities.renames_over {
        lost.push("replacing a file in one step");
    }
    if !abilities.tells_room {
        lost.push("a word on why something cannot be written");
    }
    if durable == Durable::Yes && !abilities.syncs {
        lost.push("certainty that it is on stable storage");
    }
    lost
}

/// What a server cannot show of a source.
pub(super) fn as_source() -> Vec<&'static str> {
    vec!["fractions of a second", "extended attributes and access lists", "hard links", "device nodes"]
}

/// Refuses what the way cannot do.
pub(super) fn check(request: &CopyRequest, source: bool, target: Option<&SftpSide>) -> Result<()> {
    let (side, target) = (target, target.is_some());
    let refuse = |words: &str| {
        let words = format!(
            "{words}; leave it out, or make an agent possible (--transport agent says what it lacks)"
        );
        Err(Error::new(ErrorKind::Usage, "copying over sftp", words))
    };
    if source && request.one_file_system {
        return refuse("--one-file-system: an sftp server does not tell file systems apart");
    }
    if target && request.verify == Verify::Medium {
        return refuse("--verify medium: over sftp nobody reads the far medium past its cache");
    }
    if target && request.in_place && request.mode == Mode::Delta {
        return refuse("--in-place: over sftp files are replaced, not changed");
    }
    if request.preserve.by_name {
        return refuse("--by-name: an sftp server does not tell the names of users and groups");
    }
    if request.passes.is_some() {
        return refuse("passes over a live source take an agent on the far machine");
    }
    if request.wants_compression() {
        return refuse(
            "--compress zstd: an sftp server does not decompress (--ssh 'ssh -C' compresses in ssh)",
        );
    }
    if request.sudo {
        return refuse("--sudo: an sftp server runs as the account that logs in");
    }
    let lost = |kind| {
        let words =
            format!("--require {} cannot be met: an sftp server cannot keep it", LossKind::name(kind));
        Err(Error::new(ErrorKind::Requirement, "copying over sftp", words))
    };
    // Otherwise it would be known only when files have been replaced.
    let required = |kind| request.require.contains(&kind) && target;
    match side {
        Some(side) if required(LossKind::Owner) && !side.is_root() => return lost(LossKind::Owner),
        Some(side) if required(LossKind::HardLinks) && !side.abilities().hard_links => {
            return lost(LossKind::HardLinks);
        }
        _ => {}
    }
    let unseen = [LossKind::Acl, LossKind::Xattr, LossKind::HardLinks, LossKind::Flags, LossKind::Holes];
    let unseen = unseen.into_iter().find(|kind| source && request.require.contains(kind));
    if let Some(kind) = unseen {
        let words = format!("--require {} cannot be met: an sftp server does not show it", kind.name());
        return Err(Error::new(ErrorKind::Requirement, "copying over sftp", words));
    }
    Ok(())
}
