//! Tests with malicious servers. Each is a thread that answers with arbitrary bytes.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hakobu_core::Result;
use hakobu_core::checksum::crc64;
use hakobu_core::endpoint::{
    Check, CompletionWait, Detail, DraftParameters, FetchedPack, Pick, Picks, PieceBuffer, SourceEndpoint,
    SourceFile, SourceOp, SourceOutcome, TargetEndpoint, TargetLane, TargetOp,
};
use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata, FileTime};
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::extended::ExtendedAsk;
use hakobu_core::extent::{Extent, PIECE_BYTES};
use hakobu_core::grant::Grant;
use hakobu_core::pack::PACK_BYTES_USUAL;
use hakobu_core::path::EntryPath;
use hakobu_testkit::conformance::ask;

use super::{Channel, SftpAccess, SftpLook, SftpSource, SftpTarget, SftpTargetOptions};

/// Returns a server's answer to a request of this type and ID, with the bytes that follow the ID.
type Answering = fn(u8, u32, &[u8]) -> Vec<u8>;

const OPEN: u8 = 3;
const CLOSE: u8 = 4;
const READ: u8 = 5;
const WRITE: u8 = 6;
const LSTAT: u8 = 7;
const FSTAT: u8 = 8;
const FSETSTAT: u8 = 10;
const OPENDIR: u8 = 11;
const READDIR: u8 = 12;

fn packet(kind: u8, id: u32, rest: &[&[u8]]) -> Vec<u8> {
    let rest = rest.concat();
    let length = 5 + rest.len() as u32;
    [&length.to_be_bytes()[..], &[kind], &id.to_be_bytes(), &rest].concat()
}

