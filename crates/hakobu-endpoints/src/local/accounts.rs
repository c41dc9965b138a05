//! Names and IDs of users and groups on this machine.
//!
//! `getent` queries all name services of the machine, including network directories, which a program without the C
//! library's modules cannot do. If `getent` does not exist, the files in `/etc` are read.

use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use hakobu_core::entry::AccountId;
use hakobu_core::{Error, ErrorKind, Result};

/// The maximum length of an accepted name in bytes. Linux's own programs create none longer than 32.
const NAME_BYTES_MAX: usize = 256;

/// Returns the name of an account, or `None` if there is no such account.
///
/// # Errors
/// If the lookup fails, so that it is unknown whether the account exists.
pub(crate) fn name_of(account: AccountId) -> Result<Option<Vec<u8>>> {
    let number = account.number().to_string();
    let is_name = |(name, found): &(Vec<u8>, u32)| {
        *found == account.number() && !name.is_empty() && name.len() <= NAME_BYTES_MAX
    };
    Ok(look_up(account, number.as_bytes())?.filter(is_name).map(|(name, _)| name))
}

/// Returns the name of the user whom this process runs as, if it has one.
pub fn own_user_name() -> Option<Vec<u8>> {
    name_of(AccountId::User(rustix::process::getuid().as_raw())).ok().flatten()
}

/// Returns the ID of the user or group with this name. `of` selects users or groups.
///
/// # Errors
/// As for [`name_of`].
pub(crate) fn number_of(of: AccountId, name: &[u8]) -> Result<Option<u32>> {
    // A numeric name would be looked up as an ID.
    let plain = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with(b"-")
        && !name.iter().all(u8::is_ascii_digit)
        && !name.iter().any(|byte| matches!(byte, 0 | b':' | b'\n'));
    if !plain {
        return Ok(None);
    }
    Ok(look_up(of, name)?.filter(|(found, _)| found == name).map(|(_, number)| number))
}

/// Looks up the account with this name or number.
fn look_up(account: AccountId, key: &[u8]) -> Result<Option<(Vec<u8>, u32)>> {
    const DURING: &str = "looking up an owner";
    /// The exit status of `getent` if there is no such entry.
    const NONE: i32 = 2;
    let (base, file) = match account {
        AccountId::User(_) => ("passwd", "/etc/passwd"),
        AccountId::Group(_) => ("group", "/etc/group"),
    };
    let key = std::ffi::OsStr::from_bytes(key);
    let asked = Command::new("getent").arg(base).arg(key).stdin(Stdio::null()).stderr(Stdio::null()).output();
    match asked {
        Ok(output) if matches!(output.status.code(), Some(0 | NONE)) => {
            Ok(output.stdout.split(|byte| *byte == b'\n').find_map(entry))
        }
        Ok(output) => {
            let words = format!("getent {base} failed ({})", output.status);
            Err(Error::new(ErrorKind::Io, DURING, words))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let lines = match std::fs::read(file) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
                read => read.map_err(|error| Error::io(DURING, &error).at(file))?,
            };
            let is_it = |(name, number): &(Vec<u8>, u32)| {
                name == key.as_bytes() || number.to_string().as_bytes() == key.as_bytes()
            };
            Ok(lines.split(|byte| *byte == b'\n').filter_map(entry).find(is_it))
        }
        Err(error) => Err(Error::io(DURING, &error).at("getent")),
    }
}

/// Parses a line such as `name:x:1000:…`.
fn entry(line: &[u8]) -> Option<(Vec<u8>, u32)> {
    let mut fields = line.split(|byte| *byte == b':');
    let name = fields.next()?.to_vec();
    let number = std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok()?;
    Some((name, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_and_strange_names_are_not() {
        assert_eq!(name_of(AccountId::User(0)).unwrap().unwrap(), b"root");
        assert_eq!(number_of(AccountId::User(7), b"root"), Ok(Some(0)));
        assert_eq!(number_of(AccountId::Group(7), b"root"), Ok(Some(0)));
        for name in [&b""[..], b"0", b"-h", b"no such user here", b"root:x", b"\0"] {
            assert_eq!(number_of(AccountId::User(0), name), Ok(None), "{name:?}");
        }
        assert_eq!(name_of(AccountId::Group(4_000_000_000)), Ok(None));
    }

    #[test]
    fn lines_that_are_none_are_passed_over() {
        assert_eq!(entry(b"a:x:5:"), Some((b"a".to_vec(), 5)));
        for line in [&b""[..], b"a", b"a:x", b"a:x:y:", b"+::::::"] {
            assert_eq!(entry(line), None);
        }
    }
}
