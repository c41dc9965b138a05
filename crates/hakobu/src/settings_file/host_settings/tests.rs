use super::*;

const KNOWN: [&str; 6] = ["bwlimit", "cipher", "data-port", "lanes", "require", "ssh"];

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
fn sections_apply_to_their_hosts_in_order_and_before_general_settings() {
    let settings = parsed(
        "lanes = 2\n\
         # far away\n\
         [[host]]\n\
         match = [\"*.example.org\", \"!slow.example.org\", \"tokyo?\"]\n\
         \tcipher = 'aes-256-gcm'   # as the rules of the house have it\n\
         \n\
         [[pair]]\r\n\
         source = \"localhost\"\n\
         target = \"tokyo1\"\n\
         bwlimit = \"08:00,20M 19:00,off\"\n\
         [[host]]\n\
         match = \"*\"\n\
         \x20 ssh='ssh -o \"ProxyCommand nc %h #1\" -p 22'\n\
         require = [\"acl\", \"xattr\"]\n",
    );
    let of = |source, target| between(&settings, source, target);
    let value = |keyword, value: &str| (keyword, value.to_owned());
    let (lanes, cipher) = (value("lanes", "2"), value("cipher", "aes-256-gcm"));
    let limit = value("bwlimit", "08:00,20M 19:00,off");
    let ssh = value("ssh", "ssh -o \"ProxyCommand nc %h #1\" -p 22");
    let require = value("require", "acl,xattr");
    let always = [ssh, require, lanes];
    assert_eq!(of(HERE, "TOKYO1"), [&[cipher.clone(), limit], &always[..]].concat());
    assert_eq!(of("tokyo1", HERE), [std::slice::from_ref(&cipher), &always[..]].concat());
    assert_eq!(of(HERE, "a.example.org"), [&[cipher], &always[..]].concat());
    assert_eq!(of(HERE, "slow.example.org"), always);
    assert_eq!(of(HERE, HERE), always);
    let places: Vec<_> = settings.all().map(|setting| (setting.line, setting.column)).collect();
    assert_eq!(places, [(5, 12), (10, 12), (13, 8), (14, 11), (1, 9)]);
}

#[test]
fn a_pair_takes_lists_and_exceptions() {
    let settings =
        parsed("[[pair]]\nsource = [\"web*\", \"!web9\"]\ntarget = [\"*\", \"!localhost\"]\nlanes = 3");
    assert_eq!(between(&settings, "web1", "store").len(), 1);
    for (source, target) in [("web9", "store"), ("web1", HERE), ("store", "web1")] {
        assert!(between(&settings, source, target).is_empty(), "{source} {target}");
    }
}

#[test]
fn what_cannot_be_read_is_told_with_its_place() {
    for (text, line, column, words) in [
        ("lanes = 2\nlines = 3\n", 2, 1, "did you mean lanes?"),
        ("  data_prot = 1", 1, 3, "did you mean data-port?"),
        ("frobnicate = true", 1, 1, "hakobu settings --settings none lists"),
        ("lanes = 2\nlanes = 3", 2, 1, "duplicate key"),
        ("lanes", 1, 6, "the file is TOML"),
        ("lanes 2", 1, 7, "the file is TOML"),
        ("lanes = \"\"", 1, 9, "the value of lanes is"),
        ("lanes = 1.5", 1, 9, "the value of lanes is"),
        ("lanes = [1]", 1, 9, "the value of lanes is"),
        ("lanes = { a = 1 }", 1, 9, "the value of lanes is"),
        ("ssh = \"a\\nb\"", 1, 7, "the value of ssh is"),
        ("host = 1", 1, 8, "write [[host]]"),
        ("[host]\nlanes = 1", 1, 1, "write [[host]]"),
        ("[[host]]\nlanes = 1", 1, 1, "[[host]] needs match"),
        ("[[host]]\nmatch = 1", 2, 9, "match is a pattern"),
        ("[[host]]\nmatch = []", 2, 9, "match is a pattern"),
        ("[[pair]]\nsource = \"a\"", 1, 1, "[[pair]] needs target"),
        ("[[hots]]\nmatch = \"a\"", 1, 3, "there is no keyword hots"),
    ] {
        let error = HostSettings::parse(text.as_bytes(), &KNOWN).unwrap_err();
        assert_eq!((error.line, error.column), (line, column), "{text:?}: {error}");
        assert!(error.words.contains(words), "{text:?}: {error}");
    }
    let error = HostSettings::parse(b"lanes = 2\nssh\xc3\xa4\xff", &KNOWN).unwrap_err();
    assert_eq!((error.line, error.column, &*error.words), (2, 5, "it is not UTF-8"));
}

#[test]
fn whatever_stands_in_a_file_is_read_or_refused() {
    let pieces: [&[u8]; 16] = [
        b"lanes",
        b"[[host]]",
        b"match",
        b" ",
        b"[",
        b"=",
        b"\"",
        b"'",
        b"#",
        b"\n",
        b"\n",
        b"7",
        b"]",
        b",",
        b"\xff",
        b"\xc3\xa4",
    ];
    let (mut state, mut read, mut refused) = (7_u64, 0, 0);
    for _ in 0..20_000 {
        let mut text = Vec::new();
        for _ in 0..8 {
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
