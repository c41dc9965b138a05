//! Everything about an entry goes into a bucket and returns. A manifest of standard tools and rsync check that.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use hakobu_testkit::sshd::no_root;
use hakobu_testkit::stores::{StoreServer, store_client};
use tempfile::TempDir;

use super::fidelity::{access_list, assert_equal, change_alike, nasty, rsync_finds, set, stamp};
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
    assert_eq!(
        (ran.report["losses"].as_array().unwrap().len(), ran.lost("holes")),
        (1, 1),
        "{:#}",
        ran.report
    );
    let sidecars = store.keys("a/tree/.hakobu.attributes");
    assert!((2..=6).contains(&sidecars.len()), "equal attributes share one: {sidecars:?}");
    let ran = store.sync().args(&down).run_to(0);
    assert_eq!(ran.report["losses"].as_array().unwrap().len(), 0, "{:#}", ran.report);
    assert_equal(&source, &back);
    assert_eq!(rsync_finds(&source, &back), "");
    let verify = || store.with(Copy::verify()).options("--allow setuid");
    for typed in [&up, &down] {
        unchanged(&store.sync().args(typed).run_to(0));
        verify().args(typed).run_to(0);
    }
    // The store copies what it can by itself.
    let (other, again): (OsString, _) = ("s3://bucket/b/".into(), store.place.path().join("again"));
    let ran = store.copy().args([there.clone(), other.clone()]).run_to(0);
    assert!(ran.report["requests"]["target"]["copy"].as_u64().unwrap() > 10, "{:#}", ran.report);
    store.copy().args([other.clone(), again.clone().into_os_string()]).run_to(0);
    assert_eq!(rsync_finds(&source, &again), "");
    unchanged(&store.copy().args([there.clone(), other]).run_to(0));
    // A name that became a file of its own, and an attribute that is missing.
    let [name, of] = ["links/deep/large", "attributes/three"].map(|name| back.join(name));
    fs::rename(&name, store.place.path().join("aside")).unwrap();
    fs::copy(store.place.path().join("aside"), &name).unwrap();
    assert!(
        Command::new("touch").arg("-r").arg(back.join("links/large")).arg(&name).status().unwrap().success()
    );
    rustix::fs::removexattr(&of, "user.long").unwrap();
    for typed in [down.clone(), [contents(&back), there.clone()]] {
        let found = verify().args(typed).run();
        let differences = found.report["differences"].as_array().unwrap();
        let told = |it: &serde_json::Value| (it["path"].as_str().unwrap().to_owned(), it["what"].to_string());
        let told: Vec<_> = differences.iter().map(told).collect();
        assert!(told.contains(&("attributes/three".to_owned(), "\"xattr\"".to_owned())), "{told:?}");
        // Names that are one file on one side only differ, whichever side that is.
        let is_of_links = |(path, what): &&(String, String)| path.ends_with("large") && what == "\"links\"";
        assert!(told.iter().any(|it| is_of_links(&it)), "{told:?}");
    }
    store.sync().args(&down).run_to(0);
    assert_eq!(rsync_finds(&source, &back), "");
    // The server has no key `a` beside a key `a/b`, so that neither can take the place of the other.
    change_alike(&source);
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
        let failed: BTreeSet<&str> = failures.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(failed, ["listed", "sub/listed"].into(), "{:#}", ran.report);
        ran.says(&["extended attributes", name, "no-xattr"]);
        assert!(back.join("plain").exists() && !back.join("listed").exists());
        // The remedies work.
        store.copy().options("--preserve no-xattr,no-acl").args(&down).run_to(0);
        fs::remove_dir_all(&back).unwrap();
    }
    fs::remove_file(store.server.data().join("bucket/x/listed")).unwrap();
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
    // Where the target cannot link, each name is a file of its own, and counted.
    fs::remove_dir_all(&back).unwrap();
    fs::create_dir_all(back.join("sub")).unwrap();
    let _mounted = Small::mount(&back.join("sub"), "size=1m");
    let ran = store.copy().args(&down).run_to(0);
    assert!(matches!(ran.lost("hardlinks"), 1 | 2) && ran.entries("failed") == 0, "{:#}", ran.report);
    assert_eq!(fs::read(back.join("sub/d")).unwrap(), fs::read(at("sub/d")).unwrap());
}

