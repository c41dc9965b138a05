//! Everything about an entry goes into a bucket and returns. A manifest of standard tools and rsync check that.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hakobu_testkit::sshd::no_root;
use hakobu_testkit::stores::StoreServer;
use tempfile::TempDir;

use super::fidelity::{access_list, assert_equal, change, nasty, rsync_finds, set, stamp};
use crate::program::*;

/// A server with a bucket, and a directory for trees.
struct BucketServer {
    place: TempDir,
    server: StoreServer,
}

impl BucketServer {
    fn start() -> Self {
        let server = StoreServer::versitygw().unwrap();
        server.make_bucket("bucket").unwrap();
        Self { place: place(), server }
    }

    fn with(&self, copy: Copy) -> Copy {
        copy.env("AWS_ACCESS_KEY_ID", self.server.access_key)
            .env("AWS_SECRET_ACCESS_KEY", self.server.secret_key)
            .env("AWS_ENDPOINT_URL", &self.server.endpoint)
            .env("AWS_REGION", "us-east-1")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_CONFIG_FILE", "/dev/null")
            .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
            .env("HAKOBU_STATE", self.place.path().join("state"))
    }

    fn copy(&self) -> Copy {
        self.with(Copy::new()).options("--allow setuid,devices")
    }

    fn sync(&self) -> Copy {
        self.with(Copy::sync()).options("--delete --allow setuid,devices")
    }

    /// Returns the keys that begin with `prefix`.
    fn keys(&self, prefix: &str) -> Vec<String> {
        let data = self.server.data().join("bucket").join(prefix);
        let names = fs::read_dir(data).into_iter().flatten();
        names.map(|name| format!("{prefix}/{}", name.unwrap().file_name().to_string_lossy())).collect()
    }
}

/// Adds to a tree what only metadata of objects makes hard: what is too large for it, and files of several parts.
fn more(root: &Path) {
    let at = |name: &str| root.join(name);
    fs::create_dir(at("large ones")).unwrap();
    for name in ["large ones", "attributes/one", "attributes/two", "large"] {
        set(&at(name), "user.large", &[7; 60 * 1024]);
    }
    let parts = file(&at("large ones/parts"), 9 << 20);
    set(&parts, "user.of.parts", &[3; 5000]);
    access_list(&parts, "u:1234:rw");
    fs::hard_link(&parts, at("large ones/same parts")).unwrap();
    fs::hard_link(&parts, at("special/parts")).unwrap();
    stamp(&parts, -86_400);
    stamp(&at("large ones"), -1);
    stamp(&at("special"), 1_000_000_000);
}

/// Removes the checksum that the server keeps of an object.
fn forget_checksum(object: &Path) {
    let mut names = vec![0; 4096];
    let bytes = rustix::fs::listxattr(object, &mut names[..]).unwrap();
    let names =
        names[..bytes].split(|byte| *byte == 0).map(|name| String::from_utf8_lossy(name).into_owned());
    for name in names.filter(|name| name.to_lowercase().contains("checksum")) {
        rustix::fs::removexattr(object, name.as_str()).unwrap();
    }
}

fn unchanged(ran: &Ran) {
    let changed = ["created", "updated", "attributes_only", "deleted"].map(|what| ran.entries(what));
    assert_eq!(changed, [0; 4], "{:#}", ran.report);
}

#[test]
fn everything_goes_into_a_bucket_and_returns() {
    if no_root() {
        return;
    }
    let store = BucketServer::start();
    let [source, back] = ["source", "back"].map(|name| store.place.path().join(name));
    nasty(&source);
    more(&source);
    let there: OsString = "s3://bucket/a/tree/".into();
    let [up, down] = [[contents(&source), there.clone()], [there.clone(), back.clone().into_os_string()]];
    let ran = store.sync().args(&up).run_to(0);
    assert_eq!(ran.report["losses"].as_array().unwrap().len(), 0, "{:#}", ran.report);
    let sidecars = store.keys("a/tree/.hakobu.attributes");
    assert!((2..=6).contains(&sidecars.len()), "equal attributes share one: {sidecars:?}");
    let ran = store.sync().args(&down).run_to(0);
    assert_eq!(ran.report["losses"].as_array().unwrap().len(), 0, "{:#}", ran.report);
    assert_equal(&source, &back);
    assert_eq!(rsync_finds(&source, &back), "");
    for typed in [&up, &down] {
        unchanged(&store.sync().args(typed).run_to(0));
    }
    change(&source);
    for typed in [&up, &down] {
        store.sync().args(typed).run_to(0);
    }
    assert_equal(&source, &back);
    assert_eq!(rsync_finds(&source, &back), "");
    for typed in [&up, &down] {
        unchanged(&store.sync().args(typed).run_to(0));
    }
    // From any directory in it, what lies beside the entries is found above.
    let part = store.place.path().join("part");
    store.copy().args(["s3://bucket/a/tree/large ones/".into(), part.clone().into_os_string()]).run_to(0);
    assert_eq!(rsync_finds(&source.join("large ones"), &part), "");
}

