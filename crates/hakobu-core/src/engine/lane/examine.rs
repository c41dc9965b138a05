//! Asks for the attributes of entries that the listings do not show, and compares them then.
//!
//! The source is asked at once, with many requests in flight. The target is asked while the lane goes on with other
//! work. A lane begins no other task while as many operations are in flight as it may have, so that the entries of few
//! pages wait.

use std::collections::BTreeMap;

use super::*;
use crate::filter::Filter;
use crate::pacer::LimitedQuantities;

/// The number of entries that a lane asks the source for at a time.
const SOURCE_AT_ONCE: usize = 128;

impl Worker<'_> {
    /// Asks for the attributes of unclear entries. Their directory and the scan are held until they are compared.
    pub(super) fn examine(
        &mut self,
        (node, parts): (&Arc<DirectoryNode>, &[OriginListing]),
        (target, prefetched): (Option<&Listing>, &Prefetched),
        unclear: &[UnclearEntry],
    ) -> Result<()> {
        self.enter(LaneStage::Scan);
        let exact = self.exact_parts(node, parts, unclear)?;
        self.leave(LaneStage::Scan);
        let beside = unclear.iter().filter_map(|entry| {
            let (there, listing) = (entry.beside?, &parts.get(entry.part)?.listing);
            target.map(|target| (entry, target.name(there), *target.metadata(there), listing))
        });
        let lacks = self.shared.evidence.target_lacks() && !target.is_some_and(Listing::is_exact);
        let (mut entries, mut known) = (Vec::new(), Listing::default());
        for (entry, name, metadata, listing) in beside {
            if lacks {
                let path = node.target.join(name)?;
                let source = (entry.part, listing.name(entry.index).to_vec());
                entries.push(ExaminedEntry { name: name.to_vec(), path, source, found: Ok(None) });
            } else {
                known.push(name, metadata)?;
            }
        }
        if entries.is_empty() {
            return self.compare_examined(node, &exact, (known, prefetched));
        }
        let examinations = &mut self.examinations;
        examinations.last += 1;
        let number = examinations.last;
        let (node, prefetched) = (node.clone(), prefetched.clone());
        let examination =
            Examination { node, parts: exact, prefetched, target: entries, asked: 0, answered: 0 };
        examinations.by_number.insert(number, examination);
        examinations.open.push_back(number);
        Ok(())
    }

    /// Returns the unclear entries of the parts with all attributes that the source has. Entries that are not what was
    /// listed fail and are left out. Directories of later parts that are merged into unclear ones are included.
    fn exact_parts(
        &mut self,
        node: &Arc<DirectoryNode>,
        parts: &[OriginListing],
        unclear: &[UnclearEntry],
    ) -> Result<Vec<OriginListing>> {
        let mut wanted: Vec<BTreeMap<usize, bool>> = vec![BTreeMap::new(); parts.len()];
        for entry in unclear {
            let Some((part, later)) = parts.get(entry.part..).and_then(<[_]>::split_first) else { continue };
            if let Some(wanted) = wanted.get_mut(entry.part) {
                wanted.insert(entry.index, true);
            }
            if part.listing.metadata(entry.index).kind != EntryKind::Directory {
                continue;
            }
            let only_of = |part: &OriginListing| node.origins.get(part.origin)?.only.as_ref();
            let name = part.listing.name(entry.index);
            let target_name = only_of(part).map_or(name, |only| &only.target_name);
            for (number, part) in later.iter().enumerate() {
                let name = match only_of(part) {
                    Some(only) if only.target_name == target_name => &only.name,
                    Some(_) => continue,
                    None => target_name,
                };
                let merged = part.listing.find(name, true);
                if let (Some(index), Some(wanted)) = (merged, wanted.get_mut(entry.part + 1 + number)) {
                    wanted.entry(index).or_insert(false);
                }
            }
        }
        let mut exact = Vec::with_capacity(parts.len());
        for (part, wanted) in parts.iter().zip(wanted) {
            let Some(origin) = node.origins.get(part.origin) else { return Err(unexpected()) };
            let listing = self.exact_listing(origin, &part.listing, &wanted)?;
            exact.push(OriginListing {
                below: part.below.clone(),
                ..OriginListing::whole(part.origin, listing)
            });
        }
        Ok(exact)
    }

    /// Returns entries of a listing, those marked true with all their attributes.
    fn exact_listing(
        &mut self,
        origin: &Origin,
        listing: &Listing,
        wanted: &BTreeMap<usize, bool>,
    ) -> Result<Listing> {
        let lacks = self.shared.evidence.source_lacks() && !listing.is_exact();
        let asked: Vec<usize> =
            wanted.iter().filter(|(_, asked)| lacks && **asked).map(|(index, _)| *index).collect();
        let mut found = self.stat_source(origin, listing, &asked)?.into_iter();
        let mut exact = Listing::with_capacity(wanted.len());
        for (index, asked) in wanted {
            let (name, listed) = (listing.name(*index), listing.metadata(*index));
            let metadata = match (lacks && *asked).then(|| found.next().ok_or_else(unexpected)).transpose()? {
                None => Ok(*listed),
                Some(found) => {
                    if listed.kind == EntryKind::Directory {
                        self.shared.record.look_at_directory(false);
                    }
                    self.still_there(listed, found)
                }
            };
            match metadata {
                Ok(metadata) => exact.push(name, metadata)?,
                Err(error) => {
                    let path = origin.path.join(name)?;
                    fail(self.shared, self.counters, failure(path, at_source(error)));
                }
            }
        }
        exact.mark_exact();
        if lacks {
            self.by_name(&mut exact)?;
        }
        Ok(exact)
    }

    /// Returns the metadata of an entry that was asked for, if it may be the one that was listed.
    pub(super) fn still_there(
        &self,
        listed: &EntryMetadata,
        found: Result<Option<EntryMetadata>>,
    ) -> Result<EntryMetadata> {
        let changed = |kind, words| Error::new(kind, "looking at the entry", words);
        match found? {
            Some(now) if self.shared.setup.source.capabilities().listed.may_be(listed.kind, now.kind) => {
                Ok(now)
            }
            Some(_) => Err(changed(ErrorKind::SourceChanged, "it became another kind of entry")),
            None => Err(changed(ErrorKind::SourceVanished, "it was removed after it had been listed")),
        }
    }

    /// Asks the source for entries of a listing, with many requests in flight.
    pub(super) fn stat_source(
        &mut self,
        origin: &Origin,
        listing: &Listing,
        indices: &[usize],
    ) -> Result<Vec<Result<Option<EntryMetadata>>>> {
        let entries: Result<Vec<_>> =
            indices.iter().map(|index| Ok((origin.root, origin.path.join(listing.name(*index))?))).collect();
        self.stat_all(&entries?)
    }

    /// Asks the source for entries by root and path, with many requests in flight.
    pub(super) fn stat_all(
        &mut self,
        entries: &[(u16, EntryPath)],
    ) -> Result<Vec<Result<Option<EntryMetadata>>>> {
        let (mut found, mut begun, detail) = (Vec::with_capacity(entries.len()), 0, self.detail());
        while found.len() < entries.len() {
            let next = entries.get(begun).filter(|_| self.source.begun() < SOURCE_AT_ONCE);
            if let Some((root, path)) = next {
                begun += 1;
                self.owe(LimitedQuantities::Source, 1);
                self.counters.source_requests.add(1);
                self.source.begin(SourceOp::Stat { root: *root, path: path.clone(), detail })?;
                continue;
            }
            match self.source.take_begun() {
                Ok(SourceOutcome::Stat(there)) => found.push(Ok(there)),
                Ok(_) => return Err(unexpected()),
                Err(error) if error.is_fatal() => return Err(error),
                Err(error) => found.push(Err(error)),
            }
        }
        Ok(found)
    }

    /// Asks the source for the files of a listing if rules exclude files by attributes that the listing does not show.
    pub(super) fn examine_limited(&mut self, origin: &Origin, listing: &mut Listing) -> Result<()> {
        let is_limited = self.shared.filter.as_ref().is_some_and(Filter::has_limits);
        let listed = self.shared.setup.source.capabilities().listed;
        if !is_limited || listed.times && listed.kinds || listing.is_exact() {
            return Ok(());
        }
        let files: Vec<usize> =
            (0..listing.len()).filter(|index| listing.metadata(*index).kind == EntryKind::File).collect();
        let found = self.stat_source(origin, listing, &files)?;
        self.counters.entries_examined.add(files.len() as u64);
        let mut gone = Vec::new();
        for (index, found) in files.into_iter().zip(found) {
            let listed = *listing.metadata(index);
            match (self.still_there(&listed, found), listing.metadata_mut(index)) {
                (Ok(now), Some(metadata)) => *metadata = now,
                (Ok(_), None) => return Err(unexpected()),
                (Err(error), _) => {
                    gone.push(index);
                    let path = origin.path.join(listing.name(index))?;
                    fail(self.shared, self.counters, failure(path, at_source(error)));
                }
            }
        }
        listing.remove(&gone);
        Ok(())
    }

    /// Asks the target for as many entries as may be in flight.
    pub(super) fn examine_more(&mut self) -> Result<()> {
        let detail = Detail { missed: Classes::NONE, ..self.detail() };
        while self.under_way.len() < UNDER_WAY_MAX {
            let Some(examination) = self.examinations.open.front().copied() else { return Ok(()) };
            let next = self.examinations.by_number.get_mut(&examination).and_then(|it| {
                let path = it.target.get(it.asked)?.path.clone();
                it.asked += 1;
                Some((it.asked - 1, path))
            });
            let Some((number, path)) = next else {
                self.examinations.open.pop_front();
                continue;
            };
            self.submit(TargetOp::Stat { path, detail }, PendingPurpose::Examined { examination, number })?;
        }
        Ok(())
    }

    /// Records an entry of the target. The entries are compared once all are known.
    pub(super) fn examined(
        &mut self,
        number: u64,
        entry: usize,
        found: Result<Option<EntryMetadata>>,
    ) -> Result<()> {
        if found.as_ref().is_ok_and(|found| found.is_some_and(|it| it.kind == EntryKind::Directory)) {
            self.shared.record.look_at_directory(true);
        }
        let examination = self.examinations.by_number.get_mut(&number).ok_or_else(unexpected)?;
        examination.target.get_mut(entry).ok_or_else(unexpected)?.found = found;
        examination.answered += 1;
        if examination.answered < examination.target.len() {
            return Ok(());
        }
        let Some(Examination { node, mut parts, prefetched, target, .. }) =
            self.examinations.by_number.remove(&number)
        else {
            return Err(unexpected());
        };
        let (mut listing, mut failed) = (Listing::with_capacity(target.len()), HashSet::new());
        for ExaminedEntry { name, path, source, found } in target {
            match found {
                Ok(Some(metadata)) => listing.push(&name, metadata)?,
                Ok(None) => {}
                Err(error) => {
                    let below = parts.get(source.0).and_then(|part| node.origins.get(part.origin));
                    let at = below.ok_or_else(unexpected)?.path.join(&source.1)?;
                    fail(self.shared, self.counters, failure(at, at_target(error, &path)));
                    failed.insert(source);
                }
            }
        }
        for (number, part) in parts.iter_mut().enumerate().filter(|_| !failed.is_empty()) {
            let mut sound = Listing::clone(&part.listing);
            let is_failed = |index: &usize| failed.contains(&(number, sound.name(*index).to_vec()));
            let failed: Vec<usize> = (0..sound.len()).filter(is_failed).collect();
            sound.remove(&failed);
            part.listing = Arc::new(sound);
        }
        self.compare_examined(&node, &parts, (listing, &prefetched))
    }

    /// Compares entries that were unclear, and ends their part of the scan.
    fn compare_examined(
        &mut self,
        node: &Arc<DirectoryNode>,
        parts: &[OriginListing],
        (mut target, prefetched): (Listing, &Prefetched),
    ) -> Result<()> {
        // They come in the order of the source, where an entry may have another kind and with it another place.
        target.sort();
        target.mark_exact();
        self.join_examined((node, parts), (Some(&target), prefetched), None, true)?;
        self.directories_done(1);
        Ok(())
    }
}
