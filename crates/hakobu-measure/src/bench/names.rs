//! The files, ports and programs that scripts on the host may name.

use super::login::ReverseLogin;

/// A file, as a command line names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// Its path.
    pub path: String,
    /// The path of its directory.
    pub directory: String,
    /// Its name.
    pub name: String,
}

impl NamedFile {
    /// Returns the file at a plain path.
    #[must_use]
    pub fn at(path: &str) -> Self {
        let (directory, name) = path.rsplit_once('/').unwrap_or((".", path));
        Self { path: path.to_owned(), directory: directory.to_owned(), name: name.to_owned() }
    }

    /// Returns the file whose path is in a shell variable.
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

/// The name of the program on the host if it could not be placed there: whichever is in PATH.
pub const NOT_PLACED: &str = "hakobu";

/// The names that scripts on the host may use. All of them are plain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptNames {
    /// The file to send from this machine, as the host's login back names it.
    pub near_source: NamedFile,
    /// The path where a file arrives on this machine.
    pub near_target: NamedFile,
    /// The file to send from the host.
    pub far_source: NamedFile,
    /// The path where a file arrives on the host.
    pub far_target: NamedFile,
    /// The free port on the host, for methods with their own connection.
    pub port: u16,
    /// The address at which the host reaches this machine, and the free port here, for methods where this machine
    /// listens.
    pub near_port: Option<(String, u16)>,
    /// The login from the host to this machine, if it works.
    pub back: Option<ReverseLogin>,
    /// The `hakobu` program on the host.
    pub far_hakobu: String,
    /// The `hakobu` program on this machine, as the host starts it.
    pub near_hakobu: String,
    /// The path of the report of a hakobu that is started on the host.
    pub far_report: Option<String>,
}
