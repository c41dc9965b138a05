//! `hakobu digest` prints what `b3sum` and `sha256sum` print.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use hakobu_testkit::devices::LoopDevice;

use crate::program::*;

fn digest<S: AsRef<OsStr>>(host: Option<&Host>, arguments: &[S]) -> Output {
    let mut command = Command::new(HAKOBU);
    command
        .arg("digest")
        .args(arguments)
        .env_remove("HAKOBU_SSH")
        .env("HAKOBU_SETTINGS", "none")
        .stdin(Stdio::null());
    if let Some(host) = host {
        command.env("HAKOBU_SSH", host.sshd.ssh_command());
    }
    command.output().unwrap()
}

/// Returns the output of a successful run.
#[track_caller]
fn said<S: AsRef<OsStr>>(host: Option<&Host>, arguments: &[S]) -> String {
    let output = digest(host, arguments);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*err), (Some(0), ""));
    String::from_utf8(output.stdout).unwrap()
}

pub fn blake3_of(path: &Path) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path).unwrap()).unwrap();
    hasher.finalize().to_hex().to_string()
}

/// Returns the output of the usual tool.
fn sha256sum(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn sizes_around_every_edge_give_what_others_print() {
    let place = place();
    for size in [0, 1, 262_143, 262_144, 262_145, 4_194_304, 4_194_305, 20_000_001] {
        let path = file(&place.path().join(size.to_string()), size);
        assert_eq!(said(None, &[&path]), format!("{}  {}\n", blake3_of(&path), path.display()));
        let sha256 = [OsStr::new("--algorithm=sha256"), path.as_os_str()];
        assert_eq!(said(None, &sha256), sha256sum(&path));
    }
}

/// A copy takes no digest of a file with such holes.
#[test]
fn holes_are_part_of_it_and_links_are_followed() {
    let place = place();
    let path = place.path().join("sparse");
    let sparse = File::create(&path).unwrap();
    sparse.set_len((1 << 30) + (9 << 20) + 5).unwrap();
    sparse.write_all_at(b"behind more than a GiB", (1 << 30) + (8 << 20)).unwrap();
    let link = place.path().join("a link\nwith a line end");
    symlink("sparse", &link).unwrap();
    let name = link.to_str().unwrap().replace('\n', "\\n");
    assert_eq!(said(None, &[&link]), format!("\\{}  {name}\n", blake3_of(&path)));
    let sha256 = said(None, &[OsStr::new("--algorithm=sha256"), path.as_os_str()]);
    assert_eq!(sha256, sha256sum(&path));
}

#[test]
fn a_host_reads_what_it_has() {
    let (place, host) = (place(), Host::up());
    let path = file(&place.path().join("file"), 30_000_003);
    let typed = host.at(&path);
    let named = |digest: &str| format!("{digest}  {}\n", path.display());
    assert_eq!(said(Some(&host), &[&typed]), named(&blake3_of(&path)));
    let sha256 = said(Some(&host), &[OsStr::new("--algorithm=sha256"), &typed]);
    assert_eq!(sha256, named(sha256sum(&path).split(' ').next().unwrap()));
    // `sha256sum --check` on the host accepts the output.
    let list = place.path().join("list");
    fs::write(&list, &sha256).unwrap();
    assert!(Command::new("sha256sum").args(["--check", "--quiet"]).arg(&list).status().unwrap().success());
    let object: serde_json::Value =
        serde_json::from_str(&said(Some(&host), &[OsStr::new("--json"), &typed])).unwrap();
    assert_eq!(object["schema"], "hakobu.digest/1");
    assert_eq!(object["path"], typed.to_str().unwrap());
    assert_eq!((&object["digest"], &object["size_bytes"]), (&blake3_of(&path).into(), &30_000_003.into()));
    host.wait_for_no_agent();
}

#[test]
fn this_process_takes_the_digest_that_was_asked_for() {
    let (place, host) = (place(), Host::up());
    for size in [5, 400_000, 9_000_001] {
        let path = file(&place.path().join(size.to_string()), size);
        let typed = OsString::from(format!("sftp://throwaway{}", path.display()));
        let digest_of = |words: &[&OsStr]| {
            let output = digest(Some(&host), words);
            assert_eq!(output.status.code(), Some(0));
            String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
        };
        assert_eq!(digest_of(&[&typed]), blake3_of(&path));
        let sha256 = digest_of(&[OsStr::new("--algorithm=sha256"), &typed]);
        assert_eq!(sha256, sha256sum(&path).split(' ').next().unwrap());
    }
}

#[test]
fn a_disk_has_one_by_any_of_its_names() {
    let (place, host) = (place(), Host::up());
    let device = LoopDevice::new(70_000_128 / 512 * 512).unwrap();
    let content = fs::read(file(&place.path().join("content"), 50_000_000)).unwrap();
    File::options().write(true).open(device.path()).unwrap().write_all_at(&content, 1 << 20).unwrap();
    let link = place.path().join("by-name");
    symlink(device.path(), &link).unwrap();
    let expected = blake3_of(device.path());
    for (typed, host) in [
        (device.path().to_path_buf().into_os_string(), None),
        (link.clone().into_os_string(), None),
        (host.at(&link), Some(&host)),
    ] {
        assert!(said(host, &[&typed]).starts_with(&format!("{expected}  ")), "{typed:?}");
    }
    let sha256 = said(None, &[OsStr::new("--algorithm=sha256"), device.path().as_os_str()]);
    assert_eq!(sha256, sha256sum(device.path()));
    // As for a copy, a link to a device stands for the device.
    let image = place.path().join("image");
    Copy::new().arg(&link).arg(&image).run_to(0);
    assert_eq!(blake3_of(&image), expected);
}

/// The file behind the device was made shorter, so the end of the device cannot be read.
#[test]
fn what_cannot_be_read_is_zeros_where_that_is_wanted() {
    let (place, host) = (place(), Host::up());
    let device = LoopDevice::new(20 << 20).unwrap();
    let content = fs::read(crate::program::file(&place.path().join("content"), 19 << 20)).unwrap();
    fs::write(device.file(), &content).unwrap();
    let mut expected = content;
    expected.resize(20 << 20, 0);
    let hash = blake3::hash(&expected).to_hex().to_string();
    for typed in [device.path().to_path_buf().into_os_string(), host.at(device.path())] {
        let stopped = digest(Some(&host), &[&typed]);
        assert_eq!((stopped.status.code(), stopped.stdout.len()), (Some(1), 0));
        for (algorithm, expected) in [("blake3", Some(&hash)), ("sha256", None)] {
            let arguments = ["--on-read-error=skip", "--algorithm", algorithm].map(OsStr::new);
            let skipped = digest(Some(&host), &[&arguments[..], &[&typed]].concat());
            let (out, err) = (skipped.stdout, String::from_utf8(skipped.stderr).unwrap());
            let out = String::from_utf8(out).unwrap();
            assert_eq!(skipped.status.code(), Some(3), "{err}");
            assert!(expected.is_none_or(|hash| out.starts_with(hash)) && out.len() > 64, "{out}");
            let name = device.path().file_name().unwrap().to_str().unwrap();
            let line =
                format!("failed: {name}: reading: 262144 bytes from offset {} cannot be read", 19 << 20);
            assert!(err.contains(&line), "{err}");
        }
    }
}

#[test]
fn what_has_no_digest_is_told() {
    let (place, host) = (place(), Host::up());
    for (typed, code, words) in [
        (host.at(place.path().join("none")), 1, "no such file or directory"),
        ("/dev/null".into(), 2, "a character device has no content of a known size"),
    ] {
        for algorithm in ["--algorithm=blake3", "--algorithm=sha256"] {
            let output = digest(Some(&host), &[OsStr::new(algorithm), &typed]);
            let err = String::from_utf8(output.stderr).unwrap();
            assert_eq!((output.status.code(), output.stdout), (Some(code), Vec::new()), "{typed:?}: {err}");
            assert!(err.contains(words), "{err}");
            assert_eq!(err.lines().count(), 1, "{err}");
        }
    }
    for typed in [place.path().as_os_str().to_owned(), host.at(place.path())] {
        let output = digest(Some(&host), &[OsStr::new("--algorithm=sha256"), &typed]);
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout), (Some(2), Vec::new()), "{err}");
        assert!(err.contains("the digest of a tree is BLAKE3"), "{err}");
    }
    let output = digest(None, &[OsStr::new("--algorithm=md5"), OsStr::new("x")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("sha256"));
}
