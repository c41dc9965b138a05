//! Tests with peers that are not the expected ones, or that violate the protocol.

use std::sync::Mutex;
use std::time::Instant;

use hakobu_proto::frame::{FrameError, HEADER_BYTES, Header, SEAL_BYTES};
use rustls::pki_types::PrivateKeyDer;

use super::*;

#[test]
fn a_wrong_fingerprint_is_refused_by_either_side() {
    let (near, far) = identities();
    let other = TlsIdentity::generate().unwrap().fingerprint();
    for cipher in [ConnectionCipher::Aes128Gcm, ConnectionCipher::None] {
        let ciphers = (cipher, cipher);
        let (client, server) = shake(&near, other, &far, near.fingerprint(), ciphers);
        assert!(matches!(client, Err(ConnectionError::WrongFingerprint)), "{client:?}");
        assert!(matches!(server, Err(ConnectionError::Refused(_))), "{server:?}");

        let (client, server) = shake(&near, far.fingerprint(), &far, other, ciphers);
        assert!(matches!(server, Err(ConnectionError::WrongFingerprint)), "{server:?}");
        let refused = client.and_then(|mut client| client.receive(FrameWait::Forever));
        assert!(matches!(refused, Err(ConnectionError::Refused(_))), "{refused:?}");
    }
}

/// Returns an identity with the victim's certificate, which is public, but not its key.
fn thief_of(victim: &TlsIdentity) -> TlsIdentity {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let certificate = victim.certified.cert[0].clone();
    let thief = TlsIdentity::from_parts(certificate, PrivateKeyDer::Pkcs8(key.serialize_der().into()));
    thief.unwrap()
}

#[test]
fn the_right_certificate_with_the_wrong_key_is_refused() {
    let (near, far) = identities();
    let (near_print, far_print) = (near.fingerprint(), far.fingerprint());
    for cipher in [ConnectionCipher::Aes256Gcm, ConnectionCipher::None] {
        let ciphers = (cipher, cipher);
        let (client, _) = shake(&near, far_print, &thief_of(&far), near_print, ciphers);
        assert!(matches!(client, Err(ConnectionError::WrongKey)), "{client:?}");
        let (_, server) = shake(&thief_of(&near), far_print, &far, near_print, ciphers);
        assert!(matches!(server, Err(ConnectionError::WrongKey)), "{server:?}");
    }
}

#[test]
fn ends_that_disagree_about_the_cipher_do_not_connect() {
    let (near, far) = identities();
    let (near_print, far_print) = (near.fingerprint(), far.fingerprint());
    for ciphers in [
        (ConnectionCipher::Aes128Gcm, ConnectionCipher::Aes256Gcm),
        (ConnectionCipher::Aes128Gcm, ConnectionCipher::None),
        (ConnectionCipher::None, ConnectionCipher::Aes128Gcm),
    ] {
        let (client, server) = shake(&near, far_print, &far, near_print, ciphers);
        assert!(client.is_err() && server.is_err(), "{ciphers:?}");
    }
}

#[test]
fn a_silent_or_dribbling_peer_does_not_hold_a_handshake_open() {
    let (near, far) = identities();
    let timeout = Duration::from_millis(300);
    for cipher in [ConnectionCipher::Aes128Gcm, ConnectionCipher::None] {
        for dribble in [false, true] {
            let (near_socket, mut far_socket) = sockets();
            let peer = thread::spawn(move || {
                // The beginning of a record that never ends.
                let mut record = vec![22, 3, 3, 0x3f, 0];
                record.resize(4096, 0);
                for byte in record {
                    if !dribble || far_socket.write_all(&[byte]).is_err() {
                        break;
                    }
                    thread::sleep(Duration::from_millis(2));
                }
                far_socket
            });
            let started = Instant::now();
            let connection = Connection::client(near_socket, &near, far.fingerprint(), cipher, timeout);
            assert!(matches!(connection, Err(ConnectionError::HandshakeTimeout)), "{connection:?}");
            assert!(started.elapsed() >= timeout);
            drop(peer.join().unwrap());
        }
    }
}

#[test]
fn garbage_instead_of_a_handshake_is_an_error() {
    let (near, far) = identities();
    for cipher in [ConnectionCipher::Aes128Gcm, ConnectionCipher::None] {
        for client in [true, false] {
            let (socket, mut peer) = sockets();
            peer.write_all(&Random(5).bytes(4096)).unwrap();
            let made = match client {
                true => Connection::client(socket, &near, far.fingerprint(), cipher, TIMEOUT),
                false => Connection::server(socket, &near, far.fingerprint(), cipher, TIMEOUT),
            };
            assert!(made.is_err());
        }
    }
}

