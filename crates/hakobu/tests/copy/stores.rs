//! Object stores as ends of a copy, with a real server.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};
use std::time::Duration;

use hakobu_testkit::stores::StoreServer;
use tempfile::TempDir;

use crate::attributes::Disk;
use crate::identity::Mounted;
use crate::program::*;

/// A directory to run in, and a server whose credentials are in the environment.
struct Surroundings {
    at: TempDir,
    server: StoreServer,
}

impl Surroundings {
    fn new() -> Self {
        let server = StoreServer::versitygw().unwrap();
        server.make_bucket("bucket").unwrap();
        let at = place();
        fs::create_dir_all(at.path().join("tree/sub")).unwrap();
        fs::write(at.path().join("tree/a"), "content").unwrap();
        fs::write(at.path().join("tree/sub/100% b"), [7; 3000]).unwrap();
        Self { at, server }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(HAKOBU);
        command.args(line.split(' ')).current_dir(self.at.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"AWS_"))
        {
            command.env_remove(name);
        }
        command
            .env("HOME", self.at.path())
            .env("HAKOBU_SETTINGS", "none")
            .env("HAKOBU_STATE", self.at.path().join("state"));
        command
            .env("AWS_ACCESS_KEY_ID", self.server.access_key)
            .env("AWS_SECRET_ACCESS_KEY", self.server.secret_key);
        command.env("AWS_ENDPOINT_URL", &self.server.endpoint).env("AWS_REGION", "us-east-1");
        command.env("AWS_EC2_METADATA_DISABLED", "true");
        command
    }

    /// Runs a command line; returns exit code, standard output and standard error.
    fn run(&self, line: &str) -> (i32, String, String) {
        ended(&mut self.command(line))
    }
}

fn ended(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_tree_goes_into_a_bucket_and_returns() {
    let all = Surroundings::new();
    let (code, out, err) = all.run("copy tree/ s3://bucket/at/home");
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, err) = all.run("ls -R s3://bucket/at");
    assert_eq!((code, &*out), (0, "home/\nhome/a\nhome/sub/\nhome/sub/100% b\n"), "{err}");
    let (code, out, err) = all.run("copy s3://bucket/at/home/ back");
    assert_eq!(code, 0, "{out}{err}");
    for name in ["a", "sub/100% b"] {
        let read = |root: &str| fs::read(all.at.path().join(root).join(name)).unwrap();
        assert_eq!(read("tree"), read("back"), "{name}");
    }
    let (code, out, _) = all.run("digest s3://bucket/at/home/a");
    assert!(code == 0 && out.starts_with(&blake3::hash(b"content").to_string()), "{out}");
    fs::write(all.at.path().join("large"), vec![5; 9_000_001]).unwrap();
    assert_eq!(all.run("copy large s3://bucket/at/home/sub/100%b").0, 0);
    for (path, key) in [("tree/a", "at/home/a"), ("large", "at/home/sub/100%b")] {
        let output = Command::new("sha256sum").arg(all.at.path().join(path)).output().unwrap();
        let (code, out, err) = all.run(&format!("digest --algorithm=sha256 s3://bucket/{key}"));
        assert!(code == 0 && out.as_bytes()[..64] == output.stdout[..64], "{out}{err}");
    }
}

#[test]
fn between_buckets_of_a_server_no_content_comes_here() {
    let all = Surroundings::new();
    all.server.make_bucket("other").unwrap();
    let content: Vec<u8> = (0..9_000_000_u32).map(|index| (index / 7 % 251) as u8).collect();
    fs::write(all.at.path().join("tree/large"), &content).unwrap();
    fs::set_permissions(all.at.path().join("tree/a"), fs::Permissions::from_mode(0o4751)).unwrap();
    assert_eq!(all.run("copy tree/ s3://bucket/tree").0, 0);
    let (code, out, err) = all.run("copy s3://bucket/tree/ s3://other/place --report report.json");
    assert_eq!(code, 0, "{out}{err}");
    let report = fs::read_to_string(all.at.path().join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let requests = |side: &str, kind: &str| report["requests"][side][kind].as_u64().unwrap();
    assert_eq!((requests("source", "get"), requests("target", "copy")), (0, 3), "{report}");
    assert_eq!(all.run("copy --allow setuid s3://other/place/ back").0, 0);
    assert_eq!(fs::read(all.at.path().join("back/large")).unwrap(), content);
    let mode = |root: &str| fs::metadata(all.at.path().join(root).join("a")).unwrap().mode();
    assert_eq!((mode("tree"), mode("back")), (0o104_751, 0o104_751));
}

/// Keys are in another order than names that are spelled differently in keys.
#[test]
fn nothing_is_lost_whatever_the_order_of_keys_is() {
    use std::os::unix::ffi::OsStrExt;
    let all = Surroundings::new();
    let tree = all.at.path().join("odd");
    let below = tree.join(std::ffi::OsStr::from_bytes(b"\xff/deeper"));
    fs::create_dir_all(&below).unwrap();
    fs::write(tree.join("\n"), vec![7; 300_000]).unwrap();
    for name in ["\t", "\u{1}", "a", "\u{201b}", "\u{2409}"] {
        fs::write(below.join(name), name).unwrap();
    }
    for line in [
        "copy odd/ s3://bucket/odd",
        "copy s3://bucket/odd/ s3://bucket/again",
        "copy s3://bucket/again/ back",
    ] {
        let (code, out, err) = all.run(line);
        assert_eq!(code, 0, "{line}: {out}{err}");
    }
    let (code, out, err) = all.run("verify odd/ back");
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, err) = all.run("sync --delete odd/ s3://bucket/odd");
    let said = format!("{out}{err}");
    assert!(code == 0 && said.contains("0 created, 0 updated, 9 unchanged"), "{said}");
}

