use hakobu_core::extended::{Classes, Extended, KEPT_WITH_ENTRY_BYTES};
use hakobu_core::times::year_of;
use proptest::prelude::*;

use super::*;
use crate::object::api::{ObjectHead, ObjectVersion};
use crate::object::entry::described;
use crate::object::s3::LIMITS;
use MetadataConvention::{Azure, Gcs, S3};

const ALL: [MetadataConvention; 3] = [S3, Azure, Gcs];
const SIDECAR: &str = "sidecar:0f:2d0185694a462c8853ec80000b0da0cdd9c5e428f80fffcdb3c3aea4e4af5030";
const TIME: FileTime = FileTime { seconds: 1_767_323_045, nanoseconds: 123_456_700 };

fn entry(kind: EntryKind, mode: u32) -> EntryMetadata {
    EntryMetadata { mode, uid: 1000, gid: 100, size_bytes: 12, mtime: TIME, ..EntryMetadata::new(kind) }
}

fn encode(convention: MetadataConvention, metadata: &EntryMetadata) -> Vec<(String, String)> {
    convention
        .encode(&ObjectEntry { metadata, owner: true, extended: None, digest: None, checksum: None })
        .pairs
}

fn pairs(pairs: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    pairs.iter().map(|(name, value)| (&**name, &**value))
}

/// Reads the metadata of a file of 12 bytes.
fn file(convention: MetadataConvention, pairs: &[(&str, &str)]) -> ObjectMetadata {
    convention.decode(false, 12, pairs.iter().copied())
}

