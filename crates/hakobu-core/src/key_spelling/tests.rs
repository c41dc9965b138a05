use proptest::prelude::*;

use super::*;

/// Returns any name, often with characters that some store changes.
fn any_name() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: [&[u8]; 34] = [
        b"a",
        b"b",
        b"0",
        b"A",
        b"F",
        b"7",
        b"E",
        b".",
        b"-",
        b" ",
        b"\\",
        b"\x01",
        b"\n",
        b"\r",
        b"\x1f",
        b"\x7f",
        b"\xff",
        b"\xe2",
        b"\x80",
        b"\xc3",
        b"\xef\xbf",
        "‛".as_bytes(),
        "．".as_bytes(),
        "＼".as_bytes(),
        "␀".as_bytes(),
        "␁".as_bytes(),
        "␊".as_bytes(),
        "␡".as_bytes(),
        "\u{81}".as_bytes(),
        "\u{e000}".as_bytes(),
        "\u{fffd}".as_bytes(),
        "\u{ffff}".as_bytes(),
        "\u{10000}".as_bytes(),
        "ä".as_bytes(),
    ];
    let piece = prop_oneof![
        6 => prop::sample::select(&PIECES[..]).prop_map(<[u8]>::to_vec),
        1 => any::<char>().prop_map(|it| it.to_string().into_bytes()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    let name = prop::collection::vec(piece, 1..8).prop_map(|pieces| pieces.concat());
    name.prop_filter("a name", |name| check_name(name).is_ok())
}

fn any_kind() -> impl Strategy<Value = EntryKind> {
    prop_oneof![Just(EntryKind::File), Just(EntryKind::Directory)]
}

proptest! {
    #[test]
    fn a_spelling_leads_back_and_holds_nothing_that_its_store_refuses(name in any_name()) {
        for spelling in KeySpelling::ALL {
            let key = spelling.spell(&name).unwrap().into_owned();
            prop_assert_eq!(&*spelling.read(&key).unwrap(), &*name, "{:?} {}", spelling, key);
            prop_assert!(!key.is_empty() && !key.contains(['/', '\0']));
            match spelling {
                KeySpelling::S3 => {
                    let bad = |it: char| it < ' ' || it == '\u{fffe}' || it == '\u{ffff}';
                    prop_assert!(!key.contains(bad));
                }
                KeySpelling::Gcs => prop_assert!(!key.contains(['\r', '\n'])),
                KeySpelling::Azure => {
                    prop_assert!(!key.contains(|it: char| it.is_control() || it == '\\' || !is_in_iri(it)));
                    prop_assert!(!key.ends_with('.'));
                }
            }
        }
    }

    /// A key is read as one name at most, and that name has this key: no two names share a key, and no two keys a name.
    #[test]
    fn a_key_that_is_read_is_the_spelling_of_its_name(name in any_name()) {
        let Ok(key) = std::str::from_utf8(&name) else { return Ok(()) };
        for spelling in KeySpelling::ALL {
            match spelling.read(key) {
                Ok(read) => prop_assert_eq!(spelling.spell(&read).unwrap(), key),
                Err(error) => prop_assert_eq!(error.kind, ErrorKind::Unsupported),
            }
        }
    }

    #[test]
    fn entries_are_ordered_as_their_keys(one in any_name(), other in any_name(), kinds in (any_kind(), any_kind())) {
        for spelling in KeySpelling::ALL {
            let key = |name: &[u8], kind| {
                spelling.key("", &EntryPath::new(name).unwrap(), kind).unwrap()
            };
            let by_key = key(&one, kinds.0).as_bytes().cmp(key(&other, kinds.1).as_bytes());
            prop_assert_eq!(spelling.compare((&one, kinds.0), (&other, kinds.1)), by_key);
        }
    }

    #[test]
    fn paths_come_back(names in prop::collection::vec(any_name(), 1..5)) {
        let path = EntryPath::new(names.join(&b'/')).unwrap();
        for spelling in KeySpelling::ALL {
            let key = spelling.key("", &path, EntryKind::File).unwrap();
            prop_assert_eq!(spelling.read_path(&key).unwrap(), path.clone());
            prop_assert_eq!(spelling.key("in/", &path, EntryKind::Directory).unwrap(), format!("in/{key}/"));
        }
    }

    #[test]
    fn arbitrary_keys_never_panic(key in ".*") {
        for spelling in KeySpelling::ALL {
            if let Ok(path) = spelling.read_path(&key) {
                prop_assert!(key.len() > KEY_BYTES_MAX || spelling.key("", &path, EntryKind::File).unwrap() == key);
            }
        }
    }
}

#[test]
fn keys_that_are_no_paths_or_no_spellings_are_refused() {
    for spelling in KeySpelling::ALL {
        for key in [
            "",
            "/a",
            "a//b",
            "a/",
            ".",
            "..",
            "a/../b",
            "./a",
            "a\0b",
            "‛",
            "a‛b",
            "‛g0",
            "‛0",
            "‛41",
            "‛ff",
            "‛C3‛A4",
            "‛2F",
            "‛00",
            "‛2E‛2E",
            "‛␀",
        ] {
            let error = spelling.read_path(key).unwrap_err();
            assert_eq!((error.kind, error.at), (ErrorKind::Unsupported, key.as_bytes().to_vec()), "{key}");
        }
        assert!(spelling.read_path(&"n".repeat(256)).is_err());
        assert!(spelling.read_path(&"n".repeat(255)).is_ok());
    }
    for (spelling, key) in [
        (KeySpelling::S3, "Icon\r"),
        (KeySpelling::S3, "‛␡"),
        (KeySpelling::Gcs, "a\nb"),
        (KeySpelling::Azure, "a\\b"),
        (KeySpelling::Azure, "end."),
        (KeySpelling::Azure, "‛．"),
        (KeySpelling::Azure, "a‛．b"),
        (KeySpelling::Azure, "\u{e000}"),
    ] {
        assert!(spelling.read(key).is_err(), "{key:?}");
    }
    let error = KeySpelling::S3.read("a‛b").unwrap_err();
    assert!(error.detail.contains("a‛‛b"), "{error}");
}

#[test]
fn a_key_that_is_too_long_is_an_error_with_the_limit() {
    // 16 names of 63 bytes and their slashes; then a name for the rest.
    let directories = EntryPath::new(vec!["d".repeat(63); 15].join("/")).unwrap();
    let longest = |bytes: usize, spelling: KeySpelling| {
        spelling.key("", &directories.join(&vec![b'f'; bytes]).unwrap(), EntryKind::File)
    };
    for spelling in KeySpelling::ALL {
        assert_eq!(longest(64, spelling).unwrap().len(), 1024);
        let error = longest(65, spelling).unwrap_err();
        assert!(error.kind == ErrorKind::Unsupported && error.detail.contains("1024"), "{error}");
        // The prefix and the slash of a directory count.
        let path = directories.join(&[b'f'; 64]).unwrap();
        assert!(spelling.key("p/", &path, EntryKind::File).is_err());
        assert!(spelling.key("", &path, EntryKind::Directory).is_err());
    }
    // Azure counts UTF-16 units, the others bytes of the spelling.
    let wide = directories.join("ü".repeat(33).as_bytes()).unwrap();
    assert!(KeySpelling::Azure.key("", &wide, EntryKind::File).is_ok());
    assert!(KeySpelling::S3.key("", &wide, EntryKind::File).is_err());
    let binary = directories.join(&[0xff; 13]).unwrap();
    assert!(KeySpelling::S3.key("", &binary, EntryKind::File).is_err());

    let deep = |names: usize| EntryPath::new(vec!["d"; names].join("/")).unwrap();
    assert!(KeySpelling::Azure.key("", &deep(254), EntryKind::Directory).is_ok());
    let error = KeySpelling::Azure.key("", &deep(255), EntryKind::File).unwrap_err();
    assert!(error.detail.contains("254"), "{error}");
}

#[test]
fn a_spelling_is_sorted_where_its_key_is() {
    let names = |spelling: KeySpelling, mut names: Vec<&[u8]>| {
        names.sort_by(|a, b| spelling.compare((a, EntryKind::File), (b, EntryKind::File)));
        names.iter().map(|name| lossy(name)).collect::<Vec<_>>()
    };
    let all = || vec![&b"\xff"[..], "￮".as_bytes(), b"\n", b"a", "‛".as_bytes()];
    assert_eq!(names(KeySpelling::S3, all()), ["a", "\\xff", "‛", "\\n", "￮"]);
}

/// Returns the bytes of a cell of the vectors.
fn unescaped(cell: &str) -> Vec<u8> {
    let mut parts = cell.split('\\');
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    while let Some(part) = parts.next() {
        match part.strip_prefix('x') {
            Some(rest) => {
                bytes.push(u8::from_str_radix(&rest[..2], 16).unwrap());
                bytes.extend_from_slice(&rest.as_bytes()[2..]);
            }
            None => {
                assert!(part.is_empty(), "{cell}");
                bytes.push(b'\\');
                bytes.extend_from_slice(parts.next().unwrap().as_bytes());
            }
        }
    }
    bytes
}

#[test]
fn keys_are_those_of_rclone() {
    let vectors = include_str!("rclone-1.75.2.tsv").lines().filter(|line| !line.starts_with("# "));
    let mut equal = 0;
    for line in vectors {
        let cells: Vec<_> = line.split('\t').collect();
        assert_eq!(cells.len(), 4, "{line}");
        let name = unescaped(cells[0]);
        for (spelling, cell) in KeySpelling::ALL.into_iter().zip(&cells[1..]) {
            let (of_rclone, own) = cell.split_once(" => ").unwrap_or((cell, cell));
            let key = spelling.spell(&name).unwrap();
            assert_eq!(key.as_bytes(), unescaped(own), "{spelling:?} {line}");
            assert_eq!(*spelling.read(&key).unwrap(), *name);
            equal += usize::from(of_rclone == own);
        }
    }
    assert!(equal > 150, "{equal}");
}