#[test]
fn neither_end_within_a_bucket_waits_for_the_requests_of_the_other() {
    let all = Surroundings::new();
    let folder = all.at.path().join("many");
    fs::create_dir(&folder).unwrap();
    (0..1100).for_each(|number| fs::write(folder.join(format!("f{number}")), "x").unwrap());
    assert_eq!(all.run("copy many/ s3://bucket/many").0, 0);
    // Objects of another content type come here.
    let line =
        "copy --lanes 1 --content-type text/plain s3://bucket/many/ s3://bucket/copied --report report.json";
    let (code, out, err) = all.run(line);
    assert_eq!(code, 0, "{out}{err}");
    let report = fs::read_to_string(all.at.path().join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let requests = |side: &str, kind: &str| report["requests"][side][kind].as_u64().unwrap();
    assert_eq!((requests("source", "put"), requests("target", "get")), (0, 0), "{report}");
}

#[test]
fn uploads_of_a_job_that_is_given_up_are_aborted() {
    let all = Surroundings::new();
    // Zeros would not be limited.
    fs::write(all.at.path().join("tree/large"), vec![7; 100 << 20]).unwrap();
    assert_eq!(all.run("copy --detach --bwlimit 20M tree/ s3://bucket/tree").0, 0);
    let uploads = all.at.path().join("state/uploads");
    let has_journal = || fs::read_dir(&uploads).is_ok_and(|mut journals| journals.next().is_some());
    let has_part = || {
        let journal = fs::read_dir(&uploads).ok().and_then(|mut journals| journals.next());
        journal
            .is_some_and(|journal| fs::read_to_string(journal.unwrap().path()).unwrap().contains("\npart "))
    };
    wait_until("a part is there", Duration::from_secs(30), has_part);
    let (code, out, err) = ended(&mut all.command("jobs list --json"));
    assert_eq!(code, 0, "{err}");
    let jobs: serde_json::Value = serde_json::from_str(&out).unwrap();
    let id = jobs["jobs"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(all.run(&format!("jobs pause {id}")).0, 0);
    assert!(has_journal(), "a later run could go on");
    let (code, out, err) = all.run(&format!("jobs forget {id}"));
    assert!(code == 0 && err.contains("unfinished uploads that were aborted: 1"), "{out}{err}");
    assert!(!has_journal());
    let output = Command::new("find")
        .arg(all.server.data().join("bucket/.sgwtmp"))
        .args(["-type", "f"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "the server keeps parts");
}

#[test]
fn a_copy_within_a_bucket_is_known_by_any_name() {
    let all = Surroundings::new();
    assert_eq!(all.run("copy tree s3://bucket").0, 0);
    for (line, words) in [
        ("copy s3://bucket/tree s3://bucket/tree/sub", "the copy would contain itself"),
        ("copy s3://bucket/tree/ s3://bucket/tree", "source and target are the same"),
        (
            "copy --source-profile other s3://bucket/tree s3://bucket/tree/sub",
            "the copy would contain itself",
        ),
    ] {
        let file = all.at.path().join("config");
        let keys = format!(
            "[profile other]\naws_access_key_id={}\naws_secret_access_key={}\nendpoint_url={}\n",
            all.server.access_key, all.server.secret_key, all.server.endpoint
        );
        fs::write(&file, keys).unwrap();
        let (code, out, err) = ended(all.command(line).env("AWS_CONFIG_FILE", &file));
        assert!(code == 6 && err.contains(words), "{line}: {out}{err}");
    }
    // One name at two servers is two buckets.
    let other = Surroundings::new();
    let settings = all.at.path().join("settings.toml");
    fs::write(&settings, format!("[[host]]\nmatch = 's3://mine'\nendpoint = '{}'\n", other.server.endpoint))
        .unwrap();
    other.server.make_bucket("mine").unwrap();
    let (code, out, err) = all.run("copy --settings settings.toml s3://bucket/tree/ s3://mine/tree");
    assert_eq!(code, 0, "{out}{err}");
    assert!(other.server.data().join("mine/tree/a").exists() && !all.server.data().join("mine").exists());
    let profiles = [("here", &all.server), ("there", &other.server)].map(|(name, server)| {
        let keys = (server.access_key, server.secret_key, &server.endpoint);
        format!(
            "[profile {name}]\naws_access_key_id={}\naws_secret_access_key={}\nendpoint_url={}\n",
            keys.0, keys.1, keys.2
        )
    });
    let file = all.at.path().join("config");
    fs::write(&file, profiles.concat()).unwrap();
    let line = "copy --source-profile here --profile there s3://bucket/tree s3://bucket/tree/sub";
    let mut command = all.command(line);
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"] {
        command.env_remove(name);
    }
    let (code, out, err) = ended(command.env("AWS_CONFIG_FILE", &file));
    assert_eq!(code, 0, "{out}{err}");
    assert!(other.server.data().join("bucket/tree/sub/tree/a").exists());
}

#[test]
fn what_keeps_a_bucket_closed_is_said_with_the_remedy() {
    let all = Surroundings::new();
    for (line, change, words) in [
        ("ls s3://missing", None, "the bucket missing does not exist"),
        ("copy tree s3://missing/x", None, "the bucket missing does not exist"),
        ("copy s3://bucket/missing x", None, "no such file or directory"),
        (
            "ls s3://bucket",
            Some(("AWS_SECRET_ACCESS_KEY", "wrong")),
            "check AWS_SECRET_ACCESS_KEY or the profile",
        ),
        (
            "copy tree s3://bucket",
            Some(("AWS_ACCESS_KEY_ID", "nobody")),
            "check AWS_ACCESS_KEY_ID or the profile",
        ),
        ("ls --no-sign-request s3://bucket", None, "access denied; it is not public\n"),
    ] {
        let mut command = all.command(line);
        command.envs(change);
        let (code, out, err) = ended(&mut command);
        assert_eq!((code, &*out), (1, ""), "{line}: {err}");
        assert!(err.contains(words) && !err.contains("as a user who may"), "{line}: {err}");
    }
    let mut command = all.command("ls s3://bucket");
    command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
    let (code, _, err) = ended(&mut command);
    assert!(code == 1 && err.contains("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"), "{err}");
}

#[test]
fn directories_that_only_keys_imply_have_the_time_of_the_copy() {
    let all = Surroundings::new();
    // Another tool makes no objects for directories.
    let bucket = all.server.data().join("bucket");
    fs::create_dir_all(bucket.join("logs/deep")).unwrap();
    fs::write(bucket.join("logs/deep/one"), "content").unwrap();
    for line in ["copy s3://bucket back", "copy s3://bucket/logs/ logs", "copy s3://bucket back"] {
        let (code, out, err) = all.run(line);
        assert_eq!(code, 0, "{line}: {out}{err}");
    }
    let at = |name: &str| fs::metadata(all.at.path().join(name)).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    for name in ["back", "back/logs", "back/logs/deep", "logs", "logs/deep"] {
        assert!(now.abs_diff(at(name).mtime() as u64) < 600, "{name}: {}", at(name).mtime());
        assert_eq!(at(name).mode() & 0o777, 0o755, "{name}");
    }
    // Those that are there keep what they have.
    let (_, out, err) = all.run("copy s3://bucket/logs/ logs");
    assert!(out.contains("0 created, 0 updated, 3 unchanged"), "{out}{err}");
    fs::set_permissions(all.at.path().join("logs/deep"), fs::Permissions::from_mode(0o700)).unwrap();
    let (_, out, err) = all.run("copy s3://bucket/logs/ logs");
    assert!(out.contains("0 created, 0 updated, 3 unchanged"), "{out}{err}");
    assert_eq!(at("logs/deep").mode() & 0o777, 0o700);
    let (code, out, err) = all.run("verify s3://bucket/logs/ logs");
    assert_eq!(code, 0, "a directory without an object has no attributes: {out}{err}");
}

#[test]
fn places_are_typed_with_names_whatever_their_keys_are() {
    let all = Surroundings::new();
    let name = |bytes: &[u8]| std::ffi::OsString::from_vec(bytes.to_vec());
    let odd = name(b"tree/\xff\n\xe2\x80\x9b");
    fs::create_dir(all.at.path().join(&odd)).unwrap();
    fs::write(all.at.path().join(&odd).join("in"), "content").unwrap();
    let (code, out, err) = all.run("copy tree/ s3://bucket/tree");
    assert_eq!(code, 0, "{out}{err}");
    let place = |after: &str| {
        let mut place = name(b"s3://bucket/");
        place.push(&odd);
        place.push(after);
        place
    };
    for (after, to) in [("/", "contents"), ("", "whole"), ("/in", "file")] {
        let (code, out, err) = ended(all.command("copy").arg(place(after)).arg(to));
        assert_eq!(code, 0, "{out}{err}");
    }
    let whole =
        std::path::Path::new("whole").join(std::path::Path::new(&odd).file_name().unwrap()).join("in");
    for path in [std::path::Path::new("contents/in"), &whole, std::path::Path::new("file")] {
        assert_eq!(fs::read(all.at.path().join(path)).unwrap(), b"content", "{}", path.display());
    }
    let (code, out, err) = ended(all.command("copy tree/a").arg(place("/new/a")));
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, err) = ended(all.command("copy --compare=digest").arg(place("/new/a")).arg("again"));
    assert_eq!(
        (code, fs::read(all.at.path().join("again")).unwrap()),
        (0, b"content".to_vec()),
        "{out}{err}"
    );
}

#[test]
fn a_local_backup_that_was_restored_after_the_upload_is_no_proof() {
    let all = Surroundings::new();
    let at = |name: &str| all.at.path().join(name);
    let old = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_600_000_000));
    let touch =
        |name: &str, times| fs::File::options().write(true).open(at(name)).unwrap().set_times(times).unwrap();
    touch("tree/a", old);
    assert_eq!(all.run("copy tree/ s3://bucket/tree").0, 0);
    assert_eq!(all.run("copy s3://bucket/tree/ back").0, 0);
    // The object gets other content of equal size, and later the old file is restored.
    fs::write(at("tree/a"), "CONTENT").unwrap();
    assert_eq!(all.run("copy tree/ s3://bucket/tree").0, 0);
    std::thread::sleep(Duration::from_secs(5));
    fs::remove_file(at("back/a")).unwrap();
    fs::write(at("back/a"), "content").unwrap();
    touch("back/a", old);
    let (code, out, err) = all.run("copy s3://bucket/tree/ back");
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(fs::read(at("back/a")).unwrap(), b"CONTENT");
}

