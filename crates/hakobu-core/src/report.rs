//! The report of a run for people, scripts and change tickets: one JSON object with the schema `hakobu.report/1`.
//!
//! The field names are a promise: they end in their unit, and unknown values are null. Fields are added without
//! changing the schema. In the report of an older version some are missing, and have their defaults.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::counters::CounterTotals;
use crate::disk::DeviceFacts;
use crate::error::{Error, ErrorKind, ErrorStep};
use crate::event::{Difference, Different, Failure};
use crate::losses::Loss;
use crate::pace::RunLimits;
use crate::path::EntryPath;
use crate::requests::{RequestCounts, RunRequests};

mod bottleneck;
mod file_server;
mod machine;
mod outcome;
mod route;
mod timeline;

pub use bottleneck::{Bottleneck, LATENCY_LIMIT, NETWORK, OPERATION_LIMIT, bottleneck_names};
pub use file_server::FileServer;
pub use machine::{ReportMachine, ReportMachines};
pub use outcome::{Outcome, OutcomeFacts, can_go_on, outcome};
pub use route::UsedTransport;
pub use timeline::{TIMELINE_SAMPLES_MAX, Timeline, TimelineRecorder, TimelineSample};

/// The schema of [`Report`].
pub const REPORT_SCHEMA: &str = "hakobu.report/1";

/// The report of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Always [`REPORT_SCHEMA`].
    pub schema: String,
    /// The outcome of the run.
    pub outcome: Outcome,
    /// The exit code of the program.
    pub exit_code: u8,
    /// The error that ended the run prematurely, if there was one.
    pub error: Option<ReportError>,
    /// The identity of the job: the same for the same source, target path and remote user.
    pub job: Option<String>,
    /// The version of hakobu.
    pub version: String,
    /// The command, quoted for a shell.
    pub command: String,
    /// True if both sides were only compared.
    pub only_compared: bool,
    /// The user who ran it.
    pub user: String,
    /// The start time, RFC 3339 in UTC.
    pub started_at: String,
    /// The end time, RFC 3339 in UTC.
    pub ended_at: String,
    /// True if it was only a plan.
    pub dry_run: bool,
    /// The first source.
    pub source: ReportEnd,
    /// The other sources, if there were several.
    pub further_sources: Vec<ReportEnd>,
    /// The target.
    pub target: ReportEnd,
    /// The machines that took part.
    pub machines: ReportMachines,
    /// The transport of the data.
    pub transport: UsedTransport,
    /// The machines and stores that content passes from the source to the target, in order.
    pub route: Vec<String>,
    /// The cipher of the data connections: `aes-128-gcm`, `none`…; null if there were none.
    pub cipher: Option<String>,
    /// The compression of content in transit: `zstd`, or `none` if nothing was compressed.
    pub compression: String,
    /// The compression levels that were used, ascending.
    pub compression_levels: Vec<i8>,
    /// The maximum number of lanes that worked at once.
    pub lanes_max: u16,
    /// The limits at the start, if any, and those set while it ran.
    pub limits: Vec<ReportLimits>,
    /// Numbers of entries by result.
    pub entries: ReportEntries,
    /// Numbers of bytes by purpose.
    pub bytes: ReportBytes,
    /// Seconds by purpose.
    pub seconds: ReportSeconds,
    /// Bytes of content at the target per second of the transfer.
    pub throughput_bytes_per_second: u64,
    /// The bottleneck; null if nothing was transferred.
    pub bottleneck: Option<Bottleneck>,
    /// The BLAKE3 of a single file in hexadecimal, as printed by `b3sum`.
    pub digest_blake3: Option<String>,
    /// The reason why there is no digest of a single file.
    pub digest_blake3_reason: Option<String>,
    /// The kind of verification of the data at the target.
    pub verified: Verified,
    /// The properties that the target could not keep.
    pub losses: Vec<ReportLoss>,
    /// True if set-ID bits or file capabilities were left out because the user did not allow the other machine to set
    /// them (`--allow setuid`).
    pub rights_withheld: bool,
    /// The entries that failed.
    pub failures: Vec<ReportFailure>,
    /// The entries deleted at the target: the first 10 000, or about 1 MiB of paths. `entries.deleted` counts all of them.
    pub deletions: Vec<ReportDeletion>,
    /// The differences found by a run that compares: the first 10 000.
    pub differences: Vec<ReportDifference>,
    /// True if only the content of a sample of files was compared.
    pub sampled: bool,
    /// The total size of all pieces that differ.
    pub differing_bytes: u64,
    /// Each source with its target and digest, if several were given in pairs.
    pub pairs: Vec<ReportPair>,
    /// The passes over a source in use; the other figures are those of the last one.
    pub passes: Vec<ReportPass>,
    /// The number and duration of connection losses.
    pub outages: ReportOutages,
    /// True if it resumed an earlier run.
    pub resumed: bool,
    /// The peak memory of each side.
    pub peak_memory_bytes: PeakMemory,
    /// Bytes of content that were processed: written, zeroed or found equal. The rate refers to these.
    pub bytes_done: u64,
    /// The progress over time; null if nothing was transferred.
    pub timeline: Option<Timeline>,
    /// The requests that object stores were sent.
    pub requests: ReportRequests,
}

