//! Questions to the user on the terminal, whatever standard input and output are.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hakobu_core::prompts::{Prompts, Secret};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::connecting::ConnectingLine;

/// How often a question looks whether it was interrupted.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The terminal that controls this process, if there is one.
#[derive(Debug)]
pub struct Terminal {
    /// Ends a question that is waiting.
    cancel: Arc<AtomicBool>,
    /// Says which host is being logged in to, on a terminal that can show it.
    tells_logins: bool,
    connecting: Option<ConnectingLine>,
}

impl Terminal {
    /// The terminal, whose questions `cancel` ends. `tells_logins`: a login that takes a while is told.
    pub fn new(cancel: Arc<AtomicBool>, tells_logins: bool) -> Self {
        Self { cancel, tells_logins, connecting: None }
    }

    /// The flag that ends its questions.
    pub fn cancel(&self) -> &Arc<AtomicBool> {
        &self.cancel
    }
}

impl Prompts for Terminal {
    fn connecting(&mut self, host: &str) {
        // The earlier line goes first.
        self.connecting = None;
        self.connecting = self.tells_logins.then(|| ConnectingLine::show(host));
    }

    fn connected(&mut self) {
        self.connecting = None;
    }

    fn sudo_password(&mut self, host: &str, attempt: u32) -> Option<Secret> {
        self.connecting = None;
        let again = if attempt > 1 { "wrong password; " } else { "" };
        let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        let answer =
            read_hidden(&mut terminal, &format!("{again}password for sudo on {host}: "), &self.cancel);
        let _ = writeln!(terminal);
        Secret::new(answer?)
    }

    fn rsync_password(&mut self, whose: &str, attempt: u32) -> Option<Secret> {
        self.connecting = None;
        let again = if attempt > 1 { "wrong password; " } else { "" };
        let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        let whose = crate::words::escaped_lines(whose);
        let answer = read_hidden(&mut terminal, &format!("{again}password for {whose}: "), &self.cancel);
        let _ = writeln!(terminal);
        Secret::new(answer?)
    }

    fn may_delete(&mut self, words: &str) -> Option<bool> {
        let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        let words = crate::words::escaped_lines(words);
        write!(terminal, "{words}\ndelete them? y (yes) or n (no): ").ok()?;
        let answer = read_line(&mut terminal, &self.cancel)?;
        Some(is_yes(&answer))
    }

    fn disk_id(&mut self, words: &str) -> Option<String> {
        let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        let words = crate::words::escaped_lines(words);
        write!(terminal, "{words}\ntype its ID to go on: ").ok()?;
        let answer = read_line(&mut terminal, &self.cancel)?;
        String::from_utf8(answer).ok()
    }
}

/// Returns true if the answer is yes. Any other answer means no.
fn is_yes(answer: &[u8]) -> bool {
    let answer = answer.trim_ascii();
    [&b"y"[..], b"yes"].iter().any(|yes| answer.eq_ignore_ascii_case(yes))
}

/// Asks for a line, and reads it without echo. The echo is always restored.
fn read_hidden(terminal: &mut File, question: &str, cancel: &AtomicBool) -> Option<Vec<u8>> {
    let shown = tcgetattr(&*terminal).ok()?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    // Input from before the question is discarded here. After the question, the answer would be discarded too.
    tcsetattr(&*terminal, OptionalActions::Flush, &hidden).ok()?;
    let asked = write!(terminal, "{question}");
    let answer = asked.ok().and_then(|()| read_line(terminal, cancel));
    let _ = tcsetattr(&*terminal, OptionalActions::Flush, &shown);
    answer
}

/// Reads a line, unless it is interrupted.
fn read_line(terminal: &mut File, cancel: &AtomicBool) -> Option<Vec<u8>> {
    let mut answer = Vec::new();
    let mut byte = [0];
    let whole = loop {
        if cancel.load(Relaxed) {
            break false;
        }
        let mut ready = [PollFd::new(&*terminal, PollFlags::IN)];
        if !matches!(poll(&mut ready, Some(&LOOK)), Ok(1)) {
            continue;
        }
        match terminal.read(&mut byte) {
            Ok(1) if byte[0] == b'\n' => break true,
            Ok(1) if answer.len() < Secret::MAX_BYTES => answer.push(byte[0]),
            _ => break false,
        }
    };
    whole.then_some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yes_is_a_letter_or_the_word_and_all_else_is_no() {
        for yes in ["y", "Y", "yes", "YES", "Yes", " y \r", "yes "] {
            assert!(is_yes(yes.as_bytes()), "{yes:?}");
        }
        for no in ["", "n", "no", "ye", "yess", "y y", "yes, but", "j", "1"] {
            assert!(!is_yes(no.as_bytes()), "{no:?}");
        }
    }
}
