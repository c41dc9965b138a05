//! The engine's reports to an observer: rare things as events, frequent ones as counters.

use crate::counters::CounterTotals;
use crate::digest::Digest;
use crate::entry::EntryMetadata;
use crate::error::Error;
use crate::extended::lost_digest;
use crate::extent::Extent;
use crate::path::EntryPath;
use crate::report::ReportMachines;
use crate::times::rfc3339;
use crate::units::format_count;

/// Something that happened in a run. There is never one event per file or chunk, except for failures, the lines of a dry
/// run, and the changes of a run that lists them.
#[derive(Clone, Debug)]
pub enum Event {
    /// A choice with its figures, for `--why`.
    Decision {
        /// The choice in one line.
        choice: String,
        /// The reason, with figures.
        reason: String,
    },
    /// One entry could not be copied; the run continues.
    Failure(Failure),
    /// Something that the user should know now, such as a fallback to a slower transport.
    Notice {
        /// The message in one line.
        words: String,
    },
    /// Both ends are fully known; work begins.
    Located {
        /// The sources, with their host.
        sources: Vec<Vec<u8>>,
        /// The place where they land, with its host.
        target: Vec<u8>,
        /// The machines that take part.
        machines: Box<ReportMachines>,
    },
    /// One line of the plan of a dry run.
    Planned {
        /// The action: `create`, `update`, `attributes`, `directory`, `replace` (by a directory), `link`, `delete`.
        action: String,
        /// The path below the target's root.
        path: Vec<u8>,
        /// The number of bytes that would be transferred.
        size_bytes: u64,
    },
    /// The digest of one file of a tree.
    Digest {
        /// The path below the source's root.
        path: Vec<u8>,
        /// The BLAKE3.
        digest: Digest,
    },
    /// A difference found by a comparison.
    Difference(Difference),
    /// The current figures, at most a few times a second.
    Progress(Box<CounterTotals>),
    /// One entry of the target was changed, and the target has confirmed it. Only in a run that lists changes.
    Changed(EntryChange),
}

/// A change of one entry of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryChange {
    /// The kind of change.
    pub action: EntryAction,
    /// The path below the target's root; empty for the root itself.
    pub path: Vec<u8>,
    /// The size in bytes of a file that was created or updated; zero for everything else.
    pub size_bytes: u64,
}

/// The kinds of change of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryAction {
    /// It was created.
    Create,
    /// Its content was updated, or it replaced an entry of another kind.
    Update,
    /// Only its attributes were changed.
    Attributes,
    /// A directory was created.
    Directory,
    /// A directory replaced an entry of another kind.
    Replace,
    /// It became a hard link to another entry.
    Link,
    /// It was deleted.
    Delete,
}

impl EntryAction {
    /// Returns the name used in events and lists. Those of a dry run have the same names.
    pub fn name(self) -> &'static str {
        match self {
            EntryAction::Create => "create",
            EntryAction::Update => "update",
            EntryAction::Attributes => "attributes",
            EntryAction::Directory => "directory",
            EntryAction::Replace => "replace",
            EntryAction::Link => "link",
            EntryAction::Delete => "delete",
        }
    }
}

/// One entry that could not be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The path, below the source's root or as the user typed it.
    pub path: Vec<u8>,
    /// The error. Its place is the path below the target's root (`.` for the root itself) if the target failed, and
    /// empty if the source did.
    pub error: Error,
}

/// A difference between target and source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The path below the target's root.
    pub path: Vec<u8>,
    /// The kind of difference.
    pub what: Different,
    /// The two values, of a difference that has some.
    pub values: Option<DifferingValues>,
}

impl Difference {
    /// Creates a difference without values.
    pub fn new(path: impl Into<Vec<u8>>, what: Different) -> Self {
        Self { path: path.into(), what, values: None }
    }

