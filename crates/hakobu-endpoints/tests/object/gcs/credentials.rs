//! Credentials: which ones are found, and how tokens are got and renewed.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use hakobu_core::ErrorKind;
use hakobu_endpoints::object::api::ListStart;
use hakobu_endpoints::object::gcs::{GcsBucket, GcsCredentialSettings, GcsSettings};
use hakobu_testkit::http::{ReceivedRequest, ScriptedAnswer, ScriptedServer};
use tempfile::TempDir;

use super::{DONE, anonymous, json, opened, refusal};
use crate::{BUCKET, TestLane, assert_names, impatient};

/// A service account of a server for tokens.
struct Account {
    folder: TempDir,
    public_key: Vec<u8>,
}

impl Account {
    fn new(token_uri: &str) -> Self {
        let key = KeyPair::generate(KeySize::Rsa2048).unwrap();
        let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> = key.as_der().unwrap();
        let pem = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            BASE64_STANDARD.encode(der.as_ref())
        );
        let file = format!(
            r#"{{"type":"service_account","client_email":"me@x","private_key_id":"k1","private_key":"{}","token_uri":"{token_uri}","project_id":"p1"}}"#,
            pem.replace('\n', "\\n")
        );
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("key.json"), file).unwrap();
        Self { folder, public_key: key.public_key().as_ref().to_vec() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("key.json")
    }

    /// Asserts that a request for a token is signed by this account, and returns its claims.
    fn claims(&self, request: &ReceivedRequest) -> serde_json::Value {
        let body = String::from_utf8(request.body.clone()).unwrap();
        let (_, assertion) = body.split_once("assertion=").unwrap();
        let (text, signature) = assertion.rsplit_once('.').unwrap();
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.public_key);
        key.verify(text.as_bytes(), &BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
        let (head, claims) = text.split_once('.').unwrap();
        let read = |part: &str| -> serde_json::Value {
            serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
        };
        assert_eq!((read(head)["alg"].as_str(), read(head)["kid"].as_str()), (Some("RS256"), Some("k1")));
        read(claims)
    }
}

