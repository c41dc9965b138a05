//! Observes the processes of this machine.

use std::fs;

use super::processes::{
    ObservedProcess, ProcessRoot, ProcessSnapshot, THREADS_MAX, is_server, parse_retransmitted, parse_stat,
    parse_waited,
};

/// Returns the processes on this machine that began after this one, and the ssh servers.
pub(super) fn moment() -> ProcessSnapshot {
    let own = read("/proc/self/stat").as_deref().and_then(parse_stat).map_or(0, |own| own.began_ticks);
    let mut processes: Vec<ObservedProcess> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) else {
            continue;
        };
        let stat = read(&format!("/proc/{name}/stat"));
        let Some(mut seen) = stat.as_deref().and_then(parse_stat) else { continue };
        if seen.began_ticks >= own || is_server(&seen.name) {
            seen.waited_ns = if seen.threads <= THREADS_MAX { waited_ns(name) } else { None };
            processes.push(seen);
        }
    }
    let retransmitted = read("/proc/thread-self/net/snmp").as_deref().and_then(parse_retransmitted);
    ProcessSnapshot { processes, retransmitted }
}

/// Returns how long the threads of a process have waited for a processor, as a sum in nanoseconds. Threads that end
/// meanwhile are skipped.
fn waited_ns(process: &str) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten();
    let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok());
    texts.filter_map(|text| parse_waited(&text)).reduce(u64::saturating_add)
}

/// Returns the roots whose descendants belong to a run on this machine: this process and, if the run is started on
/// the host, the sessions of the ssh servers. The server of the bench's own login is excluded, for the case that the
/// host is this machine.
pub(super) fn roots(moment: &ProcessSnapshot, serves: bool, except: Option<u32>) -> Vec<ProcessRoot> {
    let own = std::iter::once(ProcessRoot::Process(std::process::id()));
    let is_listener = |seen: &&ObservedProcess| {
        let among = |parent| moment.processes.iter().any(|seen| seen.pid == parent && is_server(&seen.name));
        is_server(&seen.name) && !among(seen.parent) && Some(seen.pid) != except
    };
    let servers = moment
        .processes
        .iter()
        .filter(|_| serves)
        .filter(is_listener)
        .map(|seen| ProcessRoot::Server(seen.pid));
    own.chain(servers).collect()
}

pub(super) fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second().max(1) as f64
}

/// Returns the boot ID of this machine. A host with the same ID is this machine.
pub(super) fn boot() -> Option<String> {
    read("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned())
}

/// Returns the network namespace of this process, which has its own counters.
pub(super) fn network() -> Option<String> {
    fs::read_link("/proc/self/ns/net").ok().map(|link| link.to_string_lossy().into_owned())
}

fn read(path: &str) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::spinner::Spinner;
    use super::*;

    #[test]
    fn every_thread_of_a_process_waits() {
        let spinner = Spinner::start();
        let found = || moment().processes.into_iter().find(|seen| seen.pid == spinner.pid()).unwrap();
        spinner.wait_until_all_threads_count(|| {
            let found = found();
            (found.threads, found.waited_ns.unwrap())
        });
    }

    #[test]
    fn a_child_of_ours_is_seen() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = moment().processes.into_iter().find(|seen| seen.pid == child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found.unwrap().parent, std::process::id());
        assert!(boot().is_some() && ticks_per_second() >= 1.0);
    }

    #[test]
    fn listeners_are_roots_and_their_sessions_are_not() {
        let seen = |pid, parent, name: &str| ObservedProcess {
            pid,
            parent,
            name: name.to_owned(),
            is_runnable: false,
            ticks: 0,
            child_ticks: 0,
            began_ticks: 0,
            threads: 1,
            waited_ns: None,
        };
        let processes =
            vec![seen(5, 1, "sshd"), seen(6, 5, "sshd-session"), seen(9, 1, "sshd"), seen(8, 1, "sh")];
        let moment = ProcessSnapshot { processes, retransmitted: None };
        let own = ProcessRoot::Process(std::process::id());
        assert_eq!(roots(&moment, true, Some(9)), [own, ProcessRoot::Server(5)]);
        assert_eq!(roots(&moment, false, None), [own]);
    }
}
