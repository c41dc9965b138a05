//! Follows the end of a log.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use hakobu_core::error::Result;
use hakobu_transfer::jobs::JobFolder;

use crate::words;

/// The number of bytes that are read at once. A longer line is shown in pieces.
const PIECE_BYTES_MAX: u64 = 64 * 1024;

/// Reads a log from a position on. Lines are escaped, because they contain texts of other hosts.
#[derive(Debug)]
pub struct Tail {
    log: File,
    begun_line: Vec<u8>,
}

impl Tail {
    /// Starts at the end.
    ///
    /// # Errors
    /// The log cannot be opened.
    pub fn from_end(folder: &JobFolder) -> Result<Self> {
        Ok(Self { log: folder.read_log(0)?, begun_line: Vec::new() })
    }

    /// Starts within the last 64 KiB, at the beginning of a line.
    ///
    /// # Errors
    /// The log cannot be opened.
    pub fn from_last_lines(folder: &JobFolder) -> Result<Self> {
        let mut tail = Self { log: folder.read_log(PIECE_BYTES_MAX)?, begun_line: Vec::new() };
        let begins = tail.log.stream_position().unwrap_or(0);
        if begins > 0 {
            let mut piece = Vec::new();
            let _ = (&tail.log).take(PIECE_BYTES_MAX).read_to_end(&mut piece);
            let line = piece.iter().position(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
            let _ = tail.log.seek(SeekFrom::Start(begins + line as u64));
        }
        Ok(tail)
    }

    /// Returns the complete lines since the last call, without line ends.
    pub fn lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while matches!((&self.log).take(PIECE_BYTES_MAX).read_to_end(&mut self.begun_line), Ok(1..)) {
            let mut ends = self.begun_line.split(|&byte| byte == b'\n');
            let rest = ends.next_back().unwrap_or_default().len();
            lines.extend(ends.map(shown));
            self.begun_line.drain(..self.begun_line.len() - rest);
            if rest as u64 > PIECE_BYTES_MAX {
                lines.extend(self.rest());
            }
        }
        lines
    }

    /// Returns the incomplete last line.
    pub fn rest(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.begun_line);
        (!rest.is_empty()).then(|| shown(&rest))
    }
}

fn shown(line: &[u8]) -> String {
    words::escaped_lines(String::from_utf8_lossy(line).trim_end_matches('\r'))
}
