//! Content is copied correctly regardless of holes and of the sizes that the system reports. The tests compare it
//! with the standard library as well as with hakobu.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use crate::program::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Creates files around all relevant sizes, with data next to the limits.
fn with_holes(directory: &Path) {
    fs::create_dir(directory).unwrap();
    let around = |size: u64| [size - 1, size, size + 1];
    let sizes = [4 * KIB, 256 * KIB, MIB, 4 * MIB].into_iter().flat_map(around).chain([9, 100_000]);
    for size in sizes {
        let some = (size / 9).max(1);
        let layouts: [(&str, &[(u64, u64)]); 7] = [
            ("head", &[(0, some)]),
            ("middle", &[(size / 3, some)]),
            ("tail", &[(size - some, some)]),
            ("both", &[(0, 1), (size - 1, 1)]),
            ("many", &[(1, some / 2), (size / 3, some), (size / 2, some)]),
            ("hole", &[]),
            ("full", &[(0, size)]),
        ];
        for (name, ranges) in layouts {
            let file = File::create(directory.join(format!("{name}-{size}"))).unwrap();
            file.set_len(size).unwrap();
            for (offset, length) in ranges {
                let bytes: Vec<u8> = (*offset..offset + length).map(|at| (at % 251) as u8 + 1).collect();
                file.write_all_at(&bytes, *offset).unwrap();
            }
        }
    }
}

#[test]
fn holes_anywhere_in_files_of_any_size_keep_their_content() {
    let place = place();
    let source = place.path().join("source");
    with_holes(&source);
    let local = place.path().join("local");
    Copy::new().arg(contents(&source)).arg(&local).run_to(0);
    assert_same(&source, &local);
    let host = Host::up();
    for options in ["", "--cipher none", "--transport ssh", "--compress zstd"] {
        let there = place.path().join("there");
        Copy::new().to(&host).options(options).arg(contents(&source)).arg(host.at(&there)).run_to(0);
        assert_same(&source, &there);
        fs::remove_dir_all(&there).unwrap();
    }
    let here = place.path().join("here");
    Copy::new().to(&host).arg(host.at(contents(&source))).arg(&here).run_to(0);
    assert_same(&source, &here);
}

/// Returns the exit code of hakobu and its messages.
fn ended(arguments: &[&Path]) -> (Option<i32>, String) {
    let mut command = Command::new("timeout");
    command.arg("60").arg(HAKOBU).args(arguments).env("HAKOBU_SETTINGS", "none");
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Files of procfs have the reported size 0, those of sysfs 4096. Neither is true.
#[test]
fn files_that_do_not_have_their_size_fail_in_every_verb() {
    let place = place();
    let empty = place.path().join("empty");
    File::create(&empty).unwrap();
    for (directory, name, said) in [
        ("/proc/sys/kernel/random", "poolsize", "more than the 0 bytes"),
        // Its time may differ at each look, so it may count as changed.
        ("/sys/kernel/mm/transparent_hugepage", "enabled", ""),
    ] {
        let (directory, target) = (Path::new(directory), place.path().join("target"));
        let file = directory.join(name);
        for verb in ["copy", "digest", "verify"] {
            let with = match verb {
                // Another file with the same reported size.
                "verify" if name == "poolsize" => vec![empty.clone()],
                "verify" => continue,
                "digest" => vec![],
                _ => vec![target.clone()],
            };
            for source in [&*file, directory] {
                if verb == "verify" && source != file {
                    continue;
                }
                let mut arguments = vec![Path::new(verb), source];
                arguments.extend(with.iter().map(|path| &**path));
                let (code, err) = ended(&arguments);
                // For two files the times are compared as well, and these differ.
                let expected = if verb == "verify" { 4 } else { 5 };
                assert_eq!(code, Some(expected), "{arguments:?}: {err}");
                assert!(err.contains(name) && err.contains(said), "{arguments:?}: {err}");
            }
        }
        assert!(!target.join(name).exists() && !target.is_file(), "nothing wrong has got a name");
        fs::remove_dir_all(&target).unwrap();
    }
    // In the other direction the wrong size is that of the target.
    let (code, err) = ended(&[Path::new("verify"), &empty, Path::new("/proc/version")]);
    assert!(code == Some(4) && err.contains("more than the 0 bytes"), "{err}");
}

/// Returns the bytes at an offset.
fn at(path: &Path, offset: u64) -> [u8; 4] {
    let mut bytes = [9; 4];
    File::open(path).unwrap().read_exact_at(&mut bytes, offset).unwrap();
    bytes
}

/// Reading terabytes of holes would exceed the time limit of a test.
#[test]
fn holes_that_both_sides_have_are_compared_without_reading_them() {
    const TIB: u64 = 1 << 40;
    let data = [0, TIB, 3 * TIB + 5 * MIB - 2, 4 * TIB - 4];
    let (place, host) = (place(), Host::up());
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir(&source).unwrap();
    let big = source.join("big");
    let file = File::create(&big).unwrap();
    file.set_len(4 * TIB).unwrap();
    data.iter().for_each(|offset| file.write_all_at(b"data", *offset).unwrap());
    Copy::new().arg(contents(&source)).arg(&target).run_to(0);
    let copy = target.join("big");
    let small_read = |ran: &Ran| {
        for side in ["source_read", "target_read"] {
            let read = ran.report["bytes"][side].as_u64().unwrap();
            assert!(read < 100 * MIB, "{side}: {read}");
        }
    };
    let spoil = |offset: u64, bytes: &[u8]| {
        let file = File::options().write(true).open(&copy).unwrap();
        file.write_all_at(bytes, offset).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    };
    for (far, options) in [(false, ""), (true, ""), (false, "--in-place"), (true, "--in-place")] {
        let to = if far { host.at(&target) } else { target.clone().into() };
        let verify = || Copy::verify().to(&host).arg(contents(&source)).arg(&to);
        small_read(&verify().run_to(0));
        // Changes in a hole, across the border of two pieces, and in data.
        spoil(2 * TIB, b"more");
        spoil(MIB - 2, b"more");
        spoil(TIB, b"else");
        small_read(&verify().run_to(4));
        let options = format!("--delete {options}");
        let sync = Copy::sync().to(&host).options(options.trim()).arg(contents(&source)).arg(&to);
        small_read(&sync.run_to(0));
        data.iter().for_each(|offset| assert_eq!(&at(&copy, *offset), b"data", "{offset}"));
        for offset in [4, MIB - 2, TIB - 4, TIB + 4, 2 * TIB, 3 * TIB, 4 * TIB - 8] {
            assert_eq!(at(&copy, offset), [0; 4], "{offset}");
        }
        assert!(fs::metadata(&copy).unwrap().blocks() < 2 * 100 * MIB / 512, "its holes stay");
        small_read(&verify().run_to(0));
    }
}
