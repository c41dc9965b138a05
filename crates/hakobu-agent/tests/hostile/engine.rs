//! Malicious targets, seen from the engine: whatever they answer, the run ends, counts correctly or fails, and touches
//! nothing but its source.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hakobu_core::capabilities::Capabilities;
use hakobu_core::counters::FarTime;
use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::listing::Listing;
use hakobu_core::losses::{Loss, LossKind};
use hakobu_proto::data::{self, FLAG_MORE, StoredReply, kind};

use crate::bench::eventually;
use crate::engine_bench::{Does, Target, directory, fails, run};

fn able() -> Capabilities {
    Capabilities::posix(true)
}

/// Replaces the answers to one kind of operation; all others are answered correctly.
fn instead(
    of: u8,
    answer: impl Fn(&mut Target, u32, &[u8]) -> Does + Clone + Send + 'static,
) -> impl Fn(&mut Target, &hakobu_net::connection::IncomingFrame, &[u8]) -> Does + Clone + Send + 'static {
    move |target, frame, payload| {
        if frame.kind == of { answer(target, frame.request, payload) } else { Does::Right }
    }
}

fn some_error(detail: &str) -> Error {
    Error::new(ErrorKind::PermissionDenied, "making the file", detail)
}

#[test]
fn a_target_that_does_as_it_says_gets_everything() {
    for lanes in [1, 3] {
        let summary = run(lanes, able(), |_, _, _, _| Does::Right);
        assert_eq!(summary.fatal, None);
        assert_eq!((summary.counters.entries_created, summary.counters.entries_failed), (7, 0));
    }
}

#[test]
fn answers_to_nothing_asked() {
    for answer in [kind::DONE, kind::FAILED, kind::PACK_WRITTEN, kind::LISTED, kind::STAT_REPLY] {
        fails(ErrorKind::Protocol, move |target, frame, _| {
            if frame.kind != kind::STAT {
                return Does::Right;
            }
            let error = some_error("of something else");
            target.answer(answer, 0, frame.request ^ 0x8000_0000, &data::FailedReply(error), &[])
        });
    }
}

#[test]
fn two_answers_to_one_question() {
    fails(
        ErrorKind::Protocol,
        instead(kind::WRITE_PACK, |target, request, _| {
            target.stored(request, &StoredReply::default());
            target.stored(request, &StoredReply::default())
        }),
    );
}

#[test]
fn answers_of_another_kind() {
    let operations = [
        kind::STAT,
        kind::LIST,
        kind::WRITE_PACK,
        kind::BEGIN,
        kind::WRITE,
        kind::FINISH,
        kind::APPLY,
        kind::BARRIER,
    ];
    for operation in operations {
        for answer in [kind::DONE, kind::STAT_REPLY, kind::PACK_WRITTEN, kind::LISTED] {
            let right = match operation {
                kind::STAT => answer == kind::STAT_REPLY,
                kind::LIST => answer == kind::LISTED,
                kind::WRITE_PACK | kind::APPLY => answer == kind::PACK_WRITTEN,
                kind::FINISH => answer == kind::DONE || answer == kind::PACK_WRITTEN,
                _ => answer == kind::DONE,
            };
            if right {
                continue;
            }
            let summary = run(1, able(), move |target, _, frame, _| {
                let silent = frame.kind == kind::WRITE && frame.flags & data::FLAG_ACKNOWLEDGE == 0;
                match (frame.kind == operation, answer) {
                    (false, _) => Does::Right,
                    _ if silent => Does::Wrong,
                    (true, kind::STAT_REPLY) => {
                        target.answer(answer, 0, frame.request, &data::StatReply(Some(directory())), &[])
                    }
                    (true, kind::PACK_WRITTEN) => target.stored(frame.request, &StoredReply::default()),
                    (true, _) => target.answer_bytes(answer, 0, frame.request, &[], &[]),
                }
            });
            assert!(summary.fatal.is_some(), "{answer} for {operation}");
        }
    }
}

#[test]
fn unknown_kinds_and_operations_as_answers() {
    for answer in [1, 4, 63, 69, 128, 255] {
        fails(
            ErrorKind::Protocol,
            instead(kind::BEGIN, move |target, request, _| target.answer_bytes(answer, 0, request, &[], &[])),
        );
    }
}

