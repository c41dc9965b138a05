//! A real OpenSSH server for one test, and users to log in as.
//!
//! All its files are in its own directory, which is removed when the value is dropped. Creating users, private mounts
//! and network namespaces requires root. A test that needs them fails without root, unless [`no_root`] says that root
//! is not available.

mod configuration;
mod options;
mod password;
mod process;
mod users;

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hakobu_core::shell::quote;
use tempfile::TempDir;

use configuration::{ALIAS, write_client_config, write_server_config};
pub use options::SshdOptions;
pub use password::Password;
pub use process::descendants;
use process::{LOOK_EVERY, explained, kill_all, run};
pub use users::{Shell, Sudo, User};

const SSHD: &str = "/usr/sbin/sshd";
/// The time limit until sshd listens.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The number of attempts. Another process may take a free port before sshd does; then another port is tried.
const START_TRIES: u32 = 5;

/// Returns true if the environment says that tests needing root are to be skipped (`HAKOBU_NO_ROOT=1`). Without it,
/// such a test fails if root is missing.
#[must_use]
pub fn no_root() -> bool {
    std::env::var_os("HAKOBU_NO_ROOT").is_some_and(|value| value == "1")
}

/// A running server. Dropping it kills it with all its sessions and removes its directory.
#[derive(Debug)]
pub struct Sshd {
    child: Child,
    directory: TempDir,
    address: IpAddr,
    port: u16,
}

