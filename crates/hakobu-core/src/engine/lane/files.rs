//! Begins drafts of large files, and finishes or abandons them.

use super::chunks::PieceContent;
use super::*;
use crate::engine::large::FileSharing;
use crate::extent::{CHUNK_BYTES, JOURNALED_FROM_BYTES};

/// The maximum number of chunks of an earlier run that are read again as a check.
const SAMPLES_MAX: usize = 64;

/// Returns a digest of the version of a file. For a device, which has no time, it covers only the size. With `inodes`
/// it includes the inode and its change time. The change time cannot be set, so it reveals content that was rewritten
/// with the same modification time; the inode reveals a file that was replaced.
fn version(metadata: &EntryMetadata, inodes: bool) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key("hakobu source version 2");
    hasher.update(&[metadata.kind as u8]);
    hasher.update(&metadata.size_bytes.to_le_bytes());
    if metadata.kind == EntryKind::File {
        hasher.update(&metadata.mtime.seconds.to_le_bytes());
        hasher.update(&metadata.mtime.nanoseconds.to_le_bytes());
    }
    if metadata.kind == EntryKind::File && inodes {
        hasher.update(&metadata.ctime.seconds.to_le_bytes());
        hasher.update(&metadata.ctime.nanoseconds.to_le_bytes());
        if let Some(inode) = metadata.inode {
            hasher.update(&inode.file_system.to_le_bytes()).update(&inode.number.to_le_bytes());
        }
    }
    *hasher.finalize().as_bytes()
}

