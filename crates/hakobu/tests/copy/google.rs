//! Google Cloud Storage as an end of a copy, with an emulator.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hakobu_testkit::http::{ScriptedAnswer, ScriptedServer};
use hakobu_testkit::stores::StoreServer;
use tempfile::TempDir;

use crate::program::*;

/// A directory to run in, and an emulator with a bucket.
struct Emulated {
    at: TempDir,
    server: StoreServer,
}

impl Emulated {
    fn new() -> Self {
        let server = StoreServer::fake_gcs().unwrap();
        server.make_bucket("bucket").unwrap();
        Self { at: place(), server }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.at.path().join(name)
    }

    fn command(&self, line: &str, endpoint: &str) -> Command {
        let mut command = Command::new(HAKOBU);
        command.args(line.split(' ')).current_dir(self.at.path()).stdin(Stdio::null());
        for name in ["GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_AUTH_ACCESS_TOKEN", "CLOUDSDK_CONFIG"] {
            command.env_remove(name);
        }
        command
            .env("HOME", self.at.path())
            .env("HAKOBU_SETTINGS", "none")
            .env("HAKOBU_STATE", self.path("state"))
            .env("STORAGE_EMULATOR_HOST", endpoint);
        command
    }

    /// Runs a command line; returns exit code, standard output and standard error.
    fn run(&self, line: &str) -> (i32, String, String) {
        ended(&mut self.command(line, &self.server.endpoint))
    }

    #[track_caller]
    fn run_well(&self, line: &str) -> String {
        let (code, out, err) = self.run(line);
        assert_eq!(code, 0, "{line}: {out}{err}");
        out
    }
}

