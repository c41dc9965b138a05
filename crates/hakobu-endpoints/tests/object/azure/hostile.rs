//! Answers of a server that is broken or means harm.

use hakobu_core::ErrorKind;
use hakobu_core::extent::Extent;
use hakobu_endpoints::object::api::PutCondition;
use hakobu_testkit::http::{ScriptedAnswer, ScriptedServer};

use super::super::assert_names;
use super::AzureTestLane;

const DATE: &str = "Last-Modified: Fri, 27 Nov 2026 10:00:00 GMT";

fn answering(answer: ScriptedAnswer) -> (ScriptedServer, AzureTestLane) {
    let server = ScriptedServer::start(None, move |_| answer.clone()).unwrap();
    let lane = AzureTestLane::behind(&server);
    (server, lane)
}

fn listing(blobs: &str) -> ScriptedAnswer {
    let body = format!("<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker/></EnumerationResults>");
    ScriptedAnswer::with(200, &[], body)
}

fn blob(name: &str) -> String {
    format!(
        "<Blob><Name>{name}</Name><Properties><Last-Modified>Fri, 27 Nov 2026 10:00:00 GMT</Last-Modified>\
         <Content-Length>1</Content-Length></Properties></Blob>"
    )
}

#[test]
fn keys_that_were_not_asked_for_are_refused() {
    for content in [blob("../x"), blob("other"), blob(""), blob("P/a"), blob("p/a").repeat(5001)] {
        let (_server, lane) = answering(listing(&content));
        assert_eq!(lane.page("p/", false).unwrap_err().kind, ErrorKind::Protocol, "{content:.60}");
    }
}

#[test]
fn a_key_that_is_no_path_is_shown_and_never_requested() {
    let (server, lane) = answering(listing(&blob("p/../../x")));
    let page = lane.page("p/", false).unwrap();
    assert_eq!(lane.get(&page.objects[0].key, None).unwrap_err().kind, ErrorKind::Unsupported);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn answers_without_an_end_are_given_up() {
    let head = b"HTTP/1.1 200 OK\r\n\r\n<EnumerationResults><Blobs>".to_vec();
    let (_server, lane) = answering(ScriptedAnswer::Endless(head, blob("p/a").repeat(100).into_bytes()));
    assert_eq!(lane.page("p/", false).unwrap_err().kind, ErrorKind::Protocol);
}

#[test]
fn bodies_of_another_length_than_announced_are_no_content() {
    let range = Some(Extent { offset: 0, length: 10 });
    let with_range = |text: &str, body: &str| {
        let headers = [format!("Content-Range: {text}"), DATE.to_owned()];
        ScriptedAnswer::with(206, &[&headers[0], &headers[1]], body)
    };
    for (name, range, answer) in [
        ("no time", None, ScriptedAnswer::with(200, &[], "abc")),
        ("another range", range, with_range("bytes 5-14/20", "0123456789")),
        ("less than its range", range, with_range("bytes 0-9/20", "012345678")),
        ("more than its range", range, with_range("bytes 0-9/20", "01234567890")),
        ("no range", range, ScriptedAnswer::with(206, &[DATE], "0123456789")),
        ("all of it", range, ScriptedAnswer::with(200, &[DATE], "0123456789-0123456789")),
    ] {
        let (_server, lane) = answering(answer);
        let error = lane.get("a", range).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{name}: {error}");
        assert_names(&error, &["az://container/a"]);
    }
}

#[test]
fn another_checksum_in_the_answer_is_damage() {
    let (_server, lane) = answering(ScriptedAnswer::with(201, &["x-ms-content-crc64: AAAAAAAAAAE="], ""));
    assert_eq!(lane.put("a", b"x").unwrap_err().kind, ErrorKind::Corrupt);
    // A server that tells none checks none.
    let (_server, lane) = answering(ScriptedAnswer::with(201, &["ETag: \"e\""], ""));
    assert!(!lane.put("a", b"x").unwrap().is_checked);
}

#[test]
fn a_store_that_ignores_conditions_is_noticed() {
    let (_server, lane) = answering(ScriptedAnswer::with(200, &[DATE, "ETag: \"new\""], "abc"));
    let version =
        hakobu_endpoints::object::api::ObjectVersion { etag: Some("\"old\"".to_owned()), generation: None };
    let read = lane.runtime.run(lane.api.get("a", None, Some(&version)));
    assert_eq!(read.err().map(|error| error.kind), Some(ErrorKind::SourceChanged));
}

#[test]
fn a_directory_of_a_hierarchical_namespace_gets_its_attributes() {
    let server = ScriptedServer::start(None, |request| match request.method.as_str() {
        "HEAD" => ScriptedAnswer::with(200, &[DATE, "ETag: \"e\"", "x-ms-meta-hdi_isfolder: true"], ""),
        _ if request.target.contains("comp=metadata") => ScriptedAnswer::with(200, &["ETag: \"f\""], ""),
        _ => ScriptedAnswer::with(409, &["x-ms-error-code: ResourceTypeMismatch"], ""),
    })
    .unwrap();
    let lane = AzureTestLane::behind(&server);
    let put = |key: &str| lane.put_with(key, b"", &PutCondition::None, &[("hdi_isfolder", "true")]);
    put("d/").unwrap();
    let request = server.requests().pop().unwrap();
    assert!(request.target.starts_with("/devstoreaccount1/container/d?"), "{}", request.target);
    assert_eq!(
        (request.header("x-ms-meta-hdi_isfolder"), request.header("if-match")),
        (Some("true"), Some("\"e\""))
    );
    assert_eq!(put("d").unwrap_err().kind, ErrorKind::Conflict);
}
