//! What a run leaves behind for people, scripts and change tickets: one JSON object with the
//! schema `hakobu.report/1`.
//!
//! The names of the fields are a promise: they end in their unit, and what is not known is null.
//! Fields are added without another schema, so whoever reads a report of an older version finds
//! some of them missing; they have their defaults then.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::counters::Snapshot;
use crate::disk::DeviceFacts;
use crate::error::{Error, ErrorKind, Step};
use crate::event::{Difference, Different, Failure};
use crate::losses::Loss;
use crate::pace::Limits;

mod bottleneck;
mod file_server;
mod outcome;
mod route;
mod timeline;

pub use bottleneck::{Bottleneck, LATENCY_LIMIT, NETWORK, OPERATION_LIMIT};
pub use file_server::FileServer;
pub use outcome::{Outcome, OutcomeFacts, can_go_on, outcome};
pub use route::Route;
pub use timeline::{TIMELINE_SAMPLES_MAX, Timeline, TimelineRecorder, TimelineSample};

/// The schema of [`Report`].
pub const REPORT_SCHEMA: &str = "hakobu.report/1";

/// The report of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Always [`REPORT_SCHEMA`].
    pub schema: String,
    /// How the run ended.
    pub outcome: Outcome,
    /// The exit code of the program.
    pub exit_code: u8,
    /// What ended the run, when it was not its own end.
    pub error: Option<ReportError>,
    /// The identity of the job: the same source, target path and far user give the same.
    pub job: Option<String>,
    /// The version of hakobu.
    pub version: String,
    /// The command, quoted for a shell.
    pub command: String,
    /// Whether both sides were only compared.
    pub only_compared: bool,
    /// Who ran it.
    pub user: String,
    /// When it began, RFC 3339 in UTC.
    pub started_at: String,
    /// When it ended, RFC 3339 in UTC.
    pub ended_at: String,
    /// Whether it was only a plan.
    pub dry_run: bool,
    /// The first source.
    pub source: ReportEnd,
    /// The other sources, if there were several.
    pub further_sources: Vec<ReportEnd>,
    /// The target.
    pub target: ReportEnd,
    /// How the data travelled.
    pub transport: Route,
    /// The cipher of the data connections: `aes-128-gcm`, `none`…; null where there were none.
    pub cipher: Option<String>,
    /// How content was compressed on its way: `zstd`, or `none` where nothing was.
    pub compression: String,
    /// The levels that were used, ascending.
    pub compression_levels: Vec<i8>,
    /// The most lanes that worked at once.
    pub lanes_max: u16,
    /// What it was held to as it began, if anything, and what was set while it ran.
    pub limits: Vec<ReportLimits>,
    /// Entries, by what became of them.
    pub entries: ReportEntries,
    /// Bytes, by where they went.
    pub bytes: ReportBytes,
    /// Seconds, by what they were spent on.
    pub seconds: ReportSeconds,
    /// Bytes of content at the target per second of the transfer.
    pub throughput_bytes_per_second: u64,
    /// What the lanes spent their time on; null when nothing was moved.
    pub bottleneck: Option<Bottleneck>,
    /// The BLAKE3 of a single file, in hexadecimal, as `b3sum` prints it.
    pub digest_blake3: Option<String>,
    /// Why there is no digest of a single file.
    pub digest_blake3_reason: Option<String>,
    /// How the data at the target was checked.
    pub verified: Verified,
    /// What the target could not keep.
    pub losses: Vec<ReportLoss>,
    /// Whether set-ID bits or capabilities of programs were left out because the user did not allow the other machine
    /// to give them (`--allow setuid`).
    pub rights_withheld: bool,
    /// The entries that failed, each of them.
    pub failures: Vec<ReportFailure>,
    /// In what the target differs, of a run that compares: the first 10 000.
    pub differences: Vec<ReportDifference>,
    /// Whether the content of some files only was compared.
    pub sampled: bool,
    /// The bytes of all pieces that differ.
    pub differing_bytes: u64,
    /// Each source with its target and digest, where several were given in pairs.
    pub pairs: Vec<ReportPair>,
    /// The passes over a source in use; the other figures are those of the last one.
    pub passes: Vec<ReportPass>,
    /// How often the connection was lost, and for how long.
    pub outages: ReportOutages,
    /// Whether it went on where an earlier run had stopped.
    pub resumed: bool,
    /// The most memory of each side.
    pub peak_memory_bytes: PeakMemory,
    /// Bytes of content that were dealt with: written, made zero or found equal. The rate is of
    /// these.
    pub bytes_done: u64,
    /// How it went over time; null where nothing was moved.
    pub timeline: Option<Timeline>,
}

