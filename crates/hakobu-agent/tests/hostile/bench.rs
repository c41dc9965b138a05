//! A served target, its surroundings, and a peer that can send anything.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hakobu_agent::local_host::LocalHost;
use hakobu_core::checksum::crc64;
use hakobu_core::content::content_sum;
use hakobu_core::digest::piece_value;
use hakobu_core::endpoint::DraftParameters;
use hakobu_core::entry::{Attributes, FileTime};
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::grant::{Grant, GrantedPlace};
use hakobu_core::pack::{PackBuilder, RecordHead};
use hakobu_core::path::{EntryPath, is_draft_name};
use hakobu_net::connection::{
    self, Connection, ConnectionError, Fingerprint, FrameWait, Interrupter, TlsIdentity,
};
use hakobu_net::stop::StopHandle;
use hakobu_proto::control::{Cipher, ConnectMode, ServeRequest};
use hakobu_proto::data::{self, StoredReply, kind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

/// The time after which a test has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

static JOBS: AtomicU32 = AtomicU32::new(1);

/// Returns a job's identity that no other test uses.
pub fn job() -> [u8; 16] {
    let mut job = [0; 16];
    job[..4].copy_from_slice(&JOBS.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    job[4..8].copy_from_slice(&std::process::id().to_le_bytes());
    job
}

/// The target `root` with a tree to write to, and next to it a directory that must not be touched.
///
/// ```text
/// outside/secret, outside/inner/file
/// root/tree/old, root/name, root/private
/// ```
pub struct Session {
    base: TempDir,
    side: LocalHost,
    identity: TlsIdentity,
    port: u16,
    cipher: Cipher,
    before: Tree,
    /// The interrupters of all peers, to end those that a test still holds.
    peers: RefCell<Vec<Interrupter>>,
}

/// The content of a tree: for each path the kind with its mode, the owner, and the content.
pub type Tree = BTreeMap<PathBuf, (u32, u32, u32, Vec<u8>)>;

impl Session {
    /// Creates a session over TLS that grants `tree` and everything in it, and the single path `name`.
    pub fn new() -> Self {
        Self::with(grant(), Cipher::Aes128Gcm, |_, _| {})
    }

    /// Creates a session with the given grant and cipher. `plant` adds to the target before it is served; it gets the
    /// target's root and the directory outside.
    pub fn with(grant: Grant, cipher: Cipher, plant: impl FnOnce(&Path, &Path)) -> Self {
        let base = tempfile::tempdir().unwrap();
        let (root, outside) = (base.path().join("root"), base.path().join("outside"));
        fs::create_dir_all(root.join("tree")).unwrap();
        fs::create_dir_all(outside.join("inner")).unwrap();
        for file in ["tree/old", "name", "private"] {
            fs::write(root.join(file), format!("{file} as it was")).unwrap();
        }
        fs::write(outside.join("secret"), "nobody's business").unwrap();
        fs::write(outside.join("inner/file"), "neither").unwrap();
        plant(&root, &outside);
        let before = look(base.path());
        let identity = TlsIdentity::generate().unwrap();
        let mut side = LocalHost::with_identity(StopHandle::default()).unwrap();
        let port = side.listen(Some("127.0.0.1"), None).unwrap();
        let request = ServeRequest {
            job: job(),
            root: root.into_os_string().into_encoded_bytes(),
            grant,
            peer: identity.fingerprint().0,
            cipher,
            way: ConnectMode::Accept,
            lanes: 1,
            lanes_max: 1,
        };
        side.serve(&request).unwrap();
        Self { base, side, identity, port, cipher, before, peers: RefCell::default() }
    }

    /// Returns a path below the directory that contains everything.
    pub fn path(&self, below: &str) -> PathBuf {
        self.base.path().join(below)
    }

    /// Returns a socket to the port, without a handshake.
    pub fn stranger(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).unwrap()
    }

    /// Returns a connection that has sent nothing yet.
    pub fn silent_peer(&self) -> Peer {
        let expected = Fingerprint(self.side.fingerprint().unwrap());
        let cipher = connection::ConnectionCipher::from(self.cipher);
        let connection = Connection::client(self.stranger(), &self.identity, expected, cipher, PATIENCE);
        let connection = connection.unwrap();
        self.peers.borrow_mut().push(connection.interrupter().unwrap());
        Peer { connection, request: 0 }
    }

    /// Returns a connection that has sent HELLO.
    pub fn peer(&self) -> Peer {
        let mut peer = self.silent_peer();
        peer.send(kind::HELLO, 0, &data::Hello { lane: 0 }, &[]);
        peer
    }

    /// Checks that another connection of the session is served normally.
    pub fn still_serves(&self) {
        let mut peer = self.peer();
        let content = b"all is well";
        peer.begin(1 << 40, "tree/well", content.len() as u64).unwrap();
        peer.write(1 << 40, 0, content, content.len() as u64).unwrap();
        peer.finish(1 << 40, &attributes(0o644)).unwrap();
        let well = self.path("root/tree/well");
        assert_eq!(fs::read(&well).unwrap(), content);
        fs::remove_file(well).unwrap();
    }

    /// Checks that nothing has changed except `allowed` (relative to the directory that contains everything), and that
    /// the session continues.
    pub fn check(&self, allowed: &[&str]) {
        self.still_serves();
        self.compare(allowed);
    }

    /// Checks like [`Session::check`], then ends the session: no draft may be left.
    pub fn end(self, allowed: &[&str]) {
        self.check(allowed);
        self.end_unwritten(allowed);
    }

    /// Ends like [`Session::end`] a session in which nobody can write.
    pub fn end_unwritten(mut self, allowed: &[&str]) {
        self.peers.borrow().iter().for_each(Interrupter::interrupt);
        self.side.end_serving();
        self.compare(allowed);
        let left: Vec<_> = look_at_all(self.base.path()).into_keys().filter(|path| is_draft(path)).collect();
        assert!(left.is_empty(), "drafts are left behind: {left:?}");
    }

    fn compare(&self, allowed: &[&str]) {
        let mut now = look(self.base.path());
        let mut before = self.before.clone();
        for allowed in allowed {
            now.retain(|path, _| !path.starts_with(allowed));
            before.retain(|path, _| !path.starts_with(allowed));
        }
        assert_eq!(now, before);
    }
}

fn is_draft(path: &Path) -> bool {
    path.file_name().is_some_and(|name| is_draft_name(name.as_encoded_bytes()))
}

/// Returns everything below a directory except drafts.
fn look(base: &Path) -> Tree {
    let mut tree = look_at_all(base);
    tree.retain(|path, _| !is_draft(path));
    tree
}

fn look_at_all(base: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut directories = vec![base.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = match metadata.file_type() {
                kind if kind.is_symlink() => {
                    fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                }
                kind if kind.is_file() => fs::read(&path).unwrap(),
                _ => Vec::new(),
            };
            if metadata.is_dir() {
                directories.push(path.clone());
            }
            let below = path.strip_prefix(base).unwrap().to_path_buf();
            tree.insert(below, (metadata.mode(), metadata.uid(), metadata.gid(), content));
        }
    }
    tree
}

