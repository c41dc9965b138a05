use hakobu_core::compression::{Compression, Levels, Reason};

use super::pilot::{LevelPilot, PeerThreadShares, Window};
use super::{Packer, Unpacker};

const PIECE: usize = 256 * 1024;

/// Returns incompressible bytes.
fn random(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

/// Returns bytes that shrink to about half.
fn halves(length: usize) -> Vec<u8> {
    let mut bytes = random(length);
    bytes.chunks_exact_mut(256).for_each(|block| block[128..].fill(b' '));
    bytes
}

fn packer(compression: Compression) -> Packer {
    Packer::new(compression, false).unwrap()
}

#[test]
fn what_was_packed_is_unpacked_as_it_was() {
    let mut unpacker = Unpacker::default();
    for level in [-7, -5, 1, 3, 19] {
        let mut packer = packer(Compression::Level(level));
        // Buffers are reused, for longer and for shorter content.
        for length in [PIECE, 600, 1 << 20, 40_000, PIECE] {
            for digest in [None, Some([9; 32])] {
                let content = halves(length);
                let packed = packer.pack(&content, digest).expect("it shrinks").to_vec();
                assert!(packed.len() < length * 3 / 4, "{level} {length}: {}", packed.len());
                let mut back = vec![1; 17];
                let found = unpacker.unpack(&packed, digest.is_some(), length, &mut back).unwrap();
                assert_eq!(found, digest);
                assert!(back == content, "{level} {length}");
            }
        }
    }
}

#[test]
fn what_does_not_shrink_goes_as_it_is_and_is_seldom_looked_at() {
    let mut packer = packer(Compression::Level(3));
    let (random, halves) = (random(PIECE), halves(PIECE));
    (0..50).for_each(|_| assert!(packer.pack(&random, None).is_none()));
    assert_eq!(packer.compressed().content_bytes, 0);
    // Compressible content is noticed soon.
    let packed = (0..20).filter(|_| packer.pack(&halves, None).is_some()).count();
    assert!(packed >= 12, "{packed}");
    // Incompressible content is noticed too.
    assert!(packer.pack(&random, None).is_none());
    assert!(packer.pack(&halves[..500], None).is_none(), "too little to be worth it");
    let mut levels = Levels::default();
    levels.insert(3);
    let compressed = packer.compressed();
    assert_eq!((compressed.levels, compressed.content_bytes), (levels, packed as u64 * PIECE as u64));
    assert!(compressed.sent_bytes < compressed.content_bytes * 2 / 3 && compressed.time_ns > 0);
}

/// Returns bytes without repetitions that use only some of the byte values.
fn words(length: usize) -> Vec<u8> {
    let mut bytes = random(length);
    bytes.iter_mut().for_each(|byte| *byte = b'a' + *byte % 16);
    bytes
}

#[test]
fn what_shrinks_by_its_bytes_alone_is_packed_at_a_level_that_does_so() {
    let content = words(PIECE);
    for (compression, level) in [(Compression::Adapted, 1), (Compression::Level(3), 3)] {
        let mut packer = packer(compression);
        let packed = packer.pack(&content, None).expect("it shrinks").len();
        assert!(packed < PIECE * 5 / 8, "{compression:?}: {packed}");
        // A lane whose processor is the bottleneck lowers its level.
        let busy =
            Window { blocked: 0.0, compressing: 0.9, processor: 1.0, shrank_to: Some(0.5), ..waiting() };
        for _ in 0..40 {
            if packer.pilot.adapts() {
                packer.pilot.judge(&busy);
            }
            assert!(packer.pack(&content, None).is_some(), "{compression:?}: {:?}", packer.pilot.level());
        }
        let mut levels = Levels::default();
        levels.insert(level);
        assert_eq!(packer.compressed().levels, levels);
    }
    // A level that the user chose is kept, and gains nothing.
    let mut packer = packer(Compression::Level(-5));
    (0..20).for_each(|_| assert!(packer.pack(&content, None).is_none()));
    assert!(packer.pack(&halves(PIECE), None).is_none(), "passes unseen");
}

#[test]
fn nothing_is_packed_where_nothing_was_asked_for() {
    assert!(Packer::new(Compression::None, true).is_none());
    let mut auto = packer(Compression::Auto);
    assert!(auto.pack(&halves(PIECE), None).is_none());
    assert_eq!(auto.compressed().time_ns, 0, "not even looked at");
    let mut on_a_long_way = Packer::new(Compression::Auto, true).unwrap();
    assert!(on_a_long_way.pack(&halves(PIECE), None).is_some());
    let mut fixed = Packer::new(Compression::Level(3), true).unwrap();
    assert!(fixed.pack(&halves(PIECE), None).is_some() && !fixed.is_due());
}

#[test]
fn what_is_no_packed_content_is_refused() {
    let content = halves(PIECE);
    let packed = packer(Compression::Level(1)).pack(&content, None).unwrap().to_vec();
    let mut unpacker = Unpacker::default();
    let mut refused = |payload: &[u8], max| {
        let mut back = Vec::new();
        let error = unpacker.unpack(payload, false, max, &mut back).unwrap_err();
        assert_eq!(error.kind, hakobu_core::error::ErrorKind::Protocol, "{error}");
        // Nothing was allocated beyond the limit.
        assert!(back.capacity() <= max, "{}", back.capacity());
    };
    refused(&packed, PIECE - 1);
    for cut in [0, 3, 4, 5, packed.len() / 2, packed.len() - 1] {
        refused(&packed[..cut], PIECE);
    }
    refused(&[&packed[..], b"more"].concat(), PIECE);
    let told = |bytes: usize| [&(bytes as u32).to_le_bytes()[..], &packed[4..]].concat();
    // The content is longer or shorter than declared.
    refused(&told(PIECE - 1), PIECE);
    refused(&told(PIECE + 1), 2 * PIECE);
    refused(&told(usize::from(u16::MAX)), PIECE);
    let mut broken = packed.clone();
    (8..packed.len()).step_by(97).for_each(|at| broken[at] ^= 0x55);
    refused(&broken, PIECE);
    // That unpacker then still accepts a valid payload.
    let mut back = Vec::new();
    unpacker.unpack(&packed, false, PIECE, &mut back).unwrap();
    assert!(back == content);
}

#[test]
fn arbitrary_bytes_become_what_was_told_or_nothing() {
    let content = halves(4 * 4096);
    let packed = packer(Compression::Level(3)).pack(&content, None).unwrap().to_vec();
    let mut noise = blake3::Hasher::new().finalize_xof();
    let (mut unpacker, mut back) = (Unpacker::default(), Vec::new());
    let mut taken = 0;
    for round in 0..5000 {
        let mut numbers = [0; 12];
        noise.fill(&mut numbers);
        let [at, mask, length, random] =
            [0, 3, 6, 9].map(|from| usize::from(numbers[from]) << 8 | usize::from(numbers[from + 1]));
        let mut payload = packed.clone();
        // Change one byte, truncate, or replace all but the beginning with noise.
        match round % 3 {
            0 => payload[at % packed.len()] ^= (mask % 255 + 1) as u8,
            1 => payload.truncate(length % packed.len()),
            _ => noise.fill(&mut payload[4 + random % 16..]),
        }
        let told = payload.first_chunk().map(|told| u32::from_le_bytes(*told) as usize);
        if unpacker.unpack(&payload, false, PIECE, &mut back).is_ok() {
            assert_eq!(Some(back.len()), told);
            taken += 1;
        }
        assert!(back.len() <= PIECE);
    }
    assert!(taken < 5000, "some of it is no payload");
}

/// Many megabytes of zeros in a few kilobytes.
#[test]
fn a_bomb_is_cut_off_where_it_was_said_to_end() {
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 19).unwrap();
    let payload = [&(PIECE as u32).to_le_bytes()[..], &bomb].concat();
    let mut back = Vec::new();
    assert!(Unpacker::default().unpack(&payload, false, PIECE, &mut back).is_err());
    assert!(back.capacity() <= PIECE);
}

