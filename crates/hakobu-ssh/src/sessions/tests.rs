//! Tests with a real server.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;

use hakobu_core::shell::split;
use hakobu_testkit::sshd::{Password, Sshd, SshdOptions, no_root};

use super::*;

/// A stop flag that is never set.
static NEVER: AtomicBool = AtomicBool::new(false);

/// Returns the ssh command for a user who is asked for a password.
fn asking(password: &Password, server: &Sshd) -> String {
    format!(
        "env SSH_ASKPASS={} SSH_ASKPASS_REQUIRE=force {} -o BatchMode=no -o PubkeyAuthentication=no -l {}",
        password.program().display(),
        server.ssh_command(),
        password.user().name()
    )
}

fn server(lines: &[&str]) -> Sshd {
    let mut config_lines = vec!["PasswordAuthentication yes".to_owned()];
    config_lines.extend(lines.iter().map(|&line| line.to_owned()));
    Sshd::start(&SshdOptions { config_lines, ..SshdOptions::default() }).unwrap()
}

fn sessions(server: &Sshd, ssh_command: String) -> Sessions {
    let mut settings = SshSettings::new(server.host().as_bytes().to_vec());
    settings.ssh_command = split(ssh_command).unwrap();
    Sessions::new(settings).unwrap()
}

/// Sends a line through the pipe and reads it back.
fn works(pipe: &mut Pipe) -> bool {
    let mut back = [0; 5];
    let socket = &mut pipe.socket;
    socket.write_all(b"line\n").is_ok() && socket.read_exact(&mut back).is_ok() && &back == b"line\n"
}

/// Opens the first session and `further` more, all alive at once.
fn open(sessions: &Sessions, further: usize) -> Vec<Pipe> {
    let mut pipes = vec![sessions.first(SessionCommand::Command("exec cat")).unwrap()];
    assert!(works(&mut pipes[0]));
    pipes.extend(self::further(sessions, further));
    pipes
}

/// Opens `count` further sessions.
fn further(sessions: &Sessions, count: usize) -> Vec<Pipe> {
    let open = |_| {
        let mut pipe = sessions.further(SessionCommand::Command("exec cat"), &NEVER).unwrap();
        assert!(works(&mut pipe), "{}", pipe.said.last_line());
        pipe
    };
    (0..count).map(open).collect()
}

fn logins(server: &Sshd) -> usize {
    server.log().lines().filter(|line| line.contains("Accepted p")).count()
}

#[test]
fn sessions_of_a_key_have_connections_of_their_own() {
    // One session for each connection, and no login waits for another.
    let server = server(&["MaxSessions 1", "MaxStartups 3:100:3"]);
    let sessions = sessions(&server, server.ssh_command());
    let pipes = open(&sessions, 8);
    assert_eq!(logins(&server), 9);
    assert!(!sessions.lock().shared.as_ref().unwrap().is_on_disk());
    let processes: Vec<_> = pipes.iter().map(|pipe| pipe.ssh.id()).collect();
    drop(pipes);
    for process in processes {
        assert!(!PathBuf::from(format!("/proc/{process}")).exists());
    }
}

#[test]
fn on_a_long_way_the_first_few_save_a_login() {
    let server = server(&[]);
    let sessions = sessions(&server, server.ssh_command());
    sessions.round_trip_is(LONG_WAY);
    let pipes = open(&sessions, QUICK_MAX + 3);
    // Two sessions in each; a third login is for those that may follow.
    assert!((1 + 2..=1 + 3).contains(&logins(&server)), "{}", server.log());
    drop(pipes);
    // If the server refuses sessions in the first login, it is tried only once.
    let server = self::server(&["MaxSessions 1"]);
    let sessions = self::sessions(&server, server.ssh_command());
    sessions.round_trip_is(LONG_WAY);
    let pipes = open(&sessions, 4);
    assert_eq!(sessions.lock().quick.len(), 1);
    assert!(logins(&server) <= 1 + 4 + 3, "{}", server.log());
    drop(pipes);
    assert!(sessions.leave_the_first() && !sessions.leave_the_first());
}

/// Waits for `count` logins, and briefly for more.
#[track_caller]
fn assert_logins(server: &Sshd, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while logins(server) < count && Instant::now() < deadline {
        std::thread::sleep(LOOK_EVERY);
    }
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(logins(server), count, "{}", server.log());
}

#[test]
fn what_a_long_run_wants_is_there_before_it_is_wanted() {
    let server = server(&[]);
    let sessions = sessions(&server, server.ssh_command());
    let first = open(&sessions, 0);
    sessions.foresee_many();
    // Nothing is prepared if a login is fast.
    assert_logins(&server, 1);
    sessions.round_trip_is(LONG_WAY);
    sessions.foresee_many();
    assert_logins(&server, 1 + 4);
    let pipes = further(&sessions, QUICK_MAX + 8);
    assert_logins(&server, 1 + 4);
    drop((pipes, first, sessions));
    let deadline = Instant::now() + Duration::from_secs(20);
    while !server.processes().is_empty() && Instant::now() < deadline {
        std::thread::sleep(LOOK_EVERY);
    }
    assert!(server.processes().is_empty());
}

