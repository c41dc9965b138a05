//! Helpers that the tests share: pairs of connections, and lowered limits.

mod hostile;
mod limits;
mod transfer;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crc_fast::CrcAlgorithm::Crc64Nvme;
use rustls::SupportedCipherSuite;

use super::*;

/// Long enough never to decide a test that should pass.
const TIMEOUT: Duration = Duration::from_secs(60);

const ALL: [ConnectionCipher; 4] = [
    ConnectionCipher::Aes128Gcm,
    ConnectionCipher::Aes256Gcm,
    ConnectionCipher::Chacha20Poly1305,
    ConnectionCipher::None,
];

fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    (near, far)
}

fn identities() -> (TlsIdentity, TlsIdentity) {
    (TlsIdentity::generate().unwrap(), TlsIdentity::generate().unwrap())
}

/// Returns both ends' results for given identities, expectations and ciphers.
fn shake(
    near: &TlsIdentity,
    near_expects: Fingerprint,
    far: &TlsIdentity,
    far_expects: Fingerprint,
    ciphers: (ConnectionCipher, ConnectionCipher),
) -> (ConnectionResult<Connection>, ConnectionResult<Connection>) {
    let (near_socket, far_socket) = sockets();
    thread::scope(|scope| {
        let server = scope.spawn(|| Connection::server(far_socket, far, far_expects, ciphers.1, TIMEOUT));
        let client = Connection::client(near_socket, near, near_expects, ciphers.0, TIMEOUT);
        (client, server.join().unwrap())
    })
}

fn pair(cipher: ConnectionCipher) -> (Connection, Connection) {
    let (near, far) = identities();
    let (client, server) = shake(&near, far.fingerprint(), &far, near.fingerprint(), (cipher, cipher));
    (client.unwrap(), server.unwrap())
}

/// Returns a pair like `pair`, with the given cipher suite.
fn pair_with_suite(suite: SupportedCipherSuite) -> (Connection, Connection) {
    let (near, far) = identities();
    let (near_socket, far_socket) = sockets();
    let mut client_terms = HandshakeParameters::new(&near, far.fingerprint(), ConnectionCipher::Aes128Gcm);
    let mut server_terms = HandshakeParameters::new(&far, near.fingerprint(), ConnectionCipher::Aes128Gcm);
    client_terms.suite = suite;
    server_terms.suite = suite;
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            Connection::establish(far_socket.into(), Role::Server, &server_terms, TIMEOUT).unwrap()
        });
        let client = Connection::establish(near_socket.into(), Role::Client, &client_terms, TIMEOUT).unwrap();
        (client, server.join().unwrap())
    })
}

/// A small deterministic generator (xorshift), because tests must be repeatable.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

fn crc(payload: &[u8]) -> u64 {
    crc_fast::checksum(Crc64Nvme, payload)
}

/// Sends with the checksum and digest that the connection requires.
fn send(connection: &mut Connection, request: u32, meta: &[u8], payload: &[u8]) -> ConnectionResult<()> {
    let digest: Option<[u8; 32]> = connection.is_sealed().then(|| blake3::hash(payload).into());
    connection.send(5, 6, request, meta, payload, crc(payload), digest.as_ref())
}

/// Receives one frame and its payload, and checks its checksums.
fn receive(connection: &mut Connection) -> ConnectionResult<(IncomingFrame, Vec<u8>)> {
    let frame = connection.receive(FrameWait::Forever)?.unwrap();
    let mut payload = Vec::new();
    connection.read_payload_into(&mut payload)?;
    assert_eq!(payload.len(), frame.payload_bytes);
    assert_eq!(crc(&payload), frame.checksum);
    assert_eq!(frame.digest.is_some(), connection.is_sealed());
    if let Some(digest) = frame.digest.filter(|_| !payload.is_empty()) {
        assert_eq!(blake3::hash(&payload), digest);
    }
    Ok((frame, payload))
}

/// Passes bytes on in both directions, changing each chunk by `change`, which receives the direction (0: from the first
/// socket) and the offset.
fn relay(
    first: TcpStream,
    second: TcpStream,
    change: impl Fn(usize, u64, &mut Vec<u8>) + Send + Sync + Clone + 'static,
) {
    for (direction, mut from, mut to) in
        [(0, first.try_clone().unwrap(), second.try_clone().unwrap()), (1, second, first)]
    {
        let change = change.clone();
        thread::spawn(move || {
            let mut offset = 0;
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(bytes) = from.read(&mut buffer) {
                let mut chunk = buffer[..bytes].to_vec();
                change(direction, offset, &mut chunk);
                offset += bytes as u64;
                if bytes == 0 || to.write_all(&chunk).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(std::net::Shutdown::Write);
        });
    }
}
