//! What scripts on the host may name: files, ports and programs.

use super::login::Back;

/// A file, as a command line names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// Its path.
    pub path: String,
    /// That of its directory.
    pub directory: String,
    /// Its name.
    pub name: String,
}

impl Spot {
    /// The file at a plain path.
    #[must_use]
    pub fn at(path: &str) -> Self {
        let (directory, name) = path.rsplit_once('/').unwrap_or((".", path));
        Self { path: path.to_owned(), directory: directory.to_owned(), name: name.to_owned() }
    }

    /// The file whose path is in a variable of a shell.
    pub(super) fn in_variable(name: &str) -> Self {
        Self {
            path: format!("${name}"),
            directory: format!("${{{name}%/*}}"),
            name: format!("${{{name}##*/}}"),
        }
    }

    pub(super) fn nothing() -> Self {
        Self::at("/dev/null")
    }
}

/// The program over there where it could not be placed: whatever is on the PATH.
pub const NOT_PLACED: &str = "hakobu";

/// What scripts on the host may name. All of it is plain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Of this machine: the file to send, as the host's login back names it.
    pub near_source: Spot,
    /// Where one is to arrive here.
    pub near_target: Spot,
    /// The file to send on the host.
    pub far_source: Spot,
    /// Where one is to arrive there.
    pub far_target: Spot,
    /// The free port over there, for ways that have a connection of their own.
    pub port: u16,
    /// How the host reaches this machine, where that listens, and the free port here.
    pub near_port: Option<(String, u16)>,
    /// How the host logs in to this machine, if it does.
    pub back: Option<Back>,
    /// The program `hakobu` over there.
    pub far_hakobu: String,
    /// The same here, as the host is to start it.
    pub near_hakobu: String,
    /// Where a hakobu that is started there writes its report.
    pub far_report: Option<String>,
}
