use super::*;
use crate::torture::model::Time;
use crate::torture::walk::StoredFacts;

/// Returns an entry whose inode number and change time are the same number.
fn entry(kind: SeenKind, number: u64) -> SeenEntry {
    let time = Time { s: number as i64, ns: 0 };
    let (owner, inode) = ((0, 0), (1, number));
    let xattrs = BTreeMap::new();
    SeenEntry {
        kind,
        mode: 0o644,
        owner,
        mtime: time,
        xattrs,
        inode,
        links: 1,
        ctime: time,
        room: 0,
        told_bytes: 0,
        stored: None,
    }
}

fn file(content: u8, number: u64) -> SeenEntry {
    entry(SeenKind::File { size: 5, digest: [content; 32] }, number)
}

fn tree(entries: &[(&str, SeenEntry)]) -> Snapshot {
    entries.iter().map(|(path, entry)| (Name(path.as_bytes().to_vec()), entry.clone())).collect()
}

/// Returns the words of all violations of a list of lines.
fn judged(before: &Snapshot, after: &Snapshot, lines: &str) -> Vec<String> {
    let (list, mut violations) = of_lines(lines.as_bytes(), true);
    let target = ListedTarget { before, after, is_disturbed: false };
    violations.extend(target.untrue(&list));
    violations.extend(target.unlisted(&list, false));
    violations.iter().map(ToString::to_string).collect()
}

#[test]
fn a_list_has_all_changes_and_nothing_else() {
    let folder = |number| entry(SeenKind::Directory, number);
    let before = tree(&[
        ("", folder(1)),
        ("gone", file(1, 2)),
        ("mode", file(1, 3)),
        ("stays", file(1, 4)),
        ("updated", file(1, 5)),
        ("way", file(1, 6)),
    ]);
    let mode = SeenEntry { mode: 0o600, ctime: Time { s: 20, ns: 0 }, ..file(1, 3) };
    let (first, second) = (SeenEntry { links: 2, ..file(2, 12) }, SeenEntry { links: 2, ..file(2, 12) });
    let after = tree(&[
        // Changes in a directory change its time.
        ("", SeenEntry { mtime: Time { s: 20, ns: 0 }, ..folder(1) }),
        ("mode", mode),
        ("name", first),
        ("new", second),
        ("new folder", folder(13)),
        ("stays", file(1, 4)),
        ("updated", file(2, 14)),
        ("way", folder(15)),
    ]);
    let lines = [
        "delete     gone",
        "attributes mode",
        "link       name",
        "create     new",
        "directory  new folder",
        "update     updated",
        "replace    way",
    ];
    assert_eq!(judged(&before, &after, &lines.join("\n")), [""; 0]);
    for left_out in lines {
        let rest: Vec<&str> = lines.into_iter().filter(|line| *line != left_out).collect();
        // Another name of the file is listed, but this one was not there before.
        assert_eq!(judged(&before, &after, &rest.join("\n")).len(), 1, "without {left_out}");
    }
    for wrong in [
        "update     stays",
        "attributes updated",
        "delete     mode",
        "create     updated",
        "directory  way",
        "delete     gone",
        "update     nowhere",
        "replace    new folder",
        "updates    stays",
        "update stays",
        "update     ",
    ] {
        let all = [&lines[..], &[wrong]].concat().join("\n");
        assert_eq!(judged(&before, &after, &all).len(), 1, "{wrong}");
    }
}

#[test]
fn a_link_is_listed_twice_only_if_its_file_takes_the_place_of_a_directory() {
    let name = || SeenEntry { links: 3, ..file(1, 12) };
    let after = tree(&[("first", name()), ("second", name()), ("third", name())]);
    let judged_with = |first: SeenEntry, links: usize| {
        let before = tree(&[("first", first), ("second", file(1, 3))]);
        let lines = ["delete     first", "create     first", "link       second"];
        let links = ["link       third"].repeat(links);
        judged(&before, &after, &[&lines[..], &links].concat().join("\n"))
    };
    let folder = || entry(SeenKind::Directory, 2);
    assert_eq!(judged_with(folder(), 1), [""; 0]);
    assert_eq!(judged_with(folder(), 2), [""; 0]);
    assert_eq!(judged_with(folder(), 3), ["lists: link third is listed 3 times"]);
    let link = entry(SeenKind::Link(b"x".to_vec()), 2);
    assert_eq!(judged_with(link, 2), ["lists: link third is listed 2 times"]);
    let lines = "link       second\nlink       third\nlink       third";
    let before = tree(&[("first", name()), ("second", file(1, 3))]);
    assert_eq!(judged(&before, &after, lines), ["lists: link third is listed 2 times"]);
}