impl Worker<'_> {
    pub(super) fn begin_file(&mut self, file: Arc<LargeFile>) -> Result<()> {
        let job = self.shared.setup.job;
        let earlier = match (job.earlier, job.mode) {
            (_, _) if !file.named => Earlier::Continue,
            // The content of a disk during an earlier run says nothing about its content now. Comparing costs reading,
            // but existing content is not sent again. A failing disk is spared the reading: only samples of what could
            // be read are compared.
            (Earlier::Refuse, Mode::Delta)
                if file.is_of_disk() && file.kind.is_there() && !job.skip_unreadable =>
            {
                Earlier::Forget
            }
            // A source that has changed since has another version and is compared.
            (Earlier::Refuse, Mode::Delta) => Earlier::Continue,
            (earlier, _) => earlier,
        };
        self.begin_with(file, earlier)
    }

    fn begin_with(&mut self, file: Arc<LargeFile>, earlier: Earlier) -> Result<()> {
        if file.is_only_hashed() {
            return self.begun(file);
        }
        if let FileSharing::Range(open) = &file.sharing {
            let open = open.clone();
            return self.join_draft(file, &open);
        }
        let setup = self.shared.setup;
        let job = setup.job;
        let metadata = &file.source.metadata;
        let clone = self.may_clone(&file);
        let keeps = !matches!(file.kind, DraftKind::Sink | DraftKind::Stream);
        let journaled = keeps && !file.is_open_ended() && file.size_bytes() >= JOURNALED_FROM_BYTES;
        let begin = DraftParameters {
            path: file.target.clone(),
            size_bytes: file.size_bytes(),
            kind: file.kind,
            version: journaled.then(|| version(metadata, self.source_tells_inodes())),
            earlier,
            sparse: metadata.sparse || file.is_open_ended() || metadata.kind == EntryKind::BlockDevice,
            verify_medium: job.verify_medium,
            tag_key: self.tagger_of(&file).map(Tagger::key),
        };
        if !file.kind.is_there() {
            let [source, target] =
                [setup.source.run_bytes(begin.size_bytes), setup.target.run_bytes(begin.size_bytes)];
            file.set_run_bytes(if target > CHUNK_BYTES { target } else { source });
        }
        let extended = match self.begin_attributes(&file) {
            Ok(extended) => extended,
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => return self.fail_file(&file, at_source(error), 0),
        };
        let is_name = !file.named && metadata.links > 1 && self.keeps_links();
        let inode = metadata.inode.filter(|_| is_name);
        let attributes = DraftAttributes { attributes: metadata.attributes(), extended, inode };
        let begin = TargetOp::Begin { draft: file.draft, begin, attributes: Some(Box::new(attributes)) };
        if clone {
            return self.submit(begin, PendingPurpose::BegunToClone(file)).map(drop);
        }
        if file.chunks() > SINGLE_LANE_CHUNKS || file.kind.is_there() || job.verify_medium {
            return self.submit(begin, PendingPurpose::Begun(file)).map(drop);
        }
        self.submit(begin, PendingPurpose::BegunAlone(file.clone()))?;
        self.move_alone(file)
    }

    /// Returns the extended attributes of a file for a target that has to store them at the beginning.
    fn begin_attributes(&mut self, file: &LargeFile) -> Result<Option<Extended>> {
        let target = self.shared.setup.target;
        let is_later = file.is_open_ended() || file.size_bytes() <= target.run_bytes(file.size_bytes());
        let takes = file.kind.is_new_file() && file.source.metadata.kind == EntryKind::File && !is_later;
        if !takes || self.shared.ask.keep.is_empty() || !target.capabilities().attributes_first {
            return Ok(None);
        }
        let ask = ExtendedAsk { miss: Classes::NONE, ..self.shared.ask };
        let place = (file.source.root, &file.source.path);
        super::directories::examine(self.shared, &mut self.source, place, ask)
    }

    /// Continues with a draft that keeps no journal.
    pub(super) fn begun(&mut self, file: Arc<LargeFile>) -> Result<()> {
        if file.chunks() == 0 {
            return self.end_file(file, ChunkProgress::Finish);
        }
        self.shared.queue.activate(file);
        Ok(())
    }

    /// Continues with a draft that keeps a journal, which may have data of an earlier run.
    pub(super) fn begun_again(&mut self, file: Arc<LargeFile>, begun: EarlierWork) -> Result<()> {
        let samples = begun.samples.clone();
        let checked = if begun.done.is_empty() { Ok(()) } else { self.check_samples(&file, &samples) };
        if let Err(error) = checked {
            if error.is_fatal() {
                return Err(error);
            }
            let begins_anew = file.kind.is_new_file() || self.shared.setup.job.mode == Mode::Delta;
            if error.kind == ErrorKind::SourceChanged && begins_anew {
                self.tell_begun_anew(&file);
                let abandon = TargetOp::Abandon { draft: file.draft, keep: false };
                return self.submit(abandon, PendingPurpose::Unbegun(file)).map(drop);
            }
            // The data of the earlier run is kept until the user discards it.
            return self.give_up(&file, at_source(error), 0, false);
        }
        let done_bytes = begun.done.iter().fold(0u64, |sum, extent| sum.saturating_add(extent.length));
        let progress = file.begun(begun)?;
        if !file.is_resumed() {
            return self.begun(file);
        }
        self.counters.bytes_resumed.add(done_bytes);
        self.tell_sampled(&file, samples.len() as u64, done_bytes);
        match progress {
            ChunkProgress::More => self.begun(file),
            ended => self.end_file(file, ended),
        }
    }

    /// Returns true if the source reports inode change times.
    fn source_tells_inodes(&self) -> bool {
        self.shared.setup.source.capabilities().inodes
    }

    /// Returns true if only its content can show that the source is unchanged since an earlier run.
    fn is_told_by_content(&self, file: &LargeFile) -> bool {
        file.is_of_disk() || !self.source_tells_inodes()
    }

    /// Reports that the data of an earlier run is discarded, for a file that the user named.
    fn tell_begun_anew(&self, file: &LargeFile) {
        if !file.named {
            return;
        }
        let words = format!(
            "{}: the source has changed since the interrupted run; it is copied from the start",
            file.target
        );
        self.shared.setup.observer.event(Event::Notice { words });
    }

    /// Handles data that an earlier run left of another version. A file that is not visible yet is begun again. Data
    /// written in place is kept until the user discards it.
    pub(super) fn begin_anew_if_invisible(&mut self, file: Arc<LargeFile>, error: Error) -> Result<()> {
        if error.kind == ErrorKind::SourceChanged && file.kind.is_new_file() && !file.begins_anew() {
            self.tell_begun_anew(&file);
            return self.begin_anew(file);
        }
        self.fail_file(&file, at_target(error, &file.target), 0)
    }

    /// Reports how much of an earlier run's data was compared with a source that nothing else shows to be unchanged.
    fn tell_sampled(&self, file: &LargeFile, samples: u64, done_bytes: u64) {
        let chunks = done_bytes / CHUNK_BYTES;
        let compared = samples.min(SAMPLES_MAX as u64);
        if !self.is_told_by_content(file) || self.shared.setup.job.live || compared >= chunks {
            return;
        }
        let words = format!(
            "{}: resuming; {compared} of the {chunks} chunks of 4 MiB that are there were compared with the source; \
             if it may have changed meanwhile, run hakobu verify",
            file.target
        );
        self.shared.setup.observer.event(Event::Notice { words });
    }

    /// Begins a file again and discards the data of an earlier run, so that everything is compared.
    pub(super) fn begin_anew(&mut self, file: Arc<LargeFile>) -> Result<()> {
        self.begin_with(file, Earlier::Forget)
    }

    /// Reads samples of an earlier run's data again, if nothing else shows that the source is unchanged.
    fn check_samples(&mut self, file: &Arc<LargeFile>, samples: &[(Extent, Digest)]) -> Result<()> {
        // A source in use has changed in any case, and the copy mixes old and new data.
        if !self.is_told_by_content(file) || self.shared.setup.job.live {
            return Ok(());
        }
        if samples.is_empty() && !file.is_of_disk() {
            let words = "nothing shows that the source is unchanged since the interrupted run";
            let error = Error::new(ErrorKind::SourceChanged, "resuming an earlier run", words);
            return Err(error.at(&file.source.path));
        }
        for (extent, value) in samples.iter().take(SAMPLES_MAX) {
            if extent.length != CHUNK_BYTES
                || extent.offset.checked_add(CHUNK_BYTES).is_none_or(|end| end > file.size_bytes())
            {
                return Err(unexpected());
            }
            let mut values = Vec::with_capacity(PIECES_PER_CHUNK as usize);
            for piece in extent.pieces() {
                let Some(buffer) = self.sample(file, piece, ChunkCursor::only(*extent))? else { break };
                values.push(piece_value(file.size_bytes(), piece.offset, buffer.bytes()));
                self.recycle(buffer);
            }
            let unreadable = values.len() < extent.pieces().count();
            if !unreadable && chunk_value(&values) != Some(*value) {
                let words = "it has changed since the interrupted run; add --restart to start over";
                let error = Error::new(ErrorKind::SourceChanged, "resuming an earlier run", words);
                return Err(error.at(&file.source.path));
            }
        }
        Ok(())
    }

    /// Reads a piece that an earlier run has copied. Returns `None` if it cannot be read any more. That happens with
    /// failing disks and says nothing about the rest.
    fn sample(
        &mut self,
        file: &Arc<LargeFile>,
        piece: Extent,
        reading: ChunkCursor,
    ) -> Result<Option<PieceContent>> {
        let before = self.counters.source_read_bytes.get();
        let read = self.read_quietly(&file.source, piece, reading);
        self.counters.sampled_bytes.add(self.counters.source_read_bytes.get().saturating_sub(before));
        match read {
            Ok((content, _, unreadable)) if unreadable.is_empty() => Ok(Some(content)),
            Ok((content, ..)) => {
                self.recycle(content);
                Ok(None)
            }
            Err(error) if error.kind == ErrorKind::Io => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Transfers a file whose draft this lane has begun, without waiting for any answer.
    pub(super) fn move_alone(&mut self, file: Arc<LargeFile>) -> Result<()> {
        if file.chunks() == 0 {
            return self.end_file(file, ChunkProgress::Finish);
        }
        self.move_chunks(&file)
    }

    /// Fails a large file. `chunks` of those handed out are given up here.
    pub(super) fn fail_file(&mut self, file: &Arc<LargeFile>, error: Error, chunks: u64) -> Result<()> {
        let of_no_use = error.is_source_change();
        self.give_up(file, error, chunks, of_no_use)
    }

    /// Fails a large file. `of_no_use`: no later run can use the data written so far.
    fn give_up(&mut self, file: &Arc<LargeFile>, error: Error, chunks: u64, of_no_use: bool) -> Result<()> {
        let (first, given_up) = file.fail(of_no_use);
        match &file.sharing {
            _ if !first => {}
            FileSharing::Range(open) => self.tear(open, error),
            FileSharing::Alone => {
                fail(self.shared, self.counters, failure(&file.source.path, error));
                if !file.named {
                    self.first_name_failed(file.source.metadata.inode)?;
                }
            }
        }
        // A stream may have no operation in progress when it fails.
        if chunks + given_up == 0 && !file.is_open_ended() {
            return Ok(());
        }
        let progress = file.count_done(chunks + given_up);
        self.end_file(file.clone(), progress)
    }

    pub(super) fn end_file(&mut self, file: Arc<LargeFile>, progress: ChunkProgress) -> Result<()> {
        match progress {
            ChunkProgress::More => Ok(()),
            _ if file.is_only_hashed() => self.end_hashed(&file),
            ChunkProgress::Finish if file.is_finished_elsewhere() => self.share_draft(file),
            // Nothing was written that has to be finished, but the source may have changed or grown.
            ChunkProgress::Finish if file.kind == DraftKind::Compare => {
                let ask = ExtendedAsk::default();
                if let Err(error) = self.ask_source(SourceOp::Revalidate { file: file.source.clone(), ask }) {
                    self.fail_file(&file, at_source(error), 0)?;
                    return self.end_file(file, ChunkProgress::Abandon);
                }
                let abandon = TargetOp::Abandon { draft: file.draft, keep: false };
                self.submit(abandon, PendingPurpose::Finished(file)).map(drop)
            }
            ChunkProgress::Finish => {
                // Only regular files keep attributes, so elsewhere none are lost.
                let takes = (file.kind.is_new_file() || file.kind == DraftKind::InPlace)
                    && file.source.metadata.kind == EntryKind::File;
                let ask = if takes { self.shared.ask } else { ExtendedAsk::default() };
                let extended = match self.ask_source(SourceOp::Revalidate { file: file.source.clone(), ask })
                {
                    Err(error) => {
                        self.fail_file(&file, at_source(error), 0)?;
                        return self.end_file(file, ChunkProgress::Abandon);
                    }
                    Ok(SourceOutcome::Extended { extended, losses }) => {
                        self.shared.record.losses(losses);
                        extended
                    }
                    Ok(_) => return Err(unexpected()),
                };
                if file.is_open_ended() {
                    let length = TargetOp::SetLength { draft: file.draft, size_bytes: file.size_bytes() };
                    // The draft remembers an error of this operation.
                    self.submit(length, PendingPurpose::Ignored)?;
                }
                let finish = TargetOp::Finish {
                    draft: file.draft,
                    attributes: file.source.metadata.attributes(),
                    extended,
                    digest: file.digest(),
                };
                self.submit(finish, PendingPurpose::Finished(file)).map(drop)
            }
            ChunkProgress::Abandon => {
                // Of a draft that another run has begun, nothing is this run's to keep.
                let keep = !file.is_of_no_use() && file.sharing == FileSharing::Alone;
                self.submit(TargetOp::Abandon { draft: file.draft, keep }, PendingPurpose::Abandoned(file))
                    .map(drop)
            }
        }
    }

    /// Completes a file that failed. This happens only now, because removing the draft changed the directory's time.
    pub(super) fn abandoned(&mut self, file: &LargeFile) {
        self.shared.queue.draft_done();
        self.task_done(&file.node);
    }

    pub(super) fn finished(&mut self, file: &Arc<LargeFile>) -> Result<()> {
        if file.kind == DraftKind::Compare && !file.named {
            self.shared.queue.draft_done();
            return self.large_compared(file);
        }
        // A stream has only one version, and cannot be read again, however short it is. The times of a device do not tell
        // whether its content has changed.
        let may_change = file.kind.is_new_file()
            && !self.shared.setup.source.capabilities().stream
            && file.source.metadata.kind != EntryKind::BlockDevice;
        if may_change && self.shared.evidence.must_recheck() && !self.recheck_file(file)? {
            return Ok(());
        }
        let (counter, action) = match self.shared.setup.job.mode {
            Mode::Compare if file.has_changed() => (&self.counters.entries_different, None),
            Mode::Compare | Mode::Digest(_) => (&self.counters.entries_unchanged, None),
            Mode::Copy | Mode::Delta if !file.replaces => {
                (&self.counters.entries_created, Some(EntryAction::Create))
            }
            Mode::Delta if file.kind.is_there() && !file.has_changed() => {
                match file.named && !file.sets_attributes {
                    true => (&self.counters.entries_unchanged, None),
                    // In a tree, its size or time was different.
                    false => (&self.counters.entries_attributes_only, Some(EntryAction::Attributes)),
                }
            }
            Mode::Copy | Mode::Delta => (&self.counters.entries_updated, Some(EntryAction::Update)),
        };
        counter.add(1);
        if let Some(action) = action {
            let size_bytes = if action == EntryAction::Attributes { 0 } else { file.size_bytes() };
            self.shared.changed(action, &file.target, size_bytes);
        }
        // A digest is reported for files that the user named, not for large files in a tree.
        if let Some(digest) = file.digest().filter(|_| file.named) {
            match &self.shared.setup.job.items[..] {
                [_] => self.shared.record.digest(digest),
                _ => self.shared.record.digest_of(file.source.root, digest),
            }
        }
        self.shared.queue.draft_done();
        if file.source.metadata.inode.is_some() && !file.named {
            self.first_name_done(file.source.metadata.inode, &file.target, false)?;
        }
        self.task_done(&file.node);
        Ok(())
    }
}
