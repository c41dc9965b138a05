//! Errors of the store: their kind, and a message with the cause and the remedy.

use std::time::{Duration, Instant};

use hakobu_core::ErrorKind;
use hakobu_endpoints::object::azure::{AzureContainer, AzureSettings};
use hakobu_endpoints::object::http::HttpLimits;
use hakobu_testkit::http::{ScriptedAnswer, ScriptedServer};
use hakobu_testkit::stores::StoreServer;

use super::super::assert_names;
use super::{ACCOUNT, AzureTestLane, CONTAINER, azurite, environment, new_container, settings};

#[test]
fn wrong_credentials_end_the_run() {
    let server = azurite();
    let made = new_container(&server);
    let wrong_sas = StoreServer::AZURITE_SAS.replace("sig=j", "sig=k");
    for (variable, value, words) in [
        ("AZURE_STORAGE_KEY", "a2V5", "check AZURE_STORAGE_KEY"),
        ("AZURE_STORAGE_SAS_TOKEN", wrong_sas.as_str(), "AZURE_STORAGE_SAS_TOKEN"),
        ("AZURE_STORAGE_SAS_TOKEN", StoreServer::AZURITE_EXPIRED_SAS, "AZURE_STORAGE_SAS_TOKEN"),
    ] {
        let environment = environment(&[(variable, value)]);
        let lane = AzureTestLane::new(AzureSettings { environment, ..made.clone() });
        let listing = lane.page("", false).unwrap_err();
        let inspecting = lane.runtime.run(lane.api.head("a")).unwrap_err();
        for error in [listing, inspecting, lane.put("a", b"x").unwrap_err(), lane.get("a", None).unwrap_err()]
        {
            assert_eq!(error.kind, ErrorKind::Unauthenticated, "{error}");
            assert!(error.is_fatal() && !error.may_retry());
            assert_names(&error, &[words, "az://container"]);
            assert!(!error.to_string().contains("sig="), "{error}");
        }
    }
}

#[test]
fn a_signature_for_reading_does_not_write() {
    let server = azurite();
    let made = new_container(&server);
    let lane = AzureTestLane::new(made.clone());
    lane.put("a", b"x").unwrap();
    let environment = environment(&[("AZURE_STORAGE_SAS_TOKEN", StoreServer::AZURITE_READING_SAS)]);
    let reader = AzureTestLane::new(AzureSettings { environment, ..made });
    assert_eq!(reader.get("a", None).unwrap(), b"x");
    assert_eq!(reader.page("", false).unwrap().objects.len(), 1);
    let error = reader.put("b", b"x").unwrap_err();
    assert_eq!(error.kind, ErrorKind::PermissionDenied, "{error}");
    assert_names(&error, &["az://container-", "/b: ", "lacks the permission"]);
}

#[test]
fn a_container_that_does_not_exist_is_named() {
    let server = azurite();
    let lane =
        AzureTestLane::new(AzureSettings { container: "missing".to_owned(), ..new_container(&server) });
    let listing = lane.page("", false).unwrap_err();
    let inspecting = lane.runtime.run(lane.api.head("a")).unwrap_err();
    for error in [listing, inspecting, lane.put("a", b"x").unwrap_err()] {
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
        assert_names(&error, &["the container missing does not exist"]);
    }
}

#[test]
fn an_object_that_does_not_exist_is_none() {
    let server = azurite();
    let lane = AzureTestLane::of(&server);
    assert_eq!(lane.runtime.run(lane.api.head("a/b")).unwrap(), None);
    let error = lane.get("a/b", None).unwrap_err();
    assert_eq!(error.kind, ErrorKind::SourceVanished);
    assert_names(&error, &["reading the object", "az://container-", "/a/b"]);
}

#[test]
fn unsigned_requests_to_a_private_container_are_denied() {
    let server = azurite();
    let lane = AzureTestLane::new(AzureSettings { is_anonymous: true, ..new_container(&server) });
    let error = lane.page("", false).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::PermissionDenied | ErrorKind::Unauthenticated), "{error}");
    assert_names(&error, &["public", "--no-sign-request"]);
}

