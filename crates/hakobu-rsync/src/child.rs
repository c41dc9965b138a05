//! Runs one rsync process from start to end.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_sys::process::ends_with_this_thread;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use super::output::LineSplitter;
use super::rsync_errors::{LINES_MAX, RUNNING};
use super::traffic::RsyncTraffic;

/// The interval at which a stop is checked for.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The interval of checks for the end of a process that has closed its outputs.
const SOON: Duration = Duration::from_millis(2);
/// The time for an rsync to end after SIGTERM.
const FAREWELL: Duration = Duration::from_secs(3);
/// The time to wait for output once it has ended: a process that it started may hold the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The error if rsync is not installed.
const MISSING: &str = "rsync is not installed on this machine, or not on PATH; install the package rsync, version 3.0 \
                       or newer (apt install rsync, dnf install rsync)";

/// The result of an rsync that has ended.
#[derive(Debug)]
pub(super) struct RsyncExit {
    pub status: ExitStatus,
    /// The lines on its standard error.
    pub complaints: Vec<Vec<u8>>,
}

/// An event of a running rsync.
#[derive(Debug)]
pub(super) enum RsyncEvent<'a> {
    /// A line of its standard output.
    Line(&'a [u8]),
    /// The number of bytes that it has moved.
    Traffic(u64),
}

/// The input of an rsync besides its arguments.
#[derive(Debug, Default)]
pub(super) struct RsyncInput {
    /// Its standard input.
    pub input: Option<Vec<u8>>,
    /// Set if its traffic is to be counted; true if it sends, false if it receives.
    pub counts: Option<bool>,
}

/// Runs an rsync, and passes its events to `each`. Ends it when `stop` returns true, or when this process is killed.
///
/// # Errors
/// `NotFound` if rsync is not installed; `Cancelled` after a stop.
pub(super) fn run(
    mut command: Command,
    given: RsyncInput,
    stop: &dyn Fn() -> bool,
    each: &mut dyn FnMut(RsyncEvent<'_>),
) -> Result<RsyncExit> {
    command.stdin(if given.input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // Otherwise it would continue, and overwrite what a later run has copied.
    ends_with_this_thread(&mut command);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, "starting rsync", MISSING),
        _ => Error::io("starting rsync", &error),
    })?;
    let stdin = child.stdin.take();
    std::thread::scope(|scope| {
        if let (Some(mut stdin), Some(input)) = (stdin, given.input) {
            // An rsync that has ended reads no more, and reports the reason itself.
            scope.spawn(move || drop(stdin.write_all(&input)));
        }
        let traffic = given.counts.map(|sends| RsyncTraffic::of(child.id(), sends));
        let mut running = RsyncProcess { child, stop, traffic, told_at: None, ended: None };
        let listened = running.listen(each);
        if listened.is_err() {
            running.end_at_once();
        }
        listened
    })
}

struct RsyncProcess<'a> {
    child: Child,
    stop: &'a dyn Fn() -> bool,
    traffic: Option<RsyncTraffic>,
    /// The time at which it was sent SIGTERM.
    told_at: Option<Instant>,
    ended: Option<(ExitStatus, Instant)>,
}

