//! Writing to standard output and standard error, either of which may go away: a closed pipe is no reason to panic or to
//! stop copying.

use std::io::{self, ErrorKind, Write};

use hakobu_sys::standard::was_closed;

use crate::exit_code::FAILED;
use crate::language::Language;
use crate::{color, messages, translation};

/// Standard output as a place to write to, which fails where it was closed when the program began: the runtime has put
/// something else in its place, where everything would be lost.
pub fn results() -> Box<dyn Write + Send> {
    if was_closed(1) { Box::new(ClosedOutput) } else { Box::new(io::stdout()) }
}

struct ClosedOutput;

impl Write for ClosedOutput {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::other("it is closed"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes everything to standard output. A reader that has gone away is no failure.
pub fn print(bytes: &[u8]) -> u8 {
    if bytes.is_empty() {
        return 0;
    }
    if was_closed(1) {
        tell_translated(&messages::error("writing to standard output: it is closed"));
        return FAILED;
    }
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            tell_translated(&messages::error(&format!("writing to standard output: {error}")));
            FAILED
        }
        _ => 0,
    }
}

/// Writes lines to standard error. Errors are ignored, because they cannot be reported.
pub(crate) fn tell(words: &str) {
    let _ = remarks().write_all(format!("{}\n", words.trim_end_matches('\n')).as_bytes());
}

/// Writes messages of the program to standard error, in the language of the user.
pub(crate) fn tell_translated(words: &str) {
    tell(&translation::lines(Language::from_environment(), words));
}

/// Standard error, where labels of messages are colored. Whole lines are written to it.
pub fn remarks() -> Box<dyn Write + Send> {
    if color::on_stderr() { Box::new(Painted) } else { Box::new(io::stderr()) }
}

struct Painted;

impl Write for Painted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let lines = messages::painted(&String::from_utf8_lossy(bytes));
        io::stderr().write_all(lines.as_bytes()).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
