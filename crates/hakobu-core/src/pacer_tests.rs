use super::*;
use crate::pace::RateLimit;

const MS: u64 = 1_000_000;

fn rate(text: &str) -> RunLimits {
    RunLimits { rate: RateLimit::parse(text, 0).unwrap(), ..RunLimits::default() }
}

fn paced(limits: RunLimits, now_ns: u64) -> (Pacer, LimitAdjuster) {
    let pacer = Pacer::new(now_ns, PacerBacklog::default());
    let keeper = LimitAdjuster::new(limits, &pacer, now_ns, PacerBacklog::default());
    (pacer, keeper)
}

#[test]
fn all_together_get_the_rate_and_no_more() {
    let (pacer, _) = paced(rate("1M"), 7);
    let (mut free_at, mut sent) = ([7_u64; 3], 0);
    // Three lanes for ten seconds.
    loop {
        let lane = (0..3).min_by_key(|lane| free_at[*lane]).unwrap();
        let now_ns = free_at[lane];
        if now_ns > 10_000 * MS {
            break;
        }
        sent += 10_000;
        free_at[lane] = match pacer.turn(LimitedQuantities::Content, now_ns, 10_000) {
            PacerTurn::Now => now_ns + MS,
            PacerTurn::At(at_ns) => at_ns + MS,
            PacerTurn::AskAt(_) => panic!("no pause"),
        };
    }
    assert!((9_900_000..=10_200_000).contains(&sent), "{sent}");
    // Bandwidth that was not used for a minute is not made up for.
    let minute_ns = 70_000 * MS;
    let now = |_: &i32| pacer.turn(LimitedQuantities::Content, minute_ns, 10_000) == PacerTurn::Now;
    let at_once = (0..1000).take_while(now).count();
    assert!((5..=6).contains(&at_once), "{at_once}");
}

#[test]
fn a_pause_ends() {
    let (pacer, mut keeper) = paced(rate("00:00,pause 00:01,off"), 0);
    assert_eq!(pacer.turn(LimitedQuantities::Content, 1000 * MS, 1), PacerTurn::AskAt(1050 * MS));
    assert!(pacer.is_paused());
    let words = keeper.pause_words(0).unwrap();
    assert_eq!(words, "paused until 00:01, by the timetable of --bwlimit");
    assert_eq!((keeper.pause_words(0), keeper.paused_until_s()), (None, Some(60)));
    assert_eq!(keeper.paused_ns(&pacer, 59_000 * MS), 59_000 * MS);
    let changes = pacer.changes();
    keeper.look(&pacer, 59_900 * MS);
    assert_eq!(pacer.changes(), changes);
    keeper.look(&pacer, 60_000 * MS);
    assert_ne!(pacer.changes(), changes);
    assert_eq!(pacer.turn(LimitedQuantities::Content, 60_000 * MS, 1), PacerTurn::Now);
    assert!(!pacer.holds(LimitedQuantities::Content) && !pacer.is_paused());
    // It was no longer a pause when it was counted last.
    assert_eq!(keeper.paused_ns(&pacer, 61_000 * MS), 0);
    let words = keeper.pause_words(60_000 * MS).unwrap();
    assert_eq!(words, "the pause is over: no limit until 00:00 (--bwlimit)");
    assert_eq!((keeper.pause_words(60_000 * MS), keeper.paused_until_s()), (None, None));
}

#[test]
fn nobody_asks_where_nothing_is_limited() {
    let (pacer, _) = paced(RunLimits::default(), 0);
    for what in [LimitedQuantities::Content, LimitedQuantities::Source, LimitedQuantities::Target] {
        assert!(!pacer.holds(what));
        assert_eq!(pacer.turn(what, 0, u64::MAX), PacerTurn::Now);
    }
    assert_eq!(pacer.operations_at_once(), u64::MAX);
}

