//! The file of `--files-from`: a list of paths.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::path::EntryPath;

/// The maximum length of the file. The paths are sent to the other host in one message.
const FILE_BYTES_MAX: u64 = 12 << 20;

/// Returns the paths in a file, or in standard input for `-`. They are relative to the source even if they begin with
/// a slash. They are separated by NULs if there is one, otherwise by line ends.
///
/// # Errors
/// `Usage`, with the line number, for a path that is not below the source and for a file that is too long; the file
/// cannot be read.
pub fn read(file: &Path) -> Result<Vec<Vec<u8>>, Error> {
    let failed = |error| Error::io("reading the list of files", &error).at(file.as_os_str().as_bytes());
    let mut content = Vec::new();
    let limit = FILE_BYTES_MAX + 1;
    match file == Path::new("-") {
        true => std::io::stdin().take(limit).read_to_end(&mut content).map_err(failed)?,
        false => File::open(file).map_err(failed)?.take(limit).read_to_end(&mut content).map_err(failed)?,
    };
    let wrong = |words: String| Error::new(ErrorKind::Usage, "option", words).at("--files-from");
    if content.len() as u64 > FILE_BYTES_MAX {
        return Err(wrong(format!("the file is longer than {FILE_BYTES_MAX} bytes; use several runs")));
    }
    let end = if content.contains(&0) { 0 } else { b'\n' };
    let mut paths = Vec::new();
    for (number, line) in content.split(|byte| *byte == end).enumerate() {
        let line = if end == b'\n' { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
        let path = bare(line);
        if path.is_empty() {
            continue;
        }
        let path =
            EntryPath::new(path).map_err(|error| wrong(format!("line {}: {}", number + 1, error.detail)))?;
        paths.push(path.as_bytes().to_vec());
    }
    if paths.is_empty() {
        return Err(wrong("the file contains no path".to_owned()));
    }
    Ok(paths)
}

/// Returns a path without slashes at its ends, repeated slashes and single dots.
fn bare(line: &[u8]) -> Vec<u8> {
    let names = line.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    names.collect::<Vec<_>>().join(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(content: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("list");
        std::fs::write(&file, content).unwrap();
        read(&file)
    }

    #[test]
    fn paths_are_relative_to_the_source_whatever_they_begin_with() {
        let read = written(b"a/b\n./c//d/\n\n/e f\r\n").unwrap();
        assert_eq!(read, [&b"a/b"[..], b"c/d", b"e f"]);
        assert_eq!(written(b"a\nb\0c\0").unwrap(), [&b"a\nb"[..], b"c"]);
    }

    #[test]
    fn what_leaves_the_source_is_refused_with_its_line() {
        let error = written(b"a\nb/../../c\n").unwrap_err();
        assert!(error.detail.contains("line 2"), "{error}");
        assert!(written(b"\n").is_err());
    }
}
