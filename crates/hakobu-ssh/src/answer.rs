//! Parses the remote side's output before the agent's messages.

use std::io::{self, Read};
use std::process::ChildStdout;
use std::time::{Duration, Instant};

use hakobu_core::stopping;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::script::MARK;

/// The most bytes that a login shell, a banner or the script may print before the agent's preamble.
pub(super) const MAX_BANNER_BYTES: usize = 64 * 1024;
/// The longest remote text quoted in an error, in characters.
const MAX_QUOTED_CHARS: usize = 500;

/// One item of the remote side's output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AgentAnswer {
    /// The preamble; the next byte is the agent's own.
    Agent,
    /// There is no program; one is requested.
    Need(FarSystem),
    /// sudo requires a password.
    Password,
    /// The script gave up.
    Fail {
        /// Its word for the reason.
        reason: String,
        /// Further details, printable.
        detail: String,
    },
    /// The output ended.
    End,
    /// The time is up.
    Late,
    /// Too much other output.
    Babble,
}

/// The content of a `need` line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FarSystem {
    /// A path was requested but does not exist.
    pub path_missing: bool,
    /// The output of `uname -s`.
    pub system: String,
    /// The output of `uname -m`.
    pub machine: String,
    /// The output of `uname -r`.
    pub release: String,
}

/// Reads the remote side's output up to the preamble and not a byte further. It reads one byte at a time, which is
/// cheap for so few bytes and leaves the agent's messages in the pipe.
pub(super) struct PreambleReader<R = ChildStdout> {
    input: R,
    left_bytes: usize,
    line: Vec<u8>,
    first_line: String,
}

