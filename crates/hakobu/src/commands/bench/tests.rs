use std::collections::BTreeSet;

use hakobu_measure::bench::case::{BenchCase, DataDirection, Initiator, Method};
use hakobu_measure::bench::plan::LeftOut;
use hakobu_measure::bench::processes::ProcessCost;
use hakobu_measure::bench::result::{MachineFacts, Row, Timing};

use super::*;

const HOSTILE: &str = "<script>\"'&\u{1b}[2J\u{202e}|`";

fn row(case: BenchCase, seconds: f64, process: &str) -> Row {
    let cost =
        |cpu_seconds| ProcessCost { name: process.to_owned(), cpu_seconds, waited_seconds: 0.7, threads: 3 };
    let run = |seconds| Timing {
        wall_seconds: seconds,
        here: vec![cost(0.4)],
        there: Some(vec![cost(seconds * 0.99)]),
        looks_there_seconds: vec![seconds],
        retransmitted_here: Some(3),
        retransmitted_there: Some(4),
    };
    Row {
        transport: (case.way == Method::Hakobu).then(|| "agent".to_owned()),
        command: format!("dd {HOSTILE}"),
        size_bytes: 1_000_000_000,
        starts: vec![Timing { here: Vec::new(), there: None, ..run(0.25) }],
        runs: vec![run(seconds), run(seconds + 1.0), run(seconds + 0.5)],
        failed: None,
        case,
    }
}

fn ended_at() -> jiff::Timestamp {
    "2026-11-24T03:12:26.5Z".parse().unwrap()
}

fn measured() -> BenchResults {
    let case = |way, direction| BenchCase::plain(way, direction);
    let mut odd = row(case(Method::Scp, DataDirection::ToHost), 3.0, HOSTILE);
    odd.failed = Some(HOSTILE.to_owned());
    let started_there = BenchCase { starter: Initiator::There, ..case(Method::Dd, DataDirection::ToHost) };
    let with_cipher =
        BenchCase { cipher: Some(HOSTILE.to_owned()), ..case(Method::Dd, DataDirection::ToHost) };
    BenchResults {
        host: Some(format!("h{HOSTILE}")),
        machines: vec![MachineFacts {
            whose: "here".to_owned(),
            processor: HOSTILE.to_owned(),
            ..MachineFacts::default()
        }],
        rows: vec![
            row(case(Method::Hakobu, DataDirection::ToHost), 1.0, "hakobu"),
            row(case(Method::Dd, DataDirection::ToHost), 4.0, "sshd"),
            row(started_there, 1.5, "ssh"),
            row(case(Method::Nc, DataDirection::ToHost), 0.75, "nc"),
            row(with_cipher, 2.0, HOSTILE),
            odd,
            row(case(Method::Dd, DataDirection::FromHost), 4.1, "sshd"),
        ],
        left_out: vec![LeftOut { what: HOSTILE.to_owned(), why: HOSTILE.to_owned() }],
        ciphers: own_ciphers(),
        compressors: vec![PartSpeed {
            name: "gzip".into(),
            by: "gzip".into(),
            bytes_per_second: 4e7,
            ratio: Some(3.5),
        }],
        rounds: 3,
        ..BenchResults::default()
    }
}

#[test]
fn the_text_is_sorted_names_the_winner_and_the_cause() {
    let text = text::write(&page::short(&measured(), &BenchHostSettings::default()));
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words} is not in:\n{text}"));
    assert!(at("  nc ") < at("  hakobu ") && at("  hakobu ") < at("  dd | ssh, started there "));
    assert!(
        at("the winner, to h")
            < at("nc with 1.00 GB/s, not encrypted; of those that encrypt hakobu with 800 MB/s")
    );
    at("Why similar rows differ");
    at("dd | ssh: 235 MB/s to h");
    at("What holds the slow one up is sshd on h");
    at("failed");
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
}

#[test]
fn rates_are_without_the_start_in_every_form() {
    let bench = measured();
    let value: serde_json::Value =
        serde_json::from_str(&json::json(&bench, &BenchHostSettings::default(), ended_at()).unwrap())
            .unwrap();
    assert_eq!(value["schema"], "hakobu.bench/1");
    assert_eq!(value["rows"][0]["bytes_per_second"], 800_000_000.0);
    assert_eq!(
        (&value["winner"]["fastest_row"], &value["winner"]["fastest_encrypted_row"]),
        (&3.into(), &0.into())
    );
    assert_eq!(value["rows"][1]["case"]["way"], "dd");
    assert_eq!(value["rows"][5]["bytes_per_second"], serde_json::Value::Null);
    assert_eq!(value["rows"][3]["encrypted"], false);
    assert_eq!(value["rows"][0]["retransmitted_segments"], 7);
    assert_eq!(value["asymmetries"][0]["process"], serde_json::json!(["there", "sshd"]));
    let keys: BTreeSet<_> = value.as_object().unwrap().keys().cloned().collect();
    assert!(
        ["machines", "left_out", "ciphers", "compressors", "ended_at"].iter().all(|key| keys.contains(*key))
    );
}

#[test]
fn the_page_has_everything_and_no_name_is_a_tag() {
    let html = html::write(&page::whole(&measured(), &BenchHostSettings::default(), ended_at()));
    assert!(!html.contains("<script") && !html.contains(['\u{1b}', '\u{202e}']));
    for words in
        ["Command lines", "Processor time of every process", "class=\"bar\"", "800 MB/s", "&lt;script&gt;"]
    {
        assert!(html.contains(words), "{words}");
    }
    let markdown = markdown::write(&page::whole(&measured(), &BenchHostSettings::default(), ended_at()));
    for shown in [&html, &markdown] {
        assert!(
            shown.contains(concat!("hakobu ", env!("CARGO_PKG_VERSION")))
                && shown.contains("2026-11-24 03:12:26 UTC"),
            "{shown}"
        );
    }
    assert!(markdown.contains("| hakobu") && !markdown.contains('\u{1b}'), "{markdown}");
}

