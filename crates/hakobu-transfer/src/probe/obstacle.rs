//! Finds out whether a copy would fail at once or for lack of space, from the checks before and the measurements.

use hakobu_core::entry::EntryKind;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::landing::{LandingRelation, SourceFound, land, relation};
use hakobu_core::location::Location;
use hakobu_core::probe::{ReadFigures, WriteFigures, WriteHow};
use hakobu_core::units::{format_bytes, format_count};
use hakobu_proto::control::{SourceLook, TargetLook};

use crate::devices::{self, refuse_stray};
use crate::host::AgentHost;
use crate::plan::root_and_places;

/// A reason why a copy would fail.
#[derive(Clone, Debug)]
pub struct CopyObstacle {
    /// The error that the copy would report.
    pub error: Error,
    /// True if it would certainly fail; otherwise that depends on what the error states.
    pub certain: bool,
}

impl CopyObstacle {
    fn certain(error: Error) -> Self {
        Self { error, certain: true }
    }
}

/// The place where a copy would put its result.
#[derive(Debug, Default)]
pub(super) struct CopyTarget {
    /// The reason why it could not, if any.
    pub obstacle: Option<CopyObstacle>,
    /// True if something exists there already, which may be left unchanged.
    exists: bool,
}

impl CopyTarget {
    /// Examines the place where a copy would put its result, with the checks that a copy performs before it begins.
    ///
    /// # Errors
    /// The target's host is lost.
    pub fn look(
        host: &mut dyn AgentHost,
        source: Option<(&Location, &SourceLook)>,
        (typed, target): (&Location, &TargetLook),
    ) -> Result<Self> {
        // Without a source, assume a file.
        let any = Location::local("file");
        let found =
            source.map_or(SourceFound { location: &any, kind: EntryKind::File }, |(location, look)| {
                SourceFound { location, kind: look.kind }
            });
        let refused = |error: Error| Self { obstacle: Some(CopyObstacle::certain(error)), exists: false };
        let landed = refuse_stray(typed, target).and_then(|()| land(&[found], typed, target.found));
        let landing = match landed {
            Ok(landing) => landing,
            Err(error) => return Ok(refused(error)),
        };
        if let Some(error) = devices::obstacle(source, (typed, target)) {
            return Ok(refused(error));
        }
        let Some((location, look)) = source else { return Ok(Self::default()) };
        let (root, places) = root_and_places(&landing, target)?;
        let there = match host.look_at_places(&root, &places) {
            Ok(there) => there,
            Err(error) if error.may_retry() => return Err(error),
            Err(error) => return Ok(refused(error)),
        };
        let Some(there) = there.first() else { return Ok(Self::default()) };
        let lies = relation(&look.ancestry, look.kind == EntryKind::Directory, there);
        let obstacle = match lies {
            LandingRelation::Apart => None,
            lies => lies.check(location, typed).err().map(CopyObstacle::certain),
        };
        Ok(Self { obstacle, exists: there.exists })
    }

    /// Returns the obstacle, taking the measurements into account. The names are those of source and target for people;
    /// `together` is true if both ends are on one host.
    pub fn judge(
        &self,
        (source_name, name): (&[u8], &[u8]),
        source: Option<&ReadFigures>,
        target: Option<&WriteFigures>,
        together: bool,
    ) -> Option<CopyObstacle> {
        let refused = |kind, words: String| Error::new(kind, "looking at the target", words).at(name);
        let denied = || source.and_then(|source| denied(source_name, source));
        let target = match target {
            _ if self.obstacle.is_some() => return self.obstacle.clone(),
            None => return denied(),
            Some(target) => target,
        };
        let what = match target.how {
            WriteHow::ReadOnly => (ErrorKind::ReadOnly, "the file system is mounted for reading only"),
            WriteHow::Denied => (ErrorKind::PermissionDenied, "this user may not write there"),
            WriteHow::Nowhere | WriteHow::Device | WriteHow::WrittenBack => return denied(),
            _ => return self.room(source, target, together, &refused).or_else(denied),
        };
        Some(CopyObstacle::certain(refused(what.0, what.1.to_owned())))
    }

    fn room(
        &self,
        source: Option<&ReadFigures>,
        target: &WriteFigures,
        together: bool,
        refused: &dyn Fn(ErrorKind, String) -> Error,
    ) -> Option<CopyObstacle> {
        let needed = NeededSpace::of(source);
        let there = target.tree.as_ref().filter(|there| there.is_sound());
        // Data that exists already may not have to be copied.
        let (is_left, left) = match there {
            _ if !self.exists => (false, (0, 0)),
            Some(there) if there.complete => (true, (there.bytes, there.entries())),
            _ => (true, (u64::MAX, u64::MAX)),
        };
        let least = if needed.at_least { "at least " } else { "" };
        if let Some(free) = target.free_bytes.filter(|free| *free < needed.bytes) {
            let mut words = match source {
                Some(_) => format!(
                    "{least}{} would be copied there, and {} are free",
                    format_bytes(needed.bytes),
                    format_bytes(free)
                ),
                None => "no room is left there".to_owned(),
            };
            let may_share = together && target.may_share;
            let certain = !may_share && needed.bytes > free.saturating_add(left.0);
            if may_share {
                words.push_str("; there is room only if files can share their blocks with the source");
            } else if !certain {
                words.push_str("; there is room only if some of it is there already");
            }
            return Some(CopyObstacle { error: refused(ErrorKind::NoSpace, words), certain });
        }
        let free = target.free_inodes.filter(|free| *free < needed.entries)?;
        let mut words = format!(
            "{least}{} files and directories would be made there, and there is room for {}",
            format_count(needed.entries),
            format_count(free)
        );
        let certain = needed.entries > free.saturating_add(left.1);
        if is_left && !certain {
            words.push_str(" more");
        }
        Some(CopyObstacle { error: refused(ErrorKind::NoInodes, words), certain })
    }
}

