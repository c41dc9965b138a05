//! One lane with faults.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hakobu_core::endpoint::{
    Check, Completion, Fetched, Lane, Operation, Outcome, Picks, PieceBuffer, Ticket, Wait,
};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::extent::Extent;
use hakobu_core::pack::{Content, PackBuilder, PackReader, Record};

use super::{Fault, OperationKind, State, When, lock, planned};
use crate::random::Random;

/// The ticket of what the lane asks on its own.
const OWN_TICKET: Ticket = Ticket::MAX - 1;
/// How long a silent lane sleeps before it looks whether it is interrupted.
const SILENT_WAIT: Duration = Duration::from_millis(5);

pub(super) struct FaultyLane {
    inner: Box<dyn Lane>,
    state: Arc<State>,
    index: usize,
    random: Random,
    /// Answers that are not given yet.
    held: Vec<Completion>,
    dead: bool,
}

impl FaultyLane {
    pub fn new(inner: Box<dyn Lane>, state: Arc<State>, index: usize) -> Self {
        let random = Random::new(state.plan.seed ^ ((index as u64) << 32));
        Self { inner, state, index, random, held: Vec::new(), dead: false }
    }

    fn hold(&mut self, ticket: Ticket, result: Result<Outcome>) {
        self.held.push(Completion { ticket, result });
    }

    /// Hands an operation on, whatever it takes.
    fn pass(&mut self, ticket: Ticket, mut operation: Operation) {
        while let Err(back) = self.inner.submit(ticket, operation) {
            operation = back;
            self.inner.flush();
            self.held.extend(self.inner.reap(Wait::For(SILENT_WAIT)));
        }
    }

    /// Has an operation done and waits for its answer.
    fn ask(&mut self, operation: Operation) -> Result<Outcome> {
        self.pass(OWN_TICKET, operation);
        self.inner.flush();
        loop {
            match self.inner.reap(Wait::Forever) {
                Some(completion) if completion.ticket == OWN_TICKET => return completion.result,
                Some(other) => self.held.push(other),
                None => return Err(planned(ErrorKind::ConnectionLost)),
            }
        }
    }

    /// An operation that is not done.
    fn refuse(&mut self, ticket: Ticket, operation: Operation, error: Error) {
        match operation {
            Operation::Write { draft, buffer, .. }
            | Operation::Patch { draft, buffer, .. }
            | Operation::Assemble { draft, buffer, .. } => {
                self.inner.recycle(buffer);
                lock(&self.state.spoiled).entry(draft).or_insert_with(|| error.clone());
            }
            // A draft that could not be finished is gone.
            Operation::Finish { draft, .. } => drop(self.ask(Operation::Abandon { draft, keep: false })),
            _ => {}
        }
        self.hold(ticket, Err(error));
    }

    /// Why a draft can take nothing more.
    fn spoiled(&self, operation: &Operation) -> Option<Error> {
        match operation {
            Operation::Write { draft, .. }
            | Operation::Patch { draft, .. }
            | Operation::Assemble { draft, .. }
            | Operation::Zero { draft, .. }
            | Operation::Complete { draft, .. }
            | Operation::Finish { draft, .. } => lock(&self.state.spoiled).get(draft).cloned(),
            _ => None,
        }
    }

    fn one_entry(&mut self, operation: Operation, when: &When, kind: ErrorKind) -> Result<Outcome> {
        let error = planned(kind);
        match operation {
            Operation::List { .. } => self.one_directory(operation, when, error),
            Operation::Fetch { root, directory, target, picks, from: 0, ask, buffer } => {
                let index = self.random.below(picks.entries.len());
                let mut entries = picks.entries.clone();
                entries.remove(index);
                if entries.is_empty() {
                    return Ok(Outcome::Fetched(Fetched {
                        failures: vec![(index as u32, error)],
                        until: 1,
                        ..Fetched::default()
                    }));
                }
                let target_name = picks.target_name.clone();
                let picks = Arc::new(Picks { listing: picks.listing.clone(), entries, target_name });
                let all = picks.entries.len() as u32;
                let fetch = Operation::Fetch { root, directory, target, picks, from: 0, ask, buffer };
                let outcome = self.ask(fetch)?;
                let Outcome::Fetched(mut fetched) = outcome else { return Ok(outcome) };
                assert_eq!(fetched.until, all, "a pack with this fault takes all at once");
                fetched.until += 1;
                fetched.packed.iter_mut().for_each(|pick| *pick += u32::from(*pick >= index as u32));
                insert(&mut fetched.failures, index as u32, error);
                Ok(Outcome::Fetched(fetched))
            }
            Operation::Store { pack } => {
                let index = self.random.below(records(&pack));
                let pack = without(&pack, index);
                self.all_but(Operation::Store { pack }, index, error)
            }
            Operation::Apply { mut changes } => {
                let index = match when {
                    When::At(path) => changes.iter().position(|change| change.path().as_bytes() == path),
                    _ => None,
                };
                let index = index.unwrap_or_else(|| self.random.below(changes.len()));
                changes.remove(index);
                self.all_but(Operation::Apply { changes }, index, error)
            }
            _ => Err(error),
        }
    }

