//! Several control planes with one ledger in PostgreSQL: who leads, and that nothing else writes.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use hakobu_core::error::ErrorKind;
use hakobu_fleet::change::{LedgerAnswer, LedgerChange, LedgerRefusal, UnitResult};
use hakobu_fleet::ids::RunId;
use hakobu_fleet::ledger::Ledger;
use hakobu_fleet::ledger::leadership::LeadershipState;
use hakobu_fleet::ledger::postgres::{PostgresLedger, SCHEMA_VERSION, mark_restored};
use hakobu_fleet::transition::{UnitRefusal, UnitTransition};
use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::postgres::{PostgresOptions, PostgresServer};

use crate::database::{leading, open, place, settings, wait_to_lead};
use crate::samples::*;

/// The variable with the URL, for the process that leads until something happens to it.
const URL: &str = "HAKOBU_TEST_DATABASE";
/// The time within which another control plane must lead.
const TAKEOVER_LIMIT: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(60);

/// Commits one unit, which adds one, and returns its number.
fn commit_one(ledger: &mut dyn Ledger, run: RunId) -> Result<u64, hakobu_core::Error> {
    // A unit that an earlier leader leased is taken back.
    for unit in ledger.leased_units(None, 9)? {
        let expire = UnitTransition::Expire { epoch: unit.state.epoch, now: moment(99_999) };
        ledger.apply(&[LedgerChange::Unit(unit.key, expire)])?;
    }
    let unit = ledger.ready_units(run, None, 1)?.remove(0);
    let lease = lease_change(unit.key, "one", unit.state.epoch.get(), 0, 10_000);
    let LedgerAnswer::Leased(lease) = ledger.apply(&[lease])?.remove(0) else { panic!("it is ready") };
    let result = UnitResult {
        children: vec![work(&["a"])],
        open_directories: vec![open_directory("a")],
        link_names: vec![link_name(unit.key.unit.get(), "a/l")],
        ..Default::default()
    };
    let answers = ledger.apply(&[commit_change(unit.key, "one", lease.epoch, result)])?;
    assert_eq!(answers, [LedgerAnswer::Committed]);
    Ok(unit.key.unit.get())
}

/// Started by tests: it leads, commits, and tells of each commit, until it is deposed.
#[test]
fn a_leader_that_commits() {
    let Some(url) = std::env::var_os(URL) else { return };
    let (mut ledger, leadership) = open(url.to_str().unwrap(), "child");
    wait_to_lead(&leadership.view(), LIMIT);
    let run = ledger.open_runs().unwrap()[0].id;
    let error = loop {
        match commit_one(&mut ledger, run) {
            Ok(_) => println!("committed"),
            Err(error) => break error,
        }
        std::io::stdout().flush().unwrap();
    };
    println!("ended {:?}", error.kind);
    let state = leadership.view().wait_for_change(&LeadershipState::Leading(0), Duration::ZERO);
    println!("follows {}", !matches!(state, LeadershipState::Leading(_)));
}

/// The process of [`a_leader_that_commits`].
struct LeaderProcess {
    child: Child,
    words: mpsc::Receiver<String>,
    committed: u64,
}

impl LeaderProcess {
    fn start(mut command: Command, url: &str) -> Self {
        let mut child = command
            .args(["--exact", "leadership::a_leader_that_commits", "--nocapture", "--test-threads=1"])
            .env(URL, url)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, words) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The name of the test and the first word may share a line.
                let line = line.rsplit(" ... ").next().unwrap_or_default().to_owned();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut process = Self { child, words, committed: 0 };
        process.wait_for("committed");
        process
    }

    fn wait_for(&mut self, beginning: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let word =
                self.words.recv_timeout(left).unwrap_or_else(|_| panic!("it does not say {beginning}"));
            self.committed += u64::from(word == "committed");
            if word.starts_with(beginning) {
                return word;
            }
        }
    }

    /// Counts everything that it has told.
    fn drain(&mut self) {
        thread::sleep(Duration::from_millis(100));
        while let Ok(word) = self.words.try_recv() {
            self.committed += u64::from(word == "committed");
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }
}

