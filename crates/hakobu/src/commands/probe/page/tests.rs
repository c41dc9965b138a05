//! Tests of the pages and JSON objects with invented figures.

use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::host::KernelName;
use hakobu_core::probe::{CompressorFigures, MachineFigures, ReadHow, WayStep};
use hakobu_measure::probe::{Measurements, predict};
use hakobu_proto::control::CipherSpeed;
use hakobu_transfer::probe::{CopyObstacle, ProbeResults};

use super::*;
use crate::commands::probe::json::json;
use crate::report::{html, text};

/// Returns results in which every number that a peer can send is this one.
fn probed(number: u64) -> ProbeResults {
    let short = number as u32;
    let work = MeasuredWork {
        count: number,
        bytes: number,
        elapsed_ns: number,
        processor_ns: number,
        queued_ns: 0,
        threads: number as u16,
    };
    let tree = TreeFigures {
        files: number,
        directories: number,
        bytes: number,
        allocated_bytes: number,
        scan: work,
        ..TreeFigures::default()
    };
    let compressor = CompressorFigures {
        name: KernelName::new("<b>\x1b[2J"),
        bytes_per_second: number,
        packed_permille: short,
    };
    let machine = MachineFigures {
        boot_id: KernelName::default(),
        processors: number as u16,
        quota_permille: Some(short),
        copied_bytes_per_second: number,
        hashed_bytes_per_second: number,
        compressors: vec![compressor],
    };
    let speed = CipherSpeed { aes_128_gcm: number, aes_256_gcm: number, chacha20_poly1305: number };
    let end = EndMeasurements {
        name: b"host:/<i>\x1b[2J\xff".to_vec(),
        machine: Some(machine),
        ciphers: Some(speed),
    };
    let source = ReadFigures {
        size_bytes: number,
        allocated_bytes: number,
        how: ReadHow::Memory,
        content: Some(work),
        cached_permille: Some(number as u16),
        latency_ns: Some(number),
        tree: Some(tree),
        small: Some(work),
        denied: number,
        remarks: vec!["</body>\x1b[2J".to_owned()],
    };
    let target = WriteFigures {
        how: WriteHow::Written,
        directory: Vec::new(),
        free_bytes: Some(number),
        free_inodes: Some(number),
        may_share: false,
        content: Some(work),
        in_memory: Some(work),
        latency_ns: Some(number),
        small: Some(work),
        lookups: Some(work),
        held_bytes: Some(number),
        tree: Some(tree),
        remarks: vec!["\u{202e}".to_owned()],
    };
    let step = WayStep { connections: number as u16, sent: work, retransmits: number, ..WayStep::default() };
    let way = WayFigures {
        steps: vec![step, step],
        round_trip_us: Some(short),
        mtu_bytes: Some(short),
        at_least: true,
    };
    let mut probed = ProbeResults {
        source_end: end.clone(),
        target_end: end,
        source: Some(source),
        target: Some(target),
        apart: true,
        there: Some(way.clone()),
        back: Some(way),
        remarks: vec!["<u>\x1b".to_owned()],
        failure: Some(Error::new(ErrorKind::ConnectionLost, "x", "<s>\x1b")),
        obstacle: Some(CopyObstacle {
            error: Error::new(ErrorKind::NoSpace, "x", "<s>\x1b").at("<i>\x1b"),
            certain: true,
        }),
        measured_in: Some(b"<b>\x1b\xff".to_vec()),
        start: Duration::from_millis(number.min(1 << 60)),
        ..ProbeResults::default()
    };
    probed.prediction = predict(&Measurements {
        source: probed.source.as_ref(),
        target: probed.target.as_ref(),
        source_machine: probed.source_end.machine.as_ref(),
        target_machine: probed.target_end.machine.as_ref(),
        way: probed.there.as_ref(),
        apart: probed.apart,
        start: probed.start,
        round_trip: probed.round_trip,
        lanes: (number as u16, number as u16),
        gentle: false,
        limit_bytes_per_second: Some(number),
    });
    probed
}

#[test]
fn no_figure_is_too_odd_and_no_text_gets_out_of_its_place() {
    for number in [0, 1, 1 << 33, 1 << 50, u64::MAX] {
        let probed = probed(number);
        let page = page(&probed, &Machines::default());
        let shown = [text::write(&page), html::write(&page), json(&probed).unwrap()];
        for shown in &shown {
            assert!(!shown.contains("NaN") && !shown.contains("inf "), "{number}: {shown}");
            let odd =
                shown.chars().find(|&letter| letter != '\n' && letter.is_control() || letter == '\u{202e}');
            assert_eq!(odd, None, "{number}: {shown}");
        }
        assert!(!["<i>", "<b>", "<u>"].iter().any(|tag| shown[1].contains(tag)), "{}", shown[1]);
        let object: serde_json::Value = serde_json::from_str(&shown[2]).unwrap();
        assert_eq!(
            (&object["schema"], &object["error"]["kind"]),
            (&"hakobu.probe/1".into(), &"connection_lost".into())
        );
    }
}

#[test]
fn what_is_not_known_is_said_and_not_made_up() {
    let page = page(&ProbeResults::default(), &Machines::default());
    let shown = text::write(&page);
    assert!(shown.contains("What a copy gets cannot be told"), "{shown}");
    assert_eq!(page.tone, NewsTone::Mixed);
}
