//! The digest of one file or device: a copy to nowhere, on the machine where it is, so that nothing
//! but the digest travels.

use hakobu_core::digest::Algorithm;
use hakobu_core::entry::Kind;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::job::Mode;
use hakobu_core::landing::SourceFound;
use hakobu_core::location::Location;

use crate::request::{CopyRequest, Durable};

/// What is asked for when nothing but the place and the algorithm is given.
pub fn request(location: Location, algorithm: Algorithm) -> CopyRequest {
    CopyRequest {
        target: location.beside(b"/dev/null"),
        sources: vec![location],
        mode: Mode::Digest(algorithm),
        durable: Durable::None,
        ..CopyRequest::default()
    }
}

/// Refuses what has no content of its own.
pub(crate) fn check(sources: &[SourceFound<'_>]) -> Result<()> {
    for source in sources {
        let words = match source.kind {
            Kind::File | Kind::BlockDevice => continue,
            Kind::Directory => {
                "it is a directory; hakobu digest is for one file or disk in this version, trees come with a later \
                 one"
                .to_owned()
            }
            kind => format!("{} has no content of a known size", kind.words()),
        };
        let error = Error::new(ErrorKind::Usage, "taking the digest of", words);
        return Err(error.at(source.location.as_typed()));
    }
    Ok(())
}
