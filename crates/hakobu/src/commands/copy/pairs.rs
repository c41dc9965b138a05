//! The file of `--pairs`: a source and a target on each line, quoted as for a shell where they hold
//! blanks. Empty lines and those that begin with `#` are left out.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::location::Location;

use hakobu_core::shell;

/// The most pairs of one run: each costs the target a descriptor.
const PAIRS_MAX: usize = 256;
/// The longest file.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Reads the pairs.
///
/// # Errors
/// Those of reading the file; `Usage`, with the line's number, for what is no pair.
pub fn read(file: &Path) -> Result<Vec<(Location, Location)>> {
    let place = file.as_os_str().as_bytes();
    let failed = |error: std::io::Error| Error::io("reading the pairs in", &error).at(place);
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).map_err(failed)?;
    opened.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    let pairs = parse(&bytes).map_err(|(line, words)| {
        let words = format!("line {line}: {words}");
        Error::new(ErrorKind::Usage, "reading the pairs in", words).at(place)
    })?;
    if pairs.is_empty() || pairs.len() > PAIRS_MAX {
        let words = format!("it has {} pairs; from 1 to {PAIRS_MAX} are possible", pairs.len());
        return Err(Error::new(ErrorKind::Usage, "reading the pairs in", words).at(place));
    }
    Ok(pairs)
}

type Wrong = (usize, String);

fn parse(bytes: &[u8]) -> std::result::Result<Vec<(Location, Location)>, Wrong> {
    let mut pairs = Vec::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let wrong = |words: String| (index + 1, words);
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let words = shell::split(OsStr::from_bytes(line)).map_err(|words| wrong(words.to_string()))?;
        let [source, target] = &words[..] else {
            return Err(wrong("must be a source and a target, and nothing else".to_owned()));
        };
        let location = |word: &OsStr| Location::parse(word.as_bytes()).map_err(|error| wrong(error.detail));
        pairs.push((location(source)?, location(target)?));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_pairs() {
        let pairs = parse(b"# disks\n/dev/sda host:/dev/sdb\n\n  'a b'\thost:'c d'\n").unwrap();
        let typed: Vec<_> = pairs.iter().map(|pair| (pair.0.as_typed(), pair.1.as_typed())).collect();
        assert_eq!(typed, [(&b"/dev/sda"[..], &b"host:/dev/sdb"[..]), (b"a b", b"host:c d")]);
    }

    #[test]
    fn what_is_no_pair_is_named_by_its_line() {
        for (bytes, line) in [(&b"a b\nc\n"[..], 2), (b"a b c", 1), (b"\n'a b", 2)] {
            assert_eq!(parse(bytes).unwrap_err().0, line, "{bytes:?}");
        }
    }
}
