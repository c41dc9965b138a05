//! Extended attributes that a store has lost: they are noticed, and written again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use hakobu_testkit::sshd::no_root;
use hakobu_testkit::stores::StoreServer;
use tempfile::TempDir;

use super::fidelity::{access_list, rsync_finds, set};
use super::store_links::StorePlace;
use crate::program::*;

/// The age from which on it is certain that a file is older than its upload, whose time S3 lists in seconds.
pub(super) const OLDER: Duration = Duration::from_secs(4);

/// A server with a bucket that has a copy of a tree with large extended attributes.
struct LossyStore {
    place: TempDir,
    server: StoreServer,
    tree: PathBuf,
}

impl LossyStore {
    fn start() -> Self {
        let server = StoreServer::versitygw().unwrap();
        server.make_bucket("bucket").unwrap();
        let place = place();
        let tree = place.path().join("tree");
        fs::create_dir_all(tree.join("sub/with")).unwrap();
        for name in ["plain", "listed", "sub/listed", "sub/other", "small"] {
            file(&tree.join(name), 10);
        }
        for (name, bytes) in [("listed", 9000), ("sub/listed", 9000), ("sub/other", 5000), ("sub/with", 3000)]
        {
            set(&tree.join(name), "user.large", &vec![1; bytes]);
        }
        set(&tree.join("small"), "user.small", &[1; 500]);
        sleep(OLDER);
        let store = Self { place, server, tree };
        store.up("copy").run_to(0);
        store
    }

    fn run(&self, verb: &str, typed: [&Path; 2]) -> Copy {
        let typed: Vec<std::ffi::OsString> = typed
            .map(|path| match path == self.tree {
                true => contents(path),
                false => path.as_os_str().to_owned(),
            })
            .into();
        Copy::verb(std::process::Command::new(HAKOBU), verb)
            .env("AWS_ACCESS_KEY_ID", self.server.access_key)
            .env("AWS_SECRET_ACCESS_KEY", self.server.secret_key)
            .env("AWS_ENDPOINT_URL", &self.server.endpoint)
            .env("AWS_REGION", "us-east-1")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_CONFIG_FILE", "/dev/null")
            .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
            .env("HAKOBU_STATE", self.place.path().join("state"))
            .args(typed)
    }

    /// Runs a verb from the tree to the bucket.
    fn up(&self, verb: &str) -> Copy {
        self.run(verb, [&self.tree, Path::new("s3://bucket/at/tree/")])
    }

    fn down(&self, verb: &str) -> Copy {
        self.run(verb, [Path::new("s3://bucket/at/tree/"), &self.tree])
    }

    /// Returns the files of the server with the sidecars, and what is in them.
    fn sidecars(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let folder = self.server.data().join("bucket/at/tree/.hakobu.attributes");
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }
}

/// Returns the paths whose extended attributes differ, and what is told of the target's.
fn differing(ran: &Ran) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let differences = ran.report["differences"].as_array().unwrap().iter();
    differences
        .map(|it| {
            assert_eq!(it["what"], "xattr", "{:#}", ran.report);
            (text(&it["path"]), text(&it["target_value"]))
        })
        .collect()
}

#[test]
fn a_lost_sidecar_is_noticed_from_both_sides_and_written_again() {
    if no_root() {
        return;
    }
    let store = LossyStore::start();
    let sidecars = store.sidecars();
    assert_eq!(sidecars.len(), 3);
    let (lost, content) = sidecars.iter().find(|(_, content)| content.len() > 9000).unwrap();
    let name = lost.file_name().unwrap().to_str().unwrap();
    for change in ["missing", "damaged", "shorter", "all missing"] {
        match change {
            "missing" => fs::remove_file(lost).unwrap(),
            "damaged" => fs::write(lost, [&content[..content.len() - 1], b"?"].concat()).unwrap(),
            "shorter" => fs::write(lost, b"").unwrap(),
            _ => fs::remove_dir_all(lost.parent().unwrap()).unwrap(),
        }
        let mut expected = vec!["listed", "sub/listed"];
        if change == "all missing" {
            expected.extend(["sub/other", "sub/with"]);
        }
        for options in ["", "--full"] {
            let found = store.up("verify").options(options).run_to(4);
            let found = differing(&found);
            assert_eq!(found.iter().map(|(path, _)| path).collect::<Vec<_>>(), expected, "{change}");
            let told = format!("missing or damaged .hakobu.attributes/{}*", &name[..16]);
            assert_eq!(found.iter().filter(|(_, value)| *value == told).count(), 2, "{change}: {found:?}");
        }
        let from_store = store.down("verify").run_to(3);
        assert_eq!(from_store.failures().len(), expected.len(), "{change}: {:#}", from_store.report);
        from_store.says(&[name]);
        // Listings prove all entries to be equal. One for each set of attributes is looked at.
        let planned = store.up("sync").options("-n").run_to(0);
        let ran = store.up("sync").run_to(0);
        let repaired = if change == "all missing" { 3 } else { 1 };
        let requests = |kind: &str| ran.report["requests"]["target"][kind].as_u64().unwrap_or(0);
        assert_eq!(requests("copy"), 0, "the entries themselves stay: {:#}", ran.report);
        let plan = |of: &str, kind: &str| planned.report["requests"][of][kind].as_u64().unwrap_or(0);
        for kind in ["head", "get", "copy"] {
            let expected = plan("target", kind) + plan("planned_target", kind);
            assert_eq!(requests(kind), expected, "{change}: {kind} {:#} {:#}", planned.report, ran.report);
        }
        assert_eq!(ran.entries("examined"), 3, "{change}: {:#}", ran.report);
        assert!(ran.entries("attributes_only") <= repaired, "{change}: {:#}", ran.report);
        assert_eq!(store.sidecars(), sidecars, "{change}");
        store.up("verify").run_to(0);
        store.down("verify").run_to(0);
        let again = store.up("sync").run_to(0);
        let changed = ["created", "updated", "attributes_only", "deleted"].map(|what| again.entries(what));
        assert_eq!(changed, [0; 4], "{change}: {:#}", again.report);
    }
}

