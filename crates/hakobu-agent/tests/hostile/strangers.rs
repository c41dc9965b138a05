//! Tests that clients without the key, or that send nothing, cannot block the port for others.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use hakobu_agent::local_host::LocalHost;
use hakobu_core::error::ErrorKind;
use hakobu_core::extended::Classes;
use hakobu_core::path::EntryPath;
use hakobu_net::connection::{Connection, Fingerprint, TlsIdentity};
use hakobu_net::stop::StopHandle;
use hakobu_proto::control::{CONNECTIONS_MAX, Cipher, ConnectMode, ConnectRequest, ServeRequest};
use hakobu_proto::data::{self, kind};
use socket2::{Domain, Socket, Type};

use crate::bench::{PATIENCE, Peer, Session, eventually, grant};

fn is_sent_away(socket: &mut TcpStream) -> bool {
    socket.set_nonblocking(true).unwrap();
    match socket.read(&mut [0; 64]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

#[test]
fn silent_strangers_neither_pile_up_nor_block() {
    let session = Session::new();
    let mut strangers: Vec<_> = (0..300).map(|_| session.stranger()).collect();
    session.still_serves();
    // The number of concurrent handshakes is limited, whatever each client may still send.
    let allowed = 2 * usize::from(CONNECTIONS_MAX);
    eventually("sending strangers away", || {
        strangers.iter_mut().filter_map(|socket| is_sent_away(socket).then_some(())).count() >= 300 - allowed
    });
    session.end(&[]);
}

#[test]
fn garbage_at_the_port() {
    let session = Session::new();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 5000], &[22, 3, 1, 0xff, 0xff, 1, 2, 3]] {
        let mut stranger = session.stranger();
        stranger.write_all(garbage).unwrap();
        eventually("sending the stranger away", || is_sent_away(&mut stranger));
    }
    session.end(&[]);
}

#[test]
fn a_peer_that_says_nothing_blocks_no_other() {
    let session = Session::new();
    let silent: Vec<_> = (0..10).map(|_| session.silent_peer()).collect();
    session.check(&[]);
    drop(silent);
    session.end(&[]);
}

#[test]
fn a_peer_that_does_not_listen_blocks_no_other() {
    let session = Session::with(grant(), Cipher::Aes128Gcm, |root, _| {
        for number in 0..2000 {
            fs::write(root.join(format!("tree/{number:0200}")), "").unwrap();
        }
    });
    let mut deaf = session.peer();
    // Far more answers than the sockets in between can hold.
    for _ in 0..100 {
        deaf.send_bytes(kind::LIST, 0, &[0], b"\x01\x04tree");
    }
    session.check(&[]);
    drop(deaf);
    session.end(&[]);
}

fn is_served(peer: &mut Peer) -> bool {
    let inspect = data::StatRequest { path: EntryPath::new("tree/old").unwrap(), extended: Classes::NONE };
    peer.send(kind::STAT, 0, &inspect, &[]);
    peer.receive().is_ok_and(|got| got.kind == kind::STAT_REPLY)
}

#[test]
fn too_many_connections() {
    let session = Session::new();
    let mut peers: Vec<_> = (0..CONNECTIONS_MAX).map(|_| session.peer()).collect();
    assert!(peers.iter_mut().all(is_served));
    assert!(!is_served(&mut session.peer()));
    assert!(peers.iter_mut().all(is_served), "the others go on");
    peers.truncate(10);
    eventually("a place for another connection", || is_served(&mut session.peer()));
    session.end(&[]);
}

/// The engine's side can listen too: strangers that connect first do not take the peer's place.
#[test]
fn strangers_at_the_engines_port() {
    let mut engine = LocalHost::with_identity(StopHandle::default()).unwrap();
    let port = engine.listen(Some("127.0.0.1"), None).unwrap();
    let dial = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    let _silent: Vec<_> = (0..5).map(|_| dial()).collect();
    dial().write_all(b"who is there?").unwrap();
    let (target, thief) = (TlsIdentity::generate().unwrap(), TlsIdentity::generate().unwrap());
    let expected = Fingerprint(engine.fingerprint().unwrap());
    let fingerprint = target.fingerprint().0;
    std::thread::scope(|scope| {
        for identity in [&thief, &thief, &target, &target] {
            scope.spawn(move || {
                let cipher = hakobu_net::connection::ConnectionCipher::Aes128Gcm;
                let _ = Connection::server(dial(), identity, expected, cipher, PATIENCE);
            });
        }
        let request = ConnectRequest {
            peer: fingerprint,
            cipher: Cipher::Aes128Gcm,
            way: ConnectMode::Accept,
            lanes: 2,
            lanes_max: 2,
        };
        engine.connect(&request).unwrap();
    });
}

#[test]
fn nobody_but_strangers_at_the_engines_port() {
    let mut engine = LocalHost::with_identity(StopHandle::default()).unwrap();
    let port = engine.listen(Some("127.0.0.1"), None).unwrap();
    TcpStream::connect(("127.0.0.1", port)).unwrap().write_all(b"who is there?").unwrap();
    let request = ConnectRequest {
        peer: [7; 32],
        cipher: Cipher::Aes128Gcm,
        way: ConnectMode::Accept,
        lanes: 1,
        lanes_max: 1,
    };
    let error = engine.connect(&request).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TimedOut);
}

/// Some connections are made before one fails, as on a busy line. Those that were made end with the attempt: the next way to
/// connect takes the lock of the same job.
#[test]
fn a_failed_attempt_to_dial_leaves_the_lock_free() {
    let target = tempfile::tempdir().unwrap();
    // The system completes one connection that nobody accepts, and no further one.
    let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let port = full.local_addr().unwrap().as_socket().unwrap().port();
    let mut side = LocalHost::with_identity(StopHandle::default()).unwrap();
    let mut request = ServeRequest {
        job: *b"dials and fails.",
        root: target.path().as_os_str().as_encoded_bytes().to_vec(),
        grant: grant(),
        peer: [7; 32],
        cipher: Cipher::Aes128Gcm,
        way: ConnectMode::Dial { addresses: vec!["127.0.0.1".into()], port },
        lanes: 2,
        lanes_max: 2,
    };
    assert_eq!(side.serve(&request).unwrap_err().kind, ErrorKind::TimedOut);
    side.listen(Some("127.0.0.1"), None).unwrap();
    request.way = ConnectMode::Accept;
    side.serve(&request).unwrap();
}
