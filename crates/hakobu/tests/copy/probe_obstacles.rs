//! `hakobu probe` of copies that would fail: it says so first, in the words of the copy, and measures the rest.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use hakobu_testkit::sshd::no_root;
use serde_json::Value;

use crate::program::*;

/// Returns the program, run by an unprivileged user if one is given.
fn hakobu(
    program: Option<&Path>,
    host: Option<&Host>,
    words: &[&str],
    places: &[&OsStr],
) -> (i32, String, String) {
    let mut command = match program {
        Some(program) => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]).arg(program);
            command
        }
        None => Command::new(HAKOBU),
    };
    command.env_remove("HAKOBU_SSH").env("HAKOBU_SETTINGS", "none");
    if let Some(host) = host {
        command.env("HAKOBU_SSH", host.sshd.ssh_command());
    }
    let output = command.args(words).args(places).env("LC_ALL", "C").stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Returns the obstacles that both outputs of a probe name, and if the copy fails.
#[track_caller]
fn foreseen(
    program: Option<&Path>,
    host: Option<&Host>,
    places: &[&OsStr],
) -> (Option<(String, Value)>, bool) {
    let (code, out, err) = hakobu(program, host, &["probe", "--gentle"], places);
    assert_eq!(code, 0, "{out}{err}");
    let (code, json, err) = hakobu(program, host, &["probe", "--gentle", "--json"], places);
    assert_eq!(code, 0, "{json}{err}");
    let found: Value = serde_json::from_str(&json).unwrap();
    assert!(out.contains("Probe of ") && out.contains("What one core does"), "{out}");
    let (code, ..) = hakobu(program, host, &["copy", "--quiet"], places);
    let first = out.lines().next().unwrap().to_owned();
    let said = first.starts_with("a copy would fail: ");
    assert_eq!(said, found["obstacle"]["certain"] == true, "{out}{json}");
    if said {
        assert!(found["prediction"]["bytes_per_second"].as_f64() > Some(0.0), "{json}");
        assert!(out.contains("Without that, ") && out.contains(" a copy gets "), "{out}");
        return (Some((out, found)), code != 0);
    }
    assert!(first.starts_with("Probe of ") && found["obstacle"].is_null(), "{out}{json}");
    (None, code != 0)
}

#[track_caller]
fn fails(program: Option<&Path>, places: &[&OsStr], kind: &str, words: &[&str]) {
    let (obstacle, failed) = foreseen(program, None, places);
    let (out, found) =
        obstacle.unwrap_or_else(|| panic!("nothing is said to stand in the way of {places:?}"));
    assert!(failed, "the copy worked: {out}");
    assert_eq!(found["obstacle"]["kind"], kind, "{found:#}");
    let head = out.split("Probe of").next().unwrap();
    assert!(words.iter().all(|words| head.contains(words)), "{words:?} {head}");
}

fn path(path: &Path) -> &OsStr {
    path.as_os_str()
}

#[test]
fn what_a_copy_refuses_to_begin_is_said_first() {
    let place = place();
    let below = |name: &str| place.path().join(name);
    let (source, there) = (tree(&below("source")), file(&below("file"), 3_000_000));
    for from in [&source, &there] {
        let (missing, inner) = (below("not/yet"), source.join("inner"));
        fails(
            None,
            &[path(from), path(&missing)],
            "not_found",
            &["not/yet: its parent directory does not exist"],
        );
        let (obstacle, failed) = foreseen(None, None, &[path(from), path(&inner)]);
        // A single file may land in its own tree.
        assert_eq!((obstacle.is_some(), failed), (from == &source, from == &source));
    }
    fails(
        None,
        &[path(&source), path(&there)],
        "conflict",
        &["the source is a directory, and this is none; name another target"],
    );
    let (out, found) = foreseen(None, None, &[path(&below("no/such"))]).0.unwrap();
    assert!(out.contains(&format!("measured in {}", place.path().display())), "{out}");
    assert_eq!(found["target_figures"]["measured_in"], place.path().to_str().unwrap(), "{found:#}");
    assert!(!below("no").exists() && !below("not").exists());
}

