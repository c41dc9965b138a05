//! What the user typed: a place on this machine or on another one.
//!
//! A colon before the first slash makes it remote, as with scp and rsync: `[user@]host:path`;
//! `ssh://[user@]host[:port]/path` says the same with a port, and `sftp://` that the server's SFTP is meant.
//! `scheme://name/path` is in a store, such as `null://`. `host::module/path` and `rsync://[user@]host[:port]/module/path` are of an rsync daemon. `./a:b` is a local name. Names are
//! bytes and are taken as they are: nothing is decoded, expanded or normalised.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::path::lossy;

/// Said of a password in a place.
const PASSWORD: &str =
    "a password is not taken on the command line: leave it out, and see --password-file, or let ssh ask";

/// Schemes of stores that this machine reaches by itself: `scheme://name/path`. Each has its line in `hakobu_endpoints::open`.
pub const STORE_SCHEMES: [&str; 2] = ["memory", "null"];

/// Schemes that are understood but served by a later version.
const LATER_SCHEMES: [&str; 6] = ["hakobu", "nfs", "smb", "s3", "az", "gs"];

/// A place that the user named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    typed: Vec<u8>,
    place: Place,
}

/// Where a [`Location`] is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Place {
    /// A path on this machine; never empty.
    Local {
        /// The path as typed.
        path: Vec<u8>,
    },
    /// Standard input or output, typed `-`, or a descriptor of a process, typed as it is found below `/dev` or `/proc`.
    Stream,
    /// A path on a machine that ssh reaches.
    Ssh {
        /// Which machine, and as whom.
        host: SshHost,
        /// The path over there, relative to the home directory unless it begins with a slash;
        /// never empty (`.` is the home directory).
        path: Vec<u8>,
    },
    /// A path in a store that this machine reaches by itself.
    Store {
        /// Which one.
        store: StoreName,
        /// The path in it, without a slash before it; empty for all of it.
        path: Vec<u8>,
    },
    /// A path in a module of an rsync daemon.
    Rsync {
        /// Which machine, and as which of the module's users.
        host: SshHost,
        /// The module, and what follows it: `module/path`, or `module/` for all of it.
        path: Vec<u8>,
    },
}

/// The machine of a remote location, in ssh's terms.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SshHost {
    /// The login name, if one was typed. Never begins with `-`.
    pub user: Option<String>,
    /// A host name, an address without brackets, or an alias of ssh's settings. Never begins
    /// with `-`, never empty.
    pub host: String,
    /// The port, if one was typed.
    pub port: Option<u16>,
}

/// A store of a location: `scheme://name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreName {
    /// What kind of store it is, in lower case.
    pub scheme: String,
    /// Which one of that kind.
    pub name: Vec<u8>,
}

impl StoreName {
    /// Returns the location of a path in it, as people type it.
    pub fn location_of(&self, path: &[u8]) -> Vec<u8> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let slash: &[u8] = if path.is_empty() { b"" } else { b"/" };
        [self.scheme.as_bytes(), b"://", &self.name, slash, path].concat()
    }
}

impl Location {
    /// Reads what the user typed. Never fails on a local path that is not empty and has no NUL.
    ///
    /// # Errors
    /// `Usage`: empty, NUL, an unsound host, user or port, or a scheme that this version lacks.
    pub fn parse(typed: &[u8]) -> Result<Self> {
        if has_password(typed) {
            // It is not shown either.
            return Err(usage(PASSWORD));
        }
        let place = place_of(typed).map_err(|error| error.at(typed))?;
        Ok(Self { typed: typed.to_vec(), place })
    }

    /// A path on this machine, whatever bytes are in it.
    pub fn local(path: impl Into<Vec<u8>>) -> Self {
        let path = path.into();
        Self { typed: path.clone(), place: Place::Local { path } }
    }

    /// The same as a stream: the path is that of a descriptor of a process.
    #[must_use]
    pub fn as_stream(self) -> Self {
        Self { place: Place::Stream, ..self }
    }

