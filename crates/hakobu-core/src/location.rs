//! Parsing of locations as typed by the user: on this machine, on another one, or in a store.
//!
//! A colon before the first slash makes a location remote, as with scp and rsync: `[user@]host:path`.
//! `ssh://[user@]host[:port]/path` means the same with a port, and `sftp://` selects the server's SFTP.
//! `scheme://name/path` is in a store, such as `s3://bucket/path` or `null://`. `host::module/path` and
//! `rsync://[user@]host[:port]/module/path` are on an rsync daemon. `./a:b` is a local name. Names are bytes and are
//! taken literally: nothing is decoded, expanded or normalised, except in `https://`, the other form of `az://`.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::path::lossy;
pub use crate::store_name::{STORE_SCHEMES, StoreName};
use crate::store_name::{has_keys, is_object_scheme, without_query};

/// The error for a password in a location.
const PASSWORD: &str =
    "a password is not taken on the command line: leave it out, and see --password-file, or let ssh ask";

/// Schemes that are recognised but not supported in this version.
const LATER_SCHEMES: [&str; 3] = ["hakobu", "nfs", "smb"];

/// The error for keys in the location of a store.
const KEYS: &str = "keys are not taken on the command line: write s3://BUCKET/PATH, and set AWS_ACCESS_KEY_ID and \
                    AWS_SECRET_ACCESS_KEY, or name a profile with --profile";

/// A location that the user specified.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    typed: Vec<u8>,
    place: LocationKind,
}

/// The kind of a [`Location`] with its host and path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LocationKind {
    /// A path on this machine; never empty.
    Local {
        /// The path as typed.
        path: Vec<u8>,
    },
    /// Standard input or output, typed `-`, or a descriptor of a process, typed as a path below `/dev` or `/proc`.
    Stream,
    /// A path on a host that is reached through ssh.
    Ssh {
        /// The host and the login name.
        host: SshHost,
        /// The path on that host, relative to the home directory unless it begins with a slash; never empty (`.` is the
        /// home directory).
        path: Vec<u8>,
    },
    /// A path in a store that this machine accesses directly.
    Store {
        /// The store.
        store: StoreName,
        /// The path in it, without a leading slash; empty for the whole store.
        path: Vec<u8>,
    },
    /// A path in a module of an rsync daemon.
    Rsync {
        /// The host and the user name at the module.
        host: SshHost,
        /// The module and the path in it: `module/path`, or `module/` for all of it.
        path: Vec<u8>,
    },
}

/// The host of a remote location, in ssh's terms.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SshHost {
    /// The login name, if one was typed. Never begins with `-`.
    pub user: Option<String>,
    /// A host name, an address without brackets, or an alias from ssh's configuration. Never begins with `-`, never
    /// empty.
    pub host: String,
    /// The port, if one was typed.
    pub port: Option<u16>,
}

impl Location {
    /// Parses what the user typed. A local path that is not empty and has no NUL is always accepted.
    ///
    /// # Errors
    /// `Usage`: empty, NUL, an invalid host, user or port, a password, or a scheme that this version does not support.
    pub fn parse(typed: &[u8]) -> Result<Self> {
        let (scheme, rest) = split_scheme(typed).unwrap_or_default();
        // A secret must not appear in the message either.
        if has_keys(&scheme, rest) {
            return Err(usage(KEYS));
        }
        if has_password(typed) {
            return Err(usage(PASSWORD));
        }
        let place = place_of(typed).map_err(|error| error.at(&*without_query(&scheme, typed)))?;
        Ok(Self { typed: typed.to_vec(), place })
    }

    /// Returns the location of a path on this machine, whatever its bytes.
    pub fn local(path: impl Into<Vec<u8>>) -> Self {
        let path = path.into();
        Self { typed: path.clone(), place: LocationKind::Local { path } }
    }

    /// Turns this into a stream: the path is that of a descriptor of a process.
    #[must_use]
    pub fn as_stream(self) -> Self {
        Self { place: LocationKind::Stream, ..self }
    }

    /// Returns the location of another, absolute path on the same host.
    #[must_use]
    pub fn beside(&self, path: &[u8]) -> Self {
        match &self.place {
            LocationKind::Local { .. } | LocationKind::Stream => Self::local(path),
            LocationKind::Ssh { host, .. } => {
                let place = LocationKind::Ssh { host: host.clone(), path: path.to_vec() };
                Self { typed: [host.destination().as_bytes(), b":", path].concat(), place }
            }
            LocationKind::Store { store, .. } => {
                let place = LocationKind::Store { store: store.clone(), path: path.to_vec() };
                Self { typed: store.location_of(path), place }
            }
            LocationKind::Rsync { host, .. } => {
                let place = LocationKind::Rsync { host: host.clone(), path: path.to_vec() };
                Self { typed: [host.destination().as_bytes(), b"::", path].concat(), place }
            }
        }
    }