#[test]
fn without_its_attributes_an_entry_fails() {
    if no_root() {
        return;
    }
    let store = BucketServer::start();
    let [source, back] = ["source", "back"].map(|name| store.place.path().join(name));
    fs::create_dir_all(source.join("sub")).unwrap();
    for name in ["plain", "listed", "sub/listed"] {
        file(&source.join(name), 10);
    }
    for name in ["listed", "sub/listed"] {
        set(&source.join(name), "user.large", &[1; 9000]);
        access_list(&source.join(name), "u:1234:---");
    }
    let typed = [contents(&source), "s3://bucket/x".into()];
    store.copy().args(&typed).run_to(0);
    let sidecars = store.keys("x/.hakobu.attributes");
    let [sidecar] = &sidecars[..] else { panic!("{sidecars:?}") };
    let file_of = store.server.data().join("bucket").join(sidecar);
    let content = fs::read(&file_of).unwrap();
    let name = sidecar.rsplit('/').next().unwrap();
    for change in ["damaged", "missing"] {
        match change {
            "damaged" => fs::write(&file_of, [&content[..content.len() - 1], b"?"].concat()).unwrap(),
            _ => fs::remove_file(&file_of).unwrap(),
        }
        let down = ["s3://bucket/x/".into(), back.clone().into_os_string()];
        let ran = store.copy().args(&down).run_to(3);
        let failures = ran.failures();
        let failed: Vec<&str> = failures.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(failed, ["listed", "sub/listed"], "{:#}", ran.report);
        ran.says(&["extended attributes", name, "no-xattr"]);
        assert!(back.join("plain").exists() && !back.join("listed").exists());
        // The remedies work.
        store.copy().options("--preserve no-xattr,no-acl").args(&down).run_to(0);
        fs::remove_dir_all(&back).unwrap();
    }
    let again = store.copy().options("--checksum").args(&typed).run_to(0);
    assert_eq!(again.entries("failed"), 0);
    fs::write(source.join("listed"), "other").unwrap();
    set(&source.join("listed"), "user.large", &[1; 9000]);
    store.copy().args(&typed).run_to(0);
    assert_eq!(fs::read(&file_of).unwrap(), content, "it is written with each entry that refers to it");
    store.copy().args(["s3://bucket/x/".into(), back.clone().into_os_string()]).run_to(0);
    assert_eq!(rsync_finds(&source, &back), "");
}

#[test]
fn names_of_one_file_return_as_such_and_others_do_not() {
    if no_root() {
        return;
    }
    let store = BucketServer::start();
    let [source, back] = ["source", "back"].map(|name| store.place.path().join(name));
    let at = |name: &str| source.join(name);
    fs::create_dir_all(at("sub")).unwrap();
    file(&at("a"), 3000);
    fs::hard_link(at("a"), at("sub/b")).unwrap();
    file(&at("once alone"), 400_000);
    let up = [contents(&source), "s3://bucket/x/".into()];
    let down: [OsString; 2] = ["s3://bucket/x/".into(), back.clone().into()];
    store.sync().args(&up).run_to(0);
    store.sync().args(&down).run_to(0);
    assert_eq!(rsync_finds(&source, &back), "");
    // Names that come later belong to the same file, at both ends.
    for (one, other) in [("a", "c"), ("once alone", "alone no more"), ("a", "sub/d")] {
        fs::hard_link(at(one), at(other)).unwrap();
        store.sync().args(&up).run_to(0);
        store.sync().args(&down).run_to(0);
        assert_eq!(rsync_finds(&source, &back), "", "{other}");
        unchanged(&store.sync().args(&up).run_to(0));
        unchanged(&store.sync().args(&down).run_to(0));
    }
    // A name that another program gave other content of the same size is a file of its own, whatever its metadata says.
    let object = store.server.data().join("bucket/x/sub/b");
    fs::write(&object, vec![9; 3000]).unwrap();
    forget_checksum(&object);
    fs::remove_dir_all(&back).unwrap();
    store.sync().args(&down).run_to(0);
    let inode = |name: &str| fs::metadata(back.join(name)).unwrap().ino();
    assert_eq!(fs::read(back.join("sub/b")).unwrap(), vec![9; 3000]);
    assert_ne!(inode("sub/b"), inode("a"));
    assert_eq!((inode("c"), inode("sub/d")), (inode("a"), inode("a")));
    assert_eq!(fs::read(back.join("a")).unwrap(), fs::read(at("a")).unwrap());
}
