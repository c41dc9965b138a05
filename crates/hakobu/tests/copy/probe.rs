//! `hakobu probe` between two places, over a real ssh server, and with obstacles.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::no_root;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::*;

fn probe(host: Option<&Host>) -> Command {
    heed_signals();
    let mut command = Command::new(HAKOBU);
    command.arg("probe").arg("--gentle").env_remove("HAKOBU_SSH").env("LC_ALL", "C").stdin(Stdio::null());
    if let Some(host) = host {
        command.env("HAKOBU_SSH", host.sshd.ssh_command());
    }
    command
}

/// Runs a probe, which has to end with this exit code. Returns standard output and standard error.
#[track_caller]
fn run(command: &mut Command, code: i32) -> (String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!(status.code(), Some(code), "{out}{err}");
    (out, err)
}

#[track_caller]
fn json(command: &mut Command, code: i32) -> (Value, String) {
    let (out, err) = run(command.arg("--json"), code);
    (serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")), err)
}

fn positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 0.0)
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path()).collect()
}

#[test]
fn a_tree_to_another_machine() {
    let (place, host) = (place(), Host::up());
    let (source, target) = (tree(&place.path().join("source")), place.path().join("target"));
    std::fs::create_dir(&target).unwrap();
    let (found, err) = json(probe(Some(&host)).arg(&source).arg(host.at(&target)), 0);
    assert_eq!((&found["schema"], &found["error"]), (&"hakobu.probe/1".into(), &Value::Null), "{found:#}");
    assert!(err.contains("a probe will send a few megabytes in each direction, with pauses; read"), "{err}");
    let network = &found["network"];
    for direction in ["to_target", "from_target"] {
        let way = &network[direction];
        assert!(positive(&way["bytes_per_second"]) && positive(&way["mtu_bytes"]), "{found:#}");
        assert_eq!((&way["at_least"], &way["steps"][0]["connections"]), (&true.into(), &1.into()));
    }
    for end in ["source", "target"] {
        let (machine, ciphers) = (&found[end]["machine"], &found[end]["ciphers_bytes_per_second"]);
        assert!(
            positive(&machine["blake3_bytes_per_second"]) && positive(&ciphers["aes-128-gcm"]),
            "{found:#}"
        );
        assert_eq!(machine["compressors"].as_array().unwrap().len(), 4, "{found:#}");
    }
    let tree = &found["source_figures"]["tree"];
    assert!(tree["files"].as_u64().unwrap() >= 301 && tree["complete"] == true, "{found:#}");
    assert_eq!(found["target_figures"]["how"], "written", "{found:#}");
    let made = &found["prediction"];
    assert!(positive(&made["bytes_per_second"]) && made["limited_by"].is_string(), "{found:#}");
    assert!(
        positive(&made["tree"]["first_copy"]["seconds"]) && positive(&made["tree"]["unchanged"]["seconds"])
    );
    assert_eq!((&made["file"], &made["unknown"]), (&Value::Null, &Value::Array(Vec::new())), "{found:#}");
    assert_eq!(entries(&target), Vec::<PathBuf>::new());
    host.wait_for_no_agent();
}

#[test]
fn the_way_alone_and_the_other_way_round() {
    let (place, host) = (place(), Host::up());
    let (out, _) = run(probe(Some(&host)).arg(host.at(place.path())), 0);
    for words in [
        "A copy gets ",
        "limited by: ",
        "Connections",
        "AES-128-GCM",
        "zstd 3, text",
        "One file of 2.15 GB takes",
    ] {
        assert!(out.contains(words), "{words:?} is not in {out}");
    }
    let source = file(&place.path().join("source"), 3_000_000);
    let (found, _) = json(probe(Some(&host)).arg(host.at(&source)).arg(place.path()), 0);
    assert_eq!(found["source"]["path"], format!("throwaway:{}", source.display()), "{found:#}");
    assert_eq!(found["source_figures"]["size_bytes"], 3_000_000, "{found:#}");
    assert_eq!(found["prediction"]["file"]["bytes"], 3_000_000, "{found:#}");
    // Between two other hosts, to both of which this machine logs in.
    let (found, _) = json(probe(Some(&host)).arg(host.at(&source)).arg(host.at_another(place.path())), 0);
    assert!(positive(&found["network"]["to_target"]["bytes_per_second"]), "{found:#}");
    host.wait_for_no_agent();
}