    /// Returns the kind of location.
    pub fn place(&self) -> &LocationKind {
        &self.place
    }

    /// Returns the bytes that were typed.
    pub fn as_typed(&self) -> &[u8] {
        &self.typed
    }

    /// Returns the path on its host.
    pub fn path(&self) -> &[u8] {
        match &self.place {
            LocationKind::Local { path }
            | LocationKind::Ssh { path, .. }
            | LocationKind::Store { path, .. }
            | LocationKind::Rsync { path, .. } => path,
            LocationKind::Stream => b"-",
        }
    }

    /// Returns the store, if it is in one.
    pub fn store(&self) -> Option<&StoreName> {
        match &self.place {
            LocationKind::Store { store, .. } => Some(store),
            _ => None,
        }
    }

    /// Returns true if it is a path on this machine.
    pub fn is_local(&self) -> bool {
        matches!(self.place, LocationKind::Local { .. })
    }

    /// Returns the host that is reached through ssh, or `None` if it is this machine, a store or an rsync daemon.
    pub fn ssh_host(&self) -> Option<&SshHost> {
        match &self.place {
            LocationKind::Local { .. }
            | LocationKind::Stream
            | LocationKind::Store { .. }
            | LocationKind::Rsync { .. } => None,
            LocationKind::Ssh { host, .. } => Some(host),
        }
    }

    /// Returns true if it was typed as `sftp://`, which selects the server's SFTP instead of an agent.
    pub fn wants_sftp(&self) -> bool {
        matches!(self.place, LocationKind::Ssh { .. })
            && split_scheme(&self.typed).is_some_and(|(scheme, _)| scheme == "sftp")
    }

    /// Returns the host of the rsync daemon, if it is in a module of one.
    pub fn rsync_host(&self) -> Option<&SshHost> {
        match &self.place {
            LocationKind::Rsync { host, .. } => Some(host),
            _ => None,
        }
    }

    /// Returns true if it is standard input or output, or another descriptor of a process.
    pub fn is_stream(&self) -> bool {
        self.place == LocationKind::Stream
    }

    /// Returns true if the path ends in `/`, `/.` or `/..`, or is `.` or `..`: it can only be a directory.
    pub fn names_a_directory(&self) -> bool {
        matches!(self.last_part(), b"" | b"." | b"..")
    }

    /// Returns true if, as a source, it means the contents of a directory instead of the directory itself: it ends in
    /// `/`, `/.` or `/..`, or is `.` or `..`. A symbolic link there is followed.
    pub fn means_contents(&self) -> bool {
        self.names_a_directory()
    }

    /// Returns the last name, or `None` if there is none: `/`, `.`, `..`, `a/..`. Slashes and `/.` at the end are
    /// ignored.
    pub fn final_name(&self) -> Option<&[u8]> {
        let mut path = self.path();
        loop {
            match path.iter().rposition(|&byte| byte == b'/') {
                Some(slash) if matches!(&path[slash + 1..], b"" | b".") => path = &path[..slash],
                Some(slash) => return name_or_none(&path[slash + 1..]),
                None => return name_or_none(path),
            }
        }
    }

    /// Returns the path of the directory that holds the last name: `.` or the root if the path has one name only, and
    /// `None` if there is no last name.
    pub fn parent_path(&self) -> Option<Vec<u8>> {
        let name = self.final_name()?;
        let path = self.path();
        // The last name is a slice of the path, so pointers give its offset.
        let start = name.as_ptr() as usize - path.as_ptr() as usize;
        let parent = &path[..start];
        let kept = parent.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
        Some(match (kept, parent.first()) {
            (0, Some(_)) => b"/".to_vec(),
            (0, None) => b".".to_vec(),
            _ => parent[..kept].to_vec(),
        })
    }

    fn last_part(&self) -> &[u8] {
        self.path().rsplit(|&byte| byte == b'/').next().unwrap_or_default()
    }
}

impl Default for Location {
    /// The current directory.
    fn default() -> Self {
        Self::local(".")
    }
}

impl fmt::Display for Location {
    /// The typed form, with control characters escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&lossy(&self.typed))
    }
}

impl SshHost {
    /// Returns `user@host` or `host`, the form of ssh's command line (the port is separate).
    pub fn destination(&self) -> String {
        match &self.user {
            Some(user) => format!("{user}@{}", self.host),
            None => self.host.clone(),
        }
    }
}