/// Returns the default grant of a session.
pub fn grant() -> Grant {
    let place = |path: &str, tree| GrantedPlace::new(EntryPath::new(path).unwrap(), tree);
    Grant {
        places: vec![place("tree", true), place("name", false)],
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

/// Returns attributes of the running user, with a fixed time.
pub fn attributes(mode: u32) -> Attributes {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Attributes { mode, uid, gid, mtime: FileTime { seconds: 1_000_000_000, nanoseconds: 5 } }
}

/// Returns a pack of one file.
pub fn pack(directory: &str, name: &str, attributes: &Attributes, content: &[u8]) -> Vec<u8> {
    let mut pack = PackBuilder::default();
    pack.directory(&EntryPath::new(directory).unwrap());
    pack.whole_file(&RecordHead::new(name.as_bytes(), *attributes), content, content_sum(content));
    pack.finish()
}

/// A received frame.
#[derive(Debug)]
pub struct Got {
    pub kind: u8,
    pub request: u32,
    pub meta: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Got {
    pub fn error(&self) -> Error {
        assert_eq!(self.kind, kind::FAILED, "{self:?}");
        data::decode::<data::FailedReply>(&self.meta).unwrap().0
    }

    pub fn payload<T: DeserializeOwned>(&self) -> T {
        data::decode(&self.payload).unwrap()
    }
}

/// One connection of the engine's side, controlled by the test.
pub struct Peer {
    pub connection: Connection,
    pub request: u32,
}

impl Peer {
    /// Sends a frame with the correct checksum or digest of the payload.
    pub fn send(&mut self, kind: u8, flags: u8, meta: &impl Serialize, payload: &[u8]) {
        let mut encoded = Vec::new();
        data::encode(meta, &mut encoded).unwrap();
        self.send_bytes(kind, flags, &encoded, payload);
    }

    /// Sends like [`Peer::send`], with any bytes as meta.
    pub fn send_bytes(&mut self, kind: u8, flags: u8, meta: &[u8], payload: &[u8]) {
        let crc = if payload.is_empty() { 0 } else { crc64(payload) };
        let digest = blake3_of(payload);
        self.send_checked(kind, flags, meta, payload, crc, digest);
    }

    /// Sends like [`Peer::send_bytes`], with any checksum and digest. If the peer has already closed, that is noticed
    /// when receiving.
    pub fn send_checked(
        &mut self,
        kind: u8,
        flags: u8,
        meta: &[u8],
        payload: &[u8],
        crc: u64,
        digest: [u8; 32],
    ) {
        self.request += 1;
        let crc = if self.connection.is_sealed() { 0 } else { crc };
        let _ = self.connection.send(kind, flags, self.request, meta, payload, crc, Some(&digest));
        let _ = self.connection.flush();
    }

    /// Returns the next frame that is an answer, or the end of the connection.
    pub fn receive(&mut self) -> Result<Got, ConnectionError> {
        let frame = loop {
            let frame =
                self.connection.receive(FrameWait::For(PATIENCE))?.expect("nothing came, and it goes on");
            if frame.kind != kind::TIMES {
                break frame;
            }
        };
        let mut payload = Vec::new();
        self.connection.read_payload_into(&mut payload)?;
        let meta = self.connection.meta().to_vec();
        Ok(Got { kind: frame.kind, request: frame.request, meta, payload })
    }

    /// Returns the answer to the last frame sent.
    pub fn answer(&mut self) -> Got {
        let got = self.receive().expect("an answer");
        assert_eq!(got.request, self.request);
        got
    }

    /// Checks that the peer closes the connection. Before that it may only report the reason.
    pub fn is_cut_off(&mut self, why: &str) {
        loop {
            match self.receive() {
                Ok(got) => assert_eq!(got.error().kind, ErrorKind::Protocol, "{why}"),
                Err(_) => return,
            }
        }
    }

    /// Sends a frame that violates the protocol.
    pub fn breaks(&mut self, why: &str, kind: u8, meta: &[u8], payload: &[u8]) {
        self.send_bytes(kind, data::FLAG_ACKNOWLEDGE, meta, payload);
        self.is_cut_off(why);
    }

    fn plain(&mut self) -> Result<(), Error> {
        let got = self.answer();
        match got.kind {
            kind::DONE => Ok(()),
            kind::FAILED => Err(got.error()),
            _ => panic!("not a plain answer: {got:?}"),
        }
    }

    pub fn begin(&mut self, draft: u64, at: &str, size_bytes: u64) -> Result<(), Error> {
        let path = EntryPath::new(at).unwrap();
        self.send(
            kind::BEGIN,
            0,
            &data::BeginDraft { draft, begin: DraftParameters::file(path, size_bytes) },
            &[],
        );
        self.plain()
    }

    /// Writes a piece and waits for its acknowledgement.
    pub fn write(&mut self, draft: u64, offset: u64, bytes: &[u8], size_bytes: u64) -> Result<(), Error> {
        let mut meta = Vec::new();
        data::encode(&data::WritePiece { draft, offset }, &mut meta).unwrap();
        let value = piece_value(size_bytes, offset, bytes);
        self.send_checked(kind::WRITE, data::FLAG_ACKNOWLEDGE, &meta, bytes, crc64(bytes), value);
        self.plain()
    }

    /// Finishes a draft; lost metadata is not a failure.
    pub fn finish(&mut self, draft: u64, attributes: &Attributes) -> Result<(), Error> {
        self.send(kind::FINISH, 0, &data::Finish { draft, attributes: *attributes, digest: None }, &[]);
        let got = self.answer();
        match got.kind {
            kind::DONE | kind::PACK_WRITTEN => Ok(()),
            _ => Err(got.error()),
        }
    }

    pub fn abandon(&mut self, draft: u64) {
        self.send(kind::ABANDON, 0, &data::Abandon { draft, keep: false }, &[]);
        self.plain().unwrap();
    }

    /// Stores a pack. Returns the failures.
    pub fn store(&mut self, pack: &[u8]) -> Result<Vec<(u32, Error)>, Error> {
        self.send(kind::WRITE_PACK, 0, &(), pack);
        self.stored()
    }

    /// Applies changes. Returns the failures.
    pub fn apply(&mut self, changes: &[hakobu_core::endpoint::Change]) -> Result<Vec<(u32, Error)>, Error> {
        let mut payload = Vec::new();
        data::encode(&data::ApplyChanges(changes.to_vec()), &mut payload).unwrap();
        self.send(kind::APPLY, 0, &(), &payload);
        self.stored()
    }

    fn stored(&mut self) -> Result<Vec<(u32, Error)>, Error> {
        let got = self.answer();
        match got.kind {
            kind::PACK_WRITTEN => Ok(got.payload::<StoredReply>().failures),
            _ => Err(got.error()),
        }
    }
}

fn blake3_of(bytes: &[u8]) -> [u8; 32] {
    match bytes.len() {
        // The digest of a whole file of one piece is the piece's value.
        length if length as u64 <= hakobu_core::extent::PIECE_BYTES => piece_value(length as u64, 0, bytes),
        _ => *blake3::hash(bytes).as_bytes(),
    }
}

/// Waits for something that another thread does.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}
