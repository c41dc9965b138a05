//! Standard output that may go away: a closed pipe is no reason to panic or to stop copying.

use std::io::{self, ErrorKind, Write};

use hakobu_sys::standard::was_closed;

use crate::exit;

/// Standard output as a place to write to, which fails where it was closed when the program began: the runtime has put
/// something else in its place, where everything would be lost.
pub fn results() -> Box<dyn Write + Send> {
    if was_closed(1) { Box::new(Closed) } else { Box::new(io::stdout()) }
}

struct Closed;

impl Write for Closed {
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
        crate::tell("hakobu: writing to standard output: it is closed");
        return exit::FAILED;
    }
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            crate::tell(&format!("hakobu: writing to standard output: {error}"));
            exit::FAILED
        }
        _ => 0,
    }
}
