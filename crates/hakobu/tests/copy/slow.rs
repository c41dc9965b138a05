//! File systems with a delay for each operation, like those that are mounted over a network.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::slow_fs::{FailingCall, SlowFs};
use hakobu_testkit::sshd::no_root;
use hakobu_testkit::sshfs::Sshfs;

use crate::program::*;

/// A directory, and a slow mount of it.
struct Slow {
    backing: PathBuf,
    at: PathBuf,
    mounted: SlowFs,
}

impl Slow {
    fn new(place: &std::path::Path, name: &str) -> Self {
        Self::with_delay(place, name, Duration::from_micros(200))
    }

    fn with_delay(place: &std::path::Path, name: &str, delay: Duration) -> Self {
        let (backing, at) = (place.join(name), place.join(format!("{name} from afar")));
        fs::create_dir(&backing).unwrap();
        fs::create_dir(&at).unwrap();
        let mounted = SlowFs::mount(&at, &backing, delay).unwrap();
        Self { backing, at, mounted }
    }
}

#[test]
fn trees_come_from_there_and_go_there() {
    if no_root() {
        return;
    }
    let place = place();
    let (source, target) = (Slow::new(place.path(), "source"), Slow::new(place.path(), "target"));
    fs::remove_dir(&source.backing).unwrap();
    tree(&source.backing);
    let typed = [contents(&source.at), target.at.clone().into()];
    let ran = Copy::new().options("--why").args(&typed).run_to(0);
    ran.says(&["why: lanes: 32: an end is on a network file system"]);
    assert_same(&source.backing, &target.backing);
    // A second run changes nothing, and a third one deletes what the source does not have any more.
    let again = Copy::sync().args(&typed).run_to(0);
    assert_eq!((again.entries("created"), again.entries("updated")), (0, 0), "{:#}", again.report);
    file(&target.backing.join("surplus"), 10);
    file(&source.backing.join("larger"), 9 << 20);
    let ran = Copy::sync().options("--delete").args(&typed).run_to(0);
    assert_eq!((ran.entries("deleted"), ran.entries("created")), (1, 1), "{:#}", ran.report);
    assert_same(&source.backing, &target.backing);
    Copy::verify().args(&typed).run_to(0);
}

/// Returns an NFSv4 access control list with an entry for the owner and one for this name.
fn nfs4_list(name: &str) -> Vec<u8> {
    let mut list = 2u32.to_be_bytes().to_vec();
    for name in ["OWNER@", name] {
        [0, 0, 0x0016_01bf, name.len() as u32]
            .iter()
            .for_each(|number: &u32| list.extend_from_slice(&number.to_be_bytes()));
        list.extend_from_slice(name.as_bytes());
        list.resize(list.len().next_multiple_of(4), 0);
    }
    list
}

#[test]
fn nfs4_access_lists_that_say_more_than_the_mode_count_as_lost() {
    if no_root() {
        return;
    }
    let place = place();
    let (backing, at) = (place.path().join("backing"), place.path().join("source"));
    fs::create_dir_all(backing.join("directory")).unwrap();
    fs::create_dir(&at).unwrap();
    let set = |path: &std::path::Path, name: &str| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, "user.nfs4_acl", &nfs4_list(name), flags).unwrap();
    };
    set(&backing, "EVERYONE@");
    set(&backing.join("directory"), "staff@example.org");
    for (name, bytes, whose) in
        [("plain", 10, "GROUP@"), ("listed", 10, "alice@example.org"), ("large", 9 << 20, "bob@example.org")]
    {
        set(&file(&backing.join(name), bytes), whose);
    }
    let _mounted = SlowFs::mount(&at, &backing, Duration::from_micros(50)).unwrap();
    let ends = [contents(&at), place.path().join("target").into()];
    Copy::new().options("-n").args(&ends).run_to(0);
    for run in 0..2 {
        let ran = Copy::new().args(&ends).run_to(0);
        assert_eq!((ran.entries("created") > 0, ran.lost("acl")), (run == 0, 3), "{:#}", ran.report);
    }
    let compared = Copy::verify().args(&ends).run_to(3);
    assert_eq!((compared.entries("different"), compared.lost("acl")), (0, 3), "{:#}", compared.report);
    let ran = Copy::new().options("--require acl").args(&ends).run_to(6);
    assert_eq!(ran.failures().len(), 3, "{:#}", ran.report);
    // A single file, and a run that keeps no lists.
    let single = [at.join("listed"), place.path().join("single")];
    assert_eq!(Copy::new().args(&single).run_to(0).lost("acl"), 1);
    let without = Copy::new().options("--preserve no-acl").args(&ends).run_to(0);
    assert_eq!(without.lost("acl"), 0, "{:#}", without.report);
}

