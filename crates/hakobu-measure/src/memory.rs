//! Reads the memory size of the machine.

/// Returns the total memory in bytes. `None` if the system does not report it.
#[must_use]
pub fn total_bytes() -> Option<u64> {
    of_system("MemTotal:")
}

/// Returns the available memory in bytes, which can be used without taking it from other programs. `None` if the
/// system does not report it.
#[must_use]
pub fn available_bytes() -> Option<u64> {
    of_system("MemAvailable:")
}

fn of_system(name: &str) -> Option<u64> {
    bytes(&std::fs::read_to_string("/proc/meminfo").ok()?, name)
}

fn bytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_a_recorded_file_and_from_this_machine() {
        let meminfo = "MemTotal:       24684092 kB\nMemFree: 1 kB\nMemAvailable: 7 kB\nMemOdd: 7 MB\n";
        assert_eq!(bytes(meminfo, "MemTotal:"), Some(24_684_092 * 1024));
        assert_eq!(bytes(meminfo, "MemAvailable:"), Some(7 * 1024));
        assert_eq!((bytes(meminfo, "MemOdd:"), bytes("", "MemTotal:")), (None, None));
        let (available, total) = (available_bytes().unwrap(), total_bytes().unwrap());
        assert!((1 << 20..=total).contains(&available));
    }
}
