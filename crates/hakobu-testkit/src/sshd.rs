//! A real OpenSSH server for one test, and users to log in as.
//!
//! Everything it needs is in a directory of its own, and it goes with the value. Making users, private mounts and
//! network namespaces needs root: a test that wants them fails without, unless [`no_root`] says that the machine
//! has none to give.

mod password;
mod users;

use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

pub use password::Password;
pub use users::{Shell, Sudo, User};

const SSHD: &str = "/usr/sbin/sshd";
/// The alias of the server in its client's configuration.
const ALIAS: &str = "throwaway";
/// Where the tools are that a session finds besides those in [`SshdOptions::path_dirs`].
const TOOLS: [&str; 5] = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];
/// What this begins with is no tool: whether a session finds this program is for the test to say.
const NO_TOOL: &[u8] = b"hakobu";
/// How long sshd may take to listen.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long killed sessions may take to be gone.
const END_LIMIT: Duration = Duration::from_secs(30);
/// A free port may be taken by another before sshd has it; then another one is tried.
const START_TRIES: u32 = 5;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// True when the environment says that tests needing root are to be left out (`HAKOBU_NO_ROOT=1`). Without it, such a
/// test fails where root is missing.
#[must_use]
pub fn no_root() -> bool {
    std::env::var_os("HAKOBU_NO_ROOT").is_some_and(|value| value == "1")
}

/// What kind of server it is.
#[derive(Debug, Clone)]
pub struct SshdOptions {
    /// Where it listens.
    pub address: IpAddr,
    /// The port; a free one when `None`.
    pub port: Option<u16>,
    /// A network namespace, by its `ip netns` name, that it runs in.
    pub netns: Option<String>,
    /// sshd's `MaxStartups`.
    pub max_startups: String,
    /// Text that is shown before login.
    pub banner: Option<String>,
    /// Who logs in when no user is named; the one who runs the test when `None`.
    pub login: Option<String>,
    /// Directories before that of the machine's tools on a session's PATH. The latter holds no hakobu, even if one is installed;
    /// those that the login shell's own startup file adds (root's may) must hold none.
    pub path_dirs: Vec<PathBuf>,
    /// Environment of every session.
    pub set_env: Vec<(String, String)>,
    /// Directories that forbid execution, for this server's sessions only. Those that do not exist are passed over.
    pub noexec: Vec<PathBuf>,
    /// Directories that are empty file systems of this many bytes, for this server's sessions only.
    pub small: Vec<(PathBuf, u64)>,
    /// Lines added to sshd's configuration. sshd takes the first value it reads, and these are first.
    pub config_lines: Vec<String>,
}

impl Default for SshdOptions {
    fn default() -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: None,
            netns: None,
            max_startups: "100:30:200".to_owned(),
            banner: None,
            login: None,
            path_dirs: Vec::new(),
            set_env: Vec::new(),
            noexec: Vec::new(),
            small: Vec::new(),
            config_lines: Vec::new(),
        }
    }
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
    /// When a tool is missing, root is needed and not there, or sshd ends; its log is in the text then.
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

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The name to give to ssh: `throwaway`, as in `throwaway:path`.
    #[must_use]
    pub fn host(&self) -> &'static str {
        ALIAS
    }

    /// The ssh command that knows the name, the port, the keys: `ssh -F …/ssh_config`.
    #[must_use]
    pub fn ssh_command(&self) -> String {
        format!("ssh -F {}", self.client_config().display())
    }

    /// The client's configuration file.
    #[must_use]
    pub fn client_config(&self) -> PathBuf {
        self.directory.path().join("ssh_config")
    }

    /// The client's file of known host keys, to be emptied or spoiled.
    #[must_use]
    pub fn known_hosts(&self) -> PathBuf {
        self.directory.path().join("known_hosts")
    }

    /// The private key that logs in, as any user.
    #[must_use]
    pub fn identity(&self) -> PathBuf {
        self.directory.path().join("user_key")
    }

    /// What sshd has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        log(self.directory.path())
    }

    /// The penalty that a server of OpenSSH 9.8 or later would have given for what this one has logged, in seconds: 5 for
    /// a login that failed, 1 for a connection that did not try, by the defaults of `PerSourcePenalties`. Whoever has 15
    /// is refused. It stands in for such a server where the machine's own is older.
    #[must_use]
    pub fn penalty_s(&self) -> usize {
        let penalty = |line: String| if line.contains("authenticating user") { 5 } else { 1 };
        self.ended_before_login().into_iter().map(penalty).sum()
    }

    /// The log's lines about connections that the client ended before it was logged in: its logins were refused, or it
    /// was cut short.
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

    /// Process id of the listening sshd, for cutting it off (SIGSTOP, SIGKILL).
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Every process that the server has started and that still descends from it: its sessions and what they run.
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