/// A short read is not the end of a file: at the source, in comparisons, when the target is verified, and in reused
/// data.
#[test]
fn a_file_is_read_to_its_end_in_short_steps() {
    if no_root() {
        return;
    }
    let place = place();
    let (source, back, at) =
        (place.path().join("source"), place.path().join("back"), place.path().join("at"));
    [&source, &back, &at].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    for (name, size) in [("small", 60_000), ("middle", 549_419), ("large", (9 << 20) + 17)] {
        file(&source.join(name), size);
    }
    let _mounted = SlowFs::mount_failing(&at, &back, Duration::ZERO, Some(FailingCall::WholeReads)).unwrap();
    let typed = [contents(&source), at.clone().into()];
    Copy::new().args(&typed).run_to(0);
    assert_same(&source, &back);
    let ran = Copy::verify().args(&typed).run_to(0);
    assert_eq!((ran.entries("unchanged"), ran.entries("different")), (4, 0), "{:#}", ran.report);
    let mut content = fs::read(source.join("large")).unwrap();
    content[5 << 20] ^= 1;
    fs::write(source.join("large"), content).unwrap();
    let one = [source.join("large").into_os_string(), at.join("large").into_os_string()];
    let ran = Copy::sync().args(&one).run_to(0);
    assert!(ran.report["bytes"]["target_written"].as_u64().unwrap() < 1 << 20, "{:#}", ran.report);
    assert_same(&source, &back);
    let checked = [source.join("large").into_os_string(), at.join("checked").into_os_string()];
    Copy::new().options("--verify=medium").args(&checked).run_to(0);
    assert!(fs::read(back.join("checked")).unwrap() == fs::read(source.join("large")).unwrap());
    let back_again = place.path().join("again");
    Copy::new().args([contents(&at), back_again.clone().into()]).run_to(0);
    assert_same(&back, &back_again);
}

