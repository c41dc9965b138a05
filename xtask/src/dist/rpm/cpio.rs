//! The files of an RPM package: a cpio archive of the form `newc`.

/// The alignment of names and data.
const MULTIPLE: usize = 4;

/// A file or a directory of the archive.
#[derive(Debug)]
pub(super) struct CpioEntry<'a> {
    /// Its absolute path.
    pub path: String,
    /// The kind and permission bits, as in `stat`.
    pub mode: u32,
    pub data: &'a [u8],
}

/// Returns the archive. Inode numbers count from one, as in the package's header.
pub(super) fn archive(entries: &[CpioEntry], epoch: u32) -> Vec<u8> {
    let mut archive = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let name = format!(".{}", entry.path);
        append(&mut archive, &name, [index as u32 + 1, entry.mode, epoch], entry.data);
    }
    append(&mut archive, "TRAILER!!!", [0, 0, 0], &[]);
    archive
}

fn append(archive: &mut Vec<u8>, name: &str, [inode, mode, time]: [u32; 3], data: &[u8]) {
    let (size, name_size) = (data.len() as u32, name.len() as u32 + 1);
    // Inode, mode, owner, group, links, time, size, four device numbers, length of the name, no checksum.
    let fields = [inode, mode, 0, 0, 1, time, size, 0, 0, 0, 0, name_size, 0];
    archive.extend_from_slice(b"070701");
    archive.extend(fields.iter().flat_map(|field| format!("{field:08x}").into_bytes()));
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    archive.resize(archive.len().next_multiple_of(MULTIPLE), 0);
    archive.extend_from_slice(data);
    archive.resize(archive.len().next_multiple_of(MULTIPLE), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_a_head_of_hexadecimal_digits_and_lie_on_multiples_of_four() {
        let entries = [CpioEntry { path: "/usr/x".to_owned(), mode: 0o100_755, data: b"12345" }];
        let archive = archive(&entries, 255);
        let head = "070701\
            00000001000081ed000000000000000000000001000000ff00000005\
            000000000000000000000000000000000000000800000000";
        assert_eq!(std::str::from_utf8(&archive[..110]).unwrap(), head);
        assert_eq!(&archive[110..118], b"./usr/x\0");
        assert_eq!(&archive[120..128], b"12345\0\0\0");
        let end = std::str::from_utf8(&archive[128..]).unwrap();
        assert!(end.starts_with("070701") && end.trim_end_matches('\0').ends_with("TRAILER!!!"), "{end}");
        assert_eq!(archive.len() % MULTIPLE, 0);
    }
}
