use proptest::prelude::*;

use super::*;

fn parse(typed: &str) -> Location {
    Location::parse(typed.as_bytes()).unwrap()
}

/// Returns `user`, `host`, `port` and path of a remote location.
fn remote(typed: &str) -> (Option<String>, String, Option<u16>, String) {
    let location = parse(typed);
    let host = location.ssh_host().unwrap_or_else(|| panic!("{typed} is local")).clone();
    (host.user, host.host, host.port, String::from_utf8(location.path().to_vec()).unwrap())
}

#[test]
fn a_colon_before_the_first_slash_makes_it_remote() {
    for local in ["a", "./a:b", "/a:b", "a/b:c", ".", "..", "a b", "[x]", "~", "ssh", "a@b", "-x"] {
        assert_eq!(parse(local).ssh_host(), None, "{local}");
        assert_eq!(parse(local).path(), local.as_bytes());
    }
    for (typed, user, host, port, path) in [
        ("h:p", None, "h", None, "p"),
        ("h:/p/q/", None, "h", None, "/p/q/"),
        ("u@h:p:q", Some("u"), "h", None, "p:q"),
        ("u@d@h:p", Some("u@d"), "h", None, "p"),
        ("h:", None, "h", None, "."),
        ("h:~", None, "h", None, "."),
        ("h:~/", None, "h", None, "."),
        ("h:~//x/", None, "h", None, "x/"),
        ("h:./~x", None, "h", None, "./~x"),
        ("h:a b", None, "h", None, "a b"),
        ("[::1]:p", None, "::1", None, "p"),
        ("u@[fe80::1%eth0]:/p", Some("u"), "fe80::1%eth0", None, "/p"),
        ("ssh://h", None, "h", None, "."),
        ("ssh://h/", None, "h", None, "/"),
        ("ssh://h/p%20q", None, "h", None, "/p%20q"),
        ("SSH://u@h:2222/p", Some("u"), "h", Some(2222), "/p"),
        ("ssh://h/~/p", None, "h", None, "p"),
        ("ssh://h/~", None, "h", None, "."),
        ("ssh://u@[::1]:22/p", Some("u"), "::1", Some(22), "/p"),
        ("ssh://[::1]/p", None, "::1", None, "/p"),
    ] {
        let expected = (user.map(str::to_owned), host.to_owned(), port, path.to_owned());
        assert_eq!(remote(typed), expected, "{typed}");
    }
}

#[test]
fn modules_of_an_rsync_daemon_are_told_apart() {
    for (typed, user, host, port, path) in [
        ("h::m/p", None, "h", None, "m/p"),
        ("u@h::m/a b/", Some("u"), "h", None, "m/a b/"),
        ("rsync://h/m/p", None, "h", None, "m/p"),
        ("rsync://u@h:8730/m/p", Some("u"), "h", Some(8730), "m/p"),
        // An empty port means the default one, as in rsync.
        ("rsync://h:/m/p", None, "h", None, "m/p"),
        ("rsync://[::1]:/m/p", None, "::1", None, "m/p"),
        ("RSYNC://[::1]:1/m/p", None, "::1", Some(1), "m/p"),
        // A module alone means its contents.
        ("rsync://h/m", None, "h", None, "m/"),
        ("h::m", None, "h", None, "m/"),
    ] {
        let location = parse(typed);
        assert_eq!(location.ssh_host(), None, "{typed}");
        let found = location.rsync_host().unwrap_or_else(|| panic!("{typed}"));
        assert_eq!((found.user.as_deref(), &*found.host, found.port), (user, host, port), "{typed}");
        assert_eq!(location.path(), path.as_bytes(), "{typed}");
    }
    assert!(parse("h::m").means_contents());
    assert_eq!(parse("rsync://h/m/x").parent_path(), Some(b"m".to_vec()));
    assert_eq!(parse("h:p").rsync_host(), None);
}

