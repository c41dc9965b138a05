//! Errors of the store: their kind, and a message with the cause and the remedy.

use std::time::{Duration, Instant};

use hakobu_core::ErrorKind;
use hakobu_core::error::ErrorStep;
use hakobu_core::store_settings::BucketAddressing;
use hakobu_endpoints::object::api::{ListStart, PutCondition};
use hakobu_endpoints::object::credentials::aws::AwsSettings;
use hakobu_endpoints::object::http::HttpLimits;
use hakobu_endpoints::object::s3::S3Settings;
use hakobu_testkit::http::{ScriptedAnswer, ScriptedServer};
use hakobu_testkit::stores::StoreServer;

use super::{BUCKET, TestLane, assert_names, impatient, keys, settings};

#[test]
fn wrong_credentials_end_the_run() {
    let server = StoreServer::versitygw().unwrap();
    server.make_bucket(BUCKET).unwrap();
    for (keys, words) in [(keys("test", "wrong"), "secret"), (keys("nobody", "testtest"), "access key")] {
        let credentials = AwsSettings { keys, ..AwsSettings::default() };
        let lane = TestLane::new(S3Settings { credentials, ..settings(&server.endpoint) });
        let listing = lane.page("", false, ListStart::First, 10).unwrap_err();
        let inspecting = lane.runtime.run(lane.api.head("a")).unwrap_err();
        for error in [listing, inspecting, lane.put("a", b"x").unwrap_err(), lane.get("a", None).unwrap_err()]
        {
            assert_eq!(error.kind, ErrorKind::Unauthenticated, "{error}");
            assert!(error.is_fatal() && !error.may_retry());
            assert_names(&error, &[words, "s3://bucket", "AWS_"]);
        }
    }
}

#[test]
fn a_bucket_that_does_not_exist_is_named() {
    for server in [StoreServer::versitygw().unwrap(), StoreServer::moto().unwrap()] {
        let lane = TestLane::new(settings(&server.endpoint));
        let listing = lane.page("", false, ListStart::First, 10).unwrap_err();
        let inspecting = lane.runtime.run(lane.api.head("a")).unwrap_err();
        for error in [listing, inspecting, lane.put("a", b"x").unwrap_err()] {
            assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
            assert_names(&error, &["the bucket bucket does not exist"]);
        }
    }
}

#[test]
fn an_object_that_does_not_exist_is_none() {
    for server in [StoreServer::versitygw().unwrap(), StoreServer::moto().unwrap()] {
        let lane = TestLane::of(&server);
        assert_eq!(lane.runtime.run(lane.api.head("a/b")).unwrap(), None);
        let error = lane.get("a/b", None).unwrap_err();
        assert_eq!(error.kind, ErrorKind::SourceVanished);
        assert_names(&error, &["reading the object", "s3://bucket/a/b"]);
    }
}

#[test]
fn unsigned_requests_to_a_private_bucket_are_denied() {
    let server = StoreServer::versitygw().unwrap();
    server.make_bucket(BUCKET).unwrap();
    let credentials = AwsSettings { is_anonymous: true, ..AwsSettings::default() };
    let lane = TestLane::new(S3Settings { credentials, ..settings(&server.endpoint) });
    let error = lane.page("", false, ListStart::First, 10).unwrap_err();
    assert_eq!(error.kind, ErrorKind::PermissionDenied, "{error}");
    assert_names(&error, &["it is not public"]);
}

fn refusal(status: u16, code: &str, more: &str) -> ScriptedAnswer {
    let body =
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>Words.</Message>{more}</Error>");
    ScriptedAnswer::with(status, &["Content-Type: application/xml"], body)
}

#[test]
fn another_region_is_followed_once() {
    let server = ScriptedServer::start(None, |request| {
        if request.header("authorization").is_some_and(|value| value.contains("/eu-west-9/")) {
            return refusal(403, "AccessDenied", "");
        }
        refusal(400, "AuthorizationHeaderMalformed", "<Region>eu-west-9</Region>")
    })
    .unwrap();
    let lane = TestLane::behind(&server);
    assert_eq!(lane.put("a", b"x").unwrap_err().kind, ErrorKind::PermissionDenied);
    assert_eq!(server.requests().len(), 2);
    lane.put("b", b"x").unwrap_err();
    assert_eq!(server.requests().len(), 3, "it is remembered");
    let restless = ScriptedServer::start(None, |request| {
        let region = format!("<Region>region-{}</Region>", request.number);
        refusal(301, "PermanentRedirect", &region)
    })
    .unwrap();
    let error = TestLane::behind(&restless).put("a", b"x").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthenticated);
    assert_names(&error, &["region-1", "AWS_REGION"]);
    assert_eq!(restless.requests().len(), 2);
}

