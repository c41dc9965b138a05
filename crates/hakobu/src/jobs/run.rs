//! The process that runs a job.
//!
//! The process begins as a child of the process that the user started, on the same terminal, so that ssh and sudo can
//! prompt and hakobu can ask about disks. It leaves the terminal as soon as both ends are known, all questions are
//! answered and the lock of the copy is held.
//!
//! The two processes talk over a socket, which is the standard input of the job. The job sends a byte, and the other
//! process answers when it has shown the log so far. If there is no answer, the user has left before the job was
//! detached, and the job stops. Without a socket nobody waits for the job, as after a restart of the machine.

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
    // The stamp is read before the limits, so that later changes are noticed.
    let stamp = folder.limits_stamp();
    if let Some(set) = folder.limits()? {
        typed.limits = limits::with(&as_typed, &set);
    }
    let lock = folder.lock()?;
    folder.begin(&lock)?;
    // The ssh processes remain in the terminal's session and must survive its end.
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

/// Returns the socket to the process that started this one, if it waits. Child processes must not inherit it.
fn starter() -> Option<UnixStream> {
    let stdin = std::io::stdin();
    let found = rustix::fs::fstat(&stdin).ok()?;
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    let socket = if is_socket { stdin.as_fd().try_clone_to_owned().ok() } else { None };
    let _ = File::open("/dev/null").map(rustix::stdio::dup2_stdin);
    socket.map(UnixStream::from)
}
