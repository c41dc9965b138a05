//! `hakobu make-data`: its data, and what it does not overwrite.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use hakobu_testkit::devices::{LoopDevice, mount, run};

use crate::program::*;

/// Runs it without a terminal; returns the exit code and the output.
fn make<S: AsRef<OsStr>>(arguments: &[S]) -> (i32, String) {
    // A new session has no terminal to ask on.
    let mut command = Command::new("setsid");
    command.args(["--wait", HAKOBU, "make-data"]).args(arguments).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), said)
}

#[track_caller]
fn make_disk(path: impl AsRef<OsStr>, options: &str) -> (i32, String) {
    let mut arguments = vec![OsStr::new("disk"), path.as_ref()];
    arguments.extend(options.split_whitespace().map(OsStr::new));
    make(&arguments)
}

#[test]
fn a_file_and_a_disk_get_the_same_content() {
    let place = place();
    let (size, options) = (30_000_128 / 512 * 512, "--ratio 2 --zeros 30 --seed 7");
    let device = LoopDevice::new(size).unwrap();
    assert_eq!(make_disk(device.path(), options).0, 0);
    let file = place.path().join("file");
    let (code, said) = make_disk(&file, &format!("{options} --size {size}"));
    assert_eq!(code, 0, "{said}");
    let content = fs::read(&file).unwrap();
    assert!(content == fs::read(device.path()).unwrap());
    assert!(said.starts_with(&format!("{}: 30.0 MB, ", file.display())), "{said}");

    // Zeros are holes, and half of the rest is zeros as well.
    let zeros = content.iter().filter(|byte| **byte == 0).count() as u64;
    let allocated = fs::metadata(&file).unwrap().blocks() * 512;
    assert!((size / 2..size * 4 / 5).contains(&zeros), "{zeros}");
    assert!((size / 2..size * 9 / 10).contains(&allocated), "{allocated}");

    let other = place.path().join("other");
    make_disk(&other, &format!("--ratio 2 --zeros 30 --seed 8 --size {size}"));
    assert!(content != fs::read(&other).unwrap());
}

#[test]
fn text_is_made_again_alike_and_has_holes_as_well() {
    let place = place();
    let made = |name, options: &str| {
        let path = place.path().join(name);
        assert_eq!(make_disk(&path, &format!("--text --size 3000000 {options}")).0, 0);
        fs::read(path).unwrap()
    };
    let text = made("one", "");
    assert!(text == made("again", "") && text != made("other", "--seed 2"));
    assert!(text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'\n')));
    assert!(made("holes", "--zeros 50").contains(&0));
    let (code, said) = make_disk(place.path().join("both"), "--text --ratio 3 --size 1M");
    assert_eq!((code, said.contains("cannot be used with")), (2, true), "{said}");
}

#[test]
fn what_is_there_is_kept_unless_that_is_said() {
    let place = place();
    let path = place.path().join("file");
    fs::write(&path, vec![0xaa; 1_000_000]).unwrap();
    let (code, said) = make_disk(&path, "--size 500000");
    assert_eq!((code, said.contains("--force overwrites it")), (6, true), "{said}");
    assert!(fs::read(&path).unwrap().iter().all(|byte| *byte == 0xaa));
    assert_eq!(make_disk(&path, "--size 500000 --zeros 100 --force").0, 0);
    assert!(fs::read(&path).unwrap() == vec![0; 500_000]);

    for (path, options, code, words) in [
        (path.clone(), "", 2, "--size"),
        (place.path().to_owned(), "--size 1M", 2, "neither a file nor a block device"),
        ("/dev/null".into(), "--size 1M", 2, "neither a file nor a block device"),
        ("/dev/hakobu-none".into(), "--size 1M", 6, "is no device"),
        (place.path().join("no/file"), "--size 1M", 1, "create it first"),
        (place.path().join("new"), "--size 1M --zeros 101", 2, "from 0 to 100"),
        (place.path().join("new"), "--size 1M --ratio 0.9", 2, "from 1 to 500"),
    ] {
        let (found, said) = make_disk(&path, options);
        assert!(found == code && said.contains(words), "{path:?} {options}: {found} {said}");
    }
    assert!(!place.path().join("new").exists());
}

#[test]
fn a_disk_with_something_on_it_takes_its_id() {
    let place = place();
    let device = LoopDevice::new(20 << 20).unwrap();
    run("mkfs.ext4", &["-q"], device.path()).unwrap();
    let before = fs::read(device.path()).unwrap();
    let (code, said) = make_disk(device.path(), "");
    let id = said.split("--confirm ").nth(1).unwrap_or_default().trim();
    assert!(code == 6 && said.contains("ext4") && !id.is_empty(), "{said}");
    let (code, said) = make_disk(device.path(), "--confirm another");
    assert_eq!(code, 6, "{said}");
    let (code, said) = make_disk(device.path(), "--size 40MiB");
    assert!(code == 2 && said.contains("leave --size out for all"), "{said}");
    let mounted = place.path().join("mounted");
    fs::create_dir(&mounted).unwrap();
    let mount = mount(device.path(), &mounted, &[]).unwrap();
    let (code, said) = make_disk(device.path(), &format!("--confirm {id}"));
    drop(mount);
    assert!(code == 6 && said.contains("is mounted"), "{said}");
    let untouched = fs::read(device.path()).unwrap();
    assert!(untouched[1 << 20..] == before[1 << 20..]);
    let (code, said) = make_disk(device.path(), &format!("--confirm {id} --size 19MiB"));
    assert_eq!(code, 0, "{said}");
    let after = fs::read(device.path()).unwrap();
    assert!(after[..19 << 20] != untouched[..19 << 20] && after[19 << 20..] == untouched[19 << 20..]);
}

#[test]
fn trees_made_alike_are_equal() {
    let place = place();
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    let options = "--files 60 --dirs 7 --empty-dirs 2 --size 3KiB --sigma 1 --nasty --links --seed 5";
    for path in [&one, &two] {
        let mut arguments = vec![OsStr::new("tree"), path.as_os_str()];
        arguments.extend(options.split(' ').map(OsStr::new));
        let (code, said) = make(&arguments);
        assert!(code == 0 && said.contains(": 60 files, 9 directories, "), "{said}");
    }
    assert_same(&one, &two);
    let (code, said) = make(&["tree", one.to_str().unwrap(), "--files", "1", "--size", "1"]);
    assert!(code == 6 && said.contains("not empty"), "{said}");
}

#[test]
fn a_preset_is_scaled() {
    let place = place();
    let path = place.path().join("server");
    let typed = ["tree", path.to_str().unwrap(), "--preset", "file-server", "--scale", "0.005"];
    let (code, said) = make(&typed);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("976 files, 98 directories") && said.contains("50.0 MB"), "{said}");
    // The options exclude each other.
    assert_eq!(make(&["tree", "x", "--preset", "file-server", "--files", "3"]).0, 2);
    assert_eq!(make(&["tree", "x", "--files", "3"]).0, 2);
}