#[test]
fn too_little_room_a_mount_for_reading_and_missing_rights_are_said_first() {
    if no_root() {
        return;
    }
    let place = place();
    open_to_all(place.path());
    let below = |name: &str| place.path().join(name);
    let (source, large) = (tree(&below("source")), below("large"));
    std::fs::write(&large, vec![7; 50 << 20]).unwrap();
    std::fs::write(source.join("large"), vec![7; 50 << 20]).unwrap();
    let holes = std::fs::File::create(below("holes")).unwrap();
    holes.set_len(1 << 30).unwrap();
    let full = Small::mount(&below("full"), "size=40m");
    let fixed = Small::mount(&below("fixed"), "size=400m,ro");
    let few = Small::mount(&below("few"), "size=400m,nr_inodes=100");
    for from in [&source, &large] {
        let new = full.0.join("new");
        for to in [&full.0, &new] {
            fails(None, &[path(from), path(to)], "no_space", &["41.9 MB are free", "hint: free space"]);
            for left in std::fs::read_dir(&full.0).unwrap().flatten() {
                let left = left.path();
                if left.is_dir() { std::fs::remove_dir_all(left) } else { std::fs::remove_file(left) }
                    .unwrap();
            }
        }
        fails(
            None,
            &[path(from), path(&fixed.0)],
            "read_only",
            &["hint: mount the target's file system for writing"],
        );
    }
    fails(None, &[path(&source), path(&few.0)], "no_inodes", &["there is room for 99", "hint: free inodes"]);
    // Holes need no space.
    let (obstacle, failed) = foreseen(None, None, &[path(&below("holes")), path(&full.0)]);
    assert!(obstacle.is_none() && !failed, "{obstacle:?}");
    let (closed, program) = (below("closed"), below("hakobu"));
    install(HAKOBU, &program);
    std::fs::create_dir(&closed).unwrap();
    open_to_all(&closed);
    for from in [&source, &large] {
        fails(
            Some(&program),
            &[path(from), path(&closed)],
            "permission_denied",
            &["may not write there", "as a user who may"],
        );
        fails(
            Some(&program),
            &[path(from), path(&closed.join("new"))],
            "permission_denied",
            &["may not write"],
        );
    }
    assert_eq!(std::fs::read_dir(&closed).unwrap().count(), 0);
}

#[test]
fn what_may_not_be_read_is_said_first() {
    use std::os::unix::fs::PermissionsExt;
    if no_root() {
        return;
    }
    let place = place();
    open_to_all(place.path());
    let below = |name: &str| place.path().join(name);
    let (source, large, program) =
        (tree(&below("source")), file(&below("large"), 3_000_000), below("hakobu"));
    let close = |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o0)).unwrap();
    install(HAKOBU, &program);
    let target = below("target");
    std::fs::create_dir(&target).unwrap();
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o777)).unwrap();
    let opened = Command::new("chmod").args(["-R", "a+rX"]).arg(&source).status().unwrap();
    assert!(opened.success());
    close(&large);
    let places = [path(&large), path(&target)];
    let words = ["large: this user may not read it", "hint: "];
    fails(Some(&program), &places, "permission_denied", &words);
    for (name, count) in [("small", 1), ("closed", 2)] {
        let entry = source.join(name);
        match name {
            "closed" => std::fs::create_dir(&entry).unwrap(),
            _ => std::fs::write(&entry, "content").unwrap(),
        }
        close(&entry);
        let places = [path(&source), path(&target)];
        let words = format!("this user may not read {count} of what was opened there");
        fails(Some(&program), &places, "permission_denied", &[&words]);
    }
    let (_, out, _) = hakobu(Some(&program), None, &["probe", "--gentle"], &[path(&source), path(&target)]);
    assert!(out.contains("source/small: this user may not read it"), "{out}");
}

#[test]
fn a_directory_that_may_be_written_to_but_not_listed_is_no_obstacle() {
    use std::os::unix::fs::PermissionsExt;
    if no_root() {
        return;
    }
    let place = place();
    open_to_all(place.path());
    let below = |name: &str| place.path().join(name);
    let (source, dropped, program) = (file(&below("source"), 3_000_000), below("dropped"), below("hakobu"));
    install(HAKOBU, &program);
    std::fs::create_dir(&dropped).unwrap();
    std::fs::set_permissions(&dropped, std::fs::Permissions::from_mode(0o733)).unwrap();
    open_to_all(&source);
    let (obstacle, failed) = foreseen(Some(&program), None, &[path(&source), path(&dropped)]);
    assert!(obstacle.is_none() && !failed, "{obstacle:?}");
}

#[test]
fn what_stands_in_the_way_on_another_machine_is_named_with_it() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let source = file(&place.path().join("source"), 3_000_000);
    let fixed = Small::mount(&place.path().join("fixed"), "size=64m,ro");
    let (obstacle, failed) = foreseen(None, Some(&host), &[path(&source), &host.at(&fixed.0)]);
    let (out, found) = obstacle.unwrap();
    assert!(failed && out.starts_with("a copy would fail: throwaway:/"), "{out}");
    assert_eq!(found["obstacle"]["kind"], "read_only", "{found:#}");
    let (_, _, err) = hakobu(None, Some(&host), &["probe", "--gentle"], &[&host.at(&fixed.0)]);
    assert!(err.contains("(a disk is only read), which leaves nothing behind"), "{err}");
    host.wait_for_no_agent();
}

#[test]
fn a_run_that_finds_all_of_it_there_needs_no_room() {
    if no_root() {
        return;
    }
    let place = place();
    let source = tree(&place.path().join("source"));
    std::fs::write(source.join("large"), vec![7; 30 << 20]).unwrap();
    let full = Small::mount(&place.path().join("full"), "size=100m");
    let places = [path(&source), path(&full.0)];
    assert_eq!(hakobu(None, None, &["copy", "--quiet"], &places).0, 0);
    let (_, out, _) = hakobu(None, None, &["probe", "--gentle"], &places);
    let first = out.lines().next().unwrap();
    assert!(
        first.starts_with("a copy may fail: ") && first.ends_with("only if some of it is there already"),
        "{out}"
    );
    assert_eq!(hakobu(None, None, &["copy", "--quiet"], &places).0, 0);
}
