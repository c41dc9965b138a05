//! Listings and kept digests prove that objects are equal, or they are examined and read.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use hakobu_testkit::sshd::no_root;
use hakobu_testkit::stores::store_client;

use super::store_links::StorePlace;
use crate::program::*;

/// A time after which times of uploads, in whole seconds, tell which of two was first.
const UPLOADS_APART: Duration = Duration::from_millis(3500);

/// Runs `aws` against a server, and returns what it prints.
fn aws(store: &StorePlace, line: &[&str]) -> String {
    let mut command = Command::new(store_client("aws").unwrap());
    command.args(line).current_dir(store.at.path()).stdin(Stdio::null()).env("HOME", store.at.path());
    command
        .env("AWS_ACCESS_KEY_ID", store.server.access_key)
        .env("AWS_SECRET_ACCESS_KEY", store.server.secret_key)
        .env("AWS_ENDPOINT_URL", &store.server.endpoint)
        .env("AWS_REGION", "us-east-1");
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{line:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

fn requests(ran: &Ran, side: &str, kind: &str) -> u64 {
    ran.report["requests"][side][kind].as_u64().unwrap_or(0)
}

fn back(store: &StorePlace, from: &str, name: &str) -> std::path::PathBuf {
    let to = store.path(name);
    store.run("copy", "").args([store.of(from), to.clone().into_os_string()]).run_to(0);
    to
}

#[test]
fn a_later_object_of_other_content_is_no_copy() {
    let store = StorePlace::s3();
    let put = |name: &str, content: &[u8]| {
        fs::write(store.path("object"), content).unwrap();
        aws(&store, &["s3", "cp", "--quiet", "object", &format!("s3://bucket/{name}")]);
    };
    fs::create_dir(store.path("many")).unwrap();
    for name in ["same", "other", "a", "b", "c", "d", "e", "f", "g", "h"] {
        fs::write(store.path("many").join(name), b"content").unwrap();
    }
    aws(&store, &["s3", "cp", "--quiet", "--recursive", "many", "s3://bucket/from/"]);
    // More than one part, by another program.
    put("from/parts", &vec![7; 9 << 20]);
    sleep(UPLOADS_APART);
    let both = [store.of("from"), store.of("to")];
    store.run("copy", "").args(&both).run_to(0);
    sleep(UPLOADS_APART);
    // The listings prove it.
    let again = store.run("copy", "").args(&both).run_to(0);
    assert_eq!(again.entries("created") + again.entries("updated"), 0, "{:#}", again.report);
    // The store copies what is in parts as one, with another entity tag.
    assert!(again.entries("examined") <= 2, "{:#}", again.report);
    put("to/other", b"CONTENT");
    let mended = store.run("copy", "").args(&both).run_to(0);
    assert_eq!(mended.entries("updated"), 1, "{:#}", mended.report);
    assert_eq!(fs::read(back(&store, "to", "back").join("other")).unwrap(), b"content");
    // An older version that is put back at the source is another file.
    sleep(UPLOADS_APART);
    put("from/same", b"CONTENT");
    let mended = store.run("copy", "").args(&both).run_to(0);
    assert_eq!(mended.entries("updated"), 1, "{:#}", mended.report);
    assert_eq!(fs::read(back(&store, "to", "again").join("same")).unwrap(), b"CONTENT");
}

/// Creates files of several sizes.
fn make(tree: &Path) {
    fs::create_dir_all(tree.join("sub")).unwrap();
    for (name, size_bytes) in [("empty", 0), ("small", 3000), ("sub/medium", 200_000), ("large", 700_000)] {
        file(&tree.join(name), size_bytes);
    }
}

/// Checks that a store's digests take the place of reading, given the number of files whose digests it keeps.
fn check_kept(store: &StorePlace, (verified, digested): (u64, u64)) {
    let tree = store.path("tree");
    make(&tree);
    let both = [contents(&tree), store.of("at")];
    store.run("copy", "").args(&both).run_to(0);
    let files_read = |ran: &Ran| requests(ran, "target", "get");
    let verify = store.run("verify", "").args(&both).run_to(0);
    assert_eq!(requests(&verify, "target", "kept_digests"), verified, "{:#}", verify.report);
    let full = store.run("verify", "--full").args(&both).run_to(0);
    assert_eq!(requests(&full, "target", "kept_digests"), 0, "{:#}", full.report);
    assert_eq!(files_read(&full), files_read(&verify) + verified, "{:#}", full.report);
    // Attributes that change keep it.
    fs::set_permissions(tree.join("small"), fs::Permissions::from_mode(0o600)).unwrap();
    store.run("sync", "").args(&both).run_to(0);
    let verify = store.run("verify", "").args(&both).run_to(0);
    assert_eq!(requests(&verify, "target", "kept_digests"), verified, "{:#}", verify.report);
    // Other content of the same size and time is found.
    let time = fs::metadata(tree.join("small")).unwrap().modified().unwrap();
    fs::write(tree.join("small"), vec![1; 3000]).unwrap();
    fs::File::options().append(true).open(tree.join("small")).unwrap().set_modified(time).unwrap();
    let found = store.run("verify", "").args(&both).run();
    assert_eq!(found.entries("different"), 1, "{:#}", found.report);
    store.run("sync", "--compare digest").args(&both).run_to(0);
    store.run("verify", "--full").args(&both).run_to(0);
    for options in ["", "--full"] {
        let mut expected: Vec<String> = ["empty", "small", "sub/medium", "large"]
            .map(|name| blake3::hash(&fs::read(tree.join(name)).unwrap()).to_hex().to_string())
            .to_vec();
        expected.sort();
        let ran = store.run_plain("digest", options).arg(store.of("at")).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        let mut printed: Vec<String> =
            out.lines().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect();
        printed.sort();
        assert_eq!(printed, expected, "{options}: {out}{err}");
        let told = format!("{digested} digests are those that the store keeps");
        assert_eq!(err.contains(&told), options.is_empty() && digested > 0, "{options}: {err}");
    }
}

#[test]
fn s3_keeps_digests_of_objects() {
    check_kept(&StorePlace::s3(), (3, 4));
}

#[test]
fn gcs_keeps_digests_of_objects() {
    check_kept(&StorePlace::gcs(), (3, 4));
}

#[test]
fn azure_keeps_no_checksum_that_proves_them() {
    check_kept(&StorePlace::azure(), (0, 0));
}

#[test]
fn a_digest_that_another_program_has_kept_with_other_content_proves_nothing() {
    let store = StorePlace::s3();
    let tree = store.path("tree");
    make(&tree);
    let both = [contents(&tree), store.of("at")];
    store.run("copy", "").args(&both).run_to(0);
    // It keeps all metadata, the digest among them.
    let head = aws(&store, &["s3api", "head-object", "--bucket", "bucket", "--key", "at/small"]);
    let head: serde_json::Value = serde_json::from_str(&head).unwrap();
    let metadata = head["Metadata"].to_string();
    assert!(metadata.contains("hakobu-blake3"), "{head}");
    fs::write(store.path("object"), vec![b'x'; 3000]).unwrap();
    let put =
        ["s3api", "put-object", "--bucket", "bucket", "--key", "at/small", "--body", "object", "--metadata"];
    aws(&store, &[&put[..], &[&metadata]].concat());
    let found = store.run("verify", "").args(&both).run();
    assert_eq!(found.entries("different"), 1, "{:#}", found.report);
    let ran = store.run_plain("digest", "").arg("s3://bucket/at/small").output().unwrap();
    let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(printed.starts_with(blake3::hash(&vec![b'x'; 3000]).to_hex().as_str()), "{printed}");
    store.run("sync", "--compare digest").args(&both).run_to(0);
    store.run("verify", "--full").args(&both).run_to(0);
}

/// Checks that owners stay where a run does not preserve them.
fn check_owners(store: &StorePlace) {
    if no_root() {
        return;
    }
    let tree = store.path("tree");
    make(&tree);
    let all = ["", "sub", "empty", "small", "sub/medium", "large"];
    for name in all {
        chown(tree.join(name), Some(1234), Some(4321)).unwrap();
    }
    let both = [contents(&tree), store.of("at")];
    store.run("copy", "").args(&both).run_to(0);
    // Attributes, content, a name and a directory.
    for name in ["small", "sub"] {
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(0o700)).unwrap();
    }
    fs::write(tree.join("large"), vec![9; 800_000]).unwrap();
    fs::write(tree.join("sub/medium"), "less").unwrap();
    fs::hard_link(tree.join("empty"), tree.join("another")).unwrap();
    for name in all {
        chown(tree.join(name), Some(1), Some(2)).unwrap();
    }
    // A set-ID bit must not give the rights of an owner who is not the source's. This process's user is none either.
    for (name, id) in [("own", 1234), ("other", 0)] {
        fs::write(tree.join(name), "before").unwrap();
        chown(tree.join(name), Some(1234), Some(4321)).unwrap();
        store.run("copy", "").args([tree.join(name), store.of("at").into()]).run_to(0);
        fs::write(tree.join(name), "afterwards").unwrap();
        chown(tree.join(name), Some(id), Some(if id == 0 { 0 } else { 4321 })).unwrap();
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(0o4755)).unwrap();
    }
    store.run("sync", "--preserve no-owner --allow setuid").args(&both).run_to(0);
    store.run("verify", "--preserve no-owner").args(&both).run_to(0);
    let back = store.path("back");
    store.run("copy", "--allow setuid").args([store.of("at").as_ref(), back.as_os_str()]).run_to(0);
    let mode = |name: &str| fs::metadata(back.join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("own"), mode("other")), (0o4755, 0o755));
    for name in all.iter().chain(&["another"]).skip(1) {
        let found = fs::metadata(back.join(name)).unwrap();
        assert_eq!((found.uid(), found.gid()), (1234, 4321), "{name}");
    }
    assert_eq!(fs::metadata(back.join("sub")).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::read(back.join("sub/medium")).unwrap(), b"less");
}

