//! Files with secrets, which others must not be able to read.

use std::path::Path;

/// The variable by which systemd names the folder of the credentials of a unit.
const CREDENTIALS_VARIABLE: &str = "CREDENTIALS_DIRECTORY";

/// Returns true if others than the owner of a file may use it, by its mode.
///
/// Credentials that systemd passes (`LoadCredential=`) belong to root, and an access control list lets the user of the unit read
/// them. The bits of the group are then those of the list: nobody of the group may read.
pub(crate) fn is_open_to_others(path: &Path, mode: u32) -> bool {
    let folder = std::env::var_os(CREDENTIALS_VARIABLE);
    is_open_beside(path, mode, folder.as_deref().map(Path::new))
}

fn is_open_beside(path: &Path, mode: u32, credentials: Option<&Path>) -> bool {
    let is_passed = credentials.is_some_and(|folder| folder.is_absolute() && path.parent() == Some(folder));
    let allowed = if is_passed { 0o040 } else { 0 };
    mode & 0o077 & !allowed != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_may_read_credentials_of_systemd_alone() {
        let (key, folder) =
            (Path::new("/run/credentials/x.service/key"), Path::new("/run/credentials/x.service"));
        for (mode, alone, passed) in
            [(0o600, false, false), (0o440, true, false), (0o460, true, true), (0o444, true, true)]
        {
            assert_eq!(is_open_beside(key, mode, None), alone, "{mode:o}");
            assert_eq!(is_open_beside(key, mode, Some(folder)), passed, "{mode:o}");
            assert_eq!(is_open_beside(key, mode, Some(Path::new("/run/credentials"))), alone, "{mode:o}");
        }
        assert!(is_open_beside(Path::new("key"), 0o440, Some(Path::new(""))));
    }
}
