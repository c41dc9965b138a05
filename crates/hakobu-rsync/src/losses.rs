//! Metadata that the remote rsync did not keep, determined by checking the result.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;

use hakobu_core::losses::{Loss, LossKind};

use super::endpoints::{RsyncEndpoints, far_look, here};
use super::remote_rsync::RemoteAccess;
use hakobu_core::prompts::Prompts;

/// Adds the loss of owners if the writer at the target may not set them: then everything there belongs to one user.
pub(super) fn add_owner(
    (way, ends): (&RemoteAccess<'_>, &RsyncEndpoints),
    owners: &HashMap<(u32, u32), u64>,
    prompts: &mut dyn Prompts,
    losses: &mut Vec<Loss>,
) {
    if !way.request.preserve.owner {
        return;
    }
    let here = std::fs::symlink_metadata(here(&ends.local_tree())).map(|found| found.uid()).ok();
    let there = far_look(way, &ends.far_tree(), true, prompts).ok().flatten();
    let (Some(here), Some(there)) = (here, there.map(|item| item.owner.0)) else { return };
    let (source, writer) = if way.outward { (here, there) } else { (there, here) };
    let all: u64 = owners.values().sum();
    let own: u64 = owners.iter().filter(|((user, _), _)| *user == writer).map(|(_, count)| *count).sum();
    if source != writer {
        // The top directory is one of them.
        let (count, example) = (all.saturating_sub(own) + 1, ends.prefix.as_bytes());
        let example = if example.is_empty() { b".".to_vec() } else { example.to_vec() };
        losses.push(Loss { what: LossKind::Owner, count, at_target: true, example });
    }
}
