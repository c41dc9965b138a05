//! Runs start by schedule, one at a time, and rest during blackouts.

use std::sync::atomic::Ordering;

use hakobu_fleet::change::{LedgerAnswer, LedgerChange, LedgerRefusal};
use hakobu_fleet::fleet_clock::FleetClock;
use hakobu_fleet::ids::{RelationshipId, RunId};
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::relationship::Relationship;
use hakobu_fleet::run::NewRun;
use hakobu_fleet::start_delay::{DelayCause, StartDelay};
use hakobu_fleet::unit::UnitWork;

use super::world::{World, group};

const MINUTE_MS: u64 = 60_000;

fn save(world: &mut World, schedule: &str) {
    save_with(world, schedule, None);
}

pub fn save_with(world: &mut World, schedule: &str, notification: Option<&str>) {
    save_as("nightly", world, schedule, notification);
}

fn save_as(name: &str, world: &mut World, schedule: &str, notification: Option<&str>) {
    let relationship = Relationship {
        name: name.to_owned(),
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
fn two_starts_into_one_target_at_one_moment_follow_each_other() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    let schedule = r#"{"version":1,"cron":"*/10 * * * *"}"#;
    save(&mut world, schedule);
    save_as("the same at the same time", &mut world, schedule, None);
    assert_eq!(pass(&mut world, 11), [1]);
    assert_eq!(world.leader().active_runs().len(), 1);
    let delays: Vec<_> = world.leader().start_delays().map(|(id, delay)| (id.get(), delay.clone())).collect();
    assert_eq!(delays, [(2, delay_at(10, false, DelayCause::TargetInUse(run_of(1))).unwrap())]);
    end(&mut world, 1);
    pass(&mut world, 1);
    let open: Vec<_> = world.leader().active_runs().values().map(|run| run.row.relationship).collect();
    assert_eq!(open, [Some(RelationshipId::new(2).unwrap())]);

    // Two that people ask for at a time are no other: the second one is refused.
    end(&mut world, 2);
    let (told, answers) = std::sync::mpsc::channel();
    for source in ["/one", "/two"] {
        let run = NewRun {
            relationship: None,
            group: group(),
            request: format!(r#"{{"sources":["{source}"],"target":"/c"}}"#),
            started: world.clock.moment(),
            units: vec![UnitWork::All],
        };
        let told = told.clone();
        let reply = Box::new(move |answer| told.send(answer).unwrap());
        world.leader().change(LedgerChange::StartRun(Box::new(run)), reply);
    }
    world.leader().flush();
    let answers: Vec<_> = answers.try_iter().collect();
    let refused = LedgerAnswer::Refused(LedgerRefusal::TargetInUse(run_of(3)));
    assert!(
        matches!(&answers[..], [Ok(LedgerAnswer::RunStarted(_)), Ok(other)] if *other == refused),
        "{answers:?}"
    );
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
    // A run that somebody starts within it rests from its beginning, and one that another leader takes up as well.
    end(&mut world, 1);
    let request = r#"{"sources":["/a"],"target":"/b"}"#.to_owned();
    let (relationship, started) = (Some(RelationshipId::new(1).unwrap()), world.clock.moment());
    let run = NewRun { relationship, group: group(), request, started, units: vec![UnitWork::All] };
    let leader = world.leader();
    leader.change(LedgerChange::StartRun(Box::new(run)), Box::new(|answer| drop(answer.unwrap())));
    leader.flush();
    assert!(leader.active_runs().len() == 1 && rests(&mut world));
    world.kill_leader();
    world.restart_leader(0);
    assert!(world.leader().active_runs().len() == 1 && rests(&mut world));
    world.clock.elapsed_ms.fetch_add(20 * MINUTE_MS, Ordering::Relaxed);
    pass(&mut world, 1);
    assert!(!rests(&mut world));
}

/// Returns the start that waits or was left out.
fn delay(world: &mut World) -> Option<StartDelay> {
    world.leader().start_delays().next().map(|(_, delay)| delay.clone())
}

/// Returns the actions of the schedule in the audit log, the first one first.
fn records(world: &mut World) -> Vec<(String, String)> {
    let records = world.leader().ledger().audit(None, 100).unwrap();
    let of_schedule =
        records.into_iter().rev().map(|record| record.entry).filter(|entry| entry.who == "schedule");
    of_schedule.map(|entry| (entry.action, entry.detail)).collect()
}

/// Returns the delay of a start so many minutes after the beginning, which is at 08:00.
fn delay_at(minute: u64, is_left_out: bool, cause: DelayCause) -> Option<StartDelay> {
    let planned = hakobu_fleet::ids::Moment::new(1_800_000_000_000 + minute * MINUTE_MS).unwrap();
    Some(StartDelay { planned, is_left_out, cause })
}

fn run_of(number: u64) -> RunId {
    RunId::new(number).unwrap()
}

#[test]
fn a_start_that_waits_for_the_run_before_tells_since_when() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    save(&mut world, r#"{"version":1,"cron":"*/10 * * * *"}"#);
    assert_eq!(pass(&mut world, 15), [1]);
    assert_eq!(delay(&mut world), None);
    // The start of 08:20, and those that follow it.
    for minutes in [10, 10, 10] {
        pass(&mut world, minutes);
        assert_eq!(delay(&mut world), delay_at(20, false, DelayCause::RunOpen(run_of(1))));
    }
    let told = "the start of 2027-01-15 08:20:00 UTC waits for the end of run 1, which is under way";
    let record = || ("schedule.wait".to_owned(), told.to_owned());
    assert_eq!(records(&mut world), [record()], "once, however many starts there are");
    end(&mut world, 1);
    assert_eq!(pass(&mut world, 1), [2, 1]);
    assert_eq!(delay(&mut world), None);
    assert_eq!(records(&mut world), [record()]);
}

#[test]
fn a_start_that_is_left_out_is_told_until_the_next_one() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    save(&mut world, r#"{"version":1,"cron":"*/10 * * * *","missed":"skip"}"#);
    assert_eq!(pass(&mut world, 25), [1]);
    let left_out = |minute| delay_at(minute, true, DelayCause::RunOpen(run_of(1)));
    assert_eq!(delay(&mut world), left_out(20));
    pass(&mut world, 10);
    assert_eq!(delay(&mut world), left_out(30));
    end(&mut world, 1);
    assert_eq!(pass(&mut world, 3), [1]);
    assert_eq!(delay(&mut world), left_out(30), "it is told after the run as well");
    let records = records(&mut world);
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0].0, "schedule.leave_out");
    assert!(records[0].1.ends_with("08:20:00 UTC was left out, as run 1 was under way"), "{records:?}");
    // Another leader finds the reason in the history.
    world.restart_leader(0);
    assert_eq!(pass(&mut world, 1), [1]);
    assert_eq!(delay(&mut world), left_out(30));
    assert_eq!(pass(&mut world, 5), [2, 1]);
    assert_eq!(delay(&mut world), None);
}

