//! The requests that a plan predicts, and those that the run after it sends, with real servers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use hakobu_testkit::stores::StoreServer;
use serde_json::Value;
use tempfile::TempDir;

use crate::program::*;

/// The small files of the tree.
const SMALL: usize = 1000;
/// The bodies of a request besides content, at most: a document with metadata, or the answer that shows one object.
const BODY_BYTES: u64 = 4096;

/// The age from which on it is certain that a file is older than its upload, whose time S3 lists in seconds.
const OLDER: Duration = Duration::from_secs(4);

/// A store of one kind with two buckets.
struct PricedStore {
    at: TempDir,
    server: StoreServer,
    scheme: &'static str,
}

impl PricedStore {
    fn new(scheme: &'static str, server: StoreServer) -> Self {
        for bucket in ["media", "second"] {
            server.make_bucket(bucket).unwrap();
        }
        Self { at: place(), server, scheme }
    }

    fn url(&self, path: &str) -> String {
        format!("{}://{path}", self.scheme)
    }

    fn run(&self, verb: &str, options: &str, from: &str, to: &str) -> Value {
        let mut command = Command::new(HAKOBU);
        for (name, _) in std::env::vars_os() {
            let is_of_vendor =
                [&b"AWS_"[..], b"AZURE_"].iter().any(|vendor| name.as_encoded_bytes().starts_with(vendor));
            if is_of_vendor {
                command.env_remove(name);
            }
        }
        command.current_dir(self.at.path()).env("STORAGE_EMULATOR_HOST", &self.server.endpoint);
        let copy = Copy::verb(command, verb)
            .options(options)
            .env("HAKOBU_STATE", self.at.path().join("state"))
            .env("AWS_ACCESS_KEY_ID", self.server.access_key)
            .env("AWS_SECRET_ACCESS_KEY", self.server.secret_key)
            .env("AWS_ENDPOINT_URL", &self.server.endpoint)
            .env("AWS_REGION", "us-east-1")
            .env("AZURE_STORAGE_ACCOUNT", self.server.access_key)
            .env("AZURE_STORAGE_KEY", self.server.secret_key);
        let copy = match self.scheme {
            "az" => copy.options("--endpoint").arg(&self.server.endpoint),
            _ => copy,
        };
        copy.args([from, to]).run_to(0).report["requests"].clone()
    }

    /// Runs a plan and then the run, and compares what both say. `unseen`: PUT requests that no plan can know.
    fn assert_planned(&self, (verb, options): (&str, &str), (from, to): (&str, &str), unseen: u64) {
        let planned = self.run(verb, &format!("-n {options}"), from, to);
        let used = self.run(verb, options, from, to);
        let copied = self.scheme == "s3" && !used["source"].is_null() && used["target"]["copy"] != 0;
        for end in ["source", "target"] {
            if used[end].is_null() {
                assert!(planned[end].is_null() && planned[&format!("planned_{end}")].is_null());
                continue;
            }
            let plan = &planned[&format!("planned_{end}")];
            let expected =
                |kind: &str| planned[end][kind].as_u64().unwrap_or(0) + plan[kind].as_u64().unwrap_or(0);
            let used = |kind: &str| used[end][kind].as_u64().unwrap_or(0);
            let told = format!("{verb} {options} {from} {to}, {end}: {planned:#} {:#}", used("put"));
            // The server keeps the time of upload of an object that it copies onto itself, which is then copied in parts.
            let again = if self.scheme == "s3" { expected("copy") } else { 0 };
            for (kind, unseen, again) in
                [("get", 0, 0), ("put", unseen, 2 * again), ("copy", 0, again), ("delete", 0, 0)]
            {
                let least = expected(kind) + unseen;
                assert!((least..=least + again).contains(&used(kind)), "{kind}: {} of {told}", used(kind));
            }
            // S3 is asked for fewer objects that it copies if a directory has many of them and no sidecars.
            let spared = if (end, copied) == ("source", true) { expected("head") } else { 0 };
            for (kind, more, fewer) in [("list", spared / 8, 0), ("head", 0, spared)] {
                let within = expected(kind).saturating_sub(fewer + 4)..=expected(kind) + more + 4;
                let is_within = within.contains(&used(kind));
                assert!(is_within, "{kind}: {} instead of {} of {told}", used(kind), expected(kind));
            }
            let requests =
                ["list", "head", "get", "put", "copy", "delete"].map(used).into_iter().sum::<u64>();
            for (kind, of_listings) in [("sent_bytes", 0), ("received_bytes", used("list") << 20)] {
                let content = plan[kind].as_u64().unwrap_or(0);
                let most = content + requests * BODY_BYTES + of_listings;
                let is_within = (content..=most).contains(&used(kind));
                assert!(is_within, "{kind}: {}, not {content} to {most} of {told}", used(kind));
            }
        }
    }
}

fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

/// Makes a tree of small files, three large ones, links and an empty directory.
fn make_tree(root: &Path) {
    for index in 0..SMALL {
        let directory = root.join(format!("d{}/e{}", index % 10, index % 3));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("f{index}")), vec![index as u8; index % 500]).unwrap();
    }
    for (name, bytes) in [("a", 20 << 20), ("b", 37 << 20), ("c", 9_000_000)] {
        set_time(&file(&root.join(name), bytes), 1_700_000_000);
    }
    fs::create_dir(root.join("empty")).unwrap();
    fs::hard_link(root.join("d1/e1/f1"), root.join("d1/linked")).unwrap();
    std::os::unix::fs::symlink("d2", root.join("link")).unwrap();
}

/// Makes a change of each kind.
fn change(root: &Path) {
    let at = |path: &str| root.join(path);
    for index in 0..20 {
        fs::write(at(&format!("d1/e1/new{index}")), "new").unwrap();
    }
    for gone in ["d5/e2/f5", "d5/e0/f15", "d2/e2/f2"] {
        fs::remove_file(at(gone)).unwrap();
    }
    fs::remove_dir_all(at("d7/e2")).unwrap();
    for (path, mode) in [("d3/e0/f3", 0o600), ("a", 0o640), ("d4", 0o700)] {
        fs::set_permissions(at(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::write(at("d6/e0/f6"), "other content").unwrap();
    fs::remove_file(at("b")).unwrap();
    set_time(&file(&at("b"), 25 << 20), 1_700_000_001);
    fs::hard_link(at("d8/e2/f8"), at("d8/again")).unwrap();
    fs::remove_file(at("link")).unwrap();
    std::os::unix::fs::symlink("d3", at("link")).unwrap();
}

fn predict(store: &PricedStore, lacks_parts: bool) {
    // Such a server is asked once whether it knows uploads in parts.
    let asked = u64::from(lacks_parts);
    let tree = store.at.path().join("tree");
    make_tree(&tree);
    std::thread::sleep(OLDER);
    let (media, second) = (store.url("media/tree"), store.url("second/tree"));
    let (contents, of_media) = ("tree/", format!("{media}/"));
    store.assert_planned(("copy", ""), (contents, &media), asked);
    store.assert_planned(("copy", ""), (contents, &media), 0);
    change(&tree);
    std::thread::sleep(OLDER);
    store.assert_planned(("sync", "--delete"), (contents, &media), asked);
    // Links that are not clearly younger than their upload are read.
    std::thread::sleep(OLDER);
    store.assert_planned(("copy", ""), (&of_media, "back"), 0);
    store.assert_planned(("copy", ""), (&of_media, "back"), 0);
    store.assert_planned(("copy", ""), (&of_media, &second), 0);
    store.assert_planned(("sync", "--delete"), (&of_media, &second), 0);
}

#[test]
fn a_plan_tells_the_requests_to_s3() {
    predict(&PricedStore::new("s3", StoreServer::versitygw().unwrap()), false);
}

#[test]
fn a_plan_tells_the_requests_to_azure() {
    predict(&PricedStore::new("az", StoreServer::azurite().unwrap()), false);
}

#[test]
fn a_plan_tells_the_requests_to_google() {
    predict(&PricedStore::new("gs", StoreServer::fake_gcs().unwrap()), true);
}
