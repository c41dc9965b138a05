//! Large objects, in parts, and what a later run does with those that are there.

use std::path::Path;
use std::sync::Arc;

use hakobu_core::Result;
use hakobu_core::digest::{chunk_value, piece_value};
use hakobu_core::endpoint::{
    Check, CompletionWait, DraftAttributes, DraftParameters, Earlier, EarlierWork, TargetEndpoint,
    TargetLane, TargetOp, TargetOutcome,
};
use hakobu_core::entry::{Attributes, FileTime};
use hakobu_core::error::ErrorKind;
use hakobu_core::extent::{CHUNK_BYTES, Extent, PIECE_BYTES, chunk, chunk_count};
use hakobu_core::grant::Grant;
use hakobu_core::path::EntryPath;
use hakobu_endpoints::object::BucketAccess;
use hakobu_endpoints::store::StoreAccess;

use crate::memory_bucket::MemoryBucket;

/// Five parts, of which the last is short.
const SIZE_BYTES: u64 = 9 * CHUNK_BYTES + 12_345;

/// Returns what a draft begins with.
fn draft_attributes() -> Box<DraftAttributes> {
    Box::new(DraftAttributes { attributes: attributes(), extended: None, inode: None })
}

struct Run {
    target: Box<dyn TargetEndpoint>,
    lane: Box<dyn TargetLane>,
}

impl Run {
    fn new(bucket: &MemoryBucket, journals: &Path) -> Self {
        let access = BucketAccess::new(Arc::new(bucket.clone()), Some(journals.to_path_buf()));
        let target = access.target(&EntryPath::root(), &Grant::everything()).unwrap();
        let lane = target.open_target_lane(0).unwrap();
        Self { target, lane }
    }

    fn ask(&mut self, operation: TargetOp) -> Result<TargetOutcome> {
        assert!(self.lane.submit(1, operation).is_ok());
        loop {
            if let Some(done) = self.lane.reap(CompletionWait::Forever).filter(|done| done.ticket == 1) {
                return done.result;
            }
        }
    }

    fn begin(&mut self, version: u8, earlier: Earlier) -> Result<EarlierWork> {
        let path = EntryPath::new("large").unwrap();
        let begin = DraftParameters {
            version: Some([version; 32]),
            earlier,
            ..DraftParameters::file(path, SIZE_BYTES)
        };
        match self.ask(TargetOp::Begin { draft: 1, begin, attributes: Some(draft_attributes()) })? {
            TargetOutcome::Begun(earlier) => Ok(*earlier),
            other => panic!("it keeps no journal: {other:?}"),
        }
    }

    /// Writes chunks and completes each.
    fn write(&mut self, chunks: impl IntoIterator<Item = u64>) {
        for index in chunks {
            let extent = chunk(SIZE_BYTES, index).unwrap();
            let mut values = Vec::new();
            for piece in extent.pieces() {
                let mut buffer = self.lane.piece_buffer();
                let content = content(piece);
                buffer.room()[..content.len()].copy_from_slice(&content);
                buffer.set_read(piece.offset, content.len());
                values.push(piece_value(SIZE_BYTES, piece.offset, &content));
                let write = TargetOp::Write {
                    draft: 1,
                    offset: piece.offset,
                    buffer,
                    check: Check::default(),
                    acknowledge: false,
                };
                assert!(self.lane.submit(0, write).is_ok());
            }
            let value = chunk_value(&values);
            self.ask(TargetOp::Complete { draft: 1, extent, value, kept: true }).unwrap();
        }
    }

    fn finish(&mut self) -> Result<TargetOutcome> {
        self.ask(TargetOp::Finish { draft: 1, attributes: attributes(), extended: None, digest: None })
    }
}

fn attributes() -> Attributes {
    Attributes { mode: 0o640, uid: 1, gid: 2, mtime: FileTime { seconds: 5, nanoseconds: 6 } }
}

fn content(extent: Extent) -> Vec<u8> {
    (extent.offset..extent.end()).map(|offset| (offset / 7 % 251) as u8).collect()
}

fn all() -> Vec<u8> {
    content(Extent { offset: 0, length: SIZE_BYTES })
}