fn text(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

fn status(id: u32, code: u32) -> Vec<u8> {
    packet(101, id, &[&code.to_be_bytes(), &text(b""), &text(b"")])
}

/// Encodes attributes with this mode and size, changed a thousand seconds after 1970.
fn attrs(mode: u32, size_bytes: u64) -> Vec<u8> {
    let numbers = [0u32, 0, mode, 1000, 1000].map(u32::to_be_bytes).concat();
    [&15u32.to_be_bytes()[..], &size_bytes.to_be_bytes(), &numbers].concat()
}

fn names(id: u32, all: &[&[u8]]) -> Vec<u8> {
    let named = all.iter().map(|name| [text(name), text(b""), attrs(0o100_644, 1)].concat());
    packet(104, id, &[&(all.len() as u32).to_be_bytes(), &named.collect::<Vec<_>>().concat()])
}

/// Answers correctly for requests that a case does not concern: one directory with one large file.
fn usual(kind: u8, id: u32, rest: &[u8]) -> Vec<u8> {
    let is_large = rest.ends_with(b"large") || kind == FSTAT;
    match kind {
        OPEN | OPENDIR => packet(102, id, &[&text(b"h")]),
        LSTAT | FSTAT if is_large => packet(105, id, &[&attrs(0o100_644, 2 * PIECE_BYTES)]),
        LSTAT => packet(105, id, &[&attrs(0o040_755, 0)]),
        READDIR => status(id, 1),
        _ => status(id, 0),
    }
}

fn source(greeting: Vec<u8>, answering: Answering) -> Result<SftpSource> {
    let (access, look) = reached(greeting, answering)?;
    Ok(SftpSource::new(access, &look, &[b"/root".to_vec()]))
}

fn reached(greeting: Vec<u8>, answering: Answering) -> Result<(SftpAccess, SftpLook)> {
    let connect = move |_: &AtomicBool| -> Result<Channel> {
        let fail = |error: std::io::Error| Error::io("connecting", &error);
        let (ours, theirs) = UnixStream::pair().map_err(fail)?;
        let greeting = greeting.clone();
        std::thread::spawn(move || serve(theirs, &greeting, answering));
        let from_server = ours.try_clone().map_err(fail)?.into();
        Ok(Channel { to_server: ours.into(), from_server, process: Box::new(()) })
    };
    let access = SftpAccess { connect: Arc::new(connect), is_root: false, cancel: Arc::default() };
    let look = SftpLook::open((access.connect)(&AtomicBool::new(false))?, &access)?;
    Ok((access, look))
}

fn serve(mut stream: UnixStream, greeting: &[u8], answering: Answering) {
    let mut init = [0; 9];
    if stream.read_exact(&mut init).is_err() || stream.write_all(greeting).is_err() {
        return;
    }
    loop {
        let mut length = [0; 4];
        if stream.read_exact(&mut length).is_err() {
            return;
        }
        let mut request = vec![0; u32::from_be_bytes(length) as usize];
        if stream.read_exact(&mut request).is_err() {
            return;
        }
        let id = u32::from_be_bytes([request[1], request[2], request[3], request[4]]);
        if stream.write_all(&answering(request[0], id, &request[5..])).is_err() {
            return;
        }
    }
}

fn greeting() -> Vec<u8> {
    [&5u32.to_be_bytes()[..], &[2], &3u32.to_be_bytes()].concat()
}

fn list(answering: Answering) -> Result<usize> {
    let mut lane = source(greeting(), answering)?.open_source_lane(0)?;
    let directories = vec![EntryPath::root()];
    let list = SourceOp::List { root: 0, directories, budget: 0, detail: Detail::default() };
    match ask(&mut *lane, list)? {
        SourceOutcome::Listed(mut listed) => listed.remove(0).result.map(|listing| listing.len()),
        other => panic!("not the answer to a list: {other:?}"),
    }
}

fn read(answering: Answering) -> Result<Vec<u8>> {
    let mut lane = source(greeting(), answering)?.open_source_lane(0)?;
    let mtime = FileTime { seconds: 1000, nanoseconds: 0 };
    let metadata = EntryMetadata {
        mode: 0o644,
        size_bytes: 2 * PIECE_BYTES,
        mtime,
        ..EntryMetadata::new(EntryKind::File)
    };
    let file = SourceFile { root: 0, path: EntryPath::new("large").unwrap(), metadata, tolerant: false };
    let buffer = PieceBuffer::default();
    let extent = Extent { offset: 0, length: PIECE_BYTES };
    match ask(&mut *lane, SourceOp::Read { file: Arc::new(file), extent, buffer })? {
        SourceOutcome::Read(buffer) => Ok(buffer.filled().to_vec()),
        other => panic!("not the answer to a read: {other:?}"),
    }
}

#[test]
fn names_that_leave_the_directory_end_the_run() {
    macro_rules! naming {
        ($name:expr) => {{
            let hostile: Answering = |kind, id, rest| match kind {
                READDIR => names(id, &[b"fine", $name]),
                _ => usual(kind, id, rest),
            };
            hostile
        }};
    }
    let hostile =
        [naming!(b"..x/../y"), naming!(b"/etc/passwd"), naming!(b"a/b"), naming!(b""), naming!(b"nul\0")];
    for hostile in hostile {
        assert_eq!(list(hostile).unwrap_err().kind, ErrorKind::Protocol);
    }
    assert_eq!(list(usual).unwrap(), 0);
}

#[test]
fn a_directory_without_an_end_is_given_up() {
    // A part of a listing without names would never end.
    let endless: Answering =
        |kind, id, rest| if kind == READDIR { names(id, &[]) } else { usual(kind, id, rest) };
    assert_eq!(list(endless).unwrap_err().kind, ErrorKind::Protocol);
}

#[test]
fn answers_to_nothing_and_packets_without_end_are_refused() {
    let other: Answering = |_, id, _| status(id.wrapping_add(7), 0);
    assert_eq!(list(other).unwrap_err().kind, ErrorKind::Protocol);
    let endless: Answering = |_, _, _| vec![0xff; 8];
    assert_eq!(list(endless).unwrap_err().kind, ErrorKind::Protocol);
    let empty: Answering = |_, _, _| vec![0; 4];
    assert_eq!(list(empty).unwrap_err().kind, ErrorKind::Protocol);
    let unknown: Answering = |_, id, _| packet(99, id, &[]);
    assert_eq!(list(unknown).unwrap_err().kind, ErrorKind::Protocol);
}

#[test]
fn what_is_no_server_is_found_out_at_once() {
    for greeting in [b"This account is not available.\n".to_vec(), b"\0\0\0\x05\x02\0\0\0\x06".to_vec()] {
        let error = source(greeting, usual).err().unwrap();
        assert!(matches!(error.kind, ErrorKind::Protocol | ErrorKind::Unsupported), "{error}");
    }
}

#[test]
fn reads_that_give_less_than_was_asked_for_are_gone_on_with() {
    let short: Answering = |kind, id, rest| match kind {
        READ => {
            let at = rest.len() - 12;
            let offset = u64::from_be_bytes(rest[at..at + 8].try_into().unwrap());
            let length = u32::from_be_bytes(rest[at + 8..].try_into().unwrap()).min(1000);
            let bytes: Vec<u8> = (offset..offset + u64::from(length)).map(|at| (at / 7) as u8).collect();
            packet(103, id, &[&text(&bytes)])
        }
        _ => usual(kind, id, rest),
    };
    let expected: Vec<u8> = (0..PIECE_BYTES).map(|at| (at / 7) as u8).collect();
    assert!(read(short).unwrap() == expected);
}

#[test]
fn reads_that_lie_are_found_out() {
    let more: Answering = |kind, id, rest| match kind {
        READ => packet(103, id, &[&text(&[7; 300_000])]),
        _ => usual(kind, id, rest),
    };
    assert_eq!(read(more).unwrap_err().kind, ErrorKind::Protocol);
    let none: Answering = |kind, id, rest| match kind {
        READ => packet(103, id, &[&text(b"")]),
        _ => usual(kind, id, rest),
    };
    assert_eq!(read(none).unwrap_err().kind, ErrorKind::Protocol);
    let ends: Answering = |kind, id, rest| match kind {
        READ => status(id, 1),
        _ => usual(kind, id, rest),
    };
    assert_eq!(read(ends).unwrap_err().kind, ErrorKind::SourceChanged);
    // The opened file has another size than the listing.
    let another: Answering = |kind, id, rest| match kind {
        FSTAT => packet(105, id, &[&attrs(0o100_644, 5)]),
        _ => usual(kind, id, rest),
    };
    assert_eq!(read(another).unwrap_err().kind, ErrorKind::SourceChanged);
    let a_link: Answering = |kind, id, rest| match kind {
        LSTAT if rest.ends_with(b"large") => packet(105, id, &[&attrs(0o120_777, 5)]),
        _ => usual(kind, id, rest),
    };
    assert_eq!(read(a_link).unwrap_err().kind, ErrorKind::SourceChanged);
}

#[test]
fn a_server_that_is_gone_is_a_connection_that_was_lost() {
    let gone: Answering = |_, _, _| panic!("the server's thread ends here, as it should");
    assert_eq!(list(gone).unwrap_err().kind, ErrorKind::ConnectionLost);
}

/// Fetches a whole directory of files that the server lists with one byte each.
fn fetch(answering: Answering) -> FetchedPack {
    let mut lane = source(greeting(), answering).unwrap().open_source_lane(0).unwrap();
    let directories = vec![EntryPath::root()];
    let list = SourceOp::List { root: 0, directories, budget: 0, detail: Detail::default() };
    let SourceOutcome::Listed(mut listed) = ask(&mut *lane, list).unwrap() else { panic!("no listing") };
    let listing = listed.remove(0).result.unwrap();
    let entries = (0..listing.len() as u32).map(|index| Pick { index, replaces: false }).collect();
    let picks = Arc::new(Picks { listing: Arc::new(listing), entries, target_name: None });
    let (directory, target) = (EntryPath::root(), EntryPath::root());
    let (ask_for, buffer) = (ExtendedAsk::default(), Vec::new());
    let fetch = SourceOp::ReadPack { root: 0, directory, target, picks, from: 0, ask: ask_for, buffer };
    match ask(&mut *lane, fetch).unwrap() {
        SourceOutcome::Pack(fetched) => fetched,
        other => panic!("not the answer to a fetch: {other:?}"),
    }
}

/// Returns the length and the offset of a READ request.
fn asked_for(rest: &[u8]) -> (u64, u64) {
    let (rest, length) = rest.split_last_chunk::<4>().unwrap();
    let (_, offset) = rest.split_last_chunk::<8>().unwrap();
    (u32::from_be_bytes(*length).into(), u64::from_be_bytes(*offset))
}

/// Answers for a server with one file that returns at most 7 bytes at once. Its reported size is `SAID`, and it returns
/// `HAS` bytes. Each server has a number.
fn short<const NUMBER: usize, const SAID: u64, const HAS: u64>(kind: u8, id: u32, rest: &[u8]) -> Vec<u8> {
    static LISTINGS: [AtomicUsize; 5] = [const { AtomicUsize::new(0) }; 5];
    match kind {
        READDIR if LISTINGS[NUMBER].fetch_add(1, Relaxed) == 0 => names(id, &[b"000"]),
        LSTAT if !rest.last().is_some_and(u8::is_ascii_digit) => usual(kind, id, rest),
        LSTAT | FSTAT => packet(105, id, &[&attrs(0o100_644, SAID)]),
        READ => match asked_for(rest) {
            (length, offset) if offset < HAS => {
                let end = HAS.min(offset + length.min(7));
                packet(103, id, &[&text(&(offset..end).map(|at| at as u8).collect::<Vec<_>>())])
            }
            _ => status(id, 1),
        },
        _ => usual(kind, id, rest),
    }
}

#[test]
fn short_answers_about_small_files_are_gone_on_with() {
    let answering: [(Answering, u64); 2] =
        [(short::<0, 100, 100>, 100), (short::<1, 70_001, 70_001>, 70_001)];
    for (answering, size_bytes) in answering {
        let fetched = fetch(answering);
        assert_eq!((&fetched.failures[..], fetched.packed.len()), (&[][..], 1), "{fetched:?}");
        assert_eq!(fetched.content_bytes, size_bytes);
        let expected: Vec<u8> = (0..size_bytes).map(|at| at as u8).collect();
        assert!(fetched.pack.windows(expected.len()).any(|bytes| bytes == expected));
    }
    // The file ends where the server reports its end, and nowhere else.
    size_that_is_not_true(&fetch(short::<2, 100, 99>));
    size_that_is_not_true(&fetch(short::<3, 100, 101>));
    size_that_is_not_true(&fetch(short::<4, 100, 0>));
}

/// Checks the failure of a file that returns another number of bytes than its reported and listed size.
fn size_that_is_not_true(fetched: &FetchedPack) {
    let [(0, error)] = &fetched.failures[..] else { panic!("{fetched:?}") };
    assert_eq!((fetched.packed.len(), error.kind), (0, ErrorKind::SourceChanged), "{error}");
    assert!(error.detail.contains("reported size") && error.detail.contains("100"), "{error}");
}

#[test]
fn a_file_that_gives_more_or_fewer_bytes_than_its_size_fails() {
    static LISTINGS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    fn of<const BYTES: u64>(kind: u8, id: u32, rest: &[u8]) -> Vec<u8> {
        match kind {
            READDIR if LISTINGS[usize::from(BYTES > 100)].fetch_add(1, Relaxed) == 0 => names(id, &[b"000"]),
            LSTAT if !rest.last().is_some_and(u8::is_ascii_digit) => usual(kind, id, rest),
            LSTAT | FSTAT => packet(105, id, &[&attrs(0o100_644, 100)]),
            READ => match asked_for(rest) {
                (length, offset) if offset < BYTES => {
                    packet(103, id, &[&text(&vec![7; length.min(BYTES - offset) as usize])])
                }
                _ => status(id, 1),
            },
            _ => usual(kind, id, rest),
        }
    }
    size_that_is_not_true(&fetch(of::<99>));
    size_that_is_not_true(&fetch(of::<101>));
}

#[test]
fn files_that_are_all_larger_than_listed_do_not_fill_the_memory() {
    const LARGER_BYTES: u64 = 200_000;
    static LISTINGS: AtomicUsize = AtomicUsize::new(0);
    static READ_BYTES: AtomicUsize = AtomicUsize::new(0);
    let growing: Answering = |kind, id, rest| match kind {
        READDIR if LISTINGS.fetch_add(1, Relaxed) == 0 => {
            let all: Vec<_> = (0..100).map(|number| format!("{number:03}")).collect();
            names(id, &all.iter().map(String::as_bytes).collect::<Vec<_>>())
        }
        // Only the directory's own path does not end in a digit.
        LSTAT if !rest.last().is_some_and(u8::is_ascii_digit) => usual(kind, id, rest),
        LSTAT | FSTAT => packet(105, id, &[&attrs(0o100_644, LARGER_BYTES)]),
        READ => {
            let (length, offset) = asked_for(rest);
            let length = length.min(LARGER_BYTES - offset);
            READ_BYTES.fetch_add(length as usize, Relaxed);
            match length {
                0 => status(id, 1),
                _ => packet(103, id, &[&text(&vec![7; length as usize])]),
            }
        }
        _ => usual(kind, id, rest),
    };
    let fetched = fetch(growing);
    let taken = PACK_BYTES_USUAL as u64 / LARGER_BYTES;
    assert_eq!(fetched.content_bytes, taken * LARGER_BYTES);
    assert_eq!((fetched.packed.len(), fetched.failures.len()), (taken as usize, 100 - taken as usize));
    assert!(READ_BYTES.load(Relaxed) <= 2 * PACK_BYTES_USUAL);
    assert!(fetched.failures.iter().all(|(_, error)| error.kind == ErrorKind::SourceChanged));
}

/// A server reuses the numbers of closed handles. A second close would close the next file with that number.
#[test]
fn a_handle_is_closed_once() {
    static OPENED: AtomicU32 = AtomicU32::new(0);
    static CLOSED: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
    let answering: Answering = |kind, id, rest| match kind {
        OPEN => packet(102, id, &[&text(&OPENED.fetch_add(1, Relaxed).to_be_bytes())]),
        CLOSE => {
            CLOSED.lock().unwrap().push(rest.to_vec());
            status(id, 0)
        }
        // Without this answer nothing is finished.
        FSETSTAT => Vec::new(),
        _ => usual(kind, id, rest),
    };
    let (access, look) = reached(greeting(), answering).unwrap();
    let options = SftpTargetOptions { job: [7; 32], run: [1; 16], leaves_all: false, durable: false };
    let target = SftpTarget::new(access, &look, b"/root", Grant::everything(), options);
    let (mut one, mut other) = (target.open_target_lane(0).unwrap(), target.open_target_lane(1).unwrap());
    let begin = |draft: u64, name: &[u8]| {
        let begin = DraftParameters::file(EntryPath::new(name).unwrap(), 1);
        TargetOp::Begin { draft, begin, attributes: None }
    };
    let write = |draft: u64, lane: &mut dyn TargetLane| {
        let mut buffer = lane.piece_buffer();
        buffer.room()[..1].copy_from_slice(b"x");
        buffer.set_filled(1);
        let check = Check { crc: crc64(b"x"), value: None };
        TargetOp::Write { draft, offset: 0, buffer, check, acknowledge: true }
    };
    ask(&mut *one, begin(1, b"first")).unwrap();
    ask(&mut *other, begin(2, b"second")).unwrap();
    let first = write(1, &mut *one);
    ask(&mut *one, first).unwrap();
    let attributes = Attributes { mode: 0o644, uid: 0, gid: 0, mtime: FileTime::default() };
    let finish = TargetOp::Finish { draft: 1, attributes, extended: None, digest: None };
    one.submit(1, finish).unwrap();
    // While the first draft is being finished, this lane opens the second, which the other lane has begun.
    let second = write(2, &mut *one);
    ask(&mut *one, second).unwrap();
    let closed = CLOSED.lock().unwrap().clone();
    assert_eq!(closed, [text(&0u32.to_be_bytes())]);
}

/// Most writes complete without an outcome, so only free space in the window shows that the submitter can continue.
#[test]
fn who_waits_for_room_goes_on_as_soon_as_there_is_some() {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    let answering: Answering = |kind, id, rest| match kind {
        // A piece takes eight writes. When the window is full, the writes of two pieces are answered, and no others.
        WRITE if WRITTEN.fetch_add(1, Relaxed) == 127 => {
            (id - 127..id - 111).flat_map(|id| status(id, 0)).collect()
        }
        WRITE => Vec::new(),
        _ => usual(kind, id, rest),
    };
    let (access, look) = reached(greeting(), answering).unwrap();
    let options = SftpTargetOptions { job: [7; 32], run: [1; 16], leaves_all: false, durable: false };
    let target = SftpTarget::new(access, &look, b"/root", Grant::everything(), options);
    let mut lane = target.open_target_lane(0).unwrap();
    let begin = DraftParameters::file(EntryPath::new("large").unwrap(), 64 * PIECE_BYTES);
    ask(&mut *lane, TargetOp::Begin { draft: 1, begin, attributes: None }).unwrap();
    let (limit, began) = (Duration::from_secs(60), Instant::now());
    // The window, and the writes that were answered.
    for number in 0..16 + 2 {
        let mut buffer = lane.piece_buffer();
        buffer.set_filled(PIECE_BYTES as usize);
        let (offset, check) = (number * PIECE_BYTES, Check::default());
        let mut write = TargetOp::Write { draft: 1, offset, buffer, check, acknowledge: false };
        while let Err(back) = lane.submit(number, write) {
            assert!(lane.reap(CompletionWait::For(limit)).is_none());
            write = back;
        }
    }
    assert!(began.elapsed() < limit);
}