/// Returns the obstacle of source entries that the user may not read.
fn denied(name: &[u8], source: &ReadFigures) -> Option<CopyObstacle> {
    let words = match source.denied {
        0 => return None,
        _ if source.tree.is_none() => "this user may not read it".to_owned(),
        count => format!(
            "this user may not read {} of what was opened there, which would be left out",
            format_count(count)
        ),
    };
    let error = Error::new(ErrorKind::PermissionDenied, "looking at the source", words).at(name);
    Some(CopyObstacle::certain(error))
}

/// The least space that a copy needs at the target.
struct NeededSpace {
    bytes: u64,
    entries: u64,
    /// True if the tree was not listed to its end.
    at_least: bool,
}

impl NeededSpace {
    /// Computes the need. Holes take no space. Without a source, one byte is needed.
    fn of(source: Option<&ReadFigures>) -> Self {
        let Some(source) = source else { return Self { bytes: 1, entries: 1, at_least: false } };
        match source.tree.as_ref().filter(|tree| tree.is_sound()) {
            Some(tree) => Self {
                bytes: tree.allocated_bytes.min(tree.bytes),
                entries: tree.entries().saturating_add(1),
                at_least: !tree.complete,
            },
            None => {
                Self { bytes: source.allocated_bytes.min(source.size_bytes), entries: 1, at_least: false }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hakobu_core::probe::TreeFigures;

    use super::*;

    fn tree(bytes: u64, files: u64) -> TreeFigures {
        TreeFigures { bytes, allocated_bytes: bytes, files, complete: true, ..TreeFigures::default() }
    }

    /// Returns the kind, the certainty and the text.
    fn judged(
        place: &CopyTarget,
        source: &ReadFigures,
        target: &WriteFigures,
    ) -> Option<(ErrorKind, bool, String)> {
        let found = place.judge((b"/s", b"/t"), Some(source), Some(target), true)?;
        Some((found.error.kind, found.certain, found.error.detail.to_string()))
    }

    #[test]
    fn room_is_wanted_for_what_is_no_hole_and_not_there() {
        let free = |bytes| WriteFigures { free_bytes: Some(bytes), ..WriteFigures::default() };
        let (absent, present) = (CopyTarget::default(), CopyTarget { exists: true, ..CopyTarget::default() });
        let file = ReadFigures { size_bytes: 1000, allocated_bytes: 900, ..ReadFigures::default() };
        assert_eq!(judged(&absent, &file, &free(900)), None);
        let (kind, certain, words) = judged(&absent, &file, &free(899)).unwrap();
        assert_eq!((kind, certain), (ErrorKind::NoSpace, true));
        assert_eq!(words, "900 B would be copied there, and 899 B are free");
        let sharing = WriteFigures { may_share: true, ..free(10) };
        let (_, certain, words) = judged(&absent, &file, &sharing).unwrap();
        assert!(!certain && words.contains("share their blocks"), "{words}");
        let source = ReadFigures { tree: Some(tree(1000, 10)), ..ReadFigures::default() };
        for (there, certain) in [(900, false), (800, true)] {
            let target = WriteFigures { tree: Some(tree(there, 1)), ..free(150) };
            assert_eq!(judged(&present, &source, &target).unwrap().1, certain);
            assert!(judged(&absent, &source, &target).unwrap().1);
        }
        let cut = WriteFigures { tree: Some(TreeFigures { complete: false, ..tree(1, 1) }), ..free(1) };
        assert!(!judged(&present, &source, &cut).unwrap().1);
        let inodes = WriteFigures { free_inodes: Some(10), ..free(1000) };
        assert_eq!(judged(&absent, &source, &inodes).unwrap().0, ErrorKind::NoInodes);
        assert_eq!(judged(&absent, &source, &WriteFigures { free_inodes: Some(11), ..inodes }), None);
    }

    #[test]
    fn what_may_not_be_read_is_in_the_way() {
        let target = WriteFigures { free_bytes: Some(1 << 40), ..WriteFigures::default() };
        let source = ReadFigures { denied: 1, ..ReadFigures::default() };
        let (kind, certain, words) = judged(&CopyTarget::default(), &source, &target).unwrap();
        assert_eq!(
            (kind, certain, &*words),
            (ErrorKind::PermissionDenied, true, "this user may not read it")
        );
        let source = ReadFigures { denied: 3, tree: Some(tree(1000, 10)), ..source };
        let (.., words) = judged(&CopyTarget::default(), &source, &target).unwrap();
        assert!(words.contains("3 of what was opened there"), "{words}");
        let nowhere = WriteFigures { how: WriteHow::Nowhere, ..target };
        assert!(judged(&CopyTarget::default(), &source, &nowhere).is_some());
    }

    #[test]
    fn what_a_peer_says_makes_no_sum_overflow() {
        let odd = tree(u64::MAX, u64::MAX);
        let source = ReadFigures { tree: Some(odd), size_bytes: u64::MAX, ..ReadFigures::default() };
        let target = WriteFigures {
            free_bytes: Some(u64::MAX - 1),
            free_inodes: Some(0),
            tree: Some(odd),
            ..WriteFigures::default()
        };
        let place = CopyTarget { exists: true, ..CopyTarget::default() };
        assert!(place.judge((b"", b""), Some(&source), Some(&target), true).is_some());
        assert!(place.judge((b"", b""), None, Some(&WriteFigures::default()), false).is_none());
        assert!(place.judge((b"", b""), None, None, false).is_none());
    }
}
