//! What the engine tells whoever watches: rare things as events, frequent ones as counters.

use crate::counters::Snapshot;
use crate::digest::Digest;
use crate::error::Error;
use crate::extent::Extent;
use crate::path::EntryPath;
use crate::units::format_count;

/// Something that happened in a run. Never one per file or chunk, except for failures and the
/// lines of a dry run.
#[derive(Clone, Debug)]
pub enum Event {
    /// A choice that was made, with its figures, for `--why`.
    Decision {
        /// What was chosen, in one line.
        choice: String,
        /// Why, with figures.
        reason: String,
    },
    /// One entry could not be copied; the run goes on.
    Failure(Failure),
    /// Something that the user should know now, such as a fall to a slower way.
    Notice {
        /// One line of plain words.
        words: String,
    },
    /// Both ends are known in full; work begins.
    Located {
        /// The sources, with their host.
        sources: Vec<Vec<u8>>,
        /// Where they land, with its host.
        target: Vec<u8>,
    },
    /// One line of the plan of a dry run.
    Planned {
        /// The action: `create`, `update`, `attributes`, `directory`, `replace` (by a directory), `link`, `delete`.
        action: String,
        /// The target path below the target's root.
        path: Vec<u8>,
        /// Bytes that would be moved.
        size_bytes: u64,
    },
    /// The digest of one file of a tree.
    Digest {
        /// Its path below the source's root.
        path: Vec<u8>,
        /// The BLAKE3.
        digest: Digest,
    },
    /// Something that a comparison found.
    Difference(Difference),
    /// The figures so far, a few times a second at most.
    Progress(Box<Snapshot>),
}

/// One entry that could not be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The path, below the source's root or as the user typed it.
    pub path: Vec<u8>,
    /// What went wrong. Its place is the path below the target's root if that is where it went wrong
    /// (`.` for the root itself), and empty if it was at the source.
    pub error: Error,
}

/// In what the target differs from the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The path below the target's root.
    pub path: Vec<u8>,
    /// What differs.
    pub what: Different,
}

/// What may differ of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Different {
    /// The target lacks it.
    OnlyInSource,
    /// The source lacks it.
    OnlyInTarget,
    /// It is something else.
    Kind,
    /// Its size.
    Size,
    /// Its content, of one size.
    Content,
    /// A range of its content.
    Range(Extent),
    /// Permissions.
    Mode,
    /// Owner or group.
    Owner,
    /// The time of its last change.
    Time,
    /// Extended attributes.
    Extended,
    /// It is a name of another file than the one whose name it is at the source.
    Links,
}

impl Different {
    /// The name in reports.
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

/// Whoever watches a run. Called from the lanes, so it must be quick and must not block for long.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn event(&self, event: Event);
}

/// An observer that looks away.
#[derive(Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn event(&self, _event: Event) {}
}

/// In so many directories it is said that something is left out.
const LEFT_OUT_TOLD_MAX: u64 = 5;

/// The words that say that a directory of the source holds drafts, which are left out. `earlier` is how many such
/// directories there were before: of the later ones nothing is said.
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
