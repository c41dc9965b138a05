//! Cases about the grant: operations beyond it are refused.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use hakobu_core::Result;
use hakobu_core::endpoint::{Change, TargetLane, TargetOp};
use hakobu_core::entry::{Attributes, EntryKind};
use hakobu_core::error::ErrorKind;
use hakobu_core::grant::{Grant, GrantedPlace};
use hakobu_core::losses::LossKind;
use hakobu_core::pack::RecordHead;

use super::bench::*;
use super::case::{ConformanceCase, Requirement};
use super::tree_reader::{reader, settles_to};
use super::tree_writer::writer;

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase::new("nothing outside of the granted tree is written or seen", outside_the_tree)
        .needs(&[Requirement::Directories]),
    ConformanceCase::new("a grant for one name is for that name only", one_name)
        .needs(&[Requirement::Directories]),
    ConformanceCase::new("the way to a granted place has to be there", way)
        .needs(&[Requirement::EmptyDirectories]),
    ConformanceCase::new("no more bytes than granted are written", bytes),
    ConformanceCase::new("set-ID bits that are not granted are left out and counted", set_id)
        .needs(&[Requirement::SetId]),
    ConformanceCase::new("device nodes that are not granted are refused", devices)
        .needs(&[Requirement::SpecialFiles]),
    ConformanceCase::new("owners that may not be set are counted, and set-ID bits go with them", owner)
        .needs(&[Requirement::Root, Requirement::Owners, Requirement::SetId]),
];

fn grant(place: &str, tree: bool) -> Grant {
    let places = vec![GrantedPlace::new(path(place), tree)];
    Grant {
        places,
        may_chown: false,
        may_set_id: false,
        may_write_in_place: false,
        may_make_devices: false,
        may_remove: false,
        only_reads: false,
        bytes_max: None,
        source_directories: Vec::new(),
        lease: None,
    }
}

fn outside_the_tree(bench: &Workplace<'_>) {
    let mut preparing = writer(bench);
    preparing.directories(["in/tree", "in/treetop"]);
    let of_other = preparing.file("in/other", b"keep");
    drop(preparing);
    let of_in = reader(bench).metadata("in").attributes();
    type Attempt = fn(&mut dyn TargetLane) -> Result<()>;
    let attempts: [(&str, Attempt); 10] = [
        ("pack beside", |lane| store(lane, pack("in/treetop", &[(b"x", b"1")])).map(drop)),
        ("pack above", |lane| store(lane, pack("in", &[(b"other", b"1")])).map(drop)),
        ("new directory", |lane| store(lane, pack("elsewhere", &[(b"x", b"1")])).map(drop)),
        ("draft", |lane| begin(lane, 1, "in/other", 1)),
        ("draft beside", |lane| begin(lane, 1, "in/treetop/x", 1)),
        ("directory", |lane| change(lane, Change::MakeDirectory { path: path("in/new"), mode: 0o755 })),
        ("directory attributes", |lane| {
            change(
                lane,
                Change::Directory { path: path("in"), attributes: attributes(0o777), extended: None },
            )
        }),
        ("attributes", |lane| {
            change(
                lane,
                Change::Attributes { path: path("in/other"), attributes: attributes(0o777), extended: None },
            )
        }),
        ("list", |lane| list(lane, "in/treetop").map(drop)),
        ("look", |lane| inspect(lane, "in/other").map(drop)),
    ];
    for (what, attempt) in attempts {
        let target = bench.target_with(grant("in/tree", true));
        assert_eq!(kind(attempt(&mut *lane(&*target))), ErrorKind::BeyondGrant, "{what}");
    }
    settles_to(bench, "", &[b"in"]);
    settles_to(bench, "in", &[b"other", b"tree", b"treetop"]);
    let mut seen = reader(bench);
    assert!(seen.names("in/tree").is_empty() && seen.names("in/treetop").is_empty());
    assert_eq!(seen.content("in/other"), b"keep");
    seen.check("in/other", &of_other);
    seen.check("in", &of_in);
    let target = bench.target_with(grant("in/tree", true));
    let mut lane = lane(&*target);
    store_all(&mut *lane, pack("in/tree/below", &[(b"x", b"1")]));
    assert!(inspect(&mut *lane, "in/tree/below/x").unwrap().is_some());
    assert_eq!(reader(bench).content("in/tree/below/x"), b"1");
}

