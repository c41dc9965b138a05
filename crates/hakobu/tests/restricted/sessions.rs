//! Sessions of a restricted key: data goes through them, and nothing else.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Command, Output, Stdio};

use crate::keys::{host, on};
use crate::program::*;

/// Returns the output of the server's forced command for a requested command.
fn ssh(host: &Host, options: &[&str], command: &str) -> Output {
    let mut words = vec!["-T", "-F", host.sshd.client_config().to_str().unwrap()]
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    words.extend(options.iter().map(|&word| word.to_owned()));
    words.extend([host.sshd.host().to_owned(), command.to_owned()]);
    let mut child = Command::new("ssh")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command may have ended already.
    let _ = child.stdin.take().unwrap().write_all(b"anybody there?\n");
    child.wait_with_output().unwrap()
}

#[test]
fn data_goes_through_sessions_where_no_port_is_forwarded() {
    let place = place();
    let backup = place.path().join("backup");
    let source = tree(&backup.join("tree"));
    file(&source.join("larger"), 150_000_001);
    let host = host("restrict,", &on(&backup, ""));
    for pull in [true, false] {
        let target = if pull { place.path().join("pulled") } else { backup.join("pushed") };
        let typed = match pull {
            true => [contents(host.at(&source)), target.clone().into()],
            false => [contents(&source), host.at(&target)],
        };
        let copy = Copy::new().to(&host).options("--transport ssh --lanes 3 --why").args(&typed);
        // One login for the agent, one that finds that no port is forwarded, and one for each lane.
        let ran = copy.crawl_until_logins(&host, host.logins() + 5);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert_same(&source, &target);
        assert_eq!(ran.report["transport"], "ssh");
        // The last lane may have come too late for any work.
        assert!((2..=3).contains(&ran.report["lanes_max"].as_u64().unwrap()), "{:#}", ran.report);
        ran.says(&["through ssh to throwaway", "prohibited"]);
    }
    host.wait_for_no_agent();
}

#[test]
fn a_key_that_may_forward_needs_no_further_agents() {
    let place = place();
    let source = tree(&place.path().join("backup/tree"));
    let host = host("", &on(&place.path().join("backup"), "--read-only"));
    let target = place.path().join("target");
    let copy = Copy::new().to(&host).options("--transport ssh --lanes 2");
    copy.arg(contents(host.at("tree"))).arg(&target).run_to(0);
    assert_same(&source, &target);
}

#[test]
fn nothing_else_is_run_or_reached() {
    let place = place();
    let backup = place.path().join("backup");
    fs::create_dir(&backup).unwrap();
    let host = host("restrict,", &on(&backup, ""));
    let mark = place.path().join("mark");
    let touch = format!("touch {}", mark.display());
    // A listening service of the machine, and one that pretends to be an agent's.
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    service.set_nonblocking(true).unwrap();
    let port = service.local_addr().unwrap().port();
    let name = |process: u32| {
        let user = rustix::process::geteuid().as_raw();
        SocketAddr::from_abstract_name(format!("hakobu/join/{user}/{process}/{port}")).unwrap()
    };
    let impostor = UnixListener::bind_addr(&name(1)).unwrap();
    let own = std::process::id();
    for command in [
        touch.clone(),
        format!("sh -c '{touch}'"),
        format!("hakobu; {touch}"),
        format!("exec /proc/{own}/exe agent --join {port}; {touch}"),
        format!("exec /proc/{own}/exe agent --join {port}"),
        format!("exec /proc/1/exe agent --join {port}"),
        format!("exec /proc/{}/exe agent --join {port}", host.sshd.id()),
        "scp -t /tmp".to_owned(),
        "rsync --server . /".to_owned(),
    ] {
        let output = ssh(&host, &[], &command);
        assert!(!output.status.success(), "{command}: {output:?}");
        assert_eq!(output.stdout, b"", "{command}");
        assert!(!output.stderr.is_empty());
    }
    let output = ssh(&host, &["-s"], "sftp");
    // The server does not pass on the messages of a subsystem.
    assert!(output.status.code() == Some(6) && output.stdout.is_empty(), "{output:?}");
    let output = ssh(&host, &[], "id");
    assert!(String::from_utf8_lossy(&output.stderr).contains("for hakobu alone"), "{output:?}");
    // A command that looks like a request of hakobu starts the agent of this directory, and no part of it is run.
    for command in [format!("sh -c '{touch}' hakobu 0 0 0"), format!("hakobu agent --restrict /; {touch}")] {
        let output = ssh(&host, &[], &command);
        assert!(output.stdout.starts_with(hakobu_proto::control::PREAMBLE), "{output:?}");
    }
    assert!(ssh(&host, &[], "true").status.success());
    assert!(!mark.exists());
    assert!(service.accept().is_err(), "a service was reached");
    // The impostor was dialled, but received nothing.
    let (mut stream, _) = impostor.accept().unwrap();
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"");
}
