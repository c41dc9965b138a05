//! Tests of object stores against real servers, and against one that misbehaves.

#![allow(clippy::unwrap_used)]

mod azure;
mod configuration;
mod errors;
mod faults;
mod gcs;
mod hostile;
mod multipart;
mod requests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use hakobu_core::checksum::crc64;
use hakobu_core::extent::Extent;
use hakobu_core::{Error, Result};
use hakobu_endpoints::object::api::{
    Bucket, ListQuery, ListStart, ObjectApi, ObjectBody, ObjectPage, ObjectProperties, PutCondition,
    PutObject, StoredObject,
};
use hakobu_endpoints::object::credentials::SigningKeys;
use hakobu_endpoints::object::credentials::aws::AwsSettings;
use hakobu_endpoints::object::http::HttpLimits;
use hakobu_endpoints::object::runtime::LaneRuntime;
use hakobu_endpoints::object::s3::{S3Bucket, S3Settings};
use hakobu_testkit::http::ScriptedServer;
use hakobu_testkit::stores::StoreServer;

const BUCKET: &str = "bucket";

/// A lane of a bucket, with its runtime.
struct TestLane {
    bucket: Arc<dyn Bucket>,
    api: Box<dyn ObjectApi>,
    runtime: LaneRuntime,
}

fn keys(access_key: &str, secret_key: &str) -> Option<SigningKeys> {
    let (access_key, secret_key) = (access_key.to_owned(), secret_key.to_owned());
    Some(SigningKeys { access_key, secret_key, session_token: None, expires: None })
}

fn settings(endpoint: &str) -> S3Settings {
    S3Settings {
        bucket: BUCKET.to_owned(),
        endpoint: Some(endpoint.to_owned()),
        region: Some("us-east-1".to_owned()),
        credentials: AwsSettings { keys: keys("test", "testtest"), ..AwsSettings::default() },
        limits: HttpLimits {
            stall: Duration::from_secs(30),
            retries: Duration::from_secs(20),
            ..HttpLimits::default()
        },
        ..S3Settings::default()
    }
}

fn impatient() -> HttpLimits {
    HttpLimits {
        connect: Duration::from_secs(5),
        stall: Duration::from_millis(400),
        retries: Duration::from_millis(900),
        ..HttpLimits::default()
    }
}

impl TestLane {
    fn new(settings: S3Settings) -> Self {
        Self::over(Arc::new(S3Bucket::open(settings).unwrap()))
    }

    fn over(bucket: Arc<dyn Bucket>) -> Self {
        let runtime = LaneRuntime::new().unwrap();
        let api = bucket.connect().unwrap();
        Self { bucket, api, runtime }
    }

    /// Opens a new bucket of a server.
    fn of(server: &StoreServer) -> Self {
        server.make_bucket(BUCKET).unwrap();
        Self::new(settings(&server.endpoint))
    }

    /// Opens a bucket behind a scripted server, with little patience.
    fn behind(server: &ScriptedServer) -> Self {
        Self::new(S3Settings { limits: impatient(), ..settings(&server.endpoint) })
    }

    fn put(&self, key: &str, content: &[u8]) -> Result<StoredObject> {
        self.put_if(key, content, &PutCondition::None)
    }

    fn put_if(&self, key: &str, content: &[u8], condition: &PutCondition) -> Result<StoredObject> {
        let properties = ObjectProperties::default();
        let (content, crc64) = (vec![Bytes::copy_from_slice(content)], Some(crc64(content)));
        self.runtime.run(self.api.put(PutObject { key, content, properties: &properties, condition, crc64 }))
    }

    fn get(&self, key: &str, range: Option<Extent>) -> Result<Vec<u8>> {
        self.runtime.run(async {
            let body = self.api.get(key, range, None).await?;
            read_all(body).await
        })
    }

    fn page(
        &self,
        prefix: &str,
        delimiter: bool,
        start: ListStart<'_>,
        entries: usize,
    ) -> Result<ObjectPage> {
        self.runtime.run(self.api.list(ListQuery { prefix, delimiter, start, until: None, entries }))
    }

    /// Lists all keys below a prefix, in pages.
    fn keys(&self, prefix: &str, entries: usize) -> Vec<String> {
        let mut page = self.page(prefix, false, ListStart::First, entries).unwrap();
        let mut keys = Vec::new();
        loop {
            keys.extend(page.objects.drain(..).map(|object| object.key));
            match page.next.take() {
                Some(next) => page = self.page(prefix, false, ListStart::Cursor(&next), entries).unwrap(),
                None => return keys,
            }
        }
    }
}

async fn read_all(mut body: ObjectBody) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    while let Some(chunk) = body.chunks.next().await.transpose()? {
        content.extend_from_slice(&chunk);
    }
    Ok(content)
}

/// Asserts that a message names all of these.
fn assert_names(error: &Error, names: &[&str]) {
    let text = error.to_string();
    for name in names {
        assert!(text.contains(name), "{name:?} is not in: {text}");
    }
}

/// Returns bytes that no compression or repetition makes equal.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}