/// The requests at both ends; null where an end counts none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportRequests {
    /// Those that the source was sent.
    pub source: Option<RequestCounts>,
    /// Those that the target was sent.
    pub target: Option<RequestCounts>,
    /// Those that the changes of a plan would send to the source.
    pub planned_source: Option<RequestCounts>,
    /// Those that the changes of a plan would send to the target.
    pub planned_target: Option<RequestCounts>,
}

impl ReportRequests {
    /// Returns the requests of a run, and those of its plan.
    pub fn new(requests: &RunRequests, planned: &RunRequests) -> Self {
        let counted = |counts: RequestCounts| (!counts.is_empty()).then_some(counts);
        Self {
            source: counted(requests.source),
            target: counted(requests.target),
            planned_source: counted(planned.source),
            planned_target: counted(planned.target),
        }
    }
}

/// One end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportEnd {
    /// The location as typed by the user.
    pub typed: String,
    /// The typed bytes in base64 if they are not UTF-8.
    pub typed_base64: Option<String>,
    /// The full path and host that it was resolved to.
    pub resolved: Option<String>,
    /// The disk, if it is one.
    pub identity: Option<ReportDisk>,
}

impl ReportEnd {
    /// Creates an end that is not resolved yet.
    pub fn typed(typed: &[u8]) -> Self {
        let (typed, typed_base64) = text_and_base64(typed);
        Self { typed, typed_base64, ..Self::default() }
    }
}

/// The identification of a disk. What its firmware does not report is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportDisk {
    /// The ID shown by `hakobu disks`.
    pub id: String,
    /// The model.
    pub model: String,
    /// The serial number.
    pub serial: String,
    /// The size in bytes.
    pub size_bytes: u64,
}

impl From<&DeviceFacts> for ReportDisk {
    fn from(facts: &DeviceFacts) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (model, serial) = (text(&facts.model), text(&facts.serial));
        Self { id: facts.identity.id.clone(), model, serial, size_bytes: facts.size_bytes }
    }
}

/// The limits of a run from some moment on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportLimits {
    /// The time since the start of the run in seconds.
    pub since_seconds: f64,
    /// The rate or the timetable in words; null if there is no limit.
    pub rate: Option<String>,
    /// The maximum number of operations per second at each end; null if there is no limit.
    pub operations_per_second: Option<u32>,
    /// The time within which 99 % of the reads at the source were to complete; null if there is no limit.
    pub source_p99_ms: Option<f64>,
    /// All limits in words.
    pub words: String,
}