#[test]
fn what_cannot_be_meant_is_refused_with_the_way_out() {
    for (typed, words) in [
        ("", "empty"),
        ("a\0b", "NUL"),
        (":p", "./a:b"),
        ("@h:p", "user is missing"),
        ("u@:p", "host is missing"),
        ("-oProxyCommand=x:p", "cannot begin with -"),
        ("-u@h:p", "cannot begin with -"),
        ("u@-h:p", "cannot begin with -"),
        ("ssh://-h/p", "cannot begin with -"),
        ("[-oX]:p", "cannot begin with -"),
        ("my notes: one", "./a:b"),
        ("h\x1b[2J:p", "control"),
        ("h:~root/x", "~NAME"),
        ("ssh://h/~root/x", "~NAME"),
        ("h::", "module is missing"),
        ("rsync://h", "module is missing"),
        ("rsync://h//m", "module is missing"),
        ("rsync://h/m/../n", "cannot hold .."),
        ("rsync://h:0/m", "port"),
        ("rsync://-h/m", "cannot begin with -"),
        ("[::1", "[::1]:path"),
        ("[x]:p", "IPv6"),
        ("ssh://::1/p", "brackets"),
        ("ssh://h:0/p", "port"),
        ("ssh://h:/p", "port"),
        ("ssh://h:+22/p", "port"),
        ("ssh://h:65536/p", "port"),
        ("ssh:///p", "host is missing"),
        ("http://h/p", "not known"),
        ("file:///p", "without file://"),
    ] {
        let error = Location::parse(typed.as_bytes()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage, "{typed:?}");
        assert!(error.to_string().contains(words), "{typed:?}: {error}");
        assert!(!error.to_string().contains('\x1b'));
    }
    for scheme in LATER_SCHEMES {
        let error = Location::parse(format!("{scheme}://x/y").as_bytes()).unwrap_err();
        assert!(error.detail.contains("not in this version"), "{error}");
    }
}

#[test]
fn a_slash_at_the_end_is_remembered() {
    for (typed, contents, name, parent) in [
        ("a", false, Some("a"), Some(".")),
        ("a/", true, Some("a"), Some(".")),
        ("a/.", true, Some("a"), Some(".")),
        ("a/..", true, None, None),
        (".", true, None, None),
        ("..", true, None, None),
        ("/", true, None, None),
        ("//", true, None, None),
        ("/a", false, Some("a"), Some("/")),
        ("//a//", true, Some("a"), Some("/")),
        ("/a//b", false, Some("b"), Some("/a")),
        ("./b", false, Some("b"), Some(".")),
        ("../b/./", true, Some("b"), Some("..")),
        ("h:", true, None, None),
        ("h:b", false, Some("b"), Some(".")),
        ("h:/x/b/", true, Some("b"), Some("/x")),
    ] {
        let location = parse(typed);
        assert_eq!(location.means_contents(), contents, "{typed}");
        assert_eq!(location.final_name(), name.map(str::as_bytes), "{typed}");
        assert_eq!(location.parent_path().as_deref(), parent.map(str::as_bytes), "{typed}");
    }
}

#[test]
fn names_that_are_not_utf8_are_kept() {
    let location = Location::parse(b"h:/a\xff").unwrap();
    assert_eq!((location.path(), location.to_string()), (&b"/a\xff"[..], "h:/a\\xff".to_owned()));
    assert!(Location::parse(b"h\xff:/a").is_err());
    assert_eq!(Location::parse(b"\xff").unwrap().ssh_host(), None);
}

/// Generates bytes, many of which are special characters of locations.
fn typed_bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => prop::sample::select(b"/:@[]~.-%\0 \n".to_vec()),
        2 => prop::sample::select(b"ashu012".to_vec()),
        1 => any::<u8>(),
    ];
    let prefix = prop_oneof![
        Just(""),
        Just("ssh://"),
        Just("ssh:"),
        Just("[::1]"),
        Just("s3://bucket"),
        Just("https://account.blob.core.windows.net/cont"),
    ];
    (prefix, prop::collection::vec(byte, 0..40))
        .prop_map(|(prefix, bytes)| [prefix.as_bytes(), &bytes].concat())
}

