//! Warnings about colons that are missing or unintended: `peer` is a local file, `a:b` a path on the host `a`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hakobu_core::location::Location;
use hakobu_core::path::lossy;

use super::arguments::CopyArguments;
use crate::ssh_hosts;

/// Returns warnings about the locations, for the user to see before the copy starts.
pub(super) fn warnings(typed: &CopyArguments) -> Vec<String> {
    let places = typed.sources.iter().chain(&typed.target);
    places.filter_map(|place| warning(place, ssh_hosts::is_configured)).collect()
}

fn warning(place: &OsStr, is_configured: impl Fn(&str) -> bool) -> Option<String> {
    let bytes = place.as_bytes();
    let exists = Path::new(place).symlink_metadata().is_ok();
    let shown = lossy(bytes);
    if exists {
        let location =
            Location::parse(bytes).ok().filter(|_| !bytes.windows(3).any(|part| part == b"://"))?;
        let host = location.ssh_host()?.destination();
        return Some(format!("{shown} is a path on the host {host}; for the local file write ./{shown}"));
    }
    let name =
        place.to_str().filter(|name| !name.contains(['/', ':']) && !name.starts_with(['.', '-', '@']))?;
    let (user, host) = name.split_once('@').map_or((None, name), |(user, host)| (Some(user), host));
    let is_host = !host.is_empty() && (user.is_some_and(|user| !user.is_empty()) || is_configured(host));
    is_host.then(|| format!("{shown} is a local path; for the host write {shown}:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts_and_of_files_are_told_apart() {
        let of = |place: &str| warning(OsStr::new(place), |host| host == "peer");
        for place in ["peer", "me@peer", "me@other.example"] {
            assert!(of(place).is_some_and(|words| words.ends_with(&format!("write {place}:"))), "{place}");
        }
        for place in
            ["other", "./peer", "peer:", "peer:/x", "a/me@peer", "ssh://peer/x", "-", "@x", "me@", "/"]
        {
            assert_eq!(of(place), None, "{place}");
        }
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("peer");
        std::fs::write(&file, "").unwrap();
        assert_eq!(warning(file.as_os_str(), |_| true), None);
    }
}