#[test]
fn answers_that_are_garbage() {
    for (operation, answer) in [
        (kind::STAT, kind::STAT_REPLY),
        (kind::LIST, kind::LISTED),
        (kind::WRITE_PACK, kind::PACK_WRITTEN),
        (kind::BEGIN, kind::FAILED),
    ] {
        let claim: &'static [u8] = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        for garbage in [claim, &[0xff; 100], &[9; 1]] {
            fails(
                ErrorKind::Protocol,
                instead(operation, move |target, request, _| {
                    target.answer_bytes(answer, 0, request, garbage, garbage)
                }),
            );
        }
    }
}

// Listings

/// Answers each LIST with these bytes.
fn listed(payload: Vec<u8>) -> Error {
    fails(
        ErrorKind::Protocol,
        instead(kind::LIST, move |target, request, _| {
            target.answer_bytes(kind::LISTED, 0, request, &[], &payload)
        }),
    )
}

/// Returns the encoding of entries whose names are any bytes, in the order given.
fn entries(names: &[&[u8]]) -> Vec<u8> {
    let mut encoded = (names.len() as u32).to_le_bytes().to_vec();
    for name in names {
        let mut one = Listing::default();
        one.push(b"n", EntryMetadata { kind: EntryKind::File, ..directory() }).unwrap();
        let mut bytes = Vec::new();
        one.encode(&mut bytes);
        let mut record = bytes[4..].to_vec();
        record[..2].copy_from_slice(&(name.len() as u16).to_le_bytes());
        record.pop();
        encoded.extend_from_slice(&record);
        encoded.extend_from_slice(name);
    }
    encoded
}

#[test]
fn listings_with_names_that_lead_elsewhere() {
    let long = [b'n'; 256];
    for name in [&b".."[..], b".", b"", b"a/b", b"/etc/passwd", b"../outside", b"a\0b", &long] {
        listed(Target::part(b"there", 1, &entries(&[name])));
    }
    for path in [&b".."[..], b"/etc", b"a//b", b"../source", b"a\0"] {
        listed(Target::part(path, 1, &entries(&[])));
    }
}

#[test]
fn listings_out_of_order_or_with_a_name_twice() {
    listed(Target::part(b"there", 1, &entries(&[b"b", b"a"])));
    listed(Target::part(b"there", 1, &entries(&[b"a", b"a"])));
    listed(
        [Target::part(b"there", 0, &entries(&[b"a"])), Target::part(b"else", 1, &entries(&[b"b"]))].concat(),
    );
    listed(Target::part(b"there", 0, &entries(&[b"a"])));
    listed(Target::part(b"there", 3, &entries(&[b"a"])));
}

