//! Configurations that are read here and by a real server.

use std::process::Command;

use super::super::system_root::recorded::{add, facts, tree};
use super::*;

fn login(user: &str, from: &str) -> SshLogin {
    SshLogin {
        user: user.to_owned(),
        from: from.parse().unwrap(),
        at: "198.51.100.1".parse().unwrap(),
        port: 22,
    }
}

/// Returns the values for a login, and what could not be decided.
fn server(files: &[(&str, &str)], login: Option<&SshLogin>) -> (LoginServer, Vec<String>) {
    let (tree, mut facts) = (tree(files), HostFacts::default());
    read(&SystemRoot::new(tree.path()), login, &mut facts);
    (facts.login_server.unwrap(), facts.unread)
}

#[test]
fn the_first_value_holds_and_what_is_included_comes_where_it_stands() {
    let main = "# MaxStartups 1\nInclude sshd_config.d/*.conf\nMaxStartups 10:30:60\nmaxsessions=1 # few\n\
                Match User x\nPerSourceMaxStartups 1\n";
    let files = [
        ("etc/ssh/sshd_config", main),
        (
            "etc/ssh/sshd_config.d/50-a.conf",
            "MaxStartups 2\nPerSourcePenalties authfail:1m30s min:20\nMatch User x\nMaxSessions 5\n",
        ),
        ("etc/ssh/sshd_config.d/60-b.conf", "Include sshd_config.d/60-b.conf\nMaxStartups 3\n"),
        ("etc/ssh/sshd_config.d/70-not", "MaxSessions 7\n"),
    ];
    let server = facts(&files, None).login_server.unwrap();
    assert_eq!((server.max_startups, server.max_sessions), (Some((2, 100, 2)), Some(1)));
    assert_eq!(server.max_startups_of_one, None);
    let penalties = server.penalties.unwrap();
    assert_eq!((penalties.refused_seconds, penalties.from_seconds), (Some(90), Some(20)));
    assert_eq!(facts(&[], None).login_server, None);
}

#[test]
fn what_a_match_says_holds_for_the_logins_that_it_is_about() {
    let main = "MaxSessions 10\nMatch User ann Address 192.0.2.0/24\nMaxSessions 1\nRekeyLimit 1M 1h\n\
                Match Group nobody\nMaxSessions 2\nMatch all\nMaxStartups 3\nMaxSessions 4\n";
    let files = [("etc/ssh/sshd_config", main), ("etc/passwd", ""), ("etc/group", "")];
    let sessions = |login: &SshLogin| {
        let (server, unread) = server(&files, Some(login));
        assert_eq!(server.max_startups, Some((3, 100, 3)), "{login:?}");
        assert!(server.of_match.0, "{login:?}");
        (server.max_sessions, server.rekey_bytes, unread.len())
    };
    assert_eq!(sessions(&login("ann", "192.0.2.7")), (Some(1), Some(1 << 20), 0));
    // The group of bob is unknown.
    assert_eq!(sessions(&login("bob", "192.0.2.7")), (Some(4), None, 1));
    let files = [("etc/ssh/sshd_config", &main[..main.find("Match all").unwrap()])];
    let (server, unread) = server(&files, None);
    assert_eq!((server.max_sessions, unread.len()), (Some(10), 0), "{unread:?}");
    assert_eq!(server.of_match, (false, false));
}

#[test]
fn what_is_included_in_a_match_is_about_nobody_else() {
    let main = "Match User ann\nInclude of_ann\nMaxSessions 9\n";
    let files = [
        ("etc/ssh/sshd_config", main),
        ("etc/ssh/of_ann", "Match Address 192.0.2.7\nMaxSessions 3\nMatch all\nRekeyLimit 2G\n"),
    ];
    let of = |user, from| {
        let (server, unread) = server(&files, Some(&login(user, from)));
        assert_eq!(unread, Vec::<String>::new());
        (server.max_sessions, server.rekey_bytes)
    };
    assert_eq!(of("ann", "192.0.2.7"), (Some(3), Some(2 << 30)));
    assert_eq!(of("ann", "192.0.2.8"), (Some(9), Some(2 << 30)));
    assert_eq!(of("bob", "192.0.2.7"), (None, None));
}

/// Compares the result with that of the installed server for the same file.
#[test]
fn a_real_server_reads_the_same() {
    let main = "\
MaxSessions 7
MaxStartups 5:50:9 # few
RekeyLimit 3G
Match User ann,bob Address 192.0.2.0/24,!192.0.2.9
  MaxSessions 2
  RekeyLimit 1M
Match User a* LocalPort 22
  MaxSessions 3
Match Address 10.*
  RekeyLimit 5K
Match all
  MaxSessions 4
  PerSourceMaxStartups 6
";
    let tree = tree(&[("etc/ssh/sshd_config", main), ("etc/passwd", ""), ("etc/group", "")]);
    let config = tree.path().join("etc/ssh/sshd_config");
    let key = tree.path().join("key");
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
    assert!(made.unwrap().success());
    add(tree.path(), &[("full", &format!("HostKey {}\n{main}", key.display()))]);
    for (user, from) in
        [("ann", "192.0.2.7"), ("ann", "192.0.2.9"), ("abc", "10.1.2.3"), ("zoe", "10.1.2.3"), ("bob", "::1")]
    {
        let asked = format!("user={user},host={from},addr={from},laddr=198.51.100.1,lport=22");
        let mut command = Command::new("/usr/sbin/sshd");
        command.args(["-T", "-f"]).arg(tree.path().join("full")).args(["-C", &asked]);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let value = |keyword: &str| {
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(keyword)?.strip_prefix(' '));
            lines.next().unwrap_or_else(|| panic!("{keyword} in {text}")).to_owned()
        };
        let mut found = HostFacts::default();
        read(&SystemRoot::new(tree.path()), Some(&login(user, from)), &mut found);
        let server = found.login_server.unwrap();
        let (begin, percent, full) = server.max_startups.unwrap();
        let asked = format!("{user} from {from}, {}", config.display());
        assert_eq!(format!("{begin}:{percent}:{full}"), value("maxstartups"), "{asked}");
        assert_eq!(server.max_sessions.unwrap().to_string(), value("maxsessions"), "{asked}");
        assert_eq!(server.max_startups_of_one.unwrap().to_string(), value("persourcemaxstartups"), "{asked}");
        assert_eq!(format!("{} 0", server.rekey_bytes.unwrap()), value("rekeylimit"), "{asked}");
    }
}

#[test]
fn times_and_amounts_are_those_of_sshd() {
    for (text, wanted) in
        [("15", Some(15)), ("2m", Some(120)), ("1h1s", Some(3601)), ("x", None), ("", None), ("m", None)]
    {
        assert_eq!(seconds(text), wanted, "{text:?}");
    }
    for (text, wanted) in [
        ("1G 1h", Some(1 << 30)),
        ("default none", None),
        ("512", Some(512)),
        ("0", None),
        ("99999999999G", None),
    ] {
        assert_eq!(bytes(text), wanted, "{text:?}");
    }
    assert_eq!(penalties("no").refused_seconds, Some(0));
    assert_eq!(startups("1:2"), None);
    assert_eq!(without_comment("a \"b # c\" d#e # f"), "a \"b # c\" d#e");
}
