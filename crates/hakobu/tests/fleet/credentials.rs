//! Runs with credentials that are sealed in the ledger, and a real store. Everything that the processes write and answer is
//! searched for the secret.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hakobu_testkit::nats::NatsConfiguration;
use hakobu_testkit::stores::StoreServer;
use serde_json::{Value, json};

use crate::processes::HAKOBU;
use crate::secret_search::{SecretForms, is_below};
use crate::small_fleet::{GROUP, SmallFleet};
use crate::trees;

const ACCESS_KEY: &str = "AKIAFLEETTEST";
/// The secret of the store. [`SECRET_PART`] is in it.
pub const SECRET: &str = "q7/VbT3nLw9RkZ2xHsYd5Mf8Jc+pE";
pub const SECRET_PART: &str = "VbT3nLw9RkZ2xHsYd5Mf8Jc";
pub const WRONG_SECRET: &str = "u4/Gr6KtXe1DmQs0WvNa7Bz9Py+oI";
pub const WRONG_SECRET_PART: &str = "Gr6KtXe1DmQs0WvNa7Bz9Py";
const RUN_LIMIT: Duration = Duration::from_secs(150);

/// A fleet whose nats-server logs every message, and a bucket.
pub struct StoreFleet {
    pub fleet: SmallFleet,
    pub store: StoreServer,
}

impl StoreFleet {
    pub fn start() -> Self {
        let store = StoreServer::versitygw_with(ACCESS_KEY, SECRET).unwrap();
        store.make_bucket("bucket").unwrap();
        let nats =
            NatsConfiguration { text: "debug: true\ntrace: true\n".to_owned(), environment: Vec::new() };
        let mut fleet = SmallFleet::start_over(&nats, 30, 0, &[]);
        let url = fleet.nats.url();
        fleet.add_broker_by("b0", without_credentials(), &url);
        fleet.control.wait_for_brokers(1);
        Self { fleet, store }
    }

    /// Returns the request of a copy with the options that lead to the server.
    pub fn request(&self, source: &str, target: &str) -> Value {
        json!({ "sources": [source], "target": target, "arguments": self.arguments() })
    }

    pub fn arguments(&self) -> Value {
        json!(["--endpoint", self.store.endpoint, "--region", "us-east-1"])
    }

    /// Makes a relationship with sealed credentials. Returns it.
    pub fn add(&self, name: &str, request: &Value, secret: &str) -> Value {
        let input = json!({
            "name": name, "group": GROUP, "request": request,
            "credentials": [{ "kind": "secret", "value": lines(secret) }],
        });
        self.fleet.control.client.send("POST", "/api/v1/relationships", &input).unwrap()
    }

    /// Runs a relationship to its end. Returns the number of the run and the run.
    fn run(&self, relationship: &Value) -> (u64, Value) {
        let path = format!("/api/v1/relationships/{}/runs", relationship["id"]);
        let started: Value = self.fleet.control.client.send("POST", &path, &json!(null)).unwrap();
        let run = started["run"].as_u64().unwrap();
        (run, self.fleet.control.finish(run, RUN_LIMIT))
    }

    /// Searches everything that the processes have written and answer.
    #[track_caller]
    pub fn assert_secret(&self, part: &str, runs: &[u64]) {
        let forms = SecretForms::new(part);
        let control = &self.fleet.control;
        let mut paths: Vec<String> =
            ["relationships", "relationships/1", "runs", "audit", "brokers", "tokens", "openapi.json"]
                .map(str::to_owned)
                .to_vec();
        for run in runs {
            paths.extend(["", "/report", "/failures", "/rates"].map(|more| format!("runs/{run}{more}")));
        }
        for path in paths {
            let answer = control.client.get_bytes(&format!("/api/v1/{path}")).unwrap();
            assert!(!forms.are_in(&answer), "the answer about {path} contains the secret");
        }
        for line in ["relationships list", "run list", "audit"] {
            for words in [line.to_owned(), format!("{line} --json")] {
                let (_, shown) = control.fleet(&words);
                assert!(!forms.are_in(shown.as_bytes()), "{words}: {shown}");
            }
        }
        self.assert_files(&forms);
    }

    /// Searches the folder of the control plane, the state of the broker, the logs, and the folder of nats-server.
    #[track_caller]
    fn assert_files(&self, forms: &SecretForms) {
        let mut searched = forms.assert_not_below(self.fleet.nats.folder());
        for entry in fs::read_dir(self.fleet.place()).unwrap() {
            let path = entry.unwrap().path();
            if path != self.fleet.source() && path != self.fleet.path("back") {
                searched += forms.assert_not_below(&path);
            }
        }
        println!("searched {searched} bytes of files");
    }
}

