//! Reads the resource limits of a process of this login.

use hakobu_core::host::{Capped, HostFacts, ProcessLimits};

use super::system_root::SystemRoot;

pub(super) fn read(root: &SystemRoot<'_>, facts: &mut HostFacts) {
    let Some(text) = root.text("/proc/self/limits") else {
        facts.unread("/proc/self/limits: it cannot be read");
        return;
    };
    let limit = |name: &str| -> (Capped, Capped) {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
        let mut words = lines.next().unwrap_or_default().split_whitespace().map(capped);
        (words.next().unwrap_or_default(), words.next().unwrap_or_default())
    };
    facts.limits = ProcessLimits {
        open_files: limit("Max open files"),
        file_bytes: limit("Max file size").0,
        processor_seconds: limit("Max cpu time").0,
        address_space_bytes: limit("Max address space").0,
    };
}

fn capped(word: &str) -> Capped {
    match word {
        "unlimited" => Capped::Unlimited,
        number => number.parse().map_or(Capped::Unknown, Capped::At),
    }
}

#[cfg(test)]
mod tests {
    use super::super::system_root::recorded::facts;
    use super::*;

    #[test]
    fn limits_are_those_of_the_process() {
        let text = "\
Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max file size             1073741824           unlimited            bytes
Max open files            1024                 524288               files
";
        let limits = facts(&[("proc/self/limits", text)], None).limits;
        assert_eq!(limits.open_files, (Capped::At(1024), Capped::At(524_288)));
        assert_eq!((limits.file_bytes, limits.processor_seconds), (Capped::At(1 << 30), Capped::Unlimited));
        assert_eq!(limits.address_space_bytes, Capped::Unknown);
        assert!(!facts(&[], None).unread.is_empty());
    }
}
