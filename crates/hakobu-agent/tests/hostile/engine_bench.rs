//! The engine with a small source, and a target on the other end of the connection that answers as the test requires.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::time::Duration;

use hakobu_agent::local_host::SystemClock;
use hakobu_core::capabilities::Capabilities;
use hakobu_core::checksum::crc64;
use hakobu_core::endpoint::DraftKind;
use hakobu_core::engine::{self, RunSummary, Setup};
use hakobu_core::entry::{EntryKind, EntryMetadata, FileTime};
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::event::NoObserver;
use hakobu_core::job::{Job, JobItem};
use hakobu_core::path::EntryPath;
use hakobu_core::tag::{TAG_KEY_BYTES, TagKey, Tagger};
use hakobu_endpoints::local::{LocalSource, SourceRoot};
use hakobu_net::connection::{Connection, ConnectionCipher, FrameWait, IncomingFrame, TlsIdentity};
use hakobu_net::remote_target::RemoteTarget;
use hakobu_proto::data::{self, StoredReply, kind};
use hakobu_proto::listings;
use serde::Serialize;

use crate::bench::PATIENCE;

/// The time within which a run must end, whatever the target does.
const RUN_LIMIT: Duration = Duration::from_secs(60);

/// The reaction of a malicious target to one frame.
pub enum Does {
    /// Answers like a target that completes every operation at once.
    Right,
    /// Has handled the frame itself.
    Wrong,
    /// Closes the connection.
    HangsUp,
    /// Stops reading, and keeps the connection open.
    Stops,
}

/// The serving end of a connection, controlled by the test.
pub struct Target {
    connection: Connection,
}

impl Target {
    pub fn answer(
        &mut self,
        kind: u8,
        flags: u8,
        request: u32,
        meta: &impl Serialize,
        payload: &[u8],
    ) -> Does {
        let mut encoded = Vec::new();
        data::encode(meta, &mut encoded).unwrap();
        self.answer_bytes(kind, flags, request, &encoded, payload)
    }

    /// Sends an answer; it does not matter if the engine has closed the connection.
    pub fn answer_bytes(&mut self, kind: u8, flags: u8, request: u32, meta: &[u8], payload: &[u8]) -> Does {
        let crc = if payload.is_empty() { 0 } else { crc64(payload) };
        let sent = self.connection.send(kind, flags, request, meta, payload, crc, None);
        match sent.and_then(|()| self.connection.flush()) {
            Ok(()) => Does::Wrong,
            Err(_) => Does::HangsUp,
        }
    }

    /// Returns the payload of a LISTED with one part.
    pub fn part(path: &[u8], tag: u8, entries: &[u8]) -> Vec<u8> {
        [&(path.len() as u16).to_le_bytes()[..], path, &[tag], entries].concat()
    }

    fn right(&mut self, frame: &IncomingFrame, meta: &[u8], payload: &[u8]) -> Does {
        let request = frame.request;
        match frame.kind {
            kind::STAT => {
                let data::StatRequest { path, .. } = data::decode(meta).unwrap();
                let found = (path.as_bytes() == b"there").then(directory);
                self.answer(kind::STAT_REPLY, 0, request, &data::StatReply(found), &[])
            }
            kind::LIST => {
                let data::ListRequest(directories) = data::decode(payload).unwrap();
                let missing = |path| hakobu_core::listing::DirectoryListing {
                    path,
                    result: Err(Error::new(ErrorKind::NotFound, "listing", "there is none")),
                };
                let listed: Vec<_> = directories.into_iter().map(missing).collect();
                let mut whole = Vec::new();
                listings::encode(&listed, &mut Vec::new(), |bytes, _| {
                    whole.extend_from_slice(bytes);
                    Ok::<_, Error>(())
                })
                .unwrap();
                self.answer_bytes(kind::LISTED, 0, request, &[], &whole)
            }
            kind::WRITE_PACK | kind::APPLY => self.stored(request, &StoredReply::default()),
            kind::HELLO => Does::Wrong,
            kind::WRITE if frame.flags & data::FLAG_ACKNOWLEDGE == 0 => Does::Wrong,
            _ => self.answer_bytes(kind::DONE, 0, request, &[], &[]),
        }
    }

    pub fn stored(&mut self, request: u32, stored: &StoredReply) -> Does {
        let mut payload = Vec::new();
        data::encode(stored, &mut payload).unwrap();
        self.answer_bytes(kind::PACK_WRITTEN, 0, request, &[], &payload)
    }
}

/// Returns a directory as the target describes it, older than any source.
pub fn directory() -> EntryMetadata {
    let time = FileTime { seconds: 1, nanoseconds: 0 };
    EntryMetadata {
        mode: 0o755,
        mtime: time,
        ctime: time,
        links: 2,
        ..EntryMetadata::new(EntryKind::Directory)
    }
}

