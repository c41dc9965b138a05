//! Two hosts on this machine: network namespaces with an sshd each, connected with each other and with the harness's
//! own network by pairs of virtual cables.
//!
//! ```text
//!   the harness (198.18.N.1) ──── host a (198.18.N.2)
//!            └───────── host b (198.18.N.3) ─────┘
//! ```
//!
//! Each host has the file system of this machine, and its own home, temporary directory and PATH. The PATH contains the
//! few tools that a login needs and, unless it is removed, `hakobu`: a script that runs the program under test, under
//! strace if a fault is to be injected ([`TestHosts::put_under`]). Port 22 offers a shell, port 2222 only SFTP.
//!
//! If no data port is reachable, let hakobu send data through ssh (`--transport ssh`). No firewall is needed for that.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use super::file_system::run;
use super::{leftovers, plants, processes};

/// The tools on a host's PATH besides hakobu.
const TOOLS: [&str; 22] = [
    "sh",
    "bash",
    "id",
    "uname",
    "nice",
    "mktemp",
    "chmod",
    "head",
    "rm",
    "rmdir",
    "mkdir",
    "wc",
    "sha256sum",
    "cat",
    "env",
    "true",
    "ls",
    "stat",
    "mv",
    "cp",
    "test",
    "sleep",
];

/// One of the two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TestHost {
    /// Host a.
    A,
    /// Host b.
    B,
}

impl TestHost {
    /// Both hosts.
    pub const ALL: [Self; 2] = [Self::A, Self::B];

    fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }
}

/// The hosts. Dropping them kills everything that runs there and removes them.
#[derive(Debug)]
pub struct TestHosts {
    name: String,
    folder: PathBuf,
    servers: Vec<Child>,
    cables: [String; 3],
}

static NEXT_NETWORK: AtomicU32 = AtomicU32::new(0);

impl TestHosts {
    /// Starts the hosts below a scratch directory. `program` is the hakobu on their PATH.
    ///
    /// # Errors
    /// Returns an error if a tool is missing (the text names its package) or a server fails (the text has its log).
    pub fn start(scratch: &Path, program: &Path) -> anyhow::Result<Self> {
        let scratch =
            scratch.canonicalize().with_context(|| format!("scratch folder {}", scratch.display()))?;
        let program = program.canonicalize().with_context(|| format!("program {}", program.display()))?;
        let name = leftovers::new_name();
        let folder = scratch.join(&name);
        fs::create_dir_all(&folder)?;
        // sshd requires this directory, whatever its configuration.
        fs::create_dir_all("/run/sshd")?;
        let number = NEXT_NETWORK.fetch_add(1, Ordering::Relaxed);
        let cable = |letter: &str| format!("ht{:x}x{number:x}{letter}", std::process::id());
        let mut hosts = Self { name, folder, servers: Vec::new(), cables: ["a", "b", "c"].map(cable) };
        let network = hosts.lay_cables(number)?;
        hosts.make_keys(network)?;
        for host in TestHost::ALL {
            hosts.furnish(host, &program)?;
            let server = hosts.serve(host)?;
            hosts.servers.push(server);
        }
        hosts.wait_until_ready(network)?;
        Ok(hosts)
    }

    /// Returns the location of a path on a host: `a:/path`.
    #[must_use]
    pub fn location(&self, host: TestHost, path: &Path) -> OsString {
        prefixed(host.name(), path)
    }

    /// Returns the location of a path on a host that offers only SFTP: `a-sftp:/path`.
    #[must_use]
    pub fn sftp_location(&self, host: TestHost, path: &Path) -> OsString {
        prefixed(&format!("{}-sftp", host.name()), path)
    }

    /// Returns the arguments with which hakobu finds the hosts.
    #[must_use]
    pub fn ssh_arguments(&self) -> Vec<OsString> {
        let mut ssh = OsString::from("ssh -F ");
        ssh.push(self.folder.join("ssh_config"));
        vec!["--ssh".into(), ssh]
    }

