//! Generates the data that is sent.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::case::DataKind;
use crate::generate::{self, FileSpec, SeededText, available_threads};

/// The size of each write in bytes.
const WRITE_BYTES: usize = 1 << 20;
/// The period of the generated text in bytes. It is larger than the default window of any of the compressors.
const TEXT_BYTES: usize = 16 << 20;
/// The amount of text that is compressed with gzip, in bytes.
const GZIPPED_TEXT_BYTES: usize = 48 << 20;

/// Writes a new file with this content and size.
///
/// # Errors
/// System errors; `NotFound` if gzip is needed and not installed.
pub fn write(path: &Path, content: DataKind, size_bytes: u64) -> io::Result<()> {
    if path.exists() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let written = match content {
        DataKind::Random => {
            let spec = FileSpec { size_bytes, seed: 1, compressibility: 0.0, threads: available_threads() };
            generate::file(path, spec).map_err(|error| io::Error::other(error.to_string()))
        }
        DataKind::Text => repeat(path, &text(TEXT_BYTES.min(size_bytes as usize)), size_bytes),
        DataKind::Zeros => repeat(path, &vec![0; WRITE_BYTES], size_bytes),
        DataKind::Gzipped => {
            let wanted = GZIPPED_TEXT_BYTES.min((size_bytes as usize).saturating_mul(8).max(1 << 16));
            gzipped(&text(wanted)).and_then(|bytes| repeat(path, &bytes, size_bytes))
        }
    };
    if written.is_err() {
        // The first error is the relevant one.
        let _ = fs::remove_file(path);
    }
    written
}

/// Writes a file of one byte.
///
/// # Errors
/// System errors.
pub fn write_least(path: &Path) -> io::Result<()> {
    fs::write(path, b"x")
}

fn repeat(path: &Path, piece: &[u8], size_bytes: u64) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    let mut left = size_bytes;
    while left > 0 {
        for part in piece.chunks(WRITE_BYTES) {
            let length = part.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            file.write_all(&part[..length])?;
            left -= length as u64;
        }
    }
    Ok(())
}

fn gzipped(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut command = Command::new("gzip");
    command.arg("-1").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let input = child.stdin.take();
    let fed = std::thread::scope(|scope| {
        let feeder = scope.spawn(move || input.map_or(Ok(()), |mut input| input.write_all(text)));
        let output = child.wait_with_output();
        feeder.join().map_err(|_| io::Error::other("the feeder ended"))??;
        output
    })?;
    match fed.status.success() && !fed.stdout.is_empty() {
        true => Ok(fed.stdout),
        false => Err(io::Error::other("gzip failed")),
    }
}

/// Returns reproducible text.
fn text(length: usize) -> Vec<u8> {
    let mut text = vec![0; length];
    SeededText::new(1).fill(0, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_content_has_its_size_and_shrinks_as_it_should() {
        let place = tempfile::tempdir().unwrap();
        let size = 3_000_001;
        for (content, least, most) in [
            (DataKind::Random, 0.99, 1.1),
            (DataKind::Text, 0.35, 0.65),
            (DataKind::Zeros, 0.0, 0.01),
            (DataKind::Gzipped, 0.97, 1.1),
        ] {
            let path = place.path().join(format!("{content:?}"));
            write(&path, content, size).unwrap();
            let bytes = fs::read(&path).unwrap();
            assert_eq!(bytes.len() as u64, size);
            let share = gzipped(&bytes).unwrap().len() as f64 / size as f64;
            assert!((least..most).contains(&share), "{content:?} shrinks to {share}");
            let blocks = std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&path).unwrap());
            assert!(blocks * 512 >= size, "{content:?} has holes");
            assert!(write(&path, DataKind::Zeros, 1).is_err(), "what is there stays");
        }
    }
}
