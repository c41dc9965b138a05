//! Hard links in stores whose files change between two copies: attributes, names and content, all in one run.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;

use hakobu_testkit::sshd::no_root;
use hakobu_testkit::stores::StoreServer;
use tempfile::TempDir;

use super::fidelity::rsync_finds;
use super::store_sidecars::OLDER;
use crate::program::*;

/// A directory to run in, and a server with a place in it.
pub(super) struct StorePlace {
    pub(super) at: TempDir,
    pub(super) server: StoreServer,
    /// The location of the bucket.
    pub(super) url: &'static str,
}

impl StorePlace {
    pub(super) fn s3() -> Self {
        Self::new(StoreServer::versitygw().unwrap(), "s3://bucket/")
    }

    pub(super) fn azure() -> Self {
        Self::new(StoreServer::azurite().unwrap(), "az://bucket/")
    }

    pub(super) fn gcs() -> Self {
        Self::new(StoreServer::fake_gcs().unwrap(), "gs://bucket/")
    }

    fn new(server: StoreServer, url: &'static str) -> Self {
        server.make_bucket("bucket").unwrap();
        Self { at: place(), server, url }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.at.path().join(name)
    }

    /// Returns the location of a directory in the bucket.
    pub(super) fn of(&self, name: &str) -> OsString {
        format!("{}{name}/", self.url).into()
    }

    pub(super) fn run(&self, verb: &str, options: &str) -> Copy {
        let run = Copy::verb(Command::new(HAKOBU), verb).options(options);
        self.environment().into_iter().fold(run, |run, (name, value)| run.env(name, value))
    }

    /// Returns a command line without a report.
    pub(super) fn run_plain(&self, verb: &str, options: &str) -> Command {
        let mut command = Command::new(HAKOBU);
        command.arg(verb).args(options.split_whitespace()).stdin(Stdio::null());
        command.env("HAKOBU_SETTINGS", "none").env("LC_ALL", "C").envs(self.environment());
        command
    }

    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        let server = &self.server;
        let account = format!(
            "DefaultEndpointsProtocol=http;AccountName={};AccountKey={};BlobEndpoint={};",
            server.access_key, server.secret_key, server.endpoint
        );
        let mut environment = vec![("HAKOBU_STATE", self.path("state").to_string_lossy().into_owned())];
        environment.extend(match self.url {
            "s3://bucket/" => vec![
                ("AWS_ACCESS_KEY_ID", server.access_key.to_owned()),
                ("AWS_SECRET_ACCESS_KEY", server.secret_key.to_owned()),
                ("AWS_ENDPOINT_URL", server.endpoint.clone()),
                ("AWS_REGION", "us-east-1".to_owned()),
                ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
                ("AWS_CONFIG_FILE", "/dev/null".to_owned()),
                ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null".to_owned()),
            ],
            "az://bucket/" => vec![("AZURE_STORAGE_CONNECTION_STRING", account)],
            _ => vec![("STORAGE_EMULATOR_HOST", server.endpoint.clone())],
        });
        environment
    }
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Makes directories with files of one and of several names.
fn make(tree: &Path) {
    for of in ["alone", "linked", "renamed", "removed", "written", "far/one", "far/two", "both"] {
        for (name, size_bytes) in [("f", 3000), ("large", 400_000)] {
            fs::create_dir_all(tree.join(of)).unwrap();
            file(&tree.join(of).join(name), size_bytes);
        }
    }
    for of in ["linked", "renamed", "removed", "both"] {
        for name in ["f", "large"] {
            fs::hard_link(tree.join(of).join(name), tree.join(of).join(format!("{name} too"))).unwrap();
        }
    }
}