#[test]
fn owners_that_are_not_preserved_stay_in_s3() {
    check_owners(&StorePlace::s3());
}

#[test]
fn owners_that_are_not_preserved_stay_in_azure() {
    check_owners(&StorePlace::azure());
}

#[test]
fn owners_that_are_not_preserved_stay_in_gcs() {
    check_owners(&StorePlace::gcs());
}

#[test]
fn a_copy_inside_a_store_keeps_the_rights_of_directories() {
    for (store, second) in [(StorePlace::s3(), "s3://second/x"), (StorePlace::gcs(), "gs://second/x")] {
        store.server.make_bucket("second").unwrap();
        let tree = store.path("tree");
        fs::create_dir_all(tree.join("d")).unwrap();
        fs::set_permissions(tree.join("d"), fs::Permissions::from_mode(0o2775)).unwrap();
        let up = [contents(&tree), store.of("x")];
        store.run("copy", "").args(&up).run_to(0);
        sleep(UPLOADS_APART);
        let over = [store.of("x"), second.into()];
        store.run("copy", "").args(&over).run_to(0);
        store.run("verify", "--allow setuid").args([contents(&tree), second.into()]).run_to(0);
    }
}

/// Attributes that a first run left out are added by a later one, although the content is the same.
#[test]
fn attributes_that_were_withheld_between_stores_can_be_added() {
    let (from, to) = (StorePlace::s3(), StorePlace::azure());
    let source = from.path("source");
    fs::create_dir(&source).unwrap();
    for name in ["plain", "privileged"] {
        fs::write(source.join(name), b"content").unwrap();
    }
    fs::set_permissions(source.join("privileged"), fs::Permissions::from_mode(0o4755)).unwrap();
    let up = [source.join("").into_os_string(), from.of("x")];
    from.run("copy", "--allow setuid").args(up).run_to(0);
    sleep(UPLOADS_APART);
    let over = |options: &str, code| {
        let run = to
            .environment()
            .into_iter()
            .fold(from.run("copy", options), |run, (name, value)| run.env(name, value));
        run.args([from.of("x"), to.of("x")]).run_to(code)
    };
    over("", 3);
    sleep(UPLOADS_APART);
    over("", 3);
    assert_eq!(over("--allow setuid", 0).entries("attributes_only"), 1);
    let back = to.path("back");
    to.run("copy", "--allow setuid").args([to.of("x"), back.clone().into_os_string()]).run_to(0);
    assert_eq!(fs::metadata(back.join("privileged")).unwrap().mode() & 0o7777, 0o4755);
}

