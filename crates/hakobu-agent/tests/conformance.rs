//! A target that an agent serves passes the conformance suite, over real connections.

#![allow(clippy::unwrap_used)]

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use hakobu_agent::connection::{Cipher, Connection, Identity};
use hakobu_agent::near::RemoteTarget;
use hakobu_agent::serve::serve;
use hakobu_core::capabilities::Capabilities;
use hakobu_core::compression::Compression;
use hakobu_core::endpoint::{Endpoint, SourceEndpoint, TargetEndpoint, TargetLane};
use hakobu_core::error::Result;
use hakobu_core::grant::Grant;
use hakobu_endpoints::local::{LocalTarget, TargetOptions};
use hakobu_testkit::conformance::{Harness, run_all};

/// Connections of one target: no case opens more lanes.
const LANES: usize = 8;
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(30);

struct Served {
    cipher: Cipher,
    compression: Compression,
    near: Identity,
    far: Identity,
}

impl Served {
    fn new(cipher: Cipher, compression: Compression) -> Self {
        let [near, far] = [(); 2].map(|()| Identity::generate().unwrap());
        Self { cipher, compression, near, far }
    }

    /// A connection whose other end serves `target` on a thread of its own.
    fn connect(&self, target: &Arc<LocalTarget>) -> (Connection, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near_socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far_socket = listener.accept().unwrap().0;
        let (far, expected, cipher) = (self.far.clone(), self.near.fingerprint(), self.cipher);
        let target = Arc::clone(target);
        let server = std::thread::spawn(move || {
            let connection = Connection::server(far_socket, &far, expected, cipher, HANDSHAKE_LIMIT).unwrap();
            // Cases break the protocol on purpose, which ends the connection with an error.
            let _ = serve(connection, &target);
        });
        let expected = self.far.fingerprint();
        let near = Connection::client(near_socket, &self.near, expected, cipher, HANDSHAKE_LIMIT);
        (near.unwrap(), server)
    }
}

impl Harness for Served {
    fn target(&self, root: &Path, grant: Grant) -> Box<dyn TargetEndpoint> {
        let options = TargetOptions { job: [7; 32], durable: false, state: None };
        let local = Arc::new(LocalTarget::open(root, grant, options).unwrap());
        let capabilities = local.capabilities().clone();
        let (connections, servers) = (0..LANES).map(|_| self.connect(&local)).unzip();
        drop(local);
        let remote = RemoteTarget::new(capabilities, connections).unwrap().compressing(self.compression);
        Box::new(Session { remote, opened: AtomicUsize::new(0), servers: Mutex::new(servers) })
    }

    /// An agent's source is never read from elsewhere.
    fn source(&self, _root: &Path) -> Option<Box<dyn SourceEndpoint>> {
        None
    }
}

/// A target with the threads that serve it.
struct Session {
    remote: RemoteTarget,
    opened: AtomicUsize,
    servers: Mutex<Vec<JoinHandle<()>>>,
}

impl Endpoint for Session {
    fn capabilities(&self) -> &Capabilities {
        self.remote.capabilities()
    }
}

impl TargetEndpoint for Session {
    /// Cases open lanes of the same number one after another; a connection is for one of them.
    fn open_target_lane(&self, _index: usize) -> Result<Box<dyn TargetLane>> {
        self.remote.open_target_lane(self.opened.fetch_add(1, Ordering::Relaxed))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // An orderly end where the lanes have ended already; a server that panicked is found here.
        self.remote.interrupt();
        let servers = std::mem::take(self.servers.get_mut().unwrap());
        servers.into_iter().for_each(|server| server.join().unwrap());
    }
}

#[test]
fn encrypted() {
    run_all(&Served::new(Cipher::Aes128Gcm, Compression::Auto));
}

#[test]
fn sealed() {
    run_all(&Served::new(Cipher::None, Compression::None));
}

#[test]
fn encrypted_and_compressed() {
    run_all(&Served::new(Cipher::Aes128Gcm, Compression::Level(1)));
}

#[test]
fn sealed_and_compressed() {
    run_all(&Served::new(Cipher::None, Compression::Adapted));
}
