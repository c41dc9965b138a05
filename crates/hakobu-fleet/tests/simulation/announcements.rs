//! People are told of runs that end and of brokers that are silent, each once.

use hakobu_fleet::change::LedgerChange;
use hakobu_fleet::ids::{RunId, UnitKey};
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::message::{BrokerCall, BrokerReport, BrokerRequest, LeaderAnswer};
use hakobu_fleet::names::BrokerName;
use hakobu_fleet::notification::{Notification, NotificationKind};
use hakobu_fleet::notification_queue::{QueuedNotifications, notification_queue};

use super::schedules::{end, pass, save_with};
use super::world::World;

const EVERY_KIND: &str =
    r#"{"version":1,"kinds":["run_complete","run_cancelled","broker_lost"],"mail_to":["a@b.org"]}"#;

fn listen(world: &mut World) -> QueuedNotifications {
    let (put, take) = notification_queue();
    world.leader().set_notifications(put);
    take
}

fn told(queued: &mut QueuedNotifications) -> Vec<Notification> {
    std::iter::from_fn(|| queued.try_next()).map(|queued| queued.notification).collect()
}

fn call(world: &mut World, request: BrokerRequest) -> LeaderAnswer {
    let call = BrokerCall { broker: BrokerName::new("b").unwrap(), process: 1, request };
    loop {
        // Messages are lost now and then.
        if let Some(answer) = world.call(&call) {
            return answer;
        }
    }
}

fn report() -> BrokerReport {
    BrokerReport { version: "1".to_owned(), slots: 1, ..BrokerReport::default() }
}

/// Has a run with a broker that has a unit.
fn run_with_broker(world: &mut World) {
    save_with(world, r#"{"version":1,"cron":"5 8 * * *"}"#, Some(EVERY_KIND));
    assert_eq!(pass(world, 6), [1]);
    call(world, BrokerRequest::Report(report()));
    let leased = call(world, BrokerRequest::Lease { offered: Vec::<UnitKey>::new() });
    assert!(matches!(leased, LeaderAnswer::Leases(_)), "{leased:?}");
}

#[test]
fn a_setting_of_an_earlier_version_tells_of_its_other_kinds() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    let mut queued = listen(&mut world);
    let setting = r#"{"version":1,"kinds":["run_cancelled","credentials_expiring"],"mail_to":["a@b.org"]}"#;
    save_with(&mut world, r#"{"version":1,"cron":"5 8 * * *"}"#, Some(setting));
    assert_eq!(pass(&mut world, 6), [1]);
    end(&mut world, 1);
    assert_eq!(told(&mut queued).len(), 1);
    // The ledger has it as well, until it is delivered.
    world.kill_leader();
    assert_eq!(told(&mut listen(&mut world)).len(), 1);
}

#[test]
fn the_end_of_a_run_is_told_again_until_it_is_known_to_be_told() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    let mut queued = listen(&mut world);
    save_with(&mut world, r#"{"version":1,"cron":"5 8 * * *"}"#, Some(EVERY_KIND));
    assert_eq!(pass(&mut world, 6), [1]);
    end(&mut world, 1);
    assert_eq!(told(&mut queued).len(), 1);
    // The control plane is killed before that is delivered, twice.
    for _ in 0..2 {
        world.kill_leader();
        let mut queued = listen(&mut world);
        let again = told(&mut queued);
        assert_eq!(again.len(), 1);
        assert_eq!((again[0].kind, again[0].id.as_str()), (NotificationKind::RunCancelled, "run-1"));
    }
    let change = LedgerChange::TellRun(RunId::new(1).unwrap());
    world.leader().change(change, Box::new(|answer| drop(answer.unwrap())));
    world.leader().flush();
    world.kill_leader();
    let mut queued = listen(&mut world);
    assert!(told(&mut queued).is_empty());
}

#[test]
fn the_end_of_a_run_is_told_once() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    let mut queued = listen(&mut world);
    save_with(&mut world, r#"{"version":1,"cron":"5 8 * * *"}"#, Some(EVERY_KIND));
    assert_eq!(pass(&mut world, 6), [1]);
    assert!(told(&mut queued).is_empty());
    end(&mut world, 1);
    let told = told(&mut queued);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].kind, told[0].id.as_str()), (NotificationKind::RunCancelled, "run-1"));
    assert_eq!(told[0].relationship.as_deref(), Some("nightly"));
}

#[test]
fn kinds_that_nobody_wants_are_not_told() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    let mut queued = listen(&mut world);
    save_with(
        &mut world,
        r#"{"version":1,"cron":"5 8 * * *"}"#,
        Some(r#"{"version":1,"mail_to":["a@b.org"]}"#),
    );
    assert_eq!(pass(&mut world, 6), [1]);
    end(&mut world, 1);
    assert!(told(&mut queued).is_empty());
}

#[test]
fn a_broker_that_is_silent_with_units_is_told_of_after_five_minutes() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    let mut queued = listen(&mut world);
    run_with_broker(&mut world);
    pass(&mut world, 4);
    assert!(told(&mut queued).is_empty());
    pass(&mut world, 2);
    let told_of = told(&mut queued);
    assert_eq!(told_of.len(), 1, "{told_of:?}");
    assert_eq!((told_of[0].kind, told_of[0].broker.as_deref()), (NotificationKind::BrokerLost, Some("b")));
    pass(&mut world, 10);
    assert!(told(&mut queued).is_empty());
}

#[test]
fn a_broker_that_comes_back_or_leaves_is_not_lost() {
    for last in [BrokerRequest::Report(report()), BrokerRequest::Leave] {
        let mut world = World::new(1, Box::new(MemoryLedger::default()));
        let mut queued = listen(&mut world);
        run_with_broker(&mut world);
        pass(&mut world, 3);
        call(&mut world, last);
        pass(&mut world, 10);
        assert!(told(&mut queued).is_empty());
    }
}