/// Some file systems show the modification time as that of the last change.
#[test]
fn without_change_times_no_older_file_passes_for_the_one_that_was_uploaded() {
    let (all, disk) = (Surroundings::new(), Disk::new(&["mkfs.exfat"]));
    let write = |content: &str, date: &str| {
        fs::write(disk.at("tree/a"), content).unwrap();
        let touch = |path| Command::new("touch").args(["-d", date]).arg(disk.at(path)).status();
        assert!(["tree/a", "tree"].map(touch).into_iter().all(|ended| ended.unwrap().success()));
    };
    fs::create_dir(disk.at("tree")).unwrap();
    write("content", "2020-02-02");
    // The file system is that of the source, or below it.
    let above = all.at.path().join("above/");
    let _bound = Mounted::bind(&disk.at(""), &above.join("disk"));
    let sources = [disk.at("tree/"), above];
    let copy = || {
        for (source, target) in sources.iter().zip(["s3://bucket/tree", "s3://bucket/above"]) {
            let (code, out, err) = ended(all.command("copy").arg(source).arg(target));
            assert_eq!(code, 0, "{out}{err}");
        }
    };
    // This server gives the object of a directory no later time when it is stored again.
    std::thread::sleep(Duration::from_secs(5));
    copy();
    std::thread::sleep(Duration::from_secs(3));
    copy();
    write("CONTENT", "2019-01-01");
    copy();
    let stored = all.server.data().join("bucket");
    for stored in [stored.join("tree/a"), stored.join("above/disk/tree/a")] {
        assert_eq!(fs::read(&stored).unwrap(), b"CONTENT", "{}", stored.display());
    }
}
