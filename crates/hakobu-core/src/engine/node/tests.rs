use super::*;

fn path(text: &str) -> EntryPath {
    EntryPath::new(text).unwrap()
}

fn only(text: &str) -> Origin {
    let only = SingleEntry { name: b"name".to_vec(), target_name: b"other".to_vec() };
    Origin { root: 0, path: path(text), only: Some(only) }
}

fn node(
    origins: Vec<Origin>,
    target: &str,
    counted: CountedDirectory,
    parent: Option<&Arc<DirectoryNode>>,
) -> Arc<DirectoryNode> {
    let attributes = Attributes { mode: 0o755, uid: 0, gid: 0, mtime: FileTime::default() };
    let (place, end) = ((origins, path(target)), (Some(attributes), counted));
    DirectoryNode::new(place, end, parent.cloned(), TouchedAttributes::Not)
}

fn whole(target: &str, counted: CountedDirectory, parent: Option<&Arc<DirectoryNode>>) -> Arc<DirectoryNode> {
    node(vec![Origin::whole(0, path(target))], target, counted, parent)
}

fn counters(node: &DirectoryNode) -> Vec<(&'static str, u64)> {
    let counters = LaneCounters::default();
    node.count(&counters);
    let all = [
        ("created", &counters.entries_created),
        ("updated", &counters.entries_updated),
        ("attributes", &counters.entries_attributes_only),
        ("unchanged", &counters.entries_unchanged),
        ("different", &counters.entries_different),
        ("only in target", &counters.entries_only_in_target),
        ("deleted", &counters.entries_deleted),
        ("skipped", &counters.entries_skipped),
    ];
    all.into_iter().map(|(name, counter)| (name, counter.get())).filter(|(_, count)| *count > 0).collect()
}

#[test]
fn each_directory_counts_once_as_what_it_is_unless_it_failed() {
    for (counted, name) in [
        (CountedDirectory::Created, "created"),
        (CountedDirectory::Updated, "updated"),
        (CountedDirectory::AttributesOnly, "attributes"),
        (CountedDirectory::Unchanged, "unchanged"),
        (CountedDirectory::Different, "different"),
    ] {
        let node = whole("d", counted, None);
        assert_eq!(counters(&node), [(name, 1)]);
        assert_eq!((node.fail(), node.fail()), (true, false), "a failure is news once");
        assert_eq!(counters(&node), []);
    }
    assert_eq!(counters(&whole("d", CountedDirectory::Not, None)), []);
}

#[test]
fn a_directory_that_is_left_to_another_run_is_not_changed() {
    for (counted, expected) in
        [(CountedDirectory::AttributesOnly, (0, 1, 0)), (CountedDirectory::Created, (0, 0, 1))]
    {
        let (node, counters) = (whole("d", counted, None), LaneCounters::default());
        node.count_left(&counters);
        let of = [&counters.entries_attributes_only, &counters.entries_unchanged, &counters.entries_created];
        assert_eq!(of.map(|counter| counter.get()), <[u64; 3]>::from(expected));
        node.fail();
        node.count_left(&counters);
        assert_eq!(of.map(|counter| counter.get()), <[u64; 3]>::from(expected), "it failed");
    }
}

#[test]
fn what_only_the_target_has_goes_unless_something_in_it_stays() {
    let stays = whole("d", CountedDirectory::Unchanged, None);
    let doomed = |name: &str, parent: &Arc<DirectoryNode>, removed| {
        DirectoryNode::doomed(
            path(name),
            parent,
            ExtraDirectory { removed, kept_names: 1, in_the_way_of: None },
        )
    };
    let remove = |target: &str| Change::Remove { path: path(target), directory: true, kept_names: 1 };
    let gone = doomed("d/gone", &stays, true);
    assert_eq!((gone.change(), counters(&gone)), (Some(remove("d/gone")), vec![("deleted", 1)]));
    let counted = doomed("d/counted", &stays, false);
    assert_eq!((counted.change(), counters(&counted)), (None, vec![("only in target", 1)]));
    for (mark, name) in
        [(DirectoryNode::stick as fn(&DirectoryNode), "only in target"), (DirectoryNode::spare, "skipped")]
    {
        let above = doomed("d/above", &stays, true);
        let (inner, beside) = (doomed("d/above/inner", &above, true), doomed("d/above/beside", &above, true));
        mark(&inner);
        for held in [&inner, &above] {
            assert_eq!((held.change(), counters(held)), (None, vec![(name, 1)]));
        }
        assert_eq!(beside.change(), Some(remove("d/above/beside")));
    }
    let failed = doomed("d/failed", &stays, true);
    failed.fail();
    assert_eq!((failed.change(), counters(&failed)), (None, vec![("only in target", 1)]));
    // A directory that the source has as well is never marked.
    assert!(!stays.is_stuck() && counters(&stays) == [("unchanged", 1)]);
    assert!(gone.is_doomed() && !stays.is_doomed());
}

#[test]
fn what_has_to_make_way_and_is_held_by_a_rule_is_told() {
    let stays = whole("d", CountedDirectory::Unchanged, None);
    let in_the_way = |removed, in_the_way_of| {
        let doomed = DirectoryNode::doomed(
            path("d/x"),
            &stays,
            ExtraDirectory { removed, kept_names: 1, in_the_way_of },
        );
        assert!(doomed.held_by_rule().is_none());
        doomed.spare();
        doomed
    };
    let held = in_the_way(false, Some(EntryKind::File));
    assert_eq!(held.held_by_rule().map(|error| error.kind), Some(ErrorKind::Conflict));
    assert!(held.has_end() && held.change().is_none());
    for other in [in_the_way(true, Some(EntryKind::File)), in_the_way(false, None)] {
        assert!(other.held_by_rule().is_none() && !other.has_end());
    }
}

