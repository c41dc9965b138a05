//! Tests of tokens and of the session of the page.

use hakobu_fleet::fleet_clock::{FleetClock, MachineClock};
use hakobu_fleet::token::TokenRole;
use serde_json::{Value, json};

use crate::http::{Answer, call};
use crate::test_server::{TestServer, relationship};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const CHANGE: (&str, &str) = ("X-Hakobu-Request", "1");

fn sign_in(server: &TestServer, token: &str) -> Answer {
    let body = json!({"token": token}).to_string();
    call(server.address, "POST /api/v1/session", &[JSON, CHANGE], body.as_bytes())
}

/// Returns the cookie that an answer sets.
fn cookie_of(answer: &Answer) -> String {
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict"), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
}

#[test]
fn wrong_old_and_revoked_tokens_are_refused() {
    let server = TestServer::start();
    let admin = server.token(TokenRole::Admin);
    let status = |token: &str| server.get("/api/v1/session", token).status;
    assert_eq!(status(&admin), 200);
    let old = server.new_token(TokenRole::Admin, Some(MachineClock.moment()), false);
    assert_eq!(status(&old), 401);
    let other = TestServer::start().token(TokenRole::Admin);
    assert_eq!(status(&other), 401);
    let answer = server.get("/api/v1/session", "hkb_x");
    assert!(answer.status == 401 && answer.json()["message"].as_str().unwrap().contains("incomplete"));
    let body = json!({"label": "for a test", "role": "viewer", "valid_for_s": 3600});
    let made = server.call("POST /api/v1/tokens", &admin, &body);
    assert_eq!(made.status, 201);
    let (secret, id) =
        (made.json()["secret"].as_str().unwrap().to_owned(), made.json()["token"]["id"].clone());
    assert_eq!(status(&secret), 200);
    let listed = server.get("/api/v1/tokens", &admin);
    assert!(!String::from_utf8_lossy(&listed.body).contains(&secret[..20]), "the secret is not shown again");
    let cookie = cookie_of(&sign_in(&server, &secret));
    let with_cookie = || call(server.address, "GET /api/v1/session", &[("Cookie", &cookie)], b"").status;
    assert_eq!(with_cookie(), 200);
    assert_eq!(server.call(&format!("DELETE /api/v1/tokens/{id}"), &admin, &Value::Null).status, 204);
    assert_eq!((status(&secret), with_cookie()), (401, 401), "the session ends with its token");
    let audit = server.get("/api/v1/audit", &admin).json();
    let actions: Vec<_> =
        audit["items"].as_array().unwrap().iter().map(|item| item["action"].clone()).collect();
    assert_eq!(actions, ["token.revoke", "session.begin", "token.create"]);
    assert_eq!(audit["items"][0]["object"], "for a test");
}

#[test]
fn a_token_for_one_use_signs_in_once() {
    let server = TestServer::start();
    let once = server.new_token(TokenRole::Admin, None, true);
    let answer = sign_in(&server, &once);
    assert_eq!((answer.status, answer.json()["role"].clone()), (200, json!("admin")));
    assert_eq!(sign_in(&server, &once).status, 401);
    let cookie = cookie_of(&answer);
    let get = || call(server.address, "GET /api/v1/session", &[("Cookie", &cookie)], b"").status;
    // Looks at the tokens come every second: the session outlives its token.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(get(), 200);
    let out = call(server.address, "DELETE /api/v1/session", &[("Cookie", &cookie), CHANGE], b"");
    assert_eq!((out.status, get()), (204, 401));
}

#[test]
fn a_change_with_a_cookie_needs_the_header() {
    let server = TestServer::start();
    let token = server.token(TokenRole::Admin);
    let cookie = cookie_of(&sign_in(&server, &token));
    let create = |name: &str, more: &[(&str, &str)]| {
        let headers = [&[JSON, ("Cookie", cookie.as_str())], more].concat();
        call(
            server.address,
            "POST /api/v1/relationships",
            &headers,
            relationship(name).to_string().as_bytes(),
        )
    };
    assert_eq!(create("a", &[]).status, 403);
    assert_eq!(create("a", &[CHANGE, ("Sec-Fetch-Site", "cross-site")]).status, 403);
    assert_eq!(create("a", &[CHANGE, ("Sec-Fetch-Site", "same-origin")]).status, 201);
    assert_eq!(create("b", &[CHANGE]).status, 201);
    let body = json!({"token": token}).to_string();
    let answer = call(server.address, "POST /api/v1/session", &[JSON], body.as_bytes());
    assert_eq!(answer.status, 403, "another site must not sign somebody in");
    let forged = [("Cookie", "hakobu_session=AAAA"), CHANGE];
    assert_eq!(call(server.address, "GET /api/v1/runs", &forged, b"").status, 401);
}

#[test]
fn failed_attempts_slow_down_further_ones() {
    let server = TestServer::start();
    let token = server.token(TokenRole::Viewer);
    let wrong = TestServer::start().token(TokenRole::Viewer);
    let statuses: Vec<u16> = (0..8).map(|_| sign_in(&server, &wrong).status).collect();
    assert_eq!(statuses[..5], [401; 5]);
    assert_eq!(*statuses.last().unwrap(), 429);
    let answer = sign_in(&server, &wrong);
    assert!(answer.status == 429 && answer.header("retry-after").is_some());
    // Looks at the tokens come every second: one that is known is no attempt.
    server.until("a known token goes on", || server.get("/api/v1/runs", &token).status == 200);
}