    /// Another path on the same machine, absolute.
    #[must_use]
    pub fn beside(&self, path: &[u8]) -> Self {
        match &self.place {
            Place::Local { .. } | Place::Stream => Self::local(path),
            Place::Ssh { host, .. } => {
                let place = Place::Ssh { host: host.clone(), path: path.to_vec() };
                Self { typed: [host.destination().as_bytes(), b":", path].concat(), place }
            }
            Place::Store { store, .. } => {
                let place = Place::Store { store: store.clone(), path: path.to_vec() };
                Self { typed: store.location_of(path), place }
            }
            Place::Rsync { host, .. } => {
                let place = Place::Rsync { host: host.clone(), path: path.to_vec() };
                Self { typed: [host.destination().as_bytes(), b"::", path].concat(), place }
            }
        }
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The bytes that were typed.
    pub fn as_typed(&self) -> &[u8] {
        &self.typed
    }

    /// The path, on whichever machine it is.
    pub fn path(&self) -> &[u8] {
        match &self.place {
            Place::Local { path }
            | Place::Ssh { path, .. }
            | Place::Store { path, .. }
            | Place::Rsync { path, .. } => path,
            Place::Stream => b"-",
        }
    }

    /// The store, if it is in one.
    pub fn store(&self) -> Option<&StoreName> {
        match &self.place {
            Place::Store { store, .. } => Some(store),
            _ => None,
        }
    }

    /// Whether it is a path on this machine.
    pub fn is_local(&self) -> bool {
        matches!(self.place, Place::Local { .. })
    }

    /// The machine that ssh reaches, or `None` when it is this one or an rsync daemon's.
    pub fn ssh_host(&self) -> Option<&SshHost> {
        match &self.place {
            Place::Local { .. } | Place::Stream | Place::Store { .. } | Place::Rsync { .. } => None,
            Place::Ssh { host, .. } => Some(host),
        }
    }

    /// Whether it was typed as `sftp://`: the server's SFTP is meant, and no agent.
    pub fn wants_sftp(&self) -> bool {
        matches!(self.place, Place::Ssh { .. })
            && split_scheme(&self.typed).is_some_and(|(scheme, _)| scheme == "sftp")
    }

    /// The machine of the rsync daemon, if it is in a module of one.
    pub fn rsync_host(&self) -> Option<&SshHost> {
        match &self.place {
            Place::Rsync { host, .. } => Some(host),
            _ => None,
        }
    }

    /// Whether it is standard input or output, or another descriptor of a process.
    pub fn is_stream(&self) -> bool {
        self.place == Place::Stream
    }

    /// Whether the path ends in `/`, `/.` or is `.`: it can only be a directory.
    pub fn names_a_directory(&self) -> bool {
        matches!(self.last_part(), b"" | b"." | b"..")
    }

    /// Whether, as a source, it stands for the contents of a directory and not for the directory:
    /// it ends in `/`, `/.` or `/..`, or is `.` or `..`. A link there is followed.
    pub fn means_contents(&self) -> bool {
        self.names_a_directory()
    }

    /// The last name, or `None` where there is none: `/`, `.`, `..`, `a/..`. Slashes and `/.` at
    /// the end do not count.
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

    /// The path of the directory that holds the last name: `.` or the root where the path has one
    /// name only, and `None` where there is no last name.
    pub fn parent_path(&self) -> Option<Vec<u8>> {
        let name = self.final_name()?;
        let path = self.path();
        // The last name is a slice of the path, so its place there is known.
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
    /// `user@host` or `host`, as ssh takes it on its command line (the port is separate).
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

fn place_of(typed: &[u8]) -> Result<Place> {
    if typed.is_empty() {
        return Err(usage("it is empty; the current directory is ."));
    }
    if typed.contains(&0) {
        return Err(usage("a NUL byte cannot be part of it"));
    }
    if typed == b"-" {
        return Ok(Place::Stream);
    }
    if let Some((scheme, rest)) = split_scheme(typed) {
        return scheme_place(&scheme, rest);
    }
    match host_colon(typed)? {
        None => Ok(Place::Local { path: typed.to_vec() }),
        Some(colon) => {
            let (login, path) = (&typed[..colon], &typed[colon + 1..]);
            let (user, host) = split_login(login)?;
            if let Some(module) = path.strip_prefix(b":") {
                return Ok(Place::Rsync {
                    host: SshHost { user, host, port: None },
                    path: in_module(module)?,
                });
            }
            Ok(Place::Ssh { host: SshHost { user, host, port: None }, path: home_path(path)? })
        }
    }
}

/// `scheme` and what follows `://`, where the text begins like a URL.
fn split_scheme(typed: &[u8]) -> Option<(String, &[u8])> {
    let colon = typed.iter().position(|&byte| byte == b':')?;
    let rest = typed[colon..].strip_prefix(b"://")?;
    let scheme = std::str::from_utf8(&typed[..colon]).ok()?;
    let sound = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    (sound && scheme.starts_with(|first: char| first.is_ascii_alphabetic()))
        .then(|| (scheme.to_ascii_lowercase(), rest))
}

/// Returns true if a password was typed. It would be in the list of processes and in the history of the shell.
fn has_password(typed: &[u8]) -> bool {
    let Some((_, rest)) = split_scheme(typed) else { return false };
    let authority = rest.split(|&byte| byte == b'/').next().unwrap_or_default();
    let login = authority.iter().rposition(|&byte| byte == b'@').map(|at| &authority[..at]);
    login.is_some_and(|login| login.contains(&b':'))
}

fn scheme_place(scheme: &str, rest: &[u8]) -> Result<Place> {
    if scheme == "file" {
        return Err(usage("write a local path without file://"));
    }
    if STORE_SCHEMES.contains(&scheme) {
        let slash = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
        let (name, path) = rest.split_at(slash);
        let store = StoreName { scheme: scheme.to_owned(), name: name.to_vec() };
        return Ok(Place::Store { store, path: path.strip_prefix(b"/").unwrap_or(path).to_vec() });
    }
    if LATER_SCHEMES.contains(&scheme) {
        return Err(usage(format!("{scheme}:// is not in this version; ssh://host/path is")));
    }
    if !matches!(scheme, "ssh" | "sftp" | "rsync") {
        return Err(usage(format!("{scheme}:// is not known; write host:path or ssh://host/path")));
    }
    let slash = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(slash);
    // In `user@[::1]:22` only a colon after the bracket leads to a port.
    if authority.iter().filter(|&&byte| byte == b':').count() > 1 && !authority.contains(&b']') {
        return Err(usage("an IPv6 address is written in brackets: ssh://[::1]:22/path"));
    }
    let host_end = authority.iter().rposition(|&byte| byte == b']').unwrap_or(0);
    let (login, port) = match authority[host_end..].iter().position(|&byte| byte == b':') {
        None => (authority, None),
        Some(colon) => {
            let (login, port) = authority.split_at(host_end + colon);
            match &port[1..] {
                // rsync takes `rsync://host:/module` for the usual port.
                b"" if scheme == "rsync" => (login, None),
                port => (login, Some(parse_port(port)?)),
            }
        }
    };
    let (user, host) = split_login(login)?;
    if scheme == "rsync" {
        let path = in_module(path.strip_prefix(b"/").unwrap_or_default())?;
        return Ok(Place::Rsync { host: SshHost { user, host, port }, path });
    }
    let path = match path {
        b"" => b".".to_vec(),
        [b'/', b'~', ..] => home_path(&path[1..])?,
        _ => path.to_vec(),
    };
    Ok(Place::Ssh { host: SshHost { user, host, port }, path })
}

/// A module with the path in it. A module alone stands for its contents, as it does for rsync.
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

/// Where the colon is that ends a host, if there is one before the first slash.
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

/// `user@host` with the address' brackets taken off, both checked.
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

/// A user or host that is safe to hand to ssh as an argument.
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
            "a {what} has no blanks, control or foreign characters; a local name with a colon is \
             written ./a:b"
        ))),
    }
}

/// A path relative to the home directory, where `~` may be typed for it.
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