/// Sends arbitrary bytes in place of a frame, past all checks.
fn send_raw(connection: &mut Connection, bytes: &[u8]) {
    match &mut connection.protection {
        Protection::Tls(session) => session.encrypt(bytes, &mut connection.outgoing).unwrap(),
        Protection::Sealed { .. } => connection.outgoing.append(bytes),
    }
    connection.flush().unwrap();
}

fn raw_header(meta_bytes: u32, payload_bytes: u32, reserved: u8) -> Vec<u8> {
    let mut header = vec![5, 0, reserved, 0];
    header.extend_from_slice(&meta_bytes.to_le_bytes());
    header.extend_from_slice(&payload_bytes.to_le_bytes());
    header.resize(HEADER_BYTES + SEAL_BYTES, 0);
    header
}

#[test]
fn broken_headers_are_refused_and_nothing_is_allocated_for_them() {
    for cipher in ALL {
        for (header, expected) in [
            (raw_header(65_537, 0, 0), FrameError::MetaTooLong(65_537)),
            (raw_header(0, u32::MAX, 0), FrameError::PayloadTooLong(u32::MAX.into())),
            (raw_header(0, 0, 1), FrameError::ReservedBits(1)),
        ] {
            let (mut client, mut server) = pair(cipher);
            send_raw(&mut client, &header);
            let received = server.receive(FrameWait::Forever);
            assert!(
                matches!(&received, Err(ConnectionError::Frame(error)) if *error == expected),
                "{received:?}"
            );
            assert_eq!(server.meta.capacity(), 0);
            assert!(matches!(server.receive(FrameWait::Forever), Err(ConnectionError::Cut)));
        }
    }
}

#[test]
fn a_record_that_claims_to_be_too_long_is_not_waited_for() {
    let (mut client, mut server) = pair(ConnectionCipher::Aes128Gcm);
    client.outgoing.append(&[23, 3, 3, 0xff, 0xff, 0]);
    client.flush().unwrap();
    let received = server.receive(FrameWait::Forever);
    assert!(matches!(received, Err(ConnectionError::Tls(_))), "{received:?}");
}

#[test]
fn the_closing_kind_has_no_place_on_tls() {
    let (mut client, mut server) = pair(ConnectionCipher::Aes128Gcm);
    send_raw(&mut client, &[0; HEADER_BYTES]);
    let received = server.receive(FrameWait::Forever);
    assert!(matches!(received, Err(ConnectionError::Protocol(_))), "{received:?}");
}

#[test]
fn an_end_without_goodbye_is_a_cut() {
    for cipher in ALL {
        let (client, mut server) = pair(cipher);
        drop(client);
        let received = server.receive(FrameWait::Forever);
        assert!(matches!(received, Err(ConnectionError::Cut)), "{received:?}");

        // The connection is also cut in the middle of a payload, even after a close message.
        for goodbye in [false, true] {
            let (mut client, mut server) = pair(cipher);
            let header = Header::new(5, 0, 0, 0, 1000, 0).unwrap();
            client.make_head(&header, &[], Some(&[0; 32])).unwrap();
            let head = std::mem::take(&mut client.head);
            send_raw(&mut client, &head);
            send_raw(&mut client, &[1; 400]);
            if goodbye && !client.is_sealed() {
                client.close().unwrap();
            }
            drop(client);
            server.receive(FrameWait::Forever).unwrap().unwrap();
            let mut payload = Vec::new();
            let read = server.read_payload_into(&mut payload);
            assert!(matches!(read, Err(ConnectionError::Cut)), "{read:?}");
        }
    }
}

/// Returns a pair whose bytes pass through a relay that can change them.
fn pair_through(
    cipher: ConnectionCipher,
    change: impl Fn(usize, u64, &mut Vec<u8>) + Send + Sync + Clone + 'static,
) -> (Connection, Connection) {
    let (near, far) = identities();
    let (near_socket, relay_near) = sockets();
    let (relay_far, far_socket) = sockets();
    relay(relay_near, relay_far, change);
    thread::scope(|scope| {
        let server = scope
            .spawn(|| Connection::server(far_socket, &far, near.fingerprint(), cipher, TIMEOUT).unwrap());
        let client = Connection::client(near_socket, &near, far.fingerprint(), cipher, TIMEOUT).unwrap();
        (client, server.join().unwrap())
    })
}

/// A change that the relay makes to the client's bytes.
#[derive(Clone, Copy)]
enum Attack {
    Flip(usize),
    Repeat,
}

static ATTACK: Mutex<Option<Attack>> = Mutex::new(None);