fn ended(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Removes what objects do not keep yet: second names of files.
fn without_hard_links(root: &Path) {
    use std::os::unix::fs::MetadataExt;
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        let time = fs::metadata(&directory).unwrap().modified().unwrap();
        for entry in fs::read_dir(&directory).unwrap().flatten() {
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                open.push(entry.path());
            } else if metadata.nlink() > 1 {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        fs::File::open(&directory).unwrap().set_modified(time).unwrap();
    }
}

#[test]
fn a_difficult_tree_goes_into_a_bucket_and_returns() {
    let all = Emulated::new();
    tree(&all.path("tree"));
    without_hard_links(&all.path("tree"));
    // Only links that are older than their upload, whatever the clocks say, are known to be as they were.
    std::thread::sleep(std::time::Duration::from_secs(3));
    all.run_well("copy tree/ gs://bucket/at/home");
    std::thread::sleep(std::time::Duration::from_secs(3));
    all.run_well("copy gs://bucket/at/home/ back");
    assert_same(&all.path("tree"), &all.path("back"));
    // Listings show everything, so that equal entries cost no requests.
    for line in ["copy tree/ gs://bucket/at/home", "sync gs://bucket/at/home/ back"] {
        let out = all.run_well(&format!("{line} --report report.json"));
        let report = fs::read_to_string(all.path("report.json")).unwrap();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let requests = &report["requests"];
        let side = if line.starts_with("copy") { "target" } else { "source" };
        assert!(requests[side]["list"].as_u64() > Some(0), "{requests}");
        for kind in ["put", "get", "copy", "delete"] {
            assert_eq!(requests[side][kind].as_u64().unwrap_or(0), 0, "{line}: {kind} {requests}");
        }
        assert!(out.contains("0 created, 0 updated"), "{line}: {out}");
    }
    all.run_well("verify tree/ gs://bucket/at/home");
}

#[test]
fn attributes_that_are_left_out_do_not_differ() {
    let all = Emulated::new();
    fs::create_dir_all(all.path("tree/sub")).unwrap();
    file(&all.path("tree/sub/a"), 3000);
    // More than the metadata of an object holds.
    for path in ["tree/sub", "tree/sub/a"] {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(all.path(path), "user.large", &[b'v'; 9000], flags).unwrap();
        let list = Command::new("setfacl").args(["-m", "u:1000:r"]).arg(all.path(path)).status();
        assert!(list.unwrap().success());
    }
    all.run_well("copy tree/ gs://bucket/at");
    for without in ["no-xattr", "no-acl", "no-xattr,no-acl"] {
        all.run_well(&format!("verify --preserve {without} gs://bucket/at/ tree"));
        let out = all.run_well(&format!("copy --preserve {without} gs://bucket/at/ tree"));
        assert!(out.contains("0 created, 0 updated, 3 unchanged"), "{without}: {out}");
    }
}

#[test]
fn a_bucket_becomes_equal_to_a_tree() {
    let all = Emulated::new();
    let at = |name: &str| all.path("tree").join(name);
    fs::create_dir_all(at("sub/empty")).unwrap();
    for name in ["a", "b", "sub/c", "sub/d"] {
        file(&at(name), 3000);
    }
    all.run_well("copy tree/ gs://bucket/at");
    fs::remove_file(at("a")).unwrap();
    fs::remove_dir(at("sub/empty")).unwrap();
    fs::write(at("b"), "other").unwrap();
    fs::set_permissions(at("sub/c"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    all.run_well("sync tree/ gs://bucket/at --delete");
    assert_eq!(all.run_well("ls -R gs://bucket/at/"), "b\nsub/\nsub/c\nsub/d\n");
    all.run_well("copy gs://bucket/at/ back");
    assert_same(&all.path("tree"), &all.path("back"));
}

#[test]
fn a_killed_copy_goes_on_where_it_was() {
    /// The number of parts of a file that is large enough for a journal.
    const PARTS: usize = 10;
    let all = Emulated::new();
    fs::create_dir(all.path("tree")).unwrap();
    file(&all.path("tree/large"), (PARTS << 23) as u64);
    let parts = Arc::new(AtomicUsize::new(0));
    let limit = Arc::new(AtomicUsize::new(6));
    let (sent, most) = (Arc::clone(&parts), Arc::clone(&limit));
    let server = ScriptedServer::start(Some(all.server.port()), move |request| {
        let is_part = request.body.len() > 1 << 20;
        if is_part && sent.fetch_add(1, Ordering::Relaxed) >= most.load(Ordering::Relaxed) {
            return ScriptedAnswer::Silence(Vec::new());
        }
        ScriptedAnswer::Forward
    })
    .unwrap();
    let mut command = all.command("copy tree/ gs://bucket/at", &server.endpoint);
    let mut killed = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let journals =
        || fs::read_dir(all.path("state/uploads")).is_ok_and(|mut entries| entries.next().is_some());
    wait_until("parts", Duration::from_secs(60), || parts.load(Ordering::Relaxed) > 6 && journals());
    // Those that were answered are in the journal soon after.
    std::thread::sleep(Duration::from_secs(2));
    killed.kill().unwrap();
    killed.wait().unwrap();
    parts.store(0, Ordering::Relaxed);
    limit.store(usize::MAX, Ordering::Relaxed);
    let (code, out, err) = ended(&mut all.command("copy tree/ gs://bucket/at", &server.endpoint));
    assert_eq!(code, 0, "{out}{err}");
    let again = parts.load(Ordering::Relaxed);
    assert!(again > 0 && again < PARTS, "{again} parts were sent again");
    assert_eq!(all.run_well("ls -R gs://bucket"), "at/\nat/large\n");
    all.run_well("copy gs://bucket/at/ back");
    assert_same(&all.path("tree"), &all.path("back"));
}

#[test]
fn what_keeps_a_bucket_closed_is_said_with_the_remedy() {
    let all = Emulated::new();
    fs::create_dir(all.path("tree")).unwrap();
    fs::write(all.path("tree/a"), "content").unwrap();
    for (line, code, words) in [
        ("ls gs://missing", 1, "the bucket missing does not exist"),
        ("copy tree gs://missing/x", 1, "the bucket missing does not exist"),
        ("copy gs://bucket/missing x", 1, "no such file or directory"),
        ("copy --region here tree gs://bucket", 1, "gs:// takes no --region"),
        ("copy --profile one tree gs://bucket", 1, "GOOGLE_APPLICATION_CREDENTIALS"),
        ("copy --sse AES256 tree gs://bucket", 1, "gs:// takes no --sse"),
        ("copy --acl aws-exec-read tree gs://bucket", 1, "--acl is one of"),
        ("copy --request-payer tree gs://bucket", 1, "GOOGLE_CLOUD_QUOTA_PROJECT"),
        ("ls --endpoint http://127.0.0.1:1 gs://bucket", 1, "connection refused"),
    ] {
        let (got, _, err) = all.run(line);
        assert!(err.contains(words), "{line}: {err}");
        assert!(got == code || got == 2 || got == 6, "{line}: {got} {err}");
    }
    let mut command = all.command("ls gs://bucket", "");
    let (code, _, err) = ended(command.env_remove("STORAGE_EMULATOR_HOST").env("NO_GCE_CHECK", "true"));
    assert!(code == 1 && err.contains("gcloud auth application-default login"), "{err}");
}
