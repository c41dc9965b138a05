//! Access to a bucket as a store.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hakobu_core::Result;
use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::entry::EntryMetadata;
use hakobu_core::grant::Grant;
use hakobu_core::path::EntryPath;

use super::api::Bucket;
use super::capabilities::capabilities;
use super::counts::ReportedRequests;
use super::driver::{BytesInFlight, RuntimeDriver};
use super::keys::KeyRoot;
use super::lookup::find;
use super::source::ObjectSource;
use super::target::ObjectTarget;
use super::upload_journal::abandoned_uploads;
use crate::store::StoreAccess;

/// A bucket that this machine accesses.
pub struct BucketAccess {
    bucket: Arc<dyn Bucket>,
    journals: Option<PathBuf>,
    reported: ReportedRequests,
}

impl BucketAccess {
    /// Returns the access to a bucket. `journals` is the folder for journals of uploads; without it, uploads cannot be
    /// resumed.
    pub fn new(bucket: Arc<dyn Bucket>, journals: Option<PathBuf>) -> Self {
        Self { bucket, journals, reported: ReportedRequests::default() }
    }
}

impl StoreAccess for BucketAccess {
    fn capabilities(&self) -> Capabilities {
        capabilities(&*self.bucket)
    }

    fn inspect(&self, path: &EntryPath) -> Result<Option<EntryMetadata>> {
        let driver = RuntimeDriver::new(&Arc::new(AtomicBool::new(false)), &BytesInFlight::default(), 0)?;
        let api = driver.within(|| self.bucket.connect())?;
        let root = KeyRoot::new(&EntryPath::root(), self.bucket.limits().spelling)?;
        let found = driver.block_on(find(&*api, &root, path)).map_err(|error| error.at(path))?;
        Ok(found.map(|(_, entry)| entry.metadata))
    }

    fn round_trip(&self) -> Duration {
        self.bucket.answer_time().unwrap_or_default()
    }

    fn uses_tls(&self) -> Option<bool> {
        self.bucket.uses_tls()
    }

    fn source(&self, roots: &[EntryPath]) -> Result<Box<dyn SourceEndpoint>> {
        Ok(Box::new(ObjectSource::new(Arc::clone(&self.bucket), roots, self.reported.begin())?))
    }

    fn target(&self, root: &EntryPath, grant: &Grant) -> Result<Box<dyn TargetEndpoint>> {
        let (bucket, journals) = (Arc::clone(&self.bucket), self.journals.clone());
        Ok(Box::new(ObjectTarget::open(bucket, root, grant, (journals, self.reported.begin()))?))
    }

    fn remove_unfinished(&self, path: &EntryPath) -> Result<u64> {
        let Some(folder) = &self.journals else { return Ok(0) };
        let root = KeyRoot::new(path, self.bucket.limits().spelling)?;
        let uploads = abandoned_uploads(folder)?;
        let here = uploads.into_iter().filter_map(|upload| {
            let key = upload.location.strip_prefix(&self.bucket.identity())?.strip_prefix(' ')?.to_owned();
            root.contains(&key).then_some((key, upload))
        });
        let here: Vec<_> = here.collect();
        if here.is_empty() {
            return Ok(0);
        }
        let driver = RuntimeDriver::new(&Arc::default(), &BytesInFlight::default(), 0)?;
        let api = driver.within(|| self.bucket.connect())?;
        let mut removed = 0;
        for (key, upload) in here {
            let aborted = driver.block_on(api.abort_upload(&key, &upload.upload));
            aborted.map_err(|error| error.at(self.bucket.location(&key)))?;
            upload.journal.remove();
            removed += 1;
        }
        Ok(removed)
    }
}
