use super::*;

const KNOWN: [&str; 5] = ["bwlimit", "cipher", "data-port", "lanes", "ssh"];

fn parsed(text: &str) -> HostSettings {
    HostSettings::parse(text.as_bytes(), &KNOWN).unwrap()
}

/// Returns the settings for a copy from one host to another.
fn between(settings: &HostSettings, source: &str, target: &str) -> Vec<(&'static str, String)> {
    let mut hosts: Vec<_> = [source, target].iter().filter(|host| **host != HERE).copied().collect();
    if hosts.is_empty() {
        hosts.push(HERE);
    }
    let run = RunHosts {
        hosts: hosts.into_iter().map(str::to_owned).collect(),
        pairs: vec![(source.to_owned(), target.to_owned())],
    };
    settings.of(&run).map(|setting| (setting.keyword, setting.value.clone())).collect()
}

#[test]
fn blocks_hold_for_their_hosts_in_order() {
    let settings = parsed(
        "lanes 2\n\
         # far away\n\
         Host *.example.org !slow.example.org tokyo?\n\
         \tcipher = aes-256-gcm   # as the rules of the house have it\n\
         \n\
         Pair localhost tokyo1\n\
         BWLimit \"08:00,20M 19:00,off\"\r\n\
         Host *\n\
         \x20 ssh=ssh -o \"ProxyCommand nc %h #1\" -p 22\n",
    );
    let of = |source, target| between(&settings, source, target);
    let value = |keyword, value: &str| (keyword, value.to_owned());
    let (lanes, cipher) = (value("lanes", "2"), value("cipher", "aes-256-gcm"));
    let limit = value("bwlimit", "08:00,20M 19:00,off");
    let ssh = value("ssh", "ssh -o \"ProxyCommand nc %h #1\" -p 22");
    assert_eq!(of(HERE, "TOKYO1"), [lanes.clone(), cipher.clone(), limit, ssh.clone()]);
    assert_eq!(of("tokyo1", HERE), [lanes.clone(), cipher.clone(), ssh.clone()]);
    assert_eq!(of(HERE, "a.example.org"), [lanes.clone(), cipher, ssh.clone()]);
    assert_eq!(of(HERE, "slow.example.org"), [lanes.clone(), ssh.clone()]);
    assert_eq!(of(HERE, HERE), [lanes, ssh]);
    let places: Vec<_> = settings.all().map(|setting| (setting.line, setting.column)).collect();
    assert_eq!(places, [(1, 7), (4, 11), (7, 9), (9, 7)]);
}

#[test]
fn a_pair_takes_lists_and_exceptions() {
    let settings = parsed("Pair web*,!web9 *,!localhost\nlanes 3");
    assert_eq!(between(&settings, "web1", "store").len(), 1);
    for (source, target) in [("web9", "store"), ("web1", HERE), ("store", "web1")] {
        assert!(between(&settings, source, target).is_empty(), "{source} {target}");
    }
}

#[test]
fn what_cannot_be_read_is_told_with_its_place() {
    for (text, line, column, words) in [
        ("lanes 2\nlines 3\n", 2, 1, "did you mean lanes?"),
        ("  data_prot 1", 1, 3, "did you mean data-port?"),
        ("Hots a\n", 1, 1, "did you mean Host?"),
        ("frobnicate yes", 1, 1, "hakobu settings --settings none lists"),
        ("Include /etc/more", 1, 1, "there is no Include"),
        ("lanes", 1, 6, "a value is expected for lanes"),
        ("lanes = # none", 1, 9, "a value is expected"),
        ("lanes \"\"", 1, 7, "a value is expected"),
        ("Host", 1, 5, "a value is expected for Host"),
        ("Pair a", 1, 6, "Pair: two patterns are expected"),
        ("Pair a b c", 1, 6, "two patterns are expected"),
        ("=3", 1, 1, "a keyword is expected"),
        ("lanes:3", 1, 6, "a space or ="),
        ("ssh ssh -i 'my key", 1, 12, "no second one"),
        ("ä", 1, 1, "a keyword is expected"),
        ("ssh \"ä\u{7}\"", 1, 7, "control character"),
    ] {
        let error = HostSettings::parse(text.as_bytes(), &KNOWN).unwrap_err();
        assert_eq!((error.line, error.column), (line, column), "{text:?}: {error}");
        assert!(error.words.contains(words), "{text:?}: {error}");
    }
    let error = HostSettings::parse(b"lanes 2\nssh \xc3\xa4\xff", &KNOWN).unwrap_err();
    assert_eq!((error.line, error.column, &*error.words), (2, 6, "it is not UTF-8"));
}

#[test]
fn patterns_match_all_of_a_name() {
    for (pattern, name, does) in [
        ("*", "", true),
        ("a*b*c", "aXbXbc", true),
        ("a*b*c", "abcd", false),
        ("?", "ä", false),
        ("h??t", "host", true),
        ("host", "hostel", false),
    ] {
        assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), does, "{pattern} {name}");
    }
    // This would take forever if every star tried all lengths.
    assert!(!matches("*a".repeat(200).as_bytes(), &[b'a'; 199]));
}

#[test]
fn whatever_stands_in_a_file_is_read_or_refused() {
    let pieces: [&[u8]; 16] = [
        b"lanes",
        b"Host",
        b"Pair",
        b" ",
        b"\t",
        b"=",
        b"\"",
        b"'",
        b"#",
        b"\n",
        b"\r",
        b"*",
        b"!",
        b",",
        b"\xff",
        b"\xc3\xa4",
    ];
    let (mut state, mut read, mut refused) = (7_u64, 0, 0);
    for _ in 0..20_000 {
        let mut text = Vec::new();
        for _ in 0..12 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.extend_from_slice(pieces[(state >> 60) as usize]);
        }
        match HostSettings::parse(&text, &KNOWN) {
            Ok(settings) => {
                read += 1;
                let _ = between(&settings, "a", "b");
                assert!(settings.all().all(|setting| !setting.value.is_empty() && setting.column > 1));
            }
            Err(error) => {
                refused += 1;
                assert!(error.line > 0 && error.column > 0 && error.column <= text.len() + 1, "{error}");
            }
        }
    }
    assert!(read > 100 && refused > 100, "{read} {refused}");
}
