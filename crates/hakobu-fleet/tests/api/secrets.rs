//! Tests that secrets are taken, sealed, and shown to nobody.

use hakobu_fleet::api::ApiSettings;
use hakobu_fleet::ids::RelationshipId;
use hakobu_fleet::key_file::SealingKeys;
use hakobu_fleet::relationship::CredentialReference;
use hakobu_fleet::sent_credentials::CREDENTIALS_PURPOSE;
use hakobu_fleet::token::TokenRole;
use serde_json::{Value, json};

use crate::test_server::{TestServer, relationship};

const SECRET: &str = "AWS_SECRET_ACCESS_KEY=open-sesame";

#[test]
fn credentials_are_sealed_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let keys = Some(std::sync::Arc::new(SealingKeys::create(&path).unwrap()));
    let server = TestServer::with(ApiSettings { keys, ..ApiSettings::default() }, |_| {});
    let token = server.token(TokenRole::Admin);
    let mut input = relationship("sealed");
    input["credentials"] = json!([{"kind": "secret", "value": SECRET}]);
    let made = server.call("POST /api/v1/relationships", &token, &input);
    assert_eq!(made.status, 201, "{made:?}");
    let mut view = made.json();
    assert_eq!(view["relationship"]["credentials"], json!([{"kind": "sealed"}]));
    let saved = || {
        let id = RelationshipId::new(1).unwrap();
        server.plane.handle().ask(move |leader| leader.ledger().relationship(id)).unwrap().unwrap().unwrap()
    };
    let before = saved();
    assert!(!format!("{before:?}").contains("sesame"));
    let CredentialReference::Sealed(text) = &before.relationship.credentials[0] else { panic!("{before:?}") };
    let opened = SealingKeys::load(&path).unwrap().open(text, CREDENTIALS_PURPOSE).unwrap();
    assert_eq!(opened.expose(), SECRET.as_bytes());
    // What is shown can be sent back, and keeps them.
    view["relationship"]["owner"] = json!("somebody");
    let update = json!({"revision": view["revision"], "relationship": view["relationship"]});
    let changed = server.call("PUT /api/v1/relationships/1", &token, &update);
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!(saved().relationship.credentials, before.relationship.credentials);
    input["name"] = json!("wrong");
    input["credentials"] = json!([{"kind": "secret", "value": "open-sesame"}]);
    let refused = server.call("POST /api/v1/relationships", &token, &input);
    assert_eq!((refused.status, refused.json()["field"].clone()), (400, json!("credentials")));
    let audit = server.get("/api/v1/audit", &token);
    for answer in [&refused, &changed, &audit] {
        assert!(!format!("{:?}", answer.json()).contains("sesame"), "{answer:?}");
    }
}

#[test]
fn without_a_key_file_nothing_is_sealed() {
    let server = TestServer::start();
    let mut input = relationship("sealed");
    input["credentials"] = json!([{"kind": "secret", "value": SECRET}]);
    let refused = server.call("POST /api/v1/relationships", &server.token(TokenRole::Admin), &input);
    assert_eq!(refused.status, 400, "{refused:?}");
}

#[test]
fn the_notification_is_checked_and_its_field_named() {
    let server = TestServer::start();
    let token = server.token(TokenRole::Admin);
    let make = |name: &str, notification: Value| {
        let mut input = relationship(name);
        input["notification"] = notification;
        server.call("POST /api/v1/relationships", &token, &input)
    };
    let good =
        json!({"version": 1, "webhooks": [{"url": "https://example.org/hook"}], "mail_to": ["a@b.org"]});
    let made = make("good", good);
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.json()["relationship"]["notification"]["mail_to"], json!(["a@b.org"]));
    for (wrong, field) in [
        (json!({"version": 1, "webhooks": [{"url": "http://example.org/"}]}), "notification.webhooks[0].url"),
        (json!({"version": 1, "mail_to": ["nobody"]}), "notification.mail_to[0]"),
        (json!({"version": 2}), "notification.version"),
    ] {
        let refused = make("wrong", wrong);
        assert_eq!((refused.status, refused.json()["field"].clone()), (400, json!(field)));
    }
}
