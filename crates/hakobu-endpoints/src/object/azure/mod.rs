//! Azure Blob Storage, and servers with its interface.
//!
//! [`request`] signs requests, sends them and judges the answers; a module per kind of request is beside it. The object of
//! a directory, whose key ends with a slash, is a blob without that slash and with a mark in its metadata, as Azure's own
//! tools have it.

mod blocks;
mod container;
mod copy;
mod delete;
mod get;
mod list;
mod put;
mod refusal;
mod request;
mod spelling;
mod target;

use std::sync::Arc;

use hakobu_core::Result;
use hakobu_core::extent::Extent;

use super::api::{
    ApiReply, Bucket, ClockOffset, CompleteUpload, CopyObject, CopyPart, ListQuery, ObjectApi, ObjectBody,
    ObjectHead, ObjectPage, ObjectProperties, ObjectVersion, PartTag, PutObject, PutPart, RequestCosts,
    RequestCounts, StoreLimits, StoredObject, UnfinishedUpload, UploadId,
};
use super::copy_place::CopyPlace;
use super::costs::azure_costs;
pub use super::credentials::azure::AzureEnvironment;
use super::http::HttpClient;
use container::LIMITS;
pub use container::{AzureContainer, AzureNewObjects, AzureSettings};
use request::AzureLane;
use target::AzureTarget;

/// An opened container as lanes have it.
impl Bucket for Arc<AzureContainer> {
    fn location(&self, key: &str) -> String {
        self.location_of(key)
    }

    fn identity(&self) -> String {
        format!("{}{}", self.target.origin, self.target.path())
    }

    fn limits(&self) -> &StoreLimits {
        &LIMITS
    }

    fn copy_place(&self) -> Option<CopyPlace> {
        // A copy has the source's content type and access tier. The account is the store: its key or token does not let
        // the store read the blobs of another one.
        let AzureNewObjects { content_type, access_tier } = &self.new_objects;
        let keeps = content_type.is_none() && access_tier.is_none();
        let AzureTarget { origin, base, container, .. } = &self.target;
        keeps.then(|| CopyPlace { store: format!("{origin}{base}"), bucket: container.clone() })
    }

    fn uses_tls(&self) -> Option<bool> {
        Some(self.target.origin.starts_with("https:"))
    }

    fn request_costs(&self) -> Option<&'static RequestCosts> {
        static COSTS: RequestCosts = azure_costs(&LIMITS);
        Some(&COSTS)
    }

    fn requests(&self) -> RequestCounts {
        self.http.counters.counts()
    }

    fn clock(&self) -> Option<ClockOffset> {
        self.http.clock.offset()
    }

    fn connect(&self) -> Result<Box<dyn ObjectApi>> {
        let http = HttpClient::new(Arc::clone(&self.http))?;
        Ok(Box::new(Arc::new(AzureLane { container: Arc::clone(self), http })))
    }
}

impl ObjectApi for Arc<AzureLane> {
    fn limits(&self) -> &StoreLimits {
        &LIMITS
    }

    fn list<'a>(&'a self, query: ListQuery<'a>) -> ApiReply<'a, ObjectPage> {
        Box::pin(AzureLane::list(self, query))
    }

    fn head<'a>(&'a self, key: &'a str) -> ApiReply<'a, Option<ObjectHead>> {
        Box::pin(AzureLane::head(self, key))
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        range: Option<Extent>,
        version: Option<&'a ObjectVersion>,
    ) -> ApiReply<'a, ObjectBody> {
        Box::pin(AzureLane::get(self, key, range, version))
    }

    fn put<'a>(&'a self, object: PutObject<'a>) -> ApiReply<'a, StoredObject> {
        Box::pin(AzureLane::put(self, object))
    }

    fn copy<'a>(&'a self, copy: CopyObject<'a>) -> ApiReply<'a, StoredObject> {
        Box::pin(AzureLane::copy(self, copy))
    }

    fn delete<'a>(&'a self, keys: &'a [String]) -> ApiReply<'a, Vec<Result<()>>> {
        Box::pin(AzureLane::delete(self, keys))
    }

    fn begin_upload<'a>(&'a self, key: &'a str, properties: &'a ObjectProperties) -> ApiReply<'a, UploadId> {
        Box::pin(async move { AzureLane::begin_upload(self, key, properties) })
    }

    fn put_part<'a>(&'a self, part: PutPart<'a>) -> ApiReply<'a, PartTag> {
        Box::pin(AzureLane::put_part(self, part))
    }

    fn copy_part<'a>(&'a self, part: CopyPart<'a>) -> ApiReply<'a, PartTag> {
        Box::pin(AzureLane::copy_part(self, part))
    }

    fn list_parts<'a>(&'a self, key: &'a str, _: &'a UploadId) -> ApiReply<'a, Option<Vec<PartTag>>> {
        Box::pin(AzureLane::list_parts(self, key))
    }

    fn complete_upload<'a>(&'a self, upload: CompleteUpload<'a>) -> ApiReply<'a, StoredObject> {
        Box::pin(AzureLane::complete_upload(self, upload))
    }

    /// Does nothing: the store removes blocks that no list has named after a week, and knows no request for it.
    fn abort_upload<'a>(&'a self, _: &'a str, _: &'a UploadId) -> ApiReply<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Returns none: there are only blocks that wait, and nothing to abort.
    fn list_uploads<'a>(&'a self, _: &'a str) -> ApiReply<'a, Vec<UnfinishedUpload>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
