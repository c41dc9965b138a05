//! Events and reports as JSON that is also safe to look at on a terminal.

use std::io;
use std::time::Duration;

use hakobu_core::event::Event;
use hakobu_core::pace::time_words;
use hakobu_core::path::lossy;
use hakobu_core::report::{
    Bottleneck, Report, ReportDifference, ReportFailure, ReportMachines, text_and_base64,
};
use serde::Serialize;

use super::progress::ProgressFigures;

/// The schema of every event.
pub const EVENT_SCHEMA: &str = "hakobu.event/1";

/// The content of an event, besides its schema and time.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum JsonEvent<'a> {
    /// Both ends are resolved, the work begins.
    Started {
        /// The sources.
        sources: Vec<JsonPath>,
        /// The target.
        target: JsonPath,
        /// The machines that take part.
        machines: &'a ReportMachines,
        /// True if this is only a plan.
        dry_run: bool,
    },
    /// A choice and its reason.
    Decision {
        /// The choice.
        choice: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// Something the user should know now.
    Notice {
        /// In words.
        words: &'a str,
    },
    /// An entry that failed.
    Failure(ReportFailure),
    /// In what the target differs; ranges of large files are in the report only.
    Difference(ReportDifference),
    /// A line of a plan.
    Planned {
        /// The planned action.
        action: &'a str,
        /// With what.
        #[serde(flatten)]
        path: JsonPath,
        /// Bytes that would be moved.
        size_bytes: u64,
    },
    /// A change of an entry at the target.
    Changed {
        /// The change that was made.
        action: &'static str,
        /// With what.
        #[serde(flatten)]
        path: JsonPath,
        /// The size of a file that was created or updated.
        size_bytes: u64,
    },
    /// The figures so far.
    Progress {
        /// Bytes that are at the target.
        bytes_done: u64,
        /// Bytes on their way there.
        bytes_under_way: u64,
        /// Bytes found at the source; the total once `scan_done`.
        bytes_scanned: u64,
        /// True if the totals are known.
        scan_done: bool,
        /// The rate of the last seconds.
        bytes_per_second: u64,
        /// Seconds left, when they can be told.
        seconds_left: Option<f64>,
        /// Entries dealt with.
        entries_done: u64,
        /// Entries found at the source.
        entries_scanned: u64,
        /// Entries that failed.
        entries_failed: u64,
        /// The present bottleneck.
        bottleneck: Option<&'a Bottleneck>,
        /// The time of day at which the pause of a timetable ends that holds now.
        #[serde(skip_serializing_if = "Option::is_none")]
        paused_until: Option<String>,
    },
    /// The end, always the last event.
    Finished {
        /// The whole report.
        report: &'a Report,
    },
}

/// A path: text, and base64 where it is not UTF-8.
#[derive(Debug, Serialize)]
pub struct JsonPath {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
}

impl JsonPath {
    /// Of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        let (path, path_base64) = text_and_base64(bytes);
        Self { path, path_base64 }
    }
}

impl<'a> JsonEvent<'a> {
    /// The first event.
    pub fn started<S: AsRef<[u8]>>(
        (sources, target): (&[S], &[u8]),
        machines: &'a ReportMachines,
        dry_run: bool,
    ) -> Self {
        let sources = sources.iter().map(|source| JsonPath::new(source.as_ref())).collect();
        Self::Started { sources, target: JsonPath::new(target), machines, dry_run }
    }

    /// The last event.
    pub fn finished(report: &'a Report) -> Self {
        Self::Finished { report }
    }

    /// The figures of one moment.
    pub fn progress(figures: &'a ProgressFigures) -> Self {
        Self::Progress {
            bytes_done: figures.bytes_done,
            bytes_under_way: figures.bytes_under_way,
            bytes_scanned: figures.bytes_seen,
            scan_done: figures.scan_done,
            bytes_per_second: figures.bytes_per_second as u64,
            seconds_left: figures.left.map(|left| left.as_secs_f64()),
            entries_done: figures.entries_done,
            entries_scanned: figures.entries_seen,
            entries_failed: figures.entries_failed,
            bottleneck: figures.bottleneck.as_ref(),
            paused_until: figures.paused_until_s.map(time_words),
        }
    }

    /// An event of the engine, but for progress, which is made rarer first.
    pub fn of(event: &'a Event) -> Option<Self> {
        Some(match event {
            Event::Decision { choice, reason } => Self::Decision { choice, reason },
            Event::Failure(failure) => Self::Failure(ReportFailure::from(failure)),
            Event::Notice { words } => Self::Notice { words },
            Event::Difference(difference) => Self::Difference(ReportDifference::from(difference)),
            Event::Planned { action, path, size_bytes } => {
                Self::Planned { action, path: JsonPath::new(path), size_bytes: *size_bytes }
            }
            Event::Changed(change) => Self::Changed {
                action: change.action.name(),
                path: JsonPath::new(&change.path),
                size_bytes: change.size_bytes,
            },
            _ => return None,
        })
    }
}

