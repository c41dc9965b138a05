//! Completes the paths in errors with the host and the root of the target. The process that reports an error knows
//! neither; the controller knows both.

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::event::{EntryChange, Event, Failure, Observer};
use hakobu_core::path::EntryPath;

use crate::host::Host;
use hakobu_agent::stream;

/// Passes events on, with full paths at the target.
pub struct AtTarget<'a> {
    /// Receives the events.
    pub observer: &'a dyn Observer,
    /// The target's root, with its host.
    pub root: Vec<u8>,
    /// The target below that root, if it is a directory that did not exist before.
    pub new_target: Option<EntryPath>,
}

impl Observer for AtTarget<'_> {
    fn event(&self, mut event: Event) {
        match &mut event {
            Event::Failure(failure) => name_failure(failure, &self.root),
            Event::Planned { path, .. } | Event::Changed(EntryChange { path, .. }) => self.name_entry(path),
            _ => {}
        }
        self.observer.event(event);
    }
}

impl AtTarget<'_> {
    /// Names an entry from the directory that the user named as the target, whether it existed before or not.
    fn name_entry(&self, path: &mut Vec<u8>) {
        if self.root == stream::OUTPUT_NAME {
            return stream::OUTPUT_NAME.clone_into(path);
        }
        let Some(target) = self.new_target.as_ref().map(EntryPath::as_bytes) else { return };
        match path.strip_prefix(target) {
            Some([]) => path.clear(),
            Some([b'/', ..]) => drop(path.drain(..=target.len())),
            _ => {}
        }
    }
}

/// Completes the path of a failure at the target. `root`: the target's root with its host.
pub fn name_failure(failure: &mut Failure, root: &[u8]) {
    if !failure.error.at.is_empty() {
        failure.error.at = below(root, &failure.error.at);
    }
}

/// Completes the path of an error that ended a run. An absolute path is one on `engine`'s host.
pub fn name_fatal(error: &mut Error, engine: &dyn Host, root: &[u8]) {
    use ErrorKind::{NoInodes, NoSpace, PermissionDenied, ReadOnly};
    if error.at.starts_with(b"/") {
        error.at = engine.name_of(&error.at);
    } else if !error.at.is_empty()
        // These errors occur in writing, and only the target is written to.
        && matches!(error.kind, NoInodes | NoSpace | PermissionDenied | ReadOnly)
    {
        error.at = below(root, &error.at);
    }
}

/// Adds the host to the path of an error of `host`, if it is the path `asked` for or below it.
pub fn on(host: &dyn Host, asked: &[u8], mut error: Error) -> Error {
    let below = asked.starts_with(b"/") && error.at.starts_with(asked);
    if error.at == asked || below {
        error.at = host.name_of(&error.at);
    }
    error
}

fn below(root: &[u8], path: &[u8]) -> Vec<u8> {
    match path {
        _ if root == stream::OUTPUT_NAME => root.to_vec(),
        b"." => root.to_vec(),
        // A store names its objects in full. No path of an entry has an empty name in it.
        _ if path.windows(3).any(|some| some == b"://") => path.to_vec(),
        _ if root.ends_with(b"/") => [root, path].concat(),
        _ => [root, b"/", path].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hakobu_agent::local_host::LocalHost;
    use hakobu_net::stop::StopHandle;

    #[test]
    fn places_at_the_target_are_named_in_full() {
        for (root, at, full) in [
            (&b"h:/b"[..], &b"d/x"[..], &b"h:/b/d/x"[..]),
            (b"h:/b", b".", b"h:/b"),
            (b"/", b"x", b"/x"),
            (b"s3://bucket", b"s3://bucket/d/x", b"s3://bucket/d/x"),
            (b"s3://bucket", b"d:/x", b"s3://bucket/d:/x"),
            (b"/b", b"", b""),
        ] {
            let error = Error::new(ErrorKind::Io, "writing", "").at(at);
            let mut failure = Failure { path: b"x".to_vec(), error };
            name_failure(&mut failure, root);
            assert_eq!(failure.error.at, full);
        }
    }

    #[test]
    fn entries_are_named_from_the_target_even_if_it_is_new() {
        let named = |root: &[u8], new_target: Option<&str>, path: &str| {
            let new_target = new_target.map(|path| EntryPath::new(path).unwrap());
            let at = AtTarget { observer: &hakobu_core::event::NoObserver, root: root.to_vec(), new_target };
            let mut path = path.as_bytes().to_vec();
            at.name_entry(&mut path);
            String::from_utf8(path).unwrap()
        };
        assert_eq!(named(b"/b", None, "t/x"), "t/x");
        for (path, expected) in [("t", ""), ("t/x/y", "x/y"), ("tx", "tx"), ("", "")] {
            assert_eq!(named(b"/b", Some("t"), path), expected);
        }
        assert_eq!(named(stream::OUTPUT_NAME, None, "x").as_bytes(), stream::OUTPUT_NAME);
    }

    #[test]
    fn an_error_that_ended_a_run_names_its_place_where_it_is_known() {
        let fatal = |kind, at: &str| {
            let mut error = Error::new(kind, "writing", "").at(at);
            name_fatal(&mut error, &LocalHost::new(StopHandle::default()), b"h:/b");
            error.at
        };
        assert_eq!(fatal(ErrorKind::NoSpace, "x"), b"h:/b/x");
        assert_eq!(fatal(ErrorKind::PermissionDenied, "/s"), b"/s");
        assert_eq!(fatal(ErrorKind::ConnectionLost, "h"), b"h");
        assert_eq!(fatal(ErrorKind::NoSpace, ""), b"");
    }
}
