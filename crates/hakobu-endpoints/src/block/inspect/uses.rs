//! Finds what uses a device: the device itself, a partition of it, or a volume on it.

use std::os::unix::ffi::OsStrExt;

use hakobu_core::disk::{
    DeviceFacts, DeviceNumber, DeviceUse, FileNumber, SignatureKind, TEXT_BYTES_MAX, USES_MAX, UseKind,
};

use super::identity::file_number;
use super::kernel_directories::{KernelDirectories, block_device_at, entries};
use super::mounts::{DeviceMount, mounts, swaps};
use super::node::BlockDevice;
use super::writers::{DeviceWriter, OpenedDevice, writers};

/// Everything in use on this machine, determined once for all devices.
pub struct SystemUses {
    mounts: Vec<DeviceMount>,
    swaps: Vec<OpenedDevice>,
    writers: Vec<DeviceWriter>,
    all_writers_seen: bool,
    /// Loop devices, each with the block device behind it.
    loops: Vec<(BlockDevice, DeviceNumber)>,
    /// Loop devices, each with the file behind it.
    files: Vec<(BlockDevice, FileNumber)>,
    /// The imported pools, if the kernel has ZFS.
    pools: Option<Vec<Vec<u8>>>,
}

impl SystemUses {
    /// Collects everything in use on the machine.
    pub fn look(places: &KernelDirectories) -> Self {
        let mounts = mounts(places);
        let loops = entries(&places.sys.join("block")).into_iter().filter_map(|path| {
            let node = BlockDevice::at(&path).filter(|node| node.name.starts_with(b"loop"))?;
            let behind = block_device_at(&node.backing_path()?)?;
            Some((node, behind))
        });
        let nodes = entries(&places.sys.join("block")).into_iter().filter_map(|path| BlockDevice::at(&path));
        let files = nodes.filter_map(|node| {
            let behind = file_number(&node, &node.backing_path()?)?;
            Some((node, behind))
        });
        let files: Vec<_> = files.collect();
        let opened: Vec<_> = files.iter().map(|(_, file)| opened(file)).collect();
        let (writers, all_writers_seen) = writers(places, &opened);
        Self {
            files,
            swaps: swaps(places),
            writers,
            all_writers_seen,
            loops: loops.collect(),
            pools: pools(places, &mounts),
            mounts,
        }
    }

    /// Sets the uses of the device and of everything on it.
    pub fn uses_of(&self, places: &KernelDirectories, node: &BlockDevice, facts: &mut DeviceFacts) {
        if !self.all_writers_seen {
            facts.note("without root, processes of others that have it open for writing cannot be seen");
        }
        let mut uses = Uses { machine: self, found: Vec::new(), members: Vec::new() };
        uses.add(node.clone());
        // Another loop device with the same file is the same disk, possibly at another offset.
        let behind =
            self.files.iter().find(|(known, _)| known.number == node.number).map(|(_, behind)| behind);
        let is_same =
            |one: &FileNumber, other: &FileNumber| (one.device, one.inode) == (other.device, other.inode);
        let twins = self.files.iter().filter(|(_, file)| behind.is_some_and(|behind| is_same(behind, file)));
        twins.for_each(|(twin, _)| uses.add(twin.clone()));
        uses.follow(0, None);
        if let Some(whole) = node.whole() {
            // Uses of the whole disk count for the partition, uses of its other partitions do not.
            let first = uses.members.len();
            uses.add(whole.clone());
            uses.follow(first, Some(whole.number));
        }
        // Writing to the file behind a loop device writes to everything on it.
        node.below(places).iter().for_each(|below| uses.behind(below));
        uses.zfs(facts);
        facts.uses = uses.found;
    }
}

/// Returns a file behind a loop device in the form in which processes have it open.
fn opened(file: &FileNumber) -> OpenedDevice {
    OpenedDevice::File(file.device, file.inode)
}

/// Returns the pools that the kernel's ZFS knows, if the kernel has ZFS.
fn pools(places: &KernelDirectories, mounts: &[DeviceMount]) -> Option<Vec<Vec<u8>>> {
    let kernel = places.proc.join("spl/kstat/zfs");
    if !kernel.is_dir() {
        return None;
    }
    let directories = entries(&kernel).into_iter().filter(|path| path.is_dir());
    let mut pools: Vec<_> =
        directories.filter_map(|path| Some(path.file_name()?.as_bytes().to_vec())).collect();
    let mounted = mounts.iter().filter(|mount| mount.file_system == "zfs");
    pools.extend(mounted.filter_map(|mount| Some(mount.source.split(|&byte| byte == b'/').next()?.to_vec())));
    Some(pools)
}

