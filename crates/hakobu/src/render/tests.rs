use std::sync::Arc;

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::event::{Difference, Different};

use super::*;

/// Both outputs of a renderer.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<u8>>>);

impl Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Heard {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

fn renderer(settings: RenderSettings) -> (Renderer, Heard, Heard) {
    let (results, remarks) = (Heard::default(), Heard::default());
    let renderer = Renderer::with_outputs(settings, Box::new(results.clone()), Box::new(remarks.clone()));
    (renderer, results, remarks)
}

fn failure(path: &[u8]) -> Failure {
    let error = Error::new(ErrorKind::PermissionDenied, "reading", "permission denied");
    Failure { path: path.to_vec(), error }
}

/// A run with a hostile name in everything it says.
fn run(renderer: &Renderer, failures: usize) {
    let name = b"n\x1b]0;x\x07\n\xff".as_slice();
    renderer.first_line(&[name], name, &ReportMachines::default());
    renderer.event(Event::Notice { words: "slower\x1b[1m".into() });
    renderer.event(Event::Decision { choice: "c\x1b".into(), reason: "r\r".into() });
    renderer.event(Event::Planned { action: "create".into(), path: name.to_vec(), size_bytes: 9 });
    renderer.event(Event::Progress(Box::default()));
    let failures = vec![failure(name); failures];
    failures.iter().for_each(|failure| renderer.event(Event::Failure(failure.clone())));
    let mut report = Report { command: "hakobu copy a b".into(), ..Report::default() };
    report.entries.created = 1;
    let error = Error::new(ErrorKind::Io, "writing", "odd\x1b").at(name);
    report.conclude(&failures, Some(&error), false);
    renderer.finish(&report);
}

#[test]
fn no_name_reaches_a_terminal_unescaped() {
    for json in [false, true] {
        let settings = RenderSettings { json, verbose: true, why: true, ..RenderSettings::default() };
        let (renderer, results, remarks) = renderer(settings);
        run(&renderer, 2);
        for text in [results.text(), remarks.text()] {
            assert!(!text.replace('\n', "").contains(char::is_control), "{text:?}");
        }
        assert!(remarks.text().contains("why: c\\u{1b}: r\\r"));
    }
}

#[test]
fn results_and_remarks_go_their_own_ways() {
    let (renderer, results, remarks) = renderer(RenderSettings::default());
    run(&renderer, 2);
    let results = results.text();
    assert!(results.starts_with("copying n\\u{1b}]0;x\\u{7}\\n\\xff to n"), "{results}");
    assert!(results.contains("\nfailed: 1 created"), "{results}");
    assert!(!results.contains("why:"), "decisions are shown on request only");
    let remarks = remarks.text();
    assert_eq!(remarks.matches("failed: n").count(), 2, "{remarks}");
    assert!(remarks.contains("note: slower") && remarks.contains("error: writing n"), "{remarks}");
}

#[test]
fn with_json_standard_output_has_events_only() {
    let (renderer, results, remarks) = renderer(RenderSettings { json: true, ..RenderSettings::default() });
    run(&renderer, 1);
    let results = results.text();
    for line in results.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["schema"], "hakobu.event/1");
    }
    assert!(results.lines().last().unwrap().contains("\"event\":\"finished\""));
    assert!(remarks.text().starts_with("copying "));
}

#[test]
fn quiet_says_errors_only() {
    let (renderer, results, remarks) =
        renderer(RenderSettings { quiet: true, dry_run: true, ..RenderSettings::default() });
    run(&renderer, 1);
    // A plan was asked for: it is the result.
    assert_eq!(results.text().lines().count(), 1, "{}", results.text());
    assert!(results.text().starts_with("create "));
    let remarks = remarks.text();
    assert!(!remarks.contains("note:") && remarks.contains("failed:"), "{remarks}");
}

#[test]
fn many_failures_are_counted_not_listed() {
    let (renderer, results, remarks) = renderer(RenderSettings::default());
    run(&renderer, 50);
    assert_eq!(remarks.text().matches("failed: n").count(), 20);
    assert!(results.text().contains("50 failed: the first are listed above"), "{}", results.text());
}