/// Changes all of them.
fn change(tree: &Path) {
    for name in ["f", "large"] {
        let at = |of: &str| tree.join(of).join(name);
        let too = |of: &str| tree.join(of).join(format!("{name} too"));
        let third = |of: &str| tree.join(of).join(format!("a third {name}"));
        // The attributes of the first name, and another one.
        chmod(&at("alone"), 0o600);
        fs::hard_link(at("alone"), too("alone")).unwrap();
        chmod(&at("linked"), 0o640);
        fs::hard_link(at("linked"), third("linked")).unwrap();
        chmod(&at("renamed"), 0o604);
        fs::rename(at("renamed"), third("renamed")).unwrap();
        chmod(&at("removed"), 0o660);
        fs::remove_file(at("removed")).unwrap();
        fs::hard_link(too("removed"), third("removed")).unwrap();
        fs::write(at("written"), [name.as_bytes(), &[7; 5000]].concat()).unwrap();
        fs::hard_link(at("written"), too("written")).unwrap();
        // Three names in two directories.
        chmod(&at("far/one"), 0o606);
        fs::hard_link(at("far/one"), too("far/one")).unwrap();
        fs::hard_link(at("far/one"), third("far/two")).unwrap();
        // Only the attributes of both.
        chmod(&at("both"), 0o600);
    }
}

/// Fails unless hard links that change are kept in the store and return.
fn check_links(store: &StorePlace) {
    if no_root() {
        return;
    }
    let tree = store.path("tree");
    let up = |options: &str| {
        let run = store.run("sync", &format!("--delete {options}"));
        run.args([contents(&tree), store.of("at")]).run_to(0)
    };
    let down = |name: &str| {
        store.run("copy", "").args([store.of("at"), store.path(name).into_os_string()]).run_to(0);
        assert_eq!(rsync_finds(&tree, &store.path(name)), "", "{name}");
    };
    make(&tree);
    up("");
    down("made");
    change(&tree);
    up("");
    down("changed");
    let unchanged = up("");
    assert_eq!(["created", "updated", "attributes_only"].map(|what| unchanged.entries(what)), [0; 3]);
    for both in [[contents(&tree), store.of("at")], [store.of("at"), store.path("changed").into()]] {
        store.run("verify", "").args(both).run_to(0);
    }
    // Contents are compared as well.
    for (of, mode) in [("linked", 0o444), ("both", 0o644)] {
        for name in ["f", "large"] {
            chmod(&tree.join(of).join(name), mode);
            fs::hard_link(tree.join(of).join(name), tree.join(of).join(format!("new {name}"))).unwrap();
        }
    }
    // S3 shows by the time of the upload that they are equal, if it is late enough.
    for (name, size_bytes) in [("f", 3000), ("large", 400_000)] {
        file(&tree.join(format!("late {name}")), size_bytes);
        fs::hard_link(tree.join(format!("late {name}")), tree.join(format!("later {name}"))).unwrap();
    }
    sleep(OLDER);
    up("--compare digest");
    down("compared");
    let unchanged = up("--compare digest");
    assert_eq!(["created", "updated", "attributes_only"].map(|what| unchanged.entries(what)), [0; 3]);
    // A name that becomes a file of its own at the source does so in the store.
    for name in ["f", "large"] {
        let (name, aside) = (tree.join(format!("both/{name} too")), store.path("aside"));
        assert!(Command::new("cp").arg("-p").args([&name, &aside]).status().unwrap().success());
        fs::rename(&aside, &name).unwrap();
    }
    let found = store.run("verify", "").args([contents(&tree), store.of("at")]).run();
    let paths = of_links(&found);
    assert!(paths.len() == 2 && paths.iter().all(|path| path.starts_with("both/")), "{:#}", found.report);
    assert_eq!(up("").entries("updated"), 2);
    down("separated");
    for (name, links) in [("f", 2), ("f too", 1), ("large", 2), ("large too", 1)] {
        let there = fs::metadata(store.path("separated").join("both").join(name)).unwrap();
        assert_eq!(there.nlink(), links, "{name}");
    }
    let unchanged = up("");
    assert_eq!(["created", "updated", "attributes_only"].map(|what| unchanged.entries(what)), [0; 3]);
    for both in [[contents(&tree), store.of("at")], [store.of("at"), store.path("separated").into()]] {
        store.run("verify", "").args(both).run_to(0);
    }
    // A name that became a file of its own is found, at either end.
    let (name, aside) = (store.path("compared").join("linked/f too"), store.path("aside"));
    fs::copy(&name, &aside).unwrap();
    let time = fs::metadata(&name).unwrap().modified().unwrap();
    fs::File::options().append(true).open(&aside).unwrap().set_modified(time).unwrap();
    chmod(&store.path("compared").join("linked"), 0o755);
    let of_directory = fs::metadata(store.path("compared").join("linked")).unwrap().modified().unwrap();
    fs::rename(&aside, &name).unwrap();
    fs::File::open(store.path("compared").join("linked")).unwrap().set_modified(of_directory).unwrap();
    let found = store.run("verify", "").args([store.of("at"), store.path("compared").into()]).run();
    assert!(of_links(&found).iter().any(|path| path == "linked/f too"), "{:#}", found.report);
    store.run("copy", "--preserve no-hardlinks").args([contents(&tree), store.of("apart")]).run_to(0);
    let found = store.run("verify", "").args([contents(&tree), store.of("apart")]).run();
    assert!(of_links(&found).len() >= 14, "{:#}", found.report);
}