/// Two buckets list a directory in pages, in the order of keys. In that of names, some of the last page come first.
#[test]
fn names_that_keys_spell_otherwise_are_compared_across_pages() {
    if no_root() {
        return;
    }
    let store = BucketServer::start();
    store.server.make_bucket("other").unwrap();
    let [source, back] = ["source", "back"].map(|name| store.place.path().join(name));
    fs::create_dir(&source).unwrap();
    let odd = |number: u32| [&b"n\x01\xff"[..], number.to_string().as_bytes()].concat();
    let path = |name: &[u8]| source.join(OsStr::from_bytes(name));
    for number in 0..1400 {
        fs::write(path(&odd(number)), [1]).unwrap();
        fs::write(path(format!("n{number}").as_bytes()), [2]).unwrap();
    }
    let up = [contents(&source), "s3://bucket/x".into()];
    let over: [OsString; 2] = ["s3://bucket/x/".into(), "s3://other/x".into()];
    let down: [OsString; 2] = ["s3://other/x/".into(), back.clone().into()];
    store.sync().args(&up).run_to(0);
    assert_eq!(store.sync().args(&over).run_to(0).entries("created"), 2801);
    unchanged(&store.sync().args(&over).run_to(0));
    for number in (0..1400).step_by(3) {
        fs::remove_file(path(&odd(number))).unwrap();
        fs::remove_file(path(format!("n{number}").as_bytes())).unwrap();
    }
    fs::write(path(&odd(2000)), [3]).unwrap();
    store.sync().args(&up).run_to(0);
    let ran = store.sync().args(&over).run_to(0);
    assert_eq!(["created", "deleted"].map(|what| ran.entries(what)), [1, 934], "{:#}", ran.report);
    store.sync().args(&down).run_to(0);
    assert_eq!(rsync_finds(&source, &back), "");
}

/// Where there are no sidecars, listings show enough to copy small objects inside a store.
#[test]
fn objects_are_copied_inside_a_store_without_a_look_unless_they_can_have_sidecars() {
    if no_root() {
        return;
    }
    let store = BucketServer::start();
    store.server.make_bucket("other").unwrap();
    let [source, back] = ["source", "back"].map(|name| store.place.path().join(name));
    fs::create_dir_all(source.join("sub")).unwrap();
    for number in 0..60 {
        file(&source.join(format!("sub/f{number}")), number);
    }
    let up = [contents(&source), "s3://bucket/x".into()];
    let data = store.server.data().join("bucket/x");
    let age = |entry: &Path| stamp(entry, 1_000_000_000);
    let looks = |to: &str| {
        let over: [OsString; 2] = ["s3://bucket/x/".into(), to.into()];
        let ran = store.copy().args(&over).run_to(0);
        let requests = &ran.report["requests"];
        assert_eq!(
            requests["source"]["get"].as_u64().map(|reads| reads > 0),
            Some(to.ends_with('2')),
            "{requests}"
        );
        requests["source"]["head"].as_u64().unwrap()
    };
    store.copy().args(&up).run_to(0);
    // Younger ones than the search for sidecars are looked at.
    (0..60).for_each(|number| stamp(&data.join(format!("sub/f{number}")), 4_000_000_000));
    assert!(looks("s3://other/0") >= 60);
    (0..60).for_each(|number| age(&data.join(format!("sub/f{number}"))));
    assert!(looks("s3://other/1") < 20);
    set(&source.join("sub/f9"), "user.large", &[7; 60 * 1024]);
    store.sync().args(&up).run_to(0);
    (0..60).for_each(|number| age(&data.join(format!("sub/f{number}"))));
    assert!(looks("s3://other/2") >= 60);
    store.copy().args(&["s3://other/2/".into(), back.clone().into_os_string()]).run_to(0);
    assert_eq!(rsync_finds(&source, &back), "");
}

#[test]
fn what_must_be_kept_is_kept_or_refused() {
    if no_root() {
        return;
    }
    let store = BucketServer::start();
    let source = store.place.path().join("source");
    nasty(&source);
    let up = [contents(&source), "s3://bucket/x".into()];
    let ran = store.copy().options("--require holes").args(&up).run_to(6);
    ran.says(&["--require holes", "cannot keep it"]);
    store.copy().options("--require acl,xattr,hardlinks,owner,setid,times,flags").args(&up).run_to(0);
    let back: OsString = store.place.path().join("back").into();
    let down = ["s3://bucket/x/".into(), back];
    store.copy().options("--require acl,xattr,hardlinks,owner,setid,times,flags").args(&down).run_to(0);
    // Without leave, the bits and attributes that give rights stay behind.
    let other = ["s3://bucket/x/".into(), store.place.path().join("other").into_os_string()];
    let ran = store.with(Copy::new()).args(&other).run_to(3);
    assert!(ran.lost("setid") > 0 && ran.lost("xattr") > 0, "{:#}", ran.report);
}

