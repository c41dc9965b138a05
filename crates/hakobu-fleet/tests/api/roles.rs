//! Tests of who may do what, and of requests that are wrong.

use hakobu_fleet::api::ApiSettings;
use hakobu_fleet::token::TokenRole;
use serde_json::{Value, json};

use crate::http::{Connection, call};
use crate::test_server::{TestServer, relationship};

/// All calls, each with the role that it needs, and a body. None changes anything: there is nothing of that name.
fn calls() -> Vec<(&'static str, TokenRole, Value)> {
    use TokenRole::{Admin, Operator, Viewer};
    let schedule = json!({"version": 1, "cron": "0 3 * * *"});
    let limits = json!({"version": 1});
    let endpoint = json!({"location": "/x", "limits": limits});
    let request = json!({"sources": ["/a"], "target": "/b"});
    let update = json!({"revision": 0, "relationship": relationship("x")});
    vec![
        ("GET /api/v1/relationships", Viewer, Value::Null),
        ("GET /api/v1/relationships/7", Viewer, Value::Null),
        ("GET /api/v1/relationships/7/forecast", Viewer, Value::Null),
        ("POST /api/v1/relationships/7/runs", Operator, Value::Null),
        ("POST /api/v1/relationships", Admin, json!({"name": "", "group": "a", "request": request})),
        ("PUT /api/v1/relationships/7", Admin, update),
        ("DELETE /api/v1/relationships/7?revision=0", Admin, Value::Null),
        ("POST /api/v1/schedules/preview", Viewer, schedule),
        ("POST /api/v1/requests/check", Viewer, request.clone()),
        ("GET /api/v1/runs", Viewer, Value::Null),
        ("GET /api/v1/runs/7", Viewer, Value::Null),
        ("GET /api/v1/runs/7/rates", Viewer, Value::Null),
        ("GET /api/v1/runs/7/report", Viewer, Value::Null),
        ("GET /api/v1/runs/7/failures", Viewer, Value::Null),
        ("GET /api/v1/runs/7/compare/8", Viewer, Value::Null),
        ("POST /api/v1/runs", Admin, json!({"group": "", "request": request})),
        ("POST /api/v1/runs/7/cancel", Operator, Value::Null),
        ("POST /api/v1/runs/7/pause", Operator, Value::Null),
        ("POST /api/v1/runs/7/resume", Operator, Value::Null),
        ("POST /api/v1/runs/7/retry", Operator, Value::Null),
        ("PUT /api/v1/runs/7/limits", Operator, limits.clone()),
        ("GET /api/v1/brokers", Viewer, Value::Null),
        ("GET /api/v1/brokers/x", Viewer, Value::Null),
        ("POST /api/v1/brokers/x/drain", Operator, Value::Null),
        ("POST /api/v1/brokers/x/undrain", Operator, Value::Null),
        ("DELETE /api/v1/brokers/x", Admin, Value::Null),
        ("GET /api/v1/groups", Viewer, Value::Null),
        ("PUT /api/v1/groups/x/limits", Operator, limits),
        ("POST /api/v1/groups/x/reach", Viewer, request.clone()),
        ("GET /api/v1/endpoint-limits", Viewer, Value::Null),
        ("PUT /api/v1/endpoint-limits", Operator, endpoint),
        ("POST /api/v1/groups/x/errands", Admin, json!({"kind": "browse", "location": ""})),
        ("GET /api/v1/errands/7", Admin, Value::Null),
        ("GET /api/v1/tokens", Admin, Value::Null),
        ("POST /api/v1/tokens", Admin, json!({"label": "", "role": "viewer"})),
        ("DELETE /api/v1/tokens/7777", Admin, Value::Null),
        ("GET /api/v1/audit", Admin, Value::Null),
        ("GET /api/v1/session", Viewer, Value::Null),
        ("GET /metrics", Viewer, Value::Null),
        ("GET /api/v1/status", Viewer, Value::Null),
    ]
}

#[test]
fn each_call_needs_its_role() {
    let server = TestServer::start();
    let tokens = TokenRole::ALL.map(|role| (role, server.token(role)));
    for (line, needed, body) in calls() {
        for (role, token) in &tokens {
            let answer = server.call(line, token, &body);
            let is_refused = answer.status == 403;
            assert_eq!(is_refused, *role < needed, "{line} as {role:?}: {answer:?}");
            assert!(answer.status < 500 && answer.status != 401, "{line} as {role:?}: {answer:?}");
            if is_refused {
                assert_eq!(answer.kind(), "forbidden", "{line}");
            }
        }
        let nobody = call(server.address, line, &[("Content-Type", "application/json")], b"");
        assert_eq!((nobody.status, nobody.kind().as_str()), (401, "unauthenticated"), "{line}");
    }
}

