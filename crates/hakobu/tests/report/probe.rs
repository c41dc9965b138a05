//! The HTML page of a probe: names and remarks of other hosts remain text.

use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use super::html;

const EVIL: &[u8] = b"EVIL\"'><script>alert(1)<!-- & \x1b[2J \xff";

#[test]
fn names_stay_names() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join(std::ffi::OsStr::from_bytes(EVIL));
    std::fs::create_dir(&target).unwrap();
    let (page, source) = (place.path().join("page.html"), target.join("source"));
    std::fs::write(&source, vec![1; 3 << 20]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hakobu"));
    command.args(["probe", "--gentle", "--html"]).arg(&page).args([&source, &target]).env("LC_ALL", "C");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let written = std::fs::read_to_string(&page).unwrap();
    // The checker knows all tags and rejects others.
    let text = html::text_of(&written);
    for shown in [&text, &said] {
        assert!(shown.contains("EVIL\"'><script>alert(1)<!-- & \\u{1b}[2J \\xff"), "{shown}");
        assert!(!shown.chars().any(|letter| letter.is_control() && letter != '\n'), "{shown}");
    }
    assert!(text.contains("Stage") && written.contains("<svg class=\"bar\""), "{text}");
    // A saved page contains the time and the version.
    let version = concat!("hakobu ", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(version) && text.contains(" UTC"), "{text}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hakobu"));
    let refused = command.args(["probe", "--html", "/dev/hakobu-typo.html"]).arg(&target).output().unwrap();
    assert_eq!(refused.status.code(), Some(6));
}

/// Obstacles to a copy come first, and the names in them stay text.
#[test]
fn what_stands_in_the_way_comes_first() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join(std::ffi::OsStr::from_bytes(EVIL)).join("below");
    let page = place.path().join("page.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hakobu"));
    command.args(["probe", "--gentle", "--html"]).arg(&page).arg(&target).env("LC_ALL", "C");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = html::text_of(&std::fs::read_to_string(&page).unwrap());
    let said = String::from_utf8(output.stdout).unwrap();
    for shown in [&text, &said] {
        let (fails, title) = (shown.find("a copy would fail: "), shown.rfind("Probe of "));
        assert!(fails.is_some() && fails < title, "{shown}");
        assert!(
            shown.contains("EVIL\"'><script>alert(1)<!-- & \\u{1b}[2J \\xff/below: its parent directory"),
            "{shown}"
        );
    }
}
