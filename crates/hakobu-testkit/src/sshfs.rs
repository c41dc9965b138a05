//! A real file server: sshfs in front of a throw-away sshd, over an emulated link if that is wished.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::sshd::Sshd;

/// A directory of a server, mounted. Dropping it takes it down.
#[derive(Debug)]
pub struct Sshfs {
    at: PathBuf,
}

impl Sshfs {
    /// Mounts `directory` of the server at `at`, which exists and is empty. `netns`: the network namespace, by its `ip
    /// netns` name, from which the server is reached.
    ///
    /// # Errors
    /// When sshfs is missing or fails; its words are in the error. It takes `/dev/fuse`.
    pub fn mount(at: &Path, sshd: &Sshd, directory: &Path, netns: Option<&str>) -> io::Result<Self> {
        let mut command = Command::new("sshfs");
        if let Some(netns) = netns {
            command.args(["-o", &format!("ssh_command=ip netns exec {netns} ssh")]);
        }
        command.arg("-F").arg(sshd.client_config());
        command.arg(format!("{}:{}", sshd.host(), directory.display())).arg(at);
        // What stays in the background keeps no pipe of ours open.
        let log = tempfile::NamedTempFile::new()?;
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.reopen()?).status();
        let status = status.map_err(|error| io::Error::new(error.kind(), format!("sshfs: {error}")))?;
        if status.success() {
            return Ok(Self { at: at.to_path_buf() });
        }
        let words = std::fs::read_to_string(log.path())?;
        Err(io::Error::other(format!("sshfs failed: {}", words.trim())))
    }
}

impl Drop for Sshfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).output();
    }
}