#[test]
fn the_table_of_calls_has_all_calls() {
    let document: Value = serde_json::from_str(&hakobu_fleet::api::document()).unwrap();
    let table: Vec<String> = calls().iter().map(|(line, ..)| (*line).to_owned()).collect();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let is_open = ["/healthz", "/readyz"].contains(&path.as_str())
                || (path == "/api/v1/session" && method != "get")
                || path == "/api/v1/events";
            let parts: Vec<&str> = path.split('/').collect();
            let fits = |line: &String| {
                let (typed, rest) = line.split_once(' ').unwrap();
                let rest: Vec<&str> = rest.split('?').next().unwrap().split('/').collect();
                typed.eq_ignore_ascii_case(method)
                    && rest.len() == parts.len()
                    && rest.iter().zip(&parts).all(|(word, part)| part.starts_with('{') || word == part)
            };
            assert!(is_open || table.iter().any(fits), "{method} {path} is not in the table");
        }
    }
}

#[test]
fn answers_have_strict_headers() {
    let server = TestServer::start();
    for line in ["GET /", "GET /api/v1/runs", "GET /healthz", "GET /nothing", "PATCH /api/v1/runs"] {
        let answer = call(server.address, line, &[], b"");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{line}");
        if line.contains("/api/") {
            assert_eq!(answer.header("cache-control"), Some("no-store"), "{line}");
        }
    }
    let health = call(server.address, "GET /healthz", &[], b"");
    assert_eq!((health.status, &health.body[..]), (200, &b"ok\n"[..]));
    server.until("it is ready", || call(server.address, "GET /readyz", &[], b"").status == 200);
    let document = call(server.address, "GET /api/v1/openapi.json", &[], b"");
    assert_eq!(document.json()["openapi"], "3.1.0");
}

#[test]
fn requests_for_another_host_are_refused() {
    let settings = ApiSettings { hosts: vec!["fleet.example".to_owned()], ..ApiSettings::default() };
    let server = TestServer::with(settings, |_| {});
    let status = |host: &str| call(server.address, "GET /healthz", &[("Host", host)], b"").status;
    for own in ["localhost", "localhost:8420", "127.0.0.1:1", "[::1]:8420", "10.0.0.1", "FLEET.example:443"] {
        assert_eq!(status(own), 200, "{own}");
    }
    for other in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "fleet.example.org"] {
        assert_eq!(status(other), 421, "{other}");
    }
}

#[test]
fn hostile_bodies_are_refused() {
    let server = TestServer::start();
    let token = server.token(TokenRole::Admin);
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let post = |body: &[u8]| call(server.address, "POST /api/v1/relationships", &headers, body);
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    for body in [&b"{"[..], b"null", b"{\"name\":1}", b"\xff\xfe", deep.as_bytes()] {
        let answer = post(body);
        assert_eq!((answer.status, answer.kind().as_str()), (400, "usage"), "{answer:?}");
    }
    let unknown =
        json!({"name": "x", "group": "a", "request": {"sources": ["/a"], "target": "/b"}, "hook": "rm"});
    assert_eq!(post(unknown.to_string().as_bytes()).status, 400);
    let mut long = relationship("x");
    long["request"]["sources"] = json!(vec!["/a"; 2000]);
    assert_eq!(post(long.to_string().as_bytes()).status, 400, "too many sources");
    let huge = vec![b' '; (1 << 20) + 1];
    let answer = post(&huge);
    assert_eq!(answer.status, 413, "{answer:?}");
    let mut refused = relationship("x");
    refused["request"]["arguments"] = json!(["--refused"]);
    let answer = post(refused.to_string().as_bytes());
    assert!(answer.status == 400 && answer.json()["message"].as_str().unwrap().contains("--refused"));
    let plain = [("Authorization", bearer.as_str()), ("Content-Type", "text/plain")];
    assert_eq!(call(server.address, "POST /api/v1/relationships", &plain, b"{}").status, 415);
    for path in
        ["/api/v1/runs/x", "/api/v1/runs/-1", "/api/v1/runs/9223372036854775808", "/api/v1/runs?after=x"]
    {
        assert_eq!(server.get(path, &token).status, 400, "{path}");
    }
    assert_eq!(server.get("/api/v1/runs?limit=0", &token).status, 200);
    // Not HTTP at all: the connection ends, and the server goes on.
    Connection::new(server.address).send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n");
    assert_eq!(server.get("/api/v1/relationships", &token).json()["items"], json!([]));
}