/// A file system without extended attributes or without set-ID and sticky bits causes no failures. Missing bits are
/// counted as losses.
#[test]
fn what_a_file_system_does_not_have_is_no_failure() {
    if no_root() {
        return;
    }
    let place = place();
    let (source, back, at, pulled) = (
        place.path().join("source"),
        place.path().join("back"),
        place.path().join("at"),
        place.path().join("pulled"),
    );
    [&source, &back, &at].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    let set_mode = |name: &str, mode| {
        fs::set_permissions(source.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    file(&source.join("plain"), 100);
    file(&source.join("large"), 1 << 20);
    fs::create_dir(source.join("shared")).unwrap();
    // A file of another owner makes the kernel use another call.
    std::os::unix::fs::chown(source.join("plain"), Some(1234), Some(1234)).unwrap();
    let _mounted = SlowFs::mount_failing(&at, &back, Duration::ZERO, Some(FailingCall::SpecialBits)).unwrap();
    let absent = rustix::fs::setxattr(&at, c"user.any", b"", rustix::fs::XattrFlags::empty());
    assert_eq!(absent, Err(rustix::io::Errno::OPNOTSUPP));
    let target = at.join("target");
    let push = || Copy::new().arg(contents(&source)).arg(&target);
    push().run_to(0);
    Copy::verify().arg(contents(&source)).arg(&target).run_to(0);
    Copy::verify().arg(source.join("plain")).arg(target.join("plain")).run_to(0);
    Copy::new().arg(contents(&target)).arg(&pulled).run_to(0);
    assert_same(&source, &pulled);
    Copy::new().arg(target.join("plain")).arg(place.path().join("named")).run_to(0);
    // Comparing and copying over SFTP work in the same way.
    let host = Host::up();
    let sftp = |copy: Copy| copy.to(&host).options("--transport sftp");
    sftp(Copy::verify()).arg(source.join("plain")).arg(host.at(target.join("plain"))).run_to(0);
    sftp(Copy::verify()).arg(host.at(target.join("plain"))).arg(source.join("plain")).run_to(0);
    sftp(Copy::new()).arg(host.at(contents(&target))).arg(place.path().join("by sftp")).run_to(0);
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::open(source.join("plain")).unwrap().set_modified(old).unwrap();
    sftp(Copy::verify()).arg(source.join("plain")).arg(host.at(target.join("plain"))).run_to(4);
    Copy::verify().arg(source.join("plain")).arg(target.join("plain")).run_to(4);
    // Bits that the target cannot have cause no failure, for new entries, existing ones and the root.
    set_mode(".", 0o2755);
    set_mode("large", 0o4711);
    set_mode("shared", 0o1777);
    file(&source.join("new"), 100);
    set_mode("new", 0o2711);
    let ran = push().run_to(0);
    assert_eq!(ran.lost("setid"), 4, "{:#}", ran.report);
    let mode_of = |name: &str| fs::metadata(back.join("target").join(name)).unwrap().permissions().mode();
    assert_eq!(
        [".", "large", "shared", "new"].map(|name| mode_of(name) & 0o7777),
        [0o755, 0o711, 0o777, 0o711]
    );
}

/// All the time is spent waiting, so several lanes share the entries of one directory.
#[test]
#[ignore = "long: measures, so it depends on what else the machine does"]
fn long_the_waiting_is_shared_even_in_one_directory() {
    if no_root() {
        return;
    }
    let place = place();
    let [source, target] =
        ["source", "target"].map(|name| Slow::with_delay(place.path(), name, Duration::from_millis(5)));
    for index in 0..300 {
        file(&source.backing.join(format!("{index:03}")), 100 + index);
    }
    fs::create_dir(source.backing.join("directory")).unwrap();
    std::os::unix::fs::symlink("nowhere", source.backing.join("link")).unwrap();
    let typed = [contents(&source.at), target.at.clone().into()];
    let read =
        Copy::sync().options("--why").arg(contents(&source.at)).arg(place.path().join("here")).run_to(0);
    read.says(&["why: packs: at most ", "the source's file server takes "]);
    let most = source.mounted.most_at_once();
    assert!(most >= 8, "{most}");
    assert_same(&source.backing, &place.path().join("here"));
    Copy::sync().args(&typed).run_to(0);
    assert_same(&source.backing, &target.backing);
    let _ = [source.mounted.most_at_once(), target.mounted.most_at_once()];
    // The kernel does not ask for values that it has cached.
    std::thread::sleep(Duration::from_secs(2));
    let again = Copy::sync().args(&typed).run_to(0);
    assert_eq!((again.entries("created"), again.entries("updated")), (0, 0), "{:#}", again.report);
    let most = [source.mounted.most_at_once(), target.mounted.most_at_once()];
    assert!(most.iter().all(|most| *most >= 8), "{most:?}");
    // Only attributes change, and entries are deleted, directories after their content.
    for directory in ["x", "x/y", "x/y/z", "directory/deep"] {
        fs::create_dir(target.backing.join(directory)).unwrap();
        for index in 0..10 {
            file(&target.backing.join(directory).join(index.to_string()), 1);
        }
    }
    for entry in fs::read_dir(&source.backing).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap() != "link" {
            fs::set_permissions(path, fs::Permissions::from_mode(0o750)).unwrap();
        }
    }
    std::thread::sleep(Duration::from_secs(2));
    let ran = Copy::sync().options("--delete").args(&typed).run_to(0);
    assert_eq!((ran.entries("attributes_only"), ran.entries("deleted")), (301, 44), "{:#}", ran.report);
    assert_same(&source.backing, &target.backing);
}

/// Creates a directory for the server, and one to mount it at.
fn two_places(place: &std::path::Path) -> (PathBuf, PathBuf) {
    let (there, here) = (place.join("there"), place.join("here"));
    fs::create_dir(&there).unwrap();
    fs::create_dir(&here).unwrap();
    (there, here)
}

fn far_away(rtt_ms: u64, rate_bits_per_second: u64) -> Link {
    let settings = LinkSettings { mtu: 9000, ..LinkSettings::with_rtt(Duration::from_millis(rtt_ms)) };
    Link::up(LinkSettings { rate_bits_per_second: Some(rate_bits_per_second), ..settings }).unwrap()
}

#[test]
#[ignore = "long: measures, so it depends on what else the machine does"]
fn long_a_file_server_that_answers_late_is_what_limits() {
    if no_root() {
        return;
    }
    let (link, place) = (far_away(40, 1_000_000_000), place());
    let server = Host::behind(&link);
    let (there, here) = two_places(place.path());
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    for index in 0..8 {
        file(&source.join(index.to_string()), 3000 + index);
    }
    let _mounted = Sshfs::mount(&here, &server.sshd, &there, Some(link.near().name())).unwrap();
    let agent = Host::up();
    // Copies to the file server, directly and through an agent on a host that has mounted it, and from the file
    // server.
    let to = Copy::new().options("--why").arg(contents(&source)).arg(here.join("tree"));
    let beyond =
        Copy::new().options("--why").to(&agent).arg(contents(&source)).arg(agent.at(here.join("beyond")));
    let from = Copy::new().options("--why").arg(contents(here.join("tree"))).arg(place.path().join("back"));
    for (copy, end) in [(to, "target"), (beyond, "target"), (from, "source")] {
        let ran = copy.run_to(0);
        let limit = &ran.report["bottleneck"];
        assert_eq!(limit["stage"], format!("latency of the {end}'s file server"), "{limit:#}");
        ran.says(&[&format!("limited by: latency of the {end}'s file server ("), " for each operation, "]);
        ran.says(&["why: lanes: 32: an end is on a network file system"]);
        // No answer can arrive sooner than the round-trip time of the link.
        let milliseconds = |what: &str| limit["file_server"][what].as_f64().unwrap_or_default();
        assert!(milliseconds("answer_ms") >= 40.0 && milliseconds("operation_ms") >= 40.0, "{limit:#}");
    }
    // sshfs keeps no fractions of seconds.
    for index in 0..8 {
        let content = |tree: &std::path::Path| fs::read(tree.join(index.to_string())).unwrap();
        for copy in [there.join("tree"), there.join("beyond"), place.path().join("back")] {
            assert!(content(&source) == content(&copy), "{}/{index}", copy.display());
        }
    }
}

/// A server with low latency behind a link of low bandwidth is limited by `source read`.
#[test]
#[ignore = "long: measures, so it depends on what else the machine does"]
fn long_a_file_server_that_carries_little_is_told_from_that() {
    if no_root() {
        return;
    }
    let (link, place) = (far_away(1, 50_000_000), place());
    let server = Host::behind(&link);
    let (there, here) = two_places(place.path());
    let source = file(&there.join("large"), 16_000_000);
    let _mounted = Sshfs::mount(&here, &server.sshd, &there, Some(link.near().name())).unwrap();
    let ran = Copy::new().arg(here.join("large")).arg(place.path().join("copy")).run_to(0);
    let limit = &ran.report["bottleneck"];
    assert_eq!((&limit["stage"], &limit["file_server"]), (&"source read".into(), &serde_json::Value::Null));
    assert!(fs::read(source).unwrap() == fs::read(place.path().join("copy")).unwrap());
}
