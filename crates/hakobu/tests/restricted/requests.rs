//! Raw requests that our controller never sends.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::grant::Grant;
use hakobu_core::job::{Job, Mode};
use hakobu_core::location::StoreName;
use hakobu_core::store_settings::StoreSettings;
use hakobu_proto::control::{
    AgentMessage, Cipher, ConnectMode, ConnectRequest, Request, RunHereRequest, RunRequest, SourceAsk,
    StoreLook, StoreRequest, StoreRunRequest,
};
use hakobu_testkit::sshd::no_root;
use tempfile::TempDir;

use crate::program::place;
use crate::raw::*;

/// The restricted directory, one beside it, and links that lead out.
struct Ground {
    place: TempDir,
    inside: PathBuf,
    outside: PathBuf,
}

impl Ground {
    fn new() -> Self {
        let place = place();
        let (inside, outside) = (place.path().join("in"), place.path().join("out"));
        for directory in [&inside, &outside] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("file"), "content").unwrap();
        }
        symlink("..", inside.join("up")).unwrap();
        symlink(&outside, inside.join("there")).unwrap();
        symlink(outside.join("file"), inside.join("that")).unwrap();
        Self { place, inside, outside }
    }

    /// Returns paths that lead out of the directory, to existing entries and to missing ones.
    fn strays(&self) -> Vec<Vec<u8>> {
        let within = [
            "../out",
            "../out/file",
            "../none",
            "up/out",
            "there/file",
            "there/none",
            "there/",
            "x/../../out",
        ];
        let inside = within.map(|path| bytes(&self.inside.join(path)).0);
        let plain = within.map(|path| path.as_bytes().to_vec());
        let absolute =
            [&self.outside, &self.outside.join("file"), &self.outside.join("none"), self.place.path()];
        let absolute = absolute.map(|path| bytes(path).0);
        let others =
            [&b"/"[..], b"/etc/passwd", b"/dev", b"/dev/zero", b"/proc/self/root", b".."].map(<[u8]>::to_vec);
        [&inside[..], &plain, &absolute, &others].concat()
    }
}

#[track_caller]
fn denied(error: &Error) {
    assert_eq!(error.kind, ErrorKind::PermissionDenied, "{error}");
    assert!(error.detail.contains("this login may"), "{error}");
}

#[track_caller]
fn not_run(request: RunHereRequest, controller: &mut Controller) {
    let ran = controller.ran(request);
    denied(&ran.summary.fatal.expect("it was refused"));
    assert_eq!(ran.summary.counters.source_read_bytes, 0);
}

fn run(root: &Path, entry: &str) -> Request {
    let RunHereRequest { job, roots, .. } = copy((root, entry), (root, "x"));
    let capabilities = hakobu_core::capabilities::Capabilities::posix(true);
    Request::Run(RunRequest { job, roots, capabilities })
}

/// Fails unless the agent still serves allowed requests.
#[track_caller]
fn goes_on(mut controller: Controller, ground: &Ground) {
    let look = Request::LookAtTarget { path: b"file".to_vec() };
    let AgentMessage::Target(Ok(look)) = controller.ask(&look) else { panic!() };
    assert_eq!(look.resolved, bytes(&ground.inside.join("file")).0);
    let ran = controller.ran(digest(&ground.inside, "file"));
    assert_eq!(ran.summary.fatal, None);
    assert_eq!(ran.summary.digest, Some(*blake3::hash(b"content").as_bytes()));
}

#[test]
fn what_lies_elsewhere_is_neither_seen_nor_read() {
    let ground = Ground::new();
    for options in [&["--read-only"][..], &[]] {
        let mut controller = Controller::of(&ground.inside, options);
        for path in ground.strays() {
            for contents in [true, false] {
                let ask = SourceAsk { path: path.clone(), contents };
                let answer = controller.ask(&Request::LookAtSources { sources: vec![ask] });
                let AgentMessage::Sources(looks) = answer else { panic!("{answer:?}") };
                denied(looks[0].as_ref().unwrap_err());
            }
            let answer = controller.ask(&Request::LookAtTarget { path: path.clone() });
            let AgentMessage::Target(Err(error)) = answer else { panic!("{answer:?}") };
            denied(&error);
            let answer = controller.ask(&Request::LookAtPlaces { root: path, places: vec![] });
            let AgentMessage::Places(Err(error)) = answer else { panic!("{answer:?}") };
            denied(&error);
        }
        let root = bytes(&ground.inside).0;
        let answer = controller.ask(&Request::LookAtPlaces { root, places: vec![path("there/file")] });
        let AgentMessage::Places(Err(error)) = answer else { panic!("{answer:?}") };
        denied(&error);
        // A link is described as a link, without its target.
        let that = |contents| SourceAsk { path: b"that".to_vec(), contents };
        let answer = controller.ask(&Request::LookAtSources { sources: vec![that(false), that(true)] });
        let AgentMessage::Sources(looks) = answer else { panic!("{answer:?}") };
        assert!(looks[0].is_ok());
        denied(looks[1].as_ref().unwrap_err());
        let answer = controller.ask(&Request::LookAtTarget { path: b"that".to_vec() });
        assert!(matches!(answer, AgentMessage::Target(Err(_))), "{answer:?}");
        goes_on(controller, &ground);
    }
}

