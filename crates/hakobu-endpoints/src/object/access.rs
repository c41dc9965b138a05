//! Access to a bucket as a store.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
pub struct BucketAccess(pub Arc<dyn Bucket>);

impl StoreAccess for BucketAccess {
    fn capabilities(&self) -> Capabilities {
        capabilities(self.0.limits())
    }

    fn inspect(&self, path: &EntryPath) -> Result<Option<EntryMetadata>> {
        let driver = RuntimeDriver::new(&Arc::new(AtomicBool::new(false)), &BytesInFlight::default(), 0)?;
        let api = driver.within(|| self.0.connect())?;
        let found = driver.block_on(look(&*api, &KeyRoot::new(&EntryPath::root())?, path));
        Ok(found.map_err(|error| error.at(path))?.map(|entry| entry.metadata))
    }

    fn source(&self, roots: &[EntryPath]) -> Result<Box<dyn SourceEndpoint>> {
        Ok(Box::new(ObjectSource::new(Arc::clone(&self.0), roots)?))
    }

    fn target(&self, root: &EntryPath, grant: &Grant) -> Result<Box<dyn TargetEndpoint>> {
        Ok(Box::new(ObjectTarget::open(Arc::clone(&self.0), root, grant)?))
    }
}