impl RsyncProcess<'_> {
    /// Reads its output until it has ended.
    fn listen(&mut self, each: &mut dyn FnMut(RsyncEvent<'_>)) -> Result<RsyncExit> {
        let mut stdout = self.child.stdout.take();
        let mut stderr = self.child.stderr.take();
        let (mut said, mut complained) = (LineSplitter::default(), LineSplitter::default());
        let mut complaints = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match (&stdout, &stderr) {
                // It is about to end.
                (None, None) => std::thread::sleep(SOON),
                _ => wait(stdout.as_ref(), stderr.as_ref()),
            }
            let mut line = |line: &[u8]| each(RsyncEvent::Line(line));
            let open = take(&mut stdout, &mut buffer, |bytes| said.take(bytes, &mut line))?;
            let mut keep = |line: &[u8]| keep(&mut complaints, line);
            let more = take(&mut stderr, &mut buffer, |bytes| complained.take(bytes, &mut keep))?;
            if let Some(bytes) = self.traffic.as_mut().and_then(RsyncTraffic::news) {
                each(RsyncEvent::Traffic(bytes));
            }
            self.look()?;
            if let Some((status, at)) = self.ended
                && (!(open || more) || at.elapsed() > LAST_WORDS)
            {
                said.end(&mut |line| each(RsyncEvent::Line(line)));
                complained.end(&mut |line| self::keep(&mut complaints, line));
                if self.told_at.is_some() {
                    return Err(Error::new(ErrorKind::Cancelled, RUNNING, "stopped as asked"));
                }
                return Ok(RsyncExit { status, complaints });
            }
        }
    }

    /// Checks if it has ended, and ends it if necessary.
    fn look(&mut self) -> Result<()> {
        if self.ended.is_none() {
            let status = self.child.try_wait().map_err(|error| Error::io("waiting for rsync", &error))?;
            self.ended = status.map(|status| (status, Instant::now()));
        }
        if self.ended.is_some() {
            return Ok(());
        }
        match self.told_at {
            None if (self.stop)() => {
                // With SIGTERM it notifies the other side, and keeps the part of a large file that it has received.
                let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
                self.told_at = Some(Instant::now());
            }
            Some(at) if at.elapsed() > FAREWELL => {
                let _ = self.child.kill();
            }
            _ => {}
        }
        Ok(())
    }

    fn end_at_once(&mut self) {
        if self.ended.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn keep(complaints: &mut Vec<Vec<u8>>, line: &[u8]) {
    if complaints.len() < LINES_MAX {
        complaints.push(line.to_vec());
    }
}

/// Waits briefly until there is something to read.
fn wait(stdout: Option<&impl AsFd>, stderr: Option<&impl AsFd>) {
    let mut ready = Vec::with_capacity(2);
    ready.extend(stdout.map(|stdout| PollFd::new(stdout, PollFlags::IN)));
    ready.extend(stderr.map(|stderr| PollFd::new(stderr, PollFlags::IN)));
    let _ = poll(&mut ready, Some(&LOOK));
}

/// Reads the available data. Returns false once the pipe is closed.
fn take<R: Read + AsFd>(
    pipe: &mut Option<R>,
    buffer: &mut [u8],
    mut each: impl FnMut(&[u8]),
) -> Result<bool> {
    let Some(open) = pipe else { return Ok(false) };
    let nothing = Timespec { tv_sec: 0, tv_nsec: 0 };
    let is_ready = poll(&mut [PollFd::new(&*open, PollFlags::IN)], Some(&nothing)) == Ok(1);
    if !is_ready {
        return Ok(true);
    }
    match open.read(buffer) {
        Ok(0) => *pipe = None,
        Ok(count) => each(&buffer[..count]),
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
        Err(error) => return Err(Error::io("listening to rsync", &error)),
    }
    Ok(pipe.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        command
    }

    #[test]
    fn both_outputs_are_heard_and_the_input_is_given() {
        let mut said = Vec::new();
        let given = RsyncInput { input: Some(b"one\ntwo".to_vec()), ..RsyncInput::default() };
        let ended = run(shell("cat; echo why >&2; exit 23"), given, &|| false, &mut |heard| {
            if let RsyncEvent::Line(line) = heard {
                said.push(line.to_vec());
            }
        })
        .unwrap();
        assert_eq!(said, [b"one", b"two"]);
        assert_eq!((ended.status.code(), ended.complaints), (Some(23), vec![b"why".to_vec()]));
    }

    #[test]
    fn it_is_ended_when_the_run_stops() {
        let error = run(shell("exec sleep 600"), RsyncInput::default(), &|| true, &mut |_| {}).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Cancelled);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error =
            run(Command::new("/none/rsync"), RsyncInput::default(), &|| false, &mut |_| {}).unwrap_err();
        assert!(error.kind == ErrorKind::NotFound && error.detail.contains("install"), "{error}");
    }
}
