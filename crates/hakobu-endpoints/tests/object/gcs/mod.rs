//! Google Cloud Storage: an emulator, and servers that answer as Google's do.

mod credentials;
mod parts;
mod requests;

use std::sync::Arc;

use hakobu_endpoints::object::gcs::{GcsBucket, GcsCredentialSettings, GcsSettings};
use hakobu_endpoints::object::http::HttpLimits;
use hakobu_testkit::http::{ScriptedAnswer, ScriptedServer};
use hakobu_testkit::stores::StoreServer;

use super::{BUCKET, TestLane, impatient};

const DONE: &str = r#"{"name":"a","size":"1","generation":"5","timeCreated":"2026-11-27T10:00:00Z"}"#;

fn anonymous(endpoint: &str, limits: HttpLimits) -> GcsSettings {
    GcsSettings {
        bucket: BUCKET.to_owned(),
        endpoint: Some(endpoint.to_owned()),
        credentials: GcsCredentialSettings { is_anonymous: true, ..GcsCredentialSettings::default() },
        limits,
        ..GcsSettings::default()
    }
}

fn opened(settings: GcsSettings) -> TestLane {
    TestLane::over(Arc::new(GcsBucket::open(settings).unwrap()))
}

/// Opens a new bucket of a server.
fn of(server: &StoreServer) -> TestLane {
    server.make_bucket(BUCKET).unwrap();
    opened(anonymous(&server.endpoint, HttpLimits::default()))
}

/// Opens a bucket behind a scripted server, with little patience.
fn behind(server: &ScriptedServer) -> TestLane {
    opened(anonymous(&server.endpoint, impatient()))
}

fn json(body: &str) -> ScriptedAnswer {
    ScriptedAnswer::with(200, &["Content-Type: application/json"], body)
}

/// An answer with an error as Google words it.
fn refusal(status: u16, reason: &str, message: &str) -> ScriptedAnswer {
    let body = format!(
        r#"{{"error":{{"code":{status},"message":"{message}","errors":[{{"reason":"{reason}"}}]}}}}"#
    );
    ScriptedAnswer::with(status, &[], body)
}
