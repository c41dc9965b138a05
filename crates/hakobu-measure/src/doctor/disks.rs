//! Reads facts about disks and processors.

use hakobu_core::host::{HOST_DISKS_MAX, HostDisk, HostFacts, KernelName, PROCESSOR_KINDS_MAX, Processors};

use super::device::has_several_nodes;
use super::system_root::SystemRoot;

/// The maximum number of processors that are read.
const PROCESSORS_MAX: usize = 2048;
/// Block devices without a disk behind them: in memory, on files, or empty.
const NO_DISKS: [&str; 5] = ["loop", "ram", "zram", "nbd", "fd"];

pub(super) fn read(root: &SystemRoot<'_>, facts: &mut HostFacts) {
    facts.processors = processors(root);
    let several_nodes = has_several_nodes(root);
    let names = root.names("/sys/block");
    let disks = names.iter().filter(|name| !NO_DISKS.iter().any(|other| name.starts_with(other)));
    facts.disks = disks.filter_map(|name| disk(root, name, several_nodes)).take(HOST_DISKS_MAX).collect();
}

fn disk(root: &SystemRoot<'_>, name: &str, several_nodes: bool) -> Option<HostDisk> {
    let at = |attribute: &str| format!("/sys/block/{name}/{attribute}");
    // A drive without a medium does not matter.
    root.number::<u64>(&at("size")).filter(|size| *size > 0)?;
    let scheduler = root.text(&at("queue/scheduler")).unwrap_or_default();
    // The NUMA node of a disk, or of its controller.
    let node = ["device/numa_node", "device/device/numa_node"];
    let node = node.iter().find_map(|path| root.number::<i32>(&at(path))).filter(|_| several_nodes);
    Some(HostDisk {
        name: KernelName::from(name),
        rotational: root.number::<u8>(&at("queue/rotational")).unwrap_or(0) != 0,
        scheduler: KernelName::from(chosen(&scheduler)),
        numa_node: node.and_then(|node| node.try_into().ok()),
    })
}

/// Returns the word in brackets: `mq-deadline kyber [bfq] none`.
fn chosen(text: &str) -> &str {
    let words = text.split_whitespace();
    let mut marked = words.filter_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    marked.next().unwrap_or_default()
}

fn processors(root: &SystemRoot<'_>) -> Vec<Processors> {
    let mut kinds: Vec<Processors> = Vec::new();
    let is_processor = |name: &&String| {
        name.strip_prefix("cpu")
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    let names = root.names("/sys/devices/system/cpu");
    for name in names.iter().filter(is_processor).take(PROCESSORS_MAX) {
        let at = |attribute: &str| format!("/sys/devices/system/cpu/{name}/cpufreq/{attribute}");
        let Some(governor) = root.text(&at("scaling_governor")) else { continue };
        let khz = |attribute: &str| root.number(&at(attribute)).unwrap_or(0);
        let found = Processors {
            count: 1,
            governor: KernelName::from(governor.as_str()),
            driver: KernelName::new(root.text(&at("scaling_driver")).unwrap_or_default()),
            lowest_khz: khz("scaling_min_freq"),
            highest_khz: khz("scaling_max_freq"),
            hardware_khz: khz("cpuinfo_max_freq"),
        };
        match kinds.iter().position(|known| Processors { count: 1, ..known.clone() } == found) {
            Some(known) => kinds[known].count += 1,
            None if kinds.len() < PROCESSOR_KINDS_MAX => kinds.push(found),
            None => {}
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::super::system_root::recorded::facts;

    #[test]
    fn disks_have_a_scheduler_and_processors_of_a_kind_are_counted() {
        let mut files = vec![
            ("sys/block/nvme0n1/size".to_owned(), "1000\n"),
            ("sys/block/nvme0n1/queue/rotational".to_owned(), "0\n"),
            ("sys/block/nvme0n1/queue/scheduler".to_owned(), "none mq-deadline kyber [bfq] \n"),
            ("sys/block/nvme0n1/device/device/numa_node".to_owned(), "1\n"),
            ("sys/block/sr0/size".to_owned(), "0\n"),
            ("sys/block/loop0/size".to_owned(), "100\n"),
            ("sys/devices/system/node/node1/cpulist".to_owned(), "4-7\n"),
            ("sys/devices/system/cpu/cpufreq/x".to_owned(), "1\n"),
        ];
        for (number, governor) in [(0, "powersave\n"), (1, "powersave\n"), (2, "performance\n")] {
            let at = |name: &str| format!("sys/devices/system/cpu/cpu{number}/cpufreq/{name}");
            files.push((at("scaling_governor"), governor));
            files.push((at("scaling_driver"), "acpi-cpufreq\n"));
            files.push((at("scaling_min_freq"), "800000\n"));
            files.push((at("scaling_max_freq"), "3200000\n"));
            files.push((at("cpuinfo_max_freq"), "3200000\n"));
        }
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let found = facts(&files, None);
        assert_eq!(found.disks.len(), 1);
        assert!(found.disks[0].scheduler.is("bfq") && !found.disks[0].rotational);
        assert_eq!(found.disks[0].numa_node, Some(1));
        let kinds: Vec<_> = found.processors.iter().map(|kind| (kind.governor.shown(), kind.count)).collect();
        assert_eq!(kinds, [("powersave".to_owned(), 2), ("performance".to_owned(), 1)]);
        assert_eq!(found.processors[0].lowest_khz, 800_000);
    }
}
