//! Runs the conformance suite over real servers. Each place is a bucket of its own.

use std::cell::Cell;
use std::sync::Arc;

use hakobu_core::path::EntryPath;
use hakobu_endpoints::object::BucketAccess;
use hakobu_endpoints::object::azure::{AzureContainer, AzureSettings};
use hakobu_endpoints::object::credentials::SigningKeys;
use hakobu_endpoints::object::credentials::aws::AwsSettings;
use hakobu_endpoints::object::gcs::{GcsBucket, GcsCredentialSettings, GcsSettings};
use hakobu_endpoints::object::s3::{S3Bucket, S3Settings};
use hakobu_testkit::conformance::{Harness, TestPlace, case_names, run_all};
use hakobu_testkit::stores::StoreServer;

use crate::conformance::InBucket;

/// Cases that need an object `a` beside an object `a/b`.
const KEYS_ARE_PATHS: &[&str] = &[
    "a change that fails is named and the rest is made",
    "a link to a directory is not entered",
    "a link to a directory on the way is not entered",
    "portions come in order, one behind the other, and are all of it",
];

struct BucketsOfServer {
    server: StoreServer,
    exceptions: &'static [&'static str],
    buckets: Cell<u32>,
}

impl Harness for BucketsOfServer {
    fn exceptions(&self) -> &'static [&'static str] {
        self.exceptions
    }

    fn place(&self) -> Box<dyn TestPlace> {
        let number = self.buckets.replace(self.buckets.get() + 1);
        let bucket = format!("bucket-{number}");
        self.server.make_bucket(&bucket).unwrap();
        let StoreServer { access_key, secret_key, .. } = self.server;
        let (access_key, secret_key) = (access_key.to_owned(), secret_key.to_owned());
        let keys = SigningKeys { access_key, secret_key, session_token: None, expires: None };
        let settings = S3Settings {
            bucket,
            endpoint: Some(self.server.endpoint.clone()),
            region: Some("us-east-1".to_owned()),
            credentials: AwsSettings { keys: Some(keys), ..AwsSettings::default() },
            ..S3Settings::default()
        };
        let access = BucketAccess::new(Arc::new(S3Bucket::open(settings).unwrap()), None);
        Box::new(InBucket { access, root: EntryPath::root() })
    }
}

/// Cases that need an object for a directory beside a file of the same name.
const DIRECTORIES_ARE_BLOBS: &[&str] =
    &["a change that fails is named and the rest is made", "a link to a directory is not entered"];

struct ContainersOfServer {
    server: StoreServer,
    containers: Cell<u32>,
}

impl Harness for ContainersOfServer {
    fn exceptions(&self) -> &'static [&'static str] {
        DIRECTORIES_ARE_BLOBS
    }

    fn place(&self) -> Box<dyn TestPlace> {
        let number = self.containers.replace(self.containers.get() + 1);
        let container = format!("container-{number}");
        self.server.make_bucket(&container).unwrap();
        let settings = AzureSettings {
            container,
            endpoint: Some(self.server.endpoint.clone()),
            environment: [("AZURE_STORAGE_KEY".to_owned(), self.server.secret_key.to_owned())]
                .into_iter()
                .collect(),
            ..AzureSettings::default()
        };
        let access = BucketAccess::new(Arc::new(AzureContainer::open(settings).unwrap()), None);
        let root = EntryPath::new(if number.is_multiple_of(2) { "" } else { "some/where" }).unwrap();
        Box::new(InBucket { access, root })
    }
}

#[test]
#[ignore = "long"]
fn long_azurite_conforms() {
    let server = StoreServer::azurite().unwrap();
    let harness = ContainersOfServer { server, containers: Cell::new(0) };
    let names = case_names(&harness);
    assert!(names.len() >= 52, "{} cases: {names:?}", names.len());
    run_all(&harness);
}

fn check(server: StoreServer, exceptions: &'static [&'static str]) {
    let harness = BucketsOfServer { server, exceptions, buckets: Cell::new(0) };
    let names = case_names(&harness);
    assert!(names.len() >= 52, "{} cases: {names:?}", names.len());
    run_all(&harness);
}

/// It keeps objects as files.
#[test]
fn versitygw_conforms() {
    check(StoreServer::versitygw().unwrap(), KEYS_ARE_PATHS);
}

#[test]
#[ignore = "long"]
fn long_moto_conforms() {
    check(StoreServer::moto().unwrap(), &[]);
}

struct GcsBucketsOfServer {
    server: StoreServer,
    buckets: Cell<u32>,
}

impl Harness for GcsBucketsOfServer {
    fn place(&self) -> Box<dyn TestPlace> {
        let number = self.buckets.replace(self.buckets.get() + 1);
        let bucket = format!("bucket-{number}");
        self.server.make_bucket(&bucket).unwrap();
        let settings = GcsSettings {
            bucket,
            endpoint: Some(self.server.endpoint.clone()),
            credentials: GcsCredentialSettings { is_anonymous: true, ..GcsCredentialSettings::default() },
            ..GcsSettings::default()
        };
        let access = BucketAccess::new(Arc::new(GcsBucket::open(settings).unwrap()), None);
        let root = EntryPath::new(if number.is_multiple_of(2) { "" } else { "some/where" }).unwrap();
        Box::new(InBucket { access, root })
    }
}

#[test]
fn fake_gcs_conforms() {
    let server = StoreServer::fake_gcs().unwrap();
    let harness = GcsBucketsOfServer { server, buckets: Cell::new(0) };
    let names = case_names(&harness);
    assert!(names.len() >= 56, "{} cases: {names:?}", names.len());
    run_all(&harness);
}