/// A port that is free now. Inside a namespace nothing else runs, so any will do.
fn free_port(options: &SshdOptions) -> io::Result<u16> {
    if options.netns.is_some() {
        return Ok(2222);
    }
    Ok(TcpListener::bind((options.address, 0))?.local_addr()?.port())
}

/// A directory with the tools of the machine and nothing else. All servers of all tests share it, and it stays: what a session
/// has started may outlive its server, and still needs tools.
fn tools() -> io::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    for directory in TOOLS {
        fs::metadata(directory).and_then(|found| found.modified()).ok().hash(&mut hasher);
    }
    let user = rustix::process::geteuid().as_raw();
    let shared = std::env::temp_dir().join(format!("hakobu-test-tools-{user}-{:016x}", hasher.finish()));
    if shared.exists() {
        return Ok(shared);
    }
    let new = tempfile::Builder::new().prefix("hakobu-test-tools-new-").tempdir()?;
    fs::set_permissions(new.path(), fs::Permissions::from_mode(0o755))?;
    let entries = TOOLS.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten();
    for entry in entries {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(NO_TOOL) {
            continue;
        }
        match symlink(entry.path(), new.path().join(entry.file_name())) {
            // The same tool in an earlier directory comes first.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    match fs::rename(new.path(), &shared) {
        // Another test was first.
        Err(_) if shared.exists() => {}
        renamed => {
            renamed?;
            let _ = new.keep();
        }
    }
    Ok(shared)
}

fn write_server_config(at: &Path, options: &SshdOptions, port: u16) -> io::Result<()> {
    let mut lines = options.config_lines.clone();
    let at_dir = at.display();
    lines.extend([
        format!("ListenAddress {}", options.address),
        format!("Port {port}"),
        format!("HostKey {at_dir}/host_key"),
        format!("AuthorizedKeysFile {at_dir}/authorized_keys"),
        format!("MaxStartups {}", options.max_startups),
        "PidFile none".to_owned(),
        "UsePAM no".to_owned(),
        "StrictModes no".to_owned(),
        "PermitRootLogin yes".to_owned(),
        "PasswordAuthentication no".to_owned(),
    ]);
    if !lines.iter().any(|line| line.starts_with("Subsystem sftp")) {
        lines.push("Subsystem sftp internal-sftp".to_owned());
    }
    if let Some(banner) = &options.banner {
        fs::write(at.join("banner"), banner)?;
        lines.push(format!("Banner {at_dir}/banner"));
    }
    let mut path: Vec<String> = Vec::new();
    for dir in &options.path_dirs {
        path.push(dir.display().to_string());
    }
    path.push(tools()?.display().to_string());
    let mut set_env = format!("SetEnv \"PATH={}\"", path.join(":"));
    if options.login.is_none() {
        // To bash, a session is then one within another shell, so that it leaves out ~/.bashrc: whoever runs the tests may
        // have things in there that take their time, or wait for a lock that a killed session has left.
        set_env.push_str(" SHLVL=1");
    }
    for (name, value) in &options.set_env {
        set_env.push_str(&format!(" \"{name}={value}\""));
    }
    lines.push(set_env);
    fs::write(at.join("sshd_config"), lines.join("\n") + "\n")
}

