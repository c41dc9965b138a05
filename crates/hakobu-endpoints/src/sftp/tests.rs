//! Runs the conformance suite over the SFTP endpoints: with all extensions of OpenSSH's server, with version 3 alone,
//! and with answers that are shorter than requested.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use hakobu_core::endpoint::{
    Change, CompletionWait, SourceEndpoint, TargetEndpoint, TargetLane, TargetOp, TargetOutcome,
};
use hakobu_core::entry::{Attributes, FileTime};
use hakobu_core::error::{Error, Result};
use hakobu_core::grant::Grant;
use hakobu_core::path::EntryPath;
use hakobu_testkit::conformance::{Harness, TestPlace, case_names, run_all};
use hakobu_testkit::sshd::sftp_server;
use tempfile::TempDir;

use super::{Channel, SftpAccess, SftpLook, SftpSource, SftpTarget, SftpTargetOptions};

/// Waits for the server process when the connection ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.wait();
    }
}

/// The type of a read request.
const READ: u8 = 5;

/// Forwards requests until there are no more. Reads are limited to `most_bytes` bytes, so that answers fall short.
fn shorten_reads(mut from: impl Read, mut to: impl Write, most_bytes: u32) -> io::Result<()> {
    loop {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let mut request = vec![0; u32::from_be_bytes(length) as usize];
        from.read_exact(&mut request)?;
        if let (Some(&READ), Some(asked)) = (request.first(), request.clone().last_chunk::<4>()) {
            let asked = u32::from_be_bytes(*asked).min(most_bytes);
            request.last_chunk_mut::<4>().unwrap().copy_from_slice(&asked.to_be_bytes());
        }
        to.write_all(&length)?;
        to.write_all(&request)?;
    }
}

fn access(Sftp { refused, reads_bytes_max }: Sftp) -> SftpAccess {
    let connect = move |_: &AtomicBool| -> Result<Channel> {
        let mut command = Command::new(sftp_server());
        if !refused.is_empty() {
            command.args(["-P", refused]);
        }
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| Error::io("starting the server", &error))?;
        let (to_server, from_server) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let process = Box::new(Process(child));
        let to_server = match reads_bytes_max {
            None => to_server.into(),
            Some(most_bytes) => {
                let (ours, theirs) = UnixStream::pair().unwrap();
                std::thread::spawn(move || shorten_reads(theirs, to_server, most_bytes));
                ours.into()
            }
        };
        Ok(Channel { to_server, from_server: from_server.into(), process })
    };
    let is_root = rustix::process::geteuid().is_root();
    SftpAccess { connect: Arc::new(connect), is_root, cancel: Arc::default() }
}

#[derive(Clone, Copy, Default)]
struct Sftp {
    /// The requests that the server rejects as unknown.
    refused: &'static str,
    /// The maximum number of bytes that the server returns per read, whatever is requested.
    reads_bytes_max: Option<u32>,
}

impl Harness for Sftp {
    fn place(&self) -> Box<dyn TestPlace> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        Box::new(SftpPlace { sftp: *self, path, runs: AtomicU8::new(0), _directory: Some(directory) })
    }

    fn over(&self, directory: &Path) -> Option<Box<dyn TestPlace>> {
        let path = directory.to_owned();
        Some(Box::new(SftpPlace { sftp: *self, path, runs: AtomicU8::new(0), _directory: None }))
    }
}

struct SftpPlace {
    sftp: Sftp,
    path: PathBuf,
    /// The number of targets opened, each of which is a run of its own.
    runs: AtomicU8,
    /// Removes the directory at the end, if this test created it.
    _directory: Option<TempDir>,
}

impl TestPlace for SftpPlace {
    fn target(&self, grant: Grant) -> Box<dyn TargetEndpoint> {
        let run = [self.runs.fetch_add(1, Ordering::Relaxed); 16];
        let options = SftpTargetOptions { job: [7; 32], run, leaves_all: false, durable: true };
        let access = access(self.sftp);
        let look = SftpLook::open((access.connect)(&AtomicBool::new(false)).unwrap(), &access).unwrap();
        Box::new(SftpTarget::new(access, &look, self.path.as_os_str().as_encoded_bytes(), grant, options))
    }