#[test]
fn runs_read_nothing_elsewhere() {
    let ground = Ground::new();
    let mut controller = Controller::of(&ground.inside, &["--read-only"]);
    let above = ground.place.path();
    for (root, entry) in [
        (ground.outside.as_path(), "file"),
        (above, "out/file"),
        (above, "inside/../out"),
        (Path::new("/"), "etc/passwd"),
        (&ground.inside.join("there"), "file"),
        (&ground.inside.join("../out"), "file"),
        (&ground.inside.join("up"), "out/file"),
    ] {
        if entry.contains("..") {
            continue;
        }
        not_run(digest(root, entry), &mut controller);
        let AgentMessage::Ran(ran) = controller.ask(&run(root, entry)) else { panic!() };
        denied(&ran.summary.fatal.unwrap());
    }
    // A readable root does not open others, and a root is not read unless an item names it.
    let mut several = digest(&ground.inside, "file");
    several.roots.push(bytes(&ground.outside));
    not_run(several, &mut controller);
    let mut all = digest(above, "");
    all.job.items[0].source = hakobu_core::path::EntryPath::root();
    not_run(all, &mut controller);
    // The directory itself, named by its parent, is readable.
    let ran = controller.ran(digest(above, "in"));
    assert_eq!(ran.summary.fatal, None);
    // Links inside a path are not followed.
    for entry in ["there/file", "that", "up/out/file"] {
        let ran = controller.ran(digest(&ground.inside, entry));
        let counters = &ran.summary.counters;
        assert_eq!(counters.source_read_bytes, 0, "{entry}: {:?}", ran.summary);
    }
    goes_on(controller, &ground);
}

#[test]
fn nothing_is_written_elsewhere() {
    let ground = Ground::new();
    let mut controller = Controller::of(&ground.inside, &[]);
    let (inside, outside) = (ground.inside.as_path(), ground.outside.as_path());
    for root in [outside, ground.place.path(), Path::new("/"), Path::new("/dev"), &inside.join("there")] {
        not_run(copy((inside, "file"), (root, "stolen")), &mut controller);
        let answer = controller.ask(&serve(root, Grant::everything(), ConnectMode::Accept));
        let AgentMessage::Serving(Err(error)) = answer else { panic!("{answer:?}") };
        denied(&error);
    }
    not_run(copy((outside, "file"), (inside, "stolen")), &mut controller);
    // A sink is opened only for a digest, and only for that.
    for (mode, target) in [(Mode::Copy, "null"), (Mode::Compare, "null")] {
        let mut request = digest(inside, "file");
        (request.job.mode, request.job.items[0].target) = (mode, path(target));
        not_run(request, &mut controller);
    }
    for target in ["zero", "shm/stolen"] {
        let mut request = digest(inside, "file");
        request.job.items[0].target = path(target);
        not_run(request, &mut controller);
    }
    let mut request = digest(inside, "file");
    request.job.make_directory = Some(path("shm/stolen"));
    not_run(request, &mut controller);
    assert_eq!(fs::read_dir(outside).unwrap().count(), 1);
    assert!(!inside.join("stolen").exists() && !Path::new("/dev/shm/stolen").exists());
    // Entries below the directory are written, without the bits that files must not have.
    let ran = controller.ran(copy((inside, "file"), (inside, "copied")));
    assert_eq!(ran.summary.fatal, None);
    assert_eq!(fs::read(inside.join("copied")).unwrap(), b"content");
    goes_on(controller, &ground);
}

#[test]
fn who_may_read_writes_nothing_under_any_name() {
    let ground = Ground::new();
    let mut controller = Controller::of(&ground.inside, &["--read-only"]);
    let inside = ground.inside.as_path();
    let before = fs::metadata(inside.join("file")).unwrap().modified().unwrap();
    not_run(copy((inside, "file"), (inside, "copied")), &mut controller);
    let answer = controller.ask(&serve(inside, Grant::everything(), ConnectMode::Accept));
    let AgentMessage::Serving(Err(error)) = answer else { panic!("{answer:?}") };
    assert!(error.detail.contains("may only read"), "{error}");
    // A comparison writes nothing, whatever its grant says.
    let mut request = copy((inside, "file"), (inside, "file"));
    request.job = Job { mode: Mode::Compare, ..request.job };
    request.job.make_directory = Some(path("made"));
    controller.ran(request);
    assert_eq!(fs::read_dir(inside).unwrap().count(), 4);
    assert_eq!(fs::metadata(inside.join("file")).unwrap().modified().unwrap(), before);
    goes_on(controller, &ground);
}