    /// Returns a command that runs `words` in a login on a host.
    #[must_use]
    pub fn command(&self, host: TestHost, words: &[&OsStr]) -> Command {
        let mut command = Command::new("ssh");
        command.arg("-F").arg(self.folder.join("ssh_config")).arg(host.name()).args(words);
        command
    }

    /// Returns the home of a host's logins, where records of jobs are kept.
    #[must_use]
    pub fn home(&self, host: TestHost) -> PathBuf {
        self.folder.join(host.name()).join("home")
    }

    /// Returns the temporary directory of a host's logins, to which a program is uploaded. It is empty after a run.
    #[must_use]
    pub fn temporary(&self, host: TestHost) -> PathBuf {
        self.folder.join(host.name()).join("tmp")
    }

    /// Returns the log of a host's sshd.
    #[must_use]
    pub fn log(&self, host: TestHost) -> String {
        fs::read_to_string(self.folder.join(host.name()).join("log")).unwrap_or_default()
    }

    /// Determines whether a login finds hakobu. If it does not, hakobu uploads itself.
    ///
    /// # Errors
    /// Returns an error if the file's mode cannot be changed.
    pub fn set_installed(&self, host: TestHost, installed: bool) -> anyhow::Result<()> {
        let script = self.folder.join(host.name()).join("bin/hakobu");
        fs::set_permissions(script, fs::Permissions::from_mode(if installed { 0o755 } else { 0o644 }))?;
        Ok(())
    }

    /// Puts words such as `strace …` before every agent that starts on a host from now on. An empty list ends that.
    ///
    /// # Errors
    /// Returns an error if they cannot be written.
    pub fn put_under(&self, host: TestHost, words: &[OsString]) -> anyhow::Result<()> {
        let file = self.folder.join(host.name()).join("before");
        if words.is_empty() {
            return match fs::remove_file(file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
                _ => Ok(()),
            };
        }
        let mut script = b"exec".to_vec();
        for word in words {
            script.push(b' ');
            script.extend(quoted(word));
        }
        script.extend(b" \"$@\"\n");
        fs::write(file, script)?;
        Ok(())
    }

