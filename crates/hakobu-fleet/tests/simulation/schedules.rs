//! Runs start by schedule, one at a time, and rest during blackouts.

use std::sync::atomic::Ordering;

use hakobu_fleet::change::{LedgerAnswer, LedgerChange};
use hakobu_fleet::fleet_clock::FleetClock;
use hakobu_fleet::ids::{RelationshipId, RunId};
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::relationship::Relationship;

use super::world::{World, group};

const MINUTE_MS: u64 = 60_000;

fn save(world: &mut World, schedule: &str) {
    save_with(world, schedule, None);
}

pub fn save_with(world: &mut World, schedule: &str, notification: Option<&str>) {
    let relationship = Relationship {
        name: "nightly".to_owned(),
        group: group(),
        sources: vec![b"/a".to_vec()],
        target: b"/b".to_vec(),
        options: "{}".to_owned(),
        schedule: Some(schedule.to_owned()),
        limits: None,
        notification: notification.map(str::to_owned),
        owner: "ops".to_owned(),
        credentials: Vec::new(),
    };
    let now = world.clock.moment();
    let change = LedgerChange::SaveRelationship { replaces: None, now, relationship: Box::new(relationship) };
    let leader = world.leader();
    leader.change(
        change,
        Box::new(|answer| {
            assert!(matches!(answer, Ok(LedgerAnswer::RelationshipSaved(..))), "{answer:?}");
        }),
    );
    leader.flush();
}

/// Lets minutes pass, and returns the numbers of the runs there are.
pub fn pass(world: &mut World, minutes: u64) -> Vec<u64> {
    for _ in 0..minutes * 60 {
        world.clock.elapsed_ms.fetch_add(1_000, Ordering::Relaxed);
        world.leader().tick();
    }
    let id = RelationshipId::new(1).unwrap();
    let runs = world.leader().ledger().runs(Some(id), None, 100).unwrap();
    runs.iter().map(|run| run.id.get()).collect()
}

pub fn end(world: &mut World, run: u64) {
    let leader = world.leader();
    leader.cancel_run(RunId::new(run).unwrap(), |change| change, Box::new(|answer| drop(answer.unwrap())));
    leader.flush();
    leader.tick();
}

#[test]
fn runs_start_by_schedule_and_do_not_overlap() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    save(&mut world, r#"{"version":1,"cron":"*/10 * * * *"}"#);
    assert_eq!(pass(&mut world, 11), [1]);
    // The second start finds the first run under way.
    assert_eq!(pass(&mut world, 10), [1]);
    end(&mut world, 1);
    assert_eq!(pass(&mut world, 10), [2, 1]);
    // A leader that takes over does not start anything again.
    world.kill_leader();
    world.clock.skew_ms.store(0, Ordering::Relaxed);
    assert_eq!(pass(&mut world, 5), [2, 1]);
    end(&mut world, 2);
    assert_eq!(pass(&mut world, 10), [3, 2, 1]);
}

#[test]
fn nothing_is_leased_during_a_blackout() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    // The clock begins at 08:00 UTC.
    let blackout = r#"{"version":1,"cron":"5 8 * * *","blackouts":[{"from":"08:10","to":"08:30"}]}"#;
    save(&mut world, blackout);
    assert_eq!(pass(&mut world, 6), [1]);
    let rests = |world: &mut World| world.leader().active_runs().values().all(|run| run.rests());
    assert!(!rests(&mut world));
    pass(&mut world, 10);
    assert!(rests(&mut world));
    world.clock.elapsed_ms.fetch_add(20 * MINUTE_MS, Ordering::Relaxed);
    pass(&mut world, 1);
    assert!(!rests(&mut world));
}
