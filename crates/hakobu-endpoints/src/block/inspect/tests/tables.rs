//! Tests of partition tables, intact and damaged.

use hakobu_core::disk::{BootObstacle, PARTITIONS_MAX, SignatureKind, TableFault, TableKind};
use hakobu_testkit::partition_table::{EFI_TYPE, Gpt, GptPartition, LINUX_TYPE, crc32, guid, mbr};

use super::{Image, found_on, found_with_sectors, is_unknown};

const DISK_BYTES: u64 = 64 << 20;

fn gpt(sector_bytes: u64) -> Gpt {
    let mib = (1 << 20) / sector_bytes;
    let partition = |kind, number: u8, first_mib: u64, last_mib: u64, name: &str| GptPartition {
        kind,
        guid: [number; 16],
        first: first_mib * mib,
        last: last_mib * mib - 1,
        name: name.into(),
    };
    Gpt {
        sector_bytes,
        disk_bytes: DISK_BYTES,
        disk: guid(0x1234_5678, 0x9abc, 0xdef0, [1, 2, 3, 4, 5, 6, 7, 8]),
        partitions: vec![partition(EFI_TYPE, 1, 1, 9, "EFI"), partition(LINUX_TYPE, 2, 9, 60, "データ")],
    }
}

fn image(gpt: &Gpt) -> Image {
    let blank = Image::new(gpt.disk_bytes);
    gpt.pieces().into_iter().fold(blank, |image, (at, bytes)| image.with(at, bytes))
}

#[test]
fn a_gpt_is_read_with_its_partitions() {
    for sector_bytes in [512, 4096] {
        let facts = found_with_sectors(&image(&gpt(sector_bytes)), sector_bytes as u32);
        let table = facts.table.unwrap();
        assert_eq!((table.kind, table.faults.len()), (TableKind::Gpt, 0));
        assert_eq!(table.uuid, "12345678-9abc-def0-0102-030405060708");
        assert!(table.backup.unwrap().at_end);
        let [efi, data] = &facts.partitions[..] else { panic!("{:?}", facts.partitions) };
        assert_eq!((efi.number, efi.start_bytes, efi.size_bytes), (1, 1 << 20, 8 << 20));
        assert_eq!((data.number, data.label.as_str()), (2, "データ"));
        assert_eq!(data.uuid, "02020202-0202-0202-0202-020202020202");
        assert!(facts.boot.efi && !facts.boot.bios && facts.boot.obstacles.is_empty());
        assert_eq!(facts.contents.iter().map(|one| one.kind).collect::<Vec<_>>(), [SignatureKind::Gpt]);
    }
}

#[test]
fn what_is_in_partitions_is_found_where_they_are() {
    let image = image(&gpt(512)).with(9 << 20, b"XFSB").with(60 << 20, b"XFSB");
    let facts = found_on(&image);
    assert_eq!(facts.partitions[0].contents, []);
    assert_eq!(facts.partitions[1].contents[0].kind, SignatureKind::Xfs);
    assert_eq!(facts.all_contents().count(), 2);
}

#[test]
fn a_gpt_of_other_sectors_is_read_and_told() {
    let facts = found_with_sectors(&image(&gpt(4096)), 512);
    assert_eq!(facts.partitions[1].start_bytes, 9 << 20);
    let obstacle = BootObstacle::SectorSize { table_bytes: 4096, device_bytes: 512 };
    assert_eq!(facts.boot.obstacles, [obstacle]);
}

#[test]
fn after_a_copy_to_a_larger_disk_the_backup_is_not_at_the_end() {
    let mut image = image(&gpt(512));
    image.size_bytes += 1 << 20;
    let facts = found_on(&image);
    let table = facts.table.unwrap();
    assert_eq!((table.backup.unwrap().at_end, table.faults.len()), (false, 0));
    assert_eq!(facts.boot.obstacles, [BootObstacle::BackupNotAtEnd]);
}

#[test]
fn after_a_copy_to_a_smaller_disk_the_backup_is_lost() {
    let mut image = image(&gpt(512));
    image.size_bytes -= 8 << 20;
    let facts = found_on(&image);
    let table = facts.table.unwrap();
    assert_eq!(table.faults, [TableFault::BackupDamaged, TableFault::BeyondEnd]);
    assert_eq!(facts.partitions.len(), 2);
}

#[test]
fn either_copy_is_enough_and_the_other_is_told() {
    let whole = image(&gpt(512));
    for (damaged_at, fault) in [
        (512 + 56, TableFault::PrimaryDamaged),
        (1024 + 40, TableFault::PrimaryDamaged),
        (DISK_BYTES - 512, TableFault::BackupDamaged),
        (DISK_BYTES - 512 - 16384, TableFault::BackupDamaged),
    ] {
        let facts = found_on(&whole.clone().with(damaged_at, [0xff; 4]));
        assert_eq!(facts.table.as_ref().unwrap().faults, [fault], "at {damaged_at}");
        assert_eq!(facts.partitions.len(), 2, "at {damaged_at}");
        assert!(facts.boot.obstacles.contains(&BootObstacle::TableDamaged));
    }
    let facts = found_on(&whole.with(512 + 56, [0xff; 4]).with(DISK_BYTES - 512, [0xff; 4]));
    assert_eq!((facts.table.unwrap().uuid.as_str(), facts.partitions.len()), ("", 0));
    assert_eq!(facts.contents[0].kind, SignatureKind::Gpt);
}

