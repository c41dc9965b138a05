//! Questions to the user on the terminal, whatever standard input and output are.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hakobu_core::prompts::{Prompts, Secret};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::connecting::ConnectingLine;
use crate::language::Language;
use crate::translation::{localized, phrase, text};
use crate::words::escaped_lines;

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
    language: Language,
}

impl Terminal {
    /// The terminal, whose questions `cancel` ends. `tells_logins`: a login that takes a while is told.
    pub fn new(cancel: Arc<AtomicBool>, tells_logins: bool) -> Self {
        Self { cancel, tells_logins, connecting: None, language: Language::from_environment() }
    }

    /// Asks for a password, without echo. From the second attempt on it says that the one before was wrong.
    fn password(&mut self, question: &str, attempt: u32) -> Option<Secret> {
        self.connecting = None;
        let again = if attempt > 1 { phrase(self.language, "wrong password; ") } else { String::new() };
        let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        let answer = read_hidden(&mut terminal, &format!("{again}{question}"), &self.cancel);
        let _ = writeln!(terminal);
        Secret::new(answer?)
    }

    /// Shows printable words, then asks a question and reads the answer.
    fn question(&mut self, words: &str, question: &str) -> Option<Vec<u8>> {
        let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        let question = phrase(self.language, question);
        write!(terminal, "{words}\n{question}").ok()?;
        read_line(&mut terminal, &self.cancel)
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
        self.connecting = self.tells_logins.then(|| ConnectingLine::show(host, self.language));
    }

    fn connected(&mut self) {
        self.connecting = None;
    }

    fn sudo_password(&mut self, host: &str, attempt: u32) -> Option<Secret> {
        let question = localized!(self.language, "password for sudo on {}: ", host);
        self.password(&question, attempt)
    }

    fn rsync_password(&mut self, whose: &str, attempt: u32) -> Option<Secret> {
        let whose = escaped_lines(whose);
        let question = localized!(self.language, "password for {}: ", text(self.language, &whose));
        self.password(&question, attempt)
    }

    fn may_delete(&mut self, words: &str) -> Option<bool> {
        let words = list_in(self.language, &escaped_lines(words));
        self.question(&words, "delete them? y (yes) or n (no): ").map(|answer| is_yes(&answer))
    }

    fn disk_id(&mut self, words: &str) -> Option<String> {
        let words = escaped_lines(words);
        let words = text(self.language, &words);
        self.question(&words, "type its ID to go on: ").and_then(|answer| String::from_utf8(answer).ok())
    }
}

/// Translates the first line of a list of names, and the last line if it counts the names that are not listed.
fn list_in(language: Language, words: &str) -> String {
    let mut lines: Vec<_> = words.split('\n').collect();
    let last = lines.len().saturating_sub(1);
    let leading_count = |text: &str| -> Option<u64> {
        let is_of_number = |letter: &char| letter.is_ascii_digit() || *letter == ' ';
        let digits: String = text.chars().take_while(is_of_number).filter(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    let all = lines.first().and_then(|line| leading_count(line));
    let more = lines.get(last).and_then(|line| leading_count(line.trim_start().strip_prefix("and ")?));
    // A name may look like that line.
    let is_count = more.is_some_and(|more| all == Some(more.saturating_add(last as u64 - 1)));
    let translated: Vec<_> = [0, last].map(|line| text(language, lines[line]).into_owned()).into();
    lines[0] = &translated[0];
    if is_count && last > 0 {
        lines[last] = &translated[1];
    }
    lines.join("\n")
}

/// Returns true if the answer is yes. Any other answer means no.
fn is_yes(answer: &[u8]) -> bool {
    let answer = answer.trim_ascii();
    [&b"y"[..], b"yes", "はい".as_bytes()].iter().any(|yes| answer.eq_ignore_ascii_case(yes))
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
        for yes in ["y", "Y", "yes", "YES", "Yes", " y \r", "yes ", "はい"] {
            assert!(is_yes(yes.as_bytes()), "{yes:?}");
        }
        for no in ["", "n", "no", "ye", "yess", "y y", "yes, but", "j", "1", "いいえ"] {
            assert!(!is_yes(no.as_bytes()), "{no:?}");
        }
    }

    #[test]
    fn names_in_a_list_are_not_translated() {
        let list = |words: &str| list_in(Language::Ja, words);
        let words =
            "12 entries of h:/a b are not in the source:\n  it is closed\n  permission denied\n  and 10 more";
        assert_eq!(
            list(words),
            "h:/a b の 12 件はコピー元にありません:\n  it is closed\n  permission denied\n  ほか 10 件"
        );
        let of_names = "2 entries of /t are not in the source:\n  a\n  and 3 more";
        assert!(list(of_names).ends_with(":\n  a\n  and 3 more"), "{}", list(of_names));
        assert_eq!(list_in(Language::En, words), words);
        assert_eq!(list("1 entry of . is not in the source:\n  x"), ". の 1 件はコピー元にありません:\n  x");
    }
}
