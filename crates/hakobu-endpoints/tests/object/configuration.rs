//! Credentials, region and endpoint from the environment and from files, each in a process of its own.

use std::fs;
use std::process::{Command, Output};

use hakobu_core::ErrorKind;
use hakobu_endpoints::object::api::ListStart;
use hakobu_endpoints::object::credentials::aws::AwsSettings;
use hakobu_endpoints::object::s3::{S3Bucket, S3Settings};
use hakobu_testkit::stores::StoreServer;
use tempfile::TempDir;

use super::{BUCKET, TestLane, keys};

/// Lists the bucket as this process is configured. Other tests start it.
#[test]
#[ignore = "started by the other tests of this module"]
fn child() {
    let profile = std::env::var("TEST_PROFILE").ok();
    let credentials = AwsSettings { profile, ..AwsSettings::default() };
    let settings = S3Settings { bucket: BUCKET.to_owned(), credentials, ..S3Settings::default() };
    match S3Bucket::open(settings.clone()) {
        Err(error) => println!("outcome: {:?} {error}", error.kind),
        Ok(_) => match TestLane::new(settings).page("", false, ListStart::First, 10) {
            Ok(page) => println!("outcome: {} objects", page.objects.len()),
            Err(error) => println!("outcome: {:?} {error}", error.kind),
        },
    }
}

/// Runs [`child`] with this environment and these files below its home, and returns its outcome.
fn outcome(environment: &[(&str, &str)], files: &[(&str, &str)]) -> String {
    let home = TempDir::new().unwrap();
    fs::create_dir(home.path().join(".aws")).unwrap();
    for (name, content) in files {
        fs::write(home.path().join(".aws").join(name), content).unwrap();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "configuration::child", "--ignored", "--nocapture"]);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command
        .env("HOME", home.path())
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .envs(environment.iter().copied());
    let Output { stdout, stderr, .. } = command.output().unwrap();
    let stdout = String::from_utf8(stdout).unwrap();
    let outcome = stdout.split_once("outcome: ").map(|(_, rest)| rest.lines().next().unwrap().to_owned());
    outcome.unwrap_or_else(|| panic!("{stdout}{}", String::from_utf8_lossy(&stderr)))
}

#[test]
fn settings_come_from_where_the_vendors_tools_have_them() {
    let server = StoreServer::versitygw().unwrap();
    server.make_bucket(BUCKET).unwrap();
    let endpoint = server.endpoint.as_str();
    let (id, secret) = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
    let environment = [(id, "test"), (secret, "testtest"), ("AWS_ENDPOINT_URL", endpoint)];
    assert_eq!(outcome(&environment, &[]), "0 objects");
    let of_s3 = [
        (id, "test"),
        (secret, "testtest"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
        ("AWS_ENDPOINT_URL_S3", endpoint),
    ];
    assert_eq!(outcome(&of_s3, &[]), "0 objects");
    let config = format!(
        "[profile one]\nregion = us-east-1\nendpoint_url = {endpoint}\n\
         [profile two]\nservices = mine\n[services mine]\ns3 =\n  endpoint_url = {endpoint}\n"
    );
    let credentials = "[one]\naws_access_key_id = test\naws_secret_access_key = testtest\n\
        [two]\naws_access_key_id = test\naws_secret_access_key = wrong\n";
    let files = [("config", config.as_str()), ("credentials", credentials)];
    assert_eq!(outcome(&[("AWS_PROFILE", "one")], &files), "0 objects");
    assert_eq!(outcome(&[("TEST_PROFILE", "one")], &files), "0 objects");
    // Keys in the environment may be those of another account.
    let both = [(id, "test"), (secret, "wrong"), ("TEST_PROFILE", "one")];
    assert_eq!(outcome(&both, &files), "0 objects");
    let missing = outcome(&[(id, "test"), (secret, "testtest"), ("TEST_PROFILE", "nosuch")], &files);
    assert!(missing.starts_with("Unauthenticated") && missing.contains("the profile nosuch"), "{missing}");
    let wrong = outcome(&[("TEST_PROFILE", "two")], &files);
    assert!(wrong.starts_with("Unauthenticated") && wrong.contains("secret"), "{wrong}");
}

#[test]
fn no_credentials_at_all_are_an_error_with_a_remedy() {
    let missing = outcome(&[("AWS_ENDPOINT_URL", "http://127.0.0.1:1")], &[]);
    assert!(missing.starts_with("Unauthenticated") && missing.contains("AWS_ACCESS_KEY_ID"), "{missing}");
}

#[test]
fn secrets_are_not_shown() {
    let keys = keys("visible", "hidden").unwrap();
    let settings = AwsSettings { keys: Some(keys), ..AwsSettings::default() };
    let text = format!("{settings:?}");
    assert!(text.contains("visible") && !text.contains("hidden"), "{text}");
    assert!(
        S3Bucket::open(S3Settings {
            bucket: "a/b".to_owned(),
            credentials: settings,
            ..S3Settings::default()
        })
        .is_err_and(|error| error.kind == ErrorKind::Usage)
    );
}