#[test]
fn a_difference_tells_the_bytes_of_its_name() {
    let (renderer, results, _) = renderer(RenderSettings::default());
    renderer.event(Event::Difference(Difference::new(*b"\x93\xfa", Different::Content)));
    assert_eq!(results.text(), "differs: \\x93\\xfa: content\n");
}

#[test]
fn failures_that_were_not_announced_are_listed_at_the_end() {
    let (renderer, _, remarks) = renderer(RenderSettings::default());
    let mut report = Report::default();
    report.conclude(&vec![failure(b"x"); 30], None, false);
    renderer.finish(&report);
    assert_eq!(remarks.text().matches("failed: x").count(), 20);
}

#[test]
fn several_sources_are_named_or_counted() {
    for (sources, line) in [
        (&["/a"][..], "copying /a to h:/t\n"),
        (&["/a", "/b"], "copying /a and /b to h:/t\n"),
        (&["/a", "/b", "/c", "/d"], "copying /a, /b and 2 more to h:/t\n"),
    ] {
        let (renderer, results, _) = renderer(RenderSettings::default());
        renderer.first_line(sources, "h:/t", &ReportMachines::default());
        assert_eq!(results.text(), line);
    }
}

#[test]
fn an_interrupted_run_ends_with_the_command_to_go_on() {
    let (renderer, _, remarks) = renderer(RenderSettings { quiet: true, ..RenderSettings::default() });
    let mut report = Report { command: "hakobu copy 'a b' t".into(), ..Report::default() };
    report.conclude(&[], None, true);
    renderer.finish(&report);
    // A run with `--restart` must not restart again.
    report.command = "hakobu copy --restart 'a b' -- --restart t".into();
    renderer.finish(&report);
    let lines = ["to go on: hakobu copy 'a b' t\n", "to go on: hakobu copy 'a b' -- --restart t\n"];
    assert_eq!(remarks.text(), lines.concat());
}

#[test]
fn why_says_the_rule_for_what_was_left_alone_once() {
    for (why, unchanged, times) in [(true, 1200, 1), (true, 0, 0), (false, 1200, 0)] {
        let (renderer, _, remarks) = renderer(RenderSettings { why, ..RenderSettings::default() });
        let mut report = Report::default();
        (report.entries.scanned, report.entries.unchanged) = (1200, unchanged);
        report.conclude(&[], None, false);
        renderer.finish(&report);
        let said = "why: 1 200 unchanged: unchanged means equal size and modification time";
        assert_eq!(remarks.text().matches(said).count(), times, "{}", remarks.text());
        assert!(!remarks.text().contains("with new attributes"), "there are none: {}", remarks.text());
    }
}

#[test]
fn why_says_how_equality_was_found_out() {
    for (mode, compares_content, words) in [
        (Mode::Delta, false, "unchanged means equal size and modification time"),
        (Mode::Delta, true, "unchanged means equal content, compared by digests"),
        (Mode::Compare, true, ""),
    ] {
        let settings = RenderSettings { why: true, mode, compares_content, ..RenderSettings::default() };
        let (renderer, _, remarks) = renderer(settings);
        let mut report = Report::default();
        report.entries.unchanged = 3;
        report.conclude(&[], None, false);
        renderer.finish(&report);
        assert_eq!(remarks.text().contains("unchanged means"), !words.is_empty(), "{}", remarks.text());
        assert!(remarks.text().contains(words), "{}", remarks.text());
    }
}

#[test]
fn a_decision_of_both_parts_of_a_run_is_said_once() {
    let (renderer, _, remarks) = renderer(RenderSettings { why: true, ..RenderSettings::default() });
    for reason in ["two", "two", "three"] {
        renderer.event(Event::Decision { choice: "lanes".into(), reason: reason.into() });
    }
    assert_eq!(remarks.text(), "why: lanes: two\nwhy: lanes: three\n");
}

/// A reader that has gone away.
struct Gone;

impl Write for Gone {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }
}

#[test]
fn output_that_nobody_reads_stops_nothing() {
    let settings = RenderSettings { json: true, verbose: true, ..RenderSettings::default() };
    let renderer = Renderer::with_outputs(settings, Box::new(Gone), Box::new(Gone));
    run(&renderer, 30);
}