impl fmt::Display for SshHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.destination())?;
        self.port.map_or(Ok(()), |port| write!(f, ", port {port}"))
    }
}

fn name_or_none(name: &[u8]) -> Option<&[u8]> {
    (!matches!(name, b"" | b"." | b"..")).then_some(name)
}

fn usage(detail: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, "reading the location", detail)
}

fn place_of(typed: &[u8]) -> Result<LocationKind> {
    if typed.is_empty() {
        return Err(usage("it is empty; the current directory is ."));
    }
    if typed.contains(&0) {
        return Err(usage("a NUL byte cannot be part of it"));
    }
    if typed == b"-" {
        return Ok(LocationKind::Stream);
    }
    if let Some((scheme, rest)) = split_scheme(typed) {
        return scheme_place(&scheme, rest);
    }
    match host_colon(typed)? {
        None => Ok(LocationKind::Local { path: typed.to_vec() }),
        Some(colon) => {
            let (login, path) = (&typed[..colon], &typed[colon + 1..]);
            if let Ok(scheme) = str::from_utf8(login)
                && is_object_scheme(scheme)
            {
                let words = format!(
                    "for a store write {scheme}://NAME/PATH, for a host of that name ssh://{scheme}/PATH"
                );
                return Err(usage(words));
            }
            let (user, host) = split_login(login)?;
            if let Some(module) = path.strip_prefix(b":") {
                return Ok(LocationKind::Rsync {
                    host: SshHost { user, host, port: None },
                    path: in_module(module)?,
                });
            }
            Ok(LocationKind::Ssh { host: SshHost { user, host, port: None }, path: home_path(path)? })
        }
    }
}

/// Returns `scheme` and what follows `://`, if the text begins like a URL.
fn split_scheme(typed: &[u8]) -> Option<(String, &[u8])> {
    let colon = typed.iter().position(|&byte| byte == b':')?;
    let rest = typed[colon..].strip_prefix(b"://")?;
    let scheme = std::str::from_utf8(&typed[..colon]).ok()?;
    let sound = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    (sound && scheme.starts_with(|first: char| first.is_ascii_alphabetic()))
        .then(|| (scheme.to_ascii_lowercase(), rest))
}

/// Returns true if a password was typed. It would be visible in the process list and in the shell's history.
fn has_password(typed: &[u8]) -> bool {
    let Some((_, rest)) = split_scheme(typed) else { return false };
    let authority = rest.split(|&byte| byte == b'/').next().unwrap_or_default();
    let login = authority.iter().rposition(|&byte| byte == b'@').map(|at| &authority[..at]);
    login.is_some_and(|login| login.contains(&b':'))
}

fn scheme_place(scheme: &str, rest: &[u8]) -> Result<LocationKind> {
    if scheme == "file" {
        return Err(usage("write a local path without file://"));
    }
    let in_store = match scheme {
        "https" => Some(StoreName::parse_https(rest)),
        _ if STORE_SCHEMES.contains(&scheme) => Some(StoreName::parse(scheme, rest)),
        _ => None,
    };
    if let Some(parsed) = in_store {
        let (store, path) = parsed.map_err(usage)?;
        return Ok(LocationKind::Store { store, path });
    }
    if LATER_SCHEMES.contains(&scheme) {
        return Err(usage(format!("{scheme}:// is not in this version; ssh://host/path is")));
    }
    if !matches!(scheme, "ssh" | "sftp" | "rsync") {
        return Err(usage(format!("{scheme}:// is not known; write host:path or ssh://host/path")));
    }
    let slash = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(slash);
    // In `user@[::1]:22` only a colon after the bracket starts a port.
    if authority.iter().filter(|&&byte| byte == b':').count() > 1 && !authority.contains(&b']') {
        return Err(usage("an IPv6 address is written in brackets: ssh://[::1]:22/path"));
    }
    let host_end = authority.iter().rposition(|&byte| byte == b']').unwrap_or(0);
    let (login, port) = match authority[host_end..].iter().position(|&byte| byte == b':') {
        None => (authority, None),
        Some(colon) => {
            let (login, port) = authority.split_at(host_end + colon);
            match &port[1..] {
                // rsync accepts `rsync://host:/module` for the default port.
                b"" if scheme == "rsync" => (login, None),
                port => (login, Some(parse_port(port)?)),
            }
        }
    };
    let (user, host) = split_login(login)?;
    if scheme == "rsync" {
        let path = in_module(path.strip_prefix(b"/").unwrap_or_default())?;
        return Ok(LocationKind::Rsync { host: SshHost { user, host, port }, path });
    }
    let path = match path {
        b"" => b".".to_vec(),
        [b'/', b'~', ..] => home_path(&path[1..])?,
        _ => path.to_vec(),
    };
    Ok(LocationKind::Ssh { host: SshHost { user, host, port }, path })
}

