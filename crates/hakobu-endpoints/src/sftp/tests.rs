//! The endpoints over SFTP pass the conformance suite: with all that OpenSSH's server offers, and with version 3 alone.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hakobu_core::endpoint::Endpoint;
use hakobu_core::error::{Error, Result};
use hakobu_core::grant::Grant;
use hakobu_testkit::conformance::{Harness, run_all};
use hakobu_testkit::sshd::sftp_server;

use super::{Access, Channel, SftpLook, SftpSource, SftpTarget, SftpTargetOptions};

/// Ends the server with the connection.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.wait();
    }
}

fn access(refused: &'static str) -> Access {
    let connect = move |_: &AtomicBool| -> Result<Channel> {
        let mut command = Command::new(sftp_server());
        if !refused.is_empty() {
            command.args(["-P", refused]);
        }
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| Error::io("starting the server", &error))?;
        let (to_server, from_server) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let process = Box::new(Process(child));
        Ok(Channel { to_server: to_server.into(), from_server: from_server.into(), process })
    };
    let is_root = rustix::process::geteuid().is_root();
    Access { connect: Arc::new(connect), is_root, cancel: Arc::default() }
}

struct Sftp {
    /// The requests that the server refuses to know.
    refused: &'static str,
}

impl Harness for Sftp {
    fn target(&self, root: &Path, grant: Grant) -> Box<dyn Endpoint> {
        let options = SftpTargetOptions { job: [7; 32], run: [1; 16], leaves_all: false, durable: true };
        let root = root.as_os_str().as_encoded_bytes();
        let access = access(self.refused);
        let look = SftpLook::open((access.connect)(&AtomicBool::new(false)).unwrap(), &access).unwrap();
        Box::new(SftpTarget::new(access, &look, root, grant, options))
    }

    fn source(&self, root: &Path) -> Option<Box<dyn Endpoint>> {
        let roots = [root.as_os_str().as_encoded_bytes().to_vec()];
        let access = access(self.refused);
        let look = SftpLook::open((access.connect)(&AtomicBool::new(false)).unwrap(), &access).unwrap();
        Some(Box::new(SftpSource::new(access, &look, &roots)))
    }
}

#[test]
fn sftp_endpoints_conform() {
    run_all(&Sftp { refused: "" });
}

#[test]
fn sftp_endpoints_conform_without_extensions() {
    run_all(&Sftp { refused: "posix-rename,statvfs,fstatvfs,hardlink,fsync,lsetstat,limits" });
}
