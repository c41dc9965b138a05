//! A real rsync daemon for one test, on loopback or in a network namespace.
//!
//! All its files are in its own directory, which is removed when the value is dropped.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::free_port::free_port;
use crate::sshd::descendants;

/// The time limit until it listens.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The number of attempts. Another process may take a free port before the daemon does; then another port is tried.
const START_TRIES: u32 = 5;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A module of the daemon.
#[derive(Debug, Clone, Copy)]
pub struct Module<'a> {
    /// Its name.
    pub name: &'a str,
    /// The path of the directory.
    pub path: &'a Path,
    /// Additional lines for its section of rsyncd.conf.
    pub lines: &'a str,
}

/// The address and namespace of the daemon.
#[derive(Debug, Clone, Copy)]
pub struct DaemonAddress<'a> {
    /// The address to listen on.
    pub address: Ipv4Addr,
    /// The network namespace to run in, by its `ip netns` name.
    pub netns: Option<&'a str>,
}

impl DaemonAddress<'_> {
    const LOOPBACK: Self = Self { address: Ipv4Addr::LOCALHOST, netns: None };

    /// Returns true if a process listens on this port there.
    fn has_listener(&self, port: u16) -> io::Result<bool> {
        let connects = || TcpStream::connect((self.address, port)).is_ok();
        match self.netns {
            Some(name) => hakobu_sys::netns::run_in(name, connects),
            None => Ok(connects()),
        }
    }
}

/// The daemon.
#[derive(Debug)]
pub struct Rsyncd {
    directory: TempDir,
    child: Child,
    address: Ipv4Addr,
    port: u16,
}

impl Rsyncd {
    /// Starts a daemon. Modules are writable by the user who runs the test, unless their lines say otherwise. `joe`
    /// has the password `sesame` in modules with `auth users = joe`.
    ///
    /// # Errors
    /// If rsync is not installed, or does not listen in time.
    pub fn start(modules: &[Module<'_>]) -> io::Result<Self> {
        Self::start_at(DaemonAddress::LOOPBACK, modules)
    }

    /// Starts a daemon at another address.
    ///
    /// # Errors
    /// The errors of [`start`](Self::start).
    pub fn start_at(at: DaemonAddress<'_>, modules: &[Module<'_>]) -> io::Result<Self> {
        let mut last = io::Error::other("not tried");
        for _ in 0..START_TRIES {
            match Self::try_start(at, modules) {
                Ok(started) => return Ok(started),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn try_start(place: DaemonAddress<'_>, modules: &[Module<'_>]) -> io::Result<Self> {
        let directory = TempDir::with_prefix("rsyncd.")?;
        let port = free_port()?;
        let at = directory.path();
        fs::write(at.join("secrets"), "joe:sesame\n")?;
        fs::set_permissions(at.join("secrets"), fs::Permissions::from_mode(0o600))?;
        fs::write(at.join("rsyncd.conf"), configuration(at, place.address, port, modules))?;
        let mut words = place.netns.map_or(Vec::new(), |name| vec!["ip", "netns", "exec", name]);
        words.extend(["rsync", "--daemon", "--no-detach", "--config"]);
        let child = Command::new(words[0])
            .args(&words[1..])
            .arg(at.join("rsyncd.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut daemon = Self { directory, child, address: place.address, port };
        let deadline = Instant::now() + START_LIMIT;
        while !place.has_listener(port)? {
            if let Some(status) = daemon.child.try_wait()? {
                return Err(io::Error::other(format!("rsync --daemon ended: {status}; {}", daemon.log())));
            }
            if Instant::now() > deadline {
                return Err(io::Error::other("rsync --daemon does not listen"));
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(daemon)
    }

    /// Returns the location of `module/path` in the daemon.
    #[must_use]
    pub fn url(&self, place: &str) -> String {
        format!("rsync://{}:{}/{place}", self.address, self.port)
    }

    /// Returns the location of `module/path` for the user `joe`.
    #[must_use]
    pub fn url_of_joe(&self, place: &str) -> String {
        format!("rsync://joe@{}:{}/{place}", self.address, self.port)
    }

    /// Returns the IDs of the processes that serve a client.
    #[must_use]
    pub fn serving(&self) -> Vec<u32> {
        descendants(self.child.id())
    }

    /// Returns the content of the log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Rsyncd {
    fn drop(&mut self) {
        let children = descendants(self.child.id());
        let _ = self.child.kill();
        let _ = self.child.wait();
        for child in children {
            if let Some(pid) = i32::try_from(child).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

fn configuration(at: &Path, address: Ipv4Addr, port: u16, modules: &[Module<'_>]) -> String {
    let at = at.display();
    let mut text = format!(
        "address = {address}\nport = {port}\nreverse lookup = no\n\
         log file = {at}/log\nlock file = {at}/lock\nsecrets file = {at}/secrets\nread only = no\n"
    );
    if rustix::process::geteuid().is_root() {
        text.push_str("uid = root\ngid = root\nuse chroot = yes\n");
    } else {
        // Without chroot the daemon would otherwise remove the leading slash of symbolic links.
        text.push_str("use chroot = no\nmunge symlinks = yes\n");
    }
    for Module { name, path, lines } in modules {
        text.push_str(&format!("[{name}]\npath = {}\n{lines}\n", path.display()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_serves_its_modules_and_ends() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("a"), "content").unwrap();
        let daemon = Rsyncd::start(&[Module { name: "m", path: place.path(), lines: "" }]).unwrap();
        let listed = Command::new("rsync").arg(daemon.url("m/")).output().unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).ends_with(" a\n"), "{listed:?}");
        let (port, directory) = (daemon.port, daemon.directory.path().to_owned());
        drop(daemon);
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
        assert!(!directory.exists());
    }
}