/// Size and time of a symbolic link may be those of another one. Its text is compared in any case, with requests to a store
/// only if the link is younger than its object.
fn check_texts(store: &StorePlace, options: &str) {
    let (source, other) = (store.path("source"), store.path("other"));
    fs::create_dir(&source).unwrap();
    let link = |name: &str, text: &str| {
        let _ = fs::remove_file(source.join(name));
        std::os::unix::fs::symlink(text, source.join(name)).unwrap();
        let touched = Command::new("touch").args(["-h", "-d", "2020-01-01"]).arg(source.join(name)).status();
        assert!(touched.unwrap().success());
    };
    let copy = |options: &str| {
        let mut updated = Vec::new();
        for target in [other.clone().into_os_string(), store.of("x")] {
            let ran = store.run("copy", options).args([source.join("").into_os_string(), target]).run_to(0);
            assert_eq!(ran.entries("failed"), 0, "{:#}", ran.report);
            updated.push(ran.entries("updated"));
        }
        updated
    };
    let there = |name: &str| {
        ["link", "stays"].map(|link| fs::read_link(store.path(name).join(link)).unwrap().into_os_string())
    };
    link("link", "aaaa");
    link("stays", "same");
    sleep(UPLOADS_APART);
    copy("");
    let from_store = || store.run("copy", options).args([store.of("x"), store.path("back").into()]).run_to(0);
    from_store();
    sleep(UPLOADS_APART);
    link("link", "bbbb");
    assert_eq!(copy(&format!("{options} --dry-run")), [1, 1]);
    assert_eq!(copy(options), [1, 1]);
    assert_eq!(there("other"), ["bbbb", "same"]);
    assert_eq!(from_store().entries("updated"), 1);
    assert_eq!(there("back"), ["bbbb", "same"]);
    sleep(UPLOADS_APART);
    assert_eq!(copy(options), [0, 0]);
    assert_eq!(from_store().entries("updated"), 0);
}

