//! Probes of object stores.

use std::fs;
use std::process::{Command, Stdio};

use hakobu_testkit::stores::StoreServer;
use serde_json::Value;

use crate::program::*;

/// Runs `probe --json` with a bucket at versitygw; returns the exit code, the object and standard error.
fn probe(at: &std::path::Path, server: &StoreServer, line: &str) -> (i32, Value, String) {
    let mut command = Command::new(HAKOBU);
    command.args(["probe", "--json"]).args(line.split(' ')).current_dir(at).stdin(Stdio::null());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"AWS_")) {
        command.env_remove(name);
    }
    command
        .env("HOME", at)
        .env("HAKOBU_SETTINGS", "none")
        .env("HAKOBU_STATE", at.join("state"))
        .env("AWS_ACCESS_KEY_ID", server.access_key)
        .env("AWS_SECRET_ACCESS_KEY", server.secret_key)
        .env("AWS_ENDPOINT_URL", &server.endpoint)
        .env("AWS_REGION", "us-east-1");
    let output = command.output().unwrap();
    let shown = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code().unwrap(), shown, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_store_is_measured_and_the_requests_of_a_copy_are_counted() {
    let server = StoreServer::versitygw().unwrap();
    server.make_bucket("bucket").unwrap();
    let at = place();
    let tree = at.path().join("tree");
    fs::create_dir_all(tree.join("sub")).unwrap();
    for name in ["a", "b", "sub/c"] {
        fs::write(tree.join(name), name).unwrap();
    }
    file(&tree.join("large"), 20 << 20);
    let (code, new, err) = probe(at.path(), &server, "tree/ s3://bucket/new");
    assert_eq!(code, 0, "{err}");
    let requests = &new["requests"];
    // The large file has three parts, and there are two directories.
    assert_eq!(
        (&requests["planned_target"]["put"], &requests["complete"]),
        (&10.into(), &true.into()),
        "{new:#}"
    );
    assert_eq!((&new["target_store"]["tree"], &requests["error"]), (&Value::Null, &Value::Null), "{new:#}");
    assert!(fs::read_dir(server.data().join("bucket")).unwrap().next().is_none(), "something was written");
    // The server finds what is in its folder.
    let there = server.data().join("bucket/there");
    assert!(Command::new("cp").arg("-r").arg(&tree).arg(&there).status().unwrap().success());
    let (code, back, err) = probe(at.path(), &server, "s3://bucket/there/ back");
    assert_eq!(code, 0, "{err}");
    let store = &back["source_store"];
    assert_eq!((&store["tree"]["files"], &store["tree"]["directories"]), (&4.into(), &1.into()), "{back:#}");
    assert_eq!((&store["tls"], &store["tree"]["complete"]), (&false.into(), &true.into()), "{back:#}");
    for rate in ["request_seconds", "small_objects_per_second", "bytes_per_second"] {
        assert!(store[rate].as_f64() > Some(0.0), "{rate}: {back:#}");
    }
    assert_eq!((&store["sent"]["put"], &store["sent"]["delete"]), (&0.into(), &0.into()));
    // Two ranges.
    assert_eq!(back["requests"]["planned_source"]["get"], 3 + 2, "{back:#}");
    assert!(!at.path().join("back").exists());
    let (code, one, err) = probe(at.path(), &server, "s3://bucket/there/large");
    assert_eq!(code, 0, "{err}");
    let store = &one["target_store"];
    assert!(store["bytes_per_second"].as_f64() > Some(0.0) && store["tree"].is_null(), "{one:#}");
    assert!(one["requests"].is_null());
}

#[test]
fn what_cannot_be_probed_with_a_store_is_said_in_one_line() {
    let server = StoreServer::versitygw().unwrap();
    server.make_bucket("bucket").unwrap();
    let at = place();
    for (line, words) in [
        ("host:/data s3://bucket/x", "probe the other host by itself"),
        ("- s3://bucket/x", "a stream gives nothing to measure"),
        ("s3://missing/x", "the bucket missing does not exist"),
        ("memory://x back", "this is neither"),
    ] {
        let (code, _, err) = probe(at.path(), &server, line);
        assert!(code == 1 && err.contains(words), "{line}: {code} {err}");
    }
    let (code, shown, err) = probe(at.path(), &server, "missing s3://bucket/x");
    assert_eq!(code, 0, "{err}");
    assert!(shown["requests"]["error"].is_object(), "{shown:#}");
}