fn write_client_config(at: &Path, options: &SshdOptions, port: u16) -> io::Result<()> {
    let at_dir = at.display();
    let mut lines = vec![
        format!("Host {ALIAS}"),
        format!("HostName {}", options.address),
        format!("Port {port}"),
        format!("IdentityFile {at_dir}/user_key"),
        "IdentitiesOnly yes".to_owned(),
        "IdentityAgent none".to_owned(),
        "BatchMode yes".to_owned(),
        "StrictHostKeyChecking yes".to_owned(),
        format!("UserKnownHostsFile {at_dir}/known_hosts"),
        "GlobalKnownHostsFile /dev/null".to_owned(),
    ];
    if let Some(login) = &options.login {
        lines.push(format!("User {login}"));
    }
    let key = fs::read_to_string(at.join("host_key.pub"))?;
    fs::write(at.join("known_hosts"), format!("[{}]:{port} {key}", options.address))?;
    fs::write(at.join("ssh_config"), lines.join("\n  ") + "\n")
}

/// Starts sshd in a process group of its own, with its mounts and in its namespace.
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

/// Shell commands that make the private mounts. A directory mounted over itself keeps its content, but not what is
/// mounted below it, so the small file systems come last.
fn mount_script(options: &SshdOptions) -> String {
    let mut script = String::new();
    for path in &options.noexec {
        let path = quoted(path);
        script.push_str(&format!(
            "if [ -d {path} ]; then mount --bind {path} {path}; mount -o remount,bind,noexec {path}; fi; "
        ));
    }
    for (path, bytes) in &options.small {
        let path = quoted(path);
        script.push_str(&format!("mount -t tmpfs -o mode=1777,size={bytes} none {path}; "));
    }
    script
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
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

/// Kills the server and every session, and waits until they are gone. Sessions lead process groups of their own, so
/// they are found by descent.
fn kill_all(child: &mut Child) {
    let sessions = descendants(child.id());
    if let Some(group) = pid(child.id()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    for session in sessions.iter().copied().filter_map(pid) {
        let _ = kill_process(session, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
    let deadline = Instant::now() + END_LIMIT;
    while sessions.iter().any(|&session| alive(session)) && Instant::now() < deadline {
        thread::sleep(LOOK_EVERY);
    }
}

/// Is there such a process, and is it not just waiting for its parent to notice its end?
fn alive(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// All processes below one, from `/proc`; parents come before their children.
#[must_use]
pub fn descendants(root: u32) -> Vec<u32> {
    let mut parents: Vec<(u32, u32)> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // "12 (a name) S 1 …": the parent follows the state, and the name may hold anything.
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        if let Some(Ok(parent)) = after_name.split(' ').nth(1).map(str::parse) {
            parents.push((number, parent));
        }
    }
    let mut found = vec![root];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        let children = parents.iter().filter(|(_, of)| *of == parent);
        found.extend(children.map(|(number, _)| *number));
        at += 1;
    }
    found.split_off(1)
}

/// Runs a command to its end; its words are in the error.
fn run(command: &mut Command) -> io::Result<()> {
    let name = command.get_program().to_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| explained(&name, &error))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{}: {}: {}", name.display(), output.status, words.trim())))
}

fn explained(program: impl AsRef<std::ffi::OsStr>, error: &io::Error) -> io::Error {
    let text = format!("cannot run {}: {error}", program.as_ref().display());
    io::Error::new(error.kind(), text)
}

/// OpenSSH's SFTP server, wherever the distribution puts it.
///
/// # Panics
/// When there is none.
pub fn sftp_server() -> &'static Path {
    const PLACES: [&str; 3] =
        ["/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server"];
    let found = PLACES.iter().map(Path::new).find(|place| place.exists());
    let Some(found) = found else { panic!("OpenSSH's sftp-server is needed (package openssh-sftp-server)") };
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network namespace of the test's own, with its loopback up.
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

    /// Runs a shell line on the server, through `wrapper`.
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
