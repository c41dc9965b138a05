//! Azure Blob Storage as an end of a copy, with Azurite.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use hakobu_testkit::http::{ScriptedAnswer, ScriptedServer};
use hakobu_testkit::stores::StoreServer;
use hakobu_testkit::tree_difference::compare;
use rustix::process::Signal;
use tempfile::TempDir;

use super::fidelity::set;
use crate::program::*;

/// A directory to run in, and a server whose credentials are in the environment.
struct AzureSurroundings {
    at: TempDir,
    server: StoreServer,
}

impl AzureSurroundings {
    fn new() -> Self {
        let server = StoreServer::azurite().unwrap();
        server.make_bucket("container").unwrap();
        Self { at: place(), server }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.at.path().join(name)
    }

    fn run(&self, verb: &str, options: &str) -> Copy {
        let mut command = Command::new(HAKOBU);
        let is_of_vendor = |name: &std::ffi::OsString| name.as_encoded_bytes().starts_with(b"AZURE_");
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_vendor(name)) {
            command.env_remove(name);
        }
        command.current_dir(self.at.path());
        Copy::verb(command, verb)
            .options(options)
            .env("AZURE_STORAGE_KEY", self.server.secret_key)
            .options("--endpoint")
            .arg(&self.server.endpoint)
    }
}

/// Fails unless both are equal in all that a store keeps. `except` names what differs.
#[track_caller]
fn assert_kept(source: &Path, target: &Path, except: impl Fn(&str) -> bool) {
    let differences = compare(source, target).unwrap();
    let shown: Vec<String> = differences.iter().map(ToString::to_string).filter(|it| !except(it)).collect();
    assert!(shown.is_empty(), "{} differences: {:#?}", shown.len(), &shown[..shown.len().min(9)]);
}

fn is_of_links(difference: &str) -> bool {
    difference.contains("link") || difference.contains("extended")
}

#[test]
fn a_nasty_tree_returns_from_azure() {
    let all = AzureSurroundings::new();
    let source = tree(&all.path("source"));
    let first = all.run("copy", "").args([contents(&source), "az://container/at/home".into()]).run_to(0);
    assert!(first.entries("created") > 300);
    let again = all.run("copy", "").args([contents(&source), "az://container/at/home".into()]).run_to(0);
    assert_eq!((again.entries("created"), again.entries("updated")), (0, 0), "{:#}", again.report);
    all.run("copy", "").args(["az://container/at/home/", "back"]).run_to(0);
    assert_kept(&source, &all.path("back"), is_of_links);
    let again = all.run("copy", "").args(["az://container/at/home/", "back"]).run_to(0);
    assert_eq!((again.entries("created"), again.entries("updated")), (0, 0), "{:#}", again.report);
    all.run("verify", "").args([contents(&source), "az://container/at/home".into()]).run_to(0);
}

#[test]
fn a_directory_that_is_named_returns_with_all_its_attributes() {
    let all = AzureSurroundings::new();
    let source = all.path("source");
    fs::create_dir(&source).unwrap();
    file(&source.join("a"), 10);
    // Too large for the metadata of its object. What holds them is in the directory itself.
    set(&source, "user.large", &[7; 16 << 10]);
    all.run("copy", "").args([contents(&source), "az://container/at/home".into()]).run_to(0);
    fs::create_dir(all.path("back")).unwrap();
    all.run("copy", "").args(["az://container/at/home", "back"]).run_to(0);
    assert_kept(&source, &all.path("back/home"), |_| false);
    all.run("verify", "").args(["az://container/at/home", "back"]).run_to(0);
}

