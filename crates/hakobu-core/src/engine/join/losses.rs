//! Determines the metadata that an entry loses, and whether it may still be copied or kept.

use super::*;

/// Returns the error for an entry that could not be read completely when its directory was listed.
pub(super) fn unreadable() -> Error {
    let words = "it, or its extended attributes, could not be read when its directory was listed; look at it with stat and \
                 getfattr, and run it again";
    Error::new(ErrorKind::Io, "looking at the entry", words)
}

/// Returns the error for an entry that would lose metadata named by `--require`.
fn unmet(kind: LossKind) -> Error {
    let words =
        format!("--require {} cannot be met: the target cannot hold it, or may not set it", kind.name());
    Error::new(ErrorKind::Requirement, "copying", words)
}

impl EngineState<'_> {
    /// Returns the attributes of an entry that the target cannot hold. `there`: the target's entry, if it is kept.
    pub(in crate::engine) fn attribute_losses(
        &self,
        source: &EntryMetadata,
        there: Option<&EntryMetadata>,
    ) -> Vec<LossKind> {
        let mut lost = Vec::new();
        if source.kind == EntryKind::Directory && !self.able.directories {
            return lost;
        }
        if source.locked && there.is_none_or(|there| !there.locked) {
            lost.push(LossKind::Flags);
        }
        if !self.setup.target.capabilities().holds_time(source.mtime) {
            lost.push(LossKind::Times);
        }
        let owned = there.is_none_or(|there| source.uid == there.uid && source.gid == there.gid);
        let able = self.setup.target.capabilities();
        if !owned && !able.owners {
            lost.push(LossKind::Owner);
        }
        let lacks = |there: &EntryMetadata| {
            source.kind != EntryKind::Symlink && source.mode & SET_ID & !there.mode != 0
        };
        if !(able.set_id && (owned || able.owners)) && there.is_some_and(lacks) {
            lost.push(LossKind::SetId);
        }
        lost
    }

    /// Returns the attributes that cannot be compared because the target cannot hold the source's.
    pub(in crate::engine) fn incomparable(
        &self,
        source: &EntryMetadata,
        target: &EntryMetadata,
    ) -> Vec<LossKind> {
        let able = self.setup.target.capabilities();
        // Fractions of seconds are compared in the steps of both sides.
        let times = able.within_range(source.mtime).seconds != source.mtime.seconds;
        let lacks_set_id = source.kind != EntryKind::Symlink && source.mode & SET_ID & !target.mode != 0;
        let set_id = lacks_set_id && !able.set_id;
        [(times, LossKind::Times), (set_id, LossKind::SetId)]
            .into_iter()
            .filter_map(|(lost, what)| lost.then_some(what))
            .collect()
    }

    /// Counts the losses of a directory that the user named, which is in no listing.
    ///
    /// # Errors
    /// `Requirement` if it would lose metadata that must be kept.
    pub(in crate::engine) fn check_top(
        &self,
        paths: (&EntryPath, &EntryPath),
        source: &EntryMetadata,
        there: Option<&EntryMetadata>,
    ) -> Result<()> {
        let job = self.setup.job;
        let there = there.filter(|there| there.kind == EntryKind::Directory);
        let mut losses = Losses::default();
        for what in self.attribute_losses(source, there) {
            if !what.is_of_target() && job.require.contains(&what) {
                return Err(unmet(what));
            }
            // If its attributes differ they are set, and that operation reports the losses.
            if job.dry_run || what.is_only_listed() {
                let at_target = what.is_of_target();
                let example = if at_target { paths.1 } else { paths.0 };
                losses.add(what, at_target, || example.as_bytes().to_vec());
            }
        }
        self.record.losses(losses.finish());
        Ok(())
    }
}

impl LossKind {
    /// Returns true for losses that only the listing shows.
    fn is_only_listed(self) -> bool {
        matches!(self, Self::Flags | Self::Times | Self::HardLinks | Self::Holes)
    }
}

