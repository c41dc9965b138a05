//! Failures that pass: what is repeated, and what must not be done twice.

use std::collections::HashSet;
use std::sync::Arc;

use hakobu_core::ErrorKind;
use hakobu_endpoints::object::api::{Bucket, PutCondition};
use hakobu_endpoints::object::azure::AzureSettings;
use hakobu_testkit::http::{ReceivedRequest, ScriptedAnswer, ScriptedServer};
use hakobu_testkit::stores::StoreServer;

use super::super::noise;
use super::{ACCOUNT, AzureTestLane, azurite, environment, new_container, settings};

/// Starts Azurite behind a server that answers each first request by its script, and forwards all further ones.
fn first_fails(
    script: impl Fn(&ReceivedRequest) -> ScriptedAnswer + Send + 'static,
) -> (Arc<StoreServer>, AzureSettings, ScriptedServer, AzureTestLane) {
    let store = azurite();
    let made = new_container(&store);
    let mut seen = HashSet::new();
    let server = ScriptedServer::start(Some(store.port()), move |request| {
        let is_new = seen.insert((request.method.clone(), request.target.clone()));
        if is_new { script(request) } else { ScriptedAnswer::Forward }
    })
    .unwrap();
    let lane = AzureTestLane::through(&server, made.clone());
    (store, made, server, lane)
}

#[test]
fn what_passes_is_repeated() {
    let answers = [
        ScriptedAnswer::with(503, &["x-ms-error-code: ServerBusy"], ""),
        ScriptedAnswer::with(500, &[], "<Error><Code>OperationTimedOut</Code></Error>"),
        ScriptedAnswer::with(429, &[], ""),
        ScriptedAnswer::with(502, &[], "<html>bad gateway"),
        ScriptedAnswer::with(400, &[], "<Error><Code>Crc64Mismatch</Code></Error>"),
        ScriptedAnswer::Cut(Vec::new()),
        ScriptedAnswer::Cut(b"HTTP/1.1 201 Created\r\nConte".to_vec()),
        ScriptedAnswer::Silence(Vec::new()),
    ];
    let store = azurite();
    for answer in answers {
        let name = format!("{answer:.40?}");
        let mut seen = HashSet::new();
        let server = ScriptedServer::start(Some(store.port()), move |request| {
            let is_new = seen.insert((request.method.clone(), request.target.clone()));
            if is_new { answer.clone() } else { ScriptedAnswer::Forward }
        })
        .unwrap();
        let lane = AzureTestLane::through(&server, new_container(&store));
        lane.put("a", b"content").unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(lane.get("a", None).unwrap(), b"content", "{name}");
        assert_eq!(lane.page("", false).unwrap().objects.len(), 1, "{name}");
        assert_eq!(server.requests().len(), 6, "{name}");
        assert_eq!(lane.container.requests().retries, 3, "{name}");
    }
}

#[test]
fn an_upload_that_succeeded_without_its_answer_is_no_conflict() {
    let (_store, _made, server, lane) = first_fails(|request| match request.method.as_str() {
        "PUT" => ScriptedAnswer::ForwardAndCut(0),
        _ => ScriptedAnswer::Forward,
    });
    lane.put_with("a", b"content", &PutCondition::IfAbsent, &[("k", "v")]).unwrap();
    let methods: Vec<_> = server.requests().into_iter().map(|request| request.method).collect();
    assert_eq!(methods, ["PUT", "PUT", "HEAD"]);
}

#[test]
fn somebody_elses_object_stays_a_conflict_after_a_retry() {
    let (_store, made, _server, lane) = first_fails(|_| ScriptedAnswer::Cut(Vec::new()));
    let other = AzureTestLane::new(made);
    other.put_with("a", b"CONTENT", &PutCondition::None, &[("k", "theirs")]).unwrap();
    let error = lane.put_with("a", b"content", &PutCondition::IfAbsent, &[("k", "v")]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert_eq!(other.get("a", None).unwrap(), b"CONTENT");
}

#[test]
fn a_body_goes_on_where_its_connection_broke() {
    let content = noise(500_000);
    let (_store, _made, server, lane) = first_fails(|request| match request.method.as_str() {
        "GET" => ScriptedAnswer::ForwardAndCut(200_000),
        _ => ScriptedAnswer::Forward,
    });
    lane.put("a", &content).unwrap();
    assert_eq!(lane.get("a", None).unwrap(), content);
    let gets: Vec<_> = server.requests().into_iter().filter(|request| request.method == "GET").collect();
    assert_eq!(gets.len(), 2);
    assert!(gets[1].header("range").unwrap().ends_with("-499999") && gets[1].header("if-match").is_some());
}

#[test]
fn a_token_that_has_ended_is_fetched_again_once() {
    let tokens = ScriptedServer::start(None, |request| {
        let body = format!("{{\"access_token\":\"token-{}\",\"expires_in\":3600}}", request.number);
        ScriptedAnswer::with(200, &[], body)
    })
    .unwrap();
    let server = ScriptedServer::start(None, |request| match request.header("authorization") {
        Some("Bearer token-1") => ScriptedAnswer::with(201, &["ETag: \"e\""], ""),
        _ => ScriptedAnswer::with(401, &["x-ms-error-code: InvalidAuthenticationInfo"], ""),
    })
    .unwrap();
    let lane = AzureTestLane::impatient(AzureSettings {
        environment: environment(&[
            ("AZURE_AUTHORITY_HOST", &tokens.endpoint),
            ("AZURE_TENANT_ID", "tenant"),
            ("AZURE_CLIENT_ID", "me"),
            ("AZURE_CLIENT_SECRET", "secret"),
        ]),
        ..settings(&format!("{}/{ACCOUNT}", server.endpoint))
    });
    lane.put("a", b"x").unwrap();
    lane.put("b", b"x").unwrap();
    assert_eq!((server.requests().len(), tokens.requests().len()), (3, 2));
}
