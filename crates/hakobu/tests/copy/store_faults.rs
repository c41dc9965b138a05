//! Object stores that fail, are none, or get what cannot be read again.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use hakobu_testkit::devices::LoopDevice;
use hakobu_testkit::http::{ScriptedAnswer, ScriptedServer};
use hakobu_testkit::sshd::no_root;
use hakobu_testkit::stores::StoreServer;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::*;

/// A server with a bucket, and a directory for the state and for files.
fn server() -> (TempDir, StoreServer) {
    let server = StoreServer::versitygw().unwrap();
    server.make_bucket("bucket").unwrap();
    (place(), server)
}

/// Returns the program with credentials for a server at `endpoint`.
fn hakobu(place: &TempDir, endpoint: &str, line: &[&str]) -> Command {
    let mut command = Command::new(HAKOBU);
    command.args(line).current_dir(place.path()).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, value) in [
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "testtest"),
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_REGION", "us-east-1"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_CONFIG_FILE", "/dev/null"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
        ("HAKOBU_SETTINGS", "none"),
        ("LC_ALL", "C"),
    ] {
        command.env(name, value);
    }
    command.env("HAKOBU_STATE", place.path().join("state"));
    command
}

#[track_caller]
fn ended(output: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

#[test]
fn a_short_stream_is_stored_once() {
    let (place, server) = server();
    for content in ["hello\n", ""] {
        let mut running = hakobu(&place, &server.endpoint, &["copy", "-", "s3://bucket/stream"])
            .stdin(Stdio::piped())
            .spawn();
        let mut stdin = running.as_mut().unwrap().stdin.take().unwrap();
        stdin.write_all(content.as_bytes()).unwrap();
        drop(stdin);
        ended(&running.unwrap().wait_with_output().unwrap(), 0);
        let back = hakobu(&place, &server.endpoint, &["copy", "s3://bucket/stream", "-"]).output().unwrap();
        ended(&back, 0);
        assert_eq!(String::from_utf8_lossy(&back.stdout), content);
    }
}

#[test]
fn a_disk_is_stored_as_an_image_and_returns() {
    if no_root() {
        return;
    }
    let (place, server) = server();
    let device = LoopDevice::new(20 << 20).unwrap();
    let content = fs::read(file(&place.path().join("content"), 9_000_001)).unwrap();
    fs::File::options().write(true).open(device.path()).unwrap().write_all(&content).unwrap();
    let from = device.path().to_str().unwrap();
    let run = |line: &[&str]| {
        ended(&hakobu(&place, &server.endpoint, line).output().unwrap(), 0);
    };
    run(&["copy", from, "s3://bucket/disk.img"]);
    run(&["verify", from, "s3://bucket/disk.img"]);
    run(&["copy", "s3://bucket/disk.img", "back.img"]);
    assert!(fs::read(device.path()).unwrap() == fs::read(place.path().join("back.img")).unwrap());
}

#[test]
fn a_store_that_stops_answering_is_given_up_after_the_time_that_was_said() {
    let (place, server) = server();
    fs::write(place.path().join("file"), "content").unwrap();
    let proxy = ScriptedServer::start(Some(server.port()), |request| match request.method.as_str() {
        "PUT" => ScriptedAnswer::Cut(Vec::new()),
        _ => ScriptedAnswer::Forward,
    })
    .unwrap();
    let line = ["copy", "--retry-for", "1s", "file", "s3://bucket/"];
    let begun = Instant::now();
    let said = ended(&hakobu(&place, &proxy.endpoint, &line).output().unwrap(), 1);
    // It was five minutes.
    assert!(begun.elapsed() < Duration::from_secs(120), "{said}");
    assert!(said.contains("check the endpoint and the network"), "{said}");
    let puts = proxy.requests().iter().filter(|request| request.method == "PUT").count();
    assert!(puts > 1, "it is repeated: {puts}");
}

#[test]
fn a_report_tells_what_the_store_has_checked() {
    let (place, server) = server();
    fs::write(place.path().join("file"), "content").unwrap();
    let verified = |line: &[&str]| {
        ended(&hakobu(&place, &server.endpoint, line).output().unwrap(), 0);
        let report: Value = serde_json::from_slice(&fs::read(place.path().join("report")).unwrap()).unwrap();
        (report["verified"].clone(), report["requests"]["target"]["unchecked"].clone(), report)
    };
    let (wire, none) = (json!("wire"), json!("none"));
    // Its other name is not copied, so no link is lost.
    fs::hard_link(place.path().join("file"), place.path().join("other")).unwrap();
    let line = ["copy", "--report", "report", "--require", "hardlinks", "file", "s3://bucket/"];
    let (told, unchecked, report) = verified(&line);
    assert_eq!(report["losses"], json!([]), "{report:#}");
    assert_eq!((told, unchecked), (wire.clone(), json!(0)), "{report:#}");
    let (told, ..) = verified(&["copy", "--report", "report", "--verify", "none", "file", "s3://bucket/b"]);
    assert_eq!(told, none);
    let (.., report) = verified(&["copy", "--report", "report", "s3://bucket/file", "s3://bucket/c"]);
    let reason = report["digest_blake3_reason"].as_str().unwrap();
    assert!(reason.contains("the store copied it by itself"), "{report:#}");
}

#[test]
fn a_directory_that_is_left_to_the_next_run_is_not_counted_as_changed() {
    let (place, server) = server();
    // The server cannot replace an object with so long a name.
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("l".repeat(254)), "content").unwrap();
    let key = format!("s3://bucket/d/{}", "l".repeat(254));
    let name = place.path().join("file");
    fs::write(&name, "other content").unwrap();
    ended(&hakobu(&place, &server.endpoint, &["copy", "file", &key]).output().unwrap(), 0);
    fs::set_permissions(&tree, fs::Permissions::from_mode(0o700)).unwrap();
    let line = ["copy", "--report", "report", "--itemize", "tree/", "s3://bucket/d"];
    let output = hakobu(&place, &server.endpoint, &line).output().unwrap();
    let said = ended(&output, 3);
    assert!(said.contains("cannot replace one with so long a name; rename it"), "{said}");
    let report: Value = serde_json::from_slice(&fs::read(place.path().join("report")).unwrap()).unwrap();
    assert_eq!(report["entries"]["attributes_only"], 0, "{report:#}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("attributes"));
}

#[test]
fn buckets_of_one_name_in_two_stores_are_two_targets() {
    let (place, server) = server();
    let (_other, second) = self::server();
    fs::write(place.path().join("file"), "content").unwrap();
    let job = |endpoint: &str, line: [&str; 2]| {
        let line = [&["copy", "--report", "report"], &line[..]].concat();
        ended(&hakobu(&place, endpoint, &line).output().unwrap(), 0);
        let report: Value = serde_json::from_slice(&fs::read(place.path().join("report")).unwrap()).unwrap();
        report["job"].as_str().unwrap().to_owned()
    };
    for line in [["file", "s3://bucket/d/"], ["s3://bucket/d/file", "back"]] {
        let one = job(&server.endpoint, line);
        assert_eq!(one, job(&server.endpoint, line));
        assert_ne!(one, job(&second.endpoint, line), "{line:?}");
    }
}

#[test]
fn a_whole_bucket_is_equal_to_what_was_copied_into_it() {
    let (place, server) = server();
    fs::create_dir_all(place.path().join("tree/sub")).unwrap();
    fs::write(place.path().join("tree/sub/file"), "content").unwrap();
    for line in [["copy", "tree/", "s3://bucket"], ["verify", "tree/", "s3://bucket"]] {
        ended(&hakobu(&place, &server.endpoint, &line).output().unwrap(), 0);
    }
    ended(&hakobu(&place, &server.endpoint, &["verify", "s3://bucket/", "tree"]).output().unwrap(), 0);
}

#[test]
fn a_listing_shows_no_attributes_that_it_does_not_have() {
    let (place, server) = server();
    fs::create_dir(place.path().join("tree")).unwrap();
    fs::write(place.path().join("tree/file"), "content").unwrap();
    ended(&hakobu(&place, &server.endpoint, &["copy", "tree", "s3://bucket/"]).output().unwrap(), 0);
    let ls = |line: &[&str]| {
        let output = hakobu(&place, &server.endpoint, line).output().unwrap();
        ended(&output, 0);
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(ls(&["ls", "-l", "s3://bucket/tree"]).starts_with("-?????????  ?  ?  7  "));
    assert!(ls(&["ls", "-l", "s3://bucket/"]).starts_with("d?????????  ?  ?  "));
    let json: Value = serde_json::from_str(&ls(&["ls", "--json", "s3://bucket/tree"])).unwrap();
    assert_eq!((&json["mode"], &json["uid"], &json["owner"]), (&Value::Null, &Value::Null, &Value::Null));
    assert!(ls(&["ls", "-l", "s3://bucket/tree/file"]).starts_with("-rw"), "a single object is asked for");
}

#[test]
fn a_server_that_is_no_store_gets_one_line() {
    let place = place();
    fs::write(place.path().join("file"), "content").unwrap();
    for (status, headers, page) in [
        (200, &[][..], "<!DOCTYPE html><html><p>Console"),
        (404, &[], "not found"),
        (301, &["Location: /bucket/"], ""),
    ] {
        let server =
            ScriptedServer::start(None, move |_| ScriptedAnswer::with(status, headers, page)).unwrap();
        for line in [&["ls", "s3://bucket"][..], &["copy", "file", "s3://bucket/"]] {
            let said = ended(&hakobu(&place, &server.endpoint, line).output().unwrap(), 1);
            let errors: Vec<_> = said.lines().filter(|line| !line.starts_with("note: ")).collect();
            assert!(errors.len() == 1 && errors[0].contains("the endpoint must be that of"), "{said}");
        }
    }
}