impl Join<'_> {
    /// Counts the losses of an entry that are not counted elsewhere; those of copied content are counted when it is
    /// read. Fails if the entry cannot be copied or must not be.
    pub(super) fn check_losses(
        &mut self,
        name: &[u8],
        source: &EntryMetadata,
        action: Action,
        target: Option<&EntryMetadata>,
    ) -> Result<()> {
        let stays = matches!(action, Action::Leave | Action::SetAttributes);
        let lost = match self.removes() {
            true => Vec::new(),
            false => self.known_losses(source, target.filter(|_| stays)),
        };
        if let Some(error) = self.refusal(source, action, target, &lost) {
            return Err(error);
        }
        let only_planned =
            self.shared.setup.job.dry_run && matches!(action, Action::Create | Action::Replace);
        // Examining costs one operation per entry. Unchanged entries need it only if required or flagged, and so do all
        // entries of an object store, where it would cost a request.
        let tells = self.shared.source_refuses() || source.missed || self.shared.must_examine();
        if only_planned && tells || (stays && self.shared.must_examine()) {
            self.examine(name, source.kind, self.shared.ask.miss).map_err(at_source)?;
        } else if stays {
            self.count_missed(name, source).map_err(at_source)?;
        } else if (self.is_large(source) || !self.shared.source_refuses())
            && !self.shared.required().is_empty()
        {
            // Checked before the whole file is read. Losses that are allowed are counted at the end.
            self.examine(name, source.kind, self.shared.required()).map_err(at_source)?;
        }
        // Writing an entry or setting its attributes reports the losses, except those that only the listing shows.
        let is_written = !only_planned && (!stays || self.sets(action));
        let lost: Vec<_> = lost.into_iter().filter(|what| !is_written || what.is_only_listed()).collect();
        // Whoever found the entries of a slice has counted them.
        if !lost.is_empty() && !self.node.is_slice() {
            let (below, above) = (self.below, &self.node.target);
            let target_name = self.target_name.unwrap_or(name);
            for what in lost {
                let of_target = what.is_of_target();
                self.losses.add(what, of_target, || {
                    let example = if of_target { above.join(target_name) } else { below.join(name) };
                    example.unwrap_or_default().as_bytes().to_vec()
                });
            }
        }
        Ok(())
    }

    /// Returns true if the attributes of an entry are set now.
    fn sets(&self, action: Action) -> bool {
        action == Action::SetAttributes && !self.shared.setup.job.dry_run
    }

    /// Fails with the cause if the extended attributes of an entry could not be read when it was listed. A directory is
    /// still scanned, and fails when its own attributes are to be set.
    pub(super) fn check_readable(&mut self, name: &[u8], source: &EntryMetadata) -> Result<()> {
        let is_directory = source.kind == EntryKind::Directory && source.is_described();
        let is_later = is_directory && !self.shared.ask.keep.is_empty() && !self.verifies();
        if !source.is_unreadable() || is_later || self.removes() {
            return Ok(());
        }
        let path = self.below.join(name)?;
        // Examining the entry alone returns the cause.
        (self.examine)(self.root, &path, ExtendedAsk { readable: false, ..self.shared.ask })?;
        Err(unreadable())
    }

    /// Fails in a removing run for a directory of the target with unknown attributes: a removal changes its time, which
    /// could not be restored.
    pub(super) fn check_described(&self, target: Option<&EntryMetadata>) -> Result<()> {
        if !self.removes() || target.is_none_or(EntryMetadata::is_described) {
            return Ok(());
        }
        let words = "its attributes could not be read, so nothing in it was deleted; look at it with stat, and run the same \
                     command again";
        Err(Error::new(ErrorKind::Io, "looking at the entry", words))
    }

    /// Returns the error if this entry cannot be copied.
    fn refusal(
        &self,
        source: &EntryMetadata,
        action: Action,
        target: Option<&EntryMetadata>,
        lost: &[LossKind],
    ) -> Option<Error> {
        match action {
            Action::Conflict => {
                let there = target.map_or("something else", |target| target.kind.words());
                let words = format!(
                    "the target has {there} where the source has {}; remove or rename one of them",
                    source.kind.words()
                );
                Some(Error::new(ErrorKind::Conflict, "copying", words))
            }
            _ if self.target_name.is_some() && source.is_special() && !self.is_large(source) => {
                let words = format!(
                    "{} that is named stands for its content, which has no end of its own; `hakobu copy - TARGET` copies \
                     what a program reads from it",
                    source.kind.words()
                );
                Some(Error::new(ErrorKind::Unsupported, "copying", words))
            }
            Action::Create | Action::Replace | Action::SetAttributes | Action::Leave => {
                let require = &self.shared.setup.job.require;
                // Only the target knows whether an owner can be kept, and reports it at the end.
                let kind = lost.iter().find(|kind| !kind.is_of_target() && require.contains(kind))?;
                Some(unmet(*kind))
            }
            Action::Skip | Action::Examine | Action::MakeWay => None,
        }
    }

    /// Returns the losses that the listings show. `there`: the target's entry if kept; hard links it has are not lost.
    fn known_losses(&self, source: &EntryMetadata, there: Option<&EntryMetadata>) -> Vec<LossKind> {
        let setup = self.shared.setup;
        let mut lost = Vec::new();
        // A named entry becomes a file of its own, and so does one whose inode is not known.
        let apart =
            self.target_name.is_some() || source.inode.is_none() || !setup.target.capabilities().hard_links;
        if source.kind == EntryKind::File
            && setup.job.hard_links
            && apart
            && !self.shared.is_only_name(self.target_name.is_some())
            && source.links > 1
            && there.is_none_or(|there| there.links <= 1)
        {
            lost.push(LossKind::HardLinks);
        }
        if source.kind == EntryKind::File && source.sparse && setup.target.capabilities().fills_holes {
            lost.push(LossKind::Holes);
        }
        lost.extend(self.shared.attribute_losses(source, there));
        lost
    }

    /// Counts the extended attributes of an existing entry that the target cannot hold.
    pub(super) fn count_missed(&mut self, name: &[u8], source: &EntryMetadata) -> Result<()> {
        // A named file is in no listing that would show them.
        let is_named = self.target_name.is_some() && source.kind == EntryKind::File;
        let miss = self.shared.ask.miss;
        if miss.is_empty() || !(source.missed || is_named) {
            return Ok(());
        }
        let path = self.below.join(name)?;
        (self.examine)(self.root, &path, self.shared.ask_losses()).map(drop)
    }

    /// Examines the extended attributes of a file, which are not in the listings.
    fn examine(&mut self, name: &[u8], kind: EntryKind, miss: Classes) -> Result<()> {
        if kind != EntryKind::File {
            return Ok(());
        }
        let path = self.below.join(name)?;
        let readable = self.shared.setup.job.dry_run;
        (self.examine)(self.root, &path, ExtendedAsk { keep: Classes::NONE, miss, readable }).map(drop)
    }
}