#[test]
fn what_is_gone_from_the_source_goes_from_azure() {
    let all = AzureSurroundings::new();
    let source = all.path("source");
    for directory in ["kept", "gone/deep/deeper", "gone/empty"] {
        fs::create_dir_all(source.join(directory)).unwrap();
    }
    for name in ["kept/a", "gone/b", "gone/deep/c", "gone/deep/deeper/d"] {
        fs::write(source.join(name), name).unwrap();
    }
    let sync = || {
        all.run("sync", "--delete --max-delete 100")
            .args([contents(&source), "az://container/at".into()])
            .run_to(0)
    };
    sync();
    fs::remove_dir_all(source.join("gone")).unwrap();
    // A file where a directory was.
    fs::write(source.join("gone"), "file").unwrap();
    sync();
    all.run("copy", "").args(["az://container/at/", "back"]).run_to(0);
    assert_kept(&source, &all.path("back"), is_of_links);
    fs::remove_file(source.join("gone")).unwrap();
    fs::create_dir(source.join("gone")).unwrap();
    sync();
    let last = sync();
    assert_eq!((last.entries("created"), last.entries("updated")), (0, 0), "{:#}", last.report);
    fs::remove_dir_all(all.path("back")).unwrap();
    all.run("copy", "").args(["az://container/at/", "back"]).run_to(0);
    assert_kept(&source, &all.path("back"), is_of_links);
}

#[test]
fn between_containers_of_an_account_no_content_comes_here() {
    let all = AzureSurroundings::new();
    all.server.make_bucket("other").unwrap();
    let source = tree(&all.path("source"));
    let large = file(&source.join("large object"), 30 << 20);
    fs::set_permissions(&large, fs::Permissions::from_mode(0o640)).unwrap();
    all.run("copy", "").args([contents(&source), "az://container/at".into()]).run_to(0);
    let copy = || all.run("copy", "").args(["az://container/at/", "az://other/deep/place"]).run_to(0);
    let ran = copy();
    let requests = |side: &str, kind: &str| ran.report["requests"][side][kind].as_u64().unwrap();
    assert!(
        requests("source", "get") == 0 && requests("source", "received_bytes") < 4 << 20,
        "{:#}",
        ran.report
    );
    assert!(requests("target", "copy") > 200, "{:#}", ran.report);
    let again = copy();
    assert_eq!((again.entries("created"), again.entries("updated")), (0, 0), "{:#}", again.report);
    all.run("copy", "").args(["az://other/deep/place/", "back"]).run_to(0);
    assert_kept(&source, &all.path("back"), is_of_links);
    all.run("verify", "").args([contents(&source), "az://other/deep/place".into()]).run_to(0);
    // A copy has the type of the source.
    let typed = all
        .run("copy", "--content-type text/plain")
        .args(["az://container/at/large object", "az://other/typed"])
        .run_to(0);
    assert!(typed.report["requests"]["source"]["get"].as_u64().unwrap() > 0, "{:#}", typed.report);
}

/// Another tool's blobs have no time, and a blob may have the name of a directory.
#[test]
fn blobs_of_other_tools_are_copied_in_the_store_once() {
    let all = AzureSurroundings::new();
    all.server.make_bucket("other").unwrap();
    for name in ["x", "x/y", "x/z/deeper", "plain"] {
        put_blob(&all.server, &format!("container/{name}"), name);
    }
    // Times of uploads are known to the second.
    std::thread::sleep(std::time::Duration::from_secs(4));
    let copy = || all.run("copy", "").args(["az://container/", "az://other/"]).run_to(0);
    let ran = copy();
    assert_eq!(ran.report["requests"]["target"]["copy"], 4, "{:#}", ran.report);
    let again = copy();
    assert_eq!((again.entries("created"), again.entries("updated")), (0, 0), "{:#}", again.report);
    put_blob(&all.server, "container/x", "y");
    assert_eq!(copy().entries("updated"), 1);
}