    /// Creates the difference between two entries, with their values of what differs.
    pub fn between(
        path: &EntryPath,
        what: Different,
        source: &EntryMetadata,
        target: &EntryMetadata,
    ) -> Self {
        let value = |metadata: &EntryMetadata| {
            Some(match what {
                // The article is left out.
                Different::Kind => metadata.kind.words().split_once(' ')?.1.to_owned(),
                Different::Size => metadata.size_bytes.to_string(),
                Different::Mode => format!("{:04o}", metadata.mode & 0o7777),
                Different::Owner => format!("{}:{}", metadata.uid, metadata.gid),
                Different::Time => rfc3339(metadata.mtime),
                Different::Extended if target.missed => match metadata.missed {
                    false => attributes_name(metadata.extended),
                    true => format!("{LOST_ATTRIBUTES}{}", attributes_name(lost_digest(metadata.extended))),
                },
                _ => return None,
            })
        };
        let values = value(source).zip(value(target));
        let values = values.map(|(source, target)| DifferingValues { source, target });
        Self { values, ..Self::new(path.as_bytes(), what) }
    }
}

/// The words of a difference before the name of attributes that the target has lost. Only stores keep them apart from
/// entries.
const LOST_ATTRIBUTES: &str = "missing or damaged .hakobu.attributes/";

/// Returns what the name of attributes that a store keeps begins with.
fn attributes_name(digest: u64) -> String {
    match digest {
        0 => "none".to_owned(),
        digest => format!("{:016x}*", digest.swap_bytes()),
    }
}

/// The two values of something that differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DifferingValues {
    /// The value at the source: an octal mode, `uid:gid`, a size in bytes, an RFC 3339 time in UTC, or a kind of entry.
    pub source: String,
    /// The value at the target.
    pub target: String,
}

/// The kinds of difference of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Different {
    /// The target lacks it.
    OnlyInSource,
    /// The source lacks it.
    OnlyInTarget,
    /// The entry is of another kind.
    Kind,
    /// The size differs.
    Size,
    /// The content differs although the size is the same.
    Content,
    /// A range of the content differs.
    Range(Extent),
    /// The permissions differ.
    Mode,
    /// The owner or group differs.
    Owner,
    /// The modification time differs.
    Time,
    /// The extended attributes differ.
    Extended,
    /// It is a hard link to another file than at the source.
    Links,
}

impl Different {
    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Different::OnlyInSource => "only_in_source",
            Different::OnlyInTarget => "only_in_target",
            Different::Kind => "kind",
            Different::Size => "size",
            Different::Content => "content",
            Different::Range(_) => "range",
            Different::Mode => "mode",
            Different::Owner => "owner",
            Different::Time => "time",
            Different::Extended => "xattr",
            Different::Links => "links",
        }
    }
}

/// Observes a run. Called from the lanes, so it must be quick and must not block for long.
pub trait Observer: Send + Sync {
    /// Reports an event.
    fn event(&self, event: Event);
}

/// An observer that ignores everything.
#[derive(Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn event(&self, _event: Event) {}
}

/// The number of directories for which left-out drafts are reported.
const LEFT_OUT_TOLD_MAX: u64 = 5;

/// Returns the message that a directory of the source holds drafts, which are left out. `earlier` is the number of such
/// directories before this one; nothing is reported for the later ones.
pub fn drafts_left_out(directory: &EntryPath, drafts: u64, earlier: u64) -> Option<String> {
    let what = match drafts {
        1 => "1 unfinished copy by hakobu (.hakobu.…) is".to_owned(),
        _ => format!("{} unfinished copies by hakobu (.hakobu.…) are", format_count(drafts)),
    };
    let place = if directory.is_root() { "the source".to_owned() } else { directory.to_string() };
    match earlier {
        ..LEFT_OUT_TOLD_MAX => Some(format!("{what} left out in {place}")),
        LEFT_OUT_TOLD_MAX => {
            Some("unfinished copies are left out in further directories; they count as skipped".to_owned())
        }
        _ => None,
    }
}
