//! Tests the signatures of formats. The layouts are those that the formats' own tools write, checked with libblkid.

use hakobu_core::disk::{Signature, SignatureKind as Kind};
use hakobu_testkit::partition_table::mbr;

use super::{Image, found_on, is_unknown};

const SIZE_BYTES: u64 = 64 << 20;
/// Sixteen bytes, and their form as text.
const ID: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
const ID_TEXT: &str = "01020304-0506-0708-090a-0b0c0d0e0f10";

fn blank() -> Image {
    Image::new(SIZE_BYTES)
}

#[track_caller]
fn one(image: &Image) -> Signature {
    let facts = found_on(image);
    let [signature] = &facts.contents[..] else { panic!("{:?}", facts.contents) };
    signature.clone()
}

#[track_caller]
fn check(image: &Image, kind: Kind, offset_bytes: u64, uuid: &str, label: &str) {
    let expected = Signature { kind, offset_bytes, uuid: uuid.into(), label: label.into() };
    assert_eq!(one(image), expected);
    // In a partition it is found as well, and a signature hidden by the partition's beginning is not.
    let sectors = (SIZE_BYTES / 512) as u32;
    let moved = Image { size_bytes: SIZE_BYTES + (1 << 20), pieces: image.pieces.clone() };
    let pieces = moved.pieces.iter().map(|(at, bytes)| (at + (1 << 20), bytes.clone())).collect();
    let disk = Image { pieces, ..moved }.with(0, mbr(7, &[(0x83, 2048, sectors)]));
    assert_eq!(found_on(&disk).partitions[0].contents, [expected]);
}

#[test]
fn file_systems_with_a_mark_at_one_place() {
    check(&blank().with(0, b"XFSB").with(32, ID).with(108, b"ix"), Kind::Xfs, 0, ID_TEXT, "ix");
    let btrfs = blank().with(0x10020, ID).with(0x10040, b"_BHRfS_M").with(0x1012b, b"bee");
    check(&btrfs, Kind::Btrfs, 0x10040, ID_TEXT, "bee");
    check(&blank().with(32, b"NXSB").with(72, ID), Kind::Apfs, 32, ID_TEXT, "");
    check(&blank().with(0x8001, b"CD001").with(0x8028, b"VOL   "), Kind::Iso9660, 0x8001, "", "VOL");
    check(&blank().with(0, b"hsqs"), Kind::Squashfs, 0, "", "");
    let erofs = blank().with(1024, b"\xe2\xe1\xf5\xe0").with(1072, ID).with(1088, b"e");
    check(&erofs, Kind::Erofs, 1024, ID_TEXT, "e");
    let f2fs = blank().with(1024, b"\x10\x20\xf5\xf2").with(1132, ID).with(1148, b"f\0s\0");
    check(&f2fs, Kind::F2fs, 1024, ID_TEXT, "fs");
    check(&blank().with(1024, b"H+\0\x04"), Kind::HfsPlus, 1024, "", "");
}

#[test]
fn the_generations_of_ext_differ_in_their_features() {
    let ext = |compatible: u32, incompatible: u32, read_only: u32| {
        let features = [compatible, incompatible, read_only].map(u32::to_le_bytes).concat();
        blank().with(1080, b"\x53\xef").with(1024 + 92, features).with(1024 + 104, ID).with(1024 + 120, b"v")
    };
    check(&ext(0, 2, 3), Kind::Ext2, 1080, ID_TEXT, "v");
    check(&ext(4, 2, 3), Kind::Ext3, 1080, ID_TEXT, "v");
    check(&ext(4, 0x42, 3), Kind::Ext4, 1080, ID_TEXT, "v");
    check(&ext(4, 2, 0x10), Kind::Ext4, 1080, ID_TEXT, "v");
    check(&ext(0, 8, 0), Kind::ExtJournal, 1080, ID_TEXT, "v");
    // Two bytes alone may be coincidence.
    assert!(is_unknown(&ext(0, 2, 3).with(1048, [0xff; 4])));
}

#[test]
fn swap_space_is_found_for_every_size_of_pages() {
    for page in [4096, 8192, 16384, 32768, 65536] {
        let image = blank().with(1036, ID).with(1052, b"sw").with(page - 10, b"SWAPSPACE2");
        check(&image, Kind::Swap, page - 10, ID_TEXT, "sw");
    }
    assert_eq!(one(&blank().with(4086, b"S1SUSPEND\0")).kind, Kind::Swap);
}

#[test]
fn file_systems_with_a_boot_sector() {
    let sector = |name: &[u8]| blank().with(0, mbr(0, &[])).with(0, b"\xeb\x58\x90").with(3, name);
    check(&sector(b"NTFS    ").with(72, [8, 7, 6, 5, 4, 3, 2, 1]), Kind::Ntfs, 3, "0102030405060708", "");
    check(&sector(b"EXFAT   ").with(100, [4, 3, 2, 1]), Kind::Exfat, 3, "0102-0304", "");
    check(&sector(b"-FVE-FS-"), Kind::Bitlocker, 3, "", "");
    check(&blank().with(0, b"\0\0\0ReFS\0"), Kind::Refs, 0, "", "");
    // 512 bytes a sector, 4 sectors a cluster, 1 reserved, 2 copies, fixed disk.
    let fat =
        |fat_sectors: u8| sector(b"mkfs.fat").with(11, [0, 2, 4, 1, 0, 2, 0, 2, 0, 0, 0xf8, fat_sectors, 0]);
    check(&fat(9).with(39, [4, 3, 2, 1]).with(43, b"SIXTEEN    "), Kind::Fat, 0, "0102-0304", "SIXTEEN");
    check(&fat(0).with(67, [4, 3, 2, 1]).with(71, b"NO NAME    "), Kind::Fat, 0, "0102-0304", "");
}