#[test]
fn each_end_has_its_operations() {
    let (pacer, _) = paced(RunLimits { operations_per_second: Some(200), ..RunLimits::default() }, 0);
    assert!(
        !pacer.holds(LimitedQuantities::Content)
            && pacer.holds(LimitedQuantities::Source)
            && pacer.holds(LimitedQuantities::Target)
    );
    for what in [LimitedQuantities::Source, LimitedQuantities::Target] {
        // Ten are what was not used in the first twentieth of a second.
        assert_eq!(pacer.turn(what, 0, 100), PacerTurn::Now);
        assert_eq!(pacer.turn(what, 0, 1), PacerTurn::At(500 * MS));
        assert_eq!(pacer.turn(what, 0, 1), PacerTurn::At(505 * MS));
    }
    assert_eq!(pacer.operations_at_once(), 20);
    let (pacer, _) = paced(RunLimits { operations_per_second: Some(0), ..RunLimits::default() }, 0);
    assert_eq!(pacer.operations_at_once(), 1);
    assert_eq!(pacer.turn(LimitedQuantities::Target, 0, 1), PacerTurn::AskAt(50 * MS));
}

/// A limit that is set again and again, as shares in a limit are, lets no more through than one that stays.
#[test]
fn changes_forgive_nothing_that_was_let_through() {
    for (first, second) in [("100k", "100k"), ("50k", "150k"), ("10k", "190k")] {
        let (pacer, mut keeper) = paced(rate(first), 0);
        let mut sent = 0;
        let (mut at_ns, mut changes) = ([0_u64; 2], pacer.changes());
        // Two lanes with pieces of 256 KiB, of which each takes seconds, and a change each half second.
        for now_ns in (0..60_000).map(|ms| ms * MS) {
            if now_ns % (500 * MS) == 0 {
                let is_odd = now_ns / (500 * MS) % 2 == 1;
                keeper.change(rate(if is_odd { second } else { first }), &pacer, now_ns);
            }
            for lane in &mut at_ns {
                let waits = *lane != 0 && *lane > now_ns && pacer.changes() == changes;
                if waits {
                    continue;
                }
                let has_turn = *lane != 0 && pacer.changes() == changes;
                if has_turn {
                    pacer.begun(LimitedQuantities::Content, 262_144);
                }
                let turn = match has_turn {
                    true => PacerTurn::Now,
                    false => pacer.turn(LimitedQuantities::Content, now_ns, 262_144),
                };
                *lane = match turn {
                    PacerTurn::At(at_ns) => at_ns,
                    _ => {
                        sent += 262_144;
                        0
                    }
                };
            }
            changes = pacer.changes();
        }
        // 6 MB, and what each lane may send at once.
        assert!((5_700_000..=6_600_000).contains(&sent), "{first} {second}: {sent}");
    }
}

#[test]
fn other_limits_do_not_keep_a_slow_source_from_being_noticed() {
    let limits = |operations, us| RunLimits {
        source_p99_us: Some(us),
        operations_per_second: Some(operations),
        ..RunLimits::default()
    };
    let (pacer, mut keeper) = paced(limits(500, 1_000), 0);
    for (half, operations) in (1..=4).zip([400, 500, 400, 500]) {
        pacer.turn(LimitedQuantities::Source, half * 500 * MS, 100);
        pacer.read_took(2 * MS, 100);
        keeper.change(limits(operations, 1_000), &pacer, half * 500 * MS);
        keeper.look(&pacer, half * 500 * MS + MS);
    }
    assert!(pacer.is_held_by_latency());
    keeper.change(limits(400, 1_000), &pacer, 2_100 * MS);
    assert!(pacer.is_held_by_latency());
    // Another latency is judged anew.
    keeper.change(limits(400, 5_000), &pacer, 2_200 * MS);
    assert!(!pacer.is_held_by_latency());
}