/// Fails unless hard links that change in a store are kept by copies within it.
fn check_links_within(store: &StorePlace) {
    if no_root() {
        return;
    }
    let tree = store.path("tree");
    let up = || {
        store.run("sync", "--delete").args([contents(&tree), store.of("at")]).run_to(0);
    };
    let across =
        |options: &str| store.run("sync", options).args([store.of("at"), store.of("copy")]).run_to(0);
    let check = |name: &str| {
        store.run("copy", "").args([store.of("copy"), store.path(name).into_os_string()]).run_to(0);
        assert_eq!(rsync_finds(&tree, &store.path(name)), "", "{name}");
        let unchanged = across("--delete");
        assert_eq!(["created", "updated", "attributes_only"].map(|what| unchanged.entries(what)), [0; 3]);
        store.run("verify", "").args([store.of("at"), store.of("copy")]).run_to(0);
    };
    make(&tree);
    up();
    across("--delete");
    check("made");
    change(&tree);
    up();
    across("--delete");
    check("changed");
    // Files of one size become names of another file.
    for name in ["f", "large"] {
        let name = |of: &str| tree.join(of).join(name);
        fs::remove_file(name("both")).unwrap();
        fs::hard_link(name("alone"), name("both")).unwrap();
        fs::hard_link(name("alone"), name("far").with_extension("new")).unwrap();
    }
    up();
    across("--delete --compare digest");
    check("compared");
    // Objects with identities of their own.
    store.run("copy", "").args([contents(&tree), store.of("copy of tree")]).run_to(0);
    for name in ["f", "large"] {
        fs::hard_link(tree.join("alone").join(name), tree.join("far/one").join(format!("of alone {name}")))
            .unwrap();
    }
    up();
    let other = [store.of("at"), store.of("copy of tree")];
    store.run("sync", "--delete").args(other.clone()).run_to(0);
    store.run("verify", "").args(other).run_to(0);
}

/// Returns the paths at which a comparison found that a name is one of another file.
fn of_links(found: &Ran) -> Vec<String> {
    let differences = found.report["differences"].as_array().unwrap();
    let of_links = differences.iter().filter(|it| it["what"] == "links");
    of_links.map(|it| it["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn links_of_changed_files_are_kept_in_s3() {
    check_links(&StorePlace::s3());
}

#[test]
fn links_of_changed_files_are_kept_in_azure() {
    check_links(&StorePlace::azure());
}

#[test]
fn links_of_changed_files_are_kept_in_gcs() {
    check_links(&StorePlace::gcs());
}

#[test]
fn links_are_kept_by_copies_within_s3() {
    check_links_within(&StorePlace::s3());
}

#[test]
fn links_are_kept_by_copies_within_azure() {
    check_links_within(&StorePlace::azure());
}

#[test]
fn links_are_kept_by_copies_within_gcs() {
    check_links_within(&StorePlace::gcs());
}