#[test]
fn a_control_plane_that_was_away_tells_what_it_missed() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    save(&mut world, r#"{"version":1,"cron":"*/10 * * * *","missed":"skip"}"#);
    pass(&mut world, 1);
    world.restart_leader(0);
    world.clock.elapsed_ms.fetch_add(14 * MINUTE_MS, Ordering::Relaxed);
    assert!(pass(&mut world, 1).is_empty());
    assert_eq!(delay(&mut world), delay_at(10, true, DelayCause::Away));
}

#[test]
fn a_start_into_a_target_in_use_tells_which_run_it_waits_for() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    let run = NewRun {
        relationship: None,
        group: group(),
        request: r#"{"sources":["/other"],"target":"/b/below"}"#.to_owned(),
        started: world.clock.moment(),
        units: vec![UnitWork::All],
    };
    let leader = world.leader();
    leader.change(LedgerChange::StartRun(Box::new(run)), Box::new(|answer| drop(answer.unwrap())));
    leader.flush();
    save(&mut world, r#"{"version":1,"cron":"*/10 * * * *"}"#);
    assert!(pass(&mut world, 25).is_empty());
    assert_eq!(delay(&mut world), delay_at(10, false, DelayCause::TargetInUse(run_of(1))));
    let told = records(&mut world);
    assert!(
        told.len() == 1 && told[0].1.contains("waits for the end of run 1, which copies to this"),
        "{told:?}"
    );
    end(&mut world, 1);
    assert_eq!(pass(&mut world, 1), [2]);
    assert_eq!(delay(&mut world), None);
}

#[test]
fn a_start_within_a_blackout_is_told() {
    for (missed, is_left_out) in [("run_once", false), ("skip", true)] {
        let mut world = World::new(1, Box::new(MemoryLedger::default()));
        let blackout = r#""blackouts":[{"from":"08:05","to":"08:30"}]"#;
        save(&mut world, &format!(r#"{{"version":1,"cron":"10 * * * *",{blackout},"missed":"{missed}"}}"#));
        assert!(pass(&mut world, 15).is_empty());
        assert_eq!(delay(&mut world), delay_at(10, is_left_out, DelayCause::Blackout), "{missed}");
        let runs = pass(&mut world, 16);
        assert_eq!(
            (runs.len(), delay(&mut world).is_none()),
            if is_left_out { (0, false) } else { (1, true) }
        );
    }
}