/// Returns the primary header with changed fields and a matching checksum.
fn forged(changes: &[(usize, &[u8])]) -> Image {
    let gpt = gpt(512);
    let mut header = gpt.pieces()[1].1.clone();
    for (at, bytes) in changes {
        header[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    header[16..20].fill(0);
    let crc = crc32(&header);
    header[16..20].copy_from_slice(&crc.to_le_bytes());
    image(&gpt).with(512, header).with(DISK_BYTES - 512, [0; 512])
}

#[test]
fn headers_that_claim_the_impossible_are_not_believed() {
    assert_eq!(found_on(&forged(&[])).partitions.len(), 2, "forging alone does no harm");
    let huge = u64::MAX.to_le_bytes();
    let cases: [&[(usize, &[u8])]; 7] = [
        &[(80, &u32::MAX.to_le_bytes())],
        &[(84, &u32::MAX.to_le_bytes())],
        &[(80, &u32::MAX.to_le_bytes()), (84, &u32::MAX.to_le_bytes())],
        &[(84, &0_u32.to_le_bytes())],
        &[(84, &127_u32.to_le_bytes())],
        &[(72, &huge)],
        &[(24, &huge)],
    ];
    for changes in cases {
        let facts = found_on(&forged(changes));
        assert_eq!(facts.partitions.len(), 0, "{changes:?}");
        assert_eq!(facts.contents[0].kind, SignatureKind::Gpt, "{changes:?}");
    }
}

#[test]
fn partitions_that_cannot_be_are_left_out_or_told() {
    let mut table = gpt(512);
    (table.partitions[0].first, table.partitions[0].last) = (u64::MAX / 2, u64::MAX);
    (table.partitions[1].first, table.partitions[1].last) = (5000, 4000);
    let facts = found_on(&image(&table));
    assert_eq!(facts.table.unwrap().faults, [TableFault::BeyondEnd]);
    assert_eq!(facts.partitions.iter().map(|one| one.size_bytes).collect::<Vec<_>>(), [0]);
}

#[test]
fn a_gpt_without_its_mbr_is_a_remainder() {
    let gpt = gpt(512);
    let facts = found_on(&image(&gpt).with(0, mbr(0xabcd, &[(0x83, 2048, 4096)])));
    assert_eq!(facts.table.unwrap().kind, TableKind::Mbr);
    assert_eq!(
        facts.contents.iter().map(|one| one.kind).collect::<Vec<_>>(),
        [SignatureKind::Mbr, SignatureKind::Gpt]
    );
    let facts = found_on(&image(&gpt).with(0, [0; 512]));
    assert_eq!((facts.table, facts.contents.len()), (None, 1));
}

#[test]
fn logical_partitions_follow_the_primary_ones() {
    let image = Image::new(DISK_BYTES)
        .with(0, mbr(0x0123_abcd, &[(0x83, 2048, 2048), (0x0f, 8192, 65536), (0xef, 4096, 2048)]))
        .with(8192 * 512, mbr(0, &[(0x83, 63, 1000), (0x05, 4096, 4096)]))
        .with((8192 + 4096) * 512, mbr(0, &[(0x82, 63, 2000)]));
    let facts = found_on(&image);
    let seen: Vec<_> = facts.partitions.iter().map(|one| (one.number, one.start_bytes / 512)).collect();
    assert_eq!(seen, [(1, 2048), (2, 8192), (3, 4096), (5, 8192 + 63), (6, 8192 + 4096 + 63)]);
    assert_eq!(facts.partitions[4].uuid, "0123abcd-06");
    assert_eq!(facts.table.unwrap().faults, []);
    assert!(facts.boot.efi && !facts.boot.bios);
}

#[test]
fn a_chain_that_leads_back_ends() {
    let first = mbr(1, &[(0x05, 100, 10_000)]);
    let back =
        Image::new(DISK_BYTES).with(0, first.clone()).with(100 * 512, mbr(0, &[(0x83, 1, 5), (0x05, 0, 9)]));
    let facts = found_on(&back);
    assert_eq!(facts.table.unwrap().faults, [TableFault::ChainBroken]);
    assert_eq!(facts.partitions.len(), 2);
    let into_nothing = Image::new(DISK_BYTES).with(0, mbr(1, &[(0x05, u32::MAX, u32::MAX)]));
    let faults = found_on(&into_nothing).table.unwrap().faults;
    assert_eq!(faults, [TableFault::BeyondEnd, TableFault::ChainBroken]);
    // More links than are counted.
    let endless = (0..1000_u32).fold(Image::new(DISK_BYTES).with(0, first), |image, link| {
        image.with(u64::from(100 + link) * 512, mbr(0, &[(0x83, 1, 1), (0x05, link + 1, 1)]))
    });
    let facts = found_on(&endless);
    assert_eq!(facts.table.unwrap().faults, [TableFault::TooMany]);
    assert!(facts.partitions.len() <= PARTITIONS_MAX);
}

#[test]
fn code_to_boot_from_is_told_from_a_file_systems_own() {
    let mut sector = mbr(0, &[]);
    assert!(is_unknown(&Image::new(DISK_BYTES).with(0, sector.clone())));
    sector[0] = 0xeb;
    let facts = found_on(&Image::new(DISK_BYTES).with(0, sector.clone()));
    assert_eq!((facts.contents[0].kind, facts.boot.bios), (SignatureKind::Mbr, true));
    sector[3..11].copy_from_slice(b"NTFS    ");
    let facts = found_on(&Image::new(DISK_BYTES).with(0, sector));
    assert_eq!((facts.contents[0].kind, facts.boot.bios), (SignatureKind::Ntfs, false));
    assert_eq!(facts.table, None);
}
