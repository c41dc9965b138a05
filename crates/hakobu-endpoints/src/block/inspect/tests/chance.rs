//! Tests random bytes where magic numbers and tables are expected. Any findings must keep their limits.

use hakobu_core::disk::{DeviceFacts, NOTES_MAX, PARTITIONS_MAX, Partition, SIGNATURES_MAX, TEXT_BYTES_MAX};
use hakobu_testkit::partition_table::mbr;
use proptest::prelude::*;

use super::{Image, found_with_sectors};

fn check(facts: &DeviceFacts) {
    assert!(facts.partitions.len() <= PARTITIONS_MAX && facts.contents.len() <= SIGNATURES_MAX);
    for (_, signature) in facts.all_contents() {
        assert!(signature.label.len() <= TEXT_BYTES_MAX && signature.uuid.len() <= TEXT_BYTES_MAX);
    }
    for partition in &facts.partitions {
        let Partition { name, type_id, uuid, label, contents, .. } = partition;
        assert!(contents.len() <= SIGNATURES_MAX && name.len() <= TEXT_BYTES_MAX);
        assert!([type_id, uuid, label].iter().all(|text| text.len() <= TEXT_BYTES_MAX));
    }
    assert!(facts.table.iter().all(|table| table.faults.len() <= 16 && table.uuid.len() <= TEXT_BYTES_MAX));
    assert!(facts.notes.len() <= NOTES_MAX && facts.boot.obstacles.len() <= NOTES_MAX);
    assert!(facts.notes.iter().all(|note| note.len() <= TEXT_BYTES_MAX));
}

/// The offsets that are read, with the bytes expected there.
const BAIT: [(u64, &[u8]); 12] = [
    (512, b"EFI PART"),
    (4096, b"EFI PART"),
    (1080, b"\x53\xef"),
    (0, b"XFSB"),
    (0x10040, b"_BHRfS_M"),
    (4086, b"SWAPSPACE2"),
    (512, b"LABELONE"),
    (536, b"LVM2 001"),
    (0, b"LUKS\xba\xbe\0\x02"),
    (4096, b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
    (16384, b"\x01\0\0\0\0\0\0\0"),
    (510, b"\x55\xaa"),
];

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..9000),
        at in prop_oneof![Just(0_u64), Just(16384), Just(65536), 0..200_000_u64],
        bait in proptest::collection::vec(0..BAIT.len(), 0..4),
        size_bytes in prop_oneof![0..3000_u64, 0..3_000_000_u64, Just(u64::MAX / 2)],
        sector_bytes in prop_oneof![Just(512_u32), Just(4096), any::<u32>()],
    ) {
        let image = bait.iter().fold(Image::new(size_bytes).with(at, bytes), |image, &index| {
            let (at, magic) = BAIT[index];
            image.with(at, magic)
        });
        check(&found_with_sectors(&image, sector_bytes));
    }

    #[test]
    fn no_table_makes_it_panic(
        links in proptest::collection::vec(
            (0..40_u64, proptest::collection::vec((any::<u8>(), 0..50_u32, any::<u32>()), 0..4)), 1..30),
        extended in 0..50_u32,
    ) {
        let image = Image::new(1 << 20).with(0, mbr(7, &[(5, extended, 100), (0x83, 1, u32::MAX)]));
        let image = links.iter().fold(image, |image, (at, entries)| {
            let entries: Vec<_> = entries.iter().map(|&(kind, first, sectors)| {
                (if kind % 2 == 0 { 5 } else { kind }, first, sectors)
            }).collect();
            image.with((1 + at) * 512, mbr(0, &entries))
        });
        check(&found_with_sectors(&image, 512));
    }
}
