//! Errands about a real store, with credentials that are sealed for the broker that has them.

use std::fs;

use serde_json::{Value, json};

use crate::credentials::{SECRET, SECRET_PART, StoreFleet, WRONG_SECRET, WRONG_SECRET_PART, lines};
use crate::processes::{SOON, wait_until};
use crate::secret_search::SecretForms;
use crate::small_fleet::GROUP;

/// Asks a broker of a group. Returns the number.
fn ask(fleet: &StoreFleet, group: &str, input: &Value) -> u64 {
    let path = format!("/api/v1/groups/{group}/errands");
    let made: Value = fleet.fleet.control.client.send("POST", &path, input).unwrap();
    made["id"].as_u64().unwrap()
}

fn show(fleet: &StoreFleet, id: u64) -> Value {
    fleet.fleet.control.client.get(&format!("/api/v1/errands/{id}")).unwrap()
}

/// Asks a broker, and waits for the answer.
#[track_caller]
fn answer(fleet: &StoreFleet, input: &Value) -> Value {
    let id = ask(fleet, GROUP, input);
    let mut view = Value::Null;
    wait_until("an answer", SOON, || {
        view = show(fleet, id);
        view["state"] == "done" || view["state"] == "failed"
    });
    view
}

fn secret(of: &str) -> Value {
    json!([{ "kind": "secret", "value": lines(of) }])
}

fn names(view: &Value) -> Vec<&str> {
    let entries = view["result"]["entries"].as_array().unwrap_or_else(|| panic!("{view:#}"));
    entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

#[test]
fn errands_reach_a_bucket_with_the_credentials_of_the_form() {
    let fleet = StoreFleet::start();
    let bucket = fleet.store.data().join("bucket");
    fs::create_dir_all(bucket.join("photos/2026")).unwrap();
    fs::write(bucket.join("photos/2026/a.jpg"), "content").unwrap();
    fs::write(bucket.join("photos/list"), "content").unwrap();
    let browse = |location: &str, is_target: bool, credentials: Value| {
        json!({
            "kind": "browse", "location": location, "arguments": fleet.arguments(), "is_target": is_target,
            "credentials": credentials,
        })
    };
    let lone = answer(&fleet, &browse("s3://bucket/", false, json!([])));
    assert_eq!(
        (&lone["state"], &lone["error"]["kind"]),
        (&json!("failed"), &json!("unauthenticated")),
        "{lone:#}"
    );
    for is_target in [false, true] {
        let view = answer(&fleet, &browse("s3://bucket/photos/", is_target, secret(SECRET)));
        assert_eq!((names(&view), &view["broker"]), (vec!["2026", "list"], &json!("b0")), "{view:#}");
    }
    // Credentials of one end are not those of the other.
    let of_target = json!([{ "kind": "secret", "value": format!("[target]\n{}", lines(SECRET)) }]);
    assert_eq!(answer(&fleet, &browse("s3://bucket/photos/", true, of_target.clone()))["state"], "done");
    assert_eq!(answer(&fleet, &browse("s3://bucket/photos/", false, of_target))["state"], "failed");

    // Those of a relationship are known by its number.
    let request = fleet.request("s3://bucket/photos/", &fleet.fleet.target().display().to_string());
    let relationship = fleet.add("down", &request, SECRET);
    let of_relationship = |kind: &str, credentials: Value| json!({ "kind": kind, "request": request, "credentials": credentials, "relationship": relationship["id"] });
    let sealed = json!([{ "kind": "sealed" }]);
    let tested = answer(&fleet, &of_relationship("test", sealed.clone()));
    let locations = &tested["result"]["locations"];
    assert_eq!(
        (&locations[0]["is_there"], &locations[1]["error"]),
        (&json!(true), &Value::Null),
        "{tested:#}"
    );
    let planned = answer(&fleet, &of_relationship("preview", sealed.clone()));
    assert!(planned["result"]["changes"].to_string().contains("2026/a.jpg"), "{planned:#}");
    assert_eq!(planned["result"]["report"]["error"], Value::Null, "{planned:#}");
    let probed = answer(&fleet, &of_relationship("probe", sealed));
    assert_eq!((&probed["state"], &probed["error"]), (&json!("done"), &Value::Null), "{probed:#}");
    assert!(!fleet.fleet.target().exists(), "nothing is changed");

    let wrong = answer(&fleet, &browse("s3://bucket/photos/", false, secret(WRONG_SECRET)));
    assert_eq!(
        (&wrong["state"], &wrong["error"]["kind"]),
        (&json!("failed"), &json!("unauthenticated")),
        "{wrong:#}"
    );
    let wrong_test = answer(&fleet, &of_relationship("test", secret(WRONG_SECRET)));
    assert_eq!(wrong_test["result"]["locations"][0]["error"]["kind"], "unauthenticated", "{wrong_test:#}");

    // A broker of another group takes none.
    let other = ask(&fleet, "site-b", &browse("s3://bucket/photos/", false, secret(SECRET)));
    assert_eq!(answer(&fleet, &browse("s3://bucket/photos/", false, secret(SECRET)))["state"], "done");
    assert_eq!(show(&fleet, other)["state"], "waiting");

    for (part, views) in
        [(SECRET_PART, [&tested, &planned, &probed]), (WRONG_SECRET_PART, [&wrong, &wrong_test, &lone])]
    {
        let forms = SecretForms::new(part);
        assert!(views.iter().all(|view| !forms.are_in(view.to_string().as_bytes())), "{views:#?}");
        fleet.assert_secret(part, &[]);
    }
}

#[test]
fn errands_with_credentials_that_cannot_be_had_are_refused() {
    let fleet = StoreFleet::start();
    let refused = |input: Value, words: &str| {
        let path = format!("/api/v1/groups/{GROUP}/errands");
        let error = fleet.fleet.control.client.send::<Value>("POST", &path, &input).unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
    };
    let browse = json!({ "kind": "browse", "location": "s3://bucket/" });
    let with = |name: &str, value: Value| {
        let mut input = browse.clone();
        input[name] = value;
        input
    };
    refused(with("credentials", json!([{ "kind": "sealed" }])), "there are no sealed ones");
    refused(with("credentials", json!([{ "kind": "secret", "value": "sesame" }])), "line 1");
    refused(with("relationship", json!(77)), "there is no such relationship");
    refused(with("arguments", json!(["--agent", "/tmp/x"])), "--agent");
    refused(with("frob", json!(1)), "frob");
    // A broker reads no file but those of its folder.
    let file = answer(&fleet, &with("credentials", json!([{ "kind": "file", "path": "/etc/passwd" }])));
    assert_eq!((&file["state"], &file["error"]["kind"]), (&json!("failed"), &json!("refused")), "{file:#}");
}
