//! Starts by schedule that wait, as the interface tells of them.

use hakobu_fleet::api::ApiSettings;
use hakobu_fleet::change::LedgerChange;
use hakobu_fleet::fleet_clock::{FleetClock, MachineClock};
use hakobu_fleet::names::GroupName;
use hakobu_fleet::relationship::Relationship;
use hakobu_fleet::run::NewRun;
use hakobu_fleet::token::TokenRole;
use hakobu_fleet::unit::UnitWork;
use serde_json::Value;

use crate::test_server::TestServer;

const TWO_DAYS_MS: u64 = 2 * 86_400_000;

#[test]
fn a_start_that_waits_is_told_with_the_run_that_is_the_cause() {
    let group = || GroupName::new("site-a").unwrap();
    let now = MachineClock.moment();
    let server = TestServer::with(ApiSettings::default(), |plane| {
        let run = NewRun {
            relationship: None,
            group: group(),
            request: r#"{"sources":["/a"],"target":"/dst"}"#.to_owned(),
            started: now,
            units: vec![UnitWork::All],
        };
        plane.handle().apply(LedgerChange::StartRun(Box::new(run))).unwrap();
        let relationship = Relationship {
            name: "nightly".to_owned(),
            group: group(),
            sources: vec![b"/src".to_vec()],
            target: b"/dst/below".to_vec(),
            options: "{}".to_owned(),
            schedule: Some(r#"{"version":1,"cron":"0 3 * * *"}"#.to_owned()),
            limits: None,
            notification: None,
            owner: "ops".to_owned(),
            credentials: Vec::new(),
        };
        // A start was missed since.
        let (replaces, relationship) = (None, Box::new(relationship));
        let save = LedgerChange::SaveRelationship { replaces, now: now.minus_ms(TWO_DAYS_MS), relationship };
        plane.handle().apply(save).unwrap();
    });
    let admin = server.token(TokenRole::Admin);
    let delay = || server.get("/api/v1/relationships/1", &admin).json()["delayed_start"].clone();
    server.until("a delay", || delay().is_object());
    let told = delay();
    assert_eq!((&told["kind"], &told["run"]), (&"target_in_use".into(), &1.into()), "{told}");
    assert_eq!(told["is_left_out"], false, "{told}");
    let planned = told["planned_ms"].as_u64().unwrap();
    assert!(planned <= now.get() && planned + TWO_DAYS_MS / 2 > now.get(), "{told}");
    assert!(told["message"].as_str().unwrap().starts_with("waits for the end of run 1, which"), "{told}");
    let listed = server.get("/api/v1/relationships", &admin).json();
    assert_eq!(listed["items"][0]["delayed_start"], told);

    assert_eq!(server.call("POST /api/v1/runs/1/cancel", &admin, &Value::Null).status, 204);
    // It is tried again within ten seconds.
    server.until("the start", || server.get("/api/v1/runs/2", &admin).status == 200);
    server.until("the end of the delay", || delay().is_null());
    let audit = server.get("/api/v1/audit", &admin).json();
    let records = audit["items"].as_array().unwrap().iter();
    let records: Vec<_> = records.filter(|record| record["who"] == "schedule").collect();
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!((&records[0]["action"], &records[0]["object"]), (&"schedule.wait".into(), &"nightly".into()));
    assert!(records[0]["detail"].as_str().unwrap().contains("waits for the end of run 1"), "{records:?}");
}