#[test]
fn a_lost_sidecar_is_noticed_in_copies_between_stores() {
    if no_root() {
        return;
    }
    let store = LossyStore::start();
    let [from, to] = ["s3://bucket/at/tree/", "s3://bucket/copy/"].map(Path::new);
    store.run("copy", [from, to]).run_to(0);
    let copied = store.server.data().join("bucket/copy/.hakobu.attributes");
    assert_eq!(fs::read_dir(&copied).unwrap().count(), 3);
    fs::remove_dir_all(&copied).unwrap();
    assert_eq!(differing(&store.run("verify", [from, to]).run_to(4)).len(), 4);
    // Entries that the listings do not prove to be equal are repaired; the others say so when they are compared.
    fs::remove_dir_all(store.server.data().join("bucket/copy/sub")).unwrap();
    store.run("copy", [from, to]).run_to(0);
    let found = differing(&store.run("verify", [from, to]).run_to(0));
    assert!(found.is_empty(), "{found:?}");
    let back = store.place.path().join("back");
    store.run("copy", [to, &back]).run_to(0);
    assert_eq!(rsync_finds(&store.tree, &back), "");
    // The source has lost them, and the target has not.
    let lost = store.sidecars().swap_remove(0).0;
    fs::remove_file(&lost).unwrap();
    store.run("verify", [from, to]).run_to(3).says(&[lost.file_name().unwrap().to_str().unwrap()]);
}

/// Fails unless an access control list in the store follows a mode that changes without it.
fn check_lists(store: &StorePlace) {
    if no_root() {
        return;
    }
    let (tree, back) = (store.path("tree"), store.path("back"));
    let names = ["small", "large", "in/small", "in/large"];
    fs::create_dir_all(tree.join("in")).unwrap();
    for name in names {
        match name.starts_with("in") {
            true => drop(file(&tree.join(name), 10)),
            false => fs::create_dir_all(tree.join(name)).unwrap(),
        }
        access_list(&tree.join(name), "u:1000:rwx,u:1001:r,g:1002:rx,m::rwx");
        if name.ends_with("large") {
            set(&tree.join(name), "user.large", &[1; 3000]);
        }
    }
    let up = |options: &str| store.run("copy", options).args([contents(&tree), store.of("at")]).run_to(0);
    let down = || store.run("sync", "").args([store.of("at"), back.clone().into()]).run_to(0);
    up("");
    for name in names {
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(0o452)).unwrap();
    }
    up("--preserve no-acl");
    down();
    assert_eq!(rsync_finds(&tree, &back), "");
    assert_eq!(down().entries("attributes_only"), 0);
    assert_eq!(up("").entries("attributes_only"), 0);
    store.run("verify", "").args([store.of("at"), back.clone().into()]).run_to(0);
}

#[test]
fn a_list_in_s3_follows_a_mode_that_changes_without_it() {
    check_lists(&StorePlace::s3());
}

#[test]
fn a_list_in_azure_follows_a_mode_that_changes_without_it() {
    check_lists(&StorePlace::azure());
}

#[test]
fn a_list_in_gcs_follows_a_mode_that_changes_without_it() {
    check_lists(&StorePlace::gcs());
}