struct Uses<'a> {
    machine: &'a SystemUses,
    found: Vec<DeviceUse>,
    /// The devices whose uses count.
    members: Vec<BlockDevice>,
}

impl Uses<'_> {
    fn add(&mut self, node: BlockDevice) {
        if self.members.len() < USES_MAX && !self.members.iter().any(|member| member.number == node.number) {
            self.members.push(node);
        }
    }

    /// Adds the uses of the members from index `first` on, and of all volumes on them. The partitions of the device
    /// `without_partitions` are left out.
    fn follow(&mut self, first: usize, without_partitions: Option<DeviceNumber>) {
        let mut next = first;
        while let Some(node) = self.members.get(next).cloned() {
            next += 1;
            self.direct(&node);
            if without_partitions != Some(node.number) {
                node.partitions().into_iter().for_each(|partition| self.add(partition));
            }
            self.volumes(&node).into_iter().for_each(|volume| self.add(volume));
        }
    }

    fn push(&mut self, node: &BlockDevice, kind: UseKind) {
        let found = DeviceUse { device: node.name.clone(), kind };
        if self.found.len() < USES_MAX && !self.found.contains(&found) {
            self.found.push(found);
        }
    }

    /// Adds mounts, swap space and writing processes.
    fn direct(&mut self, node: &BlockDevice) {
        let machine = self.machine;
        for mount in machine.mounts.iter().filter(|mount| mount.devices.contains(&node.number)) {
            let (path, file_system) = (mount.path.clone(), mount.file_system.clone());
            self.push(node, UseKind::Mounted { path, file_system, read_only: mount.read_only });
        }
        self.opened(node, OpenedDevice::Device(node.number));
        self.behind(node);
    }

    /// Adds swap space and writing processes of a device or of the file behind it.
    fn opened(&mut self, node: &BlockDevice, opened: OpenedDevice) {
        let machine = self.machine;
        if machine.swaps.contains(&opened) {
            self.push(node, UseKind::Swap);
        }
        for writer in machine.writers.iter().filter(|writer| writer.opened == opened) {
            let (pid, command) = (writer.pid, writer.command.clone());
            self.push(node, UseKind::OpenForWriting { pid, command });
        }
    }

    /// Adds the uses of the file behind a device, if there is one.
    fn behind(&mut self, node: &BlockDevice) {
        let file = self.machine.files.iter().find(|(known, _)| known.number == node.number);
        if let Some((_, file)) = file {
            self.opened(node, opened(file));
        }
    }

    /// Returns the volumes that are built on a device, and adds them as uses.
    fn volumes(&mut self, node: &BlockDevice) -> Vec<BlockDevice> {
        let mut volumes = node.holders();
        for holder in &volumes {
            let (kind, mut label) = holder.as_holder();
            label.truncate(TEXT_BYTES_MAX);
            self.push(node, UseKind::Holder { name: holder.name.clone(), label, kind });
        }
        let machine = self.machine;
        for (loop_device, _) in machine.loops.iter().filter(|(_, behind)| *behind == node.number) {
            self.push(node, UseKind::Loop { name: loop_device.name.clone() });
            volumes.push(loop_device.clone());
        }
        volumes
    }

    /// Adds memberships in ZFS pools. The kernel does not report the devices of an imported pool.
    fn zfs(&mut self, facts: &DeviceFacts) {
        let Some(pools) = &self.machine.pools else { return };
        for (partition, signature) in facts.all_contents() {
            if signature.kind != SignatureKind::Zfs || self.found.len() >= USES_MAX {
                continue;
            }
            let mut partitions = facts.partitions.iter().filter(|one| !one.name.is_empty());
            let named = partitions.find(|one| Some(one.number) == partition);
            let imported = match signature.label.is_empty() {
                true if !pools.is_empty() => None,
                _ => Some(pools.contains(&signature.label)),
            };
            let kind = UseKind::Zfs { pool: signature.label.clone(), imported };
            self.found.push(DeviceUse { device: named.map_or(&facts.name, |one| &one.name).clone(), kind });
        }
    }
}
