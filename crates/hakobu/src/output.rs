//! Standard output that may go away: a closed pipe is no reason to panic or to stop copying.

use std::io::{ErrorKind, Write};

use crate::exit;

/// Writes everything to standard output. A reader that has gone away is no failure.
pub fn print(bytes: &[u8]) -> u8 {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            crate::tell(&format!("hakobu: writing to standard output: {error}"));
            exit::FAILED
        }
        _ => 0,
    }
}