impl Drop for LeaderProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn this_program() -> Command {
    Command::new(std::env::current_exe().unwrap())
}

fn committed(ledger: &mut dyn Ledger, run: RunId) -> u64 {
    let units = ledger.run(run).unwrap().unwrap().units;
    assert_eq!(units.open(), 1, "each commit added one unit with itself, or neither");
    units.committed
}

/// Makes a place with a run.
fn place_with_run() -> (String, RunId) {
    let url = place();
    let (mut ledger, _leadership) = leading(&url);
    (url, start(&mut ledger, vec![work(&["a"])]))
}

#[test]
fn a_standby_leads_soon_when_the_leader_is_killed() {
    let (url, run) = place_with_run();
    let mut before = 0;
    for _ in 0..3 {
        let mut leader = LeaderProcess::start(this_program(), &url);
        let (mut standby, leadership) = open(&url, "standby");
        thread::sleep(Duration::from_millis(700));
        let following = LeadershipState::Following { leader: Some("child".to_owned()) };
        assert_eq!(leadership.view().state(), following);
        assert!(standby.run(run).unwrap().is_some(), "it serves what can be read");
        let change = lease_change(key(run, 1), "one", 0, 0, 9);
        assert_eq!(standby.apply(&[change]).unwrap_err().kind, ErrorKind::Locked);
        leader.child.kill().unwrap();
        let killed = Instant::now();
        leader.drain();
        wait_to_lead(&leadership.view(), TAKEOVER_LIMIT);
        println!("it leads {:?} after the other was killed", killed.elapsed());
        let total = committed(&mut standby, run);
        let told = before + leader.committed;
        assert!(total == told || total == told + 1, "{total} after {told} were told");
        commit_one(&mut standby, run).unwrap();
        before = committed(&mut standby, run);
        assert_eq!(before, total + 1);
    }
}

#[test]
fn a_leader_that_was_stopped_changes_nothing_when_it_goes_on() {
    let (url, run) = place_with_run();
    for _ in 0..2 {
        let mut leader = LeaderProcess::start(this_program(), &url);
        let (mut standby, leadership) = open(&url, "standby");
        leader.signal("-STOP");
        let stopped = Instant::now();
        wait_to_lead(&leadership.view(), TAKEOVER_LIMIT);
        println!("it leads {:?} after the other was stopped", stopped.elapsed());
        commit_one(&mut standby, run).unwrap();
        let total = committed(&mut standby, run);
        leader.signal("-CONT");
        assert_eq!(leader.wait_for("ended"), "ended Locked");
        assert_eq!(leader.wait_for("follows"), "follows true");
        assert_eq!(committed(&mut standby, run), total);
        commit_one(&mut standby, run).unwrap();
    }
}

#[test]
fn a_leader_that_is_cut_off_is_replaced() {
    if std::env::var_os("HAKOBU_NO_ROOT").is_some() {
        return;
    }
    let link = Link::up(LinkSettings::default()).unwrap();
    let (near, far) = (link.near(), link.far());
    let options = PostgresOptions {
        at: Some((far.name(), Ipv4Addr::UNSPECIFIED)),
        lines: "fsync = off\n",
        ..Default::default()
    };
    let server = PostgresServer::start_with(&options).unwrap();
    let url = |host: Ipv4Addr| format!("postgres://hakobu@{host}:{}/postgres?sslmode=disable", server.port());
    let (own, over_link) = (url(Ipv4Addr::LOCALHOST), url(far.address()));
    far.run(|| {
        let (mut ledger, _leadership) = leading(&own);
        start(&mut ledger, vec![work(&["a"])]);
    })
    .unwrap();
    let mut leader = LeaderProcess::start(near.command(std::env::current_exe().unwrap()), &over_link);
    let (mut standby, leadership) = far.run(|| open(&own, "standby")).unwrap();
    let run = standby.open_runs().unwrap()[0].id;
    link.cut();
    let cut = Instant::now();
    wait_to_lead(&leadership.view(), TAKEOVER_LIMIT);
    println!("it leads {:?} after the other was cut off", cut.elapsed());
    commit_one(&mut standby, run).unwrap();
    let total = committed(&mut standby, run);
    link.mend();
    assert_eq!(leader.wait_for("ended"), "ended Locked");
    assert_eq!(committed(&mut standby, run), total);
}

