//! Advice on processors, disks, process limits and mounts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use hakobu_core::host::{Capped, HostFacts, HostMount, Processors};
use hakobu_core::path::lossy;
use hakobu_core::shell::quote;
use hakobu_core::units::format_bytes;

use super::finding::{ExpectedGain, Finding, FindingHost, Severity, in_command};

/// The drivers whose `powersave` governor follows the load. With other drivers it always selects the lowest clock
/// rate.
const FOLLOWING_DRIVERS: [&str; 2] = ["intel_pstate", "amd-pstate-epp"];
/// The share of the hardware's clock rate below which a finding is reported.
const CLOCK_SHARE: f64 = 0.8;
/// The number of open files that hakobu may need: connections, and a few files each.
const OPEN_FILES_MIN: u64 = 256;
/// The suggested number of open files.
const RAISED_FILES: u64 = 4096;
/// A hint where to set a limit.
const KEPT: &str = "in the login's shell; /etc/security/limits.conf keeps it";
/// The address space in bytes below which many threads may not fit.
const ADDRESS_SPACE_MIN_BYTES: u64 = 4 << 30;
/// The request size of a network file system in bytes below which a finding is reported: 1 MiB is common.
const REQUEST_MIN_BYTES: u64 = 64 << 10;

pub(super) fn judge(whose: FindingHost, facts: &HostFacts, findings: &mut Vec<Finding>) {
    let mut add = |id, severity, words: [String; 3], times: Option<f64>| {
        let [fact, why, command] = words;
        let expected = times.map(|times| ExpectedGain { times: Some(times), ..ExpectedGain::default() });
        findings.push(Finding { id, whose, severity, fact, why, command, expected });
    };
    facts.processors.iter().for_each(|kind| clock(kind, &mut add));
    disks(facts, &mut add);
    limits(facts, &mut add);
    facts.mounts.iter().for_each(|mount| mounted(mount, &mut add));
}

/// A callback that adds a finding: identifier, severity, the three texts, and the expected speed-up as a factor.
type AddFinding<'a> = dyn FnMut(&'static str, Severity, [String; 3], Option<f64>) + 'a;

fn clock(kind: &Processors, add: &mut AddFinding<'_>) {
    let (lowest, highest, hardware) =
        (kind.lowest_khz as f64, kind.highest_khz as f64, kind.hardware_khz as f64);
    let follows = FOLLOWING_DRIVERS.iter().any(|driver| kind.driver.is(driver));
    let (count, mhz) = (kind.count, |khz: f64| khz / 1e3);
    if kind.governor.is("powersave") && !follows && lowest > 0.0 && lowest < highest * CLOCK_SHARE {
        let words = [
            format!(
                "{count} processors keep to {:.0} MHz of {:.0} (governor powersave)",
                mhz(lowest),
                mhz(highest)
            ),
            "encryption, checksums and the network take processor time for each byte".to_owned(),
            "cpupower frequency-set --governor schedutil".to_owned(),
        ];
        add("processor-governor", Severity::Limits, words, Some(highest / lowest));
    } else if highest > 0.0 && highest < hardware * CLOCK_SHARE {
        let words = [
            format!("{count} processors are held to {:.0} MHz of {:.0}", mhz(highest), mhz(hardware)),
            "encryption, checksums and the network take processor time for each byte".to_owned(),
            format!("cpupower frequency-set --max {:.0}MHz", mhz(hardware)),
        ];
        add("processor-clock-held", Severity::Limits, words, Some(hardware / highest));
    }
}

fn disks(facts: &HostFacts, add: &mut AddFinding<'_>) {
    for disk in facts.disks.iter().filter(|disk| !disk.rotational && disk.scheduler.is("bfq")) {
        let words = [
            format!("the scheduler of {} is bfq, and it has no head that moves", disk.name.shown()),
            "bfq lets a disk wait for requests that are near, and takes a lock for each".to_owned(),
            format!("echo none > /sys/block/{}/queue/scheduler", in_command(&disk.name, "DISK")),
        ];
        add("disk-scheduler", Severity::Costs, words, None);
    }
}