#[test]
fn parts_of_volumes() {
    let id = b"D4edE0fX21tsW2QiWwOSHlGJfjqvw4Ps";
    let text = "D4edE0-fX21-tsW2-QiWw-OSHl-GJfj-qvw4Ps";
    for at in [0, 512, 1024, 1536] {
        let lvm = blank().with(at, b"LABELONE").with(at + 20, [32, 0, 0, 0]).with(at + 24, b"LVM2 001");
        check(&lvm.clone().with(at + 32, id), Kind::Lvm, at, text, "");
        // An invalid header offset is not trusted.
        assert_eq!(one(&lvm.with(at + 20, [0xff; 4])).uuid, "");
    }
    let luks = |version: u8| blank().with(0, b"LUKS\xba\xbe\0").with(7, [version]).with(168, ID_TEXT);
    check(&luks(1), Kind::Luks1, 0, ID_TEXT, "");
    check(&luks(2).with(24, b"LL"), Kind::Luks2, 0, ID_TEXT, "LL");
    let second = blank().with(0x4000, b"SKUL\xba\xbe\0\x02").with(0x4018, b"LL").with(0x40a8, ID_TEXT);
    check(&second, Kind::Luks2, 0x4000, ID_TEXT, "LL");
    let cache = |magic: &[u8]| blank().with(4120, magic).with(4136, ID).with(4168, b"c");
    let bcache = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
    check(&cache(bcache), Kind::Bcache, 4120, ID_TEXT, "c");
    let bcachefs = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
    check(&cache(bcachefs), Kind::Bcachefs, 4120, ID_TEXT, "c");
    check(&blank().with(0, b"bluestore block device\n"), Kind::Bluestore, 0, "", "");
    check(&blank().with(32, b"ORCLDISKDATA1"), Kind::OracleAsm, 32, "", "DATA1");
    check(&blank().with(1 << 20, b"\x0d\xd0\x01\xc0"), Kind::Vmfs, 1 << 20, "", "");
}

#[test]
fn raid_members_of_every_version() {
    let end = SIZE_BYTES - 8192;
    for at in [0, 4096, end] {
        let image =
            blank().with(at, b"\xfc\x4e\x2b\xa9\x01\0\0\0").with(at + 16, ID).with(at + 32, b"host:0");
        check(&image, Kind::Md, at, ID_TEXT, "host:0");
    }
    let at = SIZE_BYTES - 0x1_0000;
    let parts = [(20, &ID[..4]), (52, &ID[4..8]), (56, &ID[8..12]), (60, &ID[12..])];
    let old = |swapped: bool| {
        let word = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            if !swapped {
                bytes.reverse();
            }
            bytes
        };
        let image = blank().with(at, word(b"\xa9\x2b\x4e\xfc"));
        parts.iter().fold(image, |image, (field, bytes)| image.with(at + field, word(bytes)))
    };
    check(&old(false), Kind::Md, at, ID_TEXT, "");
    check(&old(true), Kind::Md, at, ID_TEXT, "");
}

fn xdr(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn pair(name: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    let body = [&xdr(name)[..], &kind.to_be_bytes(), &[0, 0, 0, 1], value].concat();
    let length = (body.len() as u32 + 8).to_be_bytes();
    [&length[..], &length, &body].concat()
}

#[test]
fn members_of_pools_by_any_of_their_labels() {
    let label = [
        b"\x01\x01\0\0\0\0\0\0\0\0\0\x01".to_vec(),
        pair("version", 8, &5000_u64.to_be_bytes()),
        pair("name", 9, &xdr("tank")),
        pair("pool_guid", 8, &1_234_567_890_123_u64.to_be_bytes()),
    ]
    .concat();
    for at in [0, 0x4_0000, SIZE_BYTES - 0x8_0000, SIZE_BYTES - 0x4_0000] {
        check(&blank().with(at + 16384, label.clone()), Kind::Zfs, at, "1234567890123", "tank");
    }
    // A ring without a description counts as a label too.
    check(&blank().with(0x2_0400, 0x00ba_b10c_u64.to_be_bytes()), Kind::Zfs, 0, "", "");
    // Pairs that are longer than the data, or of length zero.
    for length in [u32::MAX, 0, 7, 8, 9, 0x7fff_ffff] {
        let broken = [&label[..12], &length.to_be_bytes(), &label[16..]].concat();
        found_on(&blank().with(16384, broken));
    }
    let mut long = label.clone();
    long[12 + 8..12 + 12].copy_from_slice(&u32::MAX.to_be_bytes());
    assert!(is_unknown(&blank().with(16384, long)));
}

#[test]
fn what_several_uses_left_behind_is_all_told() {
    let image = blank().with(0, b"XFSB").with(4096, b"\xfc\x4e\x2b\xa9\x01\0\0\0").with(0x8001, b"CD001");
    let kinds: Vec<_> = found_on(&image).contents.iter().map(|signature| signature.kind).collect();
    assert_eq!(kinds, [Kind::Xfs, Kind::Md, Kind::Iso9660]);
}

#[test]
fn devices_of_no_size_and_of_a_few_bytes_hold_nothing() {
    for size_bytes in [0, 1, 511, 512, 1023, 4095, 65535, 65536] {
        assert_eq!(found_on(&Image::new(size_bytes)).contents, [], "{size_bytes}");
    }
}
