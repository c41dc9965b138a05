//! The target over a bucket, written within a grant by any number of lanes.

mod changes;
mod copies;
mod draft;
mod draft_journal;
mod homes;
mod lane;
mod linking;
mod links;
mod pack;
mod parts;
mod resume;
mod rights;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::{Endpoint, TargetEndpoint, TargetLane};
use hakobu_core::grant::Grant;
use hakobu_core::path::EntryPath;
use hakobu_core::requests::RequestCounts;
use hakobu_core::target_lease::TargetLease;
use hakobu_core::{Error, Result};

use super::api::{Bucket, ObjectApi};
use super::capabilities::capabilities;
use super::counts::EndpointRequests;
use super::driver::{BytesInFlight, RuntimeDriver};
use super::keys::KeyRoot;
use super::leased_api::LeasedApi;
use super::sidecars::Sidecars;
use crate::common::future_lane::{FutureLane, LaneBuffers};
use crate::common::granted::Granted;
use draft::ObjectDrafts;
use homes::SidecarHomes;
use lane::ObjectWriter;
use links::ObjectLinks;
use parts::PartPlan;
pub(super) use parts::{COPIED_PART_BYTES, PART_BYTES};
use rights::GrantedRights;

/// Returns an error with the path of an entry instead of the location of its object: the place of the target is told with
/// it.
fn placed(mut error: Error, path: &EntryPath) -> Error {
    if !error.is_fatal() {
        error.at.clear();
    }
    error.at(path)
}

/// A directory of a bucket that is written. It need not exist.
pub struct ObjectTarget {
    bucket: Arc<dyn Bucket>,
    root: KeyRoot,
    capabilities: Capabilities,
    rights: GrantedRights,
    drafts: Arc<ObjectDrafts>,
    sidecars: Arc<Sidecars>,
    homes: SidecarHomes,
    links: Arc<ObjectLinks>,
    ended: Arc<AtomicBool>,
    journals: Option<PathBuf>,
    lease: Option<TargetLease>,
    requests: EndpointRequests,
    /// The number of digests that were kept with objects, so that these were not read.
    kept_digests: Arc<AtomicU64>,
    /// Objects that were stored without a checksum that the store compared.
    unchecked: Arc<AtomicU64>,
}

impl ObjectTarget {
    /// Opens a directory of a bucket. Nothing is asked of the store. With a folder for journals, a later run goes on with
    /// unfinished uploads of large objects.
    ///
    /// # Errors
    /// `Unsupported` if no key can have that path.
    pub(crate) fn open(
        bucket: Arc<dyn Bucket>,
        root: &EntryPath,
        grant: &Grant,
        (journals, requests): (Option<PathBuf>, EndpointRequests),
    ) -> Result<Granted<Self>> {
        let able = capabilities(&*bucket);
        let rights = GrantedRights::of(grant);
        let (set_id, owners, extended) = (grant.may_set_id, grant.may_chown, rights.classes());
        let capabilities = Capabilities { set_id, owners, extended, ..able };
        let root = KeyRoot::new(root, bucket.limits().spelling)?;
        let (drafts, sidecars, links) = (Arc::default(), Arc::default(), Arc::default());
        let (homes, ended) = (SidecarHomes::of(grant), Arc::default());
        let (kept_digests, unchecked, lease) = (Arc::default(), Arc::default(), grant.lease.clone());
        let target = Self {
            bucket,
            root,
            capabilities,
            rights,
            drafts,
            sidecars,
            homes,
            links,
            ended,
            journals,
            lease,
            requests,
            kept_digests,
            unchecked,
        };
        Ok(Granted::new(target, grant.clone()))
    }
}

impl Endpoint for ObjectTarget {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn run_bytes(&self, size_bytes: u64) -> u64 {
        PartPlan::new(size_bytes, self.bucket.limits()).map_or(PART_BYTES, |plan| plan.run_bytes())
    }

    fn requests(&self) -> RequestCounts {
        let kept_digests = self.kept_digests.load(Ordering::Relaxed);
        let unchecked = self.unchecked.load(Ordering::Relaxed);
        RequestCounts { kept_digests, unchecked, ..self.requests.report(&*self.bucket) }
    }

    fn interrupt(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl TargetEndpoint for ObjectTarget {
    fn open_target_lane(&self, _index: usize) -> Result<Box<dyn TargetLane>> {
        let in_flight = BytesInFlight::default();
        let driver = RuntimeDriver::new(&self.ended, &in_flight, PART_BYTES)?;
        let api = driver.within(|| self.bucket.connect())?;
        let api: Arc<dyn ObjectApi> = match &self.lease {
            Some(lease) => Arc::new(LeasedApi::new(api, lease.clone())),
            None => api.into(),
        };
        let writer = ObjectWriter {
            api,
            bucket: self.bucket.identity(),
            root: self.root.clone(),
            rights: self.rights,
            drafts: Arc::clone(&self.drafts),
            sidecars: Arc::clone(&self.sidecars),
            has_copied: AtomicBool::new(false),
            homes: self.homes.clone(),
            links: Arc::clone(&self.links),
            buffers: LaneBuffers::default(),
            in_flight,
            kept_digests: Arc::clone(&self.kept_digests),
            journals: self.journals.clone(),
            last_removal: Mutex::default(),
            unchecked: Arc::clone(&self.unchecked),
        };
        Ok(Box::new(FutureLane::new(Arc::new(writer), driver)))
    }

    /// A part is sent by the lane that has filled it.
    fn spreads_writers(&self) -> bool {
        true
    }
}

impl Drop for ObjectTarget {
    /// Removes unfinished uploads. The lanes no longer exist by then.
    fn drop(&mut self) {
        let left = self.drafts.take_uploads();
        if left.is_empty() {
            return;
        }
        let Ok(driver) = RuntimeDriver::new(&Arc::default(), &BytesInFlight::default(), 0) else { return };
        let Ok(api) = driver.within(|| self.bucket.connect()) else { return };
        driver.block_on(async {
            for (key, upload) in left {
                // The store lists what is left, so that it can be removed later.
                let _ = api.abort_upload(&key, &upload).await;
            }
        });
    }
}
