//! Tests of relationships, runs and lists in pages.

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::event::Failure;
use hakobu_core::losses::{Loss, LossKind};
use hakobu_fleet::api::ApiSettings;
use hakobu_fleet::change::{LedgerAnswer, LedgerChange, UnitResult};
use hakobu_fleet::control_plane::ControlPlane;
use hakobu_fleet::failure::FailureRow;
use hakobu_fleet::fleet_clock::{FleetClock, MachineClock};
use hakobu_fleet::ids::{Epoch, RunId, UnitKey};
use hakobu_fleet::names::{BrokerName, GroupName};
use hakobu_fleet::relationship::Relationship;
use hakobu_fleet::run::{NewRun, RunEnd, RunOutcome};
use hakobu_fleet::run_figures::RunFigures;
use hakobu_fleet::run_losses::RunLosses;
use hakobu_fleet::token::TokenRole;
use hakobu_fleet::transition::UnitTransition;
use hakobu_fleet::unit::UnitWork;
use serde_json::{Value, json};

use crate::test_server::{TestServer, relationship};

/// Adds relationships to a ledger.
pub fn fill(plane: &ControlPlane, count: usize) {
    for number in 0..count {
        let relationship = Relationship {
            name: format!("relationship {:05}", (number * 7919) % count),
            group: GroupName::new(format!("group-{}", number % 3)).unwrap(),
            sources: vec![format!("/src/{number}").into_bytes()],
            target: b"/dst".to_vec(),
            options: "{}".to_owned(),
            schedule: (number % 2 == 0).then(|| r#"{"version":1,"cron":"0 3 * * *"}"#.to_owned()),
            limits: None,
            notification: None,
            owner: "ops".to_owned(),
            credentials: Vec::new(),
        };
        let change = LedgerChange::SaveRelationship {
            replaces: None,
            now: MachineClock.moment(),
            relationship: Box::new(relationship),
        };
        // Without waiting for each.
        plane.handle().ask(move |leader| leader.change(change, Box::new(|_| {}))).unwrap();
    }
}

/// Reads a list to its end.
fn all(server: &TestServer, path: &str, token: &str) -> Vec<Value> {
    let (mut items, mut after) = (Vec::new(), String::new());
    loop {
        let answer = server.get(&format!("{path}&after={after}"), token);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let page = answer.json();
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return items,
        }
    }
}