#[test]
fn places_on_one_machine_have_no_network() {
    let place = place();
    let source = file(&place.path().join("source"), 3_000_000);
    let (found, _) = json(probe(None).arg(&source).arg(place.path().join("not/yet")), 0);
    assert_eq!((&found["network"], &found["target_figures"]["how"]), (&Value::Null, &"written".into()));
    assert!(positive(&found["prediction"]["file"]["span"]["seconds"]), "{found:#}");
    let (found, _) = json(probe(None).arg("--no-write").arg(place.path()), 0);
    assert_eq!(found["target_figures"]["how"], "not_asked", "{found:#}");
    assert_eq!(found["prediction"]["unknown"], serde_json::json!(["target write"]), "{found:#}");
    assert_eq!(entries(place.path()), [source]);
}

#[test]
fn targets_that_cannot_be_written_are_said_and_the_rest_is_measured() {
    if no_root() {
        return;
    }
    let place = place();
    for (options, how) in [("size=4m", "no_room"), ("size=64m,ro", "read_only")] {
        let small = Small::mount(&place.path().join(how), options);
        let (found, _) = json(probe(None).arg(&small.0), 0);
        assert_eq!(found["target_figures"]["how"], how, "{found:#}");
        assert!(positive(&found["target"]["machine"]["blake3_bytes_per_second"]), "{found:#}");
        let (out, _) = run(probe(None).arg(&small.0), 0);
        assert!(out.contains("not written: ") && out.contains("Not known, so it may be slower"), "{out}");
    }
}

#[test]
fn nothing_is_left_by_a_probe_that_is_killed() {
    let place = place();
    let (target, mut seen) = (place.path().join("target"), 0);
    std::fs::create_dir(&target).unwrap();
    for round in 0..30 {
        let mut child = probe(None).arg(&target).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let id = Pid::from_child(&child);
        let descriptors = PathBuf::from(format!("/proc/{}/fd", child.id()));
        let writes = || {
            let links = std::fs::read_dir(&descriptors).into_iter().flatten().flatten();
            links
                .flat_map(|link| std::fs::read_link(link.path()))
                .any(|path| path.starts_with(&target) && path.to_string_lossy().ends_with("(deleted)"))
        };
        while child.try_wait().unwrap().is_none() && !writes() {
            std::thread::yield_now();
        }
        // At a different moment in each round.
        std::thread::sleep(Duration::from_micros(400 * round));
        let _gone_already = kill_process(id, Signal::KILL);
        seen += u32::from(child.wait().unwrap().code().is_none());
        assert_eq!(entries(&target), Vec::<PathBuf>::new(), "round {round}");
    }
    assert!(seen > 0, "none was killed while it wrote");
}

#[test]
fn a_machine_that_is_lost_ends_it_with_what_was_measured() {
    let (place, host) = (place(), Host::up());
    heed_signals();
    let mut child = Command::new(HAKOBU);
    child.args(["probe", "--json"]).arg(host.at(place.path())).env("HAKOBU_SSH", host.sshd.ssh_command());
    let child = child.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // During the measurement of the network there are more processes than for the login alone.
    wait_until("the way is measured", Duration::from_secs(60), || {
        let links = std::fs::read_dir(format!("/proc/{}/fd", child.id())).into_iter().flatten().flatten();
        let sockets = links.flat_map(|link| std::fs::read_link(link.path()));
        sockets.filter(|link| link.to_string_lossy().starts_with("socket:")).count() >= 16
    });
    for agent in host.agents() {
        let _gone_already = kill_process(agent, Signal::KILL);
    }
    let output = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    let found: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    assert!(positive(&found["source"]["machine"]["blake3_bytes_per_second"]), "{found:#}");
    assert_eq!(
        (&found["error"]["kind"], &found["target_figures"]),
        (&"connection_lost".into(), &Value::Null)
    );
    assert!(err.contains("throwaway"), "{err}");
    let prediction = &found["prediction"];
    assert!(prediction["unknown"].as_array().unwrap().contains(&"network".into()), "{found:#}");
    assert!(prediction["bytes_per_second"].is_null() && prediction["file"].is_null(), "{found:#}");
}

