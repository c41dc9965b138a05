//! The file of `--log-file`: one line with the time for each change, failure and note, appended while the run goes on.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::event::Event;
use hakobu_core::path::lossy;
use hakobu_core::report::{Report, ReportDifference};
use hakobu_endpoints::block::inspect::{KernelDirectories, is_stray};

use crate::clock::now;
use crate::language::Language;
use crate::render::change_line;
use crate::render::summary;
use crate::words;

/// The step in errors.
const WRITING: &str = "writing the log";

/// An opened log file. Each line is one write, so that the lines of several runs do not mix and none is lost if the program
/// is killed.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    /// The first reason why a line could not be written.
    failed: Mutex<Option<io::Error>>,
}

impl LogFile {
    /// Opens or creates the file.
    ///
    /// # Errors
    /// `Refused` for a disk and for a mistyped name among the devices; others as the system says, with the path.
    pub fn open(path: &Path) -> Result<Self, Error> {
        const DURING: &str = "opening the log";
        let at = |error: Error| error.at(path.as_os_str().as_bytes());
        let refused = |words: &str| Err(at(Error::new(ErrorKind::Refused, DURING, words)));
        if std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device()) {
            return refused("it is a disk, and a log would overwrite it; name a file");
        }
        if is_stray(&KernelDirectories::default(), path).unwrap_or(false) {
            return refused("it is among the devices, but no device; name a file in another directory");
        }
        let file = OpenOptions::new().append(true).create(true).open(path);
        let file = file.map_err(|error| at(Error::io(DURING, &error)))?;
        Ok(Self { path: path.to_owned(), file, failed: Mutex::default() })
    }

    /// Returns true if a path leads to this very file.
    pub fn is(&self, path: &Path) -> bool {
        let own = self.file.metadata().ok().filter(std::fs::Metadata::is_file);
        let other = std::fs::metadata(path).ok();
        own.zip(other).is_some_and(|(own, other)| (own.dev(), own.ino()) == (other.dev(), other.ino()))
    }

    /// Writes that both ends are known.
    pub fn started<S: AsRef<[u8]>>(&self, sources: &[S], target: &[u8]) {
        let sources: Vec<_> = sources.iter().map(|source| lossy(source.as_ref())).collect();
        self.line("started", &format!("{} to {}", sources.join(", "), lossy(target)));
    }

    /// Writes an event, if it is one for the log.
    pub fn event(&self, event: &Event) {
        match event {
            Event::Changed(change) => self.write(&change_line(change)),
            Event::Failure(failure) => {
                let line = words::failure(&failure.path, &failure.error, Language::En);
                self.line("failed", line.strip_prefix("failed: ").unwrap_or(&line));
            }
            Event::Difference(difference) => {
                self.line(
                    "difference",
                    &summary::difference_words(&ReportDifference::from(difference), Language::En),
                );
            }
            Event::Notice { words } => self.line("note", &lossy(words.as_bytes())),
            _ => {}
        }
    }

    /// Writes how the run ended. `after`: the errors since then, such as of writing the report.
    pub fn finished(&self, report: &Report, after: &[Error]) {
        let of_run = report.error.iter().map(|error| error.error.clone());
        for words in of_run.chain(after.iter().map(Error::to_string)) {
            self.line("error", &lossy(words.as_bytes()));
        }
        let outcome = summary::words_of(report.outcome);
        let counts = summary::entries(report, Language::En);
        self.line("finished", &format!("{outcome}, exit code {}: {counts}", report.exit_code));
    }

    /// Brings the log to stable storage.
    ///
    /// # Errors
    /// The first reason why a line could not be written, or that the file is not at its path any more.
    pub fn end(&self) -> Result<(), Error> {
        let failed = |error: &io::Error| Err(Error::io(WRITING, error).at(self.path.as_os_str().as_bytes()));
        if let Some(error) = &*self.failed.lock().unwrap_or_else(PoisonError::into_inner) {
            return failed(error);
        }
        if !self.file.metadata().is_ok_and(|found| found.is_file()) {
            return Ok(());
        }
        if !self.is(&self.path) {
            return failed(&io::Error::other("the run has put something else in its place, or removed it"));
        }
        self.file.sync_all().or_else(|error| failed(&error))
    }

    fn line(&self, word: &str, text: &str) {
        self.write(&format!("{word:<10} {text}"));
    }

    fn write(&self, line: &str) {
        if let Err(error) = (&self.file).write_all(format!("{} {line}\n", now()).as_bytes()) {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use hakobu_core::event::{EntryAction, EntryChange};

    use super::*;

    fn change(path: &[u8]) -> Event {
        let path = path.to_vec();
        Event::Changed(EntryChange { action: EntryAction::Delete, path, size_bytes: 0 })
    }

    #[test]
    fn lines_are_appended_with_the_time_and_harmless_names() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, "before\n").unwrap();
        for _ in 0..2 {
            let log = LogFile::open(&path).unwrap();
            log.event(&change(b"a\n\x1b\xff"));
            log.end().unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (3, "before"));
        for line in &lines[1..] {
            let (time, rest) = line.split_once(' ').unwrap();
            assert!(time.parse::<jiff::Timestamp>().is_ok(), "{line}");
            assert_eq!(rest, "delete     a\\n\\u{1b}\\xff");
        }
    }

    #[test]
    fn a_line_that_cannot_be_written_and_a_file_that_is_gone_are_errors() {
        let full = LogFile::open(Path::new("/dev/full")).unwrap();
        full.end().unwrap();
        full.event(&change(b"a"));
        assert_eq!(full.end().unwrap_err().kind, ErrorKind::NoSpace);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let log = LogFile::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(log.end().unwrap_err().detail.contains("in its place"));
        assert_eq!(LogFile::open(Path::new("/dev/hakobu-typo.log")).unwrap_err().kind, ErrorKind::Refused);
        assert!(!Path::new("/dev/hakobu-typo.log").exists());
    }
}
