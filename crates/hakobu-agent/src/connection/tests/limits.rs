//! Keys are renewed before their limit, without end.

use rustls::crypto::CipherSuiteCommon;
use rustls::{Tls13CipherSuite, crypto::aws_lc_rs::cipher_suite};

use super::*;

/// AES-128-GCM whose keys may protect no more than `records` records.
fn suite_limited_to(records: u64) -> SupportedCipherSuite {
    let SupportedCipherSuite::Tls13(suite) = cipher_suite::TLS13_AES_128_GCM_SHA256;
    SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
        common: CipherSuiteCommon {
            suite: suite.common.suite,
            hash_provider: suite.common.hash_provider,
            confidentiality_limit: records,
        },
        hkdf_provider: suite.hkdf_provider,
        aead_alg: suite.aead_alg,
        quic: None,
    })))
}

/// A payload is this many records, so each takes several keys.
const RECORDS_PER_PAYLOAD: u64 = 64;
const LIMIT: u64 = 20;

#[test]
fn a_direction_outlives_its_keys_many_times() {
    let (mut client, mut server) = pair_with_suite(suite_limited_to(LIMIT));
    const FRAMES: u32 = 100;
    let bytes = RECORDS_PER_PAYLOAD as usize * 16 * 1024;
    thread::scope(|scope| {
        scope.spawn(|| {
            for request in 0..FRAMES {
                let payload = Random(u64::from(request) + 1).bytes(bytes);
                send(&mut client, request, b"there", &payload).unwrap();
                // A short answer each time also renews the other direction.
                assert_eq!(receive(&mut client).unwrap().0.request, request);
            }
            client.close().unwrap();
        });
        for request in 0..FRAMES {
            let (frame, payload) = receive(&mut server).unwrap();
            assert_eq!(frame.request, request);
            assert!(payload == Random(u64::from(request) + 1).bytes(bytes));
            send(&mut server, request, b"back", b"ok").unwrap();
            server.flush().unwrap();
        }
        assert!(matches!(server.receive(Wait::Forever), Err(ConnectionError::Closed)));
    });
    let overhead = client.wire_sent_bytes() - u64::from(FRAMES) * bytes as u64;
    assert!(overhead > 0);
}

#[test]
fn both_directions_outlive_their_keys_at_the_same_time() {
    let (client, server) = pair_with_suite(suite_limited_to(LIMIT));
    let work = |mut connection: Connection| {
        let payload = Random(4).bytes(RECORDS_PER_PAYLOAD as usize * 16 * 1024 + 5);
        for request in 0..100 {
            send(&mut connection, request, b"", &payload).unwrap();
            assert!(receive(&mut connection).unwrap().1 == payload);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| work(client));
        scope.spawn(|| work(server));
    });
}

/// An end that only receives is asked for new keys again and again and never
/// gets to write: that must not end the transfer either.
#[test]
fn a_silent_receiver_survives_many_key_updates() {
    let (mut client, mut server) = pair_with_suite(suite_limited_to(LIMIT));
    const FRAMES: u32 = 200;
    thread::scope(|scope| {
        scope.spawn(|| {
            let payload = vec![8; 300_000];
            for request in 0..FRAMES {
                send(&mut client, request, b"", &payload).unwrap();
            }
            client.flush().unwrap();
            assert_eq!(receive(&mut client).unwrap().0.request, 1);
        });
        for request in 0..FRAMES {
            assert_eq!(receive(&mut server).unwrap().0.request, request);
        }
        send(&mut server, 1, b"at last", b"").unwrap();
        server.flush().unwrap();
    });
}