#[test]
fn hakobu_without_its_agent_is_never_called_hakobu_alone() {
    let mut bench = measured();
    bench.rows[0].transport = Some("sftp".to_owned());
    bench.rows.truncate(2);
    let text = text::write(&page::short(&bench, &BenchHostSettings::default()));
    assert!(text.contains("hakobu, over SFTP without an agent with 800 MB/s"), "{text}");
    let value: serde_json::Value =
        serde_json::from_str(&json::json(&bench, &BenchHostSettings::default(), ended_at()).unwrap())
            .unwrap();
    assert_eq!(
        (&value["rows"][0]["transport"], &value["rows"][0]["label"]),
        (&"sftp".into(), &"hakobu, over SFTP without an agent".into())
    );
    assert_eq!(value["rows"][1]["transport"], serde_json::Value::Null);
}

#[test]
fn started_there_is_a_login_of_those_alone_that_log_in() {
    let mut bench = measured();
    let mbuffer =
        BenchCase { starter: Initiator::There, ..BenchCase::plain(Method::Mbuffer, DataDirection::FromHost) };
    bench.rows.push(row(mbuffer, 1.0, "mbuffer"));
    let (login, connection) =
        ("Started there: the host logs in here", "the host connects to what listens here");
    let text = text::write(&page::short(&bench, &BenchHostSettings::default()));
    assert!(text.contains(login) && text.contains(connection), "{text}");
    bench.rows.retain(|row| row.case.way != Method::Dd);
    let text = text::write(&page::short(&bench, &BenchHostSettings::default()));
    assert!(!text.contains(login) && text.contains(connection), "{text}");
}

#[test]
fn without_what_all_are_compared_with_there_is_no_winner() {
    let mut bench = measured();
    let text = text::write(&page::short(&bench, &BenchHostSettings::default()));
    assert!(
        text.contains("random data, memory to nothing: not complete, as hakobu was not measured"),
        "{text}"
    );
    bench.rows.remove(0);
    let text = text::write(&page::short(&bench, &BenchHostSettings::default()));
    assert!(text.contains("no winner, to h") && !text.contains("the winner"), "{text}");
    let value: serde_json::Value =
        serde_json::from_str(&json::json(&bench, &BenchHostSettings::default(), ended_at()).unwrap())
            .unwrap();
    assert_eq!((&value["winner"], &value["winners"]), (&serde_json::Value::Null, &serde_json::json!([])));
}

#[test]
fn exit_codes_say_how_much_was_measured() {
    let mut bench = measured();
    assert_eq!(code(&bench), PARTLY);
    bench.rows.retain(|row| row.failed.is_none());
    assert_eq!(code(&bench), 0);
    bench.ended_early = Some("lost".to_owned());
    assert_eq!(code(&bench), PARTLY);
    // Nothing is known about a run that took no longer than its start.
    bench.ended_early = None;
    for run in bench.rows.iter_mut().flat_map(|row| &mut row.runs) {
        run.wall_seconds = 0.25;
    }
    assert_eq!(code(&bench), exit::FAILED);
    let text = text::write(&page::short(&bench, &BenchHostSettings::default()));
    assert!(
        text.contains("nothing could be measured: runs were too short to be told from their start"),
        "{text}"
    );
    bench.rows.clear();
    assert_eq!(code(&bench), exit::FAILED);
    assert!(
        text::write(&page::short(&bench, &BenchHostSettings::default()))
            .contains("nothing could be measured\n")
    );
}

#[test]
fn what_is_typed_wrong_is_said_before_anything_runs() {
    let typed = |line: &str| {
        let words = line.split(' ').map(OsString::from);
        let cli = <crate::cli::Cli as clap::Parser>::try_parse_from(words).unwrap();
        let crate::cli::Verb::Bench(arguments) = cli.verb else { panic!("{line}") };
        settings_of(&arguments)
    };
    let wrong = |line: &str| typed(line).unwrap_err().detail;
    assert!(wrong("hakobu bench --port 5000").contains("none is given"));
    assert!(wrong("hakobu bench h:/path").contains("not a host name"));
    assert!(
        wrong("hakobu bench h --time-budget 14s").contains("with another machine it takes 15 s at least")
    );
    assert!(wrong("hakobu bench --time-budget 0").contains("on one machine it takes 5 s at least"));
    assert!(typed("hakobu bench --time-budget 5s").is_ok());
    assert!(wrong("hakobu bench h --back a;b").contains("letters, digits"));
    assert!(wrong("hakobu bench h --agent a\nb").contains("control characters"));
    let (settings, host) = typed("hakobu bench me@h --full --back ssh://u@ws:2222 -e ssh").unwrap();
    assert_eq!((settings.budget, settings.full), (FULL_BUDGET, true));
    assert_eq!(settings.back, Some(ReverseLogin { host: "u@ws".to_owned(), port: Some(2222) }));
    assert_eq!(settings.login.unwrap().ssh, ["ssh"]);
    assert_eq!(host.unwrap().destination(), "me@h");
    assert!(typed("hakobu bench").unwrap().0.login.is_none());
    let agent = typed("hakobu bench h --agent /it's$/hakobu").unwrap().0.far_program;
    assert_eq!(agent.as_deref(), Some("/it's$/hakobu"));
}
