//! Starts the process of a job, and waits until it no longer needs the terminal.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, Result};
use hakobu_core::job::Mode;
use hakobu_core::request::CopyRequest;
use hakobu_ssh::UnattendedLogin;
use hakobu_transfer::jobs::{ArgumentWord, JOB_SCHEMA, JobFolder, JobRecord, Jobs, logins};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::handshake::{ASKING, BEGUN, GO_ON};
use super::tail::Tail;
use crate::clock::now;
use crate::commands::copy::arguments::CopyArguments;
use crate::commands::copy::request::request;
use crate::settings_file::SSH_VARIABLE;
use crate::{exit, output, settings_file, signals};

/// The environment variables that a job's record keeps. All others come from the process that starts the job.
const VARIABLES: [&str; 8] = [
    "HAKOBU_SETTINGS",
    SSH_VARIABLE,
    "HAKOBU_STATE",
    "SSH_AUTH_SOCK",
    "PATH",
    "HOME",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
];
/// The socket of the ssh agent. A present one is preferred to that in the record, which may be days old.
const SSH_AGENT: &str = "SSH_AUTH_SOCK";
/// The interval at which the log is read.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The time that an unattended job has to lock its directory.
const BEGIN_LIMIT: Duration = Duration::from_secs(20);

/// The result of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartResult {
    /// It runs in the background.
    Runs,
    /// It ended before that, with this exit code.
    Ended(u8),
}

/// Starts a job; returns the exit code.
pub fn detach(typed: &CopyArguments, mode: Mode, arguments: &[OsString]) -> u8 {
    match request(typed, mode, settings_file::ssh_variable()) {
        Ok(request) => {
            detach_request(typed, &request, arguments).unwrap_or_else(|error| exit::errors(&[error]))
        }
        Err(errors) => exit::errors(&errors),
    }
}

fn detach_request(typed: &CopyArguments, request: &CopyRequest, arguments: &[OsString]) -> Result<u8> {
    let jobs = Jobs::of_user()?;
    let folder = jobs.create()?;
    let started = record(&folder, typed, arguments).and_then(|record| {
        folder.write_record(&record)?;
        start(&folder, &record)
    });
    if started != Ok(StartResult::Runs) {
        // A run that failed before it could detach is not a job.
        jobs.forget(&folder)?;
    }
    if let StartResult::Ended(code) = started? {
        return Ok(code);
    }
    let id = folder.id();
    let code = output::print(format!("{id}\n").as_bytes());
    tell_how_to_watch(&folder);
    for (host, login) in logins(request) {
        if let Some(words) = warning(login) {
            output::tell_translated(&format!("note: {host}: {words}"));
        }
    }
    Ok(code)
}

/// Prints how to follow a job.
pub(super) fn tell_how_to_watch(folder: &JobFolder) {
    let id = folder.id();
    output::tell_translated(&format!(
        "job {id} continues in the background; to follow it: hakobu jobs attach {id}"
    ));
}

/// Returns a warning for a job that may be unable to log in again.
fn warning(login: UnattendedLogin) -> Option<&'static str> {
    match login {
        UnattendedLogin::Works => None,
        UnattendedLogin::WithAgent => Some(
            "logging in needs the ssh agent of this session; once that is gone, the job cannot log in again by \
             itself",
        ),
        UnattendedLogin::Asks => Some(
            "ssh does not log in without asking, so the job cannot log in again by itself; a key without a \
             passphrase would do",
        ),
        UnattendedLogin::Unknown => Some("it is not known whether the job can log in again by itself"),
    }
}

fn record(folder: &JobFolder, typed: &CopyArguments, arguments: &[OsString]) -> Result<JobRecord> {
    let cwd =
        std::env::current_dir().map_err(|error| Error::io("looking up the working directory", &error))?;
    let variable = |name: &str| Some((name.to_owned(), ArgumentWord(std::env::var_os(name)?)));
    Ok(JobRecord {
        schema: JOB_SCHEMA.to_owned(),
        id: folder.id().as_str().to_owned(),
        created_at: now(),
        argv: arguments.iter().map(ArgumentWord::from).collect(),
        cwd: ArgumentWord(cwd.into_os_string()),
        environment: VARIABLES.into_iter().filter_map(variable).collect(),
        sources: typed.sources.iter().map(ArgumentWord::from).collect(),
        target: ArgumentWord::from(
            typed.target.as_ref().or(typed.sources.last()).unwrap_or(&OsString::new()),
        ),
    })
}

