//! Where `--report` goes: opened before the run, so that a wrong name is not found out hours
//! later, and filled when the run has ended.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::report::Report;
use hakobu_endpoints::block::inspect::{Places, is_stray};

use crate::render::json;

/// An opened report file.
#[derive(Debug)]
pub struct ReportFile {
    path: PathBuf,
    file: File,
    /// Whether it takes the place of what the file held.
    replaces: bool,
}

impl ReportFile {
    /// Opens or creates the file. What an earlier run wrote stays until this one ends.
    ///
    /// # Errors
    /// As the system says, with the path.
    ///
    /// `-` is standard output.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if path == Path::new("-") {
            let file = std::io::stdout().as_fd().try_clone_to_owned().map(File::from);
            let file = file.map_err(|error| Self::error("opening the report", path, &error))?;
            return Ok(Self { path: path.to_owned(), file, replaces: false });
        }
        Self::check(path)?;
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| Self::error("opening the report", path, &error))?;
        Ok(Self { path: path.to_owned(), file, replaces: true })
    }

    /// A report never goes onto a disk, nor among the devices under a mistyped name.
    ///
    /// # Errors
    /// `Refused`.
    pub fn check(path: &Path) -> Result<(), Error> {
        use std::os::unix::ffi::OsStrExt;
        use std::os::unix::fs::FileTypeExt;
        let refused = |words: &str| {
            Err(Error::new(ErrorKind::Refused, "opening the report", words).at(path.as_os_str().as_bytes()))
        };
        if std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device()) {
            return refused("it is a disk, and a report would overwrite it; name a file");
        }
        if is_stray(&Places::default(), path).unwrap_or(false) {
            return refused("it is among the devices, but no device; name a file in another directory");
        }
        Ok(())
    }

    /// Writes the report and brings it to stable storage.
    ///
    /// # Errors
    /// As the system says, with the path.
    pub fn write(mut self, report: &Report) -> Result<(), Error> {
        self.fill(report).map_err(|error| Self::error("writing the report", &self.path, &error))
    }

    fn fill(&mut self, report: &Report) -> io::Result<()> {
        let text = json::pretty(report)?;
        let is_file = self.replaces && self.file.metadata()?.is_file();
        if is_file {
            self.file.set_len(0)?;
        }
        self.file.write_all(text.as_bytes())?;
        if is_file { self.file.sync_all() } else { Ok(()) }
    }

    fn error(during: &'static str, path: &Path, error: &io::Error) -> Error {
        use std::os::unix::ffi::OsStrExt;
        Error::io(during, error).at(path.as_os_str().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_report_stays_until_the_next_one_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.json");
        std::fs::write(&path, "x".repeat(100_000)).unwrap();
        let file = ReportFile::open(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 100_000);
        let report = Report { user: "a\u{9b}b".into(), ..Report::default() };
        file.write(&report).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains('\u{9b}') && text.ends_with("}\n"));
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
        assert!(ReportFile::open(&directory.path().join("no/such")).is_err());
        let among_devices = ReportFile::open(Path::new("/dev/hakobu-typo.json")).unwrap_err();
        assert_eq!(among_devices.kind, ErrorKind::Refused);
        assert!(!Path::new("/dev/hakobu-typo.json").exists());
        assert!(ReportFile::open(Path::new("/dev/null")).is_ok());
    }
}
