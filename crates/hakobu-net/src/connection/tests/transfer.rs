//! Tests that frames arrive as they were sent.

use super::*;
use hakobu_proto::frame::{META_LIMIT_BYTES, PAYLOAD_LIMIT_BYTES};

/// Returns sizes around every boundary in sender and receiver.
fn sizes(random: &mut Random) -> (usize, usize) {
    const EDGES: [usize; 12] =
        [0, 1, 16_383 - 24, 16_384 - 24, 16_384, 65_535, 65_536, 65_537, 262_143, 262_144, 262_145, 1 << 20];
    let payload = match random.below(4) {
        0 => EDGES[random.below(EDGES.len())],
        1 => random.below(300),
        2 => random.below(40_000),
        _ => random.below(700_000),
    };
    let meta = match random.below(8) {
        0 => META_LIMIT_BYTES - random.below(3),
        1 => 0,
        _ => random.below(200),
    };
    (meta, payload)
}

#[test]
fn frames_of_random_sizes_arrive_intact() {
    for (seed, cipher) in ALL.into_iter().enumerate() {
        let (mut client, mut server) = pair(cipher);
        const FRAMES: u32 = 200;
        let seed = seed as u64 + 77;
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut random = Random(seed);
                for request in 0..FRAMES {
                    let (meta, payload) = sizes(&mut random);
                    let (meta, payload) = (random.bytes(meta), random.bytes(payload));
                    send(&mut client, request, &meta, &payload).unwrap();
                }
                client.close().unwrap();
            });
            let mut random = Random(seed);
            for request in 0..FRAMES {
                let (meta, payload) = sizes(&mut random);
                let (meta, payload) = (random.bytes(meta), random.bytes(payload));
                let (frame, received) = receive(&mut server).unwrap();
                assert_eq!((frame.kind, frame.flags, frame.request), (5, 6, request));
                assert_eq!(server.meta(), meta);
                assert!(received == payload, "payload of frame {request}");
            }
            for _ in 0..2 {
                let end = server.receive(FrameWait::Forever);
                assert!(matches!(end, Err(ConnectionError::Closed)), "{end:?}");
            }
        });
    }
}

#[test]
fn the_longest_frame_passes_and_pieces_are_as_long_as_asked() {
    for cipher in ALL {
        let (mut client, mut server) = pair(cipher);
        let payload = Random(3).bytes(PAYLOAD_LIMIT_BYTES);
        thread::scope(|scope| {
            scope.spawn(|| send(&mut client, 1, &[9; META_LIMIT_BYTES], &payload).unwrap());
            server.receive(FrameWait::Forever).unwrap().unwrap();
            let mut received = Vec::new();
            while let Some(piece) = server.payload_piece(200_000).unwrap() {
                let left = PAYLOAD_LIMIT_BYTES - received.len();
                assert!(piece.len() >= left.min(200_000));
                received.extend_from_slice(piece);
            }
            assert!(received == payload);
        });
    }
}

#[test]
fn what_is_not_consumed_is_skipped() {
    for cipher in ALL {
        let (mut client, mut server) = pair(cipher);
        thread::scope(|scope| {
            scope.spawn(|| {
                send(&mut client, 1, b"first", &[1; 900_000]).unwrap();
                send(&mut client, 2, b"second", b"end").unwrap();
                client.flush().unwrap();
            });
            server.receive(FrameWait::Forever).unwrap().unwrap();
            server.payload_piece(10).unwrap().unwrap();
            let (frame, payload) = receive(&mut server).unwrap();
            assert_eq!((frame.request, &payload[..]), (2, &b"end"[..]));
        });
    }
}

