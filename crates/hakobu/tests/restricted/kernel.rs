//! Restrictions that the kernel enforces whatever the agent does. Without them no agent starts.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::{HAKOBU, place};
use crate::raw::*;

/// Returns the error and the exit code of an agent that does not start. It must not answer its peer.
#[track_caller]
fn not_started(mut command: Command) -> (String, Option<i32>) {
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output().expect("strace is needed");
    assert_eq!(output.stdout, b"");
    (String::from_utf8(output.stderr).unwrap(), output.status.code())
}

/// Returns an agent in which a system call returns another result.
fn without(calls: &str, gives: &str, path: &Path, options: &[&str]) -> Command {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e"]).arg(format!("inject={calls}:{gives}"));
    strace.args([HAKOBU, "agent", "--restrict"]).arg(path).args(options);
    strace.env_remove("SSH_ORIGINAL_COMMAND").stdin(Stdio::piped()).stdout(Stdio::piped());
    strace
}

#[test]
fn without_a_lock_that_holds_there_is_no_agent() {
    let place = place();
    for (calls, gives) in [
        // No landlock, a disabled one, and versions that cannot prevent truncation.
        ("landlock_create_ruleset", "error=ENOSYS"),
        ("landlock_create_ruleset", "error=EOPNOTSUPP"),
        ("landlock_create_ruleset", "retval=1"),
        ("landlock_create_ruleset", "retval=2"),
        ("landlock_restrict_self", "error=E2BIG"),
        ("landlock_add_rule", "error=EPERM"),
    ] {
        for options in [&["--read-only"][..], &["--may-connect"]] {
            let (words, code) = not_started(without(calls, gives, place.path(), options));
            assert_eq!(code, Some(1), "{calls} {gives}: {words}");
            assert!(words.contains("that needs landlock of Linux 6.2"), "{calls} {gives}: {words}");
        }
    }
    let (words, _) = not_started(without("prctl", "error=EPERM", place.path(), &[]));
    assert!(words.contains("locking the agent in"), "{words}");
    // Without such an obstacle the agent starts.
    Controller::by(without("landlock_create_ruleset", "error=ENOSYS:when=65535", place.path(), &[]));
}

#[test]
fn without_resolving_beneath_a_descriptor_there_is_no_agent() {
    let place = place();
    for (error, options) in [("ENOSYS", &["--read-only"][..]), ("EPERM", &[])] {
        let (words, code) = not_started(without("openat2", &format!("error={error}"), place.path(), options));
        assert_eq!(code, Some(1), "{words}");
        assert!(words.contains("the kernel cannot resolve paths beneath it"), "{words}");
    }
}

/// Takes the digest of a file after its directory was renamed and the name was given to another directory, and copies
/// there. The agent keeps using the directory that it was given.
fn read_by_a_name_taken(agent: impl FnOnce(&Path) -> Command) {
    let place = place();
    let (inside, secret) = (place.path().join("in"), place.path().join("secret"));
    for directory in [&inside, &secret] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("file"), directory.file_name().unwrap().as_encoded_bytes()).unwrap();
    }
    let mut controller = Controller::by(agent(&inside));
    assert_eq!(controller.ran(digest(&inside, "file")).summary.fatal, None);
    let renamed = place.path().join("as it was");
    fs::rename(&inside, &renamed).unwrap();
    fs::rename(&secret, &inside).unwrap();
    let read = controller.ran(digest(&inside, "file")).summary;
    assert_eq!((read.fatal, read.digest), (None, Some(*blake3::hash(b"in").as_bytes())));
    let written = controller.ran(copy((&inside, "file"), (&inside, "copied"))).summary;
    assert_eq!((written.fatal, written.failures.len()), (None, 0));
    assert_eq!(fs::read(renamed.join("copied")).unwrap(), b"in");
    assert!(!inside.join("copied").exists());
}

#[test]
fn what_takes_the_directorys_name_is_not_the_directory() {
    read_by_a_name_taken(|path| agent(path, &[]));
    // The descriptor is enough: the same holds if the agent only believes that landlock is active.
    read_by_a_name_taken(|path| without("landlock_restrict_self", "retval=0", path, &[]));
}

#[test]
fn nothing_gives_the_agent_more_rights() {
    let place = place();
    let controller = Controller::of(place.path(), &["--read-only"]);
    // Each thread has a restriction of its own.
    for thread in fs::read_dir(format!("/proc/{}/task", controller.child.id())).unwrap() {
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        assert!(status.contains("NoNewPrivs:\t1\n"), "{status}");
    }
}

#[test]
fn directories_that_hold_the_keys_are_refused_to_writers() {
    let place = place();
    let home = place.path().join("home");
    fs::create_dir_all(home.join(".ssh/deeper")).unwrap();
    fs::create_dir(home.join("backup")).unwrap();
    let program = Path::new(HAKOBU).canonicalize().unwrap();
    for held in
        [place.path(), &home, &home.join(".ssh"), &home.join(".ssh/deeper"), program.parent().unwrap()]
    {
        let mut command = agent(held, &[]);
        command.env("HOME", &home);
        let (words, code) = not_started(command);
        assert_eq!(code, Some(6), "{words}");
        assert!(words.contains("add --read-only"), "{words}");
    }
    let mut nowhere = agent(&place.path().join("none"), &[]);
    nowhere.env("HOME", &home);
    assert!(not_started(nowhere).0.contains("opening the directory of --restrict"));
    for (held, options) in [(home.join("backup"), &[][..]), (home.clone(), &["--read-only"])] {
        let mut command = agent(&held, options);
        let output = command.env("HOME", &home).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success() && output.stdout == hakobu_proto::control::PREAMBLE);
    }
}