/// One end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportEnd {
    /// What the user typed.
    pub typed: String,
    /// The same in base64, where it is not UTF-8.
    pub typed_base64: Option<String>,
    /// The whole path and machine it turned out to be.
    pub resolved: Option<String>,
    /// Which disk it is; null where it is none.
    pub identity: Option<ReportDisk>,
}

impl ReportEnd {
    /// An end that is not resolved yet.
    pub fn typed(typed: &[u8]) -> Self {
        let (typed, typed_base64) = text_and_base64(typed);
        Self { typed, typed_base64, ..Self::default() }
    }
}

/// A disk, by what tells it from others. What its firmware does not say is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportDisk {
    /// The ID that `hakobu disks` shows.
    pub id: String,
    /// The model.
    pub model: String,
    /// The serial number.
    pub serial: String,
    /// The size.
    pub size_bytes: u64,
}

impl From<&DeviceFacts> for ReportDisk {
    fn from(facts: &DeviceFacts) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (model, serial) = (text(&facts.model), text(&facts.serial));
        Self { id: facts.identity.id.clone(), model, serial, size_bytes: facts.size_bytes }
    }
}

/// What a run was held to from some moment on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportLimits {
    /// So long after it began.
    pub since_seconds: f64,
    /// The rate or the timetable in words; null where there was no limit.
    pub rate: Option<String>,
    /// Operations a second at each end; null where there was no limit.
    pub operations_per_second: Option<u32>,
    /// Within what time 99 % of the reads at the source were to be done; null where there was no limit.
    pub source_p99_ms: Option<f64>,
    /// All of it in words.
    pub words: String,
}

impl ReportLimits {
    /// What held from this moment on.
    pub fn since(elapsed: Duration, limits: &Limits) -> Self {
        Self {
            since_seconds: elapsed.as_secs_f64(),
            rate: limits.rate.is_some().then(|| limits.rate.words()),
            operations_per_second: limits.operations_per_second,
            source_p99_ms: limits.source_p99_us.map(|us| us as f64 / 1000.0),
            words: limits.words(),
        }
    }
}

/// Numbers of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportEntries {
    /// Seen at the source.
    pub scanned: u64,
    /// The target lacked them and now has them.
    pub created: u64,
    /// Brought up to date.
    pub updated: u64,
    /// Equal on both sides, left alone.
    pub unchanged: u64,
    /// Only attributes were changed.
    pub attributes_only: u64,
    /// On both sides and not equal, of a run that compares.
    pub different: u64,
    /// Of which the content was read on both sides and compared.
    pub compared: u64,
    /// Removed from the target.
    pub deleted: u64,
    /// Only the target has them.
    pub only_in_target: u64,
    /// Left out on purpose.
    pub skipped: u64,
    /// Could not be copied.
    pub failed: u64,
}

/// Numbers of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportBytes {
    /// Content read from the source.
    pub source_read: u64,
    /// Content read from the target.
    pub target_read: u64,
    /// Content written to the target.
    pub target_written: u64,
    /// Sent on the data connections; null where there were none.
    pub wire_sent: Option<u64>,
    /// Received on the data connections; null where there were none.
    pub wire_received: Option<u64>,
    /// Zeros that were not moved.
    pub zeros_skipped: u64,
    /// Content that went compressed.
    pub compressed: u64,
    /// What that was compressed to.
    pub compressed_to: u64,
    /// The files that a plan would bring over: at most so much travels.
    pub planned: u64,
}

/// Seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportSeconds {
    /// From the start of the program to its end.
    pub total: f64,
    /// Until both ends were ready.
    pub connect: f64,
    /// Until the scan had ended.
    pub scan: f64,
    /// From the first byte to stable storage.
    pub transfer: f64,
    /// Reading again to compare.
    pub verify: f64,
    /// Of the transfer, what was a pause of a timetable.
    pub paused: f64,
}

/// What was lost of the connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportOutages {
    /// How often it was lost.
    pub count: u64,
    /// From the moments at which that was noticed until it was there again, or was given up.
    pub seconds: f64,
}

/// How data at the target was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verified {
    /// Not at all.
    #[default]
    None,
    /// What arrived was what had been read.
    Wire,
    /// What the medium gives back is what had been read.
    Medium,
}

/// Something that the target could not keep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportLoss {
    /// What: `xattr`, `acl`, `hardlinks`…
    pub what: String,
    /// Of how many entries.
    pub count: u64,
    /// Where `example` is: `source` or `target`, whichever noticed the loss.
    pub side: String,
    /// One of them, below the root of that side.
    pub example: String,
    /// The same in base64, where it is not UTF-8.
    pub example_base64: Option<String>,
}

impl From<&Loss> for ReportLoss {
    fn from(loss: &Loss) -> Self {
        let (example, example_base64) = text_and_base64(&loss.example);
        let (what, side) =
            (loss.what.name().to_owned(), if loss.at_target { "target" } else { "source" }.to_owned());
        Self { what, count: loss.count, side, example, example_base64 }
    }
}

/// An entry that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportFailure {
    /// The path, below the source's root or as typed.
    pub path: String,
    /// The same in base64, where it is not UTF-8.
    pub path_base64: Option<String>,
    /// The step that failed.
    pub during: String,
    /// The path at the target, with its host, if that is where it failed; null if at the source.
    pub at: Option<String>,
    /// The same in base64, where it is not UTF-8.
    pub at_base64: Option<String>,
    /// What went wrong, in words.
    pub error: String,
    /// The kind of error, for programs: `permission_denied`…
    pub kind: String,
}

impl From<&Failure> for ReportFailure {
    fn from(failure: &Failure) -> Self {
        let (path, path_base64) = text_and_base64(&failure.path);
        let Error { kind, during, at, .. } = &failure.error;
        let (at, at_base64) = match &at[..] {
            b"" => (None, None),
            at => {
                let (text, base64) = text_and_base64(at);
                (Some(text), base64)
            }
        };
        let (during, error) = (during.to_string(), failure.error.reason());
        Self { path, path_base64, during, at, at_base64, error, kind: kind_name(*kind) }
    }
}

/// One source with its target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportPair {
    /// The source, with its host.
    pub source: String,
    /// The target, with its host.
    pub target: String,
    /// BLAKE3 of the content, if it was taken.
    pub digest_blake3: Option<String>,
}

/// One pass over a source in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportPass {
    /// How long it took, login included.
    pub seconds: f64,
    /// Bytes that differed and were written.
    pub written_bytes: u64,
}

/// In what the target differs from the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportDifference {
    /// The path below the target's root.
    pub path: String,
    /// The same in base64, where it is not UTF-8.
    pub path_base64: Option<String>,
    /// What differs: `only_in_source`, `only_in_target`, `kind`, `size`, `content`, `range`, `mode`, `owner`, `time`,
    /// `xattr`.
    pub what: String,
    /// Where a range begins.
    pub offset_bytes: Option<u64>,
    /// How long it is: whole pieces of 256 KiB.
    pub length_bytes: Option<u64>,
}

impl From<&Difference> for ReportDifference {
    fn from(difference: &Difference) -> Self {
        let (path, path_base64) = text_and_base64(&difference.path);
        let extent = match difference.what {
            Different::Range(extent) => Some(extent),
            _ => None,
        };
        let (offset_bytes, length_bytes) =
            (extent.map(|extent| extent.offset), extent.map(|extent| extent.length));
        Self { path, path_base64, what: difference.what.name().to_owned(), offset_bytes, length_bytes }
    }
}