    fn one_directory(&mut self, list: Operation, when: &When, error: Error) -> Result<Outcome> {
        let asked = match &list {
            Operation::List { directories, .. } => directories.len(),
            _ => 0,
        };
        let outcome = self.ask(list)?;
        let Outcome::Listed(mut listings) = outcome else { return Ok(outcome) };
        let index = match when {
            When::At(path) => listings.iter().position(|listing| listing.path.as_bytes() == path),
            _ => None,
        };
        let index = index.unwrap_or_else(|| self.random.below(asked));
        listings[index].result = Err(error);
        Ok(Outcome::Listed(listings))
    }

    /// Has an operation done that lacks the entry of number `index`, which is said to have failed.
    fn all_but(&mut self, operation: Operation, index: usize, error: Error) -> Result<Outcome> {
        let outcome = self.ask(operation)?;
        let Outcome::Stored { mut failures, losses } = outcome else { return Ok(outcome) };
        insert(&mut failures, index as u32, error);
        Ok(Outcome::Stored { failures, losses })
    }

    /// What sharing blocks does, as far as can be seen.
    fn share(&mut self, operation: Operation) -> Result<Outcome> {
        let Operation::Clone { draft, from } = operation else { return Err(planned(ErrorKind::Unsupported)) };
        let failed = |error: std::io::Error| Error::io("sharing blocks", &error);
        let Some(file) = from.file::<OwnedFd>() else { return Err(planned(ErrorKind::Unsupported)) };
        let file = File::from(file.try_clone().map_err(failed)?);
        let whole = Extent { offset: 0, length: file.metadata().map_err(failed)?.len() };
        for piece in whole.pieces() {
            let mut buffer = self.inner.piece_buffer();
            let length = piece.length as usize;
            file.read_exact_at(&mut buffer.room()[..length], piece.offset).map_err(failed)?;
            buffer.set_filled(length);
            let (offset, check) = (piece.offset, Check::default());
            self.ask(Operation::Write { draft, offset, buffer, check, acknowledge: true })?;
        }
        Ok(Outcome::Done)
    }

    fn act(&mut self, ticket: Ticket, operation: Operation, fault: Option<(Fault, When)>) {
        if let Some(error) = self.spoiled(&operation) {
            return self.refuse(ticket, operation, error);
        }
        let Some((fault, when)) = fault else {
            if self.state.plan.clones && OperationKind::of(&operation) == OperationKind::Clone {
                let shared = self.share(operation);
                return self.hold(ticket, shared);
            }
            return self.pass(ticket, operation);
        };
        match fault {
            Fault::Error(kind) => self.refuse(ticket, operation, planned(kind)),
            // Nobody would hear that they are done.
            Fault::Unheard(kind)
                if matches!(operation, Operation::Patch { .. } | Operation::Assemble { .. }) =>
            {
                self.refuse(ticket, operation, planned(kind));
            }
            Fault::Unheard(kind) => {
                let mut operation = operation;
                if let Operation::Write { acknowledge, .. } = &mut operation {
                    *acknowledge = true;
                }
                if let Operation::Write { draft, .. } | Operation::Begin { draft, .. } = &operation {
                    lock(&self.state.spoiled).entry(*draft).or_insert_with(|| planned(kind));
                }
                let _done = self.ask(operation);
                self.hold(ticket, Err(planned(kind)));
            }
            Fault::OneEntry(kind) if !has_entries(&operation) => {
                self.refuse(ticket, operation, planned(kind));
            }
            Fault::OneEntry(kind) => {
                let result = self.one_entry(operation, &when, kind);
                self.hold(ticket, result);
            }
            Fault::ShortRead => {
                let result = self.ask(operation).map(|outcome| match outcome {
                    Outcome::Read(mut buffer) => {
                        let half = buffer.filled().len() / 2;
                        buffer.set_filled(half);
                        Outcome::Read(buffer)
                    }
                    other => other,
                });
                self.hold(ticket, result);
            }
            Fault::LaneLost => {
                self.hold(ticket, Err(planned(ErrorKind::ConnectionLost)));
                self.die();
            }
            Fault::Silence => {
                self.state.silent.store(true, Relaxed);
                self.pass(ticket, operation);
            }
            Fault::Call(call) => {
                call();
                self.pass(ticket, operation);
            }
        }
    }

