//! Checks that the chapter "Structures" of `docs/PROTOCOL.md` describes what the code sends: each structure with its
//! fields or variants in order. Their meanings are written there by hand, and must not be missing.
//!
//! `HAKOBU_BLESS=1 cargo test -p hakobu-proto --test structures` rewrites the chapter, and keeps the meanings.

#![allow(clippy::expect_used, clippy::unwrap_used)]

mod chapter;
mod shape;
mod trace;

use hakobu_proto::control::{AgentMessage, Request};
use hakobu_proto::data::{self, kind};
use shape::Shape;
use trace::Tracer;

/// The postcard parts of one kind of frame: its number and name, meta, payload.
type Frame = (u8, &'static str, Option<Shape>, Option<Shape>);

/// Returns all structures, and the frames that contain them.
fn traced() -> (shape::Structures, Vec<Frame>) {
    let mut tracer = Tracer::default();
    tracer.trace::<Request>();
    tracer.trace::<AgentMessage>();
    let mut frames: Vec<Frame> = Vec::new();
    macro_rules! frames {
        ($($name:ident $(meta $meta:ty)? $(, payload $payload:ty)?;)*) => {
            $(
                #[allow(unused_mut, unused_assignments)]
                let (mut meta, mut payload) = (None, None);
                $(meta = Some(tracer.trace::<$meta>());)?
                $(payload = Some(tracer.trace::<$payload>());)?
                frames.push((kind::$name, stringify!($name), meta, payload));
            )*
        };
    }
    frames! {
        HELLO meta data::Hello;
        STAT meta data::StatRequest;
        LIST meta data::ListMessage, payload data::ListRequest;
        WRITE_PACK;
        BEGIN meta data::BeginDraft;
        WRITE meta data::WritePiece;
        FINISH meta data::Finish;
        ABANDON meta data::Abandon;
        APPLY, payload data::ApplyChanges;
        BARRIER meta data::Barrier;
        ZERO meta data::ZeroRange;
        HASH_RANGE meta data::HashRange;
        COMPLETE meta data::Complete;
        SET_LENGTH meta data::SetLength;
        DIGEST, payload data::Digests;
        NUMBERS, payload data::NumbersRequest;
        PATCH meta data::Patch;
        WEAK_SUMS meta data::WeakSums;
        ASSEMBLE meta data::Assemble;
        HOLE meta data::HoleRequest;
        DONE;
        STAT_REPLY meta data::StatReply;
        LISTED;
        PACK_WRITTEN, payload data::StoredReply;
        FAILED meta data::FailedReply;
        BEGUN, payload data::BegunReply;
        HASHES;
        DIGESTED, payload data::DigestReply;
        NUMBERED, payload data::NumbersReply;
        SUMS;
        BLOCK_HASHES;
        TIMES meta data::TimesReply;
        HOLE_UNTIL meta u64;
    }
    (tracer.structures, frames)
}

#[test]
fn the_document_has_every_structure() {
    let (structures, frames) = traced();
    chapter::check(&structures, &frames);
}

mod examples {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Outer {
        flags: Vec<Result<Choice, u8>>,
        name: Vec<u8>,
        key: [u8; 16],
        counts: Option<(u32, Choice)>,
        #[serde(skip)]
        here: u64,
    }

    #[derive(Deserialize)]
    #[allow(dead_code)]
    enum Choice {
        Nothing,
        Number(i64),
        Both { first: Inner, second: String },
    }

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Inner([u64; 3]);

    #[test]
    fn every_field_and_every_variant_is_seen() {
        let mut tracer = Tracer::default();
        assert_eq!(tracer.trace::<Option<Outer>>().to_string(), "option of Outer");
        let rows = |name: &str| {
            let rows = tracer.structures.0[name].rows();
            rows.iter().map(|row| row.join(" = ")).collect::<Vec<_>>()
        };
        let outer = [
            "flags = sequence of result of Choice or u8",
            "name = bytes",
            "key = 16 bytes",
            "counts = option of (u32, Choice)",
        ];
        assert_eq!(rows("Outer"), outer);
        assert_eq!(rows("Choice"), ["Nothing = ", "Number = i64", "Both = first: Inner; second: text"]);
        assert_eq!(rows("Inner"), [" = 3 × u64"]);
    }

    #[test]
    #[should_panic(expected = "two structures are called Inner")]
    fn two_structures_of_one_name_are_told() {
        #[derive(Deserialize)]
        #[allow(dead_code)]
        #[serde(rename = "Inner")]
        struct Other(u8);
        Tracer::default().trace::<(Inner, Other)>();
    }
}
