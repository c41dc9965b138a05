//! Keys of a real ssh server that are restricted to a directory.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hakobu_testkit::sshd::SshdOptions;

use crate::program::*;

/// Starts a host on which this key is restricted by the options of `hakobu agent`.
pub fn host(key: &str, options: &str) -> Host {
    // hakobu is not on the PATH, so that it cannot be found by accident.
    let host = Host::with(&SshdOptions::default());
    let keys = host.sshd.client_config().with_file_name("authorized_keys");
    let public = fs::read_to_string(&keys).unwrap();
    fs::write(&keys, format!("{key}command=\"{HAKOBU} agent --restrict {options}\" {public}")).unwrap();
    host
}

/// Returns the options for a directory.
pub fn on(path: &Path, more: &str) -> String {
    format!("{} {more}", path.display())
}

fn verb(verb: &str, host: &Host, arguments: &[&std::ffi::OsStr]) -> Output {
    let mut command = Command::new(HAKOBU);
    command.arg(verb).args(arguments).env("HAKOBU_SSH", host.sshd.ssh_command()).env("LC_ALL", "C");
    command.stdin(Stdio::null()).output().unwrap()
}

fn grown(path: &Path) -> PathBuf {
    let tree = tree(path);
    file(&tree.join("larger"), 70_000_001);
    tree
}

#[test]
fn a_key_to_read_with_reads_by_every_verb_and_writes_by_none() {
    let place = place();
    let backup = place.path().join("backup");
    let source = grown(&backup.join("tree"));
    fs::write(place.path().join("secret"), "secret").unwrap();
    symlink("tree", backup.join("latest")).unwrap();
    symlink(place.path(), backup.join("out")).unwrap();
    let host = host("restrict,", &on(&backup, "--read-only"));
    // All ways to name a place.
    for (number, typed) in
        [contents(host.at(&source)), host.at("tree/"), host.at(backup.join("latest/"))].iter().enumerate()
    {
        let target = place.path().join(format!("copy {number}"));
        let ran = Copy::new().to(&host).args([typed, target.as_os_str()]).run_to(0);
        assert_same(&source, &target);
        assert_eq!(ran.report["transport"], "agent");
    }
    let whole = place.path().join("whole");
    fs::create_dir(&whole).unwrap();
    Copy::new().to(&host).arg(host.at(&backup)).arg(&whole).run_to(0);
    assert_same(&backup, &whole.join("backup"));
    let target = place.path().join("copy 0");
    fs::write(target.join("only here"), "").unwrap();
    fs::write(target.join("large"), "another").unwrap();
    Copy::sync().to(&host).arg("--delete").arg(host.at("tree/")).arg(&target).run_to(0);
    assert_same(&source, &target);
    Copy::verify().to(&host).arg(host.at("tree/")).arg(&target).run_to(0);
    Copy::verify().to(&host).arg(contents(&target)).arg(host.at("tree")).run_to(0);
    for name in ["tree/large", "tree"] {
        for algorithm in ["blake3", "sha256"] {
            if name == "tree" && algorithm == "sha256" {
                continue;
            }
            let arguments = ["--algorithm".as_ref(), algorithm.as_ref(), &*host.at(name)];
            let output = verb("digest", &host, &arguments);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert!(output.stdout.len() > 64);
        }
    }
    let before = fs::metadata(source.join("large")).unwrap().modified().unwrap();
    for (typed, words) in [
        ([contents(&target), host.at("tree")], "may only read"),
        ([contents(&target), host.at("new")], "may only read"),
        ([target.join("large").into(), host.at("tree/large")], "may only read"),
        ([host.at("tree/"), host.at("new")], "may only read"),
        ([contents(&target), host.at("/tmp")], "may only use what is beneath"),
        (
            [host.at(place.path().join("secret")), place.path().join("x").into()],
            "may only use what is beneath",
        ),
        ([host.at("../secret"), place.path().join("x").into()], "may only use what is beneath"),
        ([host.at("out/secret"), place.path().join("x").into()], "may only use what is beneath"),
        ([host.at("/etc/passwd"), place.path().join("x").into()], "may only use what is beneath"),
        ([host.at("/dev/zero"), place.path().join("x").into()], "may only use what is beneath"),
    ] {
        let ran = Copy::new().to(&host).args(&typed).run_to(1);
        ran.says(&[words, "the key that logs in there is restricted"]);
        assert!(!ran.err.contains("--sudo"), "{}", ran.err);
    }
    let output = verb("disks", &host, &["throwaway".as_ref()]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && words.contains("no disks"), "{words}");
    assert!(!backup.join("new").exists() && !place.path().join("x").exists());
    assert_eq!(fs::metadata(source.join("large")).unwrap().modified().unwrap(), before);
    assert_eq!(fs::read_dir(&backup).unwrap().count(), 3);
    host.wait_for_no_agent();
}