proptest! {
    #[test]
    fn any_bytes_give_a_sound_location_or_a_usage_error(typed in typed_bytes()) {
        match Location::parse(&typed) {
            Err(error) => prop_assert_eq!(error.kind, ErrorKind::Usage),
            Ok(location) => {
                prop_assert_eq!(location.as_typed(), &typed[..]);
                prop_assert!(!location.path().contains(&0));
                prop_assert!(location.store().is_some() || !location.path().is_empty());
                prop_assert!(!location.to_string().contains(char::is_control));
                if let Some(host) = location.ssh_host() {
                    prop_assert!(!host.host.is_empty() && !host.destination().starts_with('-'));
                    prop_assert!(!host.host.starts_with('-'));
                    prop_assert!(!host.destination().contains(char::is_whitespace));
                }
                if let Some(name) = location.final_name() {
                    prop_assert!(!name.is_empty() && name != b"." && name != b"..");
                    prop_assert!(!name.contains(&b'/'));
                    prop_assert!(location.parent_path().is_some_and(|parent| !parent.is_empty()));
                }
            }
        }
    }
}

#[test]
fn a_password_is_neither_taken_nor_shown() {
    for typed in ["rsync://joe:secret@h/m", "ssh://joe:secret@h:22/x", "sftp://joe:secret@[::1]/x"] {
        let error = Location::parse(typed.as_bytes()).unwrap_err();
        assert!(
            error.detail.contains("a password is not taken") && !error.to_string().contains("secret"),
            "{error}"
        );
    }
}

#[test]
fn stores_are_named_by_their_scheme() {
    let parse = |typed: &str| Location::parse(typed.as_bytes()).unwrap();
    for (typed, scheme, name, path, contents) in [
        ("null://", "null", "", "", true),
        ("NULL:///", "null", "", "", true),
        ("memory://bucket", "memory", "bucket", "", true),
        ("memory://bucket/a/b", "memory", "bucket", "a/b", false),
        ("memory://bucket/a//b/", "memory", "bucket", "a//b/", true),
    ] {
        let location = parse(typed);
        let store = StoreName { scheme: scheme.to_owned(), name: name.as_bytes().to_vec() };
        assert_eq!((location.store(), location.path()), (Some(&store), path.as_bytes()), "{typed}");
        assert_eq!(location.means_contents(), contents, "{typed}");
        assert!(!location.is_local() && location.ssh_host().is_none(), "{typed}");
    }
    assert_eq!(parse("memory://b/x").beside(b"y/z"), parse("memory://b/y/z"));
    assert_eq!(parse("memory://b/x").beside(b"/dev/null").as_typed(), b"memory://b/dev/null");
    assert!(Location::parse(b"unknown://x").is_err());
}

#[test]
fn buckets_and_containers_are_stores() {
    for (typed, name, path, contents) in [
        ("s3://bucket", "s3://bucket", "", true),
        ("S3://bucket/", "s3://bucket", "", true),
        ("s3://my.bucket-1/a b/c", "s3://my.bucket-1", "a b/c", false),
        ("s3://Old_Bucket/a%20b/", "s3://Old_Bucket", "a%20b/", true),
        ("s3://bucket/a?b#c@d:e", "s3://bucket", "a?b#c@d:e", false),
        ("gs://bucket/x", "gs://bucket", "x", false),
        ("az://container/x", "az://container", "x", false),
        ("az://$web@account/x", "az://$web@account", "x", false),
        ("https://Account.blob.core.windows.net/cont", "az://cont@account", "", true),
        (
            "https://account.blob.core.windows.net/cont/a%20%2525/b+c/",
            "az://cont@account",
            "a %25/b+c/",
            true,
        ),
        ("https://account.dfs.core.windows.net/cont/x", "az://cont@account", "x", false),
    ] {
        let location = Location::parse(typed.as_bytes()).unwrap();
        let store = location.store().unwrap();
        assert_eq!(
            (&*store.location_of(b""), location.path()),
            (name.as_bytes(), path.as_bytes()),
            "{typed}"
        );
        assert_eq!((location.means_contents(), location.as_typed()), (contents, typed.as_bytes()), "{typed}");
        let again = Location::parse(&store.location_of(location.path())).unwrap();
        assert_eq!((again.store(), again.path()), (Some(store), location.path()), "{typed}");
    }
}