fn limits(facts: &HostFacts, add: &mut AddFinding<'_>) {
    let limits = &facts.limits;
    if let (Capped::At(files), most) = limits.open_files
        && files < OPEN_FILES_MIN
    {
        let raise = match most {
            Capped::At(hard) if hard < OPEN_FILES_MIN => format!(
                "ulimit -n {RAISED_FILES}  # beyond the hard limit of {hard} only as root; for others: USER - nofile \
                 {RAISED_FILES} in /etc/security/limits.conf, and a new login"
            ),
            Capped::At(hard) => format!("ulimit -n {}  # {KEPT}", hard.min(RAISED_FILES)),
            Capped::Unlimited | Capped::Unknown => format!("ulimit -n {RAISED_FILES}  # {KEPT}"),
        };
        let words = [
            format!("a process of this login may have {files} files open"),
            format!("connections, files and directories of a run take up to {OPEN_FILES_MIN}"),
            raise,
        ];
        add("limit-open-files", Severity::Fails, words, None);
    }
    if let Capped::At(bytes) = limits.file_bytes {
        let words = [
            format!("a process of this login may write files of {} at most", format_bytes(bytes)),
            "a larger one fails there".to_owned(),
            format!("ulimit -f unlimited  # {KEPT}"),
        ];
        add("limit-file-size", Severity::Fails, words, None);
    }
    if let Capped::At(seconds) = limits.processor_seconds {
        let words = [
            format!("a process of this login is ended after {seconds} s of processor time"),
            "a transfer takes about one for each gigabyte".to_owned(),
            format!("ulimit -t unlimited  # {KEPT}"),
        ];
        add("limit-processor-time", Severity::Fails, words, None);
    }
    if let Capped::At(bytes) = limits.address_space_bytes
        && bytes < ADDRESS_SPACE_MIN_BYTES
    {
        let words = [
            format!("a process of this login may ask for {} of memory", format_bytes(bytes)),
            "each thread and each connection asks for more than it uses".to_owned(),
            format!("ulimit -v unlimited  # {KEPT}"),
        ];
        add("limit-memory", Severity::Fails, words, None);
    }
}

fn mounted(mount: &HostMount, add: &mut AddFinding<'_>) {
    let (path, kind) = (lossy(&mount.path), mount.kind.shown());
    let word = quote(OsStr::from_bytes(&mount.path));
    let of_server = ["nfs", "nfs4", "cifs", "smb3"].iter().any(|server| mount.kind.is(server));
    if mount.has("rw") && mount.has("sync") {
        let words = [
            format!("{path} ({kind}) is mounted with sync"),
            "each write waits until it is on the medium; hakobu flushes once, before it says that it is done"
                .to_owned(),
            format!("mount -o remount,async {word}  # and in /etc/fstab"),
        ];
        add("mount-sync", Severity::Costs, words, None);
    }
    if mount.has("rw") && mount.has("data=journal") {
        let words = [
            format!("{path} ({kind}) is mounted with data=journal"),
            "all content is written twice, first to the journal".to_owned(),
            format!("take data=journal out of /etc/fstab, then umount {word} and mount {word}"),
        ];
        add("mount-data-journal", Severity::Limits, words, Some(2.0));
    }
    let smallest = ["rsize", "wsize"].iter().filter_map(|option| mount.number(option)).min();
    if let Some(bytes) = smallest.filter(|bytes| of_server && *bytes < REQUEST_MIN_BYTES) {
        let words = [
            format!("{path} ({kind}) moves {bytes} bytes with each request"),
            "each request is a round trip to the server; 1 MiB is usual".to_owned(),
            format!("take rsize and wsize out of /etc/fstab, then umount {word} and mount {word}"),
        ];
        add("mount-requests-small", Severity::Costs, words, None);
    }
    if of_server && mount.has("cache=none") {
        let words = [
            format!("{path} ({kind}) is mounted with cache=none"),
            "each read and write of a program is a round trip to the server".to_owned(),
            format!("mount -o remount,cache=strict {word}  # and in /etc/fstab"),
        ];
        add("mount-no-cache", Severity::Costs, words, None);
    }
}