fn one_name(bench: &Workplace<'_>) {
    let target = bench.target_with(grant("file", false));
    let mut first = lane(&*target);
    store_all(&mut *first, pack("", &[(b"file", b"1")]));
    begin(&mut *first, 1, "file", 1).unwrap();
    write(&mut *first, 1, 1, 0, b"2").unwrap();
    finish(&mut *first, 1, attributes(0o600)).unwrap();
    assert_eq!(reader(bench).content("file"), b"2");
    drop((first, target));
    let target = bench.target_with(grant("file", false));
    let refused = store(&mut *lane(&*target), pack("", &[(b"filed", b"1")]));
    assert_eq!(kind(refused), ErrorKind::BeyondGrant);
    settles_to(bench, "", &[b"file"]);
    // A grant for a name does not include the entries below it.
    writer(bench).directories(["directory"]);
    let target = bench.target_with(grant("directory", false));
    let refused = store(&mut *lane(&*target), pack("directory", &[(b"x", b"1")]));
    assert_eq!(kind(refused), ErrorKind::BeyondGrant);
    assert!(reader(bench).names("directory").is_empty());
}

fn way(bench: &Workplace<'_>) {
    let target = bench.target_with(grant("not/there", true));
    let (failures, _) = store(&mut *lane(&*target), pack("not/there", &[(b"x", b"1")])).unwrap();
    assert_eq!(failures, [(0, ErrorKind::NotFound)]);
    assert!(reader(bench).names("").is_empty());
}

fn bytes(bench: &Workplace<'_>) {
    let limited = || bench.target_with(Grant { bytes_max: Some(10), ..Grant::everything() });
    let target = limited();
    let mut first = lane(&*target);
    store_all(&mut *first, pack("", &[(b"a", b"1234"), (b"b", b"5678")]));
    assert_eq!(kind(store(&mut *first, pack("", &[(b"c", b"901")]))), ErrorKind::BeyondGrant);
    drop((first, target));
    let target = limited();
    let mut second = lane(&*target);
    assert_eq!(kind(begin(&mut *second, 1, "d", 11)), ErrorKind::BeyondGrant);
    drop((second, target));
    let target = limited();
    let mut third = lane(&*target);
    begin(&mut *third, 1, "d", 10).unwrap();
    assert_eq!(kind(begin(&mut *third, 2, "e", 1)), ErrorKind::BeyondGrant);
    drop((third, target));
    settles_to(bench, "", &[b"a", b"b"]);
}

fn set_id(bench: &Workplace<'_>) {
    let target = bench.target_with(Grant { may_set_id: false, ..Grant::everything() });
    let mut lane = lane(&*target);
    let mut pack = pack("", &[]);
    add_file(&mut pack, b"first", &attributes(0o4755), false, b"");
    add_file(&mut pack, b"second", &attributes(0o2755), false, b"");
    add_file(&mut pack, b"third", &attributes(0o1755), false, b"");
    let (failures, losses) = store(&mut *lane, pack).unwrap();
    assert!(failures.is_empty());
    assert_eq!((losses.len(), losses[0].what, losses[0].count), (1, LossKind::SetId, 2));
    assert_eq!(losses[0].example, b"first");
    // The loss need not be reported for a draft, but it must occur.
    begin(&mut *lane, 1, "draft", 0).unwrap();
    let finish = TargetOp::Finish { draft: 1, attributes: attributes(0o6755), extended: None, digest: None };
    ask(&mut *lane, finish).unwrap();
    let third = Change::Attributes { path: path("third"), attributes: attributes(0o6711), extended: None };
    change(&mut *lane, third).unwrap();
    let mut seen = reader(bench);
    let modes = ["first", "second", "draft", "third"].map(|name| seen.metadata(name).mode);
    assert_eq!(modes, [0o755, 0o755, 0o755, 0o711]);
}

fn devices(bench: &Workplace<'_>) {
    let target = bench.target_with(Grant { may_make_devices: false, ..Grant::everything() });
    let mut pack = pack("", &[]);
    pack.special(&RecordHead::new(b"block", attributes(0o600)), EntryKind::BlockDevice, 0x103);
    pack.special(&RecordHead::new(b"character", attributes(0o600)), EntryKind::CharDevice, 0x103);
    pack.special(&RecordHead::new(b"pipe", attributes(0o600)), EntryKind::Fifo, 0);
    let (failures, _) = store(&mut *lane(&*target), pack).unwrap();
    assert_eq!(failures, [(0, ErrorKind::Unsupported), (1, ErrorKind::Unsupported)]);
    assert_eq!(reader(bench).names(""), [b"pipe"]);
}

fn owner(bench: &Workplace<'_>) {
    let target = bench.target_with(Grant { may_chown: false, ..Grant::everything() });
    assert!(!target.capabilities().owners);
    let other = Attributes { uid: 4711, ..attributes(0o4755) };
    let mut pack = pack("", &[]);
    add_file(&mut pack, b"file", &other, false, b"");
    let (failures, losses) = store(&mut *lane(&*target), pack).unwrap();
    assert!(failures.is_empty());
    let kinds: Vec<_> = losses.iter().map(|loss| (loss.what, loss.count)).collect();
    assert_eq!(kinds, [(LossKind::Owner, 1), (LossKind::SetId, 1)]);
    let found = reader(bench).metadata("file");
    // The file belongs to root now, so the bit would have given root's rights to everybody.
    assert_eq!((found.uid, found.mode), (0, 0o755));
}
