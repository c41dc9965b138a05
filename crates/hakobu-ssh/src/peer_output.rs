//! Shows the standard error output of ssh, and of the remote side through it, to the user. A single writer removes
//! control characters and limits the amount.
//!
//! Questions do not pass through here: ssh asks them on the terminal itself.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use hakobu_core::path::lossy;
use hakobu_sys::terminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The most bytes of a line that are shown.
const LINE_BYTES_MAX: usize = 1024;
/// The most lines that all remote hosts of a run may show.
const LINES_MAX: usize = 500;
/// The time after which an unfinished line is shown: it may be a question of a program in between.
const PARTIAL_AFTER: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// The time to wait for the last output of a process that has ended. Another process may still hold its standard error.
const LAST_WORDS_LIMIT: Duration = Duration::from_millis(200);

/// The number of lines that this process has shown.
static LINES: AtomicUsize = AtomicUsize::new(0);

/// True while a line that is to be overwritten stands on the terminal, with the cursor at its beginning.
static LINE_STANDS: AtomicBool = AtomicBool::new(false);
/// Removes the rest of a line on a terminal.
const CLEAR: &str = "\u{1b}[K";

/// Records whether a line that is to be overwritten stands on the terminal that standard error is.
pub fn line_stands(stands: bool) {
    LINE_STANDS.store(stands, SeqCst);
}

/// Shows the output of peers, line by line.
#[derive(Debug)]
pub struct PeerOutput<'a, W> {
    to: W,
    lines: &'a AtomicUsize,
    line: Vec<u8>,
    cut: bool,
}

impl PeerOutput<'static, io::Stderr> {
    /// Writes to standard error, within the limit of this process.
    pub fn on_stderr() -> Self {
        Self::new(io::stderr(), &LINES)
    }
}

impl<'a, W: Write> PeerOutput<'a, W> {
    fn new(to: W, lines: &'a AtomicUsize) -> Self {
        Self { to, lines, line: Vec::new(), cut: false }
    }

    /// Adds more output.
    pub fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                _ if self.line.len() < LINE_BYTES_MAX => self.line.push(byte),
                _ => self.cut = true,
            }
        }
    }

    /// Shows an unfinished line, if there is one.
    pub fn end(&mut self) {
        if !self.line.is_empty() {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        let number = self.lines.fetch_add(1, Relaxed);
        let words = match number.cmp(&LINES_MAX) {
            std::cmp::Ordering::Less => shown(&self.line, self.cut),
            std::cmp::Ordering::Equal => {
                format!(
                    "hakobu: the remote host has printed {LINES_MAX} lines; \u{2026} further output is suppressed\n"
                )
            }
            std::cmp::Ordering::Greater => String::new(),
        };
        if !words.is_empty() {
            // One write, so that no other line comes between.
            let _ = self.to.write_all(words.as_bytes());
        }
        self.line.clear();
        self.cut = false;
    }
}

/// Returns a line, made printable. Tabs are kept.
fn shown(line: &[u8], cut: bool) -> String {
    let mut line = line;
    // ssh ends its lines for a terminal in any mode.
    while let [rest @ .., b'\r'] = line {
        line = rest;
    }
    let parts: Vec<String> = line.split(|&byte| byte == b'\t').map(lossy).collect();
    let clear = if LINE_STANDS.load(SeqCst) { CLEAR } else { "" };
    format!("{clear}{}{}\n", parts.join("\t"), if cut { " \u{2026}" } else { "" })
}

/// A flag that is set once all output of a process was shown.
#[derive(Clone, Debug, Default)]
pub(super) struct ShownFlag(Arc<AtomicBool>);