/// Stores a blob as a program does that knows nothing of hakobu.
fn put_blob(server: &StoreServer, path: &str, content: &str) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let (account, sas) = (server.access_key, StoreServer::AZURITE_SAS);
    write!(
        stream,
        "PUT /{account}/{path}?{sas} HTTP/1.1\r\nHost: localhost\r\nx-ms-blob-type: BlockBlob\r\n\
        Content-Length: {}\r\nConnection: close\r\n\r\n{content}",
        content.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

/// The store asks the source for its blob with the target's credentials.
#[test]
fn a_refused_copy_in_the_store_is_said_and_streamed() {
    let all = AzureSurroundings::new();
    all.server.make_bucket("other").unwrap();
    let source = all.path("source");
    fs::create_dir(&source).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(source.join(name), name).unwrap();
    }
    all.run("copy", "").args([contents(&source), "az://container/at".into()]).run_to(0);
    let server =
        ScriptedServer::start(Some(all.server.port()), |request| match request.header("x-ms-copy-source") {
            Some(_) => ScriptedAnswer::with(403, &["x-ms-error-code: CannotVerifyCopySource"], ""),
            None => ScriptedAnswer::Forward,
        })
        .unwrap();
    let mut command = Command::new(HAKOBU);
    command.current_dir(all.at.path());
    let ran = Copy::verb(command, "copy")
        .env("AZURE_STORAGE_KEY", all.server.secret_key)
        .options("--endpoint")
        .arg(format!("{}/devstoreaccount1", server.endpoint))
        .args(["az://container/at/", "az://other/at"])
        .run_to(0);
    assert_eq!(ran.entries("created"), 4, "{:#}", ran.report);
    let words = |event: &serde_json::Value| event["words"].as_str().unwrap_or_default().to_owned();
    let said = ran.events.iter().filter(|it| words(it).contains("does not copy these objects by itself"));
    assert_eq!(said.count(), 1, "{:#?}", ran.events);
    let asked = server.requests().iter().filter(|it| it.header("x-ms-copy-source").is_some()).count();
    assert_eq!(asked, 1);
}

#[test]
fn a_large_object_goes_on_after_a_kill() {
    const BYTES: u64 = 200 << 20;
    let all = AzureSurroundings::new();
    let source = file(&all.path("large"), BYTES);
    let copy = |options: &str| all.run("copy", options).arg(&source).arg("az://container/large");
    let mut running = copy("--bwlimit 40M").start();
    running.wait_until_under_way();
    std::thread::sleep(std::time::Duration::from_millis(3500));
    running.signal(Signal::KILL);
    assert_ne!(running.end().code, Some(0));
    let ran = copy("").run_to(0);
    let sent = ran.report["requests"]["target"]["sent_bytes"].as_u64();
    // At least one part was there.
    assert!(sent.is_some_and(|sent| sent < BYTES - (4 << 20)), "{:#}", ran.report);
    assert_eq!(ran.report["resumed"], true);
    all.run("copy", "").args(["az://container/large", "back"]).run_to(0);
    assert!(fs::read(&source).unwrap() == fs::read(all.path("back")).unwrap());
}

#[test]
fn what_keeps_a_container_closed_is_said_with_the_remedy() {
    let all = AzureSurroundings::new();
    fs::write(all.path("file"), "content").unwrap();
    let ended = |line: &str, (name, value): (&str, &str)| {
        let mut command = Command::new(HAKOBU);
        command.args(line.split(' ')).arg("--endpoint").arg(&all.server.endpoint).current_dir(all.at.path());
        command.env("HAKOBU_SETTINGS", "none").env("HAKOBU_STATE", all.path("state"));
        command.env("AZURE_STORAGE_KEY", all.server.secret_key).env(name, value);
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let nothing = ("AZURE_UNUSED", "");
    for (line, change, code, words) in [
        ("ls az://missing", nothing, 1, "the container missing does not exist"),
        ("copy file az://missing/x", nothing, 1, "the container missing does not exist"),
        ("copy az://container/missing x", nothing, 1, "no such file or directory"),
        ("ls az://container", ("AZURE_STORAGE_KEY", "a2V5"), 1, "check AZURE_STORAGE_KEY"),
        ("ls --no-sign-request az://container", nothing, 1, "leave out --no-sign-request"),
        ("ls --region eu az://container", nothing, 2, "Azure has no --region; leave it out"),
        ("copy --sse AES256 file az://container", nothing, 2, "Azure has no --sse; leave it out"),
        ("ls az://container@other", nothing, 2, "the endpoint is that of the account devstoreaccount1"),
    ] {
        let (ended, err) = ended(line, change);
        assert!(ended == code && err.contains(words), "{line}: {ended} {err}");
        assert_eq!(err.lines().filter(|line| line.starts_with("error")).count(), 1, "{err}");
    }
}
