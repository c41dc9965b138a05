//! The hosts that ssh knows by name: those of its settings files and of `known_hosts`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::settings_file::host_settings::matches;

/// The most bytes of a file that are read.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// The most files that are read: each may include others.
const FILES_MAX: usize = 256;

/// Returns the hosts that ssh knows by name, for this user. Files that cannot be read have none.
pub fn known() -> BTreeSet<String> {
    let home = std::env::home_dir().map(|home| home.join(".ssh"));
    let system = Path::new("/etc/ssh");
    let mut hosts = configured_in(home.as_deref(), system);
    let lists = home.iter().flat_map(|home| [home.join("known_hosts"), home.join("known_hosts2")]);
    for list in lists.chain([system.join("ssh_known_hosts")]) {
        hosts.extend(hosts_of_list(&read(&list)));
    }
    hosts
}

/// Returns true if ssh's settings files of this user name the host.
pub fn is_configured(host: &str) -> bool {
    let home = std::env::home_dir().map(|home| home.join(".ssh"));
    configured_in(home.as_deref(), Path::new("/etc/ssh")).contains(host)
}

fn configured_in(home: Option<&Path>, system: &Path) -> BTreeSet<String> {
    let mut hosts = BTreeSet::new();
    let mut files: Vec<(PathBuf, &Path)> = vec![(system.join("ssh_config"), system)];
    files.extend(home.map(|home| (home.join("config"), home)));
    let mut read_files = 0;
    while let Some((file, directory)) = files.pop()
        && read_files < FILES_MAX
    {
        read_files += 1;
        let (named, included) = hosts_of_config(&read(&file));
        hosts.extend(named);
        files.extend(
            included.iter().flat_map(|pattern| matching(directory, pattern)).map(|file| (file, directory)),
        );
    }
    hosts
}

fn read(file: &Path) -> String {
    let mut bytes = Vec::new();
    let is_read = File::open(file).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)).is_ok();
    if is_read { String::from_utf8_lossy(&bytes).into_owned() } else { String::new() }
}

/// The hosts that a settings file names without a pattern, and the files that it includes.
fn hosts_of_config(text: &str) -> (Vec<String>, Vec<String>) {
    let (mut hosts, mut included) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let mut words = line.split(|letter: char| letter.is_ascii_whitespace() || letter == '=');
        let mut words = words.by_ref().filter(|word| !word.is_empty()).map(|word| word.trim_matches('"'));
        let keyword = words.next().unwrap_or_default();
        if keyword.eq_ignore_ascii_case("host") {
            hosts.extend(words.filter(|name| is_name(name)).map(str::to_owned));
        } else if keyword.eq_ignore_ascii_case("include") {
            included.extend(words.map(str::to_owned));
        }
    }
    (hosts, included)
}

/// The hosts of a list of known keys, but for those that are hashed or have a port.
fn hosts_of_list(text: &str) -> Vec<String> {
    let hosts = text.lines().filter(|line| !line.starts_with(['#', '|', '@'])).flat_map(|line| {
        let names = line.split_ascii_whitespace().next().unwrap_or_default();
        names.split(',')
    });
    hosts.filter(|name| is_name(name)).map(str::to_owned).collect()
}

/// Returns true for a name that can be typed as a host: no pattern, no address with colons, nothing that a terminal or a
/// shell would take for something else.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty() && !name.starts_with('-') && name.bytes().all(is_plain)
}

/// The files that match a pattern, with stars in its last name only.
fn matching(directory: &Path, pattern: &str) -> Vec<PathBuf> {
    let pattern = match (pattern.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => directory.join(pattern),
    };
    let (Some(above), Some(name)) = (pattern.parent(), pattern.file_name().and_then(|name| name.to_str()))
    else {
        return Vec::new();
    };
    if !name.contains(['*', '?']) {
        return vec![pattern];
    }
    let entries = std::fs::read_dir(above).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            entry.file_name().to_str().is_some_and(|found| matches(name.as_bytes(), found.as_bytes()))
        })
        .map(|entry| entry.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_hosts_and_include_files() {
        let place = tempfile::tempdir().unwrap();
        let (home, system) = (place.path().join("home"), place.path().join("system"));
        for directory in [&home.join("more"), &system] {
            std::fs::create_dir_all(directory).unwrap();
        }
        let config = "Host one two *.example !three\n  hostname elsewhere\nInclude more/*.conf\nhost=four\nHost \"five\" -x a$b\n";
        std::fs::write(home.join("config"), config).unwrap();
        std::fs::write(home.join("more/a.conf"), "Host six\nInclude ../config\n").unwrap();
        std::fs::write(home.join("more/b.txt"), "Host seven\n").unwrap();
        std::fs::write(system.join("ssh_config"), "Host eight\n").unwrap();
        let found = configured_in(Some(&home), &system);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["eight", "five", "four", "one", "six", "two"]);
    }

    #[test]
    fn lists_of_keys_name_hosts_unless_they_are_hashed() {
        let list = "# a\nnas,10.0.0.7 ssh-ed25519 AAAA\n|1|aGFzaA==|aGFzaA= ssh-rsa AAAA\n[gate]:2222 ssh-rsa A\n@revoked * x\nfe80::1 x\n";
        assert_eq!(hosts_of_list(list), ["nas", "10.0.0.7"]);
    }
}
