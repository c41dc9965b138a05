//! The messages of the contract's refusals.

use super::{DeviceFacts, HolderKind, RefusalKind, Signature, UseKind, format_bytes, lossy};

/// The maximum number of contents of a disk that one sentence names.
pub const SHOWN_MAX: usize = 12;

/// Returns the device's path.
pub fn path(facts: &DeviceFacts) -> String {
    lossy(&facts.path)
}

/// Returns the device's path with model and size, so that a wrong device is noticed.
pub fn device(facts: &DeviceFacts) -> String {
    let model = lossy(&facts.model);
    let comma = if model.is_empty() { "" } else { ", " };
    format!("{} ({model}{comma}{})", path(facts), format_bytes(facts.size_bytes))
}

/// Returns the path of a device from its kernel name.
pub fn node(name: &[u8]) -> String {
    // An exclamation mark in a sysfs name stands for a slash.
    format!("/dev/{}", lossy(name).replace('!', "/"))
}

/// Describes the device in use: the device itself, one of its partitions, or a volume on it.
pub fn used(facts: &DeviceFacts, name: &[u8]) -> String {
    if name == facts.name {
        device(facts)
    } else if facts.partitions.iter().any(|partition| partition.name == name) {
        format!("{}, a partition of {},", node(name), path(facts))
    } else {
        format!("{}, which shares {},", node(name), path(facts))
    }
}

/// Returns each mounted device with its mount points. `wanted` selects mounts by their read-only flag.
pub fn mounts(facts: &DeviceFacts, wanted: impl Fn(bool) -> bool) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for used_by in &facts.uses {
        let UseKind::Mounted { path, read_only, .. } = &used_by.kind else { continue };
        if !wanted(*read_only) {
            continue;
        }
        let (device, place) = (used(facts, &used_by.device), lossy(path));
        match found.iter_mut().find(|(known, _)| *known == device) {
            Some((_, places)) => places.push(place),
            None => found.push((device, vec![place])),
        }
    }
    found
}

/// Returns the refusal of a mounted device.
pub fn mounted(device: &str, places: &[String]) -> String {
    let system = places.iter().any(|place| ["/", "/usr", "/boot"].contains(&place.as_str()));
    let next = match system {
        true => {
            "it holds the running system; name another target, or start the machine from another disk".into()
        }
        false => format!("unmount it first (umount {}), or name another target", places.join(" ")),
    };
    format!("{device} is mounted at {}: {next}", list(places))
}

/// Joins names into a list for a sentence.
pub fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns the refusal of a device that is part of a volume.
pub fn holder(device: &str, name: &[u8], label: &[u8], kind: HolderKind) -> (RefusalKind, String) {
    let (label, node) = (lossy(if label.is_empty() { name } else { label }), node(name));
    let else_another = "or name another target";
    match kind {
        HolderKind::Md => (
            RefusalKind::Md,
            format!(
                "{device} belongs to the RAID {label}: stop that first (mdadm --stop {node}), {else_another}"
            ),
        ),
        HolderKind::Lvm => (
            RefusalKind::Lvm,
            format!(
                "{device} holds the LVM volume {label}: deactivate that first (vgchange -an and the name of its \
                 volume group), {else_another}"
            ),
        ),
        HolderKind::Crypt => (
            RefusalKind::Crypt,
            format!(
                "{device} is open as the encrypted volume {label}: close that first (cryptsetup close {label}), \
                 {else_another}"
            ),
        ),
        HolderKind::Multipath => (
            RefusalKind::Multipath,
            format!("{device} is one path of the multipath device {label}: name /dev/mapper/{label} instead"),
        ),
        HolderKind::OtherDm => (
            RefusalKind::DeviceMapper,
            format!(
                "{device} is part of the device-mapper volume {label}: remove that first (dmsetup remove {label}), \
                 {else_another}"
            ),
        ),
        HolderKind::Bcache => (
            RefusalKind::Bcache,
            format!(
                "{device} belongs to {label}: stop that first (echo 1 > /sys/block/{label}/bcache/stop), \
                 {else_another}"
            ),
        ),
        HolderKind::Other => (
            RefusalKind::OtherHolder,
            format!("{device} is part of {node}: take that apart first, {else_another}"),
        ),
    }
}

/// Returns the pool's name, or a placeholder if it is unknown.
pub fn pool(name: &[u8]) -> String {
    if name.is_empty() { "(name unknown)".into() } else { lossy(name) }
}

/// Returns the refusal of a pool member.
pub fn zfs(device: &str, name: &[u8], known: bool) -> String {
    let pool = pool(name);
    match known {
        true => {
            format!(
                "{device} belongs to the ZFS pool {pool}, which is imported: export that first (zpool export {pool})"
            )
        }
        false => format!(
            "{device} belongs to the ZFS pool {pool}, and it cannot be seen whether that is imported: export it \
             (zpool export {pool}); if the pool is given up, clear the label (zpool labelclear)"
        ),
    }
}

/// Describes one item of a device's contents.
pub fn content(partition: Option<u32>, signature: &Signature) -> String {
    let mut words = partition.map(|number| format!("partition {number}: ")).unwrap_or_default();
    words += signature.kind.name();
    if !signature.label.is_empty() {
        words += &format!(" \"{}\"", lossy(&signature.label));
    }
    words
}