impl ReportLimits {
    /// Creates the entry for limits that apply from `elapsed` on.
    pub fn since(elapsed: Duration, limits: &RunLimits) -> Self {
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
    /// Created because the target lacked them.
    pub created: u64,
    /// Updated.
    pub updated: u64,
    /// Equal on both sides, not touched.
    pub unchanged: u64,
    /// Only attributes were changed.
    pub attributes_only: u64,
    /// On both sides but not equal, in a run that compares.
    pub different: u64,
    /// Read on both sides to compare their content.
    pub compared: u64,
    /// Removed from the target.
    pub deleted: u64,
    /// Present only at the target.
    pub only_in_target: u64,
    /// Left out on purpose.
    pub skipped: u64,
    /// Failed to copy.
    pub failed: u64,
    /// The directories among those created. If rsync moves the data, they are not told apart, and this is 0.
    pub directories_created: u64,
    /// The sockets among those left out; 0 if rsync moves the data.
    pub sockets_skipped: u64,
    /// Those of which the listings did not show whether they are equal, so that they were asked for by themselves.
    pub examined: u64,
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
    /// Sent on the data connections; null if there were none.
    pub wire_sent: Option<u64>,
    /// Received on the data connections; null if there were none.
    pub wire_received: Option<u64>,
    /// Zeros that were not transferred.
    pub zeros_skipped: u64,
    /// Content that was sent compressed, before compression.
    pub compressed: u64,
    /// The size of that content after compression.
    pub compressed_to: u64,
    /// The files that a plan would copy: an upper bound of the transfer.
    pub planned: u64,
}

/// Durations in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportSeconds {
    /// From the start of the program to its end.
    pub total: f64,
    /// Until both ends were ready.
    pub connect: f64,
    /// Until the scan ended.
    pub scan: f64,
    /// From the first byte to stable storage.
    pub transfer: f64,
    /// Reading again to compare.
    pub verify: f64,
    /// The part of the transfer that was a pause of a timetable.
    pub paused: f64,
    /// The time for which the source was held still for the last pass; null if it was not.
    pub held_still: Option<f64>,
}

/// The losses of the connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportOutages {
    /// The number of losses.
    pub count: u64,
    /// The total time from the detection of each loss until the connection was restored or given up.
    pub seconds: f64,
}

/// The ways in which data at the target can be checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verified {
    /// Not at all.
    #[default]
    None,
    /// The received data was compared with the data that had been read.
    Wire,
    /// The data read back from the medium was compared with the data that had been read.
    Medium,
}

/// A property that the target could not keep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportLoss {
    /// The property: `xattr`, `acl`, `hardlinks`…
    pub what: String,
    /// The number of entries affected.
    pub count: u64,
    /// The side of `example`: `source` or `target`, whichever detected the loss.
    pub side: String,
    /// One of the entries, below the root of that side.
    pub example: String,
    /// The path in base64 if it is not UTF-8.
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
    /// The path in base64 if it is not UTF-8.
    pub path_base64: Option<String>,
    /// The step that failed.
    pub during: String,
    /// The path at the target, with its host, if the target failed; null if the source did.
    pub at: Option<String>,
    /// That path in base64 if it is not UTF-8.
    pub at_base64: Option<String>,
    /// The error in words.
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

/// An entry that was deleted at the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportDeletion {
    /// The path below the target's root.
    pub path: String,
    /// The path in base64 if it is not UTF-8.
    pub path_base64: Option<String>,
}

impl From<&EntryPath> for ReportDeletion {
    fn from(path: &EntryPath) -> Self {
        let (path, path_base64) = text_and_base64(path.as_bytes());
        Self { path, path_base64 }
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
    /// The BLAKE3 of the content, if it was computed.
    pub digest_blake3: Option<String>,
}

/// One pass over a source in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportPass {
    /// The duration in seconds, login included.
    pub seconds: f64,
    /// Bytes that differed and were written.
    pub written_bytes: u64,
}

