//! Runs tools of the system that report its settings: no shell, bounded output, a time limit.

use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::process::MeasuredCommand;

/// The time limit for a tool. They answer within milliseconds, unless they wait for a name server or a lock.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// The maximum number of bytes read from each stream of a tool.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Returns the standard output of a tool.
///
/// # Errors
/// The reason in words: the tool is missing, failed (with the last line of its standard error), or did not end in time.
pub(super) fn output(command: &mut Command) -> Result<String, String> {
    let deadline = Instant::now() + TIME_LIMIT;
    command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = MeasuredCommand::start(command).map_err(|error| error.to_string())?;
    let (stdout, stderr) = (running.child_mut().stdout.take(), running.child_mut().stderr.take());
    let (text, complaint) = std::thread::scope(|scope| {
        // A tool may fill one of them before it closes the other.
        let complaint = scope.spawn(|| stderr.map_or(Ok(String::new()), |stream| read(stream, deadline)));
        let text = stdout.map_or(Ok(String::new()), |stream| read(stream, deadline));
        (text, complaint.join().unwrap_or_else(|_| Err("reading its messages failed".to_owned())))
    });
    let (text, complaint) = (text?, complaint?);
    let cost = running.finish_within(TIME_LIMIT).map_err(|error| error.to_string())?;
    match cost.status.success() {
        true => Ok(text),
        false => Err(match complaint.trim().lines().last() {
            Some(line) => line.trim().to_owned(),
            None => cost.status.to_string(),
        }),
    }
}

/// Reads a stream to its end. A stream that is still open at the deadline, or too long, is an error.
fn read(mut stream: impl Read + AsFd, deadline: Instant) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 8 << 10];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let ready = match poll(&mut [PollFd::new(&stream, PollFlags::IN)], Some(&left)) {
            Err(rustix::io::Errno::INTR) => continue,
            ready => ready.map_err(|error| error.to_string())?,
        };
        if ready == 0 {
            return Err(format!("no answer within {} s", TIME_LIMIT.as_secs()));
        }
        let length = stream.read(&mut buffer).map_err(|error| error.to_string())?;
        let read = buffer.get(..length).unwrap_or_default();
        if read.is_empty() {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        if bytes.len() + read.len() > OUTPUT_BYTES_MAX {
            return Err(format!("more than {OUTPUT_BYTES_MAX} bytes of output"));
        }
        bytes.extend(read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<String, String> {
        output(Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn output_and_reasons_are_those_of_the_tool() {
        assert_eq!(shell("echo a; echo b >&2").unwrap(), "a\n");
        assert_eq!(shell("echo a; echo b >&2; echo 'c d' >&2; exit 3").unwrap_err(), "c d");
        assert!(shell("exit 3").unwrap_err().contains('3'));
        assert_eq!(shell("head -c 300000 /dev/zero >&2; echo a").unwrap(), "a\n");
        assert!(output(&mut Command::new("/no/such/tool")).unwrap_err().contains("/no/such/tool"));
    }

    #[test]
    fn a_tool_that_says_too_much_or_nothing_is_ended() {
        let words = shell("cat /dev/zero").unwrap_err();
        assert!(words.contains("bytes of output"), "{words}");
        let words = shell("exec sleep 1000").unwrap_err();
        assert!(words.contains("within 5 s"), "{words}");
    }
}
