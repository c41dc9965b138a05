//! A real file server: sshfs in front of a throw-away sshd, optionally over an emulated link.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::sshd::Sshd;

/// A mounted directory of a server. Dropping it unmounts it.
#[derive(Debug)]
pub struct Sshfs {
    at: PathBuf,
}

impl Sshfs {
    /// Mounts `directory` of the server at `at`, which exists and is empty. `netns` is the network namespace from
    /// which the server is reached, by its `ip netns` name.
    ///
    /// # Errors
    /// If sshfs is missing or fails; the error contains its message. Requires `/dev/fuse`.
    pub fn mount(at: &Path, sshd: &Sshd, directory: &Path, netns: Option<&str>) -> io::Result<Self> {
        let mut command = Command::new("sshfs");
        if let Some(netns) = netns {
            command.args(["-o", &format!("ssh_command=ip netns exec {netns} ssh")]);
        }
        command.arg("-F").arg(sshd.client_config());
        command.arg(format!("{}:{}", sshd.host(), directory.display())).arg(at);
        // The background process must not keep a pipe of this process open.
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