#[derive(Serialize)]
struct EventLine<'a> {
    schema: &'static str,
    seconds: f64,
    #[serde(flatten)]
    event: &'a JsonEvent<'a>,
}

/// One event as one line, without the line's end.
///
/// # Errors
/// None that is known; serialising could fail.
pub fn line(event: &JsonEvent<'_>, since_start: Duration) -> io::Result<String> {
    let seconds = (since_start.as_secs_f64() * 1000.0).round() / 1000.0;
    one_line(&EventLine { schema: EVENT_SCHEMA, seconds, event })
}

/// A value as JSON on one line, without the line's end.
///
/// # Errors
/// As [`line`].
pub fn one_line<T: Serialize>(value: &T) -> io::Result<String> {
    Ok(terminal_safe(&serde_json::to_string(value)?))
}

/// A value as indented JSON with a line's end.
///
/// # Errors
/// As [`line`].
pub fn pretty<T: Serialize>(value: &T) -> io::Result<String> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(terminal_safe(&text))
}

/// Escapes every character in the JSON that could move a cursor or change the direction of text. Outside of strings, JSON has
/// no such characters but line ends.
fn terminal_safe(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    let mut units = [0; 2];
    let mut bytes = [0; 4];
    for character in json.chars() {
        let harmless = character == '\n' || (' '..='~').contains(&character) || {
            let text: &str = character.encode_utf8(&mut bytes);
            lossy(text.as_bytes()) == text
        };
        if harmless {
            safe.push(character);
        } else {
            for unit in character.encode_utf16(&mut units) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use hakobu_core::counters::CounterTotals;
    use hakobu_core::error::{Error, ErrorKind};
    use hakobu_core::event::{Difference, Different, EntryAction, EntryChange, Failure};

    use super::*;
    use crate::render::progress::RecentProgress;

    fn value(event: &JsonEvent<'_>) -> (String, serde_json::Value) {
        let line = line(event, Duration::from_millis(1500)).unwrap();
        let value = serde_json::from_str(&line).unwrap();
        (line, value)
    }

    #[test]
    fn every_event_is_one_line_with_schema_and_name() {
        let error = Error::new(ErrorKind::Io, "reading", "bad\nsector");
        let report = Report::default();
        let events = [
            Event::Decision { choice: "2 lanes".into(), reason: "two cores".into() },
            Event::Failure(Failure { path: b"a\n\x1b\xff".to_vec(), error }),
            Event::Notice { words: "slower\u{9b}2J\u{202e}".into() },
            Event::Planned { action: "create".into(), path: b"a".to_vec(), size_bytes: 7 },
            Event::Difference(Difference::new(*b"a", Different::Content)),
            Event::Changed(EntryChange { action: EntryAction::Link, path: b"a".to_vec(), size_bytes: 0 }),
        ];
        let started = JsonEvent::started((&["/a", "/b"], b"h:/c\xfe"), &report.machines, false);
        let figures = RecentProgress::default().update(Duration::from_secs(1), &CounterTotals::default());
        let rest = [started, JsonEvent::progress(&figures), JsonEvent::finished(&report)];
        let all = events.iter().filter_map(JsonEvent::of).chain(rest);
        let mut names = Vec::new();
        for event in all {
            let (line, value) = value(&event);
            assert!(!line.contains(char::is_control) && !line.contains('\u{202e}'), "{line}");
            assert_eq!((&value["schema"], &value["seconds"]), (&EVENT_SCHEMA.into(), &1.5.into()));
            names.push(value["event"].as_str().unwrap().to_owned());
        }
        let all = [
            "decision",
            "failure",
            "notice",
            "planned",
            "difference",
            "changed",
            "started",
            "progress",
            "finished",
        ];
        assert_eq!(names, all);
        // The book has them all, and no others.
        let book = include_str!("../../../../docs/book/report.md");
        let (_, table) = book.split_once("| `event` | fields |").unwrap();
        let mut listed: Vec<_> = table.lines().filter_map(|line| line.split('`').nth(1)).collect();
        listed.sort_unstable();
        names.sort_unstable();
        assert_eq!(listed, names);
    }

    #[test]
    fn names_survive_in_text_or_base64() {
        let failing = |path: &[u8]| {
            let error = Error::new(ErrorKind::Io, "reading", "");
            let event = Event::Failure(Failure { path: path.to_vec(), error });
            value(&JsonEvent::of(&event).unwrap()).1
        };
        assert_eq!(failing(b"a\n\x1b")["path"], "a\n\x1b");
        assert!(failing(b"a\n\x1b")["path_base64"].is_null());
        assert_eq!(failing(b"a\xff")["path_base64"], "Yf8=");
        assert_eq!(failing("\u{202e}\u{1f6e2}".as_bytes())["path"], "\u{202e}\u{1f6e2}");
    }
}