#[test]
fn names_are_compared_as_they_are_escaped() {
    let name = |bytes: &[u8]| Name(bytes.to_vec());
    let before = Snapshot::new();
    let names: [&[u8]; 4] = [b"line\nend", b"\xff\xfe", "\u{202e}txt".as_bytes(), b"back\\slash"];
    let after: Snapshot =
        names.iter().zip(1..).map(|(bytes, number)| (name(bytes), file(1, number))).collect();
    let right =
        "create     line\\nend\ncreate     \\xff\\xfe\ncreate     \\u{202e}txt\ncreate     back\\slash";
    assert_eq!(judged(&before, &after, right), [""; 0]);
    // A character as it is may deceive the reader.
    let bare = right.replace("\\u{202e}", "\u{202e}");
    assert_eq!(judged(&before, &after, &bare).len(), 1, "not escaped");
    assert!(!judged(&before, &after, &right.replace("\\xff", "\\xfd")).is_empty(), "another byte");
    assert!(!of_lines(b"create     \xff\xfe", true).1.is_empty(), "bytes that are not UTF-8");
    let events = br#"{"event":"changed","action":"create","path":"\ufffd","path_base64":"//4="}"#;
    assert_eq!(of_events(events).0, [ListedChange::of_bytes("create", name(b"\xff\xfe"))]);
    assert_eq!(of_events(b"{\"event\":\"other\"}\nnone").1.len(), 1);
}

#[test]
fn paths_are_those_below_the_target() {
    let (list, _) =
        of_lines(b"create     source/a\ndirectory  source\ndirectory  .\ncreate     sourced", true);
    let below: Vec<String> =
        list.iter().filter_map(|change| change.below("source")).map(|change| change.key).collect();
    assert_eq!(below, ["a", ""]);
    let bytes = ListedChange::of_bytes("create", Name(b"source/\xff".to_vec()));
    assert_eq!(bytes.below("source").and_then(|change| change.path), Some(Name(b"\xff".to_vec())));
}

#[test]
fn a_log_is_made_of_whole_lines_with_times() {
    let text = "2026-05-04T01:02:03.456Z started    a to b\n2026-05-04T01:02:03.500Z delete     old\n\
                2026-05-04T01:02:03.600Z finished   done, exit code 0: 1 deleted\n";
    let (log, violations) = of_log(text.as_bytes());
    assert!(violations.is_empty() && log.has_started, "{violations:?}");
    assert_eq!((log.list.len(), log.list[0].to_string().as_str()), (1, "delete old"));
    assert!(log.finished.is_some_and(|words| words.contains("exit code 0:")));
    assert_eq!(of_log(text.trim_end().as_bytes()).1.len(), 1, "half a line");
    assert_eq!(of_log(text.replace("01:02:03.5", "1:02:03.5").as_bytes()).1.len(), 1, "a wrong time");
    assert_eq!(of_log(text.replace("delete  ", "removed ").as_bytes()).1.len(), 1, "an unknown word");
}

#[test]
fn after_a_fault_only_lies_are_wrong() {
    let before = tree(&[("a", file(1, 1)), ("b", file(1, 2))]);
    let after = tree(&[("a", file(2, 3)), ("b", file(1, 2)), ("c", file(1, 4))]);
    let target = ListedTarget { before: &before, after: &after, is_disturbed: true };
    let lies = |line: &str| target.untrue(&of_lines(line.as_bytes(), true).0).len();
    // A second attempt updates what the first one created.
    assert_eq!((lies("update     c"), lies("update     a")), (0, 0));
    assert_eq!((lies("delete     b"), lies("update     b")), (1, 1));
}

#[test]
fn a_name_is_linked_to_the_file_that_it_had_only_if_that_got_other_names() {
    let named = |links| SeenEntry { links, ..file(1, 12) };
    let before = tree(&[("first", named(2)), ("second", named(2))]);
    let lines = "link       second\nlink       third";
    let after = tree(&[("first", named(3)), ("second", named(3)), ("third", named(3))]);
    assert_eq!(judged(&before, &after, lines), [""; 0]);
    let disturbed = ListedTarget { before: &before, after: &after, is_disturbed: true };
    assert!(disturbed.untrue(&of_lines(lines.as_bytes(), true).0).is_empty());
    assert_eq!(
        judged(&before, &before, "link       second"),
        ["lists: link second is listed, and did not take place"]
    );
}

#[test]
fn a_directory_that_is_there_because_of_an_object_may_be_created_anew() {
    let folder = |is_bare, shows_all| {
        let (uploaded, version) = (Time::default(), (0, 0));
        let stored = Some(StoredFacts { uploaded, version, is_bare, shows_all });
        SeenEntry { stored, ..entry(SeenKind::Directory, 0) }
    };
    let judged = |was_bare, shows_all| {
        let (before, after) = (folder(was_bare, shows_all), folder(false, shows_all));
        judged(&tree(&[("k", before)]), &tree(&[("k", after)]), "directory  k")
    };
    assert_eq!(judged(true, false), [""; 0]);
    for (was_bare, shows_all) in [(true, true), (false, false)] {
        assert_eq!(judged(was_bare, shows_all), ["lists: directory k is listed, and did not take place"]);
    }
}