/// Copies a directory (three small files, one of several chunks, a directory with one more file, and a symbolic link
/// that leads out) to `there`, which the target claims to have. `does` sees every frame of every lane first, with the
/// lane's number and the number of frames before it.
pub fn run(
    lanes: u16,
    capabilities: Capabilities,
    does: impl Fn(&mut Target, (u16, usize), &IncomingFrame, &[u8]) -> Does + Clone + Send + 'static,
) -> RunSummary {
    let base = tempfile::tempdir().unwrap();
    make_source(base.path());
    let connections = (0..lanes).map(|lane| connect(lane, does.clone())).collect();
    let target = RemoteTarget::new(capabilities, connections).unwrap();
    let source = LocalSource::open(&[SourceRoot { path: base.path().join("source") }]).unwrap();
    let item = JobItem {
        root: 0,
        source: EntryPath::root(),
        target: EntryPath::new("there").unwrap(),
        place: DraftKind::File,
    };
    let job = Job {
        items: vec![item],
        make_directory: None,
        lanes,
        digest: true,
        clone: false,
        durable: true,
        dry_run: false,
        require: Vec::new(),
        ..Job::default()
    };
    let (ended, end) = channel();
    std::thread::spawn(move || {
        let summary = engine::run(&Setup {
            source: &source,
            target: &target,
            job: &job,
            observer: &NoObserver,
            clock: &SystemClock::new(),
            tagger: Tagger::new(TagKey([3; TAG_KEY_BYTES])).unwrap(),
            changes: &(),
            cancel: &AtomicBool::new(false),
            exchange: None,
        });
        ended.send(summary).unwrap();
    });
    let summary = end.recv_timeout(RUN_LIMIT).expect("the run neither hangs nor panics");
    assert_eq!(fs::read(base.path().join("outside")).unwrap(), b"nobody's business");
    summary
}

/// Runs one lane, which must end with this error.
pub fn fails(
    kind: ErrorKind,
    does: impl Fn(&mut Target, &IncomingFrame, &[u8]) -> Does + Clone + Send + 'static,
) -> Error {
    let summary =
        run(1, Capabilities::posix(true), move |target, _, frame, payload| does(target, frame, payload));
    let error = summary.fatal.expect("the run fails");
    assert_eq!(error.kind, kind, "{error}");
    error
}

fn make_source(base: &Path) {
    let source = base.join("source");
    fs::create_dir_all(source.join("below")).unwrap();
    for name in ["a", "b", "c", "below/d"] {
        fs::write(source.join(name), name).unwrap();
    }
    // More than all buffers in between can hold.
    fs::write(source.join("large"), vec![0x5a; 40 << 20]).unwrap();
    fs::write(base.join("outside"), "nobody's business").unwrap();
    std::os::unix::fs::symlink("../outside", source.join("link")).unwrap();
}

fn connect(
    lane: u16,
    does: impl Fn(&mut Target, (u16, usize), &IncomingFrame, &[u8]) -> Does + Send + 'static,
) -> Connection {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near_socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far_socket = listener.accept().unwrap().0;
    let (near, far) = (TlsIdentity::generate().unwrap(), TlsIdentity::generate().unwrap());
    let (near_print, far_print) = (near.fingerprint(), far.fingerprint());
    std::thread::spawn(move || {
        let connection =
            Connection::server(far_socket, &far, near_print, ConnectionCipher::Aes128Gcm, PATIENCE).unwrap();
        serve(Target { connection }, |target, count, frame, payload| {
            does(target, (lane, count), frame, payload)
        });
    });
    Connection::client(near_socket, &near, far_print, ConnectionCipher::Aes128Gcm, PATIENCE).unwrap()
}

fn serve(mut target: Target, does: impl Fn(&mut Target, usize, &IncomingFrame, &[u8]) -> Does) {
    let mut payload = Vec::new();
    for count in 0.. {
        let Ok(Some(frame)) = target.connection.receive(FrameWait::Forever) else { return };
        payload.clear();
        if target.connection.read_payload_into(&mut payload).is_err() {
            return;
        }
        let meta = target.connection.meta().to_vec();
        let done = match does(&mut target, count, &frame, &payload) {
            Does::Right => target.right(&frame, &meta, &payload),
            other => other,
        };
        match done {
            Does::Right | Does::Wrong => {}
            Does::HangsUp => return,
            Does::Stops => {
                // Longer than any run; the end of the test ends this thread.
                std::thread::sleep(2 * RUN_LIMIT);
                return;
            }
        }
    }
}
