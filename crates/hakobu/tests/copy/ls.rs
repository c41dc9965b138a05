//! `hakobu ls`, here, over ssh and on an SFTP server.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use hakobu_testkit::sshd::no_root;
use serde_json::Value;

use crate::program::*;

fn ls(arguments: &[&OsStr], host: Option<&Host>) -> Output {
    let mut command = Command::new(HAKOBU);
    command.arg("ls").args(arguments).env_remove("HAKOBU_SSH").env("HAKOBU_SETTINGS", "none");
    command.env("LC_ALL", "C").env("TZ", "UTC");
    if let Some(host) = host {
        command.env("HAKOBU_SSH", host.sshd.ssh_command());
    }
    command.output().unwrap()
}

#[track_caller]
fn listed(arguments: &[&str], place: &OsStr, host: Option<&Host>) -> String {
    let words: Vec<_> = arguments.iter().map(OsStr::new).chain([place]).collect();
    let output = ls(&words, host);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && err.is_empty(), "{words:?}: {err}");
    String::from_utf8(output.stdout).unwrap()
}

/// Creates a directory with names of all kinds.
fn directory(at: &Path) {
    fs::create_dir_all(at.join("sub/inner")).unwrap();
    fs::write(at.join("sub-a"), "12345").unwrap();
    fs::write(at.join("sub/x"), "").unwrap();
    fs::write(at.join(OsStr::from_bytes(b"odd\n\xff")), "1").unwrap();
    symlink("sub", at.join("link")).unwrap();
    let file = fs::File::options().write(true).open(at.join("sub-a")).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o4750)).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_000_000_000_500)).unwrap();
}

#[test]
fn a_directory_is_listed_the_same_here_over_ssh_and_on_an_sftp_server() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let at = place.path().join("directory");
    directory(&at);
    let sftp = format!("sftp://throwaway{}", at.display());
    for (typed, host) in
        [(at.clone().into_os_string(), None), (host.at(&at), Some(&host)), (sftp.into(), Some(&host))]
    {
        assert_eq!(listed(&[], &typed, host), "link\nodd\\n\\xff\nsub-a\nsub/\n", "{typed:?}");
        let all = "link\nodd\\n\\xff\nsub-a\nsub/\nsub/inner/\nsub/x\n";
        assert_eq!(listed(&["-R"], &typed, host), all, "{typed:?}");
        let long = listed(&["-l"], &typed, host);
        let line = long.lines().find(|line| line.ends_with("  sub-a")).unwrap();
        let owner = if host.is_some() { "0  0 " } else { "root  root " };
        assert!(line.starts_with(&format!("-rwsr-x---  {owner} ")), "{long}");
        assert!(line.contains(" 5  2001-09-09 01:46:40  "), "{long}");

        let json = listed(&["-R", "--json"], &typed, host);
        let entries: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(entries.len(), 6);
        assert!(entries.iter().all(|entry| entry["schema"] == "hakobu.ls/1"), "{json}");
        let of = |path: &str| entries.iter().find(|entry| entry["path"] == path).unwrap().clone();
        let file = of("sub-a");
        assert_eq!(
            (&file["kind"], &file["size_bytes"], &file["mode"]),
            (&"file".into(), &5.into(), &"4750".into())
        );
        let whole_seconds = if host.is_some() { "2001-09-09T01:46:40Z" } else { "2001-09-09T01:46:40.5Z" };
        assert_eq!(file["modified"], whole_seconds);
        assert_eq!(file["owner"], if host.is_some() { Value::Null } else { "root".into() });
        assert_eq!(
            (of("link")["kind"].clone(), of("sub/inner")["kind"].clone()),
            ("symlink".into(), "directory".into())
        );
        assert_eq!(entries[1]["path_base64"], "b2RkCv8=", "{json}");
        // A single entry, and a link, which is followed because it is the location itself.
        let below = |name: &str| [typed.as_bytes(), b"/", name.as_bytes()].concat();
        assert_eq!(listed(&[], OsStr::from_bytes(&below("sub-a")), host), "sub-a\n");
        assert_eq!(listed(&[], OsStr::from_bytes(&below("link")), host), "inner/\nx\n");
    }
    // `sudo` and `agent` have no effect if they come from a settings file. A typed `--sudo` is refused.
    let settings = place.path().join("config.toml");
    fs::write(&settings, "sudo = true\nagent = \"/nowhere\"\n").unwrap();
    let named = ["--settings", settings.to_str().unwrap()];
    assert_eq!(listed(&named, &host.at(&at), Some(&host)), "link\nodd\\n\\xff\nsub-a\nsub/\n");
    for option in ["--sudo", "--agent=/nowhere"] {
        let refused = ls(&[OsStr::new(option), &host.at(&at)], Some(&host));
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("leave this option out"), "{refused:?}");
    }
    host.wait_for_no_agent();
}

#[test]
fn what_cannot_be_listed_is_told() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    for (typed, host) in [
        (place.path().join("nothing").into_os_string(), None),
        (host.at(place.path().join("nothing")), Some(&host)),
    ] {
        let output = ls(&[&typed], host);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]));
        assert!(err.contains("nothing: no such file or directory"), "{err}");
    }
    for wrong in ["-", "rsync://h/m/", "host::m/"] {
        assert_eq!(ls(&[OsStr::new(wrong)], None).status.code(), Some(2), "{wrong}");
    }
    // A directory that cannot be read does not hide the others.
    let at = place.path().join("directory");
    directory(&at);
    fs::set_permissions(at.join("sub/inner"), fs::Permissions::from_mode(0o000)).unwrap();
    let mut other = Command::new("setpriv");
    other.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ]);
    other.args([HAKOBU, "ls", "-R"]).arg(&at).env("HAKOBU_SETTINGS", "none").env("HOME", "/");
    let output = other.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{out}{err}");
    assert!(
        out.ends_with("sub/inner/\nsub/x\n") && err.contains("sub/inner: permission denied"),
        "{out}{err}"
    );
}