/// Runs another program of buckets in a directory, and returns all that it prints.
fn client(store: &BucketServer, name: &str, line: &[&str]) -> String {
    let endpoint = store.server.endpoint.as_str();
    let mut command = Command::new(store_client(name).unwrap());
    command.args(line).current_dir(store.place.path()).stdin(Stdio::null()).env("HOME", store.place.path());
    command
        .env("AWS_ACCESS_KEY_ID", store.server.access_key)
        .env("AWS_SECRET_ACCESS_KEY", store.server.secret_key)
        .env("AWS_ENDPOINT_URL", endpoint)
        .env("S3_ENDPOINT_URL", endpoint)
        .env("AWS_REGION", "us-east-1")
        .env("RCLONE_CONFIG", "/dev/null")
        .env("RCLONE_CONFIG_STORE_TYPE", "s3")
        .env("RCLONE_CONFIG_STORE_PROVIDER", "Other")
        .env("RCLONE_CONFIG_STORE_ENV_AUTH", "true")
        .env("RCLONE_CONFIG_STORE_ENDPOINT", endpoint);
    let ran = command.output().unwrap();
    let printed = [ran.stdout, ran.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    assert!(ran.status.success(), "{name} {line:?}: {printed}");
    printed
}

/// Creates files that all programs copy: no links, and modes and owners that objects without metadata have.
fn simple(root: &Path) {
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    for (name, size_bytes, seconds) in [
        ("small", 10, -86_400),
        ("sub/empty", 0, 1_000_000_000),
        ("sub/deep/parts", 9 << 20, 1_700_000_000),
        ("sub/odd 日本 100%+.txt", 300_000, 1_700_000_001),
    ] {
        let path = file(&root.join(name), size_bytes);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        stamp(&path, seconds);
    }
}

#[test]
fn other_programs_have_nothing_to_do_after_it_nor_it_after_them() {
    let store = BucketServer::start();
    let tree = store.place.path().join("tree");
    simple(&tree);
    set(&tree.join("small"), "user.large", &[1; 9000]);
    let sidecars = ["--exclude", "/.hakobu.attributes/**"];
    store.copy().args([contents(&tree), "s3://bucket/ours".into()]).run_to(0);
    let rclone = |words: &[&str]| client(&store, "rclone", &[words, &sidecars].concat());
    let checked = rclone(&["check", "--download", "tree", "store:bucket/ours"]);
    assert!(checked.contains("0 differences found") && checked.contains("4 matching files"), "{checked}");
    for (from, to) in [("tree", "store:bucket/ours"), ("store:bucket/ours", "tree")] {
        let planned = rclone(&["sync", "--dry-run", "-v", from, to]);
        assert!(planned.contains("There was nothing to transfer"), "{planned}");
        assert!(!planned.contains("Skipped"), "{planned}");
    }
    let ours = "s3://bucket/ours/";
    assert_eq!(client(&store, "s5cmd", &["--dry-run", "sync", "tree/", ours]), "");
    // Otherwise it copies whatever was uploaded after the file's last change.
    let back = ["--dry-run", "sync", "--size-only", "--exclude", "*.hakobu.attributes*"];
    assert_eq!(client(&store, "s5cmd", &[&back[..], &["s3://bucket/ours/*", "tree/"]].concat()), "");
    let aws = ["s3", "sync", "--dryrun", "--exclude", ".hakobu.attributes/*"];
    for (from, to) in [("tree/", ours), (ours, "tree/")] {
        assert_eq!(client(&store, "aws", &[&aws[..], &[from, to]].concat()), "", "{from}");
    }

    rustix::fs::removexattr(tree.join("small"), "user.large").unwrap();
    rclone(&["sync", "tree", "store:bucket/theirs"]);
    let theirs: OsString = "s3://bucket/theirs/".into();
    let typed = [contents(&tree), theirs.clone()];
    let ran = store.copy().args(&typed).run_to(0);
    // The objects of the directories are new.
    let changed = ["updated", "attributes_only", "failed"].map(|what| ran.entries(what));
    assert_eq!(
        (changed, ran.entries("created")),
        ([0; 3], ran.entries("directories_created")),
        "{:#}",
        ran.report
    );
    assert_eq!(ran.report["bytes"]["target_written"], 0);
    unchanged(&store.sync().args(&typed).run_to(0));
    unchanged(&store.sync().args([theirs, tree.clone().into()]).run_to(0));
    assert!(
        rclone(&["sync", "--dry-run", "-v", "tree", "store:bucket/theirs"]).contains("nothing to transfer")
    );
}