#[test]
fn a_restarted_server_loses_nothing_and_the_leader_stays() {
    let server = PostgresServer::start().unwrap();
    let url = server.url();
    let (mut ledger, leadership) = leading(&url);
    let (_standby, other) = open(&url, "standby");
    let run = start(&mut ledger, vec![work(&["a"])]);
    let term = wait_to_lead(&leadership.view(), LIMIT);
    let (stop, stopped) = mpsc::channel::<()>();
    let commits = thread::spawn(move || {
        let mut count = 0;
        while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
            commit_one(&mut ledger, run).unwrap();
            count += 1;
        }
        (ledger, count)
    });
    for round in 0..4 {
        thread::sleep(Duration::from_millis(400 + 130 * round));
        if round % 2 == 0 {
            server.stop();
        } else {
            server.crash();
        }
        thread::sleep(Duration::from_millis(500));
        server.resume().unwrap();
    }
    thread::sleep(Duration::from_secs(1));
    stop.send(()).unwrap();
    let (mut ledger, count) = commits.join().unwrap();
    assert!(count > 20, "{count}");
    assert_eq!(committed(&mut ledger, run), count, "each commit that was answered took place once");
    assert_eq!(wait_to_lead(&leadership.view(), LIMIT), term);
    assert!(!other.view().is_leading());
    // It is away for longer than a leader may be silent: who led before leads again, or the other one does.
    server.stop();
    thread::sleep(Duration::from_secs(7));
    assert!(!leadership.view().is_leading());
    server.resume().unwrap();
    assert_eq!(wait_to_lead(&leadership.view(), LIMIT), term);
    assert!(commit_one(&mut ledger, run).is_ok() && !other.view().is_leading());
}

#[test]
fn who_resigns_is_followed_at_once() {
    let url = place();
    let (mut first, leadership) = leading(&url);
    let (_second, other) = open(&url, "two");
    let before = wait_to_lead(&leadership.view(), LIMIT);
    let run = start(&mut first, vec![work(&["a"])]);
    drop(leadership);
    let resigned = Instant::now();
    assert!(wait_to_lead(&other.view(), LIMIT) > before);
    assert!(resigned.elapsed() < Duration::from_secs(3));
    let error = commit_one(&mut first, run).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Locked);
}

#[test]
fn control_planes_that_start_together_make_one_ledger() {
    let url = place();
    let opened: Vec<_> = (0..4)
        .map(|number| {
            let url = url.clone();
            thread::spawn(move || open(&url, &format!("plane {number}")))
        })
        .collect();
    let opened: Vec<_> = opened.into_iter().map(|thread| thread.join().unwrap()).collect();
    thread::sleep(Duration::from_secs(2));
    let leaders = opened.iter().filter(|(_, leadership)| leadership.view().is_leading()).count();
    assert_eq!(leaders, 1);
}

#[test]
fn tables_of_others_and_of_newer_programs_are_refused() {
    let server = PostgresServer::start().unwrap();
    server.sql("CREATE SCHEMA other; CREATE TABLE other.run (id int)").unwrap();
    let url = server.url();
    let other = PostgresLedger::open(&settings(&format!("{url}?options=-csearch_path%3Dother"))).unwrap_err();
    assert_eq!(other.kind, ErrorKind::Usage, "{other}");
    let (mut ledger, _leadership) = leading(&url);
    let run = start(&mut ledger, vec![work(&["a"])]);
    server.sql(&format!("UPDATE ledger SET version = {}", SCHEMA_VERSION + 1)).unwrap();
    let newer = PostgresLedger::open(&settings(&url)).unwrap_err();
    let words = newer.to_string();
    assert!(newer.kind == ErrorKind::Unsupported && words.contains("versions up to"), "{words}");
    // A program that runs while a newer one brings the tables to its version writes no more.
    assert_eq!(commit_one(&mut ledger, run).unwrap_err().kind, ErrorKind::Unsupported);
}

