//! The effects of faults on operations of a source.

use std::sync::Arc;

use hakobu_core::endpoint::{FetchedPack, Picks, SourceLane, SourceOp, SourceOutcome};
use hakobu_core::error::{Error, Result};

use super::lane::{Fallible, FaultyLane, insert};
use super::{FaultCondition, FaultState, OperationKind};

impl Fallible for SourceOp {
    type Inner = dyn SourceLane;

    fn kind(&self) -> OperationKind {
        match self {
            Self::Stat { .. } => OperationKind::Inspect,
            Self::List { .. } | Self::Page { .. } => OperationKind::List,
            Self::ReadPack { .. } => OperationKind::Fetch,
            Self::Read { .. } => OperationKind::Read,
            Self::DigestPicks { .. } => OperationKind::Digest,
            Self::Names { .. } => OperationKind::Names,
            Self::ReadStream { .. } => OperationKind::Next,
            Self::Open { .. } | Self::OpenPicks { .. } | Self::FindHole { .. } => OperationKind::Open,
            Self::Extended { .. } => OperationKind::Extended,
            Self::Revalidate { .. } => OperationKind::Confirm,
        }
    }

    fn paths(&self, _state: &FaultState) -> Vec<Vec<u8>> {
        match self {
            Self::Stat { path, .. } | Self::Extended { path, .. } => vec![path.as_bytes().to_vec()],
            Self::List { directories, .. } => {
                directories.iter().map(|path| path.as_bytes().to_vec()).collect()
            }
            Self::Page { directory, .. }
            | Self::ReadPack { directory, .. }
            | Self::OpenPicks { directory, .. }
            | Self::DigestPicks { directory, .. } => vec![directory.as_bytes().to_vec()],
            Self::Read { file, .. }
            | Self::ReadStream { file }
            | Self::Open { file }
            | Self::FindHole { file, .. }
            | Self::Revalidate { file, .. } => vec![file.path.as_bytes().to_vec()],
            Self::Names { .. } => Vec::new(),
        }
    }

    fn has_entries(&self) -> bool {
        matches!(self, Self::List { .. } | Self::Page { .. } | Self::ReadPack { .. })
    }

    fn one_entry(
        self,
        lane: &mut FaultyLane<Self>,
        when: &FaultCondition,
        error: Error,
    ) -> Result<SourceOutcome> {
        match self {
            Self::List { ref directories, .. } => {
                let asked = directories.len();
                let outcome = lane.ask(self)?;
                let SourceOutcome::Listed(mut listings) = outcome else { return Ok(outcome) };
                let index = when.index_of(listings.iter().map(|listing| &listing.path));
                let index = index.unwrap_or_else(|| lane.random.below(asked));
                listings[index].result = Err(error);
                Ok(SourceOutcome::Listed(listings))
            }
            Self::ReadPack { root, directory, target, picks, from: 0, ask, buffer } => {
                let index = lane.random.below(picks.entries.len());
                let mut entries = picks.entries.clone();
                entries.remove(index);
                if entries.is_empty() {
                    return Ok(SourceOutcome::Pack(FetchedPack {
                        failures: vec![(index as u32, error)],
                        until: 1,
                        ..FetchedPack::default()
                    }));
                }
                let target_name = picks.target_name.clone();
                let picks = Arc::new(Picks { listing: picks.listing.clone(), entries, target_name });
                let all = picks.entries.len() as u32;
                let fetch = Self::ReadPack { root, directory, target, picks, from: 0, ask, buffer };
                let outcome = lane.ask(fetch)?;
                let SourceOutcome::Pack(mut fetched) = outcome else { return Ok(outcome) };
                assert_eq!(fetched.until, all, "a pack with this fault takes all at once");
                fetched.until += 1;
                fetched.packed.iter_mut().for_each(|pick| *pick += u32::from(*pick >= index as u32));
                insert(&mut fetched.failures, index as u32, error);
                Ok(SourceOutcome::Pack(fetched))
            }
            _ => Err(error),
        }
    }

    fn shorten(outcome: SourceOutcome) -> SourceOutcome {
        match outcome {
            SourceOutcome::Read(mut buffer) => {
                let half = buffer.filled().len() / 2;
                buffer.set_filled(half);
                SourceOutcome::Read(buffer)
            }
            other => other,
        }
    }
}
