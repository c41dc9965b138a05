//! Writes a page to a file, which gets its name when it is complete.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::path::draft_name;
use rustix::fs::FileType;

use super::html;
use crate::report_file::{ReportFile, refuse_other};

const WRITING: &str = "writing to";

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportFormat {
    /// A page of HTML, which takes the place of another one of ours, and of nothing else.
    Html,
    /// Text.
    Other,
}

/// Refuses to overwrite a file that is not ours.
fn check(path: &Path, form: ReportFormat) -> Result<()> {
    ReportFile::check(path)?;
    let is_page =
        |head: &[u8]| head.windows(html::POLICY.len()).any(|bytes| bytes == html::POLICY.as_bytes());
    match form {
        ReportFormat::Html => refuse_other(path, "a page that was written by hakobu", is_page),
        ReportFormat::Other => Ok(()),
    }
}

/// Writes a file in place of an existing one. `source` is the report that the page was made from, which stays.
///
/// # Errors
/// `Refused` where it would overwrite the report or a disk, else as the system says.
pub fn write(path: &Path, source: Option<&Path>, (form, content): (ReportFormat, &[u8])) -> Result<()> {
    check(path, form)?;
    let written = match rustix::fs::stat(path) {
        Ok(found) if source.is_some_and(|source| is_same(&found, source)) => {
            Err(Error::new(ErrorKind::Refused, WRITING, "it is the report itself; name another file"))
        }
        // A pipe or a terminal is written to directly; it must not be replaced by a file.
        Ok(found)
            if !matches!(
                FileType::from_raw_mode(found.st_mode),
                FileType::RegularFile | FileType::Directory
            ) =>
        {
            let opened = OpenOptions::new().write(true).open(path);
            opened.and_then(|mut file| file.write_all(content)).map_err(|error| Error::io(WRITING, &error))
        }
        _ => replace(path, content).map_err(|error| Error::io(WRITING, &error)),
    };
    written.map_err(|error| error.at(path.as_os_str().as_bytes()))
}

/// Finds out beforehand whether [`write`] can; leaves nothing behind.
///
/// # Errors
/// As [`write`].
pub fn try_out(path: &Path, form: ReportFormat) -> Result<()> {
    check(path, form)?;
    let is_replaced = |found: rustix::fs::Stat| {
        matches!(FileType::from_raw_mode(found.st_mode), FileType::RegularFile | FileType::Directory)
    };
    if !rustix::fs::stat(path).map_or(true, is_replaced) {
        return Ok(());
    }
    let tried = place_and_draft(path).and_then(|(place, draft)| {
        fill(&draft, &place, b"")?;
        fs::remove_file(&draft)
    });
    tried.map_err(|error| Error::io(WRITING, &error).at(path.as_os_str().as_bytes()))
}

fn is_same(found: &rustix::fs::Stat, source: &Path) -> bool {
    rustix::fs::stat(source)
        .is_ok_and(|source| (source.st_dev, source.st_ino) == (found.st_dev, found.st_ino))
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let (place, draft) = place_and_draft(path)?;
    let written = fill(&draft, &place, content).and_then(|()| fs::rename(&draft, &place));
    if written.is_err() {
        // The draft is ours; the existing file is unchanged.
        let _ = fs::remove_file(&draft);
    }
    written
}

/// Returns the path to replace and that of a draft beside it. A link is kept: its target is replaced.
fn place_and_draft(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if place.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    let directory = place.parent().filter(|parent| !parent.as_os_str().is_empty());
    let name = draft_name(format!("report{}", std::process::id()).as_bytes());
    let draft = directory.unwrap_or_else(|| Path::new(".")).join(OsString::from_vec(name));
    Ok((place, draft))
}

fn fill(draft: &Path, place: &Path, content: &[u8]) -> io::Result<()> {
    // A killed process with this number may have left a draft.
    match fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file: File = OpenOptions::new().write(true).create_new(true).open(draft)?;
    if let Ok(found) = fs::metadata(place) {
        file.set_permissions(found.permissions())?;
    }
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_the_report_never() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("report"), "{}").unwrap();
        write(&at("page"), Some(&at("report")), (ReportFormat::Other, b"one")).unwrap();
        fs::set_permissions(at("page"), fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("page", at("link")).unwrap();
        write(&at("link"), Some(&at("report")), (ReportFormat::Other, b"two")).unwrap();
        assert_eq!(fs::read(at("page")).unwrap(), b"two");
        assert_eq!(fs::metadata(at("page")).unwrap().permissions().mode() & 0o777, 0o640);
        fs::hard_link(at("report"), at("same")).unwrap();
        assert_eq!(
            write(&at("same"), Some(&at("report")), (ReportFormat::Other, b"x")).unwrap_err().kind,
            ErrorKind::Refused
        );
        for (name, can) in [("page", true), ("new", true), ("no/such", false), ("", false)] {
            assert_eq!(try_out(&at(name), ReportFormat::Other).is_ok(), can, "{name}");
        }
        assert_eq!(fs::read(at("page")).unwrap(), b"two");
        assert!(
            try_out(Path::new("/dev/null"), ReportFormat::Html).is_ok()
                && try_out(Path::new("/dev/hakobu-typo"), ReportFormat::Html).is_err()
        );
        assert!(write(directory.path(), Some(&at("report")), (ReportFormat::Other, b"x")).is_err());
        assert!(write(&at("no/such"), Some(&at("report")), (ReportFormat::Other, b"x")).is_err());
        assert!(write(Path::new("/dev/null"), Some(&at("report")), (ReportFormat::Other, b"x")).is_ok());
        let odd = write(Path::new("/dev/hakobu-typo.html"), Some(&at("report")), (ReportFormat::Other, b"x"))
            .unwrap_err();
        assert_eq!(odd.kind, ErrorKind::Refused);
        // A page replaces a page, and nothing else that somebody may need.
        for (before, kind) in
            [("<!DOCTYPE html>\n<p>mine", Some(ErrorKind::Refused)), ("", None), (html::POLICY, None)]
        {
            fs::write(at("page"), before).unwrap();
            assert_eq!(
                try_out(&at("page"), ReportFormat::Html).err().map(|error| error.kind),
                kind,
                "{before}"
            );
            let written = write(&at("page"), None, (ReportFormat::Html, b"x"));
            assert_eq!(written.err().map(|error| error.kind), kind, "{before}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4, "no draft stays");
    }
}
