//! Runs the conformance suite on a target that an agent serves, over real connections.

#![allow(clippy::unwrap_used)]

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::compression::Compression;
use hakobu_core::endpoint::{Endpoint, SourceEndpoint, TargetEndpoint, TargetLane};
use hakobu_core::error::Result;
use hakobu_core::grant::Grant;
use hakobu_endpoints::local::{LocalSource, LocalTarget, SourceRoot, TargetOptions};
use hakobu_net::connection::{Connection, ConnectionCipher, TlsIdentity};
use hakobu_net::remote_target::RemoteTarget;
use hakobu_net::target_server::serve;
use hakobu_testkit::conformance::{Harness, TestPlace, case_names, run_all};
use tempfile::TempDir;

/// The number of connections of one target: no case opens more lanes.
const LANES: usize = 8;
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(30);

#[derive(Clone)]
struct Served {
    cipher: ConnectionCipher,
    compression: Compression,
    near: TlsIdentity,
    far: TlsIdentity,
}

impl Served {
    fn new(cipher: ConnectionCipher, compression: Compression) -> Self {
        let [near, far] = [(); 2].map(|()| TlsIdentity::generate().unwrap());
        Self { cipher, compression, near, far }
    }

    /// Opens a connection whose other end serves `target` on a separate thread.
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
    fn place(&self) -> Box<dyn TestPlace> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        Box::new(ServedPlace { served: self.clone(), path, _directory: Some(directory) })
    }

    fn over(&self, directory: &Path) -> Option<Box<dyn TestPlace>> {
        Some(Box::new(ServedPlace { served: self.clone(), path: directory.to_owned(), _directory: None }))
    }
}

/// A directory that is written through an agent and read directly, because an agent's source is never read remotely.
struct ServedPlace {
    served: Served,
    path: PathBuf,
    /// Removes the directory at the end, if the test created it.
    _directory: Option<TempDir>,
}

impl TestPlace for ServedPlace {
    fn target(&self, grant: Grant) -> Box<dyn TargetEndpoint> {
        let options = TargetOptions { job: [7; 32], durable: false, state: None };
        let local = Arc::new(LocalTarget::open(&self.path, grant, options).unwrap());
        let capabilities = local.capabilities().clone();
        let (connections, servers) = (0..LANES).map(|_| self.served.connect(&local)).unzip();
        drop(local);
        let remote = RemoteTarget::new(capabilities, connections).unwrap();
        let remote = remote.compressing(self.served.compression);
        Box::new(Session { remote, opened: AtomicUsize::new(0), servers: Mutex::new(servers) })
    }

    fn source(&self) -> Box<dyn SourceEndpoint> {
        Box::new(LocalSource::open(&[SourceRoot { path: self.path.clone() }]).unwrap())
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.path)
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
    /// Opens a lane. Cases open lanes with the same number one after another, and each needs its own connection.
    fn open_target_lane(&self, _index: usize) -> Result<Box<dyn TargetLane>> {
        self.remote.open_target_lane(self.opened.fetch_add(1, Ordering::Relaxed))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // If the lanes have ended already, this is an orderly end. A server that panicked is found here.
        self.remote.interrupt();
        let servers = std::mem::take(self.servers.get_mut().unwrap());
        servers.into_iter().for_each(|server| server.join().unwrap());
    }
}

#[test]
fn encrypted() {
    run_all(&Served::new(ConnectionCipher::Aes128Gcm, Compression::Auto));
}

#[test]
fn sealed() {
    run_all(&Served::new(ConnectionCipher::None, Compression::None));
}

#[test]
fn encrypted_and_compressed() {
    run_all(&Served::new(ConnectionCipher::Aes128Gcm, Compression::Level(1)));
}

#[test]
fn sealed_and_compressed() {
    run_all(&Served::new(ConnectionCipher::None, Compression::Adapted));
}

#[test]
fn nearly_all_cases_apply_to_a_served_target() {
    assert!(case_names(&Served::new(ConnectionCipher::None, Compression::None)).len() >= 80);
}