/// Returns a lane that sends 20 MB/s and waits for the network path for most of the time.
fn waiting() -> Window {
    Window {
        bytes_per_second: 20e6,
        blocked: 0.9,
        processor: 0.1,
        compressing: 0.0,
        shrank_to: None,
        far: Some(PeerThreadShares { input: 0.9, processor: 0.1 }),
    }
}

#[test]
fn it_begins_only_where_the_way_limits() {
    let level = |window: Window| {
        let mut pilot = LevelPilot::new(Compression::Auto, false);
        pilot.judge(&window);
        pilot.level()
    };
    assert_eq!(level(waiting()), Some(3));
    // At that rate, a higher level would leave no processor time.
    assert_eq!(level(Window { bytes_per_second: 1e9, ..waiting() }), Some(-5));
    assert_eq!(level(Window { blocked: 0.1, ..waiting() }), None);
    assert_eq!(level(Window { far: None, ..waiting() }), None);
    let far = |input, processor| Window { far: Some(PeerThreadShares { input, processor }), ..waiting() };
    assert_eq!(level(far(0.3, 0.1)), None, "the far end works");
    assert_eq!(level(far(0.6, 0.75)), None, "both ends share a processor");
    assert_eq!(level(Window { processor: 0.8, ..waiting() }), None);
}