#[test]
fn what_no_bucket_can_be_is_refused_with_words() {
    let long = format!("gs://{}", "a".repeat(223));
    for (typed, words) in [
        ("s3://", "the bucket is missing: s3://BUCKET/PATH"),
        ("s3:///x", "the bucket is missing: s3://BUCKET/PATH"),
        ("gs://", "the bucket is missing: gs://BUCKET/PATH"),
        ("az:///x", "the container is missing: az://CONTAINER/PATH"),
        ("s3://bucket:9000/x", "s3://BUCKET/PATH with --endpoint http://HOST:PORT"),
        ("s3://bucket:/x", "a port is no part of it"),
        ("s3://arn:aws:s3:eu-west-1:1:accesspoint/x", "by its alias"),
        ("s3://buc:ket/x", "no colon in its name"),
        ("s3://ab", "no bucket has such a name: 3 to 255 letters"),
        ("s3://bücket", "no bucket has such a name"),
        ("s3://me@bucket", "no bucket has such a name"),
        ("s3://-bucket/x", "no bucket has such a name"),
        ("s3://bucket./x", "no bucket has such a name"),
        ("s3://..", "no bucket has such a name"),
        (&long, "no bucket has such a name: 3 to 222 letters"),
        ("az://Container", "no container has such a name"),
        ("az://a--b", "no container has such a name"),
        ("az://cont@an_account", "no storage account has such a name"),
        ("az://cont@", "no storage account has such a name"),
        ("s3://bucket//x", "nothing stands between two slashes"),
        ("s3://bucket/a//b", "nothing stands between two slashes"),
        ("s3://bucket/a//", "nothing stands between two slashes"),
        ("s3://bucket//", "nothing stands between two slashes"),
        ("s3://bucket/a/../c", "no . or .. in it"),
        ("s3://bucket/.", "no . or .. in it"),
        ("s3:bucket/x", "for a store write s3://NAME/PATH, for a host of that name ssh://s3/PATH"),
        ("gs:/bucket/x", "for a store write gs://NAME/PATH"),
        ("https://bucket.s3.amazonaws.com/x", "write s3://BUCKET/PATH"),
        ("https://account.blob.core.windows.net", "the container is missing"),
        ("https://account.blob.core.windows.net//x", "the container is missing"),
        ("https://account.blob.core.windows.net/cont/%2e%2e/x", "no . or .. in it"),
        ("https://account.blob.core.windows.net/cont/%2", "two hexadecimal digits"),
        ("https://account.blob.core.windows.net/cont/%zz", "two hexadecimal digits"),
        ("https://account.blob.core.windows.net/cont/%00", "a NUL byte"),
        ("https://account-secondary.blob.core.windows.net/cont", "no storage account has such a name"),
        ("https://account.blob.core.windows.net/cont?comp=list", "leave out ? and what follows"),
    ] {
        let error = Location::parse(typed.as_bytes()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage, "{typed}");
        assert!(error.detail.contains(words), "{typed}: {error}");
    }
}

#[test]
fn secrets_of_stores_are_neither_taken_nor_shown() {
    for (typed, words) in [
        ("https://account.blob.core.windows.net/cont/x?sv=2024-11-04&sig=secret", "AZURE_STORAGE_SAS_TOKEN"),
        ("az://cont@account/x?sv=2024-11-04&SIG=secret", "AZURE_STORAGE_SAS_TOKEN"),
        ("https://bucket.s3.amazonaws.com/x?X-Amz-Signature=secret", "write s3://BUCKET/PATH"),
        ("http://account.blob.core.windows.net/cont/x?sig=secret", "http:// is not known"),
        ("s3://AKIA:secret@bucket/x", "keys are not taken"),
        ("s3://AKIA:sec/secret@bucket/x", "keys are not taken"),
        ("az://account:secret@cont/x", "keys are not taken"),
        ("https://me:secret@account.blob.core.windows.net/cont", "keys are not taken"),
    ] {
        let error = Location::parse(typed.as_bytes()).unwrap_err();
        assert!(error.detail.contains(words), "{typed}: {error}");
        assert!(!format!("{error:?} {error}").contains("secret"), "{typed}: {error}");
    }
}
