//! Standard input as a source, standard output as a target.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use hakobu_core::entry::Kind;
use hakobu_core::error::{Error, Result};
use hakobu_core::landing::{Ancestry, TargetFound};
use hakobu_core::location::Location;
use hakobu_core::path::EntryPath;
use hakobu_proto::control::{SourceLook, TargetLook};

use crate::request::CopyRequest;

/// What people are told instead of a path.
pub(crate) const INPUT_NAME: &[u8] = b"standard input";
pub(crate) const OUTPUT_NAME: &[u8] = b"standard output";

/// Where this process's descriptors are listed: a directory in which nobody can make a file, not
/// even an engine that lies.
const DIRECTORY: &[u8] = b"/proc/self/fd";

/// Which ends of a copy are streams of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// The source is its standard input.
    pub input: bool,
    /// The target may be its standard output.
    pub output: bool,
}

impl Streams {
    /// Those of a request.
    pub(crate) fn of(request: &CopyRequest) -> Self {
        Self { input: request.sources.iter().any(Location::is_stream), output: request.target.is_stream() }
    }
}

/// What standard input is, as a source.
pub(crate) fn look_at_input() -> Result<SourceLook> {
    Ok(SourceLook {
        kind: Kind::Fifo,
        size_bytes: 0,
        device: None,
        image: None,
        network: false,
        written_sectors: None,
        // It may come from a file, but what is read of that is not looked up again.
        ancestry: Ancestry { exists: false, upwards: Vec::new() },
        root: DIRECTORY.to_vec(),
        // What failures name.
        entry: EntryPath::new(INPUT_NAME.to_vec())?,
        resolved: INPUT_NAME.to_vec(),
    })
}

/// What standard output is, as a target.
pub(crate) fn look_at_output() -> TargetLook {
    TargetLook {
        found: TargetFound::Stream,
        resolved: OUTPUT_NAME.to_vec(),
        parent: DIRECTORY.to_vec(),
        name: b"1".to_vec(),
        device: None,
        unfinished: None,
        stray: false,
        network: false,
    }
}

/// This process's standard input.
pub(crate) fn stdin() -> Result<OwnedFd> {
    let error = |error: io::Error| Error::io("opening standard input", &error);
    io::stdin().as_fd().try_clone_to_owned().map_err(error)
}

/// This process's standard output.
pub(crate) fn stdout() -> Result<OwnedFd> {
    let error = |error: io::Error| Error::io("opening standard output", &error);
    io::stdout().as_fd().try_clone_to_owned().map_err(error)
}
