//! The remote endpoint, as rsync's arguments name it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::location::{Location, LocationKind, SshHost};

/// The bytes that a remote rsync would interpret as a pattern.
const WILD: &[u8] = b"*?[\\";

/// A remote endpoint.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    host: SshHost,
    /// The path: `module/path`.
    pub path: Vec<u8>,
}

impl Remote {
    /// Returns the remote endpoint of a location.
    ///
    /// # Errors
    /// `Usage` if the location is not remote, or a remote rsync would interpret its path as a pattern.
    pub fn of(location: &Location) -> Result<Self> {
        let LocationKind::Rsync { host, path } = location.place() else {
            return Err(Error::new(ErrorKind::Usage, "looking at the locations", "it is no rsync daemon"));
        };
        if path.iter().any(|byte| WILD.contains(byte)) {
            let words = "rsync would take *, ?, [ and \\ in it for a pattern; name the directory above, and --include";
            return Err(Error::new(ErrorKind::Usage, "reading the location", words).at(location.as_typed()));
        }
        Ok(Self { host: host.clone(), path: path.clone() })
    }

    /// Returns the daemon's host.
    pub fn host(&self) -> &SshHost {
        &self.host
    }

    /// Returns true if the path is a module itself.
    pub fn is_module(&self) -> bool {
        !self.path.trim_suffix_slashes().contains(&b'/')
    }

    /// Returns rsync's argument for a path there.
    pub fn argument(&self, path: &[u8]) -> OsString {
        let host = match self.host.host.contains(':') {
            true => format!("[{}]", self.host.host),
            false => self.host.host.clone(),
        };
        let login = self.host.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        let port = self.host.port.map(|port| format!(":{port}")).unwrap_or_default();
        let mut argument = format!("rsync://{login}{host}{port}/").into_bytes();
        argument.extend_from_slice(path);
        OsString::from_vec(argument)
    }

    /// Returns the name of a path there, for people.
    pub fn name_of(&self, path: &[u8]) -> Vec<u8> {
        let argument = self.argument(path).into_vec();
        if path.ends_with(b"/") && path.len() > 1 {
            argument[..argument.len() - 1].to_vec()
        } else {
            argument
        }
    }

    /// Returns the name of the endpoint, for people.
    pub fn name(&self) -> Vec<u8> {
        self.name_of(&self.path)
    }

    /// Returns the user there, if one was given.
    pub fn user(&self) -> Option<&str> {
        self.host.user.as_deref()
    }

    /// Returns the description of what asks for a password, for people.
    pub fn asks(&self) -> String {
        let module = self.path.split(|byte| *byte == b'/').next().unwrap_or_default();
        let user = self.host.user.as_ref().map(|user| format!("{user} in ")).unwrap_or_default();
        format!("{user}module {} of {}", String::from_utf8_lossy(module), self.host.host)
    }
}

/// Returns a path with a name below it.
pub(super) fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match (directory, name) {
        (directory, b"") => directory.to_vec(),
        (b"", name) => name.to_vec(),
        (directory, name) if directory.ends_with(b"/") => [directory, name].concat(),
        (directory, name) => [directory, b"/", name].concat(),
    }
}

/// Returns a path with a slash at the end, so that it names a directory.
pub(super) fn as_directory(path: &[u8]) -> Vec<u8> {
    if path.ends_with(b"/") { path.to_vec() } else { [path, b"/"].concat() }
}

trait TrimSlashes {
    fn trim_suffix_slashes(&self) -> &[u8];
}

impl TrimSlashes for Vec<u8> {
    fn trim_suffix_slashes(&self) -> &[u8] {
        let kept = self.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        &self[..kept]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(typed: &str) -> Remote {
        Remote::of(&Location::parse(typed.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn rsync_is_told_the_same_place() {
        for (typed, argument) in [
            ("rsync://h/m", "rsync://h/m/"),
            ("rsync://u@h:8730/m/a b", "rsync://u@h:8730/m/a b"),
            ("rsync://[::1]:1/m/x/", "rsync://[::1]:1/m/x/"),
            ("h::m/x", "rsync://h/m/x"),
        ] {
            let remote = remote(typed);
            assert_eq!(remote.argument(&remote.path), argument, "{typed}");
        }
        assert!(remote("h::m").is_module() && remote("h::m/").is_module() && !remote("h::m/x").is_module());
        assert!(Remote::of(&Location::parse(b"h::m/a*").unwrap()).is_err());
        assert!(Remote::of(&Location::local("/x")).is_err());
        assert!(Remote::of(&Location::parse(b"h:/x").unwrap()).is_err());
    }
}