/// A difference between target and source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportDifference {
    /// The path below the target's root.
    pub path: String,
    /// The path in base64 if it is not UTF-8.
    pub path_base64: Option<String>,
    /// The kind of difference: `only_in_source`, `only_in_target`, `kind`, `size`, `content`, `range`, `mode`, `owner`,
    /// `time`, `xattr`, `links`.
    pub what: String,
    /// The offset of a range.
    pub offset_bytes: Option<u64>,
    /// The length of a range: whole pieces of 256 KiB.
    pub length_bytes: Option<u64>,
    /// The value at the source of a mode, an owner, a size, a time or a kind.
    pub source_value: Option<String>,
    /// The value at the target.
    pub target_value: Option<String>,
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
        let (source_value, target_value) =
            difference.values.clone().map(|values| (values.source, values.target)).unzip();
        let what = difference.what.name().to_owned();
        Self { path, path_base64, what, offset_bytes, length_bytes, source_value, target_value }
    }
}

/// The error that ended a run prematurely.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportError {
    /// The kind, for programs: `no_space`…
    pub kind: String,
    /// The step that failed, for programs: `login`… Omitted if no handling depends on it.
    #[serde(with = "step_by_name", skip_serializing_if = "ErrorStep::is_other")]
    pub step: ErrorStep,
    /// The step that failed, in words.
    pub during: String,
    /// The place; empty if there is none.
    pub at: String,
    /// The place in base64 if it is not UTF-8.
    pub at_base64: Option<String>,
    /// The error in words.
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

/// Serialisation of steps by name, so that those of later versions can be read.
pub mod step_by_name {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::error::ErrorStep;

    /// Writes the name.
    ///
    /// # Errors
    /// Those of the format.
    #[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
    pub fn serialize<S: Serializer>(step: &ErrorStep, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(step.name())
    }

    /// Reads a name.
    ///
    /// # Errors
    /// Those of the format.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ErrorStep, D::Error> {
        Ok(ErrorStep::from_name(&String::deserialize(from)?))
    }
}

/// Peak memory of the two processes in bytes, if known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeakMemory {
    /// The process that holds the source.
    pub source: Option<u64>,
    /// The process that holds the target.
    pub target: Option<u64>,
}

impl Default for Report {
    /// An empty report, with the outcome "failed" until another one is known.
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
            machines: ReportMachines::default(),
            transport: UsedTransport::Local,
            route: Vec::new(),
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
            deletions: Vec::new(),
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
            requests: ReportRequests::default(),
        }
    }
}

impl Report {
    /// Copies the counters: entries, content bytes and the bottleneck.
    pub fn set_figures(&mut self, sum: &CounterTotals) {
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
            directories_created: sum.directories_created,
            sockets_skipped: sum.sockets_skipped,
            examined: sum.entries_examined,
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

    /// Completes the report with failures, the error that ended the run, outcome, exit code and rate. Must be called
    /// after [`Report::set_figures`] and after the seconds are set.
    pub fn conclude(&mut self, failures: &[Failure], fatal: Option<&Error>, interrupted: bool) {
        let of_source = failures.iter().filter(|failure| failure.error.is_source_change()).count();
        self.conclude_counted((failures, of_source as u64), fatal, interrupted);
    }

    /// Does the same as [`Report::conclude`] if more entries may have failed than are recorded by name: the figures
    /// count all of them, and `failures_of_source` of all failures have the source as their cause.
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

    /// Returns true if a comparison had to leave out attributes of the source that the target cannot have.
    pub fn is_partly_compared(&self) -> bool {
        self.only_compared && !self.losses.is_empty()
    }

    /// Returns true if any entry is as it should be.
    pub fn something_done(&self) -> bool {
        let entries = &self.entries;
        let equal = entries.unchanged + entries.different;
        entries.created + entries.updated + equal + entries.attributes_only > 0
    }
}

/// Returns bytes as text and, if they are not UTF-8, also in base64. The text is not escaped.
pub fn text_and_base64(bytes: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (String::from_utf8_lossy(bytes).into_owned(), Some(base64(bytes))),
    }
}

/// Encodes bytes in standard base64 with padding.
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

/// Decodes the output of [`base64`]. Returns `None` for anything else.
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
    // Encoding the result again detects leftovers, truncation and padding in the middle.
    (base64(&bytes) == text).then_some(bytes)
}

/// Returns the name of an error kind in reports and events, such as `permission_denied`.
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
