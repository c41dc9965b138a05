//! Checks the test vectors of `docs/PROTOCOL.md` in both directions: the code encodes values to the documented bytes,
//! and decodes these bytes to the same values.
//!
//! A missing or wrong vector is reported with the correct line. Such a line may be added to the document only
//! together with a new version of the protocol.

#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use hakobu_core::block_table::Copied;
use hakobu_core::checksum::crc64;
use hakobu_core::content::content_sum;
use hakobu_core::counters::FarTime;
use hakobu_core::disk::{DeviceFacts, DeviceNumber, DeviceUse, DiskList, UseKind};
use hakobu_core::endpoint::{self, Change, Detail, TargetOutcome};
use hakobu_core::entry::{AccountId, Attributes, EntryKind, EntryMetadata, FileTime, Inode};
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::extended::{Classes, Extended};
use hakobu_core::extent::Extent;
use hakobu_core::grant::{Grant, GrantedPlace};
use hakobu_core::host::{Capped, HostFacts, NetworkDevice, WayOut};
use hakobu_core::listing::{DirectoryListing, Listing};
use hakobu_core::losses::{Loss, LossKind};
use hakobu_core::pace::{RateLimit, RunLimits};
use hakobu_core::pack::{FileContent, PackBuilder, PackContent, PackReader, PackRecord, RecordHead};
use hakobu_core::path::EntryPath;
use hakobu_core::probe::{MeasuredWork, REMARKS_MAX, STEPS_MAX, WayFigures, WayStep, WriteAsk, WriteFigures};
use hakobu_core::tag::{TagKey, Tagger};
use hakobu_proto::compressed;
use hakobu_proto::control::{
    AgentMessage, Cipher, CipherSpeed, ConnectMode, ConnectRequest, ListeningPort, ProbeAnswer, ProbeAsk,
    Request, ServeRequest,
};
use hakobu_proto::data::{
    self, Abandon, ApplyChanges, Assemble, BeginDraft, ByteBuf, Complete, DigestReply, Digests, FailedReply,
    Finish, HashRange, Hello, ListMessage, ListRequest, NumbersRequest, Patch, SetLength, StatReply,
    StatRequest, StoredReply, TimesReply, WeakSums, WritePiece, ZeroRange,
};
use hakobu_proto::frame::{HEADER_BYTES, Header, SEAL_BYTES, Seal, SealChecker, SealKey, Sealer};
use hakobu_proto::listings::{self, Assembler};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The vectors of the document by name: `name = hexadecimal`, in blocks marked `vectors`.
struct Vectors(BTreeMap<String, Vec<u8>>);

