use super::super::processes::ProcessCost;
use super::super::result::tests::row;
use super::*;

fn cost(name: &str, cpu_seconds: f64, waited_seconds: f64) -> ProcessCost {
    ProcessCost { name: name.to_owned(), cpu_seconds, waited_seconds, threads: 1 }
}

/// A row of 1 GB that took `seconds` after a start of 0.1 s.
fn measured(case: BenchCase, seconds: f64, here: Vec<ProcessCost>, there: Vec<ProcessCost>) -> Row {
    let mut row = row(case, &[seconds + 0.1]);
    row.starts[0].here = Vec::new();
    row.runs[0].here = here;
    row.runs[0].there = Some(there);
    row.runs[0].looks_there_seconds = (1..=10).map(|part| 0.1 + seconds * f64::from(part) / 10.0).collect();
    row.transport = (row.case.way == Method::Hakobu).then(|| "agent".to_owned());
    row
}

fn case(way: Method, direction: DataDirection, starter: Initiator) -> BenchCase {
    BenchCase { starter, ..BenchCase::plain(way, direction) }
}

/// Rows in which the rate halves whenever the sshd of one host serves, as the second article reports.
fn halved() -> Vec<Row> {
    let both = [DataDirection::ToHost, DataDirection::FromHost];
    both.into_iter()
        .flat_map(|direction| {
            let there = |sshd| vec![cost("sshd", sshd, 0.02), cost("dd", 0.2, 0.0)];
            let here = || vec![cost("ssh", 1.0, 0.0), cost("dd", 0.3, 0.0)];
            let ssh = |seconds| vec![cost("ssh", seconds, 0.0), cost("dd", 0.3, 0.0)];
            [
                measured(case(Method::Dd, direction, Initiator::Here), 4.0, here(), there(3.92)),
                measured(
                    case(Method::Dd, direction, Initiator::There),
                    2.0,
                    vec![cost("sshd", 1.9, 0.0)],
                    ssh(1.2),
                ),
                measured(
                    case(Method::Hakobu, direction, Initiator::Here),
                    1.0,
                    vec![cost("hakobu", 1.5, 0.0)],
                    vec![],
                ),
                measured(
                    case(Method::Hakobu, direction, Initiator::There),
                    1.1,
                    vec![cost("hakobu", 1.5, 0.0)],
                    vec![],
                ),
            ]
        })
        .collect()
}

#[test]
fn what_may_be_chance_is_not_explained() {
    let [to, from] =
        [DataDirection::ToHost, DataDirection::FromHost].map(|to| case(Method::Dd, to, Initiator::Here));
    for (slow, found) in [([4.0, 4.1, 4.2], 1), ([1.9, 4.1, 4.2], 0)] {
        let rows = [row(to.clone(), &slow), row(from.clone(), &[2.0, 1.0, 1.1])];
        assert_eq!(asymmetries(&rows, "vis").len(), found, "{slow:?}");
    }
}