    /// Gives the agents of both hosts a planted fault, or none. The controller has its own environment.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn plant(&self, name: Option<&str>) -> anyhow::Result<()> {
        for host in TestHost::ALL {
            let line = name.map(|name| format!("export {}={name}\n", plants::VARIABLE)).unwrap_or_default();
            fs::write(self.folder.join(host.name()).join("plant"), line)?;
        }
        Ok(())
    }

    /// Returns the processes on a host, without the listening sshd.
    ///
    /// # Errors
    /// Returns an error if the namespace or `/proc` cannot be read.
    pub fn processes(&self, host: TestHost) -> anyhow::Result<Vec<u32>> {
        let namespace = fs::metadata(Path::new("/run/netns").join(self.namespace(host)))?.ino();
        let listening: Vec<u32> = self.servers.iter().map(Child::id).collect();
        let there = |process: &u32| {
            fs::metadata(format!("/proc/{process}/ns/net")).is_ok_and(|net| net.ino() == namespace)
        };
        Ok(processes::all()?
            .into_iter()
            .filter(|process| !listening.contains(process))
            .filter(there)
            .collect())
    }

    /// Disconnects a host from the network. Connections stay open, but receive nothing.
    ///
    /// # Errors
    /// Returns an error if `ip` fails.
    pub fn link_down(&self, host: TestHost) -> anyhow::Result<()> {
        self.set_link(host, "down")
    }

    /// Reconnects a host.
    ///
    /// # Errors
    /// Returns an error if `ip` fails.
    pub fn link_up(&self, host: TestHost) -> anyhow::Result<()> {
        self.set_link(host, "up")
    }

    fn set_link(&self, host: TestHost, state: &str) -> anyhow::Result<()> {
        let [to_a, to_b, between] = &self.cables;
        for (cable, end) in match host {
            TestHost::A => [(to_a, 1), (between, 0)],
            TestHost::B => [(to_b, 1), (between, 1)],
        } {
            self.ip(&["-n", &self.namespace(host), "link", "set", &format!("{cable}{end}"), state])?;
        }
        Ok(())
    }

    fn namespace(&self, host: TestHost) -> String {
        format!("{}-{}", self.name, host.name())
    }

    fn ip(&self, words: &[&str]) -> anyhow::Result<()> {
        run(Command::new("ip").args(words), "iproute2")
    }

    /// Creates the namespaces and the cables, and returns the number of the network, which was free.
    fn lay_cables(&self, number: u32) -> anyhow::Result<u32> {
        let taken = Command::new("ip").args(["-o", "-4", "address", "show"]).output();
        let taken = taken.context("run ip (of the Debian package iproute2)")?;
        let taken = String::from_utf8_lossy(&taken.stdout).into_owned();
        let from = std::process::id().wrapping_mul(31).wrapping_add(number);
        let free = |network: &u32| !taken.contains(&format!(" 198.18.{network}.1 "));
        let network = (0..255)
            .map(|step| (from + step) % 256)
            .find(free)
            .context("no network is free in 198.18.0.0/16")?;
        for host in TestHost::ALL {
            self.ip(&["netns", "add", &self.namespace(host)])?;
            self.ip(&["-n", &self.namespace(host), "link", "set", "lo", "up"])?;
        }
        let (a, b) = (self.namespace(TestHost::A), self.namespace(TestHost::B));
        let ends = [(None, 1, Some(&a), 2), (None, 1, Some(&b), 3), (Some(&a), 2, Some(&b), 3)];
        for (cable, (near, near_number, far, far_number)) in self.cables.iter().zip(ends) {
            let mut words = vec!["link".to_owned(), "add".to_owned(), format!("{cable}0")];
            words.extend(near.iter().flat_map(|name| ["netns".to_owned(), (*name).clone()]));
            words.extend(["type", "veth", "peer", "name"].map(str::to_owned));
            words.push(format!("{cable}1"));
            words.extend(far.iter().flat_map(|name| ["netns".to_owned(), (*name).clone()]));
            self.ip(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
            for (end, place, own, peer) in
                [(0, near, near_number, far_number), (1, far, far_number, near_number)]
            {
                let place: Vec<&str> = place.iter().flat_map(|name| ["-n", name.as_str()]).collect();
                let device = format!("{cable}{end}");
                let (own, peer) = (format!("198.18.{network}.{own}"), format!("198.18.{network}.{peer}"));
                self.ip(&[&place[..], &["address", "add", &own, "peer", &peer, "dev", &device]].concat())?;
                self.ip(&[&place[..], &["link", "set", &device, "up"]].concat())?;
            }
        }
        Ok(network)
    }

    fn make_keys(&self, network: u32) -> anyhow::Result<()> {
        let at = &self.folder;
        for key in ["host_key", "user_key"] {
            let mut make = Command::new("ssh-keygen");
            run(
                make.args(["-q", "-t", "ed25519", "-N", "", "-C", "torture", "-f"]).arg(at.join(key)),
                "openssh-client",
            )?;
        }
        fs::copy(at.join("user_key.pub"), at.join("authorized_keys"))?;
        let key = fs::read_to_string(at.join("host_key.pub"))?;
        let mut known = String::new();
        let mut config = String::new();
        let place = at.display();
        for (host, last) in TestHost::ALL.into_iter().zip([2, 3]) {
            let address = format!("198.18.{network}.{last}");
            known.push_str(&format!("{address},[{address}]:2222 {key}"));
            for (name, port) in [(host.name().to_owned(), 22), (format!("{}-sftp", host.name()), 2_222)] {
                config.push_str(&format!("Host {name}\n  HostName {address}\n  Port {port}\n"));
            }
        }
        config.push_str(&format!(
            "Host *\n  User root\n  IdentityFile {place}/user_key\n  IdentitiesOnly yes\n  IdentityAgent none\n  BatchMode yes\n  \
             StrictHostKeyChecking yes\n  UserKnownHostsFile {place}/known_hosts\n  GlobalKnownHostsFile /dev/null\n"
        ));
        fs::write(at.join("known_hosts"), known)?;
        fs::write(at.join("ssh_config"), config)?;
        Ok(())
    }

    /// Creates a home, a temporary directory, a PATH and the server's configuration.
    fn furnish(&self, host: TestHost, program: &Path) -> anyhow::Result<()> {
        let at = self.folder.join(host.name());
        for folder in ["home", "tmp", "bin"] {
            fs::create_dir_all(at.join(folder))?;
        }
        for tool in TOOLS {
            let found = ["/usr/bin", "/bin"]
                .iter()
                .map(|place| Path::new(place).join(tool))
                .find(|path| path.exists());
            symlink(found.with_context(|| format!("{tool} is not in /usr/bin"))?, at.join("bin").join(tool))?;
        }
        let mut script = b"#!/bin/sh\nset -- ".to_vec();
        script.extend(quoted(program.as_os_str()));
        script.extend([b" \"$@\"\n. ", &quoted(at.join("plant").as_os_str())[..], b"\nif [ -f "].concat());
        let before = quoted(at.join("before").as_os_str());
        script.extend([&before[..], b" ]; then . ", &before, b"; fi\nexec \"$@\"\n"].concat());
        fs::write(at.join("bin/hakobu"), script)?;
        self.set_installed(host, true)?;
        fs::write(at.join("plant"), "")?;
        let (keys, place) = (self.folder.display(), at.display());
        let config = format!(
            "Port 22\nPort 2222\nHostKey {keys}/host_key\nAuthorizedKeysFile {keys}/authorized_keys\nMaxStartups 1000:30:2000\n\
             MaxSessions 200\nPidFile none\nUsePAM no\nUseDNS no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\n\
             PrintMotd no\nPrintLastLog no\nSubsystem sftp internal-sftp\n\
             SetEnv \"PATH={place}/bin\" \"HOME={place}/home\" \"TMPDIR={place}/tmp\" SHLVL=1\n\
             Match LocalPort 2222\n  ForceCommand internal-sftp\n"
        );
        fs::write(at.join("sshd_config"), config)?;
        Ok(())
    }

    /// Starts sshd, in the network namespace only: it has to see later mounts and must not keep earlier ones.
    fn serve(&self, host: TestHost) -> anyhow::Result<Child> {
        let at = self.folder.join(host.name());
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.namespace(host))).args([
            "/usr/sbin/sshd",
            "-D",
            "-f",
        ]);
        command.arg(at.join("sshd_config")).arg("-E").arg(at.join("log"));
        let output = fs::File::create(at.join("output"))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
        command.spawn().context("run nsenter (util-linux) with /usr/sbin/sshd (openssh-server)")
    }

    fn wait_until_ready(&mut self, network: u32) -> anyhow::Result<()> {
        for (at, host) in TestHost::ALL.into_iter().enumerate() {
            let address = format!("198.18.{network}.{}:22", at + 2);
            let address = address.parse().context("address")?;
            let deadline = Instant::now() + Duration::from_secs(20);
            while std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
                if let Some(status) = self.servers[at].try_wait()? {
                    let output = self.folder.join(host.name()).join("output");
                    bail!("sshd ended: {status}: {}{}", self.log(host), fs::read_to_string(output)?);
                }
                ensure!(Instant::now() < deadline, "sshd does not answer: {}", self.log(host));
                thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    }
}

impl Drop for TestHosts {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
        for host in TestHost::ALL {
            leftovers::remove_namespace(&self.namespace(host));
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn prefixed(host: &str, path: &Path) -> OsString {
    let mut location = OsString::from(format!("{host}:"));
    location.push(path);
    location
}

/// Returns a word quoted for the shell.
fn quoted(word: &OsStr) -> Vec<u8> {
    let mut out = vec![b'\''];
    for &byte in std::os::unix::ffi::OsStrExt::as_bytes(word) {
        match byte {
            b'\'' => out.extend(b"'\\''"),
            other => out.push(other),
        }
    }
    out.push(b'\'');
    out
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn quotes_are_escaped() {
        assert_eq!(quoted("a'b c".as_ref()), b"'a'\\''b c'");
    }
}
