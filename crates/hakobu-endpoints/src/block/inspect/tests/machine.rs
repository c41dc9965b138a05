//! Tests with recorded trees in place of the kernel's, for hardware that is not present and all kinds of volumes.

use std::fs;
use std::os::unix::fs::symlink;

use hakobu_core::disk::{
    BootObstacle, DeviceFacts, DeviceRelation, HolderKind, IdKind, Signature, SignatureKind, relation,
};
use tempfile::TempDir;

use super::super::*;

mod hardware;
mod volumes;

/// A tree for `/sys`, `/proc` and `/dev` in a temporary directory.
struct Recorded {
    places: KernelDirectories,
    _directory: TempDir,
}

impl Recorded {
    /// Creates a tree from lines of the form `path = contents` or `path -> path below the tree`.
    fn new(lines: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for name in ["sys/block", "sys/dev/block", "proc", "dev"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let places =
            KernelDirectories { sys: root.join("sys"), proc: root.join("proc"), dev: root.join("dev") };
        let recorded = Self { places, _directory: directory };
        recorded.add("proc/sys/kernel/random/boot_id = this-start\\n");
        recorded.add(lines);
        recorded
    }

    fn add(&self, lines: &str) {
        let root = self._directory.path();
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let parts = line.split_once(" = ").map(|(path, contents)| (path, contents, false));
            let parts = parts.or_else(|| line.split_once(" -> ").map(|(path, target)| (path, target, true)));
            let (path, value, is_link) = parts.unwrap_or_else(|| panic!("not a line of a tree: {line}"));
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match is_link {
                true => symlink(root.join(value), path).unwrap(),
                false => fs::write(path, value.replace("\\n", "\n").replace("\\0", "\0")).unwrap(),
            }
        }
    }

    /// Adds a disk with its links and these partitions.
    fn add_disk(&self, directory: &str, number: &str, size_bytes: u64, partitions: &[(u32, &str)]) {
        let name = directory.rsplit('/').next().unwrap();
        let sectors = size_bytes / 512;
        self.add(&format!(
            "sys/{directory}/dev = {number}\\n
             sys/{directory}/size = {sectors}\\n
             sys/{directory}/queue/logical_block_size = 512\\n
             sys/{directory}/queue/physical_block_size = 4096\\n
             sys/block/{name} -> sys/{directory}
             sys/class/block/{name} -> sys/{directory}
             sys/dev/block/{number} -> sys/{directory}"
        ));
        for (partition, number) in partitions {
            let separator = if name.ends_with(|last: char| last.is_ascii_digit()) { "p" } else { "" };
            let directory = format!("{directory}/{name}{separator}{partition}");
            self.add(&format!(
                "sys/{directory}/dev = {number}\\n
                 sys/{directory}/size = 2048\\n
                 sys/{directory}/partition = {partition}\\n
                 sys/dev/block/{number} -> sys/{directory}"
            ));
        }
    }

    fn node(&self, number: &str) -> BlockDevice {
        BlockDevice::of_number(&self.places, kernel_directories::parse_device_number(number).unwrap())
            .unwrap()
    }

    /// Returns the facts of a device and what uses it.
    fn facts(&self, number: &str) -> DeviceFacts {
        let node = self.node(number);
        let mut facts = facts_of(&self.places, node.number, Some(&node), None).unwrap();
        SystemUses::look(&self.places).uses_of(&self.places, &node, &mut facts);
        facts
    }

    /// Returns the ID of a device whose partition table has this UUID.
    fn id(&self, number: &str, table_uuid: &str) -> (IdKind, String) {
        let node = self.node(number);
        let firmware = Firmware::of(&node.whole().unwrap_or(node.clone()));
        let identity = identity::identity(&self.places, &node, &firmware, node.size_bytes(), table_uuid);
        (identity.kind, identity.id)
    }
}
