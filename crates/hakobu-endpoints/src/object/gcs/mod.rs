//! Google Cloud Storage, and servers with its interface.
//!
//! [`request`] authorizes requests, sends them and judges the answers; a module per kind of request is beside it. Most use
//! the interface in JSON. The one in XML serves where it does more: content comes with metadata, and large objects go in
//! parts.

mod bucket;
mod compose;
mod copy;
mod delete;
mod get;
mod list;
mod multipart;
mod put;
mod refusal;
mod request;
mod resource;
mod target;
mod upload;

use std::sync::Arc;

use hakobu_core::Result;
use hakobu_core::extent::Extent;

use super::api::{
    ApiReply, Bucket, ClockOffset, CompleteUpload, CopyObject, CopyPart, ListQuery, ObjectApi, ObjectBody,
    ObjectHead, ObjectPage, ObjectProperties, ObjectVersion, PartTag, PutObject, PutPart, RequestCosts,
    RequestCounts, StoreLimits, StoredObject, UnfinishedUpload, UploadId,
};
use super::copy_place::CopyPlace;
use super::costs::{composing_costs, google_costs};
pub use super::credentials::gcs::{GOOGLE_CREDENTIALS, GcsCredentialSettings};
use super::http::HttpClient;
pub(crate) use bucket::LIMITS;
pub use bucket::{GcsBucket, GcsNewObjects, GcsSettings, PredefinedAcl};
use request::GcsLane;

/// An opened bucket as lanes have it.
impl Bucket for Arc<GcsBucket> {
    fn location(&self, key: &str) -> String {
        self.location_of(key)
    }

    fn identity(&self) -> String {
        self.target.identity()
    }

    fn limits(&self) -> &StoreLimits {
        &LIMITS
    }

    fn copy_place(&self) -> Option<CopyPlace> {
        // A copy has the source's content type and storage class.
        let keeps = self.new_objects.content_type.is_none() && self.new_objects.storage_class.is_none();
        keeps.then(|| CopyPlace { store: self.target.store().to_owned(), bucket: self.name.clone() })
    }

    fn uses_tls(&self) -> Option<bool> {
        Some(self.target.objects().starts_with("https:"))
    }

    fn request_costs(&self) -> Option<&'static RequestCosts> {
        static GOOGLE: RequestCosts = google_costs(&LIMITS);
        static OTHERS: RequestCosts = composing_costs(&LIMITS);
        Some(if self.target.is_google { &GOOGLE } else { &OTHERS })
    }

    fn requests(&self) -> RequestCounts {
        self.http.counters.counts()
    }

    fn clock(&self) -> Option<ClockOffset> {
        self.http.clock.offset()
    }

    fn connect(&self) -> Result<Box<dyn ObjectApi>> {
        let http = HttpClient::new(Arc::clone(&self.http))?;
        Ok(Box::new(Arc::new(GcsLane { bucket: Arc::clone(self), http })))
    }
}

impl ObjectApi for Arc<GcsLane> {
    fn limits(&self) -> &StoreLimits {
        &LIMITS
    }

    fn list<'a>(&'a self, query: ListQuery<'a>) -> ApiReply<'a, ObjectPage> {
        Box::pin(GcsLane::list(self, query))
    }

    fn head<'a>(&'a self, key: &'a str) -> ApiReply<'a, Option<ObjectHead>> {
        Box::pin(GcsLane::head(self, key))
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        range: Option<Extent>,
        version: Option<&'a ObjectVersion>,
    ) -> ApiReply<'a, ObjectBody> {
        Box::pin(GcsLane::get(self, key, range, version))
    }

    fn put<'a>(&'a self, object: PutObject<'a>) -> ApiReply<'a, StoredObject> {
        Box::pin(GcsLane::put(self, object))
    }

    fn copy<'a>(&'a self, copy: CopyObject<'a>) -> ApiReply<'a, StoredObject> {
        Box::pin(GcsLane::copy(self, copy))
    }

    fn delete<'a>(&'a self, keys: &'a [String]) -> ApiReply<'a, Vec<Result<()>>> {
        Box::pin(GcsLane::delete(self, keys))
    }

    fn begin_upload<'a>(&'a self, key: &'a str, properties: &'a ObjectProperties) -> ApiReply<'a, UploadId> {
        Box::pin(GcsLane::begin_upload(self, key, properties))
    }

    fn put_part<'a>(&'a self, part: PutPart<'a>) -> ApiReply<'a, PartTag> {
        Box::pin(GcsLane::put_part(self, part))
    }

    fn copy_part<'a>(&'a self, part: CopyPart<'a>) -> ApiReply<'a, PartTag> {
        Box::pin(GcsLane::copy_part(self, part))
    }

    fn list_parts<'a>(&'a self, key: &'a str, upload: &'a UploadId) -> ApiReply<'a, Option<Vec<PartTag>>> {
        Box::pin(GcsLane::list_parts(self, key, upload))
    }

    fn complete_upload<'a>(&'a self, upload: CompleteUpload<'a>) -> ApiReply<'a, StoredObject> {
        Box::pin(GcsLane::complete_upload(self, upload))
    }

    fn abort_upload<'a>(&'a self, key: &'a str, upload: &'a UploadId) -> ApiReply<'a, ()> {
        Box::pin(GcsLane::abort_upload(self, key, upload))
    }

    fn list_uploads<'a>(&'a self, prefix: &'a str) -> ApiReply<'a, Vec<UnfinishedUpload>> {
        Box::pin(GcsLane::list_uploads(self, prefix))
    }
}