/// Returns the metadata as lines `name: value`.
fn lines(pairs: &[(String, String)]) -> Vec<String> {
    pairs.iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

fn at(seconds: i64, nanoseconds: u32) -> Option<FileTime> {
    Some(FileTime { seconds, nanoseconds })
}

#[test]
fn each_cell_of_the_table_is_written() {
    assert_eq!(
        lines(&encode(S3, &entry(EntryKind::File, 0o644))),
        [
            "mtime: 1767323045.1234567",
            "file-mtime: 1767323045123456700ns",
            "file-permissions: 0100644",
            "file-owner: 1000",
            "file-group: 100",
            "user-agent: hakobu",
        ]
    );
    assert_eq!(
        lines(&encode(Azure, &entry(EntryKind::File, 0o644))),
        [
            "mtime: 2026-01-02T03:04:05.1234567Z",
            "modtime: 1767323045123456700",
            "permissions: 33188",
            "posix_owner: 1000",
            "posix_group: 100",
            "user_agent: hakobu",
        ]
    );
    assert_eq!(
        lines(&encode(Gcs, &entry(EntryKind::File, 0o644))),
        [
            "mtime: 2026-01-02T03:04:05.1234567Z",
            "goog-reserved-file-mtime: 1767323045",
            "goog-reserved-posix-mode: 644",
            "goog-reserved-posix-uid: 1000",
            "goog-reserved-posix-gid: 100",
            "user-agent: hakobu",
        ]
    );
    let has = |convention, metadata: &EntryMetadata, line: &str| {
        let lines = lines(&encode(convention, metadata));
        assert!(lines.iter().any(|it| it == line), "{lines:?}");
    };
    let link = entry(EntryKind::Symlink, 0o777);
    has(S3, &link, "file-permissions: 0120777");
    has(Azure, &link, "permissions: 41471");
    has(Azure, &link, "is_symlink: true");
    has(Gcs, &link, "goog-reserved-file-is-symlink: true");
    let directory = entry(EntryKind::Directory, 0o1755);
    has(S3, &directory, "file-permissions: 0041755");
    has(Azure, &directory, "hdi_isfolder: true");
    has(Gcs, &directory, "hakobu-mode: 0041755");
    let device = EntryMetadata { device: 259 << 20 | 0x1_2345, ..entry(EntryKind::BlockDevice, 0o660) };
    has(S3, &device, "hakobu-device: 259:74565");
    // As `stat -c %r` prints it.
    has(Azure, &device, &format!("posix_rdev: {}", (0x123_u64 << 20) | (259 << 8) | 0x45));
    has(Azure, &device, "is_block_dev: true");
    has(Gcs, &device, "hakobu-device: 259:74565");
    has(Gcs, &device, "hakobu-mode: 0060660");
    let inode = Some(Inode { file_system: 0x803, number: 0x1f });
    let linked = EntryMetadata { links: 2, inode, ..entry(EntryKind::File, 0o644) };
    has(S3, &linked, "hakobu-inode: 803-1f");
    has(Azure, &linked, "hakobu_inode: 803-1f");
}

#[test]
fn azure_gets_no_hyphens_and_no_metadata_is_too_long() {
    let extreme = |kind| EntryMetadata {
        mode: 0o7777,
        uid: u32::MAX,
        gid: u32::MAX,
        size_bytes: u64::MAX,
        mtime: FileTime { seconds: i64::MIN, nanoseconds: 999_999_999 },
        device: u32::MAX,
        links: 2,
        inode: Some(Inode { file_system: u64::MAX, number: u64::MAX }),
        ..EntryMetadata::new(kind)
    };
    for (convention, number) in ALL.into_iter().flat_map(|it| (1..=7).map(move |number| (it, number))) {
        let kind = EntryKind::from_number(number).unwrap();
        let mut values = [(b"user.a".to_vec(), vec![1; 9000])];
        let extended = Extended::new(Classes::USUAL, &mut values).unwrap();
        let metadata = extreme(kind);
        let entry = ObjectEntry {
            metadata: &metadata,
            owner: true,
            extended: Some(extended.as_ref()),
            digest: Some(&[255; 32]),
            checksum: Some(StoredChecksum::Md5([255; 16])),
        };
        let encoded = convention.encode(&entry);
        let size = |(name, value): &(String, String)| convention.prefix().len() + name.len() + value.len();
        assert!(encoded.sidecar.is_some() && extended.as_ref().is_bulky());
        // Attributes that are not said to be bulky have no sidecars.
        let mut values = [(b"user.a".to_vec(), vec![1; KEPT_WITH_ENTRY_BYTES - 14])];
        let largest = Extended::new(Classes::USUAL, &mut values).unwrap();
        assert_eq!((largest.as_bytes().len(), largest.as_ref().is_bulky()), (KEPT_WITH_ENTRY_BYTES, false));
        let extended_too = ObjectEntry { extended: Some(largest.as_ref()), ..entry };
        assert!(convention.encode(&extended_too).sidecar.is_none());
        assert!(encoded.pairs.iter().map(size).sum::<usize>() <= convention.bytes_max());
        for (name, value) in &encoded.pairs {
            assert!(value.is_ascii() && !value.is_empty() && name.is_ascii());
            assert!(convention != Azure || !name.contains('-'), "{name}");
        }
        let read = convention.decode(kind == EntryKind::Directory, u64::MAX, pairs(&encoded.pairs));
        assert_eq!((read.kind, read.mode, read.malformed), (kind, Some(0o7777), 0));
        assert_eq!((read.mtime, read.digest), (Some(metadata.mtime), Some([255; 32])));
    }
}

#[test]
fn attributes_stay_inline_as_long_as_they_fit() {
    for convention in ALL {
        let metadata = entry(EntryKind::File, 0o644);
        let pairs_with = |bytes: usize| {
            let mut values = [(b"user.a".to_vec(), vec![1; bytes])];
            let extended = Extended::new(Classes::USUAL, &mut values).unwrap();
            let entry = ObjectEntry {
                metadata: &metadata,
                owner: true,
                extended: Some(extended.as_ref()),
                digest: None,
                checksum: None,
            };
            let MetadataPairs { pairs, sidecar } = convention.encode(&entry);
            (pairs, sidecar.is_some(), extended)
        };
        let size = |all: &[(String, String)]| {
            all.iter()
                .map(|(name, value)| convention.prefix().len() + name.len() + value.len())
                .sum::<usize>()
        };
        let longest = (0..9000).rev().find(|bytes| !pairs_with(*bytes).1).unwrap();
        let (all, _, extended) = pairs_with(longest);
        let value_bytes = all.last().unwrap().1.len();
        assert!(size(&all) <= convention.bytes_max() && value_bytes <= convention.value_bytes_max());
        let is_full = size(&all) + 4 > convention.bytes_max();
        assert!(is_full || value_bytes + 4 > convention.value_bytes_max());
        assert_eq!(is_full, convention != Gcs);
        let read = convention.decode(false, 12, pairs(&all));
        assert_eq!(read.extended, ObjectExtended::Inline(extended));
        let (all, _, extended) = pairs_with(longest + 1);
        let ObjectExtended::Sidecar(name) = convention.decode(false, 12, pairs(&all)).extended else {
            panic!("not a sidecar")
        };
        assert_eq!(name.listed_digest(), extended.as_ref().digest());
    }
}

#[test]
fn what_other_tools_wrote_is_read() {
    // FSx for Lustre and DataSync; File Gateway writes no type, and times without a unit are milliseconds.
    let it = file(
        S3,
        &[("file-permissions", "0100640"), ("file-owner", "5"), ("file-mtime", "1595002920000000001ns")],
    );
    assert_eq!((it.kind, it.mode, it.uid, it.gid), (EntryKind::File, Some(0o640), Some(5), None));
    assert_eq!(it.mtime, at(1_595_002_920, 1));
    let it = file(S3, &[("file-permissions", "0644"), ("file-mtime", "1595002920007")]);
    assert_eq!((it.kind, it.mode, it.mtime), (EntryKind::File, Some(0o644), at(1_595_002_920, 7_000_000)));
    // s3fs writes decimal modes, rclone --metadata octal ones.
    let it = file(S3, &[("mode", "33188"), ("uid", "5"), ("gid", "6"), ("mtime", "1595002920")]);
    assert_eq!((it.mode, it.uid, it.gid, it.mtime), (Some(0o644), Some(5), Some(6), at(1_595_002_920, 0)));
    for (mode, is_marker, kind, expected) in [
        ("100644", false, EntryKind::File, 0o644),
        ("33261", false, EntryKind::File, 0o755),
        ("41471", false, EntryKind::Symlink, 0o777),
        ("120777", false, EntryKind::Symlink, 0o777),
        ("16877", true, EntryKind::Directory, 0o755),
        ("40755", true, EntryKind::Directory, 0o755),
        ("41777", true, EntryKind::Directory, 0o1777),
    ] {
        let it = Gcs.decode(is_marker, 0, [("mode", mode)]);
        assert_eq!((it.kind, it.mode, it.malformed), (kind, Some(expected), 0), "{mode}");
    }
    // AzCopy, older style: what it wrote for a file and for a symbolic link.
    let it = file(
        Azure,
        &[
            ("Permissions", "33188"),
            ("Modtime", "1767323045123456700"),
            ("Posix_owner", "0"),
            ("posix_group", "7"),
        ],
    );
    assert_eq!((it.kind, it.mode, it.uid, it.gid), (EntryKind::File, Some(0o644), Some(0), Some(7)));
    assert_eq!(it.mtime, Some(TIME));
    let it = file(
        Azure,
        &[("is_symlink", "true"), ("is_char_dev", "true"), ("permissions", "41471"), ("posix_rdev", "0")],
    );
    assert_eq!((it.kind, it.mode), (EntryKind::Symlink, Some(0o777)));
    // AzCopy, newer style: octal, with a text for the time and no type.
    let newer =
        [("owner", "1"), ("group", "2"), ("permissions", "0755"), ("modtime", "2026-01-02 04:04:05 +0100")];
    let it = file(Azure, &[&newer[..], &[("is_symlink", "true")]].concat());
    assert_eq!((it.kind, it.mode, it.uid, it.gid), (EntryKind::Symlink, Some(0o755), Some(1), Some(2)));
    assert_eq!((it.mtime, it.malformed), (at(TIME.seconds, 0), 0));
    let it = Azure.decode(false, 0, [("hdi_isfolder", "True"), ("permissions", "16877")]);
    assert_eq!((it.kind, it.mode), (EntryKind::Directory, Some(0o755)));
    let it = file(
        Azure,
        &[
            ("is_block_dev", "true"),
            ("is_char_dev", "true"),
            ("hdi_isfolder", "true"),
            ("posix_rdev", "2049"),
        ],
    );
    assert_eq!((it.kind, it.device), (EntryKind::BlockDevice, Some(8 << 20 | 1)));
    // gsutil and gcloud; gcsfuse.
    let it = file(Gcs, &[("goog-reserved-file-mtime", "1595002920"), ("goog-reserved-posix-mode", "0750")]);
    assert_eq!((it.mode, it.mtime), (Some(0o750), at(1_595_002_920, 0)));
    let it = file(Gcs, &[("goog-reserved-file-is-symlink", "true")]);
    assert_eq!(it.kind, EntryKind::Symlink);
    let it = file(Gcs, &[("gcsfuse_mtime", "2026-01-02T03:04:05Z"), ("mtime", "2020-01-02T03:04:05Z")]);
    assert_eq!(it.mtime, at(TIME.seconds, 0));
}

/// As rclone 1.75.2 and AzCopy 10.32.2 wrote it for a file and a symbolic link.
#[test]
fn metadata_of_released_tools_is_read() {
    let time = at(1_577_934_245, 500_000_000);
    let rclone = [
        ("atime", "2020-01-02T03:04:05.5Z"),
        ("btime", "2026-11-27T11:58:06.919222158Z"),
        ("gid", "0"),
        ("mode", "104751"),
        ("uid", "0"),
    ];
    for (convention, mtime) in [(S3, "1577934245.5"), (Azure, "2020-01-02T03:04:05.500000000Z")] {
        let it = file(convention, &[&rclone[..], &[("mtime", mtime)]].concat());
        assert_eq!((it.kind, it.mode, it.uid, it.mtime), (EntryKind::File, Some(0o4751), Some(0), time));
    }
    let it = file(Gcs, &[("goog-reserved-file-mtime", "1577934245"), ("mtime", "2020-01-02T03:04:05.5Z")]);
    assert_eq!((it.mode, it.mtime, it.malformed), (None, time, 0));

    let azcopy = [
        ("linux_attribute", "0"),
        ("linux_attribute_mask", "3160180"),
        ("linux_btime", "1795780686919222158"),
        ("linux_statx_mask", "8191"),
        ("posix_atime", "1795780686980957935"),
        ("posix_ctime", "1795780686925643366"),
        ("posix_dev", "65024"),
        ("posix_ino", "1516919"),
        ("posix_nlink", "1"),
    ];
    let standard = [("modtime", "1577934245500000000"), ("posix_group", "0"), ("posix_owner", "0")];
    let newer = [("modtime", "2020-01-02 03:04:05 +0000"), ("group", "0"), ("owner", "0")];
    let link = [("is_char_dev", "true"), ("is_symlink", "true"), ("posix_rdev", "0")];
    for (style, file_mode, link_mode, time) in
        [(standard, "35305", "41471", time), (newer, "0751", "0777", at(1_577_934_245, 0))]
    {
        let it = file(Azure, &[&azcopy[..], &style, &[("permissions", file_mode)]].concat());
        assert_eq!((it.kind, it.mode.map(|mode| mode & 0o777)), (EntryKind::File, Some(0o751)));
        assert_eq!((it.uid, it.gid, it.mtime, it.malformed), (Some(0), Some(0), time, 0));
        let it = file(Azure, &[&azcopy[..], &style, &link, &[("permissions", link_mode)]].concat());
        assert_eq!((it.kind, it.mode, it.malformed), (EntryKind::Symlink, Some(0o777), 0));
    }
}

#[test]
fn a_later_change_of_another_tool_wins() {
    let metadata = entry(EntryKind::File, 0o4755);
    for convention in ALL {
        let entry = ObjectEntry {
            metadata: &metadata,
            owner: true,
            extended: None,
            digest: Some(&[7; 32]),
            checksum: None,
        };
        let written = convention.encode(&entry).pairs;
        let set = |changes: &[(&str, &str)], size_bytes| {
            let kept = pairs(&written).filter(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
            convention.decode(false, size_bytes, kept.chain(changes.iter().copied()))
        };
        let same = set(&[], 12);
        assert_eq!((same.mtime, same.mode, same.digest), (Some(TIME), Some(0o4755), Some([7; 32])));
        assert_eq!(set(&[], 13).digest, None);
        // `rclone touch` rewrites its own time alone.
        let touched = set(&[("mtime", "1595002920.5")], 12);
        assert_eq!((touched.mtime, touched.digest), (at(1_595_002_920, 500_000_000), None));
        // s3fs adds its own names.
        let changed = set(&[("mode", "33152"), ("uid", "9"), ("gid", "8")], 12);
        assert_eq!((changed.mode, changed.uid, changed.gid), (Some(0o600), Some(9), Some(8)));
    }
    // Only the convention's permissions were changed: the set-user-ID bit does not come back.
    let mut written = encode(Gcs, &metadata);
    for (name, value) in &mut written {
        if name == "goog-reserved-posix-mode" {
            *value = "700".to_owned();
        }
    }
    assert_eq!(Gcs.decode(false, 12, pairs(&written)).mode, Some(0o700));
    // gcsfuse keeps all metadata when it rewrites the content.
    let written = encode(Gcs, &metadata);
    let rewritten = Gcs.decode(false, 12, pairs(&written).chain([("gcsfuse_mtime", "2026-01-03T00:00:00Z")]));
    assert_eq!((rewritten.mtime, rewritten.digest), (at(1_767_398_400, 0), None));
}

#[test]
fn malformed_values_are_counted_and_missing() {
    for (convention, name, values) in [
        (
            S3,
            "mtime",
            &["", "x", "1.", ".5", "1e9", "+1", "--1", "1.5.5", "99999999999999999999", "0x10", "1 2"][..],
        ),
        (
            S3,
            "file-mtime",
            &["", "ns", "1.5ns", "1 ns", "1us", "9999999999999999999999999999999999999999999ns"],
        ),
        (
            S3,
            "file-permissions",
            &["", "888", "0030644", "-644", "0o644", "07777777", "99999999999999999999"],
        ),
        (S3, "file-owner", &["", "root", "4294967296", "-1", "1.0", "１"]),
        (Azure, "permissions", &["", "-1", "99999", "rwx", "33188x"]),
        (
            Azure,
            "modtime",
            &["", "1.5", "2026-01-02", "2026-13-02 03:04:05 +0000", "2026-01-02 03:04:05 +00ü0"],
        ),
        (Azure, "is_symlink", &["", "1", "yes"]),
        (Azure, "posix_rdev", &["", "x", "18446744073709551615", "18446744073709551616"]),
        (Gcs, "goog-reserved-posix-mode", &["888", "100644"]),
        (
            Gcs,
            "mtime",
            &["2026-02-30T00:00:00Z", "2026-01-02T24:00:00Z", "2026-01-02T03:04:05", "2026-01-02T03:04:05.Z"],
        ),
        (Gcs, "hakobu-mode", &["0644", "x"]),
        (Gcs, "hakobu-device", &["1", "1:", ":1", "4096:0", "0:1048576", "1:2:3"]),
        (Gcs, "hakobu-inode", &["1", "-1", "1-", "A-1", "10000000000000000-0"]),
        (Gcs, "hakobu-blake3", &["00", "0/0", "zz/1"]),
    ] {
        let clean = file(convention, &[]);
        for value in values {
            let it = file(convention, &[(name, value)]);
            assert_eq!(it, ObjectMetadata { malformed: 1, ..clean.clone() }, "{name}: {value}");
        }
    }
    // Names without a prefix may be anybody's.
    for pair in [("mode", "dark"), ("uid", "x"), ("mode", "644"), ("uid", "5")] {
        assert_eq!(file(S3, &[pair]), file(S3, &[]));
    }
}

#[test]
fn malformed_extended_attributes_make_an_entry_unreadable() {
    for value in ["", "AAAA=", "!!!!", "AAAB", "sidecar:zz", "sidecar:0f:00"] {
        let it = file(S3, &[("hakobu-attributes", value)]);
        assert_eq!((&it.extended, it.malformed), (&ObjectExtended::Malformed, 1), "{value}");
    }
}

#[test]
fn a_value_that_was_removed_says_nothing() {
    let kept = [("goog-reserved-posix-mode", "507")];
    let removed = ["hakobu-mode", "hakobu-attributes", "hakobu-inode", "goog-reserved-file-is-symlink"];
    let pairs: Vec<_> = kept.into_iter().chain(removed.map(|name| (name, ""))).collect();
    assert_eq!(file(Gcs, &pairs), file(Gcs, &kept));
}

#[test]
fn a_key_decides_what_is_a_directory() {
    let it = file(S3, &[("file-permissions", "0040755")]);
    assert_eq!((it.kind, it.mode, it.malformed), (EntryKind::File, Some(0o755), 1));
    let it = S3.decode(true, 0, [("file-permissions", "0120777")]);
    assert_eq!((it.kind, it.malformed), (EntryKind::Directory, 1));
    assert_eq!(S3.decode(true, 0, []).kind, EntryKind::Directory);
    assert_eq!(file(S3, &[("hdi_isfolder", "true")]).kind, EntryKind::File);
}

#[test]
fn an_entry_is_described_with_what_is_known() {
    let of = |metadata: &[(&str, &str)]| {
        let owned = metadata.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let head = ObjectHead {
            size_bytes: 12,
            uploaded: TIME,
            version: ObjectVersion::default(),
            metadata: owned.collect(),
            content_type: None,
            checksum: None,
            md5: None,
            storage_class: None,
            is_archived: false,
        };
        described(&LIMITS, &head, false)
    };
    let bare = of(&[]).metadata;
    assert_eq!((bare.mode, bare.uid, bare.mtime, bare.ctime, bare.links), (0o644, 0, TIME, TIME, 1));
    let linked = of(&[("hakobu-inode", "803-1f")]);
    assert_eq!(linked.stored_inode, Some(Inode { file_system: 0x803, number: 0x1f }));
    assert!(linked.metadata.links == u32::MAX && linked.metadata.inode.is_some());
    assert!(!bare.bulky && of(&[("hakobu-attributes", SIDECAR)]).metadata.bulky);
    let device = [("file-permissions", "0060660"), ("hakobu-device", "8:1")];
    assert!(of(&device[..1]).lacks_number && !of(&device).lacks_number);
}

fn any_entry() -> impl Strategy<Value = EntryMetadata> {
    let time = (prop_oneof![any::<i64>(), -1 << 40..1_i64 << 40, -10_i64..10], 0_u32..1_000_000_000);
    let time = time.prop_map(|(seconds, nanoseconds)| FileTime { seconds, nanoseconds });
    let ids = (any::<u32>(), any::<u32>(), any::<u32>());
    let inode = prop::option::of(any::<(u64, u64)>());
    (1_u8..=7, 0_u32..=0o7777, ids, any::<u64>(), time, inode).prop_map(
        |(kind, mode, (uid, gid, device), size_bytes, mtime, inode)| {
            let kind = EntryKind::from_number(kind).unwrap();
            let is_device = matches!(kind, EntryKind::BlockDevice | EntryKind::CharDevice);
            let inode = inode.filter(|_| kind != EntryKind::Directory);
            EntryMetadata {
                mode,
                uid,
                gid,
                size_bytes,
                mtime,
                ctime: TIME,
                device: if is_device { device } else { 0 },
                links: if inode.is_some() { u32::MAX } else { 1 },
                inode: inode.map(|(file_system, number)| Inode { file_system, number }),
                ..EntryMetadata::new(kind)
            }
        },
    )
}

proptest! {
    #[test]
    fn whatever_is_written_comes_back(
        metadata in any_entry(),
        digest in prop::option::of(any::<[u8; 32]>()),
        checksum in prop::option::of(any::<u64>().prop_map(StoredChecksum::Crc64)),
        values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..4),
    ) {
        let mut values: Vec<_> = values.into_iter().enumerate()
            .map(|(index, value)| (format!("user.{index}").into_bytes(), value)).collect();
        let extended = Extended::new(Classes::USUAL, &mut values).unwrap();
        let mut metadata = metadata;
        metadata.extended = extended.as_ref().digest();
        for convention in ALL {
            let entry = ObjectEntry { metadata: &metadata, owner: true, extended: Some(extended.as_ref()), digest: digest.as_ref(), checksum: checksum.filter(|_| digest.is_some()) };
            let encoded = convention.encode(&entry);
            let is_marker = metadata.kind == EntryKind::Directory;
            let read = convention.decode(is_marker, metadata.size_bytes, pairs(&encoded.pairs));
            prop_assert_eq!(read.malformed, 0);
            prop_assert_eq!((read.digest, read.checksum), (digest, checksum.filter(|_| digest.is_some())));
            let EntryMetadata { kind, mode, uid, gid, mtime, device, inode, .. } = metadata;
            prop_assert_eq!((read.kind, read.mode, read.mtime), (kind, Some(mode), Some(mtime)));
            prop_assert_eq!((read.uid, read.gid, read.device.unwrap_or(0)), (Some(uid), Some(gid), device));
            prop_assert_eq!(read.inode, inode);
            match read.extended {
                ObjectExtended::Inline(read) => prop_assert_eq!(read, extended.clone()),
                ObjectExtended::Sidecar(name) => prop_assert_eq!(name, Sidecar::new(extended.as_ref()).name),
                read => prop_assert!(read == ObjectExtended::None && extended.as_ref().is_empty()),
            }
        }
    }

    #[test]
    fn arbitrary_values_never_panic(
        pairs in prop::collection::vec((select_name(), prop_oneof![".*", "[0-9TZ:+. -]{0,40}", "[0-7]{0,9}(ns)?"]), 0..12),
        is_marker in any::<bool>(),
        size_bytes in any::<u64>(),
    ) {
        for convention in ALL {
            let read = convention.decode(is_marker, size_bytes, pairs.iter().map(|(name, value)| (*name, &**value)));
            prop_assert!(read.mode.is_none_or(|mode| mode <= 0o7777));
            prop_assert!(read.mtime.is_none_or(|time| time.nanoseconds < 1_000_000_000));
            prop_assert_eq!(read.kind == EntryKind::Directory, is_marker || read.kind == EntryKind::Directory);
        }
    }

    #[test]
    fn times_are_written_as_text_where_a_year_has_four_digits(metadata in any_entry()) {
        let is_text = encode(Gcs, &metadata)[0].1.ends_with('Z');
        prop_assert_eq!(is_text, (0..=9999).contains(&year_of(metadata.mtime.seconds)));
    }
}

fn select_name() -> impl Strategy<Value = &'static str> {
    const NAMES: [&str; 32] = [
        "mtime",
        "mode",
        "uid",
        "gid",
        "file-mtime",
        "file-permissions",
        "file-owner",
        "file-group",
        "permissions",
        "modtime",
        "owner",
        "group",
        "posix_owner",
        "posix_group",
        "is_symlink",
        "is_socket",
        "is_block_dev",
        "hdi_isfolder",
        "is_char_dev",
        "is_fifo",
        "posix_rdev",
        "goog-reserved-file-mtime",
        "goog-reserved-posix-mode",
        "goog-reserved-file-is-symlink",
        "gcsfuse_mtime",
        "hakobu-mode",
        "hakobu-device",
        "hakobu-inode",
        "hakobu-blake3",
        "hakobu-attributes",
        "hakobu_attributes",
        "hakobu_blake3",
    ];
    prop::sample::select(&NAMES[..])
}