/// Starts a job on this terminal, shows its output, and waits until it no longer needs the terminal.
pub(super) fn start(folder: &JobFolder, record: &JobRecord) -> Result<StartResult> {
    let failed = |error: &std::io::Error| Error::io("starting the job", error);
    let cancel = signals::cancel_flag().map_err(|error| failed(&error))?;
    let (ours, theirs) = UnixStream::pair().map_err(|error| failed(&error))?;
    let mut command = command(folder, record, Stdio::from(OwnedFd::from(theirs)))?;
    let mut tail = Tail::from_end(folder)?;
    let mut child = command.spawn().map_err(|error| starting(record, &error))?;
    // `command` holds the job's end of the socket.
    drop(command);
    if wait_until_begun(&ours, &mut tail, &cancel) {
        return Ok(StartResult::Runs);
    }
    drop(ours);
    let code = end(&mut child, &mut tail).map_err(|error| failed(&error))?;
    Ok(StartResult::Ended(code))
}

/// Returns true if the job no longer needs the terminal, and false if it has ended or the user wants it to.
fn wait_until_begun(mut job: &UnixStream, tail: &mut Tail, cancel: &AtomicBool) -> bool {
    loop {
        let mut said = [0];
        let mut ready = [PollFd::new(job, PollFlags::IN)];
        let is_ready = matches!(poll(&mut ready, Some(&LOOK)), Ok(1));
        forward(tail);
        if cancel.load(Relaxed) {
            return false;
        }
        if !is_ready {
            continue;
        }
        let heard = job.read(&mut said);
        // The output that the job wrote before the byte is in the log by now.
        forward(tail);
        match (heard, said) {
            (Ok(1), [ASKING]) if job.write_all(&[GO_ON]).is_ok() => {}
            (Ok(1), [BEGUN]) => return job.write_all(&[GO_ON]).is_ok(),
            _ => return false,
        }
    }
}

/// Waits for the end of a job that never left the terminal.
fn end(child: &mut Child, tail: &mut Tail) -> std::io::Result<u8> {
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        forward(tail);
        sleep(Duration::from_millis(20));
    };
    forward(tail);
    tail.rest().iter().for_each(|line| output::tell(line));
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::FAILED))
}

fn forward(tail: &mut Tail) {
    tail.lines().iter().for_each(|line| output::tell(line));
}

/// Starts an unattended job, for example after a restart of the machine.
pub(super) fn start_unattended(folder: &JobFolder, record: &JobRecord) -> Result<StartResult> {
    let mut child =
        command(folder, record, Stdio::null())?.spawn().map_err(|error| starting(record, &error))?;
    let deadline = Instant::now() + BEGIN_LIMIT;
    loop {
        let ended = child.try_wait().map_err(|error| Error::io("starting the job", &error))?;
        if let Some(status) = ended {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok(StartResult::Ended(code.unwrap_or(exit::FAILED)));
        }
        if folder.is_running() || Instant::now() > deadline {
            return Ok(StartResult::Runs);
        }
        sleep(Duration::from_millis(20));
    }
}

fn starting(record: &JobRecord, error: &std::io::Error) -> Error {
    let at = record.cwd.0.as_encoded_bytes();
    Error::io("starting the job in", error).at(at)
}

/// Returns the command that runs a job.
fn command(folder: &JobFolder, record: &JobRecord, stdin: Stdio) -> Result<Command> {
    let program = std::env::current_exe().map_err(|error| Error::io("looking for hakobu itself", &error))?;
    let mut log = folder.append_to_log()?;
    let words = format!("hakobu {}: started at {}\n", env!("CARGO_PKG_VERSION"), now());
    log.write_all(words.as_bytes()).map_err(|error| Error::io("writing the log", &error))?;
    let log = OwnedFd::from(log);
    let copy = log.try_clone().map_err(|error| Error::io("writing the log", &error))?;
    let mut command = Command::new(program);
    command.args(["jobs", "run", folder.id().as_str()]).current_dir(&record.cwd.0);
    command.stdin(stdin).stdout(log).stderr(copy);
    for name in VARIABLES {
        let recorded = record.environment.iter().find(|(known, _)| known == name);
        match recorded {
            _ if name == SSH_AGENT && std::env::var_os(name).is_some() => {}
            Some((_, value)) => {
                command.env(name, &value.0);
            }
            None => {
                command.env_remove(name);
            }
        }
    }
    Ok(command)
}
