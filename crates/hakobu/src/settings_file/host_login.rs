//! The login on one of several machines.

use std::ffi::OsString;
use std::path::PathBuf;

use super::keywords::Keyword;

/// The login on one of several machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLogin {
    /// The machine, as it was typed.
    pub host: String,
    /// The ssh to log in with.
    pub ssh: Option<OsString>,
    /// The hakobu there.
    pub agent: Option<PathBuf>,
    /// True if the agent runs under sudo.
    pub sudo: bool,
}

impl FileLogin {
    pub(super) fn take(&mut self, keyword: &Keyword, value: Option<&str>) {
        match keyword.name {
            "ssh" => self.ssh = value.map(OsString::from),
            "agent" => self.agent = value.map(PathBuf::from),
            "sudo" => self.sudo = value == Some("yes"),
            _ => {}
        }
    }
}
