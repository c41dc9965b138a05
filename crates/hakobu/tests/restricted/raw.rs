//! A controller that sends arbitrary messages to an agent that is restricted to a directory.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use hakobu_core::digest::Algorithm;
use hakobu_core::endpoint::DraftKind;
use hakobu_core::grant::Grant;
use hakobu_core::job::{Job, JobItem, Mode};
use hakobu_core::path::EntryPath;
use hakobu_proto::control::PREAMBLE;
use hakobu_proto::control::{
    AgentMessage, Cipher, ConnectMode, MachinePath, Request, RunHereRequest, RunUsage, ServeRequest,
    VERSION_NEWEST, VERSION_OLDEST,
};

use crate::program::HAKOBU;

/// Returns the program as an agent that is restricted to this directory.
pub fn agent(path: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(HAKOBU);
    command.args(["agent", "--restrict"]).arg(path).args(options);
    command.env_remove("SSH_ORIGINAL_COMMAND").stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

pub struct Controller {
    pub child: Child,
    to: ChildStdin,
    from: ChildStdout,
}

impl Controller {
    /// Starts an agent that is restricted to this directory, and greets it.
    pub fn of(path: &Path, options: &[&str]) -> Self {
        Self::by(agent(path, options))
    }

    /// Starts an agent with another command.
    pub fn by(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let (to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut preamble = vec![0; PREAMBLE.len()];
        from.read_exact(&mut preamble).unwrap();
        assert_eq!(preamble, PREAMBLE);
        let mut controller = Self { child, to, from };
        let hello = Request::Hello { oldest: VERSION_OLDEST, newest: VERSION_NEWEST, digest: true };
        assert!(matches!(controller.ask(&hello), AgentMessage::Hello(_)));
        controller
    }

    /// Returns the last answer, after all events.
    pub fn ask(&mut self, request: &Request) -> AgentMessage {
        let message = postcard::to_stdvec(request).unwrap();
        self.to.write_all(&(message.len() as u32).to_le_bytes()).unwrap();
        self.to.write_all(&message).unwrap();
        loop {
            let mut length = [0; 4];
            self.from.read_exact(&mut length).unwrap();
            let mut message = vec![0; u32::from_le_bytes(length) as usize];
            self.from.read_exact(&mut message).unwrap();
            match postcard::from_bytes(&message).unwrap() {
                AgentMessage::Event(_) => {}
                answer => return answer,
            }
        }
    }

    pub fn ran(&mut self, request: RunHereRequest) -> RunUsage {
        match self.ask(&Request::RunHere(request)) {
            AgentMessage::Ran(ran) => *ran,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn path(text: &str) -> EntryPath {
    EntryPath::new(text).unwrap()
}

/// Returns a request for the digest of an entry below a root.
pub fn digest(root: &Path, entry: &str) -> RunHereRequest {
    let item = JobItem { root: 0, source: path(entry), target: path("null"), place: DraftKind::Sink };
    let mode = Mode::Digest(Algorithm::Blake3);
    let job = Job { items: vec![item], lanes: 1, digest: true, mode, ..Job::default() };
    let roots = vec![bytes(root)];
    RunHereRequest { job, identity: unique(), roots, root: b"/dev".to_vec(), grant: Grant::everything() }
}

/// Returns a request for a copy on the agent's machine.
pub fn copy(from: (&Path, &str), to: (&Path, &str)) -> RunHereRequest {
    let item = JobItem { root: 0, source: path(from.1), target: path(to.1), place: DraftKind::File };
    let job = Job { items: vec![item], lanes: 1, digest: true, ..Job::default() };
    let roots = vec![bytes(from.0)];
    RunHereRequest { job, identity: unique(), roots, root: bytes(to.0).0, grant: Grant::everything() }
}

pub fn serve(root: &Path, grant: Grant, way: ConnectMode) -> Request {
    let (peer, cipher) = ([7; 32], Cipher::Aes128Gcm);
    let root = bytes(root).0;
    Request::Serve(ServeRequest { job: unique(), root, grant, peer, cipher, way, lanes: 1, lanes_max: 1 })
}

pub fn bytes(path: &Path) -> MachinePath {
    MachinePath(path.as_os_str().as_encoded_bytes().to_vec())
}

/// Returns an identity that no other job has.
fn unique() -> [u8; 16] {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let mut job = [0; 16];
    job[..8].copy_from_slice(&NUMBER.fetch_add(1, Relaxed).to_le_bytes());
    job[8..12].copy_from_slice(&std::process::id().to_le_bytes());
    job[12..].copy_from_slice(b"test");
    job
}