/// A run may be too short for its reads to be judged.
#[test]
fn what_is_known_of_the_source_outlasts_a_run() {
    let limits = |us| RunLimits { source_p99_us: Some(us), ..RunLimits::default() };
    let run = |us, backlog| {
        let pacer = Pacer::new(0, backlog);
        let mut keeper = LimitAdjuster::new(limits(us), &pacer, 0, backlog);
        pacer.turn(LimitedQuantities::Source, 0, 60);
        pacer.read_took(2 * MS, 60);
        keeper.look(&pacer, 600 * MS);
        (pacer.is_held_by_latency(), keeper.backlog(&pacer, 600 * MS))
    };
    let (is_held, first) = run(1_000, PacerBacklog::default());
    assert!(!is_held, "after 60 reads nothing is known");
    let (is_held, second) = run(1_000, first);
    assert!(is_held);
    let pacer = Pacer::new(0, second);
    let _keeper = LimitAdjuster::new(limits(1_000), &pacer, 0, second);
    assert!(pacer.is_held_by_latency());
    for (us, other) in [(1_000, first.without_latency()), (5_000, first), (5_000, second)] {
        assert!(!run(us, other).0, "it is of another source, or another limit");
    }
}

#[test]
fn what_is_owed_outlasts_a_pause_a_change_and_a_run() {
    let limits = |operations| RunLimits { operations_per_second: Some(operations), ..RunLimits::default() };
    let (pacer, mut keeper) = paced(limits(100), 0);
    pacer.owe(LimitedQuantities::Source, 0, 1_000);
    keeper.change(limits(200), &pacer, 2_000 * MS);
    // 800 are left.
    assert_eq!(pacer.turn(LimitedQuantities::Source, 2_000 * MS, 1), PacerTurn::At(6_000 * MS));
    keeper.change(limits(0), &pacer, 3_000 * MS);
    pacer.owe(LimitedQuantities::Source, 3_000 * MS, 20);
    keeper.change(limits(100), &pacer, 4_000 * MS);
    let ended_ns = 5_000 * MS;
    let backlog = keeper.backlog(&pacer, ended_ns).after(Duration::from_millis(500));
    let pacer = Pacer::new(0, backlog);
    let _keeper = LimitAdjuster::new(limits(50), &pacer, 0, backlog);
    // 400 were left at 4 s, and 20 more were owed. Of these 420, 150 were paid off.
    assert_eq!(pacer.turn(LimitedQuantities::Source, 0, 1), PacerTurn::At(5_400 * MS));
    assert_eq!(pacer.turn(LimitedQuantities::Target, 0, 1), PacerTurn::Now);
    assert_eq!(PacerBacklog::default().after(Duration::from_secs(9)), PacerBacklog::default());
}

#[test]
fn a_new_limit_holds_at_once() {
    let (pacer, mut keeper) = paced(rate("10k"), 0);
    // One piece at this rate takes 26 seconds.
    for _ in 0..3 {
        pacer.turn(LimitedQuantities::Content, 0, 262_144);
    }
    let PacerTurn::At(at_ns) = pacer.turn(LimitedQuantities::Content, 0, 262_144) else { panic!() };
    assert!(at_ns > 70_000 * MS);
    let changes = pacer.changes();
    keeper.change(rate("100M"), &pacer, MS);
    assert_ne!(pacer.changes(), changes);
    // The first one is under way, and takes 3 ms at this rate. Nobody waits for those that were not begun.
    assert_eq!(pacer.turn(LimitedQuantities::Content, 4 * MS, 262_144), PacerTurn::Now);
    // A timetable counts from when it was set.
    let table = RunLimits {
        rate: RateLimit::parse("10:00,1M 10:01,pause", 10 * 3600).unwrap(),
        ..RunLimits::default()
    };
    keeper.change(table, &pacer, 5_000_000 * MS);
    keeper.look(&pacer, 5_059_000 * MS);
    assert!(!matches!(pacer.turn(LimitedQuantities::Content, 5_059_000 * MS, 1), PacerTurn::AskAt(_)));
    keeper.look(&pacer, 5_061_000 * MS);
    assert!(matches!(pacer.turn(LimitedQuantities::Content, 5_061_000 * MS, 1), PacerTurn::AskAt(_)));
}