#[test]
fn attributes_are_set_where_something_was_put_into_a_directory() {
    let node = whole("d", CountedDirectory::Unchanged, None);
    assert!(!node.has_end() && node.change().is_none());
    node.touch();
    assert!(matches!(node.change(), Some(Change::Directory { path, .. }) if path.as_bytes() == b"d"));
    // A directory that is not itself copied gets none.
    let place = (vec![Origin::whole(0, path("d"))], path("d"));
    let above = DirectoryNode::new(place, (None, CountedDirectory::Not), None, TouchedAttributes::Yes);
    assert!(!above.has_end() && above.change().is_none());
    for (touched, extended, expected) in [
        (false, true, TouchedAttributes::Not),
        (true, false, TouchedAttributes::Yes),
        (true, true, TouchedAttributes::WithExtended),
    ] {
        assert_eq!(TouchedAttributes::new(touched, extended), expected);
        let place = (Vec::new(), path("d"));
        assert_eq!(
            DirectoryNode::new(place, (None, CountedDirectory::Not), None, expected).extended,
            touched && extended
        );
    }
}

#[test]
fn a_directory_is_done_when_all_in_it_is() {
    let above = whole("d", CountedDirectory::Unchanged, None);
    let inner = whole("d/e", CountedDirectory::Unchanged, Some(&above));
    above.hold(2);
    assert!(inner.release());
    assert_eq!([0; 4].map(|_| above.release()), [false, false, false, true]);
}

#[test]
fn what_is_given_away_is_the_same_in_another_run() {
    let top = whole("a/b", CountedDirectory::Unchanged, None);
    let inner = whole("a/b/c", CountedDirectory::Created, Some(&top));
    let share = inner.share().unwrap();
    assert_eq!((share.place.top_names, share.is_above_settled), (2, top.is_settled()));
    let end = |node: &DirectoryNode| node.end(true).unwrap();
    let proof = (TouchedAttributes::WithExtended, DirectoryProof::Missing, Some(FileTime::default()));
    let given = DirectoryNode::given(&share, (inner.attributes, CountedDirectory::Created), proof);
    assert_eq!((given.below_top(), given.is_top()), (b"c/".to_vec(), false));
    assert_eq!(given.share(), Some(share), "it may be given away once more");
    let below = whole("a/b/c/d", CountedDirectory::Updated, Some(&given));
    assert_eq!((below.below_top(), below.share()), (b"c/d/".to_vec(), None));
    // The rest of the work survives, and so does the result.
    let ending = DirectoryNode::ending(&end(&given));
    assert_eq!(end(&ending), end(&given));
    assert!(ending.is_set() && ending.extended && ending.is_unproven() && !ending.is_open());
    assert_eq!(counters(&ending), [("created", 1)]);
    given.fail();
    assert_eq!(counters(&DirectoryNode::ending(&end(&given))), []);
    let names = DirectoryNode::of_names(Origin::whole(0, path("x")), path("a/b/c"), 2);
    assert_eq!((names.below_top(), names.end(true), names.share()), (b"c/".to_vec(), None, None));
}

#[test]
fn rules_are_relative_to_what_the_user_named() {
    // The contents of a directory.
    let top = whole("a/b", CountedDirectory::Unchanged, None);
    let inner = whole("a/b/c", CountedDirectory::Unchanged, Some(&top));
    let innermost = whole("a/b/c/d", CountedDirectory::Unchanged, Some(&inner));
    assert_eq!([&top, &inner, &innermost].map(|node| node.below_top()), [&b""[..], b"c/", b"c/d/"]);
    assert_eq!(
        [&top, &inner].map(|node| (node.is_top(), node.is_above_top())),
        [(true, false), (false, false)]
    );
    // An entry of a directory, which is the top as well.
    let above = node(vec![only("a"), only("a")], "a", CountedDirectory::Not, None);
    let top = whole("a/b", CountedDirectory::Unchanged, Some(&above));
    let inner = whole("a/b/c", CountedDirectory::Unchanged, Some(&top));
    assert_eq!([&top, &inner].map(|node| node.below_top()), [&b""[..], b"c/"]);
    assert_eq!([&above, &top, &inner].map(|node| node.is_top()), [false, true, false]);
    assert!(above.is_above_top());
    assert_eq!((top.kept_names(), inner.kept_names()), (2, 3));
    // A directory that is not scanned is not above the top. With whole and named origins it is itself the top.
    assert!(!node(Vec::new(), "a", CountedDirectory::Not, None).is_above_top());
    assert!(
        !node(vec![only("a"), Origin::whole(1, path("b"))], "a", CountedDirectory::Not, None).is_above_top()
    );
}

#[test]
fn failures_are_told_of_the_first_whole_directory() {
    let both = node(vec![only("a"), Origin::whole(1, path("b"))], "t", CountedDirectory::Not, None);
    assert_eq!((both.source(), both.first().map(|origin| origin.root)), (&path("b"), Some(1)));
    let named = node(vec![only("a")], "t", CountedDirectory::Not, None);
    assert_eq!((named.source(), named.origins[0].named()), (&path("a"), path("a/name")));
    let without = node(Vec::new(), "t", CountedDirectory::Not, None);
    assert_eq!((without.source(), without.first()), (&path("t"), None));
    assert_eq!(Origin::whole(0, path("b")).named(), path("b"));
}