#[test]
fn listings_that_claim_more_than_they_hold() {
    let mut claim = entries(&[b"a"]);
    claim[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    listed(Target::part(b"there", 1, &claim));
    listed([&u16::MAX.to_le_bytes()[..], b"there"].concat());
    listed([&Target::part(b"there", 2, &[])[..], &u32::MAX.to_le_bytes(), &[0; 10]].concat());
}

#[test]
fn fewer_listings_than_were_asked_for() {
    let error = fails(
        ErrorKind::Protocol,
        instead(kind::LIST, |target, request, _| target.answer_bytes(kind::LISTED, 0, request, &[], &[])),
    );
    assert!(error.detail.contains("unexpected answer"), "{error}");
}

#[test]
fn more_frames_without_end() {
    let empty_part = Target::part(b"there", 0, &entries(&[]));
    let whole = Target::part(b"there", 1, &entries(&[]));
    let mut error = Vec::new();
    data::encode(&data::FailedReply(some_error(&"e".repeat(1 << 20))), &mut error).unwrap();
    let large_error =
        [&Target::part(b"there", 2, &[])[..], &(error.len() as u32).to_le_bytes(), &error].concat();
    for payload in [Vec::new(), empty_part, whole, large_error] {
        fails(
            ErrorKind::Protocol,
            instead(kind::LIST, move |target, request, _| {
                loop {
                    if let Does::HangsUp =
                        target.answer_bytes(kind::LISTED, FLAG_MORE, request, &[], &payload)
                    {
                        return Does::HangsUp;
                    }
                }
            }),
        );
    }
}

#[test]
fn answers_without_end() {
    fails(ErrorKind::Protocol, |target, frame, _| {
        if frame.kind != kind::WRITE_PACK {
            return Does::Right;
        }
        loop {
            let error = data::FailedReply(some_error("again"));
            if let Does::HangsUp = target.answer(kind::FAILED, 0, 1 << 31, &error, &[]) {
                return Does::HangsUp;
            }
        }
    });
}

#[test]
fn times_without_end_or_out_of_all_measure() {
    let times = |ns| FarTime { all_ns: ns, input_ns: ns, work_ns: ns, processor_ns: ns, queued_ns: ns };
    fails(ErrorKind::Protocol, move |target, frame, _| {
        if frame.kind != kind::WRITE_PACK {
            return Does::Right;
        }
        loop {
            if let Does::HangsUp = target.answer(kind::TIMES, 0, 0, &data::TimesReply(times(1)), &[]) {
                return Does::HangsUp;
            }
        }
    });
    fails(ErrorKind::Protocol, move |target, frame, _| match frame.kind {
        kind::WRITE_PACK => target.answer(kind::TIMES, 0, 0, &data::TimesReply(times(1)), b"a payload"),
        _ => Does::Right,
    });
    // One message is read for each operation, whatever it contains.
    let summary = run(2, able(), move |target, _, frame, _| {
        if frame.kind == kind::WRITE_PACK {
            target.answer(kind::TIMES, 0, 0, &data::TimesReply(times(u64::MAX)), &[]);
        }
        Does::Right
    });
    assert_eq!((summary.fatal, summary.counters.entries_created), (None, 7));
    assert_eq!(summary.counters.far_work_ns, u64::MAX);
}

// Failures

#[test]
fn one_failure_is_counted_once() {
    let summary = run(1, able(), |target, _, frame, _| match frame.kind {
        kind::WRITE_PACK => {
            let failures = vec![(0, some_error("this one"))];
            target.stored(frame.request, &StoredReply { failures, losses: Vec::new() })
        }
        _ => Does::Right,
    });
    assert_eq!(summary.fatal, None);
    let packs = summary.counters.entries_failed;
    assert!(packs >= 1 && summary.failures.len() as u64 == packs);
    assert_eq!(summary.counters.entries_created + packs, 7);
}

#[test]
fn failures_of_nothing_or_of_the_same_twice() {
    for operation in [kind::WRITE_PACK, kind::APPLY, kind::FINISH] {
        for indices in [&[u32::MAX][..], &[1 << 20], &[0, 0], &[1, 0], &[0; 5000]] {
            if operation == kind::APPLY && indices.len() > 1 && indices[0] == indices[1] && indices.len() == 2
            {
                // Some exceed the number of changes.
            }
            let failures: Vec<_> = indices.iter().map(|index| (*index, some_error("odd"))).collect();
            fails(
                ErrorKind::Protocol,
                instead(operation, move |target, request, _| {
                    target.stored(request, &StoredReply { failures: failures.clone(), losses: Vec::new() })
                }),
            );
        }
    }
}

#[test]
fn errors_of_any_length_are_cut() {
    let text = "\u{1b}[2Jé".repeat(8000);
    let long = some_error(&text).at(vec![b'p'; 10_000]);
    let whole = long.clone();
    let summary = run(1, able(), move |target, _, frame, _| match frame.kind {
        kind::BEGIN => target.answer(kind::FAILED, 0, frame.request, &data::FailedReply(long.clone()), &[]),
        kind::WRITE_PACK => {
            let mut huge = whole.clone();
            huge.detail = text.repeat(8);
            huge.during = text.clone().into();
            target.stored(frame.request, &StoredReply { failures: vec![(0, huge)], losses: Vec::new() })
        }
        _ => Does::Right,
    });
    assert_eq!(summary.fatal, None);
    assert!(summary.failures.len() >= 2);
    for failure in &summary.failures {
        let Error { during, at, detail, .. } = &failure.error;
        assert!(during.len() <= 256 && at.len() <= 4095 && detail.len() <= 2048);
    }
}

#[test]
fn losses_that_cannot_be_summed() {
    let loss =
        Loss { what: LossKind::Owner, count: u64::MAX, at_target: false, example: vec![b'x'; 100_000] };
    let summary = run(1, able(), move |target, _, frame, _| match frame.kind {
        kind::WRITE_PACK | kind::APPLY => {
            let losses = vec![loss.clone(), loss.clone(), loss.clone()];
            target.stored(frame.request, &StoredReply { failures: Vec::new(), losses })
        }
        _ => Does::Right,
    });
    assert_eq!(summary.fatal, None);
    let owner = summary.losses.iter().find(|loss| loss.what == LossKind::Owner).unwrap();
    assert_eq!((owner.count, owner.example.len()), (u64::MAX, 4095));
}

// Lies and silence

#[test]
fn capabilities_that_lie() {
    let lies = [
        Capabilities { owners: false, time_step_ns: u32::MAX, symlinks: false, ..able() },
        Capabilities { wants_checksum: false, wants_digest: true, remote: false, ..able() },
        Capabilities { free_bytes: Some(0), free_inodes: Some(0), ..able() },
        Capabilities { free_bytes: Some(u64::MAX), free_inodes: Some(u64::MAX), ..able() },
    ];
    for capabilities in lies {
        let summary = run(2, capabilities, |_, _, _, _| Does::Right);
        let counters = &summary.counters;
        let whole = counters.entries_created + counters.entries_failed == 7;
        assert!(summary.fatal.is_some() || whole, "{summary:?}");
    }
}

#[test]
fn metadata_that_cannot_be() {
    let odd = EntryMetadata {
        mode: u32::MAX,
        size_bytes: u64::MAX,
        mtime: hakobu_core::entry::FileTime { seconds: i64::MIN, nanoseconds: u32::MAX },
        links: u32::MAX,
        ..directory()
    };
    for kind in [
        EntryKind::File,
        EntryKind::Directory,
        EntryKind::Symlink,
        EntryKind::Fifo,
        EntryKind::Socket,
        EntryKind::CharDevice,
    ] {
        let odd = EntryMetadata { kind, ..odd };
        let summary = run(1, able(), move |target, _, frame, _| match frame.kind {
            kind::STAT => target.answer(kind::STAT_REPLY, 0, frame.request, &data::StatReply(Some(odd)), &[]),
            _ => Does::Right,
        });
        // A directory may replace a directory or a symbolic link, and nothing else.
        let goes = matches!(kind, EntryKind::Directory | EntryKind::Symlink);
        let failed = summary.fatal.is_some() || summary.counters.entries_failed > 0;
        assert_eq!(failed, !goes, "{summary:?}");
    }
}

#[test]
fn a_connection_that_is_cut_anywhere() {
    for at in 0..20 {
        let summary = run(1, able(), move |_, (_, count), _, _| match count == at {
            true => Does::HangsUp,
            false => Does::Right,
        });
        let error = summary.fatal.expect("not everything was answered");
        assert_eq!(error.kind, ErrorKind::ConnectionLost, "frame {at}: {error}");
    }
}

/// One lane is cut while another's peer stops reading, in the middle of a large file.
#[test]
fn a_lane_that_is_held_does_not_hold_the_run() {
    let held = Arc::new(AtomicBool::new(false));
    let summary = run(2, able(), move |_, (lane, _), frame, _| match (lane, frame.kind) {
        (1, kind::WRITE) => {
            held.store(true, Relaxed);
            Does::Stops
        }
        (_, kind::WRITE) => {
            eventually("the other lane", || held.load(Relaxed));
            Does::HangsUp
        }
        _ => Does::Right,
    });
    assert_eq!(summary.fatal.unwrap().kind, ErrorKind::ConnectionLost);
}

#[test]
fn a_target_that_stops_the_job_is_heard() {
    for told in [ErrorKind::NoSpace, ErrorKind::BeyondGrant, ErrorKind::ReadOnly, ErrorKind::Cancelled] {
        let error = Error::new(told, "writing", "so it says");
        fails(
            told,
            instead(kind::WRITE_PACK, move |target, request, _| {
                target.answer(kind::FAILED, 0, request, &data::FailedReply(error.clone()), &[])
            }),
        );
    }
}