impl Sshd {
    /// Starts a server and waits until it listens.
    ///
    /// # Errors
    /// If a tool is missing, root is needed and missing, or sshd exits; the error then contains its log.
    pub fn start(options: &SshdOptions) -> io::Result<Self> {
        let directory = TempDir::with_prefix("hakobu-sshd.")?;
        // sshd reads the authorized keys with the user's own rights.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        for key in ["host_key", "user_key"] {
            make_key(&directory.path().join(key))?;
        }
        fs::copy(directory.path().join("user_key.pub"), directory.path().join("authorized_keys"))?;
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all("/run/sshd")?;
        }
        let mut tries = 0;
        loop {
            tries += 1;
            let port = match options.port {
                Some(port) => port,
                None => free_port(options)?,
            };
            write_server_config(directory.path(), options, port)?;
            let mut child = spawn(directory.path(), options)?;
            match wait_until_listening(directory.path(), &mut child) {
                Ok(()) => {
                    write_client_config(directory.path(), options, port)?;
                    return Ok(Self { child, directory, address: options.address, port });
                }
                Err(error) => {
                    kill_all(&mut child);
                    if error.kind() != ErrorKind::AddrInUse || tries == START_TRIES {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Returns the port that it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the host name for ssh: `throwaway`, as in `throwaway:path`.
    #[must_use]
    pub fn host(&self) -> &'static str {
        ALIAS
    }

    /// Returns the ssh command that knows the name, the port and the keys: `ssh -F …/ssh_config`.
    #[must_use]
    pub fn ssh_command(&self) -> String {
        format!("ssh -F {}", self.client_config().display())
    }

    /// Returns the path of the client's configuration file.
    #[must_use]
    pub fn client_config(&self) -> PathBuf {
        self.directory.path().join("ssh_config")
    }

    /// Returns the path of the client's file of known host keys, which tests may empty or corrupt.
    #[must_use]
    pub fn known_hosts(&self) -> PathBuf {
        self.directory.path().join("known_hosts")
    }

    /// Returns the path of the private key, which is accepted for any user.
    #[must_use]
    pub fn identity(&self) -> PathBuf {
        self.directory.path().join("user_key")
    }

    /// Returns the log so far.
    #[must_use]
    pub fn log(&self) -> String {
        log(self.directory.path())
    }

    /// Returns the penalty in seconds that a server of OpenSSH 9.8 or later would have given for the logged events,
    /// with the defaults of `PerSourcePenalties`: 5 for a failed login, 1 for a connection without an attempt. From
    /// 15 on a client is refused. This replaces such a server if the machine's own is older.
    #[must_use]
    pub fn penalty_s(&self) -> usize {
        let penalty = |line: String| if line.contains("authenticating user") { 5 } else { 1 };
        self.ended_before_login().into_iter().map(penalty).sum()
    }

    /// Returns the log lines about connections that the client closed before it was logged in, because its logins
    /// were refused or it was interrupted.
    #[must_use]
    pub fn ended_before_login(&self) -> Vec<String> {
        let log = self.log();
        let before_login = log.lines().filter(|line| line.ends_with("[preauth]"));
        let ended = ["Connection closed by", "Connection reset by"];
        before_login
            .filter(|line| ended.iter().any(|begin| line.starts_with(begin)))
            .map(str::to_owned)
            .collect()
    }

    /// Returns the process ID of the listening sshd, for signals such as SIGSTOP and SIGKILL.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns every process that the server has started and that still descends from it: its sessions and their
    /// processes.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        descendants(self.child.id())
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        kill_all(&mut self.child);
    }
}

fn make_key(path: &Path) -> io::Result<()> {
    run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", "throwaway", "-f"]).arg(path))
}

/// Returns a free port. Nothing else runs in a namespace, so any port is free there.
fn free_port(options: &SshdOptions) -> io::Result<u16> {
    if options.netns.is_some() {
        return Ok(2222);
    }
    crate::free_port::free_port_of(options.address)
}

/// Starts sshd in its own process group, with its mounts and in its namespace.
fn spawn(at: &Path, options: &SshdOptions) -> io::Result<Child> {
    let mut words: Vec<OsString> = Vec::new();
    if let Some(netns) = &options.netns {
        words.extend(["ip", "netns", "exec", netns].map(OsString::from));
    }
    let mounts = mount_script(options);
    if !mounts.is_empty() {
        let script = format!("set -e; {mounts} exec \"$@\"");
        words.extend(["unshare", "-m", "sh", "-c", &script, "sh"].map(OsString::from));
    }
    words.push(SSHD.into());
    words.extend(["-D", "-f"].map(OsString::from));
    words.push(at.join("sshd_config").into());
    words.push("-E".into());
    words.push(at.join("log").into());
    let log = fs::File::create(at.join("log"))?;
    Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .map_err(|error| explained(&words[0], &error))
}

/// Returns the shell commands that create the private mounts. A directory mounted over itself keeps its content, but
/// not the mounts below it, so the small file systems come last.
fn mount_script(options: &SshdOptions) -> String {
    let mut script = String::new();
    for path in &options.noexec {
        let path = quote(path);
        script.push_str(&format!(
            "if [ -d {path} ]; then mount --bind {path} {path}; mount -o remount,bind,noexec {path}; fi; "
        ));
    }
    for (path, bytes) in &options.small {
        let path = quote(path);
        script.push_str(&format!("mount -t tmpfs -o mode=1777,size={bytes} none {path}; "));
    }
    script
}

fn wait_until_listening(at: &Path, child: &mut Child) -> io::Result<()> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        let log = log(at);
        if log.contains("Server listening on") {
            return Ok(());
        }
        if let Some(status) = child.try_wait()? {
            let kind =
                if log.contains("Address already in use") { ErrorKind::AddrInUse } else { ErrorKind::Other };
            return Err(io::Error::new(kind, format!("sshd ended, {status}: {log}")));
        }
        if Instant::now() >= deadline {
            let text = format!("sshd does not listen after {START_LIMIT:?}: {log}");
            return Err(io::Error::new(ErrorKind::TimedOut, text));
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn log(at: &Path) -> String {
    String::from_utf8_lossy(&fs::read(at.join("log")).unwrap_or_default()).into_owned()
}

/// Returns the path of OpenSSH's SFTP server, which depends on the distribution.
///
/// # Panics
/// If there is none.
pub fn sftp_server() -> &'static Path {
    const PLACES: [&str; 3] =
        ["/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server"];
    let found = PLACES.iter().map(Path::new).find(|place| place.exists());
    let Some(found) = found else { panic!("OpenSSH's sftp-server is needed (package openssh-sftp-server)") };
    found
}

#[cfg(test)]
mod tests {
    use super::process::alive;
    use super::*;

    /// A network namespace for one test, with its loopback interface up.
    struct Netns(String);

    impl Netns {
        fn create() -> Self {
            let netns = Self(format!("hakobu-sshd-{}", std::process::id()));
            run(Command::new("ip").args(["netns", "add", &netns.0])).unwrap();
            let words = ["netns", "exec", &netns.0, "ip", "link", "set", "lo", "up"];
            run(Command::new("ip").args(words)).unwrap();
            netns
        }
    }

    impl Drop for Netns {
        fn drop(&mut self) {
            let _ = run(Command::new("ip").args(["netns", "delete", &self.0]));
        }
    }

    /// Runs a shell command on the server, through `wrapper`.
    fn over_ssh(server: &Sshd, wrapper: &str, line: &str) -> io::Result<()> {
        let ssh = format!("{wrapper} {} {} \"$0\"", server.ssh_command(), server.host());
        run(Command::new("sh").args(["-c", &ssh, line]))
    }

    #[test]
    fn in_a_namespace_it_is_reached_from_there_alone() {
        if no_root() {
            return;
        }
        let netns = Netns::create();
        let server =
            Sshd::start(&SshdOptions { netns: Some(netns.0.clone()), ..SshdOptions::default() }).unwrap();
        let inside = format!("ip netns exec {}", netns.0);
        over_ssh(&server, &inside, "exit 0").unwrap();
        assert!(over_ssh(&server, "", "exit 0").is_err());
    }

    #[test]
    fn sessions_have_their_environment_and_end_with_the_server() {
        let server = Sshd::start(&SshdOptions {
            set_env: vec![("ONE".to_owned(), "a b".to_owned())],
            path_dirs: vec![PathBuf::from("/first/on/path")],
            ..SshdOptions::default()
        })
        .unwrap();
        let line = "case $PATH in */first/on/path:/*) test \"$ONE\" = \"a b\";; *) false;; esac";
        over_ssh(&server, "", line).unwrap();
        over_ssh(&server, "", "bash -c 'test $SHLVL -ge 2'").unwrap();

        let mut session = Command::new("ssh")
            .arg("-F")
            .arg(server.client_config())
            .args([server.host(), "echo up; exec sleep 600"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut up = [0; 3];
        io::Read::read_exact(session.stdout.as_mut().unwrap(), &mut up).unwrap();
        let directory = server.directory.path().to_owned();
        let far = server.processes();
        assert!(!far.is_empty());
        drop(server);
        assert!(!session.wait().unwrap().success());
        assert!(!directory.exists());
        assert!(!far.into_iter().any(alive));
    }
}