/// What ended a run before its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportError {
    /// The kind, for programs: `no_space`…
    pub kind: String,
    /// The step that failed, for programs: `login`… Not there where nothing depends on it.
    #[serde(with = "step_by_name", skip_serializing_if = "Step::is_other")]
    pub step: Step,
    /// The step that failed, in words.
    pub during: String,
    /// Where; empty when there is no such place.
    pub at: String,
    /// The same in base64, where it is not UTF-8.
    pub at_base64: Option<String>,
    /// What went wrong, in words.
    pub error: String,
}

impl From<&Error> for ReportError {
    fn from(error: &Error) -> Self {
        let (at, at_base64) = text_and_base64(&error.at);
        Self {
            kind: kind_name(error.kind),
            step: error.step,
            during: error.during.to_string(),
            at,
            at_base64,
            error: error.reason(),
        }
    }
}

/// Steps as reports have them: by name, so that those of later versions can be read.
pub mod step_by_name {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::error::Step;

    /// Writes the name.
    ///
    /// # Errors
    /// Those of the format.
    #[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
    pub fn serialize<S: Serializer>(step: &Step, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(step.name())
    }

    /// Reads a name.
    ///
    /// # Errors
    /// Those of the format.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Step, D::Error> {
        Ok(Step::from_name(&String::deserialize(from)?))
    }
}

/// Peak memory of the two processes, where it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeakMemory {
    /// The process that holds the source.
    pub source: Option<u64>,
    /// The process that holds the target.
    pub target: Option<u64>,
}

impl Default for Report {
    /// A report of nothing, which has failed until something better is known.
    fn default() -> Self {
        Self {
            schema: REPORT_SCHEMA.to_owned(),
            outcome: Outcome::Failed,
            exit_code: Outcome::Failed.exit_code(),
            error: None,
            job: None,
            version: String::new(),
            command: String::new(),
            only_compared: false,
            user: String::new(),
            started_at: String::new(),
            ended_at: String::new(),
            dry_run: false,
            source: ReportEnd::default(),
            further_sources: Vec::new(),
            target: ReportEnd::default(),
            transport: Route::Local,
            cipher: None,
            compression: "none".to_owned(),
            compression_levels: Vec::new(),
            lanes_max: 0,
            limits: Vec::new(),
            entries: ReportEntries::default(),
            bytes: ReportBytes::default(),
            seconds: ReportSeconds::default(),
            throughput_bytes_per_second: 0,
            bottleneck: None,
            digest_blake3: None,
            digest_blake3_reason: None,
            verified: Verified::None,
            losses: Vec::new(),
            rights_withheld: false,
            failures: Vec::new(),
            differences: Vec::new(),
            sampled: false,
            differing_bytes: 0,
            pairs: Vec::new(),
            passes: Vec::new(),
            outages: ReportOutages::default(),
            resumed: false,
            peak_memory_bytes: PeakMemory::default(),
            bytes_done: 0,
            timeline: None,
        }
    }
}

impl Report {
    /// Takes over the counters: entries, content bytes and the bottleneck.
    pub fn set_figures(&mut self, sum: &Snapshot) {
        self.entries = ReportEntries {
            scanned: sum.entries_scanned,
            created: sum.entries_created,
            updated: sum.entries_updated,
            unchanged: sum.entries_unchanged,
            attributes_only: sum.entries_attributes_only,
            different: sum.entries_different,
            compared: sum.entries_compared,
            deleted: sum.entries_deleted,
            only_in_target: sum.entries_only_in_target,
            skipped: sum.entries_skipped,
            failed: sum.entries_failed,
        };
        self.seconds.paused = Duration::from_nanos(sum.paused_ns).as_secs_f64();
        self.bytes.source_read = sum.source_read_bytes;
        self.bytes.planned = sum.planned_bytes;
        self.bytes.target_written = sum.target_written_bytes;
        self.bytes.target_read = sum.target_read_bytes;
        self.bytes.zeros_skipped = sum.zeros_skipped_bytes;
        (self.bytes.compressed, self.bytes.compressed_to) = (sum.compressed_bytes, sum.compressed_to_bytes);
        if self.bytes.compressed > 0 {
            self.compression = "zstd".to_owned();
        }
        self.bytes_done = sum.target_written_bytes.saturating_add(sum.bytes_kept);
        self.bottleneck = Bottleneck::of(sum);
    }