#[test]
fn a_key_to_write_with_writes_in_one_place_and_gives_no_rights() {
    let place = place();
    let backup = place.path().join("backup");
    fs::create_dir(&backup).unwrap();
    let source = grown(&place.path().join("source"));
    let program = source.join("program");
    fs::write(&program, "#!").unwrap();
    let host = host("restrict,", &on(&backup, ""));
    let push = |verb: Copy| verb.to(&host).arg(contents(&source)).arg(host.at("tree"));
    push(Copy::new()).run_to(0);
    assert_same(&source, &backup.join("tree"));
    fs::write(backup.join("tree/only here"), "").unwrap();
    fs::write(source.join("large"), "another").unwrap();
    push(Copy::sync().arg("--delete")).run_to(0);
    assert_same(&source, &backup.join("tree"));
    Copy::new().to(&host).arg(host.at("tree/")).arg(host.at("again")).run_to(0);
    assert_same(&source, &backup.join("again"));
    // In place, and into the restricted directory itself.
    fs::write(backup.join("tree/larger"), "x").unwrap();
    push(Copy::sync().arg("--in-place")).run_to(0);
    Copy::new().to(&host).arg(&program).arg(host.at(&backup)).run_to(0);
    assert_eq!(fs::read(backup.join("program")).unwrap(), b"#!");
    // Of programs with set-ID bits the content is copied, but not the bits.
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let ran = Copy::new().to(&host).options("--allow setuid").arg(&program).arg(host.at("rights")).run();
    assert_eq!(fs::metadata(backup.join("rights")).unwrap().permissions().mode() & 0o7777, 0o755);
    assert_eq!(ran.lost("setid"), 1, "{:#}", ran.report);
    for typed in [host.at(place.path().join("new")), host.at("../new"), host.at("/dev/shm/new")] {
        let ran = Copy::new().to(&host).arg(contents(&source)).arg(typed).run_to(1);
        ran.says(&["may only use what is beneath"]);
    }
    assert!(!place.path().join("new").exists() && !Path::new("/dev/shm/new").exists());
    host.wait_for_no_agent();
}

#[test]
fn two_keys_meet_directly_only_if_one_may_connect() {
    let place = place();
    let backup = place.path().join("backup");
    let source = grown(&backup.join("source"));
    for (more, transport, options) in
        [("", "agent, relayed", ""), ("--may-connect", "agent", ""), ("", "ssh, relayed", "--transport ssh")]
    {
        let host = host("restrict,", &on(&backup, more));
        let target = backup.join("target");
        let ran = Copy::new().to(&host).options(options).arg(contents(host.at(&source)));
        let ran = ran.arg(host.at_another(&target)).run_to(0);
        assert_same(&source, &target);
        assert_eq!(ran.report["transport"], transport, "{more}");
        fs::remove_dir_all(&target).unwrap();
        host.wait_for_no_agent();
    }
}

#[test]
fn what_is_typed_about_the_far_program_has_no_effect() {
    let place = place();
    let backup = place.path().join("backup");
    fs::create_dir(&backup).unwrap();
    fs::write(backup.join("file"), "content").unwrap();
    let host = host("restrict,", &on(&backup, "--read-only"));
    for (number, options) in ["--nice", "--agent /no/such/program", "--sudo"].into_iter().enumerate() {
        let target = place.path().join(number.to_string());
        Copy::new().to(&host).options(options).arg(host.at("file")).arg(&target).run_to(0);
        assert_eq!(fs::read(&target).unwrap(), b"content");
    }
}

#[test]
fn a_probe_reads_what_the_key_lets_it_and_writes_nothing() {
    let place = place();
    let backup = tree(&place.path().join("backup"));
    let host = host("restrict,", &on(&backup, "--read-only"));
    let probe = |path: &Path| {
        let output = verb("probe", &host, &["--gentle".as_ref(), "--json".as_ref(), &host.at(path)]);
        (output.status.code(), output.stdout, String::from_utf8(output.stderr).unwrap())
    };
    let (code, out, err) = probe(&backup);
    let found: serde_json::Value =
        serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{error}: {err}"));
    assert_eq!((code, &found["target_figures"]["how"]), (Some(0), &"not_asked".into()), "{found:#}");
    assert!(found["target_figures"]["tree"]["files"].as_u64().unwrap() >= 300, "{found:#}");
    // Its other end is outside of the directory.
    let remarks = found["remarks"].to_string();
    assert!(remarks.contains("the way to the target was not measured"), "{remarks}");
    let (code, out, err) = probe(place.path());
    assert_eq!((code, out.as_slice()), (Some(1), &b""[..]), "{err}");
    assert!(err.contains("this login may only use what is beneath"), "{err}");
}
