//! Facts about the host that this process runs on.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use hakobu_core::host::HostFacts;
use hakobu_endpoints::local::StateDirectory;
use hakobu_measure::doctor::{self, SshLogin};
use hakobu_proto::control::AgentMachine;

/// The maximum number of ancestor processes that are examined.
const ANCESTORS_MAX: u32 = 8;

/// Returns a key for a job on this host. Another host may run a job with the same sources and target.
pub fn key_of_job(identity: &[u8; 16]) -> [u8; 32] {
    let name = rustix::system::uname();
    let machine = std::fs::read("/etc/machine-id").unwrap_or_else(|_| name.nodename().to_bytes().to_vec());
    let mut hasher = blake3::Hasher::new_derive_key("hakobu drafts of a job on a machine 1");
    hasher.update(identity);
    hasher.update(&machine);
    *hasher.finalize().as_bytes()
}

/// Returns a key that all runs with parts of one job have, on all hosts.
pub fn key_of_runs(identity: &[u8; 16]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("hakobu drafts of runs with parts of a job 1");
    hasher.update(&identity[..8]);
    *hasher.finalize().as_bytes()
}

/// Returns the nanoseconds since the machine was started, including those in which it slept.
pub fn boot_time_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec.cast_unsigned().saturating_mul(1_000_000_000).saturating_add(now.tv_nsec.cast_unsigned())
}

/// Returns a value that has not been used before on this host.
pub fn unique() -> [u8; 16] {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&since.as_nanos().to_le_bytes());
    hasher.update(&std::process::id().to_le_bytes());
    hasher.update(&NUMBER.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    let mut unique = [0; 16];
    unique.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    unique
}

/// Returns the facts on which a controller bases its choices.
pub fn facts() -> AgentMachine {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get().min(1024) as u16);
    let name = rustix::system::uname();
    let system = format!("Linux {} {}", name.release().to_string_lossy(), name.machine().to_string_lossy());
    let (reached_from, reached_at) = ssh_addresses(ssh_connection().as_deref());
    let host_name = name.nodename().to_string_lossy().into_owned();
    AgentMachine {
        processors,
        system,
        uid: rustix::process::geteuid().as_raw(),
        reached_at,
        reached_from,
        host_name,
    }
}

/// Returns the settings of this host. `toward`: the address of the other host, if there is one.
pub fn settings(toward: Option<IpAddr>) -> HostFacts {
    doctor::read(Path::new("/"), &doctor::NetworkKernel, toward, login().as_ref())
}

/// Returns the ssh login that started this process.
fn login() -> Option<SshLogin> {
    let said = ssh_connection()?;
    // sudo sets the other variables to another user.
    let user = ["SUDO_USER", "LOGNAME", "USER"].into_iter().find_map(|name| std::env::var(name).ok())?;
    let words: Vec<_> = said.split_whitespace().collect();
    let [from, _, at, port] = words[..] else { return None };
    Some(SshLogin { user, from: from.parse().ok()?, at: at.parse().ok()?, port: port.parse().ok()? })
}

/// Returns sshd's report of the login. sudo removes it from the environment, but ancestor processes still have it.
fn ssh_connection() -> Option<String> {
    const NAME: &str = "SSH_CONNECTION";
    if let Ok(said) = std::env::var(NAME) {
        return Some(said);
    }
    std::env::var_os("SUDO_UID")?;
    let mut process = rustix::process::getppid().map(|id| id.as_raw_nonzero().get())?;
    // A shell, sudo and its monitor are all that is in between.
    for _ in 0..ANCESTORS_MAX {
        let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        let mut variables = environment.split(|&byte| byte == 0);
        let value =
            |variable: &[u8]| Some(variable.strip_prefix(NAME.as_bytes())?.strip_prefix(b"=")?.to_vec());
        if let Some(said) = variables.find_map(value) {
            return String::from_utf8(said).ok();
        }
        process = parent_of(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)?;
    }
    None
}

/// Returns the parent's process ID from the content of `/proc/PID/stat`.
fn parent_of(stat: &str) -> Option<i32> {
    // "12 (a name) S 1 …": the parent follows the state, and the name may contain anything.
    let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
    (parent > 1).then_some(parent)
}

/// Returns the client's and the server's address from sshd's report of a login.
fn ssh_addresses(said: Option<&str>) -> (Option<String>, Option<String>) {
    let mut words = said.unwrap_or_default().split_whitespace();
    let client = words.next().map(str::to_owned);
    let server = words.nth(1).map(str::to_owned);
    (client, server)
}

/// Returns the peak resident memory of this process in bytes.
pub fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Returns the BLAKE3 digest of the running program.
pub fn program_digest() -> Option<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(std::fs::File::open("/proc/self/exe").ok()?).ok()?;
    Some(*hasher.finalize().as_bytes())
}

/// Converts bytes to a path.
pub fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Returns the directory for the journals of devices and the records of jobs: `HAKOBU_STATE` if it is an absolute
/// path, otherwise the customary one.
pub fn state_directory() -> Option<StateDirectory> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    if let Some(chosen) = variable("HAKOBU_STATE").filter(|path| path.is_absolute()) {
        return Some(StateDirectory::new(chosen));
    }
    let is_root = rustix::process::geteuid().is_root();
    StateDirectory::by_custom(is_root, variable("HOME").as_deref(), variable("XDG_STATE_HOME").as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_login() {
        let (client, server) = ssh_addresses(Some("192.0.2.7 50000 198.51.100.1 22"));
        assert_eq!((client.as_deref(), server.as_deref()), (Some("192.0.2.7"), Some("198.51.100.1")));
        assert_eq!(ssh_addresses(None), (None, None));
    }

    #[test]
    fn parents_are_found_behind_any_name() {
        assert_eq!(parent_of("7 (a) b (c) S 42 7 7 0"), Some(42));
        assert_eq!(parent_of("7 (init) S 1 7 7 0"), None);
        assert_eq!(parent_of("7 (cut"), None);
    }

    #[test]
    fn this_process_has_used_some_memory() {
        assert!(peak_memory_bytes().unwrap() > 100_000);
        assert!(facts().processors > 0);
    }
}
