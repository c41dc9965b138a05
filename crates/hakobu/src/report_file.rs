//! The file of `--report`. It is opened before the run, so that a wrong name is reported at once, and written when
//! the run has ended.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::report::Report;
use hakobu_endpoints::block::inspect::{KernelDirectories, is_stray};
use hakobu_sys::standard::was_closed;

use crate::render::json;

/// The mark in the first bytes of every report.
const MARK: &[u8] = b"hakobu.report/";
/// The number of bytes of a file that are read to recognise it.
const HEAD_BYTES: u64 = 1024;

/// An opened report file.
#[derive(Debug)]
pub struct ReportFile {
    path: PathBuf,
    file: File,
    /// True if the report replaces the content of an existing file.
    replaces: bool,
}

impl ReportFile {
    /// Opens or creates the file. An earlier report stays until this run ends.
    ///
    /// # Errors
    /// As the system says, with the path.
    ///
    /// `-` is standard output.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if path == Path::new("-") {
            if was_closed(1) {
                let error = io::Error::other("standard output is closed");
                return Err(Self::error("opening the report", path, &error));
            }
            let file = std::io::stdout().as_fd().try_clone_to_owned().map(File::from);
            let file = file.map_err(|error| Self::error("opening the report", path, &error))?;
            return Ok(Self { path: path.to_owned(), file, replaces: false });
        }
        Self::check(path)?;
        let is_report = |head: &[u8]| head.windows(MARK.len()).any(|bytes| bytes == MARK);
        refuse_other(path, "a report", is_report)?;
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| Self::error("opening the report", path, &error))?;
        Ok(Self { path: path.to_owned(), file, replaces: true })
    }

    /// Returns true if this is the file at `path`, for example if the report would be written to the target of the copy.
    pub fn is(&self, path: &Path) -> bool {
        let is_file = |found: &Metadata| self.replaces && found.is_file();
        let own = self.file.metadata().ok().filter(is_file);
        let other = std::fs::metadata(path).ok();
        own.zip(other).is_some_and(|(own, other)| (own.dev(), own.ino()) == (other.dev(), other.ino()))
    }

    /// Removes the file if this run created it; an earlier report stays.
    pub fn forget(self) {
        if self.is(&self.path) && self.file.metadata().is_ok_and(|found| found.len() == 0) {
            // Nothing is lost with it, so it does not matter if that fails.
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Refuses a path at which a report would overwrite a disk, or become an ordinary file among the devices.
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
        if is_stray(&KernelDirectories::default(), path).unwrap_or(false) {
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
        if is_file && !self.is(&self.path) {
            return Err(io::Error::other("the run has put something else in its place, or removed it"));
        }
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

/// Refuses to overwrite a file of another kind, because a mistyped name may be that of a source. `is_own` recognises
/// the first bytes of the expected kind.
///
/// # Errors
/// `Refused`, or the file cannot be read.
pub fn refuse_other(path: &Path, own: &str, is_own: impl Fn(&[u8]) -> bool) -> Result<(), Error> {
    use std::os::unix::ffi::OsStrExt;
    const DURING: &str = "opening the report";
    // Writing to a device or a pipe, or creating a file, overwrites nothing.
    if !std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0) {
        return Ok(());
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.map_err(|error| ReportFile::error(DURING, path, &error))?;
    if is_own(&head) {
        return Ok(());
    }
    let words =
        format!("it holds something else than {own}, which would be lost; remove it, or name another file");
    Err(Error::new(ErrorKind::Refused, DURING, words).at(path.as_os_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use hakobu_core::report::REPORT_SCHEMA;

    use super::*;

    #[test]
    fn an_earlier_report_stays_until_the_next_one_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.json");
        let earlier = format!("{{\n  \"schema\": \"{REPORT_SCHEMA}\",{}", " ".repeat(100_000));
        std::fs::write(&path, &earlier).unwrap();
        let file = ReportFile::open(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), earlier);
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
        // A file that is no report is not overwritten.
        let other = directory.path().join("disk.img");
        std::fs::write(&other, "x".repeat(100_000)).unwrap();
        assert_eq!(ReportFile::open(&other).unwrap_err().kind, ErrorKind::Refused);
        assert_eq!(std::fs::metadata(&other).unwrap().len(), 100_000);
        // A report is not written where nobody finds it.
        let taken = directory.path().join("taken.json");
        let file = ReportFile::open(&taken).unwrap();
        assert!(file.is(&taken) && !file.is(&other));
        std::fs::rename(&other, &taken).unwrap();
        assert!(!file.is(&taken));
        assert!(file.write(&Report::default()).unwrap_err().detail.contains("in its place"));
        assert_eq!(std::fs::metadata(&taken).unwrap().len(), 100_000);
        let unused = directory.path().join("unused.json");
        ReportFile::open(&unused).unwrap().forget();
        assert!(!unused.exists());
    }
}
