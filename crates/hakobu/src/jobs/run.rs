//! The process that runs a job.
//!
//! It begins as a child of the one that the user started, on the same terminal, so that ssh, sudo and
//! disks can ask what they have to. As soon as both ends are known, nothing is left to be asked, and the
//! lock of the copy is held, it leaves the terminal. Both talk over a socket, which is its standard input: it says a byte, the
//! other one answers when it has shown the log so far. An answer that does not come means that the
//! user has gone before it was agreed that the job goes on, so it stops.
//!
//! With no socket there nobody waits, as when the machine has been restarted.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_transfer::jobs::{JobId, Jobs};
use rustix::fd::AsFd;
use rustix::fs::FileType;

use super::command::JobCommand;
use super::job_run::{JobRun, leave_terminal};
use super::limits;
use crate::commands::copy;
use crate::exit;

const RUNNING: &str = "running the job";

/// Runs a job; returns its exit code.
pub fn run(id: &str) -> Result<u8> {
    let wrong = |words: &str| Error::new(ErrorKind::Usage, RUNNING, words).at(id);
    let id = JobId::parse(id.as_bytes()).ok_or_else(|| wrong("this is not the ID of a job"))?;
    let folder = Jobs::of_user()?.open(id)?;
    let (mut typed, mode, arguments) = match JobCommand::read(&folder.record()?, RUNNING) {
        Ok(JobCommand { typed, mode, arguments }) => (typed, mode, arguments),
        Err(errors) => return Ok(exit::errors(&errors)),
    };
    let as_typed = typed.limits.clone();
    // In this order: what is set meanwhile is seen as new.
    let stamp = folder.limits_stamp();
    if let Some(set) = folder.limits()? {
        typed.limits = limits::with(&as_typed, &set);
    }
    let lock = folder.lock()?;
    folder.begin(&lock)?;
    // The processes of ssh stay behind in the terminal's session, and must not end with it.
    hakobu_sys::signal::ignore_hangup()
        .map_err(|error| Error::io("ignoring the end of the terminal", &error))?;
    let starter = starter();
    let job = JobRun {
        folder: Arc::new(folder),
        unattended: starter.is_none(),
        starter: Mutex::new(starter),
        confirmed: Mutex::default(),
        password_asked: AtomicBool::new(false),
        begun: AtomicBool::new(false),
        limits: (as_typed, stamp),
        _lock: lock,
    };
    if job.unattended {
        leave_terminal();
    }
    Ok(copy::run(&typed, mode, &arguments, Some(&job)))
}

/// The process that started this one, if it waits on standard input. What is started from here shall
/// not have that.
fn starter() -> Option<UnixStream> {
    let stdin = std::io::stdin();
    let found = rustix::fs::fstat(&stdin).ok()?;
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    let socket = if is_socket { stdin.as_fd().try_clone_to_owned().ok() } else { None };
    let _ = File::open("/dev/null").map(rustix::stdio::dup2_stdin);
    socket.map(UnixStream::from)
}