    /// Ends the report: failures, the error that ended the run, outcome, exit code and rate. Call
    /// it after [`Report::set_figures`] and after the seconds are known.
    pub fn conclude(&mut self, failures: &[Failure], fatal: Option<&Error>, interrupted: bool) {
        let of_source = failures.iter().filter(|failure| failure.error.is_source_change()).count();
        self.conclude_counted((failures, of_source as u64), fatal, interrupted);
    }

    /// As [`Report::conclude`], where more may have failed than is kept by name: the figures count all of them, and so many
    /// in all have the source as their cause.
    pub fn conclude_counted(
        &mut self,
        (failures, failures_of_source): (&[Failure], u64),
        fatal: Option<&Error>,
        interrupted: bool,
    ) {
        self.failures = failures.iter().map(ReportFailure::from).collect();
        self.error = fatal.map(ReportError::from);
        let mut kinds: Vec<ErrorKind> = failures.iter().map(|failure| failure.error.kind).collect();
        self.entries.failed = self.entries.failed.max(failures.len() as u64);
        if self.entries.failed > failures.len() as u64 {
            let all_of_source = failures_of_source >= self.entries.failed;
            kinds.push(if all_of_source { ErrorKind::SourceChanged } else { ErrorKind::Io });
        }
        let differ = self.only_compared
            && (self.entries.different > 0 || self.entries.only_in_target > 0 || self.differing_bytes > 0);
        self.outcome = outcome(&OutcomeFacts {
            failures: &kinds,
            fatal: fatal.map(|error| error.kind),
            interrupted,
            differences: differ || !self.differences.is_empty(),
            withheld: self.rights_withheld || self.is_partly_compared(),
            something_done: self.something_done(),
            ..OutcomeFacts::default()
        });
        self.exit_code = self.outcome.exit_code();
        let seconds = &self.seconds;
        let span = if seconds.transfer > 0.0 { seconds.transfer } else { seconds.total };
        if span > 0.0 {
            self.throughput_bytes_per_second = (self.bytes_done as f64 / span) as u64;
        }
    }

    /// Whether a comparison had to leave out attributes that the source has, since the target cannot have them.
    pub fn is_partly_compared(&self) -> bool {
        self.only_compared && !self.losses.is_empty()
    }

    /// Whether any entry is as it should be.
    pub fn something_done(&self) -> bool {
        let entries = &self.entries;
        let equal = entries.unchanged + entries.different;
        entries.created + entries.updated + equal + entries.attributes_only > 0
    }
}

/// Bytes as text and, where they are not UTF-8, in base64 as well. The text is not escaped.
pub fn text_and_base64(bytes: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (String::from_utf8_lossy(bytes).into_owned(), Some(base64(bytes))),
    }
}

/// Standard base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            if place <= group.len() {
                let index = bits >> (18 - 6 * place) & 63;
                text.push(char::from(ALPHABET[index as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// The bytes that [`base64`] has written. `None` if it has not.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in text.as_bytes().chunks(4) {
        let padding = group.iter().rev().take_while(|&&letter| letter == b'=').count();
        let mut bits = 0;
        for &letter in &group[..group.len() - padding] {
            bits = bits << 6 | u32::from(value(letter)?);
        }
        bits <<= 6 * padding;
        bytes.extend_from_slice(bits.to_be_bytes()[1..].get(..3usize.checked_sub(padding)?)?);
    }
    // What is left over, cut short or padded in the middle is found by doing it again.
    (base64(&bytes) == text).then_some(bytes)
}

/// The name of an error kind in reports and events: `permission_denied`.
pub fn kind_name(kind: ErrorKind) -> String {
    let mut name = String::new();
    for letter in format!("{kind:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
#[path = "report/tests.rs"]
mod tests;
