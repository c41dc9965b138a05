//! The programs of servers, and where they are installed.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

const INSTALL: &str = "run ./test once, or: bash -c '. scripts/lib.sh; need_stores'";

/// A program to start on a port, with its files in a folder.
pub(super) struct StoreCommand {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<(&'static str, &'static str)>,
}

/// Returns the path of an installed program below the folder of the servers.
pub(crate) fn installed(path: &str) -> io::Result<PathBuf> {
    let folder = match (std::env::var_os("HAKOBU_STORES"), std::env::var_os("HOME")) {
        (Some(folder), _) => PathBuf::from(folder),
        (None, Some(home)) => PathBuf::from(home).join(".cache/hakobu-test-stores"),
        (None, None) => return Err(io::Error::other("HOME is not set")),
    };
    let program = folder.join(path);
    if program.exists() {
        return Ok(program);
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("{} is missing: {INSTALL}", program.display())))
}
