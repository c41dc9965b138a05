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
use super::driver::{BytesInFlight, RuntimeDriver};
use super::keys::KeyRoot;
use super::lookup::look;
use super::source::ObjectSource;
use super::target::ObjectTarget;
use crate::store::StoreAccess;

/// A bucket that this machine accesses.
pub struct BucketAccess {
    bucket: Arc<dyn Bucket>,
    journals: Option<PathBuf>,
}

impl BucketAccess {
    /// Returns the access to a bucket. `journals` is the folder for journals of uploads; without it, uploads cannot be
    /// resumed.
    pub fn new(bucket: Arc<dyn Bucket>, journals: Option<PathBuf>) -> Self {
        Self { bucket, journals }
    }
}

impl StoreAccess for BucketAccess {
    fn capabilities(&self) -> Capabilities {
        capabilities(&*self.bucket)
    }

    fn inspect(&self, path: &EntryPath) -> Result<Option<EntryMetadata>> {
        let driver = RuntimeDriver::new(&Arc::new(AtomicBool::new(false)), &BytesInFlight::default(), 0)?;
        let api = driver.within(|| self.bucket.connect())?;
        let found = driver.block_on(look(
            &*api,
            &KeyRoot::new(&EntryPath::root(), self.bucket.limits().spelling)?,
            path,
        ));
        Ok(found.map_err(|error| error.at(path))?.map(|entry| entry.metadata))
    }

    fn round_trip(&self) -> Duration {
        self.bucket.answer_time().unwrap_or_default()
    }

    fn source(&self, roots: &[EntryPath]) -> Result<Box<dyn SourceEndpoint>> {
        Ok(Box::new(ObjectSource::new(Arc::clone(&self.bucket), roots)?))
    }

    fn target(&self, root: &EntryPath, grant: &Grant) -> Result<Box<dyn TargetEndpoint>> {
        Ok(Box::new(ObjectTarget::open(Arc::clone(&self.bucket), root, grant, self.journals.clone())?))
    }
}