#[test]
fn what_is_fixed_stays_fixed() {
    let mut pilot = LevelPilot::new(Compression::Level(7), false);
    assert!(!pilot.adapts());
    assert_eq!(pilot.level(), Some(7));
    let mut adapted = LevelPilot::new(Compression::Adapted, false);
    let busy = Window { blocked: 0.0, compressing: 0.9, processor: 1.0, shrank_to: Some(0.5), ..waiting() };
    for _ in 0..1000 {
        assert!(adapted.judge(&busy).is_none_or(|choice| choice.reason == Reason::ProcessorLimits));
    }
    assert_eq!(adapted.level(), Some(-5), "it goes down and never off");
    let mut on_a_long_way = LevelPilot::new(Compression::Auto, true);
    let first = on_a_long_way.choose_at_once().unwrap();
    assert_eq!((first.number, first.level, first.reason), (1, Some(1), Reason::LongWay));
    let choices = (0..20).filter_map(|_| on_a_long_way.judge(&busy));
    assert!(choices.map(|choice| choice.level).any(|level| level.is_none()), "it goes off");
    assert!(pilot.judge(&busy).is_none());
}

#[test]
fn it_goes_up_while_that_pays_and_down_when_the_processor_is_busy() {
    let mut pilot = LevelPilot::new(Compression::Auto, false);
    let first = pilot.judge(&Window { bytes_per_second: 200e6, ..waiting() }).unwrap();
    assert_eq!((first.level, first.reason, first.number), (Some(-5), Reason::WayLimits, 1));
    let on = |shrank_to, blocked, compressing| Window {
        blocked,
        compressing,
        shrank_to: Some(shrank_to),
        ..waiting()
    };
    // The next level is tried beside the one in use.
    let mut raised = |window: Window, now_bytes, candidate_bytes| {
        assert!(pilot.judge(&window).is_none());
        let candidate = pilot.candidate();
        (candidate, pilot.compare(now_bytes, candidate_bytes).and_then(|choice| choice.level))
    };
    assert_eq!(raised(on(0.5, 0.6, 0.2), 1000, 900), (Some(-3), Some(-3)));
    assert_eq!(raised(on(0.5, 0.6, 0.2), 1000, 500), (Some(-1), Some(-1)));
    // It gains nothing, so it is not tried again soon.
    assert_eq!(raised(on(0.5, 0.6, 0.2), 1000, 995), (Some(1), None));
    let tried = (0..200).filter(|_| raised(on(0.5, 0.6, 0.2), 1000, 1000).0.is_some()).count();
    assert!((1..=5).contains(&tried), "{tried}");
    // There is no time for it, or nothing is a bottleneck.
    let mut pilot = LevelPilot::new(Compression::Adapted, false);
    assert!(pilot.judge(&on(0.5, 0.3, 0.95)).is_none() && pilot.candidate().is_some());
    assert!(pilot.judge(&on(0.5, 0.15, 0.6)).is_none() && pilot.candidate().is_none());
    // There is no spare time.
    while pilot.level() != Some(-5) {
        let down = pilot.judge(&on(0.5, 0.02, 0.6)).unwrap();
        assert_eq!(down.reason, Reason::ProcessorLimits);
    }
}

#[test]
fn without_it_for_a_moment_shows_whether_it_pays() {
    let rate = |bytes_per_second, blocked, compressing| Window {
        bytes_per_second,
        blocked,
        compressing,
        shrank_to: (compressing > 0.0).then_some(0.5),
        ..waiting()
    };
    for (without, level) in [(60e6, Some(-5)), (200e6, None)] {
        let mut pilot = LevelPilot::new(Compression::Auto, false);
        pilot.judge(&rate(1e9, 0.9, 0.0));
        assert_eq!(pilot.level(), Some(-5));
        let off = pilot.judge(&rate(100e6, 0.01, 0.7)).unwrap();
        assert_eq!((off.level, off.reason), (None, Reason::ProcessorLimits));
        // The first windows only fill buffers.
        assert!(pilot.judge(&rate(900e6, 0.01, 0.0)).is_none());
        assert!(pilot.judge(&rate(900e6, 0.01, 0.0)).is_none());
        let reason = pilot.judge(&rate(without, 0.01, 0.0)).map(|choice| choice.reason);
        assert_eq!(pilot.level(), level);
        assert_eq!(reason, level.map(|_| Reason::SlowerWithout));
        if level.is_some() {
            assert!(pilot.judge(&rate(100e6, 0.01, 0.7)).is_none(), "not again at once");
        }
    }
}

#[test]
fn it_ends_where_the_far_end_limits() {
    let mut pilot = LevelPilot::new(Compression::Auto, false);
    pilot.judge(&Window { bytes_per_second: 1e9, ..waiting() });
    let busy = Some(PeerThreadShares { input: 0.05, processor: 0.5 });
    let far = Window { far: busy, shrank_to: Some(0.5), compressing: 0.1, ..waiting() };
    // Once or twice may be due to another process.
    for window in [&far, &far, &waiting(), &far, &far] {
        assert_eq!(pilot.judge(window).map(|choice| choice.reason), None);
    }
    let off = pilot.judge(&far).unwrap();
    assert_eq!((off.level, off.reason), (None, Reason::FarEndLimits));
}
