//! Hostile reports, which try to harm their reader.

use serde_json::{Value, json};

use super::{FORMATS, LANGUAGES, Written, html, plain};

/// A text that ends whatever it may be in (a tag, an attribute, a comment, a code span, a cell, a line) and moves the
/// cursor.
const EVIL: &str = "EVIL\"'><script>alert(1)</script><!--\n# head\r\n| cell `` ``` *b* [l](http://x) \
     &amp; \x1b[2J\u{9b}31m\u{202e}\0";
/// The fields that readers may not change, because the wording depends on them.
const KEPT: [&str; 3] = ["schema", "outcome", "verified"];

/// Returns a report with all possible fields.
fn full() -> Value {
    let mut report = Written::of_copy(b"x", 5_000_000).value();
    report["outcome"] = "partial".into();
    report["error"] = json!({"kind": "io", "during": "d", "at": "a", "error": "e"});
    report["further_sources"] = json!([{"typed": "t", "resolved": "r"}]);
    report["source"]["identity"] = json!({"id": "i", "model": "m", "serial": "s", "size_bytes": 1});
    report["cipher"] = "c".into();
    report["losses"] = json!([{"what": "w", "count": 1, "side": "s", "example": "e"}]);
    report["failures"] = json!([{"path": "p", "during": "d", "at": "a", "error": "e", "kind": "k"}]);
    report["differences"] = json!([{"path": "p", "what": "w", "offset_bytes": 1, "length_bytes": 1}]);
    report["pairs"] = json!([{"source": "s", "target": "t", "digest_blake3": "d"}]);
    report["passes"] = json!([{"seconds": 1.5, "written_bytes": 1}]);
    report["digest_blake3"] = "d".into();
    report["bottleneck"]["stages"]["odd"] = json!(0.5);
    report["bottleneck"]["file_server"] = json!({"operation_ms": 6.1, "answer_ms": 1.5});
    report["timeline"]["samples"][0]["stages"]["odd"] = json!(0.5);
    report
}

/// Changes each value of a report, except lists.
fn change(value: &mut Value, name: &str, with: &impl Fn(&str, &Value) -> Option<Value>) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| change(value, name, with)),
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| change(value, name, with)),
        single => {
            if let Some(changed) = with(name, single) {
                *single = changed;
            }
        }
    }
}

/// Renames fields whose names are data.
fn rename_stages(report: &mut Value) {
    let evil = json!({EVIL: 0.5, "hash": 0.25});
    report["bottleneck"]["stages"] = evil.clone();
    report["timeline"]["samples"][0]["stages"] = evil;
}

#[test]
fn no_string_gets_out_of_its_place() {
    let mut report = full();
    change(&mut report, "", &|name, value| {
        (value.is_string() && !KEPT.contains(&name)).then(|| Value::from(EVIL))
    });
    rename_stages(&mut report);
    let written = Written::with(report.to_string());
    for format in FORMATS {
        for language in LANGUAGES {
            let shown = written.shown(format, language);
            let odd =
                shown.chars().find(|&letter| letter != '\n' && letter.is_control() || letter == '\u{202e}');
            assert_eq!(odd, None, "{format}");
            let evils = plain(format, &shown).matches("EVIL").count();
            assert!(evils >= 25, "{format}: only {evils} are shown");
            match format {
                // The checker knows all tags and rejects others.
                "html" => assert!(html::text_of(&shown).contains("<script>alert(1)</script>")),
                "markdown" => check_markdown(&shown),
                _ => assert!(shown.lines().all(|line| !line.starts_with("# head"))),
            }
        }
    }
}

/// Removes code spans, as CommonMark defines them, and fails if the rest contains hostile text.
fn check_markdown(shown: &str) {
    let (mut ours, mut fence) = (String::new(), None::<String>);
    for line in shown.lines() {
        match &fence {
            Some(end) if line == end => fence = None,
            Some(_) => {}
            None if line.starts_with("```") && line.ends_with("text") => {
                fence = Some(line.trim_end_matches("text").to_owned());
            }
            None => ours.push_str(&format!("{}\n", without_code(line))),
        }
    }
    assert_eq!(fence, None);
    for theirs in ["EVIL", "script", "alert", "[l]", "http"] {
        assert!(!ours.contains(theirs), "{theirs} in {ours}");
    }
}

/// Returns a line without its code spans, each of which ends at the next row of as many backticks.
fn without_code(line: &str) -> String {
    let (mut ours, mut rest) = (String::new(), line);
    while let Some(at) = rest.find('`') {
        ours.push_str(&rest[..at]);
        let row = rest[at..].len() - rest[at..].trim_start_matches('`').len();
        rest = &rest[at + row..];
        let mut looked = 0;
        loop {
            let next = rest[looked..].find('`').expect("the code span ends") + looked;
            let found = rest[next..].len() - rest[next..].trim_start_matches('`').len();
            looked = next + found;
            if found == row {
                rest = &rest[looked..];
                break;
            }
        }
    }
    ours + rest
}

#[test]
fn no_number_is_too_odd() {
    for number in [json!(0), json!(u64::MAX), json!(1e308), json!(-1e308)] {
        let mut report = full();
        change(&mut report, "", &|name, value| {
            let is_small = matches!(name, "exit_code" | "lanes_max");
            let fits = value.is_f64() || (value.is_u64() && number.is_u64());
            (value.is_number() && fits && !is_small).then(|| number.clone())
        });
        let sample = report["timeline"]["samples"][0].clone();
        report["timeline"]["samples"] = vec![sample; 2000].into();
        let written = Written::with(report.to_string());
        for format in FORMATS {
            for language in LANGUAGES {
                let shown = written.shown(format, language);
                assert!(!shown.contains("NaN") && !shown.contains("inf "), "{format} {number}");
                plain(format, &shown);
            }
        }
    }
}
