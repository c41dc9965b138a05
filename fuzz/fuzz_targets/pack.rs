//! Packs. Every name and path of a record that is read is one, and the records can be packed again.

#![no_main]

use hakobu_core::pack::{PACK_RECORDS_MAX, PackBuilder, PackContent, PackReader, PackRecord};
use hakobu_core::path::{EntryPath, check_name};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = PackReader::new(bytes);
    let mut builder = PackBuilder::default();
    let mut records = Vec::new();
    while let Ok(Some(record)) = reader.read() {
        match &record {
            PackRecord::Directory { path } => {
                assert_eq!(&EntryPath::new(path.as_bytes()).unwrap(), path);
                builder.directory(path);
            }
            PackRecord::Entry(head, content) => {
                check_name(head.name).unwrap();
                match *content {
                    PackContent::File(content) => {
                        builder.whole_file(head, content.bytes, content.sum);
                    }
                    PackContent::Symlink(text) => {
                        assert!(!text.is_empty() && !text.contains(&0));
                        builder.symlink(head, text);
                    }
                    PackContent::Special(kind, device) => builder.special(head, kind, device),
                }
            }
        }
        records.push(record);
    }
    assert!(builder.records() <= PACK_RECORDS_MAX);
    let again = builder.finish();
    let mut reader = PackReader::new(&again);
    for record in &records {
        assert_eq!(reader.read().unwrap().as_ref(), Some(record));
    }
    assert_eq!(reader.read().unwrap(), None);
});