impl<R: Read + std::os::fd::AsFd> PreambleReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, left_bytes: MAX_BANNER_BYTES, line: Vec::new(), first_line: String::new() }
    }

    /// Returns the next item within `limit`. Banner text is skipped.
    pub(super) fn next(&mut self, limit: Duration) -> io::Result<AgentAnswer> {
        let deadline = Instant::now() + limit;
        loop {
            if self.left_bytes == 0 {
                return Ok(AgentAnswer::Babble);
            }
            if !readable(&self.input, deadline)? {
                return Ok(AgentAnswer::Late);
            }
            let mut byte = [0];
            match self.input.read(&mut byte) {
                Ok(0) => {
                    self.keep_first(self.line.len());
                    return Ok(AgentAnswer::End);
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            self.left_bytes -= 1;
            if byte != *b"\n" {
                self.line.push(byte[0]);
            } else if let Some(heard) = self.end_of_line() {
                return Ok(heard);
            }
        }
    }

    /// Returns the first line that was not an answer; empty if there was none.
    pub(super) fn first_line(&self) -> &str {
        &self.first_line
    }

    /// Returns the stream, at the byte after the last item.
    pub(super) fn into_input(self) -> R {
        self.input
    }

    /// Looks for a mark in the complete line. It may follow text without a newline at its end.
    fn end_of_line(&mut self) -> Option<AgentAnswer> {
        let mark = self.line.windows(MARK.len()).rposition(|part| part == MARK);
        let heard = mark.and_then(|at| parse(&self.line[at + MARK.len()..]));
        let text_bytes = match (&heard, mark) {
            (Some(_), Some(at)) => at,
            _ => self.line.len(),
        };
        self.keep_first(text_bytes);
        self.line.clear();
        heard
    }

    fn keep_first(&mut self, text_bytes: usize) {
        if self.first_line.is_empty() {
            self.first_line = printable(self.line.get(..text_bytes).unwrap_or_default());
        }
    }
}

/// Waits until there is something to read, or the end. Returns `false` if the deadline passes.
fn readable(input: &impl std::os::fd::AsFd, deadline: Instant) -> io::Result<bool> {
    wait_for(input, PollFlags::IN, deadline)
}

/// Waits until `stream` is ready for `what`, or has failed or ended. Returns `false` if the deadline passes first.
///
/// # Errors
/// An error of the system, or the user has asked to stop.
pub(super) fn wait_for(
    stream: &impl std::os::fd::AsFd,
    what: PollFlags,
    deadline: Instant,
) -> io::Result<bool> {
    loop {
        if stopping::is_asked() {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "stopped as asked"));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let step = left.min(stopping::LOOK_EVERY);
        let limit = Timespec { tv_sec: 0, tv_nsec: step.subsec_nanos().into() };
        let mut wanted = [PollFd::new(stream, what)];
        match poll(&mut wanted, Some(&limit)) {
            Ok(0) if step < left => {}
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Parses a marked line without its mark. Returns `None` if it is not the script's.
fn parse(line: &[u8]) -> Option<AgentAnswer> {
    let text = printable(line);
    let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
    match word {
        "agent" if rest.is_empty() => Some(AgentAnswer::Agent),
        "password" if rest.is_empty() => Some(AgentAnswer::Password),
        "need" => {
            let mut parts = rest.split(' ');
            let mut part = || parts.next().unwrap_or_default().to_owned();
            Some(AgentAnswer::Need(FarSystem {
                path_missing: part() == "1",
                system: part(),
                machine: part(),
                release: part(),
            }))
        }
        "fail" => {
            let (reason, detail) = rest.split_once(' ').unwrap_or((rest, ""));
            Some(AgentAnswer::Fail { reason: reason.to_owned(), detail: detail.to_owned() })
        }
        _ => None,
    }
}

/// Makes remote text suitable for an error message: without control characters, trimmed at the end and shortened.
pub(super) fn printable(text: &[u8]) -> String {
    let start = text.get(..4 * MAX_QUOTED_CHARS).unwrap_or(text);
    let lossy = String::from_utf8_lossy(start);
    let letters = lossy.chars().filter(|letter| !letter.is_control());
    let cut: String = letters.take(MAX_QUOTED_CHARS).collect();
    cut.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use hakobu_proto::control::PREAMBLE;

    const LONG: Duration = Duration::from_secs(60);

    fn answers(bytes: &[u8]) -> PreambleReader<UnixStream> {
        let (mut far, near) = UnixStream::pair().unwrap();
        let bytes = bytes.to_vec();
        std::thread::spawn(move || far.write_all(&bytes));
        PreambleReader::new(near)
    }

    #[test]
    fn the_preamble_is_found_behind_a_banner_and_nothing_after_it_is_taken() {
        for banner in ["", "Welcome\n", "no newline", "a\0b\n\0hakobu:x\n"] {
            let mut bytes = banner.as_bytes().to_vec();
            bytes.extend_from_slice(PREAMBLE);
            bytes.extend_from_slice(b"mine");
            let mut all = answers(&bytes);
            assert_eq!(all.next(LONG).unwrap(), AgentAnswer::Agent, "{banner:?}");
            let mut rest = String::new();
            all.into_input().read_to_string(&mut rest).unwrap();
            assert_eq!(rest, "mine", "{banner:?}");
        }
    }

    #[test]
    fn lines_of_the_script_are_understood_one_after_another() {
        let mut all = answers(
            b"hi\n\0hakobu:need 1 Linux x86_64 6.1.0\n\0hakobu:password\nx\0hakobu:fail no-place /tmp (\x1bx)\nbye",
        );
        let need = FarSystem {
            path_missing: true,
            system: "Linux".to_owned(),
            machine: "x86_64".to_owned(),
            release: "6.1.0".to_owned(),
        };
        assert_eq!(all.next(LONG).unwrap(), AgentAnswer::Need(need));
        assert_eq!(all.next(LONG).unwrap(), AgentAnswer::Password);
        let fail = AgentAnswer::Fail { reason: "no-place".to_owned(), detail: "/tmp (x)".to_owned() };
        assert_eq!(all.next(LONG).unwrap(), fail);
        assert_eq!(all.next(LONG).unwrap(), AgentAnswer::End);
        assert_eq!(all.first_line(), "hi");
    }

    #[test]
    fn endless_output_and_silence_both_end() {
        let mut all = answers(&vec![b'y'; MAX_BANNER_BYTES + 10]);
        assert_eq!(all.next(LONG).unwrap(), AgentAnswer::Babble);
        let (_far, near) = UnixStream::pair().unwrap();
        let silent = PreambleReader::new(near).next(Duration::from_millis(1)).unwrap();
        assert_eq!(silent, AgentAnswer::Late);
    }

    #[test]
    fn a_preamble_within_the_limit_is_found_and_one_beyond_it_is_not() {
        for (banner_bytes, heard) in
            [(MAX_BANNER_BYTES - PREAMBLE.len(), AgentAnswer::Agent), (MAX_BANNER_BYTES, AgentAnswer::Babble)]
        {
            let mut bytes = vec![b'y'; banner_bytes];
            bytes.extend_from_slice(PREAMBLE);
            assert_eq!(answers(&bytes).next(LONG).unwrap(), heard);
        }
    }
}