#[test]
fn passwords_are_in_no_message() {
    let access = "local all all trust\nhost all all all scram-sha-256\n";
    let server = PostgresServer::start_with(&PostgresOptions {
        access: Some(access),
        lines: "fsync = off\n",
        ..Default::default()
    })
    .unwrap();
    server.sql("CREATE USER joe PASSWORD 'sesame'").unwrap();
    server.sql("CREATE DATABASE d OWNER joe").unwrap();
    let port = server.port();
    let folder = tempfile::tempdir().unwrap();
    // As in ~/.pgpass. The URL itself has none.
    let file = |password: &str| {
        let file = folder.path().join(password.len().to_string() + &password[..3]);
        fs::write(&file, format!("*:*:*:joe:{password}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        format!("passfile={}", file.display())
    };
    let url = |password: &str, database: &str| {
        format!("postgres://joe@127.0.0.1:{port}/{database}?{}", file(password))
    };
    let (ledger, _leadership) = leading(&url("sesame", "d"));
    assert_eq!(ledger.place(), format!("postgres://joe@127.0.0.1:{port}/d"));
    for (url, kind) in [
        (url("seesaw", "d"), ErrorKind::Unauthenticated),
        (url("sesame", "nothing"), ErrorKind::NotFound),
        (format!("{}&sslmode=require", url("sesame", "d")), ErrorKind::Io),
        (format!("postgres://joe@127.0.0.1:1/d?{}", file("sesame")), ErrorKind::ConnectionLost),
    ] {
        let error = PostgresLedger::open(&settings(&url)).unwrap_err();
        let words = format!("{error} {error:?} {:?}", settings(&url));
        assert_eq!(error.kind, kind, "{words}");
        assert!(!words.contains("sesame") && !words.contains("seesaw"), "{words}");
        assert!(error.to_string().contains("joe@127.0.0.1"), "{error}");
    }
}

#[test]
fn a_restored_database_knows_no_lease_of_the_lost_time() {
    let url = place();
    let (mut ledger, leadership) = leading(&url);
    let run = start(&mut ledger, vec![work(&["a"]), work(&["b"])]);
    let keys: Vec<_> = ledger.ready_units(run, None, 9).unwrap().iter().map(|unit| unit.key).collect();
    let leased = lease(&mut ledger, keys[0], "one", 0);
    // One that leads goes on with what was not in the backup.
    let error = mark_restored(&settings(&url), moment(1_700_000_000_000)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Locked);
    assert!(leadership.view().is_leading() && ledger.ready_units(run, None, 9).unwrap().len() == 1);
    drop((ledger, leadership));
    mark_restored(&settings(&url), moment(1_700_000_000_000)).unwrap();
    let (mut ledger, _leadership) = leading(&url);
    let ready = ledger.ready_units(run, None, 9).unwrap();
    assert_eq!(ready.iter().map(|unit| unit.key).collect::<Vec<_>>(), keys);
    assert!(ready.iter().all(|unit| unit.state.epoch.get() == 1_700_000_000_000));
    let stale = LedgerAnswer::Refused(LedgerRefusal::Unit(UnitRefusal::StaleEpoch));
    assert_eq!(apply(&mut ledger, commit_change(keys[0], "one", leased.epoch, UnitResult::default())), stale);
    let next = start(&mut ledger, vec![work(&["c"])]);
    assert_eq!(ledger.ready_units(next, None, 1).unwrap()[0].state.epoch.get(), 1_700_000_000_000);
}
