//! The line that says which host is being logged in to, where that takes a while.
//!
//! The cursor stays at its beginning, so that a question of ssh, which asks on the terminal itself, is
//! written over it. The rest of the line goes as soon as ssh hides what is typed.

use std::io::{Write, stderr};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use hakobu_core::path::lossy;
use hakobu_ssh::peer_output::line_stands;
use rustix::termios::{LocalModes, tcgetattr, tcgetwinsize};
use unicode_width::UnicodeWidthChar;

use crate::language::Language;
use crate::translation::localized;

/// A login that is faster needs no words.
const SHOWN_AFTER: Duration = Duration::from_millis(200);
/// How often it is looked whether ssh asks for a password.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Removes what stands from the cursor to the end of the line.
const CLEAR: &str = "\x1b[K";

/// A line on the terminal, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectingLine {
    /// Ends the thread by being dropped.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ConnectingLine {
    /// Shows the line after a moment.
    pub(crate) fn show(host: &str, language: Language) -> Self {
        let (end, ended) = mpsc::channel::<()>();
        let words = localized!(language, "connecting to {} …", lossy(host.as_bytes()));
        let thread = spawn(move || {
            if ended.recv_timeout(SHOWN_AFTER) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            line_stands(true);
            write(&format!("{}\r", fitting(&words, columns())));
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                if is_hidden() {
                    line_stands(false);
                    write(CLEAR);
                    let _until_the_end = ended.recv();
                    return;
                }
            }
            line_stands(false);
            write(CLEAR);
        });
        Self { end: Some(end), thread: Some(thread) }
    }
}

impl Drop for ConnectingLine {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write(words: &str) {
    let mut stderr = stderr().lock();
    let _ = stderr.write_all(words.as_bytes()).and_then(|()| stderr.flush());
}

/// The width of the terminal.
fn columns() -> usize {
    match tcgetwinsize(stderr()) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => 80,
    }
}

/// The words, cut off where they would not fit in one line.
fn fitting(words: &str, columns: usize) -> String {
    let mut left = columns.saturating_sub(1);
    let fits = |letter: &char| {
        let width = letter.width().unwrap_or(0);
        left.checked_sub(width).map(|rest| left = rest).is_some()
    };
    words.chars().take_while(fits).collect()
}

/// Returns true if the terminal does not echo, as while a password is typed.
fn is_hidden() -> bool {
    tcgetattr(stderr()).is_ok_and(|modes| !modes.local_modes.contains(LocalModes::ECHO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_does_not_wrap() {
        assert_eq!(fitting("connecting to h …", 80), "connecting to h …");
        assert_eq!(fitting("connecting to h …", 11), "connecting");
        assert_eq!(fitting("x", 0), "");
        assert_eq!(fitting("h に接続中 …", 9), "h に接続");
    }
}
