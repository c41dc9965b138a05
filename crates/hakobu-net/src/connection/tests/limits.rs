//! Tests that keys are renewed before their limit, without end, and that a frame has a time limit.

use hakobu_proto::frame::HEADER_BYTES;
use rustls::crypto::CipherSuiteCommon;
use rustls::{Tls13CipherSuite, crypto::aws_lc_rs::cipher_suite};

use super::*;

/// Returns AES-128-GCM whose keys may protect at most `records` records.
fn suite_limited_to(records: u64) -> SupportedCipherSuite {
    let SupportedCipherSuite::Tls13(suite) = cipher_suite::TLS13_AES_128_GCM_SHA256 else {
        panic!("a suite of TLS 1.3")
    };
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

/// The number of records of a payload, so that each payload uses several keys.
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
                // A short answer each time also renews the keys of the other direction.
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
        assert!(matches!(server.receive(FrameWait::Forever), Err(ConnectionError::Closed)));
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

/// An end that only receives is asked for new keys again and again and never writes. That must not end the transfer.
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

/// A frame of which one byte arrives now and then is abandoned, in its header and in its payload.
#[test]
fn a_frame_that_trickles_is_not_waited_for() {
    let (mut client, server) = pair(ConnectionCipher::None);
    let ended = std::sync::atomic::AtomicBool::new(false);
    let began = std::time::Instant::now();
    let received = thread::scope(|scope| {
        scope.spawn(|| {
            // The bytes are not a header, but only a whole header is checked.
            for _ in 0..HEADER_BYTES {
                if ended.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
                let _ = server.socket.stream().send(&[1]);
                thread::sleep(Duration::from_millis(500));
            }
        });
        let received = client.receive(FrameWait::Forever);
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        received
    });
    assert!(matches!(received, Err(ConnectionError::TooSlow(_))), "{received:?}");
    assert!(began.elapsed() < Duration::from_secs(11), "{:?}", began.elapsed());
}

/// The wait for the beginning of a frame is not limited.
#[test]
fn silence_before_a_frame_is_no_slowness() {
    let (mut client, mut server) = pair(ConnectionCipher::None);
    thread::scope(|scope| {
        scope.spawn(move || {
            thread::sleep(Duration::from_secs(4));
            send(&mut server, 1, b"late", b"payload").unwrap();
            server.flush().unwrap();
            // Keep the connection open until the other end has the frame.
            let _ = server.receive(FrameWait::For(Duration::from_secs(5)));
        });
        assert_eq!(receive(&mut client).unwrap().1, b"payload");
        client.close().unwrap();
    });
}
