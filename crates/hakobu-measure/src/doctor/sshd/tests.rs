//! Configurations that a real server reads.

use super::super::system_root::recorded::{facts, tree};
use super::*;

fn login(user: &str, from: &str) -> SshLogin {
    SshLogin {
        user: user.to_owned(),
        from: from.parse().unwrap(),
        at: "::ffff:198.51.100.1".parse().unwrap(),
        port: 22,
    }
}

/// Returns the values for a login, and what is not known.
fn server(config: &str, login: Option<&SshLogin>) -> (Option<LoginServer>, Vec<String>) {
    let (tree, mut facts) = (tree(&[("etc/ssh/sshd_config", config)]), HostFacts::default());
    read(&SystemRoot::new(tree.path()), login, &mut facts);
    (facts.login_server, facts.unread)
}

const CONFIG: &str = "\
MaxSessions 7
MaxStartups 5:50:9 # few
RekeyLimit 3G
PerSourceMaxStartups 6
Match User ann,bob Address 192.0.2.0/24,!192.0.2.9
  MaxSessions 2
  RekeyLimit 1M
Match User a* LocalPort 22
  MaxSessions 3
Match Group root
  MaxSessions 1
Match Address 10.* LocalAddress 198.51.100.1
  RekeyLimit 5K
";

#[test]
fn a_login_gets_what_its_match_says() {
    for (user, from, sessions, rekey, of_match) in [
        ("ann", "192.0.2.7", 2, 1 << 20, (true, true)),
        ("ann", "192.0.2.9", 3, 3 << 30, (true, false)),
        ("abc", "::ffff:10.1.2.3", 3, 5 << 10, (true, true)),
        ("zoe", "10.1.2.3", 7, 5 << 10, (false, true)),
        ("root", "::1", 1, 3 << 30, (true, false)),
        ("bob", "::1", 7, 3 << 30, (false, false)),
    ] {
        let (server, unread) = server(CONFIG, Some(&login(user, from)));
        let server = server.unwrap_or_else(|| panic!("{unread:?}"));
        assert_eq!((server.max_sessions, server.rekey_bytes), (Some(sessions), Some(rekey)), "{user} {from}");
        assert_eq!((server.of_match, unread), (of_match, Vec::new()), "{user} {from}");
        assert_eq!((server.max_startups, server.max_startups_of_one), (Some((5, 50, 9)), Some(6)));
    }
}

#[test]
fn without_a_login_no_match_counts_and_defaults_are_those_of_the_server() {
    let (known, unread) = server(CONFIG, None);
    let known = known.unwrap_or_else(|| panic!("{unread:?}"));
    assert_eq!((known.max_sessions, known.of_match), (Some(7), (false, false)));
    let (known, _) = server("# nothing\n", None);
    let known = known.unwrap();
    assert_eq!((known.max_startups, known.max_sessions), (Some((10, 30, 100)), Some(10)));
    assert_eq!((known.max_startups_of_one, known.rekey_bytes), (None, None));
    let (known, _) = server("MaxSessions 4\nMatch all\nMaxSessions 4\n", None);
    assert_eq!(known.unwrap().of_match, (true, false));
    assert_eq!(facts(&[], None).login_server, None);
}

#[test]
fn a_configuration_that_the_server_refuses_is_not_known() {
    let (known, unread) = server("MaxSessions many\n", None);
    assert_eq!(known, None);
    let [words] = &unread[..] else { panic!("{unread:?}") };
    assert!(words.contains("not known, since `sshd -T` failed") && words.contains("MaxSessions"), "{words}");
}

#[test]
fn penalties_are_read_in_whole_seconds() {
    let of = |value| {
        let penalties = penalties(value);
        (penalties.refused_seconds, penalties.silent_seconds, penalties.from_seconds)
    };
    let value = "crash:90 authfail:5 noauth:1 grace-exceeded:20 refuseconnection:10 max:600 min:15";
    assert_eq!(of(value), (Some(5), Some(1), Some(15)));
    assert_eq!(of("authfail:4.500000 min:15.0"), (Some(5), None, Some(15)));
    assert_eq!(of("no"), (Some(0), Some(0), None));
    assert_eq!(of("authfail:x"), (None, None, None));
}

#[test]
fn values_that_are_none_are_not_taken_for_numbers() {
    assert_eq!(startups("1:2"), None);
    assert_eq!(startups("10:30:100"), Some((10, 30, 100)));
    let number = |settings| first_number::<u32>(settings, "a");
    assert_eq!((number("a 512 3600"), number("a none"), number("b 1")), (Some(512), None, None));
    assert_eq!(value("maxsessionsx 1\nmaxsessions 2\n", "maxsessions"), Some("2"));
}
