//! Big files: drafts begun, chunks moved, files finished or given up.

use super::*;

impl Worker<'_> {
    pub(super) fn begin_file(&mut self, file: Arc<LargeFile>) -> Result<()> {
        let begin = Operation::Begin {
            draft: file.draft,
            path: file.target.clone(),
            size_bytes: file.size_bytes(),
            device: file.device,
        };
        self.file_losses(&file);
        if self.may_clone(&file) {
            return self.submit(begin, Pending::BegunToClone(file));
        }
        if file.chunks() > SINGLE_LANE_CHUNKS {
            return self.submit(begin, Pending::Begun(file));
        }
        self.submit(begin, Pending::BegunAlone(file.clone()))?;
        self.move_alone(file)
    }

    /// Moves a file of which this lane has begun the draft, without waiting for any answer.
    pub(super) fn move_alone(&mut self, file: Arc<LargeFile>) -> Result<()> {
        if file.chunks() == 0 {
            return self.end_file(file, Progress::Finish);
        }
        self.chunks(&file)
    }

    pub(super) fn file_losses(&self, file: &LargeFile) {
        let metadata = &file.source.metadata;
        let lost = [(LossKind::HardLinks, metadata.links > 1), (LossKind::Holes, metadata.sparse)];
        let example = file.source.path.as_bytes();
        let losses = lost.into_iter().filter(|(_, loses)| *loses && !file.device);
        let loss = |(what, _)| Loss { what, count: 1, example: example.to_vec() };
        self.shared.record.losses(losses.map(loss).collect());
    }

    /// Moves chunks until none is left for this lane.
    pub(super) fn chunks(&mut self, file: &Arc<LargeFile>) -> Result<()> {
        while let Some(extent) = file.take_chunk() {
            if let Err(error) = self.chunk(file, extent) {
                if error.is_fatal() {
                    return Err(error);
                }
                self.fail_file(file, at_source(error), 1)?;
            }
            self.answers()?;
            while self.under_way.len() >= UNDER_WAY_MAX && !self.shared.queue.is_stopped() {
                self.wait_for_answer(FULL_WAIT)?;
            }
            if self.shared.queue.is_stopped() {
                return Ok(());
            }
        }
        Ok(())
    }

    pub(super) fn chunk(&mut self, file: &Arc<LargeFile>, extent: Extent) -> Result<()> {
        let mut values = [Digest::default(); PIECES_PER_CHUNK as usize];
        let mut count = 0;
        for piece in extent.pieces() {
            let buffer = self.target.piece_buffer();
            self.enter(Stage::Read);
            let read = Operation::Read { file: file.source.clone(), extent: piece, buffer };
            let outcome = self.ask_source(read)?;
            self.leave(Stage::Read);
            let Outcome::Read(buffer) = outcome else { return Err(unexpected()) };
            if buffer.filled().len() as u64 != piece.length {
                self.target.recycle(buffer);
                let error = Error::new(ErrorKind::SourceChanged, "reading", "it ends before its size");
                return Err(error.at(&file.source.path));
            }
            self.counters.source_read_bytes.add(piece.length);
            let mut check = Check::default();
            if self.wants.1 {
                let value = piece_value(file.size_bytes(), piece.offset, buffer.filled());
                values[count] = value;
                check.value = Some(value);
            }
            if self.wants.0 {
                check.crc = crc64(buffer.filled());
            }
            count += 1;
            self.leave(Stage::Hash);
            let last = piece.end() == extent.end();
            let pending = if last { Pending::Chunk { file: file.clone(), extent } } else { Pending::Ignored };
            let write = Operation::Write {
                draft: file.draft,
                offset: piece.offset,
                buffer,
                check,
                acknowledge: last,
            };
            // Only the last piece is answered; an error of an earlier one is remembered by the draft.
            self.submit(write, pending)?;
        }
        if self.wants.1 {
            file.add_values(extent.offset, &values[..count]);
        }
        Ok(())
    }

    /// A big file cannot be copied; `chunks` of those it handed out are given up here.
    pub(super) fn fail_file(&mut self, file: &Arc<LargeFile>, error: Error, chunks: u64) -> Result<()> {
        let (first, given_up) = file.fail();
        if first {
            fail(self.shared, self.counters, failure(&file.source.path, error));
        }
        if chunks + given_up == 0 {
            return Ok(());
        }
        let progress = file.count_done(chunks + given_up);
        self.end_file(file.clone(), progress)
    }

    pub(super) fn end_file(&mut self, file: Arc<LargeFile>, progress: Progress) -> Result<()> {
        match progress {
            Progress::More => Ok(()),
            Progress::Finish => {
                match self.ask_source(Operation::Confirm { file: file.source.clone() }) {
                    Err(error) => {
                        self.fail_file(&file, at_source(error), 0)?;
                        return self.end_file(file, Progress::Abandon);
                    }
                    Ok(Outcome::Stored { losses, .. }) if !file.device => self.shared.record.losses(losses),
                    Ok(_) => {}
                }
                let finish = Operation::Finish {
                    draft: file.draft,
                    attributes: file.source.metadata.attributes(),
                    digest: file.digest(),
                };
                self.submit(finish, Pending::Finished(file))
            }
            Progress::Abandon => {
                self.submit(Operation::Abandon { draft: file.draft }, Pending::Abandoned(file))
            }
        }
    }

    /// A file that failed is done only now: the draft's removal changed the directory's time.
    pub(super) fn abandoned(&mut self, file: &LargeFile) {
        self.shared.queue.draft_done();
        self.task_done(&file.node);
    }

    pub(super) fn finished(&mut self, file: &Arc<LargeFile>) {
        let counter =
            if file.replaces { &self.counters.entries_updated } else { &self.counters.entries_created };
        counter.add(1);
        // A digest stands for what the user named, not for some large file in it.
        if let (Some(digest), [only]) = (file.digest(), &self.shared.setup.job.items[..])
            && only.source == file.source.path
        {
            self.shared.record.digest(digest);
        }
        self.shared.queue.draft_done();
        self.task_done(&file.node);
    }
}