fn attack(direction: usize, _offset: u64, chunk: &mut Vec<u8>) {
    let attack = *ATTACK.lock().unwrap();
    match attack {
        Some(_) if direction == 1 || chunk.is_empty() => {}
        Some(Attack::Flip(at)) => {
            let at = at % chunk.len();
            chunk[at] ^= 1;
        }
        Some(Attack::Repeat) => chunk.extend_from_within(..),
        None => {}
    }
}

/// One test, because a static chooses the attack.
#[test]
fn changed_and_repeated_frames_are_found() {
    let frame_bytes = HEADER_BYTES + SEAL_BYTES + b"meta".len();
    // Flags, request, checksum, digest, MAC and meta. The lengths are left alone: a frame that claims to be longer
    // never arrives.
    for at in [1, 12, 16, 24, 56, 87, frame_bytes - 1] {
        *ATTACK.lock().unwrap() = None;
        let (mut client, mut server) = pair_through(ConnectionCipher::None, attack);
        *ATTACK.lock().unwrap() = Some(Attack::Flip(at));
        send(&mut client, 1, b"meta", b"payload").unwrap();
        client.flush().unwrap();
        let received = server.receive(FrameWait::Forever);
        assert!(matches!(received, Err(ConnectionError::BadMac)), "{at}: {received:?}");
    }
    for cipher in ALL {
        *ATTACK.lock().unwrap() = None;
        let (mut client, mut server) = pair_through(cipher, attack);
        *ATTACK.lock().unwrap() = Some(Attack::Repeat);
        send(&mut client, 1, b"meta", b"payload").unwrap();
        client.flush().unwrap();
        assert_eq!(receive(&mut server).unwrap().0.request, 1);
        let received = server.receive(FrameWait::Forever);
        assert!(matches!(received, Err(ConnectionError::BadMac)), "{received:?}");
    }
    // On TLS every flipped bit is detected, including in the payload.
    *ATTACK.lock().unwrap() = None;
    let (mut client, mut server) = pair_through(ConnectionCipher::Aes128Gcm, attack);
    *ATTACK.lock().unwrap() = Some(Attack::Flip(30));
    send(&mut client, 1, b"meta", b"payload").unwrap();
    client.flush().unwrap();
    let received = server.receive(FrameWait::Forever);
    assert!(matches!(received, Err(ConnectionError::BadMac)), "{received:?}");
}

/// A changed payload passes the MAC, which covers it only through the digest, so the consumer must receive the true
/// digest.
#[test]
fn a_sealed_payload_is_covered_by_its_digest() {
    let (mut client, mut server) = pair(ConnectionCipher::None);
    send(&mut client, 1, b"", b"payload").unwrap();
    client.outgoing.flip_last_byte();
    client.flush().unwrap();
    let frame = server.receive(FrameWait::Forever).unwrap().unwrap();
    let mut payload = Vec::new();
    server.read_payload_into(&mut payload).unwrap();
    assert_eq!(frame.digest, Some(blake3::hash(b"payload").into()));
    assert_ne!(payload, b"payload");
}

/// After a valid handshake, a TLS server sends a handshake message of which one record holds only a part, which the
/// library's own sessions never do.
#[test]
fn a_post_handshake_message_in_pieces_is_refused() {
    use rustls::crypto::cipher::OutboundPlainMessage;
    use rustls::{ConnectionTrafficSecrets, ContentType, ProtocolVersion};

    // A new session ticket (4) and a key update (24), both truncated, and one byte of a key update.
    for message in [&[4, 0, 1, 0, 7][..], &[24, 0, 0][..], &[24][..]] {
        let (mut client, server) = pair(ConnectionCipher::Aes128Gcm);
        let Protection::Tls(session) = server.protection else {
            panic!("not TLS");
        };
        let TlsSession::Server(session) = *session else {
            panic!("not the server");
        };
        let (secrets, _) = session.dangerous_into_kernel_connection().unwrap();
        let (sequence, ConnectionTrafficSecrets::Aes128Gcm { key, iv }) = secrets.tx else {
            panic!("not AES-128-GCM");
        };
        let SupportedCipherSuite::Tls13(suite) = ConnectionCipher::Aes128Gcm.suite() else {
            panic!("a suite of TLS 1.3")
        };
        let record = suite.aead_alg.encrypter(key, iv).encrypt(
            OutboundPlainMessage {
                typ: ContentType::Handshake,
                version: ProtocolVersion::TLSv1_2,
                payload: message.into(),
            },
            sequence,
        );
        let record = record.unwrap().encode();
        let mut stream = server.socket.stream();
        stream.write_all(&record).unwrap();
        // Neither receiving nor sending may panic at the incomplete message.
        let received = client.receive(FrameWait::Forever);
        assert!(matches!(received, Err(ConnectionError::Protocol(_))), "{received:?}");
        assert!(send(&mut client, 1, b"", &[0; 100_000]).is_err());
    }
}