/// Checks a module and the path in it. A module alone means its contents, as with rsync.
fn in_module(path: &[u8]) -> Result<Vec<u8>> {
    let slash = path.iter().position(|&byte| byte == b'/');
    match slash.unwrap_or(path.len()) {
        0 => Err(usage("the module is missing: rsync://host/module/path or host::module/path")),
        _ if path.split(|&byte| byte == b'/').any(|name| name == b"..") => {
            Err(usage("a path in a module of an rsync daemon cannot hold .."))
        }
        _ if slash.is_none() => Ok([path, b"/"].concat()),
        _ => Ok(path.to_vec()),
    }
}

fn parse_port(port: &[u8]) -> Result<u16> {
    std::str::from_utf8(port)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse::<u16>().ok())
        .filter(|&port| port != 0)
        .ok_or_else(|| usage("the port must be a number from 1 to 65535"))
}

/// Returns the position of the colon that ends a host, if there is one before the first slash.
fn host_colon(typed: &[u8]) -> Result<Option<usize>> {
    let slash = typed.iter().position(|&byte| byte == b'/').unwrap_or(typed.len());
    let before_slash = &typed[..slash];
    let Some(first_colon) = before_slash.iter().position(|&byte| byte == b':') else {
        return Ok(None);
    };
    let Some(open) = before_slash[..first_colon].iter().position(|&byte| byte == b'[') else {
        return Ok(Some(first_colon));
    };
    if open != 0 && before_slash[open - 1] != b'@' {
        return Ok(Some(first_colon));
    }
    match before_slash.windows(2).position(|pair| pair == b"]:") {
        Some(close) => Ok(Some(close + 1)),
        None => Err(usage("an address in brackets is written [::1]:path; a local name ./[…")),
    }
}

/// Splits `user@host`, removes the brackets of an address, and checks both parts.
fn split_login(login: &[u8]) -> Result<(Option<String>, String)> {
    let (user, host) = match login.iter().rposition(|&byte| byte == b'@') {
        Some(at) => (Some(&login[..at]), &login[at + 1..]),
        None => (None, login),
    };
    let user = user.map(|user| checked_word(user, "user")).transpose()?;
    let bare = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]"));
    let host = checked_word(bare.unwrap_or(host), "host")?;
    if bare.is_some() && !is_address(&host) {
        return Err(usage("only an IPv6 address may stand in brackets"));
    }
    if bare.is_none() && host.contains(['[', ']', ':']) {
        return Err(usage("an IPv6 address is written in brackets: [::1]:path"));
    }
    Ok((user, host))
}

fn is_address(host: &str) -> bool {
    let address = host.split_once('%').map_or(host, |(address, _zone)| address);
    address.parse::<std::net::Ipv6Addr>().is_ok()
}

/// Checks that a user or host is safe to pass to ssh as an argument.
fn checked_word(word: &[u8], what: &str) -> Result<String> {
    if word.is_empty() {
        return Err(usage(format!("the {what} is missing; a local name with a colon is written ./a:b")));
    }
    if word[0] == b'-' {
        return Err(usage(format!("a {what} cannot begin with -")));
    }
    match std::str::from_utf8(word) {
        Ok(word) if !word.contains(|c: char| c.is_control() || c.is_whitespace()) => Ok(word.to_owned()),
        _ => Err(usage(format!(
            "a {what} cannot contain spaces, control characters or characters beyond ASCII; a local name with a \
             colon is written ./a:b"
        ))),
    }
}

/// Returns a path relative to the home directory, where `~` may stand for that.
fn home_path(path: &[u8]) -> Result<Vec<u8>> {
    let path = match path {
        b"~" => b"",
        [b'~', b'/', rest @ ..] => {
            // `~//x` is still below the home directory.
            let skip = rest.iter().take_while(|&&byte| byte == b'/').count();
            &rest[skip..]
        }
        [b'~', ..] => {
            return Err(usage("~NAME is not expanded; write the whole path, or ./~NAME for a file"));
        }
        _ => path,
    };
    Ok(if path.is_empty() { b".".to_vec() } else { path.to_vec() })
}

#[cfg(test)]
#[path = "location_tests.rs"]
mod tests;
