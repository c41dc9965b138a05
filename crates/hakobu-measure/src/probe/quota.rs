//! Reads the share of the processors' time that the control groups of this process allow, of version 1 or 2.

use std::fs;
use std::path::{Path, PathBuf};

/// The mount points of version 1's processor groups, and of version 2's groups.
const PLACES_1: [&str; 2] = ["sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"];
const PLACES_2: [&str; 2] = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];

/// Returns the allowed time in thousandths of a processor, by the strictest group, or none if no group limits it.
pub(super) fn permille(root: &Path) -> Option<u32> {
    let own = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mut least: Option<u64> = None;
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let places = match controllers {
            "" => PLACES_2,
            list if list.split(',').any(|name| name == "cpu") => PLACES_1,
            _ => continue,
        };
        for place in places {
            let top = root.join(place);
            let group: PathBuf = top.join(path.trim_start_matches('/'));
            let groups = group.ancestors().take_while(|group| group.starts_with(&top));
            least = groups.filter_map(of_group).chain(least).min();
        }
    }
    least.and_then(|permille| u32::try_from(permille).ok())
}

fn of_group(group: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let (quota, period) = match read("cpu.max") {
        Some(text) => {
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?)
        }
        // Without a limit it is -1.
        None => (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?),
    };
    quota.checked_mul(1000)?.checked_div(period).map(|permille| permille.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_strictest_group_above_counts() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(permille(root), None);
        at(root, "proc/self/cgroup", "4:cpu,cpuacct:/jobs/one\n2:memory:/other\n0::/unit.slice/this\nodd\n");
        assert_eq!(permille(root), None);
        at(root, "sys/fs/cgroup/cpu/jobs/one/cpu.cfs_quota_us", "-1\n");
        at(root, "sys/fs/cgroup/cpu/jobs/one/cpu.cfs_period_us", "100000\n");
        assert_eq!(permille(root), None);
        at(root, "sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "150000\n");
        at(root, "sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us", "100000\n");
        assert_eq!(permille(root), Some(1500));
        at(root, "sys/fs/cgroup/unit.slice/this/cpu.max", "max 100000\n");
        at(root, "sys/fs/cgroup/unit.slice/cpu.max", "30000 100000\n");
        assert_eq!(permille(root), Some(300));
        at(root, "sys/fs/cgroup/memory/other/cpu.max", "1 100000\n");
        at(root, "sys/fs/cgroup/cpu/jobs/one/cpu.cfs_period_us", "0\n");
        at(root, "sys/fs/cgroup/cpu/jobs/one/cpu.cfs_quota_us", "5\n");
        assert_eq!(permille(root), Some(300));
    }
}