/// Simulates a source whose reads take longer above `slow_from` reads per second. Returns the number of reads let
/// through in each second.
fn served_by(
    slow_from: u64,
    seconds: u64,
    keeper: &mut LimitAdjuster,
    pacer: &Pacer,
    begin_s: u64,
) -> Vec<u64> {
    let mut rates = Vec::new();
    for second in begin_s..begin_s + seconds {
        let begin_ns = second * 1000 * MS;
        let (mut now_ns, mut done) = (begin_ns, 0);
        // The source itself delivers 1000 reads a second.
        while now_ns < begin_ns + 1000 * MS {
            now_ns = match pacer.turn(LimitedQuantities::Source, now_ns, 1) {
                PacerTurn::At(at_ns) => at_ns.max(now_ns),
                _ => now_ns,
            } + MS;
            done += 1;
        }
        let each_ns = if done > slow_from { 50 * MS } else { 5 * MS };
        pacer.read_took(each_ns, done);
        keeper.look(pacer, begin_ns + 1000 * MS);
        rates.push(done);
    }
    rates
}

#[test]
fn a_source_that_gets_slow_is_left_alone_and_tried_again() {
    let limits = RunLimits { source_p99_us: Some(20_000), ..RunLimits::default() };
    let (pacer, mut keeper) = paced(limits, 0);
    assert!(pacer.times_reads() && !pacer.is_held_by_latency());
    let rates = served_by(400, 60, &mut keeper, &pacer, 0);
    assert!(rates[0] > 900 && pacer.is_held_by_latency(), "{rates:?}");
    // It settles around what the source can do without getting slow.
    assert!(rates[10..].iter().all(|rate| (200..=450).contains(rate)), "{rates:?}");
    let mean = rates[10..].iter().sum::<u64>() / 50;
    assert!((260..=400).contains(&mean), "{mean}: {rates:?}");
    // When the other load is gone, the full rate is used again.
    let rates = served_by(10_000, 60, &mut keeper, &pacer, 60);
    assert!(rates[50..].iter().all(|rate| *rate > 900) && !pacer.is_held_by_latency(), "{rates:?}");
}

#[test]
fn a_source_that_stays_slow_is_still_read() {
    let limits =
        RunLimits { source_p99_us: Some(20_000), operations_per_second: Some(500), ..RunLimits::default() };
    let (pacer, mut keeper) = paced(limits, 0);
    let rates = served_by(0, 90, &mut keeper, &pacer, 0);
    assert!(rates[0] <= 530, "{rates:?}");
    assert!(rates[80..].iter().all(|rate| (1..=8).contains(rate)), "{rates:?}");
    // Without reads nothing is learned, and nothing changes.
    let held = pacer.turn(LimitedQuantities::Source, 1_000_000 * MS, 0);
    assert_eq!(keeper.look(&pacer, 2_000_000 * MS), None);
    assert!(pacer.is_held_by_latency() && held == PacerTurn::Now);
}

#[test]
fn few_late_reads_are_nothing_and_what_is_decided_is_told_with_figures() {
    let (pacer, mut keeper) = paced(RunLimits { source_p99_us: Some(1_500), ..RunLimits::default() }, 0);
    pacer.turn(LimitedQuantities::Source, 0, 1000);
    pacer.read_took(MS, 990);
    pacer.read_took(2 * MS, 10);
    assert_eq!(keeper.look(&pacer, 1000 * MS), None);
    assert!(!pacer.is_held_by_latency());
    pacer.turn(LimitedQuantities::Source, 0, 200);
    pacer.read_took(MS, 190);
    pacer.read_took(2 * MS, 10);
    assert_eq!(keeper.look(&pacer, 1900 * MS), None);
    let (choice, reason) = keeper.look(&pacer, 2000 * MS).unwrap();
    assert_eq!(choice, "source: at most 140 operations a second");
    assert_eq!(reason, "5.0 % of 200 reads took longer than 1.5 ms (--source-p99)");
}