#[test]
fn small_frames_are_corked_until_flushed_or_until_we_wait() {
    for cipher in ALL {
        let (mut client, mut server) = pair(cipher);
        let before = client.wire_sent_bytes();
        send(&mut client, 1, b"m", b"").unwrap();
        send(&mut client, 2, b"m", b"p").unwrap();
        assert_eq!(client.wire_sent_bytes(), before);
        assert!(server.receive(FrameWait::Now).unwrap().is_none());
        let brief = FrameWait::For(Duration::from_millis(5));
        assert!(server.receive(brief).unwrap().is_none());
        client.flush().unwrap();
        assert!(client.wire_sent_bytes() > before);
        assert_eq!(receive(&mut server).unwrap().0.request, 1);
        assert_eq!(receive(&mut server).unwrap().0.request, 2);

        // A request that was not flushed still gets its answer.
        send(&mut client, 3, b"question", b"").unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                receive(&mut server).unwrap();
                send(&mut server, 3, b"answer", b"").unwrap();
                server.flush().unwrap();
            });
            receive(&mut client).unwrap();
        });
        assert_eq!(client.meta(), b"answer");
    }
}

/// Both ends send much more than the kernel holds before either receives. This works only because sending also
/// receives.
#[test]
fn two_ends_that_both_send_do_not_wait_for_each_other_for_ever() {
    for cipher in ALL {
        let (client, server) = pair(cipher);
        for connection in [&client, &server] {
            let socket = socket2::SockRef::from(connection.socket.stream());
            socket.set_send_buffer_size(16 * 1024).unwrap();
            // Two segments of the loopback fit. Otherwise the kernel waits for a timer before each.
            socket.set_recv_buffer_size(96 * 1024).unwrap();
        }
        let work = |mut connection: Connection| {
            let payload = Random(9).bytes(600_000);
            for request in 0..20 {
                send(&mut connection, request, b"", &payload).unwrap();
                assert!(receive(&mut connection).unwrap().1 == payload);
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| work(client));
            scope.spawn(|| work(server));
        });
    }
}

#[test]
fn both_ends_can_close_and_what_was_sent_before_still_arrives() {
    for cipher in ALL {
        let (mut client, mut server) = pair(cipher);
        send(&mut client, 1, b"last words", b"").unwrap();
        client.close().unwrap();
        client.close().unwrap();
        assert!(matches!(send(&mut client, 2, b"", b""), Err(ConnectionError::Misuse(_))));
        receive(&mut server).unwrap();
        // The other direction is still open.
        send(&mut server, 7, b"answer", &[3; 100_000]).unwrap();
        server.close().unwrap();
        assert_eq!(receive(&mut client).unwrap().0.request, 7);
        assert!(matches!(client.receive(FrameWait::Forever), Err(ConnectionError::Closed)));
        assert!(matches!(server.receive(FrameWait::Forever), Err(ConnectionError::Closed)));
    }
}

#[test]
fn every_byte_on_the_wire_is_counted() {
    for cipher in ALL {
        let (mut client, mut server) = pair(cipher);
        send(&mut client, 1, b"meta", &[1; 100_000]).unwrap();
        receive(&mut server).unwrap();
        assert!(client.wire_sent_bytes() > 100_000);
        assert_eq!(client.wire_sent_bytes(), server.wire_received_bytes());
        assert!(client.tcp_info().unwrap().rtt_us > 0);
    }
}

#[test]
fn limits_and_missing_digests_are_refused_without_harm() {
    for cipher in ALL {
        let (mut client, mut server) = pair(cipher);
        let long = vec![0; META_LIMIT_BYTES + 1];
        assert!(matches!(client.send(1, 0, 0, &long, b"", 0, None), Err(ConnectionError::Frame(_))));
        assert!(matches!(client.send(0, 0, 0, b"", b"", 0, None), Err(ConnectionError::Misuse(_))));
        if client.is_sealed() {
            assert!(matches!(
                client.send(1, 0, 0, b"", b"payload", 0, None),
                Err(ConnectionError::Misuse(_))
            ));
        }
        send(&mut client, 4, b"fine", b"payload").unwrap();
        client.flush().unwrap();
        assert_eq!(receive(&mut server).unwrap().0.request, 4);
    }
}

#[test]
fn another_thread_can_end_a_wait() {
    let (mut client, _server) = pair(ConnectionCipher::Aes128Gcm);
    let interrupter = client.interrupter().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| client.receive(FrameWait::Forever));
        interrupter.interrupt();
        let ended = waiting.join().unwrap();
        assert!(matches!(ended, Err(ConnectionError::Cut)), "{ended:?}");
    });
}
