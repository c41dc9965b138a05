//! The source over a bucket, read by lanes.

mod lane;
mod large;
mod opening;
mod pack;
mod sidecar_search;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hakobu_core::Result;
use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::{Endpoint, SourceEndpoint, SourceLane};
use hakobu_core::path::EntryPath;
use hakobu_core::requests::RequestCounts;

use super::api::Bucket;
use super::capabilities::capabilities;
use super::counts::EndpointRequests;
use super::driver::{BytesInFlight, RuntimeDriver};
use super::keys::KeyRoot;
use super::sidecars::Sidecars;
use crate::common::future_lane::FutureLane;
use lane::ObjectReader;
use large::PinnedVersions;
pub(super) use large::RANGE_BYTES;
use sidecar_search::SidecarSearch;

/// Directories of a bucket that are read. Roots are numbered in the order in which they were given.
pub struct ObjectSource {
    bucket: Arc<dyn Bucket>,
    roots: Arc<[KeyRoot]>,
    sidecars: Arc<[Sidecars]>,
    search: Arc<SidecarSearch>,
    capabilities: Capabilities,
    versions: Arc<PinnedVersions>,
    ended: Arc<AtomicBool>,
    requests: EndpointRequests,
    /// The number of digests that were kept with objects, so that these were not read.
    kept_digests: Arc<AtomicU64>,
}

impl ObjectSource {
    /// Opens directories of a bucket. Nothing is asked of the store.
    ///
    /// # Errors
    /// `Unsupported` if no key can have one of these paths.
    pub(crate) fn new(
        bucket: Arc<dyn Bucket>,
        roots: &[EntryPath],
        requests: EndpointRequests,
    ) -> Result<Self> {
        let spelling = bucket.limits().spelling;
        Ok(Self {
            capabilities: capabilities(&*bucket),
            search: Arc::new(SidecarSearch::new(Arc::clone(&bucket))),
            bucket,
            roots: roots.iter().map(|root| KeyRoot::new(root, spelling)).collect::<Result<_>>()?,
            sidecars: roots.iter().map(|_| Sidecars::default()).collect(),
            versions: Arc::default(),
            ended: Arc::default(),
            requests,
            kept_digests: Arc::default(),
        })
    }
}

impl Endpoint for ObjectSource {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn run_bytes(&self, _size_bytes: u64) -> u64 {
        RANGE_BYTES
    }

    fn requests(&self) -> RequestCounts {
        let sent = self.requests.report(&*self.bucket);
        RequestCounts { kept_digests: self.kept_digests.load(Ordering::Relaxed), ..sent }
    }

    fn interrupt(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl SourceEndpoint for ObjectSource {
    fn open_source_lane(&self, _index: usize) -> Result<Box<dyn SourceLane>> {
        let driver = RuntimeDriver::new(&self.ended, &BytesInFlight::default(), 0)?;
        let api: Arc<dyn super::api::ObjectApi> = driver.within(|| self.bucket.connect())?.into();
        let reader = ObjectReader {
            api,
            bucket: self.bucket.copy_place().map(|place| place.bucket),
            roots: Arc::clone(&self.roots),
            versions: Arc::clone(&self.versions),
            sidecars: Arc::clone(&self.sidecars),
            search: Arc::clone(&self.search),
            kept_digests: Arc::clone(&self.kept_digests),
            open: tokio::sync::Mutex::default(),
        };
        Ok(Box::new(FutureLane::new(Arc::new(reader), driver)))
    }
}