#[test]
fn places_that_have_no_agent_are_refused_with_what_to_do() {
    for (typed, words) in [
        ("sftp://host/x", "leave out sftp:// to have it found or uploaded"),
        ("rsync://host/module", "if you can log in there, name the directory as host:/path"),
        ("-", "a stream gives nothing to measure"),
    ] {
        let (out, err) = run(probe(None).arg(typed), 1);
        assert!(out.is_empty() && err.contains(words), "{typed}: {err}");
    }
    let (_, err) = run(probe(None).args(["/no/such/source", "/tmp"]), 1);
    assert!(err.contains("looking at the source /no/such/source"), "{err}");
    let (_, err) = run(probe(None).args(["--sudo", "/tmp"]), 2);
    assert!(err.contains("sudo hakobu probe"), "{err}");
    let (_, err) = run(probe(None).args(["a", "b", "c"]), 2);
    assert!(err.contains("unexpected"), "{err}");
}

/// If the connection is lost, the results so far are printed, with advice that fits a probe.
fn cut_while(words: &str) {
    let link =
        Link::up(LinkSettings { mtu: 9000, ..LinkSettings::with_rtt(Duration::from_millis(2)) }).unwrap();
    let (place, host) = (place(), Host::behind(&link));
    let mut command = link.near().command(HAKOBU);
    command.args(["probe", "--json"]).arg(host.at(place.path())).env("HAKOBU_SSH", host.sshd.ssh_command());
    command.env("HAKOBU_SETTINGS", "none").env("LC_ALL", "C");
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let began = |line: &Result<String, _>| line.as_ref().is_ok_and(|line| line.ends_with(words));
    assert!(lines.any(|line| began(&line)), "{words} is not measured");
    std::thread::sleep(Duration::from_millis(300));
    link.cut();
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    let output = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), rest.join("\n"));
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    let found: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    assert!(matches!(found["error"]["kind"].as_str(), Some("timed_out" | "connection_lost")), "{found:#}");
    assert!(positive(&found["source"]["machine"]["blake3_bytes_per_second"]), "{found:#}");
    assert!(err.contains("hint: check the network, then run the same command again"), "{err}");
    assert!(!err.contains("--retry-for"), "{err}");
    assert!(err.contains("still measuring ") && err.contains("it ends within a minute"), "{err}");
}

#[test]
fn a_link_that_dies_is_noticed_and_waiting_is_said() {
    if no_root() {
        return;
    }
    std::thread::scope(|scope| {
        for words in ["measuring the way from the target", "measuring the target"] {
            scope.spawn(move || cut_while(words));
        }
    });
}

