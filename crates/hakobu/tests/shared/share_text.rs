//! Shares as lines of text, for the pipes between the ledger of a test and its workers.

use hakobu_core::entry::{Attributes, FileTime, Inode};
use hakobu_core::exchange::{
    DirectoryEnd, DirectoryOutcome, DirectoryShare, DirectorySlice, NameShare, SharePlace, WorkShare,
};
use hakobu_core::path::EntryPath;

/// Returns bytes as a word.
pub fn word(bytes: &[u8]) -> String {
    bytes.iter().fold("x".to_owned(), |word, byte| word + &format!("{byte:02x}"))
}

/// Returns the bytes of a word.
pub fn bytes(word: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&word[at..at + 2], 16).unwrap();
    (1..word.len()).step_by(2).map(byte).collect()
}

const OUTCOMES: [Option<DirectoryOutcome>; 5] = [
    None,
    Some(DirectoryOutcome::Created),
    Some(DirectoryOutcome::Updated),
    Some(DirectoryOutcome::AttributesOnly),
    Some(DirectoryOutcome::Unchanged),
];

fn place(place: &SharePlace) -> String {
    let SharePlace { root, source, target, top_names } = place;
    format!("{root} {} {} {top_names}", word(source.as_bytes()), word(target.as_bytes()))
}

/// Returns a share as a line.
pub fn line(share: &WorkShare) -> String {
    match share {
        WorkShare::Directory(share) => {
            format!("@directory {} {}", place(&share.place), u8::from(share.is_above_settled))
        }
        WorkShare::Name(name) => {
            let Inode { file_system, number } = name.inode;
            format!("@name {} {file_system} {number} {} {}", place(&name.place), name.size_bytes, name.links)
        }
        WorkShare::Slice(slice) => {
            let names: Vec<_> = slice.names.iter().map(|name| word(name)).collect();
            format!("@slice {} {}", place(&slice.place), names.join(" "))
        }
        WorkShare::Entry(_) | WorkShare::Range(_) | WorkShare::File(_) => {
            unreachable!("no run gives one away")
        }
        WorkShare::End(end) => {
            let Attributes { mode, uid, gid, mtime } = end.attributes;
            let outcome = OUTCOMES.iter().position(|outcome| *outcome == end.outcome).unwrap();
            let flags = [end.is_touched, end.extended, end.is_unproven, end.is_examined].map(u8::from);
            let listed = end
                .listed_ctime
                .map_or_else(|| "- -".to_owned(), |time| format!("{} {}", time.seconds, time.nanoseconds));
            format!(
                "@end {} {mode} {uid} {gid} {} {} {outcome} {} {} {} {} {listed} {}",
                place(&end.place),
                mtime.seconds,
                mtime.nanoseconds,
                flags[0],
                flags[1],
                flags[2],
                flags[3],
                u8::from(end.has_slices)
            )
        }
    }
}

/// Returns the share of a line, or `None` if it is another line.
pub fn share(line: &str) -> Option<WorkShare> {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| words[at].parse::<i64>().unwrap();
    let path = |at: usize| EntryPath::new(bytes(words[at])).unwrap();
    let place = || SharePlace {
        root: number(1) as u16,
        source: path(2),
        target: path(3),
        top_names: number(4) as u16,
    };
    let is = |at: usize| number(at) == 1;
    Some(match words[0] {
        "@directory" => WorkShare::Directory(DirectoryShare { place: place(), is_above_settled: is(5) }),
        "@slice" => {
            let names = words[5..].iter().map(|word| bytes(word)).collect();
            WorkShare::Slice(DirectorySlice { place: place(), names })
        }
        "@name" => WorkShare::Name(NameShare {
            place: place(),
            inode: Inode { file_system: words[5].parse().unwrap(), number: words[6].parse().unwrap() },
            size_bytes: number(7) as u64,
            links: number(8) as u32,
        }),
        "@end" => WorkShare::End(DirectoryEnd {
            place: place(),
            attributes: Attributes {
                mode: number(5) as u32,
                uid: number(6) as u32,
                gid: number(7) as u32,
                mtime: FileTime { seconds: number(8), nanoseconds: number(9) as u32 },
            },
            outcome: OUTCOMES[number(10) as usize],
            is_touched: is(11),
            extended: is(12),
            is_unproven: is(13),
            is_examined: is(14),
            listed_ctime: (words[15] != "-")
                .then(|| FileTime { seconds: number(15), nanoseconds: number(16) as u32 }),
            has_slices: is(17),
        }),
        _ => return None,
    })
}