#[test]
fn stores_are_not_for_them() {
    if no_root() {
        return;
    }
    let ground = Ground::new();
    let mut controller = Controller::of(&ground.inside, &[]);
    let store = StoreName { scheme: "memory".to_owned(), name: b"any".to_vec() };
    let request = StoreRequest { store, settings: StoreSettings::default() };
    let answer = controller.ask(&Request::OpenStore(request));
    let AgentMessage::StoreOpened(Err(error)) = answer else { panic!("{answer:?}") };
    denied(&error);
    let run = copy((&ground.inside, "file"), (Path::new(""), "file"));
    for request in [
        Request::LookInStore(StoreLook::Target { path: b"any".to_vec() }),
        Request::RunWithStore(StoreRunRequest { run, to_store: true, full: false }),
        Request::RemoveUnfinished { path: Vec::new() },
    ] {
        let answer = controller.ask(&request);
        let AgentMessage::Refused(error) = answer else { panic!("{answer:?}") };
        assert_eq!(error.kind, ErrorKind::PermissionDenied, "{error}");
    }
}

#[test]
fn disks_are_not_for_them() {
    if no_root() {
        return;
    }
    let ground = Ground::new();
    // A device node, as in the backup of a whole system. It needs no device behind it.
    let (kind, mode) = (rustix::fs::FileType::BlockDevice, rustix::fs::Mode::from_raw_mode(0o660));
    let node = ground.inside.join("node");
    rustix::fs::mknodat(rustix::fs::CWD, &node, kind, mode, rustix::fs::makedev(7, 250)).unwrap();
    symlink("node", ground.inside.join("to the node")).unwrap();
    let mut controller = Controller::of(&ground.inside, &[]);
    let answer = controller.ask(&Request::Disks);
    let AgentMessage::Disks(Err(error)) = answer else { panic!("{answer:?}") };
    denied(&error);
    let answer = controller.ask(&Request::Settings);
    let AgentMessage::Settings(Err(error)) = answer else { panic!("{answer:?}") };
    denied(&error);
    for name in ["node", "to the node"] {
        for contents in [true, false] {
            let ask = SourceAsk { path: name.as_bytes().to_vec(), contents };
            let answer = controller.ask(&Request::LookAtSources { sources: vec![ask] });
            let AgentMessage::Sources(looks) = answer else { panic!("{answer:?}") };
            let error = looks[0].as_ref().unwrap_err();
            assert_eq!(error.kind, ErrorKind::PermissionDenied, "{name}: {error}");
        }
        let answer = controller.ask(&Request::LookAtTarget { path: name.as_bytes().to_vec() });
        let AgentMessage::Target(Err(error)) = answer else { panic!("{answer:?}") };
        denied(&error);
    }
    // A request that was not preceded by an inspection is refused when the node would be opened.
    let ran = controller.ran(digest(&ground.inside, "node"));
    let errors = ran.summary.failures.iter().map(|failure| &failure.error).chain(&ran.summary.fatal);
    let words: Vec<_> = errors.map(ToString::to_string).collect();
    assert!(words.iter().any(|words| words.contains("only use files")), "{words:?}");
    let mut grant = Grant::everything();
    grant.places[0].device = Some("any".to_owned());
    let answer = controller.ask(&serve(&ground.inside, grant, ConnectMode::Accept));
    let AgentMessage::Serving(Err(error)) = answer else { panic!("{answer:?}") };
    denied(&error);
    goes_on(controller, &ground);
}

#[test]
fn no_connections_are_made_unless_they_may_be() {
    let ground = Ground::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let way = || ConnectMode::Dial { addresses: vec!["127.0.0.1".to_owned()], port };
    let mut controller = Controller::of(&ground.inside, &[]);
    let answer = controller.ask(&serve(&ground.inside, Grant::everything(), way()));
    let AgentMessage::Serving(Err(serving)) = answer else { panic!("{answer:?}") };
    let connect =
        ConnectRequest { peer: [7; 32], cipher: Cipher::Aes128Gcm, way: way(), lanes: 1, lanes_max: 1 };
    let answer = controller.ask(&Request::Connect(connect));
    let AgentMessage::Connected(Err(connected)) = answer else { panic!("{answer:?}") };
    for error in [serving, connected] {
        denied(&error);
        // The error is that of an unreachable port, so that the controller tries the next method.
        assert_eq!(error.during, "dialling");
    }
    assert!(listener.accept().is_err(), "somebody has come");
    let by_name = Request::Listen { address: Some("a-name.invalid".to_owned()), port: None };
    let answer = controller.ask(&by_name);
    let AgentMessage::Listening(Err(error)) = answer else { panic!("{answer:?}") };
    denied(&error);
    goes_on(controller, &ground);

    let mut controller = Controller::of(&ground.inside, &["--may-connect"]);
    let answer = controller.ask(&serve(&ground.inside, Grant::everything(), way()));
    assert!(matches!(answer, AgentMessage::Serving(Ok(_))), "{answer:?}");
    assert!(listener.accept().is_ok());
}