fn refusal(status: u16, code: &str, more: &str) -> ScriptedAnswer {
    let body =
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>Words.</Message>{more}</Error>");
    let header = format!("x-ms-error-code: {code}");
    ScriptedAnswer::with(status, &["Content-Type: application/xml", &header], body)
}

#[test]
fn archives_and_clocks_are_explained() {
    let server = ScriptedServer::start(None, |request| match request.number {
        0 => refusal(409, "BlobArchived", ""),
        // That of an emulator.
        1 => ScriptedAnswer::with(
            200,
            &["x-ms-access-tier: Archive", "Last-Modified: Fri, 27 Nov 2026 10:00:00 GMT", "ETag: \"1\""],
            "content",
        ),
        _ => refusal(
            403,
            "AuthenticationFailed",
            "<AuthenticationErrorDetail>Request date header too old: 'THEN'</AuthenticationErrorDetail>",
        ),
    })
    .unwrap();
    let lane = AzureTestLane::behind(&server);
    for _ in 0..2 {
        let archived = lane.get("a", None).unwrap_err();
        assert_eq!(archived.kind, ErrorKind::Unsupported);
        assert_names(&archived, &["az storage blob set-tier --account-name devstoreaccount1", "--name 'a'"]);
    }
    let skewed = lane.put("a", b"x").unwrap_err();
    assert_eq!(skewed.kind, ErrorKind::Unauthenticated);
    assert_names(&skewed, &["THEN", "set the clock"]);
}

#[test]
fn one_key_that_is_denied_is_one_failure() {
    let server =
        ScriptedServer::start(None, |_| refusal(403, "AuthorizationPermissionMismatch", "")).unwrap();
    let error = AzureTestLane::behind(&server).put("a", b"x").unwrap_err();
    assert!(error.kind == ErrorKind::PermissionDenied && !error.is_fatal(), "{error}");
}

#[test]
fn a_server_that_is_no_store_is_told_soon() {
    for (answer, kind) in [
        (ScriptedAnswer::with(404, &[], "<html>not found"), ErrorKind::Protocol),
        (ScriptedAnswer::with(200, &[], "<html>hello</html>"), ErrorKind::Protocol),
        // That of S3.
        (
            ScriptedAnswer::with(403, &[], "<Error><Code>AccessDenied</Code><Message>M</Message></Error>"),
            ErrorKind::Protocol,
        ),
        (ScriptedAnswer::with(302, &["Location: http://elsewhere/"], ""), ErrorKind::Protocol),
        (ScriptedAnswer::Cut(b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()), ErrorKind::Protocol),
    ] {
        let name = format!("{answer:.50?}");
        let server = ScriptedServer::start(None, move |_| answer.clone()).unwrap();
        let error = AzureTestLane::behind(&server).page("", false).unwrap_err();
        assert_eq!(error.kind, kind, "{name}: {error}");
        assert_names(&error, &["az://container"]);
    }
    let limits = HttpLimits { first_answer: Duration::from_secs(1), ..HttpLimits::default() };
    let nothing = format!("http://127.0.0.1:1/{ACCOUNT}");
    let begun = Instant::now();
    let error =
        AzureTestLane::new(AzureSettings { limits, ..settings(&nothing) }).put("a", b"x").unwrap_err();
    assert_eq!(error.kind, ErrorKind::ConnectionLost, "{error}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn an_account_that_is_not_known_is_asked_for() {
    let open = |variables: &[(&str, &str)], account: Option<&str>| {
        let settings = AzureSettings {
            container: CONTAINER.to_owned(),
            account: account.map(str::to_owned),
            environment: environment(variables),
            ..AzureSettings::default()
        };
        AzureContainer::open(settings).err().unwrap()
    };
    let unknown = open(&[("AZURE_STORAGE_KEY", "a2V5")], None);
    assert_eq!(unknown.kind, ErrorKind::Usage);
    assert_names(&unknown, &["AZURE_STORAGE_ACCOUNT", "https://ACCOUNT.blob.core.windows.net"]);
    let service = ("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1");
    let none = open(&[service], Some("mine"));
    assert_eq!(none.kind, ErrorKind::Unauthenticated);
    assert_names(&none, &["AZURE_STORAGE_KEY", "az login"]);
}