/// Returns the program with an environment that leads to no credentials.
pub fn without_credentials() -> Command {
    let mut command = Command::new(HAKOBU);
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"] {
        command.env_remove(name);
    }
    command
        .env("AWS_CONFIG_FILE", "/dev/null")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        .env("AWS_EC2_METADATA_DISABLED", "true");
    command
}

/// Returns credentials as somebody types them.
pub fn lines(secret: &str) -> String {
    format!("AWS_ACCESS_KEY_ID={ACCESS_KEY}\nAWS_SECRET_ACCESS_KEY={secret}\n")
}

/// Makes a tree with files of many sizes, one of several parts among them.
fn make_tree(root: &Path) {
    for (name, bytes) in [("a/one", 1), ("a/b/many", 300_000), ("a/b/empty", 0), ("parts", 17 << 20)] {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let content: Vec<u8> =
            (0..bytes as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        fs::write(path, content).unwrap();
    }
    fs::create_dir(root.join("small")).unwrap();
    (0..200)
        .for_each(|file| fs::write(root.join(format!("small/f {file}")), format!("content {file}")).unwrap());
}

#[test]
fn sealed_credentials_reach_a_bucket_and_stay_secret() {
    let mut fleet = StoreFleet::start();
    let (source, back) = (fleet.fleet.source(), fleet.fleet.path("back"));
    make_tree(&source);
    let there = "s3://bucket/tree/";
    let up = fleet.request(&format!("{}/", source.display()), there);
    let down = fleet.request(there, &back.display().to_string());
    let mut runs = Vec::new();
    for (name, request) in [("up", up), ("down", down)] {
        let relationship = fleet.add(name, &request, SECRET);
        let (run, view) = fleet.run(&relationship);
        assert_eq!((&view["state"], &view["failures"]), (&json!("complete"), &json!(0)), "{view:#}");
        runs.push(run);
    }
    trees::assert_equal(&source, &back);
    assert!(fleet.store.data().join("bucket/tree/parts").exists());

    fleet.assert_secret(SECRET_PART, &runs);
    // The search reaches where the secret would be.
    for folder in [fleet.fleet.path("control"), fleet.fleet.nats.folder().to_owned()] {
        assert!(is_below(&folder, there.as_bytes()), "{}", folder.display());
    }
    assert!(is_below(&fleet.fleet.path("control"), b"hks1."), "the ledger has what is sealed");
    // Also after the processes have ended: what they write then, and the ledger without its log.
    let broker = fleet.fleet.broker("b0");
    broker.signal(rustix::process::Signal::TERM);
    assert_eq!(broker.wait().code(), Some(0));
    fleet.fleet.control.end();
    fleet.assert_files(&SecretForms::new(SECRET_PART));
}

#[test]
fn a_run_with_a_wrong_secret_ends_and_names_neither() {
    let fleet = StoreFleet::start();
    let source = fleet.fleet.source();
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "content").unwrap();
    let request = fleet.request(&format!("{}/", source.display()), "s3://bucket/tree/");
    let relationship = fleet.add("up", &request, WRONG_SECRET);
    let (run, view) = fleet.run(&relationship);
    assert_eq!(view["state"], "failed", "{view:#}");
    assert_eq!(view["last_error"]["kind"], "unauthenticated", "{view:#}");
    let (code, shown) = fleet.fleet.control.fleet(&format!("run show {run}"));
    assert!(code == 0 && shown.contains("AWS_SECRET_ACCESS_KEY"), "{shown}");
    let (code, shown) = fleet.fleet.control.fleet(&format!("run watch {run}"));
    assert!(code == 1 && shown.contains("the secret key does not belong"), "{shown}");
    fleet.assert_secret(WRONG_SECRET_PART, &[run]);

    // Mended, the next run is complete.
    let mut input = relationship["relationship"].clone();
    input["credentials"] = json!([{ "kind": "secret", "value": lines(SECRET) }]);
    let update = json!({ "revision": relationship["revision"], "relationship": input });
    let mended: Value = fleet
        .fleet
        .control
        .client
        .send("PUT", &format!("/api/v1/relationships/{}", relationship["id"]), &update)
        .unwrap();
    let (run, view) = fleet.run(&mended);
    assert_eq!(view["state"], "complete", "{view:#}");
    fleet.assert_secret(SECRET_PART, &[run]);
    fleet.assert_secret(WRONG_SECRET_PART, &[run]);
}