#[test]
fn a_login_that_would_ask_is_tried_once_at_most_on_a_long_way_as_well() {
    if no_root() {
        return;
    }
    let (server, password) = (server(&[]), Password::create().unwrap());
    let sessions = sessions(&server, asking(&password, &server));
    let _first = open(&sessions, 0);
    sessions.round_trip_is(LONG_WAY);
    sessions.foresee_many();
    let _pipes = further(&sessions, 8);
    assert_eq!((password.asked(), logins(&server)), (1, 1));
    // Usually the question of the first login is noticed, and none is tried; otherwise two are, together.
    assert!(server.ended_before_login().len() <= 2, "{}", server.log());
}

#[test]
fn a_password_is_asked_for_once() {
    if no_root() {
        return;
    }
    let server = server(&[]);
    let password = Password::create().unwrap();
    let sessions = sessions(&server, asking(&password, &server));
    let pipes = open(&sessions, 8);
    assert_eq!((password.asked(), logins(&server)), (1, 1));
    drop(pipes);
    // Another first session is another login.
    drop(open(&sessions, 1));
    assert_eq!((password.asked(), logins(&server)), (2, 2));
}

#[test]
fn a_server_that_allows_no_second_session_is_an_end_with_words() {
    if no_root() {
        return;
    }
    let server = server(&["MaxSessions 1"]);
    let password = Password::create().unwrap();
    let sessions = sessions(&server, asking(&password, &server));
    let _first = open(&sessions, 0);
    let mut pipe = sessions.further(SessionCommand::Command("exec cat"), &NEVER).unwrap();
    assert!(!works(&mut pipe));
    assert!(pipe.said.last_words().contains("ssh says"), "{}", pipe.said.last_line());
    assert!(server.penalty_s() <= 5, "{}", server.log());
    assert_eq!(password.asked(), 1);
    // A forwarded port is not a session for the server.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let _pipe = sessions.further(SessionCommand::Forward { address: "127.0.0.1", port }, &NEVER).unwrap();
    listener.accept().unwrap();
}

#[test]
fn a_refused_connection_is_no_reason_to_insist() {
    if no_root() {
        return;
    }
    let server = server(&[]);
    let sessions = sessions(&server, server.ssh_command());
    let _pipes = open(&sessions, 1);
    // From now on the server accepts no new connections.
    let listener = rustix::process::Pid::from_raw(server.id() as i32).unwrap();
    rustix::process::kill_process(listener, rustix::process::Signal::KILL).unwrap();
    let mut pipe = sessions.further(SessionCommand::Command("exec cat"), &NEVER).unwrap();
    assert!(works(&mut pipe), "{}", pipe.said.last_line());
    assert_eq!(sessions.lock().own, Some(false));
}

#[test]
fn what_the_users_configuration_shares_stays_so() {
    let server = server(&[]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shared");
    let options = format!("-o ControlMaster=auto -o ControlPath={}", path.display());
    let sessions = sessions(&server, format!("{} {options}", server.ssh_command()));
    let pipes = open(&sessions, 3);
    assert_eq!(logins(&server), 1);
    assert!(path.exists() && sessions.lock().shared.is_none());
    drop(pipes);
}

#[test]
fn a_path_without_a_connection_behind_it_shares_nothing() {
    let server = server(&[]);
    let options = "-o ControlMaster=no -o ControlPath=/nonexistent/path";
    let sessions = sessions(&server, format!("{} {options}", server.ssh_command()));
    assert_eq!(sessions.sharing, Sharing::Ours);
    drop(open(&sessions, 1));
}

#[test]
fn another_program_is_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dbclient");
    fs::write(&path, "echo \"$*\"; exec cat\n").unwrap();
    let mut settings = SshSettings::new(b"far".to_vec());
    settings.ssh_command = split(format!("sh {}", path.display())).unwrap();
    let sessions = Sessions::new(settings).unwrap();
    for pipe in [
        sessions.first(SessionCommand::Subsystem("sftp")).unwrap(),
        sessions.further(SessionCommand::Subsystem("sftp"), &NEVER).unwrap(),
    ] {
        let Pipe { mut socket, ssh: _ssh, .. } = pipe;
        socket.shutdown(Shutdown::Write).unwrap();
        let mut said = String::new();
        socket.read_to_string(&mut said).unwrap();
        assert_eq!(said, "-s -T far sftp\n");
    }
    let refused = sessions.further(SessionCommand::Forward { address: "127.0.0.1", port: 1 }, &NEVER);
    assert!(matches!(refused, Err(SshError::Unusable { .. })));
}
