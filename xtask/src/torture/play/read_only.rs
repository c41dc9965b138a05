//! Checks the results of verifications and digests.

use std::collections::{BTreeMap, BTreeSet};

use super::super::check::{self, Proof, Violation};
use super::super::command::{self, CommandResult};
use super::super::model::Name;
use super::super::promise;
use super::super::step::{Shape, Step};
use super::super::walk::{self, SeenEntry, Snapshot};
use super::{PlayState, code_as_promised};

impl PlayState<'_> {
    pub(super) fn verified(
        &self,
        step: &Step,
        source: &Snapshot,
        target: &Snapshot,
        ran: &CommandResult,
    ) -> Vec<Violation> {
        let mut differs = check::differences(step, source, target, &self.able);
        let one = matches!(step.shape, Shape::OneFile(_));
        if target.is_empty() {
            // Without a target there is nothing to compare with.
            return code_as_promised(ran, &[1, 4].into());
        }
        // An entry that does not fit is counted as not compared or as different. Which of the two is not promised.
        let is_vague = |(path, entry): &(&Name, &SeenEntry)| !self.able.takes(path, entry);
        let vague: BTreeSet<&Name> = source.iter().filter(is_vague).map(|(path, _)| path).collect();
        let large: BTreeSet<&Name> =
            source.iter().filter(|(_, entry)| !self.able.fits(entry)).map(|(path, _)| path).collect();
        let is_unheld = |entry: &SeenEntry| entry.xattrs.keys().any(|name| !self.able.has_attribute(name));
        // Which names are reported as one file differs from what the oracle sees.
        let lies = self.able.inode_numbers < u64::MAX || self.able.remembers_names;
        let hidden = |path: &Name| promise::path_and_above(path).any(|above| vague.contains(&above));
        // This also concerns names of one file with such an entry.
        let is_kin = |path: &Name| {
            let inode = source.get(path).map(|entry| entry.inode);
            source.iter().any(|(other, entry)| Some(entry.inode) == inode && hidden(other))
        };
        // A name that should be a hard link and is not is reported. But only creating one shows that a file system
        // behind FUSE has no hard links, which a verification does not do.
        let untried =
            !self.able.hard_links && source.values().any(|entry| entry.is_file() && entry.links > 1);
        // Where inodes are doubtful, names of one file at the target that are several files at the source may be reported.
        let is_joined = |path: &Name| {
            let (Some(there), Some(entry)) = (target.get(path), source.get(path)) else { return false };
            let others = target.iter().filter(|(_, other)| there.links > 1 && other.inode == there.inode);
            let mut sources = others.filter_map(|(other, _)| source.get(other));
            !self.able.tells_all_names() && sources.any(|other| other.inode != entry.inode)
        };
        // Programs behind FUSE may report wrong fractions before 1970, so these times are compared in whole seconds.
        let is_early = |path: &Name| {
            let of = |side: &Snapshot| side.get(path).map_or(0, |entry| entry.mtime.s);
            self.able.seen_early_step_ns > 1 && of(source) < 0 && of(source).abs_diff(of(target)) < 2
        };
        // An entry without metadata in a store is compared with what new files get.
        let is_bare = |path: &Name| {
            let of = |side: &Snapshot| side.get(path).and_then(|entry| entry.stored);
            [of(source), of(target)].into_iter().flatten().any(|stored| stored.is_bare)
        };
        let is_attribute = |word: &str| matches!(word, "xattr" | "mode" | "owner" | "time");
        let passes = |path: &Name, word: &str| {
            let attributes = is_attribute(word);
            let narrower = word == "mode" && source.get(path).is_some_and(is_unheld);
            // The resolution of times behind FUSE is found by trying, which a verification does not do. A few entries
            // do not show it.
            let is_fine = |entry: &&SeenEntry| !entry.mtime.ns.is_multiple_of(1_000_000);
            let untold = self.able.mtime_step_ns > 1 && target.values().filter(is_fine).count() < 2;
            let close = word == "time" && (self.able.seen_step_ns > 1 || untold || is_early(path));
            narrower
                || attributes && is_bare(path)
                || close
                || word == "links" && (untried || is_kin(path))
                || word == "links" && (lies || is_joined(path))
                || hidden(path)
                || large.contains(path) && matches!(word, "xattr" | "mode")
                || self.able.loose && attributes
        };
        for (path, what) in &mut differs {
            what.retain(|word| !passes(path, word));
        }
        differs.retain(|_, what| !what.is_empty());
        let mut reported: BTreeMap<Name, BTreeSet<String>> = BTreeMap::new();
        let (mut says_links, mut says_attributes) = (false, false);
        let is_in_store = self.able.keys.iter().any(Option::is_some);
        for difference in ran.report["differences"].as_array().into_iter().flatten() {
            let mut path = command::path_in(difference);
            if step.shape == Shape::Directory {
                // Report paths below the target, in which the directory has its own name.
                path = Name(
                    path.0
                        .strip_prefix(b"source/")
                        .or(path.0.strip_prefix(b"source"))
                        .unwrap_or(&path.0)
                        .to_vec(),
                );
            }
            if one {
                path = Name::default();
            }
            let what = difference["what"].as_str().unwrap_or_default().to_owned();
            says_links |= what == "links";
            says_attributes |= is_attribute(&what) && is_bare(&path);
            // Another name may be the one of which it is expected.
            if !passes(&path, &what) || what == "links" {
                reported.entry(path).or_default().insert(what);
            }
        }
        let missing = step.files_from.iter().flatten().any(|path| !source.contains_key(path));
        // Times that the target cannot hold are not compared either.
        let late = source.values().any(|entry| self.able.time(entry.mtime) != entry.mtime);
        // Differences of times were ignored above if one side has a coarse resolution.
        let coarse = self.able.seen_step_ns > 1 || self.able.mtime_step_ns > 1 && source.len() == 1;
        let coarse = coarse || source.keys().any(is_early);
        let unheld = late || coarse || source.values().any(is_unheld);
        let codes: BTreeSet<i32> = match (differs.is_empty(), missing) {
            (true, _) if !large.is_empty() || !vague.is_empty() || self.able.loose || untried => {
                [0, 3, 4].into()
            }
            // Attributes that the target cannot hold are not compared, and are reported as such.
            (true, _) if unheld => [0, 3, 4].into(),
            (true, _) if says_links && (lies || is_in_store || target.keys().any(is_joined)) => [4].into(),
            // Another program may have written the same content, of which an empty object has only one.
            (true, _) if says_attributes => [4].into(),
            (true, false) => [0].into(),
            (true, true) => [3].into(),
            (false, _) => [4].into(),
        };
        let mut wrong = code_as_promised(ran, &codes);
        // Which objects of a store are one file by mistake is known only if all of them were looked at.
        let may_say_links = |path: &Name| is_in_store || passes(path, "links");
        wrong.extend(check::verification(&differs, &reported, (source, target), &may_say_links));
        wrong
    }

    /// Checks that the digest of a single file is that of `sha256sum`, and that every file of a tree has a line.
    pub(super) fn digests(
        &self,
        step: &Step,
        source: &Snapshot,
        ran: &CommandResult,
    ) -> anyhow::Result<Vec<Violation>> {
        if self.history.setting.spoils_reading() {
            return Ok(Vec::new());
        }
        let lines: Vec<&[u8]> =
            ran.output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        let Shape::OneFile(path) = &step.shape else {
            let files = source.values().filter(|entry| entry.is_file()).count();
            let words = format!("{} lines for {files} files", lines.len());
            return Ok(if lines.len() == files {
                Vec::new()
            } else {
                vec![Violation::of_run("digest", words, Proof::Words)]
            });
        };
        if source.values().any(|entry| entry.size() > walk::READ_WHOLE_MAX) {
            return Ok(Vec::new());
        }
        let content = match self.objects(true) {
            Some(objects) => objects.content(path)?,
            None => std::fs::read(path.below(&self.directories.seen_source()))?,
        };
        let digest = walk::plain_digest(&content);
        let found: String =
            lines.first().map(|line| String::from_utf8_lossy(line).into_owned()).unwrap_or_default();
        let words = format!("it printed {found}, and the digest is {digest}");
        let right = found.trim_start_matches('\\').starts_with(&digest);
        Ok(if right { Vec::new() } else { vec![Violation::at("digest", path, words, Proof::Words)] })
    }
}
