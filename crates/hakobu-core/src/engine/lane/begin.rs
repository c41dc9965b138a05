//! The beginning of a run: what the user named becomes the first tasks.

use super::*;

impl Worker<'_> {
    /// Looks at what the user named, and puts the first tasks into the queue.
    pub fn begin(&mut self) -> Result<()> {
        let job = self.shared.setup.job;
        if let Some(path) = job.make_directory.as_ref().filter(|_| !job.dry_run) {
            let changes = vec![Change::MakeDirectory { path: path.clone(), mode: 0o755 }];
            let Outcome::Stored { failures, .. } = self.ask_target(Operation::Apply { changes })? else {
                return Err(unexpected());
            };
            if let Some((_, error)) = failures.into_iter().next() {
                return Err(error);
            }
        }
        for item in &job.items {
            match self.begin_item(item) {
                Err(error) if error.is_fatal() => return Err(error),
                // The others can be copied all the same.
                Err(error) => fail(self.shared, self.counters, failure(&item.source, error)),
                Ok(()) => {}
            }
        }
        self.shared.queue.start();
        if self.shared.queue.scan_done() {
            self.shared.record.scan_ended(self.shared.setup.clock.now_ns());
        }
        Ok(())
    }

    fn begin_item(&mut self, item: &Item) -> Result<()> {
        let inspect = Operation::Inspect { root: item.root, path: item.source.clone() };
        let Outcome::Inspected(Some(metadata)) = self.ask_source(inspect).map_err(at_source)? else {
            let error = Error::new(ErrorKind::NotFound, "reading", "there is no such file or directory");
            fail(self.shared, self.counters, failure(&item.source, error));
            return Ok(());
        };
        let there = match self.ask_target(Operation::Inspect { root: 0, path: item.target.clone() }) {
            Ok(Outcome::Inspected(there)) => there,
            Ok(_) => return Err(unexpected()),
            Err(error) => return Err(at_target(error, &item.target)),
        };
        if item.place != DraftKind::File || metadata.kind == Kind::BlockDevice {
            return self.begin_content(item, metadata, there.as_ref());
        }
        if metadata.kind == Kind::Directory && item.source.is_root() {
            return self.begin_directory(item, &metadata, there.as_ref());
        }
        let (source_parent, name) = item.source.split_last().ok_or_else(unexpected)?;
        let (target_parent, target_name) = item.target.split_last().ok_or_else(unexpected)?;
        let mut listing = Listing::with_capacity(1);
        listing.push(name, metadata)?;
        let listing = Arc::new(listing);
        let node = Node::new((item.root, source_parent, target_parent), None, None, false);
        let found = {
            let mut drafts = draft_numbers(&mut self.next_draft);
            let nothing = Prefetched::default();
            let mut join = Join::new(self.shared, self.counters, &node, &nothing, &mut drafts);
            join.target_name = Some(target_name);
            join.place = item.place;
            join.entry(&listing, 0, there.as_ref());
            join.close_pack(&listing);
            join.found
        };
        self.add(&node, found)?;
        self.shared.queue.release(&node);
        Ok(())
    }

    /// The content of one file or device goes to one place, whatever its time is.
    fn begin_content(&mut self, item: &Item, metadata: Metadata, there: Option<&Metadata>) -> Result<()> {
        let job = self.shared.setup.job;
        if !matches!(metadata.kind, Kind::File | Kind::BlockDevice) {
            let words = format!("{} has no content of a known size", metadata.kind.words());
            return Err(Error::new(ErrorKind::Unsupported, "copying", words));
        }
        self.counters.entries_scanned.add(1);
        self.counters.bytes_scanned.add(metadata.size_bytes);
        let replaces = there.is_some();
        if job.dry_run {
            let counter =
                if replaces { &self.counters.entries_updated } else { &self.counters.entries_created };
            counter.add(1);
            let path = item.target.as_bytes().to_vec();
            let action = if replaces { "update" } else { "create" }.into();
            self.shared.setup.observer.event(Event::Planned {
                action,
                path,
                size_bytes: metadata.size_bytes,
            });
            return Ok(());
        }
        let (source_parent, _) = item.source.split_last().ok_or_else(unexpected)?;
        let (target_parent, _) = item.target.split_last().ok_or_else(unexpected)?;
        let node = Node::new((item.root, source_parent, target_parent), None, None, false);
        node.hold(1);
        let tolerant = job.skip_unreadable;
        let source = SourceFile { root: item.root, path: item.source.clone(), metadata, tolerant };
        let draft = draft_numbers(&mut self.next_draft)();
        let how = How { kind: item.place, replaces, named: true, digest: job.digest };
        let file = LargeFile::new(node.clone(), source, item.target.clone(), draft, how);
        self.compare_sizes(&file, there);
        self.shared.queue.add(Vec::new(), Vec::new(), vec![Arc::new(file)]);
        self.shared.queue.release(&node);
        Ok(())
    }

    /// A file in place that has another size than the source is another file, whatever it begins
    /// with. A device may be larger.
    fn compare_sizes(&self, file: &LargeFile, there: Option<&Metadata>) {
        let Some(there) = there.filter(|there| there.kind == Kind::File) else { return };
        if !file.kind.is_there() || there.size_bytes == file.size_bytes() {
            return;
        }
        file.changes();
        if file.kind == DraftKind::Compare && there.size_bytes > file.size_bytes() {
            let length = there.size_bytes - file.size_bytes();
            self.differs(file, Extent { offset: file.size_bytes(), length });
        }
    }

    /// The contents of a directory go into another one.
    fn begin_directory(&mut self, item: &Item, metadata: &Metadata, there: Option<&Metadata>) -> Result<()> {
        self.counters.entries_scanned.add(1);
        let (state, touched) = match there.map(|there| there.kind) {
            Some(Kind::Directory) => {
                (TargetState::Unknown, there.map(Metadata::attributes) != Some(metadata.attributes()))
            }
            Some(Kind::Symlink) | None => (TargetState::Absent, true),
            Some(kind) => {
                let words = format!("{} is in the place of the directory", kind.words());
                return Err(at_target(Error::new(ErrorKind::Conflict, "copying", words), &item.target));
            }
        };
        let counter =
            if there.is_none() { &self.counters.entries_created } else { &self.counters.entries_unchanged };
        counter.add(1);
        let place = (item.root, item.source.clone(), item.target.clone());
        let node = Node::new(place, Some(metadata.attributes()), None, touched);
        self.shared.queue.add(vec![DirectoryTask { node, target: state }], Vec::new(), Vec::new());
        Ok(())
    }
}