    fn source(&self) -> Box<dyn SourceEndpoint> {
        let roots = [self.path.as_os_str().as_encoded_bytes().to_vec()];
        let access = access(self.sftp);
        let look = SftpLook::open((access.connect)(&AtomicBool::new(false)).unwrap(), &access).unwrap();
        Box::new(SftpSource::new(access, &look, &roots))
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

#[test]
fn sftp_endpoints_conform() {
    run_all(&Sftp::default());
}

#[test]
fn sftp_endpoints_conform_where_answers_are_short() {
    run_all(&Sftp { reads_bytes_max: Some(1009), ..Sftp::default() });
}

/// A server of version 3 without extensions.
const WITHOUT_EXTENSIONS: Sftp =
    Sftp { refused: "posix-rename,statvfs,fstatvfs,hardlink,fsync,lsetstat,limits", reads_bytes_max: None };

#[test]
fn sftp_endpoints_conform_without_extensions() {
    run_all(&WITHOUT_EXTENSIONS);
}

#[test]
fn most_cases_apply_to_a_server() {
    let (all, fewer) = (case_names(&Sftp::default()), case_names(&WITHOUT_EXTENSIONS));
    assert!(fewer.len() >= 60 && fewer.len() < all.len(), "{} and {}", fewer.len(), all.len());
}

fn apply(lane: &mut dyn TargetLane, change: Change) -> Vec<Error> {
    assert!(lane.submit(1, TargetOp::Apply { changes: vec![change] }).is_ok());
    match lane.reap(CompletionWait::Forever).unwrap().result.unwrap() {
        TargetOutcome::PackWritten { failures, .. } => failures.into_iter().map(|(_, error)| error).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_directory_on_the_way_that_becomes_a_link_leads_nowhere() {
    let place = tempfile::tempdir().unwrap();
    let (root, outside) = (place.path().join("root"), place.path().join("out"));
    for directory in [root.join("a/b"), outside.join("b")] {
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("canary"), "canary").unwrap();
        fs::set_permissions(directory.join("canary"), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let over = Sftp::default().over(&root).unwrap();
    let target = over.target(Grant::everything());
    let mut lane = target.open_target_lane(0).unwrap();
    let path = |text: &str| EntryPath::new(text).unwrap();
    let own = fs::metadata(&root).unwrap();
    let attributes = Attributes { mode: 0o644, uid: own.uid(), gid: own.gid(), mtime: FileTime::default() };
    let attributes = || Change::Attributes { path: path("a/b/canary"), attributes, extended: None };
    assert_eq!(apply(&mut *lane, attributes()), []);
    assert_eq!(fs::metadata(root.join("a/b/canary")).unwrap().mode() & 0o777, 0o644);
    // The lane has checked that the whole path consists of directories.
    fs::rename(root.join("a"), place.path().join("as it was")).unwrap();
    symlink(&outside, root.join("a")).unwrap();
    assert_eq!(apply(&mut *lane, attributes()).len(), 1);
    assert_eq!(fs::metadata(outside.join("b/canary")).unwrap().mode() & 0o777, 0o600);
    let remove = Change::Remove { path: path("a/b/canary"), directory: false, kept_names: 0 };
    apply(&mut *lane, remove);
    assert!(outside.join("b/canary").exists());
    // Creating an entry needs real directories, so the symbolic link is replaced.
    assert_eq!(apply(&mut *lane, Change::MakeDirectory { path: path("a/b/new"), mode: 0o755 }), []);
    assert!(!outside.join("b/new").exists() && root.join("a/b/new").is_dir());
}

/// Removals in a directory and the attributes of that directory are pending at the same time, in separate operations.
#[test]
fn a_directory_that_is_removed_leaves_the_time_of_the_one_above_it() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    fs::create_dir_all(root.join("in/deep/er")).unwrap();
    let over = Sftp::default().over(&root).unwrap();
    let target = over.target(Grant::everything());
    let mut lane = target.open_target_lane(0).unwrap();
    let path = |text: &str| EntryPath::new(text).unwrap();
    let own = fs::metadata(&root).unwrap();
    let mtime = FileTime { seconds: 5, nanoseconds: 0 };
    let attributes = Attributes { mode: 0o755, uid: own.uid(), gid: own.gid(), mtime };
    let remove = |name: &str| Change::Remove { path: path(name), directory: true, kept_names: 0 };
    let changes = [
        remove("in/deep/er"),
        remove("in/deep"),
        Change::Directory { path: path("in"), attributes, extended: None },
    ];
    for (ticket, change) in (1..).zip(changes) {
        assert!(lane.submit(ticket, TargetOp::Apply { changes: vec![change] }).is_ok());
    }
    for _ in 0..3 {
        assert!(lane.reap(CompletionWait::Forever).unwrap().result.is_ok());
    }
    assert_eq!(fs::metadata(root.join("in")).unwrap().mtime(), 5);
}