impl Vectors {
    fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/PROTOCOL.md");
        let text = std::fs::read_to_string(path).expect("the document is there");
        let mut vectors = BTreeMap::new();
        for block in text.split("\n```vectors\n").skip(1) {
            let (block, _) = block.split_once("\n```").expect("the block is closed");
            let mut last = String::new();
            for line in block.lines() {
                // A line without a name continues the previous one.
                let digits = match line.split_once('=') {
                    Some((name, digits)) => {
                        last = name.trim().to_owned();
                        let new = vectors.insert(last.clone(), Vec::new()).is_none();
                        assert!(new, "{last} is there twice");
                        digits
                    }
                    None => line,
                };
                vectors.get_mut(&last).expect("a name comes first").extend(unhex(digits));
            }
        }
        assert!(vectors.len() > 10, "the document has vectors");
        Self(vectors)
    }

    fn check(&self, name: &str, bytes: &[u8]) {
        let known = self.0.get(name).map(|known| hex(known));
        assert_eq!(known.as_deref(), Some(hex(bytes).as_str()), "{name} = {}", hex(bytes));
    }

    /// Checks the postcard encoding of a value, both ways.
    fn message<T: Serialize + DeserializeOwned + Debug>(&self, name: &str, value: &T) {
        let mut bytes = Vec::new();
        data::encode(value, &mut bytes).unwrap();
        self.check(name, &bytes);
        let decoded: T = data::decode(&self.0[name]).unwrap();
        assert_eq!(format!("{decoded:?}"), format!("{value:?}"), "{name}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "half a byte in {text}");
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn path(text: &str) -> EntryPath {
    EntryPath::new(text).unwrap()
}

fn attributes() -> Attributes {
    let mtime = FileTime { seconds: 1_700_000_000, nanoseconds: 123_456_789 };
    Attributes { mode: 0o640, uid: 1000, gid: 100, mtime }
}

fn metadata() -> EntryMetadata {
    let Attributes { mode, uid, gid, mtime } = attributes();
    let ctime = FileTime { seconds: -1, nanoseconds: 999_999_999 };
    EntryMetadata {
        mode,
        uid,
        gid,
        size_bytes: 5,
        mtime,
        ctime,
        links: 2,
        inode: Some(Inode { file_system: 3, number: 4 }),
        extended: extended().as_ref().digest(),
        ..EntryMetadata::new(EntryKind::File)
    }
}

fn extended() -> Extended {
    Extended::new(Classes::USUAL, &mut [(b"user.a".to_vec(), b"value".to_vec())]).unwrap()
}

/// A machine about which little is known.
fn settings() -> HostFacts {
    let mut facts = HostFacts { kernel: Some((6, 12)), ..HostFacts::default() };
    facts.tcp.receive_buffer_bytes = Some([4096, 131_072, 1 << 20]);
    facts.tcp.window_scaling = Some(false);
    facts.tcp.congestion_control = "bbr".into();
    facts.devices.push(NetworkDevice {
        name: "eth0".into(),
        up: true,
        mtu_bytes: 1500,
        ..NetworkDevice::default()
    });
    facts.way_out = Some(WayOut { device: "eth0".into(), routed: true });
    facts.limits.open_files = (Capped::At(1024), Capped::Unlimited);
    facts
}

/// A disk about which little is known.
fn disk() -> DeviceFacts {
    let mut disk =
        DeviceFacts { name: b"sda".to_vec(), path: b"/dev/sda".to_vec(), ..DeviceFacts::default() };
    disk.identity.id = "made.1".to_owned();
    disk.identity.number = DeviceNumber { major: 8, minor: 0 };
    disk.size_bytes = 1 << 30;
    disk.uses.push(DeviceUse { device: b"sda".to_vec(), kind: UseKind::Swap });
    disk
}

fn no_space() -> Error {
    Error::new(ErrorKind::NoSpace, "writing", "no space left on device").at("a/b")
}

#[test]
fn frames() {
    let vectors = Vectors::read();
    let header = Header::new(0x21, 0x80, 0xdead_beef, 5, 262_144, 0x0123_4567_89ab_cdef).unwrap();
    vectors.check("header", &header.encode());
    let bytes: [u8; HEADER_BYTES] = vectors.0["header"].as_slice().try_into().unwrap();
    assert_eq!(Header::decode(&bytes).unwrap(), header);
    vectors.check("crc-64/nvme of 123456789", &crc64(b"123456789").to_le_bytes());
}

#[test]
fn tags() {
    let vectors = Vectors::read();
    let tagger = Tagger::new(TagKey([0x11; 16])).unwrap();
    vectors.check("tag of abc under a key of 16 bytes 11", &tagger.tag(b"abc").unwrap()[..16]);
    let piece = tagger.piece(&tagger.blocks_of(&[0x5a; 5000]).unwrap()).unwrap();
    vectors.check("tag of a piece of 5000 bytes 5a under it", &piece[..16]);
}

#[test]
fn seals() {
    let vectors = Vectors::read();
    let payload = [0x5a; 1000];
    let digest: [u8; 32] = blake3::hash(&payload).into();
    let header = Header::new(0x21, 0, 9, 5, payload.len(), 0).unwrap();
    let mut sealer = Sealer::new(SealKey::new(&[7; 32]));
    let mut opener = SealChecker::new(SealKey::new(&[7; 32]));
    for name in ["seal, first", "seal, second"] {
        let seal = sealer.seal(&header, &digest, b"hello").unwrap();
        vectors.check(name, &seal.encode());
        let known: [u8; SEAL_BYTES] = vectors.0[name].as_slice().try_into().unwrap();
        opener.open(&header.encode(), &header, &Seal::decode(&known), b"hello").unwrap();
    }
}

#[test]
fn messages_on_data_connections() {
    let vectors = Vectors::read();
    vectors.message("hello", &Hello { lane: 300 });
    vectors.message("inspect", &StatRequest { path: path("a/b"), extended: Classes::USUAL });
    let detail = Detail { extended: Classes::USUAL, ..Detail::default() };
    vectors.message("list, meta", &ListMessage { budget: 1024, detail });
    vectors.check("extended attributes", extended().as_bytes());
    vectors.message("list, payload", &ListRequest(vec![EntryPath::root(), path("a/b")]));
    let begin =
        BeginDraft { draft: 1 << 48, begin: endpoint::DraftParameters::file(path("a/b"), 5_000_000_000) };
    vectors.message("begin", &begin);
    let tag_key = Some(TagKey([0x11; 16]));
    vectors.message(
        "begin with a key",
        &BeginDraft { begin: endpoint::DraftParameters { tag_key, ..begin.begin }, ..begin },
    );
    vectors
        .message("zero", &ZeroRange { draft: 1 << 48, extent: Extent { offset: 262_144, length: 4 << 20 } });
    let extent = Extent { offset: 4 << 20, length: 262_144 };
    vectors.message("sign", &HashRange { draft: 1 << 48, extent, blocks: false });
    let patch = Patch { draft: 1 << 48, extent, changed: 0x8000_0000_0000_0005, value: [0xab; 32] };
    vectors.message("patch", &patch);
    let old = Extent { offset: 8 << 20, length: 4 << 20 };
    vectors.message("sum", &WeakSums { draft: 1 << 48, extent: old, block_bytes: 65_536 });
    let copies = vec![Copied { at: 1, length: 262_143, from: (8 << 20) - 1 }];
    vectors.message("assemble", &Assemble { draft: 1 << 48, extent, copies, value: [0xab; 32] });
    let complete = Complete { draft: 1 << 48, extent, value: Some([0xab; 32]), kept: true };
    vectors.message("complete", &complete);
    vectors.message("length", &SetLength { draft: 1 << 48, size_bytes: 4 << 20 });
    vectors.message("write", &WritePiece { draft: 1 << 48, offset: 262_144 });
    let finish = Finish { draft: 1 << 48, attributes: attributes(), digest: None };
    vectors.message("finish", &finish);
    vectors.message("finish with digest", &Finish { digest: Some([0xab; 32]), ..finish });
    let names = vec![ByteBuf(b"f".to_vec())];
    let digests = Digests { directory: path("a/b"), names, key: None };
    vectors.message("digest", &digests);
    vectors.message("digest with a key", &Digests { key: Some(TagKey([0x11; 16])), ..digests });
    let digested = DigestReply(vec![Ok([0xab; 32]), Err(no_space())]);
    vectors.message("digested", &digested);
    let names = NumbersRequest(vec![(AccountId::Group(7), ByteBuf(b"staff".to_vec()))]);
    vectors.message("numbers", &names);
    let numbers: data::NumbersReply = vec![Some(50), None];
    vectors.message("numbered", &numbers);
    vectors.message("abandon", &Abandon { draft: 1 << 48, keep: true });
    let changes = vec![
        Change::MakeDirectory { path: path("a"), mode: 0o755 },
        Change::Directory { path: path("a/b"), attributes: attributes(), extended: None },
        Change::Attributes { path: path("a/c"), attributes: attributes(), extended: Some(extended()) },
        Change::Link { path: path("a/e"), to: path("a/c"), replaces: true },
        Change::Remove { path: path("a/d"), directory: true, kept_names: 1 },
    ];
    vectors.message("apply", &ApplyChanges(changes));
    vectors.message("inspected, nothing", &StatReply(None));
    vectors.message("inspected", &StatReply(Some(metadata())));
    let losses = vec![Loss { what: LossKind::Owner, count: 3, at_target: true, example: b"a/c".to_vec() }];
    vectors.message("stored", &StoredReply { failures: vec![(7, no_space())], losses });
    vectors.message("failed", &FailedReply(no_space()));
    let times = FarTime { all_ns: 300, input_ns: 1, work_ns: 2, processor_ns: 3, queued_ns: 4 };
    vectors.message("times", &TimesReply(times));
}

/// Only decoding is checked, since other versions of the compressor may produce different bytes.
#[test]
fn compressed_content() {
    let payload = &Vectors::read().0["compressed"];
    let (head, packed) = compressed::CompressedHead::decode(payload, false, 1000).unwrap();
    assert_eq!(head, compressed::CompressedHead { content_bytes: 1000, digest: None });
    assert_eq!(zstd::bulk::decompress(packed, 1000).unwrap(), [0x5a; 1000]);
}

#[test]
fn packs() {
    let vectors = Vectors::read();
    let mut pack = PackBuilder::new(Vec::new());
    pack.directory(&path("a/b"));
    let extended = extended();
    let file = RecordHead {
        sparse: true,
        extended: Some(extended.as_ref()),
        ..RecordHead::new(b"f", attributes()).replacing(true)
    };
    let content = FileContent { bytes: b"hello", sum: content_sum(b"hello") };
    pack.whole_file(&file, content.bytes, content.sum);
    pack.symlink(&RecordHead::new(b"l", attributes()), b"../f");
    vectors.check("pack", &pack.finish());

    let mut reader = PackReader::new(&vectors.0["pack"]);
    assert_eq!(reader.read().unwrap(), Some(PackRecord::Directory { path: path("a/b") }));
    assert_eq!(reader.read().unwrap(), Some(PackRecord::Entry(file, PackContent::File(content))));
    let link = PackRecord::Entry(RecordHead::new(b"l", attributes()), PackContent::Symlink(b"../f"));
    assert_eq!(reader.read().unwrap(), Some(link));
    assert_eq!(reader.read().unwrap(), None);
}

#[test]
fn listing_frames() {
    let vectors = Vectors::read();
    let mut listing = Listing::default();
    listing.push(b"f", metadata()).unwrap();
    let listings = [
        DirectoryListing { path: path("a/b"), result: Ok(listing) },
        DirectoryListing { path: EntryPath::root(), result: Err(no_space()) },
    ];
    let mut frames = Vec::new();
    listings::encode(&listings, &mut Vec::new(), |payload, more| {
        frames.push((payload.to_vec(), more));
        Ok::<_, Error>(())
    })
    .unwrap();
    assert!(matches!(frames.as_slice(), [(_, false)]), "one frame, and no more to come");
    vectors.check("listed", &frames[0].0);

    let mut assembler = Assembler::new(10);
    assembler.frame(&vectors.0["listed"]).unwrap();
    let TargetOutcome::Listed(read) = assembler.finish().unwrap() else { panic!("no listing") };
    let entries = read[0].result.as_ref().unwrap();
    assert_eq!((entries.len(), entries.name(0), entries.metadata(0)), (1, &b"f"[..], &metadata()));
    assert_eq!(read[1].result.as_ref().unwrap_err(), &no_space());
}

#[test]
fn control_messages() {
    let vectors = Vectors::read();
    let hello = Request::Hello { oldest: 1, newest: 1, digest: true };
    vectors.message("request hello", &hello);
    let listen = Request::Listen { address: None, port: Some(5000) };
    vectors.message("request listen", &listen);
    let place = GrantedPlace::new(path("data"), true);
    let grant = Grant {
        places: vec![place],
        may_chown: true,
        may_set_id: false,
        may_make_devices: false,
        may_remove: true,
        only_reads: false,
        bytes_max: Some(1 << 30),
        source_directories: Vec::new(),
        lease: None,
        may_write_in_place: false,
    };
    let serve = ServeRequest {
        job: [0x11; 16],
        root: b"/srv".to_vec(),
        grant,
        peer: [0x22; 32],
        cipher: Cipher::Aes128Gcm,
        way: ConnectMode::Accept,
        lanes: 2,
        lanes_max: 8,
    };
    vectors.message("request serve", &Request::Serve(serve));
    let way = ConnectMode::Dial { addresses: vec!["192.0.2.1".to_owned()], port: 5000 };
    let connect = ConnectRequest { peer: [0x33; 32], cipher: Cipher::None, way, lanes: 2, lanes_max: 8 };
    vectors.message("request connect", &Request::Connect(connect));
    vectors.message("request cancel", &Request::Cancel);
    vectors.message("request end serving", &Request::EndServing);
    vectors.message("request disks", &Request::Disks);
    vectors.message("request ciphers", &Request::Ciphers);
    vectors.message("request settings", &Request::Settings);
    let ask = WriteAsk {
        path: b"/srv".to_vec(),
        write: true,
        gentle: false,
        lanes: 16,
        device: b"made.7".to_vec(),
    };
    vectors.message("request probe", &Request::Probe(ProbeAsk::Target(ask)));
    let rate = RateLimit::parse("08:00,20M 19:00,off", 3600).unwrap();
    let limits = RunLimits { rate, operations_per_second: Some(500), source_p99_us: None };
    vectors.message("request limits", &Request::Limits(limits));
    vectors.message("request alive", &Request::Alive);
    vectors.message(
        "request hold apart",
        &Request::HoldApart(vec![Inode { file_system: 1 << 35 | 3, number: 7 }]),
    );
    let listening = ListeningPort { port: 5000, addresses: vec!["192.0.2.1".to_owned()], process: 300 };
    vectors.message("answer listening", &AgentMessage::Listening(Ok(listening)));
    vectors.message("answer refused", &AgentMessage::Refused(no_space()));
    vectors.message("answer disks", &AgentMessage::Disks(Ok(DiskList(vec![disk()]))));
    let speed = CipherSpeed { aes_128_gcm: 1, aes_256_gcm: 300, chacha20_poly1305: 2 };
    vectors.message("answer ciphers", &AgentMessage::Ciphers(speed));
    vectors.message("answer settings", &AgentMessage::Settings(Ok(Box::new(settings()))));
    vectors.message("answer probe", &AgentMessage::Probe(Ok(Box::new(ProbeAnswer::Way(measured_way())))));
}

fn measured_way() -> WayFigures {
    let sent = MeasuredWork {
        count: 0,
        bytes: 1 << 20,
        elapsed_ns: 1_000_000,
        processor_ns: 300,
        queued_ns: 9,
        threads: 2,
    };
    let step = WayStep { connections: 2, sent, retransmits: 7, ..WayStep::default() };
    WayFigures { steps: vec![step], round_trip_us: Some(100), mtu_bytes: Some(1500), at_least: false }
}

#[test]
fn figures_that_are_too_many_do_not_decode() {
    let decodes =
        |answer: ProbeAnswer| postcard::from_bytes::<ProbeAnswer>(&postcard::to_stdvec(&answer).unwrap());
    let steps = |count| WayFigures { steps: vec![WayStep::default(); count], ..WayFigures::default() };
    assert!(decodes(ProbeAnswer::Way(steps(STEPS_MAX))).is_ok());
    assert!(decodes(ProbeAnswer::Way(steps(STEPS_MAX + 1))).is_err());
    let remarks =
        |count, length| WriteFigures { remarks: vec!["x".repeat(length); count], ..WriteFigures::default() };
    assert!(decodes(ProbeAnswer::Target(remarks(REMARKS_MAX, 512))).is_ok());
    assert!(decodes(ProbeAnswer::Target(remarks(REMARKS_MAX + 1, 1))).is_err());
    assert!(decodes(ProbeAnswer::Target(remarks(1, 513))).is_err());
}