#[test]
fn ten_thousand_relationships_are_listed_in_order() {
    let server = TestServer::with(ApiSettings::default(), |plane| fill(plane, 10_000));
    let token = server.token(TokenRole::Viewer);
    server.until("it is ready", || server.get("/readyz", "").status == 200);
    let list = |query: &str| all(&server, &format!("/api/v1/relationships?limit=1000&{query}"), &token);
    let names = |items: &[Value]| -> Vec<String> {
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    let by_name = names(&list("order=name"));
    assert_eq!(by_name.len(), 10_000);
    assert!(by_name.is_sorted() && by_name[0] == "relationship 00000");
    let by_start = list("order=next_start");
    assert_eq!(by_start.len(), 10_000);
    assert!(by_start[0]["next_start_ms"].is_u64() && by_start[9_999]["next_start_ms"].is_null());
    assert_eq!(list("group=group-1").len(), 3333);
    assert_eq!(names(&list("search=SHIP%200004")).len(), 10);
    assert_eq!(list("search=/src/1234").len(), 1);
    assert_eq!((list("state=new").len(), list("state=failed,partial").len()), (10_000, 0));
    let page = server.get("/api/v1/relationships?limit=3", &token).json();
    assert_eq!((page["items"].as_array().unwrap().len(), &page["total"]), (3, &json!(10_000)));
    let wrong = server.get("/api/v1/relationships?state=odd", &token);
    assert_eq!((wrong.status, wrong.json()["field"].clone()), (400, json!("state")));
}

#[test]
fn a_change_needs_the_revision_that_is_there() {
    let server = TestServer::start();
    let admin = server.token(TokenRole::Admin);
    let made = server.call("POST /api/v1/relationships", &admin, &relationship("one"));
    assert_eq!(made.status, 201, "{made:?}");
    let made = made.json();
    assert_eq!(made["relationship"]["owner"], "test admin", "whoever makes it answers for it");
    let taken = server.call("POST /api/v1/relationships", &admin, &relationship("one"));
    assert_eq!((taken.status, taken.kind().as_str()), (409, "name_taken"));
    let path = format!("/api/v1/relationships/{}", made["id"]);
    let mut changed = made["relationship"].clone();
    changed["schedule"] = json!({"version": 1, "cron": "30 2 * * *", "time_zone": "Asia/Tokyo"});
    changed["request"]["target"] = json!({"base64": "L2Iv/w=="});
    let update = json!({"revision": made["revision"], "relationship": changed});
    let line = format!("PUT {path}");
    let after = server.call(&line, &admin, &update);
    assert_eq!(after.status, 200, "{after:?}");
    let after = after.json();
    assert!(after["next_start_ms"].is_u64() && after["schedule_words"].is_string(), "{after}");
    assert_eq!(after["relationship"]["request"]["target"], json!({"base64": "L2Iv/w==", "text": "/b/\\xff"}));
    let again = server.call(&line, &admin, &update);
    assert_eq!((again.status, again.kind().as_str()), (409, "other_revision"));
    assert!(again.json()["hint"].is_string());
    let mut wrong = update.clone();
    wrong["relationship"]["schedule"]["cron"] = json!("61 2 * * *");
    let answer = server.call(&line, &admin, &wrong).json();
    assert_eq!(answer["field"], "schedule.cron", "{answer}");
    let old = server.call(&format!("DELETE {path}?revision={}", made["revision"]), &admin, &Value::Null);
    assert_eq!(old.status, 409);
    let now = server.call(&format!("DELETE {path}?revision={}", after["revision"]), &admin, &Value::Null);
    assert_eq!((now.status, server.get(&path, &admin).status), (204, 404));
    let refused: Vec<_> = all(&server, "/api/v1/audit?limit=2", &admin)
        .iter()
        .map(|item| (item["action"].as_str().unwrap().to_owned(), item["refused"].clone()))
        .collect();
    let expected = [
        ("relationship.remove", Value::Null),
        ("relationship.remove", json!("other_revision")),
        ("relationship.change", json!("other_revision")),
        ("relationship.change", Value::Null),
        ("relationship.create", json!("name_taken")),
        ("relationship.create", Value::Null),
    ];
    assert_eq!(refused, expected.map(|(action, refused)| (action.to_owned(), refused)));
}

/// Starts a run, in which entries fail, and ends it.
fn failed_run(plane: &ControlPlane, failures: usize) -> RunId {
    let group = GroupName::new("site-a").unwrap();
    let broker = BrokerName::new("b").unwrap();
    let now = MachineClock.moment();
    let run = NewRun {
        relationship: None,
        group: group.clone(),
        request: r#"{"sources":["/a"],"target":"/b"}"#.to_owned(),
        started: now,
        units: vec![UnitWork::All],
    };
    let LedgerAnswer::RunStarted(run) = plane.handle().apply(LedgerChange::StartRun(Box::new(run))).unwrap()
    else {
        panic!("it starts");
    };
    let unit = plane.handle().ask(move |leader| leader.ledger().ready_units(run, None, 1)).unwrap().unwrap();
    let key: UnitKey = unit[0].key;
    let epoch = unit[0].state.epoch;
    let lease =
        UnitTransition::Lease { broker: broker.clone(), group, epoch, now, deadline: now.plus_ms(60_000) };
    plane.handle().apply(LedgerChange::Unit(key, lease)).unwrap();
    let failure = |number: usize| {
        let kind = if number.is_multiple_of(10) { ErrorKind::NotFound } else { ErrorKind::PermissionDenied };
        let path = format!("dir{}/file{number}", number % 7).into_bytes();
        FailureRow::new(0, &Failure { path, error: Error::new(kind, "reading", "denied") })
    };
    let loss = |what, count| Loss { what, count, at_target: true, example: b"d\xff".to_vec() };
    let losses = RunLosses::new(&[loss(LossKind::Owner, 3), loss(LossKind::Acl, 1)]);
    let failures = (0..failures).map(failure).collect();
    let result = UnitResult { failures, losses, ..UnitResult::default() };
    let epoch: Epoch = epoch.next().unwrap();
    let commit = LedgerChange::Commit { key, broker, epoch, result: Box::new(result) };
    assert_eq!(plane.handle().apply(commit).unwrap(), LedgerAnswer::Committed);
    let end = RunEnd {
        run,
        ended: MachineClock.moment(),
        outcome: RunOutcome::Failed,
        dropped: RunFigures::default(),
        report: b"{}".to_vec(),
    };
    plane.handle().apply(LedgerChange::EndRun(Box::new(end))).unwrap();
    run
}

#[test]
fn a_hundred_thousand_failures_are_listed_and_tried_again() {
    let server = TestServer::start();
    let token = server.token(TokenRole::Operator);
    let run = failed_run(&server.plane, 100_000);
    let path = format!("/api/v1/runs/{run}");
    let detail = server.get(&path, &token).json();
    assert_eq!((&detail["state"], &detail["failures"]), (&json!("failed"), &json!(100_000)), "{detail}");
    assert_eq!(detail["failures_by_kind"], json!({"not_found": 10_000, "permission_denied": 90_000}));
    let example = json!({"base64": "ZP8=", "text": "d\\xff"});
    let loss =
        |what: &str, count: u64| json!({"what": what, "count": count, "side": "target", "example": example});
    assert_eq!(detail["losses"], json!([loss("acl", 1), loss("owner", 3)]));
    let failures = |query: &str| all(&server, &format!("{path}/failures?limit=1000&{query}"), &token);
    let everything = failures("");
    assert_eq!(everything.len(), 100_000);
    assert_eq!(everything[7]["path"], "dir0/file7");
    assert_eq!(failures("kind=not_found").len(), 10_000);
    assert_eq!(failures("path=dir3/").len(), 100_000_usize.div_ceil(7));
    assert_eq!(failures("path_base64=ZGlyNi9maWxlOTk5OTk=").len(), 0);
    let fits = |number: &usize| {
        !number.is_multiple_of(10) && number % 7 == 6 && number.to_string().starts_with("99")
    };
    let expected = (0..100_000).filter(fits).count();
    assert_eq!(failures("kind=permission_denied&path=dir6/file99").len(), expected);
    assert_eq!(server.get(&format!("{path}/failures?kind=odd"), &token).status, 400);
    let report = server.get(&format!("{path}/report"), &token);
    assert!(report.header("content-disposition").unwrap().contains("hakobu-run"));
    let again = server.call(&format!("POST {path}/retry"), &token, &Value::Null);
    assert_eq!(again.status, 201, "{again:?}");
    let next = again.json()["run"].as_u64().unwrap();
    let detail = server.get(&format!("/api/v1/runs/{next}"), &token).json();
    assert_eq!((&detail["state"], &detail["units"]["added"]), (&json!("running"), &json!(100)), "{detail}");
    let compared = server.get(&format!("{path}/compare/{next}"), &token).json();
    assert_eq!(compared["new_failures"].as_array().unwrap().len(), 100);
    let open = server.get("/api/v1/runs?state=running", &token).json();
    assert_eq!(open["items"].as_array().unwrap().len(), 1);
    let limits = json!({"version": 1, "bytes_per_second": 5_000_000});
    let line = format!("PUT /api/v1/runs/{next}/limits");
    assert_eq!(server.call(&line, &token, &limits).status, 204);
    assert_eq!(server.call(&line, &token, &json!({"version": 1, "bytes_per_second": 1})).status, 400);
    assert_eq!(server.call(&format!("POST /api/v1/runs/{next}/pause"), &token, &Value::Null).status, 204);
    let detail = server.get(&format!("/api/v1/runs/{next}"), &token).json();
    assert_eq!(
        (&detail["state"], &detail["limits"]["bytes_per_second"]),
        (&json!("paused"), &json!(5_000_000))
    );
    assert_eq!(server.call(&format!("POST /api/v1/runs/{next}/cancel"), &token, &Value::Null).status, 204);
    let gone = server.call(&format!("POST /api/v1/runs/{next}/cancel"), &token, &Value::Null);
    assert_eq!((gone.status, gone.kind().as_str()), (409, "run_ended"));
    let ended = server.get("/api/v1/runs?state=cancelled,failed", &token).json();
    assert_eq!(ended["items"].as_array().unwrap().len(), 2);
}

#[test]
fn limits_of_endpoints_are_set_listed_and_removed() {
    let server = TestServer::start();
    let (admin, operator) = (server.token(TokenRole::Admin), server.token(TokenRole::Operator));
    let set = |location: Value, limits: Value| {
        let body = json!({"location": location, "limits": limits});
        server.call("PUT /api/v1/endpoint-limits", &operator, &body)
    };
    let listed = || server.get("/api/v1/endpoint-limits", &operator).json()["items"].clone();
    let limits = json!({"version": 1, "operations_per_second": 500});
    assert_eq!(set(json!("nas:/srv/"), limits.clone()).status, 204);
    let odd = json!({"base64": "L2H/", "text": "/a\\xff"});
    assert_eq!(set(odd.clone(), json!({"version": 1, "brokers": 2})).status, 204);
    let shown = |limits: &Value| {
        let mut limits = limits.clone();
        limits["paused"] = json!(false);
        limits
    };
    let expected = json!([
        {"location": odd, "limits": shown(&json!({"version": 1, "brokers": 2})), "runs": 0},
        {"location": "nas:/srv", "limits": shown(&limits), "runs": 0},
    ]);
    assert_eq!(listed(), expected);
    // Without slashes at the end it is the same one.
    assert_eq!(set(json!("nas:/srv"), json!({"version": 1})).status, 204);
    assert_eq!(listed().as_array().unwrap().len(), 1);
    for (location, limits, field) in [
        (json!("srv"), limits.clone(), "location"),
        (json!(""), limits.clone(), "location"),
        (json!("/srv"), json!({"version": 1, "bytes_per_second": 1}), "limits.bytes_per_second"),
    ] {
        let answer = set(location, limits);
        assert_eq!((answer.status, answer.json()["field"].clone()), (400, json!(field)), "{answer:?}");
    }
    let audit = server.get("/api/v1/audit", &admin).json()["items"].clone();
    let told = (&audit[0]["action"], &audit[0]["object"], &audit[0]["who"]);
    assert_eq!(told, (&json!("endpoint.limit"), &json!("nas:/srv"), &json!("test operator")), "{audit}");
}