#[test]
fn a_slow_sshd_is_named_in_both_directions() {
    let found = asymmetries(&halved(), "vis");
    assert_eq!(found.len(), 2, "{found:#?}");
    for asymmetry in &found {
        assert_eq!(asymmetry.process, Some(("there".to_owned(), "sshd".to_owned())));
        assert!((asymmetry.times - 2.0).abs() < 1e-9 && asymmetry.slow.starter == Initiator::Here);
    }
    let words = &found[0].words;
    for part in [
        "dd | ssh: 250 MB/s to vis started here, 500 MB/s to vis started on vis, 2.0 times as fast.",
        "What holds the slow one up is sshd on vis: it ran for 98 % of the time, and does its work in one thread.",
        "Each GB takes 3.92 s of its processor time, which makes at most 255 MB/s with a whole processor; \
         in the fast one ssh on vis takes 1.20 s.",
        "In the other direction it is the same: when the sshd of vis serves, it is what limits, whichever way the data goes.",
        "hakobu is not affected, with 1.00 GB/s and 909 MB/s:",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
}

#[test]
fn what_hakobu_reaches_without_its_agent_is_no_comfort() {
    let mut rows = halved();
    for row in &mut rows {
        row.transport = row.transport.take().map(|_| "sftp".to_owned());
    }
    let found = asymmetries(&rows, "vis");
    assert!(!found[0].words.contains("not affected"), "{}", found[0].words);
    rows[2].runs[0].wall_seconds = 9.1;
    let found = asymmetries(&rows, "vis");
    let words = &found[0].words;
    assert!(
        words.starts_with("hakobu: 111 MB/s to vis") && words.contains("over SFTP without an agent"),
        "{words}"
    );
}

#[test]
fn one_that_is_kept_from_a_processor_is_told_from_one_that_has_all_of_it() {
    let slow = measured(
        case(Method::Scp, DataDirection::ToHost, Initiator::Here),
        8.0,
        vec![cost("ssh", 1.0, 0.0)],
        vec![cost("sshd", 1.6, 6.2)],
    );
    let fast = measured(
        case(Method::Scp, DataDirection::FromHost, Initiator::Here),
        1.0,
        vec![cost("ssh", 0.9, 0.0)],
        vec![cost("sshd", 0.8, 0.0)],
    );
    let found = asymmetries(&[slow, fast], "vis");
    assert_eq!(found.len(), 1);
    let words = &found[0].words;
    for part in [
        "scp: 125 MB/s to vis, 1.00 GB/s from vis, 8.0 times as fast.",
        "sshd on vis: it wanted to run for 98 % of the time, and was given a processor for 20 % of it. Other programs on vis",
        "Each GB takes 1.60 s of its processor time, which makes at most 625 MB/s with a whole processor; \
         in the fast one sshd on vis takes 0.80 s.",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert!(!words.contains("hakobu is not") && !words.contains("the other direction"), "{words}");
}

#[test]
fn threads_that_are_kept_from_processors_are_the_cause_too() {
    let rows = |ran, waited| {
        let threads = |ran, waited| ProcessCost { threads: 9, ..cost("mbuffer", ran, waited) };
        [(Initiator::Here, 4.0, threads(ran, waited)), (Initiator::There, 1.0, threads(0.7, 0.1))].map(
            |(starter, seconds, cost)| {
                measured(case(Method::Mbuffer, DataDirection::ToHost, starter), seconds, vec![cost], vec![])
            },
        )
    };
    // A sum over threads, so it may exceed the duration of the run.
    let found = asymmetries(&rows(0.9, 6.2), "vis");
    assert_eq!(found[0].process, Some(("here".to_owned(), "mbuffer".to_owned())));
    assert_eq!(found[0].busy, Some(1.0));
    let words = &found[0].words;
    for part in [
        "mbuffer on this machine: its threads waited for a processor for 6.2 s and ran for 0.9 s, added up over all of them, \
         in the 4.0 s that it took. Other programs on this machine take the processors",
        "or there are fewer of them than threads that want to run.",
        "Each GB takes 0.90 s of its processor time; in the fast one mbuffer on this machine takes 0.70 s.",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    for (ran, words) in
        [(3.6, "its threads ran for 90 % of the time, added up."), (6.0, "used 1.5 processors.")]
    {
        let found = asymmetries(&rows(ran, 0.0), "vis");
        assert!(
            found[0].words.contains(words) && !found[0].words.contains("one thread"),
            "{}",
            found[0].words
        );
    }
}

#[test]
fn where_nobody_is_busy_it_is_not_the_processors() {
    let idle = |direction, seconds| {
        let costs = || vec![cost("ssh", 0.3, 0.0)];
        measured(case(Method::Dd, direction, Initiator::Here), seconds, costs(), costs())
    };
    let found = asymmetries(&[idle(DataDirection::ToHost, 9.0), idle(DataDirection::FromHost, 2.0)], "vis");
    assert_eq!((found.len(), &found[0].process), (1, &None));
    let words = &found[0].words;
    for part in ["no process was busy all the time (the busiest, ssh on", "for 3 % of it)", "hakobu doctor"] {
        assert!(words.contains(part), "{part}: {words}");
    }
}

#[test]
fn who_was_not_looked_at_for_long_may_have_been_busy() {
    let idle = |direction, seconds| {
        let costs = || vec![cost("sshd", 0.3, 0.0)];
        measured(case(Method::Dd, direction, Initiator::Here), seconds, costs(), costs())
    };
    let mut rows = [idle(DataDirection::ToHost, 9.0), idle(DataDirection::FromHost, 2.0)];
    for (looks, is_known) in [
        (&[0.3, 2.0, 4.7][..], true),
        (&[0.3, 2.0, 4.5], false),
        // These looks happened during the login.
        (&[0.1, 2.0, 4.7], false),
        (&[2.0, 9.0], false),
        (&[], false),
    ] {
        rows[0].runs[0].looks_there_seconds = looks.to_vec();
        let found = asymmetries(&rows, "vis");
        let words = &found[0].words;
        assert_eq!(words.contains("no processor limits it"), is_known, "{looks:?}: {words}");
        assert_eq!(
            words.contains("is not known: of the 9.0 s that it took"),
            !is_known,
            "{looks:?}: {words}"
        );
    }
    // If the processes on the host cannot be seen at all, longer runs would not help and are not suggested.
    rows[0].runs[0].there = None;
    assert!(asymmetries(&rows, "vis")[0].words.contains("no processor limits it"));
}

#[test]
fn who_waited_for_a_part_of_the_time_is_not_said_to_have_had_all() {
    let idle = |direction, seconds, waited| {
        let threads = ProcessCost { threads: 6, ..cost("hakobu", 0.9, waited) };
        measured(case(Method::Hakobu, direction, Initiator::Here), seconds, vec![threads], vec![])
    };
    let found =
        asymmetries(&[idle(DataDirection::ToHost, 9.0, 4.5), idle(DataDirection::FromHost, 2.0, 0.0)], "vis");
    assert_eq!((found.len(), &found[0].process), (1, &None));
    let words = &found[0].words;
    let part = "but hakobu on this machine was kept waiting: its threads, added up, had no processor for 4.5 s in the 9.0 s";
    assert!(words.contains(part) && !words.contains("no processor limits it"), "{words}");
}

#[test]
fn what_is_alike_or_differs_in_more_is_no_asymmetry() {
    let mut rows = halved();
    for row in &mut rows {
        row.runs[0].wall_seconds = 2.1;
    }
    assert_eq!(asymmetries(&rows, "vis"), []);
    let other = |direction, cipher: &str, seconds| {
        let case = BenchCase { cipher: Some(cipher.to_owned()), ..BenchCase::plain(Method::Dd, direction) };
        measured(case, seconds, vec![], vec![])
    };
    assert_eq!(
        asymmetries(
            &[other(DataDirection::ToHost, "a", 1.0), other(DataDirection::FromHost, "b", 9.0)],
            "vis"
        ),
        []
    );
    assert_eq!(
        asymmetries(&[other(DataDirection::ToHost, "a", 1.0), other(DataDirection::ToHost, "b", 9.0)], "vis"),
        []
    );
}
