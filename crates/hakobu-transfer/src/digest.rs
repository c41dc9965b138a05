//! Computes the digest of one file or device, or of each file of a tree. This is a copy that stores nothing, on the
//! host that has the data, so that only digests are transferred.

use hakobu_core::digest::Algorithm;
use hakobu_core::entry::EntryKind;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::job::Mode;
use hakobu_core::landing::SourceFound;
use hakobu_core::location::Location;

use hakobu_core::request::{CopyRequest, Durability};

/// Returns the request for a location and an algorithm, with defaults for everything else.
pub fn request(location: Location, algorithm: Algorithm) -> CopyRequest {
    CopyRequest {
        target: location.beside(b"/dev/null"),
        sources: vec![location],
        mode: Mode::Digest(algorithm),
        durable: Durability::None,
        ..CopyRequest::default()
    }
}

/// Refuses sources without content of a known size, and trees unless the algorithm is BLAKE3.
pub fn check(sources: &[SourceFound<'_>], algorithm: Algorithm) -> Result<()> {
    for source in sources {
        let words = match source.kind {
            EntryKind::File | EntryKind::BlockDevice => continue,
            EntryKind::Directory if algorithm == Algorithm::Blake3 => continue,
            EntryKind::Directory => "the digest of a tree is BLAKE3; leave out --algorithm".to_owned(),
            kind => format!("{} has no content of a known size", kind.words()),
        };
        let error = Error::new(ErrorKind::Usage, "taking the digest of", words);
        return Err(error.at(source.location.as_typed()));
    }
    Ok(())
}
