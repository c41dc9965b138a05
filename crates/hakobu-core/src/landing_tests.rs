use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;

/// Builds a test tree: a directory, an empty one, files, links of all kinds, possible targets.
fn build(root: &Path) {
    for directory in ["d/sub", "e", "other/d", "td"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    for file in ["d/x", "f", "other/d/y", "other/f", "tf"] {
        std::fs::write(root.join(file), file).unwrap();
    }
    for (link, leads_to) in
        [("ld", "d"), ("lf", "f"), ("dang", "nowhere"), ("tld", "td"), ("tlf", "tf"), ("tdang", "gone")]
    {
        symlink(leads_to, root.join(link)).unwrap();
    }
}

/// Returns everything below `root` with its kind, content or link text.
fn picture(root: &Path) -> Vec<String> {
    fn walk(root: &Path, directory: &Path, lines: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display();
            let kind = path.symlink_metadata().unwrap().file_type();
            if kind.is_dir() {
                lines.push(format!("{name}/"));
                walk(root, &path, lines);
            } else if kind.is_symlink() {
                lines.push(format!("{name} -> {}", std::fs::read_link(&path).unwrap().display()));
            } else {
                lines.push(format!("{name} = {}", std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut lines = Vec::new();
    walk(root, root, &mut lines);
    lines.sort();
    lines
}

fn kind_of(root: &Path, location: &Location) -> Option<EntryKind> {
    // Joining keeps a trailing slash, with which the system follows a symbolic link.
    let path = root.join(std::ffi::OsStr::from_bytes(location.path()));
    let kind = path.symlink_metadata().ok()?.file_type();
    Some(match () {
        () if kind.is_dir() => EntryKind::Directory,
        () if kind.is_symlink() => EntryKind::Symlink,
        () if kind.is_fifo() => EntryKind::Fifo,
        () => EntryKind::File,
    })
}

fn target_of(root: &Path, target: &Location) -> TargetFound {
    let path = root.join(std::ffi::OsStr::from_bytes(target.path()));
    if path.is_dir() {
        return TargetFound::Directory;
    }
    let bare = PathBuf::from(path.to_str().unwrap().trim_end_matches("/.").trim_end_matches('/'));
    match bare.symlink_metadata() {
        Ok(found) if found.is_symlink() => TargetFound::Symlink,
        Ok(_) => TargetFound::File,
        Err(_) => TargetFound::Absent { parent_exists: bare.parent().unwrap().is_dir() },
    }
}

/// Does by hand what the landing prescribes, for comparison with rsync.
fn carry_out(root: &Path, sources: &[Location], target: &Location) -> Result<()> {
    let mut found = Vec::new();
    for location in sources {
        let kind = kind_of(root, location)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "looking at the source", ""))?;
        found.push(SourceFound { location, kind });
    }
    let landing = land(&found, target, target_of(root, target))?;
    let base = match landing.root {
        LandingRoot::Target => target.path().to_vec(),
        LandingRoot::Parent => target.parent_path().unwrap(),
        LandingRoot::Discard | LandingRoot::Device | LandingRoot::Stream => unreachable!(),
    };
    let base = root.join(std::ffi::OsStr::from_bytes(&base));
    assert!(base.is_dir(), "the root must be there already");
    let at = |place: &EntryPath| base.join(std::ffi::OsStr::from_bytes(place.as_bytes()));
    if let Some(directory) = &landing.create_target_directory {
        std::fs::create_dir(at(directory)).unwrap();
    }
    for (location, place) in sources.iter().zip(&landing.places) {
        let source = root.join(std::ffi::OsStr::from_bytes(location.path()));
        let meta = source.symlink_metadata().unwrap();
        let mut cp = Command::new("cp");
        if meta.is_dir() {
            std::fs::create_dir_all(at(place)).unwrap();
            // With `/.` cp copies into the directory, whatever its own rule would be.
            cp.args(["-a", "-T"]).arg(source.join(".")).arg(at(place));
        } else {
            cp.args(["-a", "-T", "--remove-destination"]).arg(source).arg(at(place));
        }
        assert!(cp.status().unwrap().success());
    }
    Ok(())
}

#[test]
fn everything_lands_where_rsync_puts_it() {
    let tests = [
        "d td",
        "d/ td",
        "d/. td",
        "d td/",
        "d td/.",
        "d new",
        "d new/",
        "d/ new",
        "d/ new/",
        "d/. new",
        "d new/x",
        "d/ new/x",
        "d tf",
        "d/ tf",
        "d tf/",
        "d tlf",
        "d tdang",
        "d tdang/",
        "d tld",
        "d/ tld",
        "d tld/",
        "e td",
        "e/ td",
        "e/ new",
        "e tf",
        "f td",
        "f td/",
        "f td/.",
        "f new",
        "f new/",
        "f new/x",
        "f new/x/",
        "f tf",
        "f tf/",
        "f tld",
        "f tld/",
        "f tlf",
        "f tlf/",
        "f tdang",
        "f tdang/",
        "f/ new",
        "f/. new",
        "ld td",
        "ld/ td",
        "ld/. td",
        "ld new",
        "ld new/",
        "ld/ new",
        "ld tf",
        "lf td",
        "lf new",
        "lf/ new",
        "lf tlf",
        "dang td",
        "dang new",
        "dang/ new",
        "f d td",
        "f d new",
        "f d/ new",
        "f d tf",
        "f lf tlf",
        "d e new/",
        "f lf ld td",
        "d d/ td",
        "d/ d td",
        "d other/d new",
        "d/ other/d/ td",
        "d/sub td",
        "other/../d td",
        "other/d/.. td",
        "./d new",
        ".//d// new",
        "gone td",
        "d td/sub/new",
    ];
    let (mut ok, mut refused) = (0, 0);
    for line in tests {
        let ours = tempfile::tempdir().unwrap();
        let theirs = tempfile::tempdir().unwrap();
        build(ours.path());
        build(theirs.path());
        let words: Vec<&str> = line.split(' ').collect();
        let mut rsync = Command::new("rsync");
        let status = rsync.arg("-a").args(&words).current_dir(theirs.path()).output().unwrap();
        let mut locations: Vec<_> =
            words.iter().map(|word| Location::parse(word.as_bytes()).unwrap()).collect();
        let target = locations.pop().unwrap();
        let result = carry_out(ours.path(), &locations, &target);
        assert_eq!(result.is_ok(), status.status.success(), "{line}: {result:?}");
        assert_eq!(picture(ours.path()), picture(theirs.path()), "{line}");
        if result.is_ok() { ok += 1 } else { refused += 1 }
    }
    assert!(ok > 30 && refused > 10, "{ok} {refused}");
}

fn decide(sources: &[(&str, EntryKind)], target: &str, found: TargetFound) -> Result<Landing> {
    let locations: Vec<_> =
        sources.iter().map(|(typed, kind)| (Location::parse(typed.as_bytes()).unwrap(), *kind)).collect();
    let sources: Vec<_> =
        locations.iter().map(|(location, kind)| SourceFound { location, kind: *kind }).collect();
    land(&sources, &Location::parse(target.as_bytes()).unwrap(), found)
}

#[test]
fn an_empty_directory_is_no_exception() {
    let absent = TargetFound::Absent { parent_exists: true };
    let landing = decide(&[("e", EntryKind::Directory)], "h:new", absent).unwrap();
    assert_eq!(landing.places, [EntryPath::new("new/e").unwrap()]);
    assert_eq!(landing.create_target_directory, Some(EntryPath::new("new").unwrap()));
    assert_eq!(landing.root, LandingRoot::Parent);
}

#[test]
fn errors_say_what_is_wrong() {
    use ErrorKind::{Conflict, NotFound, Usage};
    let absent = TargetFound::Absent { parent_exists: true };
    let orphan = TargetFound::Absent { parent_exists: false };
    let null = TargetFound::CharacterDevice { null: true };
    let (file, directory) = (("f", EntryKind::File), ("d", EntryKind::Directory));
    let long = "n".repeat(256);
    for (sources, target, found, kind) in [
        (&[][..], "t", absent, Usage),
        (&[file], "t/x", orphan, NotFound),
        (&[directory], "t", TargetFound::File, Conflict),
        (&[file, directory], "t", TargetFound::File, Usage),
        (&[directory], "/dev/sda", TargetFound::BlockDevice, Usage),
        (&[file], "/dev/tty", TargetFound::CharacterDevice { null: false }, Usage),
        (&[file], "fifo", TargetFound::Special, Usage),
        (&[directory], "/dev/null", null, Usage),
        (&[file, ("g", EntryKind::File)], "/dev/null", null, Usage),
        (&[("f/", EntryKind::File)], "t", absent, Conflict),
        (&[file], "t/", TargetFound::File, Conflict),
        (&[file, ("o/f", EntryKind::File)], "t", TargetFound::Directory, Usage),
        (&[("f", EntryKind::Directory), ("o/f", EntryKind::File)], "t", TargetFound::Directory, Usage),
        (&[file], long.as_str(), absent, Usage),
    ] {
        let error = decide(sources, target, found).unwrap_err();
        assert_eq!(error.kind, kind, "{sources:?} {target}: {error}");
        assert!(!error.at.is_empty() || sources.is_empty());
    }
}

#[test]
fn dev_null_takes_the_content_of_one_file() {
    let null = TargetFound::CharacterDevice { null: true };
    let landing = decide(&[("f", EntryKind::File)], "h:/dev/null", null).unwrap();
    assert_eq!((landing.root, landing.places), (LandingRoot::Discard, vec![EntryPath::root()]));
}

/// Returns the ancestry of `path`. Each identity is derived from the path up to that name.
fn ancestry(path: &str, exists: bool) -> Ancestry {
    let mut upwards = Vec::new();
    let mut path = Some(path);
    while let Some(here) = path {
        let inode = here.bytes().fold(7, |sum: u64, byte| sum * 31 + u64::from(byte));
        upwards.push(FileIdentity { boot_id: "b".into(), device: 1, inode });
        path = here.rsplit_once('/').map(|(parent, _)| parent);
    }
    if !exists {
        upwards.remove(0);
    }
    Ancestry { exists, upwards, volumes: Vec::new() }
}

/// Returns the ancestry of a place on the file system `volume`, with mounts below it: mount point, path in the file
/// system, and inode number.
fn on_volume(path: &str, (volume, inner): (&str, &str), mounts: &[(&str, &str, u64)]) -> Ancestry {
    let itself = VolumePath {
        volume: volume.into(),
        path: inner.into(),
        mounted_at: Vec::new(),
        identity: None,
        only_read: false,
    };
    let mounted = mounts.iter().map(|(at, inner, inode)| VolumePath {
        path: inner.as_bytes().to_vec(),
        mounted_at: at.as_bytes().to_vec(),
        identity: Some((1, *inode)),
        ..itself.clone()
    });
    let volumes = std::iter::once(itself.clone()).chain(mounted).collect();
    Ancestry { volumes, ..ancestry(path, true) }
}

#[test]
fn another_mount_of_a_place_is_the_place() {
    use LandingRelation::{Apart, Same, SourceInTarget, TargetInSource};
    for (source, is_directory, place, expected) in [
        (("8:1", "/big/sub"), true, ("8:1", "/big"), SourceInTarget),
        (("8:1", "/big"), true, ("8:1", "/big/sub/big"), TargetInSource),
        (("8:1", "/big"), true, ("8:1", "/big"), Same),
        (("8:1", "/f"), false, ("8:1", "/f"), Same),
        (("8:1", "/f"), false, ("8:1", "/"), Apart),
        (("8:1", "/"), true, ("8:1", "/x"), TargetInSource),
        (("8:1", "/big"), true, ("8:1", "/bigger"), Apart),
        (("8:1", "/big"), true, ("8:2", "/big"), Apart),
    ] {
        let found = relation(&on_volume("/a", source, &[]), is_directory, &on_volume("/b", place, &[]));
        assert_eq!(found, expected, "{source:?} {place:?}");
    }
    // There is no relation to another machine, or to a layer that is never written to.
    let (source, mut place) = (on_volume("/a", ("8:1", "/x"), &[]), on_volume("/b", ("8:1", "/x/y"), &[]));
    place.volumes[0].only_read = true;
    assert_eq!(relation(&source, true, &place), Apart);
    place.volumes[0].only_read = false;
    place.upwards[0].boot_id = "other".into();
    assert_eq!(relation(&source, true, &place), Apart);
}

#[test]
fn what_is_mounted_below_one_end_may_be_the_other() {
    let (source, place) = (("8:1", "/srv"), ("8:1", "/backup"));
    for (source_mounts, place_mounts, expected) in [
        (&[("/a/export", "/backup/export", 5)][..], &[][..], Some((&b"/a/export"[..], true))),
        (&[("/a/all", "/", 5)], &[], Some((b"/a/all", true))),
        (&[], &[("/b/m", "/srv/deep", 5)], Some((b"/b/m", false))),
        (&[("/a/m", "/x", 5)], &[("/b/m", "/x/y", 5)], Some((b"/a/m", true))),
        (&[("/a/m", "/other", 5)], &[("/b/m", "/x", 5)], None),
    ] {
        let (source, place) = (on_volume("/a", source, source_mounts), on_volume("/b", place, place_mounts));
        assert_eq!(mounted_within(&source, &place, false), expected);
    }
    let source = on_volume("/a", source, &[("/a/export", "/backup/export", 5)]);
    let place = on_volume("/b", place, &[]);
    let itself = source.upwards[0].inode;
    let mut expected = vec![(1, 5), (1, itself)];
    expected.sort_unstable();
    assert_eq!(met_by_target(&source, &place), expected);
    // A mount that leads into the source is left alone at the target, and read at the source.
    let mounted = on_volume("/b", ("8:1", "/backup"), &[("/b/m", "/srv/deep", 9), ("/b/n", "/else", 10)]);
    let mut expected = vec![(1, 5), (1, 9), (1, itself)];
    expected.sort_unstable();
    assert_eq!(met_by_target(&source, &mounted), expected);
    assert_eq!(met_by_source(&source, &mounted), Some((1, mounted.upwards[0].inode)));
    let mut far = mounted.clone();
    far.upwards[0].boot_id = "other".into();
    assert_eq!((met_by_target(&source, &far), met_by_source(&source, &far)), (Vec::new(), None));
    // A mount of another file system is excluded with `one_file_system`.
    let mut elsewhere = source.clone();
    elsewhere.volumes[1].identity = Some((2, 5));
    assert_eq!(mounted_within(&elsewhere, &place, true), None);
    assert!(mounted_within(&source, &place, true).is_some());
}

#[test]
fn a_copy_onto_or_into_itself_is_seen() {
    use LandingRelation::{Apart, Same, SourceInTarget, TargetInSource};
    for (source, is_directory, place, exists, expected) in [
        ("/a/b", true, "/a/b", true, Same),
        ("/a/b", false, "/a/b", true, Same),
        ("/a/b", true, "/a/b/c/b", false, TargetInSource),
        ("/a/b", true, "/a/b/c", true, TargetInSource),
        ("/a/b", true, "/a", true, SourceInTarget),
        ("/a/b/b", true, "/a/b", true, SourceInTarget),
        ("/a/b", false, "/a/c", true, Apart),
        ("/a/b", false, "/a/c", false, Apart),
        ("/a/b", true, "/a/c", false, Apart),
        ("/a/b", true, "/a/bc", true, Apart),
    ] {
        let found = relation(&ancestry(source, true), is_directory, &ancestry(place, exists));
        assert_eq!(found, expected, "{source} {place}");
    }
    let mut elsewhere = ancestry("/a/b", true);
    elsewhere.upwards.iter_mut().for_each(|identity| identity.boot_id = "other".into());
    assert_eq!(relation(&ancestry("/a/b", true), true, &elsewhere), Apart);
}

#[test]
fn nested_places_are_refused_in_words() {
    let (source, target) = (Location::local("/a"), Location::local("/a/b"));
    assert!(LandingRelation::Apart.check(&source, &target).is_ok());
    for relation in [LandingRelation::Same, LandingRelation::TargetInSource, LandingRelation::SourceInTarget]
    {
        let error = relation.check(&source, &target).unwrap_err();
        assert_eq!((error.kind, &error.at[..]), (ErrorKind::Refused, &b"/a/b"[..]));
    }
}