impl ShownFlag {
    /// Waits briefly for the last output of a process that has ended.
    pub(super) fn wait(&self) {
        let deadline = Instant::now() + LAST_WORDS_LIMIT;
        while !self.0.load(SeqCst) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The reading end of a process's standard error.
#[derive(Debug)]
pub(super) enum ErrorReader {
    /// The standard error is a pipe, held by the child process handle.
    Pipe,
    /// The standard error is a separate terminal.
    Terminal(OwnedFd),
}

/// Sets up a command's standard error so that it can be shown. It is a terminal if this process has one: only then
/// OpenSSH reports that a security key must be touched.
pub(super) fn prepare(command: &mut Command) -> ErrorReader {
    if io::stderr().is_terminal()
        && let Ok((ours, theirs)) = terminal::pair()
    {
        command.stderr(theirs);
        return ErrorReader::Terminal(ours);
    }
    command.stderr(Stdio::piped());
    ErrorReader::Pipe
}

/// Shows the output until its end, on a separate thread.
///
/// # Errors
/// No thread can be started.
pub(super) fn listen(ear: ErrorReader, stderr: Option<ChildStderr>) -> io::Result<ShownFlag> {
    let from: OwnedFd = match (ear, stderr) {
        (ErrorReader::Terminal(ours), _) => ours,
        (ErrorReader::Pipe, Some(stderr)) => stderr.into(),
        (ErrorReader::Pipe, None) => return Ok(ShownFlag(Arc::new(AtomicBool::new(true)))),
    };
    let shown = ShownFlag::default();
    let done = shown.clone();
    let thread = std::thread::Builder::new().name("ssh words".to_owned());
    thread.spawn(move || {
        show_all(&mut std::fs::File::from(from), &mut PeerOutput::on_stderr());
        done.0.store(true, SeqCst);
    })?;
    Ok(shown)
}

fn show_all(from: &mut (impl Read + AsFd), spoken: &mut PeerOutput<'_, impl Write>) {
    let mut piece = [0; 4096];
    loop {
        let mut ready = [PollFd::new(from, PollFlags::IN)];
        if !spoken.line.is_empty() && matches!(poll(&mut ready, Some(&PARTIAL_AFTER)), Ok(0)) {
            spoken.end();
            continue;
        }
        match from.read(&mut piece) {
            Ok(count @ 1..) => spoken.add(piece.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A terminal whose other end is closed returns an error.
            Ok(_) | Err(_) => return spoken.end(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(bytes: &[u8]) -> String {
        let (mut to, lines) = (Vec::new(), AtomicUsize::new(0));
        let mut spoken = PeerOutput::new(&mut to, &lines);
        spoken.add(bytes);
        spoken.end();
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn words_stay_words_and_nothing_moves_the_cursor() {
        assert_eq!(said(b"Warning: added\tit\r\nnext"), "Warning: added\tit\nnext\n");
        assert_eq!(said(b"\x1b]0;T\x07\x1b[2Jx\ry\n"), "\\u{1b}]0;T\\u{7}\\u{1b}[2Jx\\ry\n");
        assert_eq!(said("\u{9b}2J\u{202e}a\u{2028}".as_bytes()), "\\u{9b}2J\\u{202e}a\\u{2028}\n");
        assert_eq!(said(b"\xff\x9b"), "\\xff\\x9b\n");
    }

    #[test]
    fn lines_are_cut_and_come_to_an_end() {
        let long = said(&[b'x'; 5000]);
        assert_eq!(long, format!("{} \u{2026}\n", "x".repeat(LINE_BYTES_MAX)));
        let many = said(&b"word\n".repeat(LINES_MAX + 1000));
        assert_eq!(many.lines().count(), LINES_MAX + 1);
        assert!(many.ends_with("suppressed\n"), "{many}");
    }

    #[test]
    fn a_process_is_heard_to_its_end() {
        let mut command = Command::new("sh");
        command.args(["-c", "printf 'one\\ntwo' >&2"]);
        command.stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut to, lines) = (Vec::new(), AtomicUsize::new(0));
        let mut from = std::fs::File::from(OwnedFd::from(child.stderr.take().unwrap()));
        show_all(&mut from, &mut PeerOutput::new(&mut to, &lines));
        assert_eq!(to, b"one\ntwo\n");
        child.wait().unwrap();
    }
}