    fn die(&mut self) {
        self.dead = true;
        for completion in &mut self.held {
            completion.result = Err(planned(ErrorKind::ConnectionLost));
        }
    }

    /// Waits as a lane does to which nothing comes. Whether it is over.
    fn stay_silent(&mut self, wait: Wait) -> bool {
        let mut rest = match wait {
            Wait::Now => Duration::ZERO,
            Wait::For(limit) => limit,
            Wait::Forever => Duration::MAX,
        };
        while !self.state.interrupted.load(Relaxed) {
            if rest.is_zero() {
                return false;
            }
            let nap = rest.min(SILENT_WAIT);
            std::thread::sleep(nap);
            rest -= nap;
        }
        true
    }
}

impl Lane for FaultyLane {
    fn submit(&mut self, ticket: Ticket, operation: Operation) -> std::result::Result<(), Operation> {
        if !self.dead && !self.held.is_empty() && self.random.per_mille(self.state.plan.full_per_mille) {
            return Err(operation);
        }
        let logged = self.state.describe(self.index, &operation);
        let fault = if self.dead { None } else { self.state.strike(&logged, &mut self.random) };
        lock(&self.state.log).push(logged);
        if self.dead {
            self.hold(ticket, Err(planned(ErrorKind::ConnectionLost)));
            return Ok(());
        }
        self.act(ticket, operation, fault);
        Ok(())
    }

    fn reap(&mut self, wait: Wait) -> Option<Completion> {
        if self.state.silent.load(Relaxed) && !self.dead {
            if !self.stay_silent(wait) {
                return None;
            }
            self.hold(Ticket::MAX, Err(planned(ErrorKind::ConnectionLost)));
            self.die();
        }
        while !self.dead
            && let Some(completion) = self.inner.reap(Wait::Now)
        {
            self.held.push(completion);
        }
        if self.held.is_empty() {
            return if self.dead { None } else { self.inner.reap(wait) };
        }
        if self.state.plan.late && wait == Wait::Now {
            return None;
        }
        let few = self.held.len() < self.state.plan.held_max;
        if few && wait != Wait::Forever && self.random.per_mille(500) {
            return None;
        }
        let index = if self.state.plan.held_max > 0 { self.random.below(self.held.len()) } else { 0 };
        Some(self.held.remove(index))
    }

    fn piece_buffer(&mut self) -> PieceBuffer {
        self.inner.piece_buffer()
    }

    fn pack_buffer(&mut self) -> Vec<u8> {
        self.inner.pack_buffer()
    }

    fn recycle(&mut self, buffer: PieceBuffer) {
        self.inner.recycle(buffer);
    }

    fn flush(&mut self) {
        self.inner.flush();
    }
}

fn has_entries(operation: &Operation) -> bool {
    use OperationKind::{Apply, Fetch, List, Store};
    matches!(OperationKind::of(operation), List | Fetch | Store | Apply)
}

/// Puts a failure in its place among others, whose numbers do not count its entry yet.
fn insert(failures: &mut Vec<(u32, Error)>, index: u32, error: Error) {
    failures.iter_mut().for_each(|(other, _)| *other += u32::from(*other >= index));
    let place = failures.partition_point(|(other, _)| *other < index);
    failures.insert(place, (index, error));
}

fn records(pack: &[u8]) -> usize {
    let mut reader = PackReader::new(pack);
    let mut count = 0;
    while let Ok(Some(record)) = reader.read() {
        count += usize::from(!matches!(record, Record::Directory { .. }));
    }
    count
}

/// The same pack without the file or link of number `skipped`.
fn without(pack: &[u8], skipped: usize) -> Vec<u8> {
    let mut reader = PackReader::new(pack);
    let mut builder = PackBuilder::default();
    let mut index = 0;
    while let Ok(Some(record)) = reader.read() {
        let (head, content) = match &record {
            Record::Directory { path } => {
                builder.directory(path);
                continue;
            }
            Record::Entry(head, content) => (head, *content),
        };
        index += 1;
        if index == skipped + 1 {
            continue;
        }
        match content {
            Content::File(content) => {
                builder.whole_file(head, content.bytes, content.sum);
            }
            Content::Symlink(text) => builder.symlink(head, text),
            Content::Special(kind, device) => builder.special(head, kind, device),
        }
    }
    builder.finish()
}