#[test]
fn a_later_run_sends_only_the_parts_that_are_not_there() {
    let (bucket, journals) = (MemoryBucket::new(1000), tempfile::tempdir().unwrap());
    let mut run = Run::new(&bucket, journals.path());
    assert_eq!(run.begin(1, Earlier::Continue).unwrap(), EarlierWork::default());
    // The second part has both of its chunks, the third only one.
    run.write([2, 3, 4]);
    drop(run);
    assert_eq!((bucket.parts(), bucket.unfinished()), (1, 1));
    let mut run = Run::new(&bucket, journals.path());
    let earlier = run.begin(1, Earlier::Refuse).unwrap();
    assert_eq!(earlier.done, [Extent { offset: 2 * CHUNK_BYTES, length: 2 * CHUNK_BYTES }]);
    assert_eq!((earlier.subtrees.len(), earlier.samples.len()), (1, 2));
    run.write([0, 1].into_iter().chain(4..chunk_count(SIZE_BYTES)));
    run.finish().unwrap();
    assert_eq!((bucket.parts(), bucket.unfinished()), (5, 0));
    assert_eq!(bucket.content("large").unwrap()[..], all()[..]);
    assert_eq!(std::fs::read_dir(journals.path()).unwrap().count(), 0, "the journal is gone");
    drop(run.target);
}

#[test]
fn what_is_of_another_version_is_not_used() {
    let (bucket, journals) = (MemoryBucket::new(1000), tempfile::tempdir().unwrap());
    let begun = || {
        let mut run = Run::new(&bucket, journals.path());
        run.begin(1, Earlier::Forget).unwrap();
        run.write([0, 1]);
        assert_eq!(bucket.unfinished(), 1);
    };
    begun();
    let refused = Run::new(&bucket, journals.path()).begin(2, Earlier::Refuse).unwrap_err();
    assert_eq!((refused.kind, bucket.unfinished()), (ErrorKind::SourceChanged, 1));
    assert_eq!(
        Run::new(&bucket, journals.path()).begin(2, Earlier::Continue).unwrap(),
        EarlierWork::default()
    );
    assert_eq!(bucket.unfinished(), 0);
    begun();
    begun();
    let mut run = Run::new(&bucket, journals.path());
    assert_eq!(run.begin(1, Earlier::Forget).unwrap(), EarlierWork::default());
    run.write(0..chunk_count(SIZE_BYTES));
    run.finish().unwrap();
    assert_eq!(bucket.content("large").unwrap()[..], all()[..]);
}

#[test]
fn parts_that_the_store_has_lost_are_sent_again() {
    let (bucket, journals) = (MemoryBucket::new(1000), tempfile::tempdir().unwrap());
    let mut run = Run::new(&bucket, journals.path());
    run.begin(1, Earlier::Continue).unwrap();
    run.write(0..6);
    drop(run);
    bucket.lose_part(2);
    let mut run = Run::new(&bucket, journals.path());
    let done = run.begin(1, Earlier::Continue).unwrap().done;
    let part = |index: u64| Extent { offset: index * 2 * CHUNK_BYTES, length: 2 * CHUNK_BYTES };
    assert_eq!(done, [part(0), part(2)]);
    drop(run);
    bucket.lose_uploads();
    let mut run = Run::new(&bucket, journals.path());
    assert_eq!(run.begin(1, Earlier::Continue).unwrap(), EarlierWork::default());
    run.write(0..chunk_count(SIZE_BYTES));
    run.finish().unwrap();
    assert_eq!(bucket.content("large").unwrap()[..], all()[..]);
}

#[test]
fn a_stream_of_unknown_length_becomes_an_object() {
    for size_bytes in [0, 5, PIECE_BYTES, 2 * CHUNK_BYTES, 2 * CHUNK_BYTES + 1, 5 * CHUNK_BYTES] {
        let (bucket, journals) = (MemoryBucket::new(1000), tempfile::tempdir().unwrap());
        let mut run = Run::new(&bucket, journals.path());
        let begin =
            DraftParameters::file(EntryPath::new("stream").unwrap(), hakobu_core::extent::UNKNOWN_BYTES);
        run.ask(TargetOp::Begin { draft: 1, begin, attributes: Some(draft_attributes()) }).unwrap();
        let all = Extent { offset: 0, length: size_bytes };
        for piece in all.pieces() {
            let mut buffer = run.lane.piece_buffer();
            let content = content(piece);
            buffer.room()[..content.len()].copy_from_slice(&content);
            buffer.set_read(piece.offset, content.len());
            let (draft, offset, check) = (1, piece.offset, Check::default());
            run.ask(TargetOp::Write { draft, offset, buffer, check, acknowledge: true }).unwrap();
        }
        // As in the engine, nobody waits for the answer before the end.
        assert!(run.lane.submit(0, TargetOp::SetLength { draft: 1, size_bytes }).is_ok());
        run.finish().unwrap();
        assert_eq!(bucket.content("stream").unwrap()[..], content(all)[..], "{size_bytes}");
        assert_eq!(bucket.unfinished(), 0);
    }
}