#[test]
fn what_settings_files_say_of_a_copy_holds_for_its_prediction() {
    let (place, host) = (place(), Host::up());
    let source = file(&place.path().join("source"), 3_000_000);
    let target = place.path().join("target");
    let settings = place.path().join("settings");
    let lines = "[[pair]]\nsource = 'localhost'\ntarget = 'other*'\nbwlimit = '1M'\n\
                 [[pair]]\nsource = 'localhost'\ntarget = 'throwaway'\nbwlimit = '2M'\niops-limit = 500\nlanes = 3\n\
                 compress = 'zstd:3'\n";
    std::fs::write(&settings, lines).unwrap();
    let settled = |more: &[&str]| {
        let mut command = probe(Some(&host));
        command.env("HAKOBU_SETTINGS", &settings).args(more).arg(&source).arg(host.at(&target));
        command
    };
    let (found, _) = json(&mut settled(&[]), 0);
    let made = &found["prediction"];
    assert_eq!(
        (&made["limited_by"], &made["bytes_per_second"]),
        (&"rate limit".into(), &2_000_000.into()),
        "{found:#}"
    );
    assert_eq!((&made["lanes"], &made["lanes_max"]), (&3.into(), &3.into()), "{found:#}");
    assert_eq!(
        (&made["limit_bytes_per_second"], &made["without_compression"]),
        (&2_000_000.into(), &true.into())
    );
    assert!(made["file"]["span"]["seconds"].as_f64() >= Some(1.5), "{found:#}");
    assert_eq!(made["operations_per_second_limit"], 500, "{found:#}");
    let (out, _) = run(&mut settled(&[]), 0);
    assert!(out.contains("A copy gets 2.00 MB/s; limited by: rate limit"), "{out}");
    assert!(out.contains("which is not predicted: at most 500 operations a second"), "{out}");
    assert!(out.contains("without compression. --compress zstd:3 sends less data"), "{out}");
    // Typed options take precedence.
    let (found, _) = json(&mut settled(&["--bwlimit", "off", "--lanes", "auto", "--compress", "none"]), 0);
    let made = &found["prediction"];
    assert_ne!(made["limited_by"], "rate limit", "{found:#}");
    assert_eq!(
        (&made["limit_bytes_per_second"], &made["without_compression"]),
        (&Value::Null, &false.into())
    );
    for (typed, words) in
        [("--bwlimit=20", "--bwlimit"), ("--lanes=0", "--lanes"), ("--compress=gzip", "--compress")]
    {
        let (_, err) = run(&mut settled(&[typed]), 2);
        assert!(err.contains(words), "{typed}: {err}");
    }
    // Keywords of a pair apply to that direction only.
    let (found, _) =
        json(probe(Some(&host)).env("HAKOBU_SETTINGS", &settings).arg(host.at(&source)).arg(&target), 0);
    assert_eq!(found["prediction"]["limit_bytes_per_second"], Value::Null, "{found:#}");
    host.wait_for_no_agent();
}

#[test]
fn each_machine_has_the_login_that_settings_files_give_it() {
    let (place, host) = (place(), Host::up());
    let source = file(&place.path().join("source"), 3_000_000);
    let settings = place.path().join("settings");
    let ssh = host.sshd.ssh_command();
    let lines = format!(
        "[[host]]\nmatch = 'throwaway'\nssh = '{ssh} -4'\n[[host]]\nmatch = 'another'\nssh = '{ssh}'\n"
    );
    std::fs::write(&settings, lines).unwrap();
    let mut command = probe(None);
    command.env("HAKOBU_SETTINGS", &settings).arg(host.at(&source)).arg(host.at_another(place.path()));
    let (found, _) = json(&mut command, 0);
    assert!(positive(&found["prediction"]["bytes_per_second"]), "{found:#}");
    host.wait_for_no_agent();
}

/// Ctrl-C on a terminal ends ssh as well, whose error must not be reported as a failed login.
#[test]
fn an_interrupt_while_it_logs_in_is_no_failed_login() {
    let place = place();
    for verb in ["probe", "doctor"] {
        let said = place.path().join(verb);
        heed_signals();
        let mut command = Command::new(HAKOBU);
        command.arg(verb).arg(if verb == "probe" { "nowhere:/tmp" } else { "nowhere" });
        command.env("HAKOBU_SSH", "ssh -F none -o 'ProxyCommand=exec sleep 60'").stdin(Stdio::null());
        let mut child = command.stdout(Stdio::null()).stderr(File::create(&said).unwrap()).spawn().unwrap();
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let ssh = || std::fs::read_to_string(&children).unwrap_or_default().trim().parse::<i32>().ok();
        wait_until("it logs in", Duration::from_secs(60), || ssh().is_some());
        let ssh = Pid::from_raw(ssh().unwrap()).unwrap();
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        kill_process(ssh, Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{verb}");
        let said = std::fs::read_to_string(&said).unwrap();
        assert!(said.contains("interrupted") && !said.contains("could not log in"), "{verb}: {said}");
    }
}
