//! Accounts and servers with few permissions: hakobu finds the transport by itself, and reports losses.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use hakobu_testkit::sshd::{Shell, SshdOptions, Sudo, User, no_root};
use tempfile::TempDir;

use crate::program::*;
use crate::{assert_rsync_agrees, copy, server};

/// A user who may only use SFTP, in a directory of its own.
struct Caged {
    host: Host,
    /// The user's directory in it.
    inside: PathBuf,
    _cage: TempDir,
    _user: User,
}

impl Caged {
    /// Creates the user, with options for the server.
    fn new(options: &str) -> Self {
        let user = User::create(Shell::Sh, &Sudo::Refused).unwrap();
        // sshd requires that only root can write to the directories above.
        let cage = TempDir::with_prefix_in("hakobu-cage.", "/run").unwrap();
        open_to_all(cage.path());
        let inside = cage.path().join("in");
        fs::create_dir(&inside).unwrap();
        assert!(Command::new("chown").arg(user.name()).arg(&inside).status().unwrap().success());
        let config_lines = vec![
            format!("ForceCommand internal-sftp {options}"),
            format!("ChrootDirectory {}", cage.path().display()),
        ];
        let login = Some(user.name().to_owned());
        let host = Host::with(&SshdOptions { config_lines, login, ..SshdOptions::default() });
        Self { host, inside, _cage: cage, _user: user }
    }
}

#[test]
fn an_account_for_sftp_only_is_enough() {
    if no_root() {
        return;
    }
    let (place, caged) = (place(), Caged::new(""));
    let host = &caged.host;
    let source = tree(&place.path().join("source"));
    // Without an option, hakobu finds out that no agent can run, and says so.
    let ran = Copy::new().to(host).arg(contents(&source)).arg(host.at("/in/tree")).run_to(0);
    assert_eq!(ran.report["transport"], "sftp");
    assert!(
        ran.err.contains("there is no agent") && ran.err.contains("sftp connections only"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("owners"), "{}", ran.err);
    assert_rsync_agrees(&source, &caged.inside.join("tree"), &["--no-o", "--no-g", "--no-p"]);
    let lost = ran.report["losses"].as_array().unwrap().iter().find(|loss| loss["what"] == "owner");
    assert!(lost.unwrap()["count"].as_u64() > Some(300), "{:#}", ran.report);
    let again = Copy::new().to(host).arg(contents(&source)).arg(host.at("/in/tree")).run_to(0);
    assert_eq!(again.entries("unchanged"), ran.entries("scanned"), "{:#}", again.report);
    // If a loss is not allowed, nothing is copied.
    let refused =
        Copy::new().to(host).options("--require owner").arg(contents(&source)).arg(host.at("/in/other"));
    assert_eq!(refused.run().code, Some(6));
    assert!(!caged.inside.join("other").exists());
    let back = place.path().join("back");
    Copy::new().to(host).arg(contents(host.at("/in/tree"))).arg(&back).run_to(0);
    assert_rsync_agrees(&source, &back, &["--no-H", "--no-o", "--no-g", "--no-p"]);
}

#[test]
fn a_server_that_is_only_read_says_so() {
    if no_root() {
        return;
    }
    let (place, caged) = (place(), Caged::new("-R"));
    let host = &caged.host;
    fs::write(caged.inside.join("file"), "content").unwrap();
    let source = tree(&place.path().join("source"));
    let refused = Copy::new().to(host).arg(&source).arg(host.at("/in/")).run();
    assert!(matches!(refused.code, Some(1 | 3)), "{:?} {}", refused.code, refused.err);
    assert!(refused.err.contains("permission denied"), "{}", refused.err);
    assert!(!caged.inside.join("source").exists());
    Copy::new().to(host).arg(host.at("/in/file")).arg(place.path().join("file")).run_to(0);
    assert_eq!(fs::read(place.path().join("file")).unwrap(), b"content");
}

#[test]
fn where_nothing_may_be_executed_files_still_go() {
    if no_root() {
        return;
    }
    let (place, user) = (place(), User::create(Shell::Bash, &Sudo::Refused).unwrap());
    let noexec = ["/tmp", "/var/tmp", "/dev/shm", "/run"].map(Into::into).to_vec();
    let noexec = [noexec, vec![user.home().to_owned()]].concat();
    let login = Some(user.name().to_owned());
    let host = Host::with(&SshdOptions { noexec, login, ..SshdOptions::default() });
    let source = tree(&place.path().join("source"));
    let ran = Copy::new().to(&host).arg(contents(&source)).arg(host.at("tree")).run_to(0);
    assert_eq!(ran.report["transport"], "sftp");
    assert!(ran.err.contains("over SFTP, since there is no agent"), "{}", ran.err);
    // With `--transport agent` the error says why there is none.
    let refused =
        Copy::new().to(&host).options("--transport agent").arg(&source).arg(host.at("other")).run_to(1);
    assert!(!refused.err.contains("sftp"), "{}", refused.err);
}

#[test]
fn files_that_may_not_be_written_are_named_and_the_rest_goes() {
    if no_root() {
        return;
    }
    let (place, user) = (place(), User::create(Shell::Sh, &Sudo::Refused).unwrap());
    let login = Some(user.name().to_owned());
    let host = Host::with(&SshdOptions { login, ..SshdOptions::default() });
    let source = place.path().join("source");
    fs::create_dir_all(source.join("closed")).unwrap();
    fs::write(source.join("closed/file"), "x").unwrap();
    fs::write(source.join("free"), "y").unwrap();
    // The protocol cannot create named pipes.
    assert!(Command::new("mkfifo").arg(source.join("pipe")).status().unwrap().success());
    fs::create_dir_all(user.home().join("tree/closed")).unwrap();
    fs::set_permissions(user.home().join("tree"), fs::Permissions::from_mode(0o777)).unwrap();
    let ran = copy(&host).arg(contents(&source)).arg(host.at("tree")).run_to(3);
    assert_eq!(fs::read(user.home().join("tree/free")).unwrap(), b"y");
    let failures = ran.report["failures"].as_array().unwrap();
    let names: Vec<_> = failures.iter().filter_map(|failure| failure["path"].as_str()).collect();
    assert!(names.contains(&"closed/file") && names.contains(&"pipe"), "{:#}", ran.report);
}

#[test]
fn one_session_for_each_connection_and_few_strangers_are_enough() {
    let place = place();
    let host = server(&["MaxSessions 1", "MaxStartups 3:100:3"]);
    let (source, target) = (tree(&place.path().join("source")), place.path().join("target"));
    file(&source.join("larger"), 40_000_000);
    copy(&host).options("--lanes 8").arg(contents(&source)).arg(host.at(&target)).run_to(0);
    assert_rsync_agrees(&source, &target, &[]);
}