#[test]
fn a_redirect_to_another_host_is_not_followed() {
    let other = ScriptedServer::start(None, |_| ScriptedAnswer::with(200, &[], "")).unwrap();
    let location = format!("Location: {}/bucket/a", other.endpoint);
    let server = ScriptedServer::start(None, move |_| ScriptedAnswer::with(307, &[&location], "")).unwrap();
    let error = TestLane::behind(&server).put("a", b"x").unwrap_err();
    assert_eq!(other.requests().len(), 0);
    // S3 would have named a region.
    assert_eq!(error.kind, ErrorKind::Protocol);
    assert_names(&error, &["the endpoint must be that of"]);
}

#[test]
fn archives_and_clocks_are_explained() {
    let server = ScriptedServer::start(None, |request| match request.number {
        0 => refusal(403, "InvalidObjectState", ""),
        1 => refusal(
            403,
            "RequestTimeTooSkewed",
            "<RequestTime>HERE</RequestTime><ServerTime>THERE</ServerTime>",
        ),
        _ => refusal(400, "ExpiredToken", ""),
    })
    .unwrap();
    let lane = TestLane::behind(&server);
    let archived = lane.get("a", None).unwrap_err();
    assert_eq!(archived.kind, ErrorKind::Unsupported);
    assert_names(&archived, &["restore-object --bucket bucket --key 'a'"]);
    let skewed = lane.put("a", b"x").unwrap_err();
    assert_eq!(skewed.kind, ErrorKind::Unauthenticated);
    assert_names(&skewed, &["HERE here, THERE there"]);
    let expired = lane.put_if("a", b"x", &PutCondition::IfAbsent).unwrap_err();
    assert_eq!(expired.kind, ErrorKind::Unauthenticated, "{expired}");
    assert_eq!(server.requests().len(), 4, "it is tried once more with credentials that were read again");
}

#[test]
fn an_answer_that_is_no_store_s_is_explained() {
    for page in ["<html>hello</html>", "<!DOCTYPE html><html><p>hello", "hello", "{}", ""] {
        let server = ScriptedServer::start(None, move |_| ScriptedAnswer::with(200, &[], page)).unwrap();
        let error = TestLane::behind(&server).page("", false, ListStart::First, 10).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{page}: {error}");
        assert_names(
            &error,
            &["reading the answer of the store s3://bucket/", "the endpoint must be that of"],
        );
    }
}

#[test]
fn a_server_without_tls_is_told_at_once() {
    let server = StoreServer::versitygw().unwrap();
    let endpoint = server.endpoint.replace("http://", "https://");
    let begun = Instant::now();
    let lane = TestLane::new(settings(&endpoint));
    let error = lane.put("a", b"x").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
    assert_names(&error, &["does not speak TLS", "http://"]);
    assert!(begun.elapsed() < Duration::from_secs(8), "it is not repeated");
}

#[test]
fn a_bucket_s_host_without_an_address_gets_a_hint() {
    let addressing = BucketAddressing::Virtual;
    let lane =
        TestLane::new(S3Settings { limits: impatient(), addressing, ..settings("http://nowhere.invalid") });
    assert_names(&lane.put("a", b"x").unwrap_err(), &["address", "--addressing path"]);
}

#[test]
fn an_outage_ends_after_its_time() {
    let server = ScriptedServer::start(None, |_| ScriptedAnswer::with(500, &[], "")).unwrap();
    let limits = HttpLimits { outage: Duration::from_millis(700), ..HttpLimits::default() };
    let lane = TestLane::new(S3Settings { limits, ..settings(&server.endpoint) });
    let begun = Instant::now();
    let error = lane.put("bad", b"x").unwrap_err();
    assert_eq!((error.kind, error.step), (ErrorKind::TimedOut, ErrorStep::Request), "{error}");
    assert!(begun.elapsed() >= Duration::from_millis(700) && begun.elapsed() < Duration::from_secs(60));
    let repeated = server.requests().len();
    assert!(repeated > 2, "{repeated}");
}

#[test]
fn nobody_listens() {
    // A port that another test's server may get would not do.
    let lane = TestLane::new(settings("http://127.0.0.1:1"));
    let error = lane.put("a", b"x").unwrap_err();
    assert_eq!(error.kind, ErrorKind::ConnectionLost);
    assert_names(&error, &["storing the object s3://bucket/a", "connection refused"]);
    assert!(lane.bucket.requests().is_empty(), "nothing was sent that could be charged");
}

#[test]
fn a_store_that_has_never_answered_is_given_up_soon() {
    let server = ScriptedServer::start(None, |_| ScriptedAnswer::Cut(Vec::new())).unwrap();
    let endpoint = server.endpoint.clone();
    drop(server);
    let limits = HttpLimits { first_answer: Duration::from_millis(300), ..HttpLimits::default() };
    let lane = TestLane::new(S3Settings { limits, ..settings(&endpoint) });
    let begun = Instant::now();
    assert_eq!(lane.put("a", b"x").unwrap_err().kind, ErrorKind::ConnectionLost);
    // It would be retried for minutes if it had answered before.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