#[test]
fn texts_of_links_are_compared_with_s3() {
    check_texts(&StorePlace::s3(), "");
}

#[test]
fn texts_of_links_are_compared_with_contents() {
    check_texts(&StorePlace::s3(), "--compare digest");
}

#[test]
fn texts_of_links_are_compared_with_azure() {
    check_texts(&StorePlace::azure(), "");
}

#[test]
fn texts_of_links_are_compared_with_gcs() {
    check_texts(&StorePlace::gcs(), "");
}

/// In the order of names, `name` comes before `name.d` as a file and after it as a directory.
#[test]
fn verify_finds_a_directory_in_place_of_a_file() {
    if no_root() {
        return;
    }
    for store in [StorePlace::s3(), StorePlace::azure(), StorePlace::gcs()] {
        let tree = store.path("tree");
        fs::create_dir_all(tree.join("name.d")).unwrap();
        fs::write(tree.join("name"), "a file").unwrap();
        store.run("copy", "").args([contents(&tree), store.of("at")]).run_to(0);
        fs::remove_file(tree.join("name")).unwrap();
        fs::create_dir(tree.join("name")).unwrap();
        for both in [[contents(&tree), store.of("at")], [store.of("at"), contents(&tree)]] {
            let ran = store.run("verify", "").args(both).run_to(4);
            let found = ran.report["differences"].as_array().unwrap().iter();
            let found: Vec<_> =
                found.filter(|it| it["path"] != "").map(|it| (&it["path"], &it["what"])).collect();
            assert_eq!(found, [(&"name".into(), &"kind".into())], "{:#}", ran.report);
        }
    }
}

#[test]
fn attributes_that_change_in_s3_are_copied_from_there() {
    if no_root() {
        return;
    }
    let store = StorePlace::s3();
    let (tree, there) = (store.path("tree"), store.path("there"));
    make(&tree);
    let files = ["empty", "small", "sub/medium", "large"];
    for name in files {
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(0o604)).unwrap();
    }
    aws(&store, &["s3", "cp", "--quiet", "--recursive", "tree", "s3://bucket/at/"]);
    let up = || store.run("copy", "--compare digest").args([contents(&tree), store.of("at")]).run_to(0);
    let down = || store.run("copy", "").args([store.of("at"), there.clone().into()]).run_to(0);
    sleep(UPLOADS_APART);
    down();
    // A server that copies an object onto itself may keep its time of upload, which then proves nothing.
    up();
    down();
    for name in files {
        assert_eq!(fs::metadata(there.join(name)).unwrap().mode() & 0o7777, 0o604, "{name}");
        assert_eq!(fs::read(there.join(name)).unwrap(), fs::read(tree.join(name)).unwrap(), "{name}");
    }
    let again = up();
    assert_eq!((requests(&again, "target", "put"), requests(&again, "target", "copy")), (0, 0));
}

/// A server that keeps objects as files may be unable to replace an object because of its long name.
#[test]
fn attributes_that_change_of_an_object_with_a_long_name_fail_alone() {
    let store = StorePlace::s3();
    let tree = store.path("tree");
    fs::create_dir(&tree).unwrap();
    let names = ["other".to_owned(), "l".repeat(254)];
    for name in &names {
        fs::write(tree.join(name), "content").unwrap();
    }
    let up = |code| store.run("copy", "").args([contents(&tree), store.of("at")]).run_to(code);
    up(0);
    sleep(UPLOADS_APART);
    for name in &names {
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(0o604)).unwrap();
    }
    let failed = up(3).failures();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].1.contains("cannot replace one with so long a name"), "{failed:?}");
    // The object has its new attributes, and lacks only the new time of upload.
    up(0);
}
