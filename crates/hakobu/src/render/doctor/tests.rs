use std::time::Duration;

use hakobu_measure::doctor::Severity;

use super::*;

fn diagnosis(findings: Vec<Finding>) -> Diagnosis {
    let way = NetworkPath {
        round_trip: Duration::from_micros(100_400),
        measured: true,
        capacity_bytes_per_second: Some(125_000_000),
        lanes: 10,
    };
    Diagnosis { way, findings, unread: Vec::new() }
}

fn small_buffer() -> Finding {
    let change = |connections: f64| ExpectedRates { before: 6.8e6 * connections, after: Some(31.4e6) };
    Finding {
        id: "tcp-receive-buffer-small",
        whose: FindingHost::There,
        severity: Severity::Limits,
        fact: "net.ipv4.tcp_rmem lets a buffer grow to 1048576 bytes".to_owned(),
        why: "windows are small".to_owned(),
        command: "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 6291456\"".to_owned(),
        expected: Some(ExpectedGain {
            connection: Some(change(1.0)),
            hakobu: Some(change(2.0)),
            lanes: 2,
            times: None,
        }),
    }
}

#[test]
fn where_nothing_holds_back_one_line_says_so() {
    let found = diagnosis(Vec::new());
    let text = super::text(Some("host"), &found);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.contains("this machine or host") && text.contains("round trip 100.4 ms, 125 MB/s"),
        "{text}"
    );
    assert_eq!(super::text(None, &found).lines().count(), 1);
}

#[test]
fn findings_are_numbered_and_escaped() {
    let mut costs = small_buffer();
    costs.severity = Severity::Costs;
    costs.expected = None;
    costs.fact = "a\x1b[2Jb".to_owned();
    let mut found = diagnosis(vec![small_buffer(), costs]);
    found.unread.push((FindingHost::Here, "/etc\x07: no".to_owned()));
    let text = super::text(Some("ho\x1bst"), &found);
    for words in [
        "1. ho\\u{1b}st: net.ipv4.tcp_rmem lets",
        "\n   command: sysctl -w net.ipv4.tcp_rmem=",
        "\n   gain:    hakobu with its first 2 lanes 13.6 MB/s -> 31.4 MB/s; one connection 6.80 MB/s -> 31.4 MB/s\n",
        "\n\n2. ",
        "gain:    cannot be predicted\n",
        "\nnot read:\n  this machine: /etc\\u{7}: no\n",
    ] {
        assert!(text.contains(words), "{words:?} is not in:\n{text}");
    }
    assert!(!text.contains(['\x1b', '\x07']));
}

#[test]
fn json_has_a_schema_and_figures_in_bytes() {
    let text = json(Some("host"), &diagnosis(vec![small_buffer()])).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["schema"], "hakobu.doctor/1");
    assert_eq!(value["way"]["capacity_bytes_per_second"], 125_000_000);
    let finding = &value["findings"][0];
    assert_eq!((&finding["host"], &finding["severity"]), (&"host".into(), &"limits".into()));
    assert_eq!(finding["expected"]["one_connection"]["before_bytes_per_second"], 6_800_000);
    assert_eq!(finding["expected"]["lanes"], 2);
    assert_eq!(finding["expected"]["times"], Value::Null);
}