/// Starts a server that gives out tokens of a lifetime, numbered from 1.
fn tokens(expires_in: u64) -> ScriptedServer {
    ScriptedServer::start(None, move |request| {
        let number = request.number + 1;
        json(&format!(r#"{{"access_token":"T{number}","expires_in":{expires_in},"token_type":"Bearer"}}"#))
    })
    .unwrap()
}

fn with_file(endpoint: &str, file: PathBuf) -> GcsSettings {
    let credentials = GcsCredentialSettings { file: Some(file), ..GcsCredentialSettings::default() };
    GcsSettings { credentials, ..anonymous(endpoint, impatient()) }
}

fn bearers(server: &ScriptedServer) -> Vec<String> {
    let of = |request: &ReceivedRequest| request.header("authorization").unwrap_or("none").to_owned();
    server.requests().iter().map(of).collect()
}

#[test]
fn a_service_account_signs_for_its_tokens() {
    let issuer = tokens(3600);
    let account = Account::new(&format!("{}/token", issuer.endpoint));
    let store = ScriptedServer::start(None, |_| json(DONE)).unwrap();
    let lane = opened(with_file(&store.endpoint, account.file()));
    lane.put("a", b"x").unwrap();
    lane.put("b", b"x").unwrap();
    assert_eq!(bearers(&store), ["Bearer T1", "Bearer T1"]);
    let asked = issuer.requests();
    assert_eq!((asked.len(), &asked[0].target[..]), (1, "/token"));
    let claims = account.claims(&asked[0]);
    assert_eq!(claims["iss"], "me@x");
    assert!(
        claims["aud"].as_str().unwrap().ends_with("/token")
            && claims["scope"].as_str().unwrap().contains("devstorage")
    );
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 3600);
}

#[test]
fn credentials_of_a_run_are_used_without_a_file() {
    let issuer = tokens(3600);
    let account = Account::new(&format!("{}/token", issuer.endpoint));
    let store = ScriptedServer::start(None, |_| json(DONE)).unwrap();
    let content = fs::read_to_string(account.file()).unwrap();
    for (name, value, bearer) in [
        ("GOOGLE_CREDENTIALS", content.as_str(), "Bearer T1"),
        ("CLOUDSDK_AUTH_ACCESS_TOKEN", "own", "Bearer own"),
    ] {
        let given = [(name.to_owned(), value.to_owned())].into_iter().collect();
        // A file that is not there would be an error.
        let file = Some(PathBuf::from("/nonexistent"));
        let credentials = GcsCredentialSettings { given, file, ..GcsCredentialSettings::default() };
        let lane = opened(GcsSettings { credentials, ..anonymous(&store.endpoint, impatient()) });
        lane.put("a", b"x").unwrap();
        assert_eq!(bearers(&store).last().unwrap(), bearer);
    }
}

#[test]
fn tokens_are_renewed_before_they_end_and_when_they_are_refused() {
    let issuer = tokens(100);
    let account = Account::new(&issuer.endpoint);
    let store = ScriptedServer::start(None, |_| json(DONE)).unwrap();
    let lane = opened(with_file(&store.endpoint, account.file()));
    lane.put("a", b"x").unwrap();
    assert_eq!(bearers(&store), ["Bearer T2"], "the first one has less than three minutes left");
    let issuer = tokens(3600);
    let account = Account::new(&issuer.endpoint);
    let store = ScriptedServer::start(None, |request| match request.header("authorization") {
        Some("Bearer T1") => refusal(401, "authError", "Invalid Credentials"),
        _ => json(DONE),
    })
    .unwrap();
    let lane = opened(with_file(&store.endpoint, account.file()));
    lane.put("a", b"x").unwrap();
    assert_eq!(bearers(&store), ["Bearer T1", "Bearer T2"]);
    let store = ScriptedServer::start(None, |_| refusal(401, "authError", "Invalid Credentials")).unwrap();
    let error = opened(with_file(&store.endpoint, account.file())).put("a", b"x").unwrap_err();
    assert_eq!((error.kind, store.requests().len()), (ErrorKind::Unauthenticated, 2));
}

#[test]
fn a_login_that_ended_and_a_wrong_clock_are_said() {
    for (answer, words) in [
        (
            r#"{"error":"invalid_grant","error_description":"Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and exp values in the JWT claim."}"#,
            "set the clock",
        ),
        (
            r#"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#,
            "create a new key for the service account",
        ),
        ("<html>", "Google does not accept the key of me@x: status 400"),
    ] {
        let issuer = ScriptedServer::start(None, move |_| ScriptedAnswer::with(400, &[], answer)).unwrap();
        let account = Account::new(&issuer.endpoint);
        let error = GcsBucket::open(with_file("http://127.0.0.1:1", account.file())).err().unwrap();
        assert_eq!(error.kind, ErrorKind::Unauthenticated, "{error}");
        assert_names(&error, &[words]);
    }
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let issuer = ScriptedServer::start(None, move |_| {
        let revoked = r#"{"error":"invalid_grant","error_description":"Token has been expired or revoked."}"#;
        match counted.fetch_add(1, Ordering::Relaxed) {
            0 => ScriptedAnswer::with(503, &[], ""),
            _ => ScriptedAnswer::with(400, &[], revoked),
        }
    })
    .unwrap();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("user.json");
    let user = |kind: &str, uri: &str| {
        format!(
            r#"{{"type":"{kind}","client_id":"c","client_secret":"s","refresh_token":"r+/","token_uri":"{uri}"}}"#
        )
    };
    fs::write(&file, user("authorized_user", &issuer.endpoint)).unwrap();
    let error = GcsBucket::open(with_file("http://127.0.0.1:1", file.clone())).err().unwrap();
    assert_names(&error, &["Token has been expired or revoked", "gcloud auth application-default login"]);
    assert_eq!(count.load(Ordering::Relaxed), 2, "what passes is asked again");
    let sent = String::from_utf8(issuer.requests()[1].body.clone()).unwrap();
    assert!(sent.contains("grant_type=refresh_token") && sent.contains("refresh_token=r%2B%2F"), "{sent}");
    for (content, words) in [
        (user("external_account", ""), "credentials of type external_account are not in this version"),
        (user("authorized_user", "http://tokens.example"), "no https URL"),
        (user("something", ""), "no JSON file with credentials"),
        ("no".to_owned(), "no JSON file with credentials"),
        (
            r#"{"type":"service_account","private_key":"-----BEGIN\nAAAA"}"#.to_owned(),
            "the private key in it cannot be read",
        ),
    ] {
        fs::write(&file, content).unwrap();
        let error = GcsBucket::open(with_file("http://127.0.0.1:1", file.clone())).err().unwrap();
        assert_eq!(error.kind, ErrorKind::Unauthenticated, "{error}");
        assert_names(&error, &[words]);
        assert!(!error.to_string().contains("r+/"), "no secret is shown: {error}");
    }
    let missing = GcsBucket::open(with_file("http://127.0.0.1:1", folder.path().join("none"))).err().unwrap();
    assert_names(&missing, &["none", "no such file"]);
}

#[test]
fn credentials_are_not_sent_where_others_read_them() {
    let issuer = tokens(3600);
    let account = Account::new(&issuer.endpoint);
    let error = GcsBucket::open(with_file("http://storage.example", account.file())).err().unwrap();
    assert_eq!((error.kind, issuer.requests().len()), (ErrorKind::Usage, 0));
    assert_names(&error, &["the endpoint is not https", "--no-sign-request"]);
}

#[test]
fn the_project_that_pays_is_named() {
    let issuer = tokens(3600);
    let account = Account::new(&issuer.endpoint);
    let store = ScriptedServer::start(None, |_| json(DONE)).unwrap();
    let settings = with_file(&store.endpoint, account.file());
    opened(GcsSettings { pays_requests: true, ..settings }).put("a", b"x").unwrap();
    assert_eq!(store.requests()[0].header("x-goog-user-project"), Some("p1"));
    let nobody = GcsSettings { pays_requests: true, ..anonymous(&store.endpoint, impatient()) };
    assert_names(&GcsBucket::open(nobody).err().unwrap(), &["GOOGLE_CLOUD_QUOTA_PROJECT"]);
}

/// Lists the bucket as this process is configured. Other tests start it.
#[test]
#[ignore = "started by the other tests of this module"]
fn child() {
    let endpoint = std::env::var("TEST_ENDPOINT").ok();
    let settings =
        GcsSettings { bucket: BUCKET.to_owned(), endpoint, limits: impatient(), ..GcsSettings::default() };
    match GcsBucket::open(settings) {
        Err(error) => println!("outcome: {:?} {error}", error.kind),
        Ok(bucket) => match TestLane::over(Arc::new(bucket)).page("", false, ListStart::First, 10) {
            Ok(page) => println!("outcome: {} objects", page.objects.len()),
            Err(error) => println!("outcome: {:?} {error}", error.kind),
        },
    }
}

/// Runs [`child`] with this environment and these files below its home, and returns its outcome.
fn outcome(environment: &[(&str, &str)], files: &[(&str, &str)]) -> String {
    let home = TempDir::new().unwrap();
    let folder = home.path().join(".config/gcloud");
    fs::create_dir_all(&folder).unwrap();
    for (name, content) in files {
        fs::write(folder.join(name), content).unwrap();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "gcs::credentials::child", "--ignored", "--nocapture"]);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if ["GOOGLE_", "CLOUDSDK_", "GCE_", "STORAGE_"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.env("HOME", home.path()).env("NO_GCE_CHECK", "true").envs(environment.iter().copied());
    let Output { stdout, stderr, .. } = command.output().unwrap();
    let stdout = String::from_utf8(stdout).unwrap();
    let outcome = stdout.split_once("outcome: ").map(|(_, rest)| rest.lines().next().unwrap().to_owned());
    outcome.unwrap_or_else(|| panic!("{stdout}{}", String::from_utf8_lossy(&stderr)))
}

#[test]
fn credentials_come_from_where_googles_libraries_have_them() {
    let store = ScriptedServer::start(None, |_| json("{}")).unwrap();
    let issuer = tokens(3600);
    let account = Account::new(&issuer.endpoint);
    let (endpoint, file) = (store.endpoint.as_str(), account.file());
    let here = ("TEST_ENDPOINT", endpoint);
    let named = ("GOOGLE_APPLICATION_CREDENTIALS", file.to_str().unwrap());
    assert_eq!(outcome(&[here, named], &[]), "0 objects");
    assert_eq!(outcome(&[here, ("CLOUDSDK_AUTH_ACCESS_TOKEN", "mine")], &[]), "0 objects");
    // An emulator gets none, whatever there is.
    assert_eq!(outcome(&[("STORAGE_EMULATOR_HOST", endpoint), named], &[]), "0 objects");
    let address = endpoint.strip_prefix("http://").unwrap();
    assert_eq!(outcome(&[("STORAGE_EMULATOR_HOST", address)], &[]), "0 objects");
    // Those of a login that nobody has named go to Google only.
    let login = fs::read_to_string(&file).unwrap();
    let files = [("application_default_credentials.json", login.as_str())];
    assert_eq!(outcome(&[here], &files), "0 objects");
    assert_eq!(bearers(&store), ["Bearer T1", "Bearer mine", "none", "none", "none"]);
    // At Google's servers they are used: the server for tokens is asked.
    let proxy = ScriptedServer::start(None, |_| ScriptedAnswer::with(403, &[], "")).unwrap();
    let refused = outcome(&[("https_proxy", &proxy.endpoint), ("no_proxy", "127.0.0.1")], &files);
    assert!(refused.starts_with("ConnectionLost") || refused.starts_with("Protocol"), "{refused}");
    assert_eq!(issuer.requests().len(), 2);
    let machine = tokens(3600);
    let host = machine.endpoint.strip_prefix("http://").unwrap();
    outcome(&[("https_proxy", &proxy.endpoint), ("GCE_METADATA_HOST", host)], &[]);
    let asked = &machine.requests()[0];
    assert_eq!(asked.header("metadata-flavor"), Some("Google"));
    assert_eq!(asked.target, "/computeMetadata/v1/instance/service-accounts/default/token");
    let none = outcome(&[], &[]);
    assert!(none.starts_with("Unauthenticated") && none.contains("GOOGLE_APPLICATION_CREDENTIALS"), "{none}");
}
