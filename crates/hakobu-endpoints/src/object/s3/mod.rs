//! S3, and stores with its interface.
//!
//! [`request`] signs requests, sends them and judges the answers; a module per kind of request is beside it.

mod bucket;
mod copy;
mod delete;
mod get;
mod list;
pub(super) mod multipart;
mod put;
mod refusal;
mod request;
mod sign;
pub(in crate::object) mod spelling;
mod target;
pub(in crate::object) mod xml;

use std::sync::Arc;
use std::time::Duration;

use hakobu_core::Result;
use hakobu_core::extent::Extent;

use super::api::{
    ApiReply, Bucket, ClockOffset, CompleteUpload, CopyObject, CopyPart, ListQuery, ObjectApi, ObjectBody,
    ObjectHead, ObjectPage, ObjectProperties, ObjectVersion, PartTag, PutObject, PutPart, RequestCosts,
    RequestCounts, StoreLimits, StoredObject, UnfinishedUpload, UploadId,
};
use super::copy_place::CopyPlace;
use super::costs::costs;
pub use super::credentials::aws::AwsSettings;
use super::http::HttpClient;
pub(crate) use bucket::LIMITS;
pub use bucket::{S3Bucket, S3NewObjects, S3Settings};
use request::S3Lane;
pub(super) use request::check_key;
use sign::Signer;

/// An opened bucket as lanes have it.
impl Bucket for Arc<S3Bucket> {
    fn location(&self, key: &str) -> String {
        self.location_of(key)
    }

    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn limits(&self) -> &StoreLimits {
        &LIMITS
    }

    fn copy_place(&self) -> Option<CopyPlace> {
        // A copy has the source's content type.
        let keeps = self.new_objects.content_type.is_none();
        keeps.then(|| CopyPlace { store: self.store.clone(), bucket: self.name.clone() })
    }

    fn uses_tls(&self) -> Option<bool> {
        Some(self.target().origin.starts_with("https:"))
    }

    fn request_costs(&self) -> Option<&'static RequestCosts> {
        static COSTS: RequestCosts = costs(&LIMITS);
        Some(&COSTS)
    }

    fn requests(&self) -> RequestCounts {
        self.http.counters.counts()
    }

    fn clock(&self) -> Option<ClockOffset> {
        self.http.clock.offset()
    }

    fn answer_time(&self) -> Option<Duration> {
        self.http.answer_time.least()
    }

    fn connect(&self) -> Result<Box<dyn ObjectApi>> {
        let http = HttpClient::new(Arc::clone(&self.http))?;
        let lane = S3Lane { bucket: Arc::clone(self), http, signer: Signer::default() };
        Ok(Box::new(Arc::new(lane)))
    }
}

impl ObjectApi for Arc<S3Lane> {
    fn limits(&self) -> &StoreLimits {
        &LIMITS
    }

    fn list<'a>(&'a self, query: ListQuery<'a>) -> ApiReply<'a, ObjectPage> {
        Box::pin(S3Lane::list(self, query))
    }

    fn head<'a>(&'a self, key: &'a str) -> ApiReply<'a, Option<ObjectHead>> {
        Box::pin(S3Lane::head(self, key))
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        range: Option<Extent>,
        version: Option<&'a ObjectVersion>,
    ) -> ApiReply<'a, ObjectBody> {
        Box::pin(S3Lane::get(self, key, range, version))
    }

    fn put<'a>(&'a self, object: PutObject<'a>) -> ApiReply<'a, StoredObject> {
        Box::pin(S3Lane::put(self, object))
    }

    fn copy<'a>(&'a self, copy: CopyObject<'a>) -> ApiReply<'a, StoredObject> {
        Box::pin(S3Lane::copy(self, copy))
    }

    fn delete<'a>(&'a self, keys: &'a [String]) -> ApiReply<'a, Vec<Result<()>>> {
        Box::pin(S3Lane::delete(self, keys))
    }

    fn begin_upload<'a>(&'a self, key: &'a str, properties: &'a ObjectProperties) -> ApiReply<'a, UploadId> {
        Box::pin(S3Lane::begin_upload(self, key, properties))
    }

    fn put_part<'a>(&'a self, part: PutPart<'a>) -> ApiReply<'a, PartTag> {
        Box::pin(S3Lane::put_part(self, part))
    }

    fn copy_part<'a>(&'a self, part: CopyPart<'a>) -> ApiReply<'a, PartTag> {
        Box::pin(S3Lane::copy_part(self, part))
    }

    fn list_parts<'a>(&'a self, key: &'a str, upload: &'a UploadId) -> ApiReply<'a, Option<Vec<PartTag>>> {
        Box::pin(S3Lane::list_parts(self, key, upload))
    }

    fn complete_upload<'a>(&'a self, upload: CompleteUpload<'a>) -> ApiReply<'a, StoredObject> {
        Box::pin(S3Lane::complete_upload(self, upload))
    }

    fn abort_upload<'a>(&'a self, key: &'a str, upload: &'a UploadId) -> ApiReply<'a, ()> {
        Box::pin(S3Lane::abort_upload(self, key, upload))
    }

    fn list_uploads<'a>(&'a self, prefix: &'a str) -> ApiReply<'a, Vec<UnfinishedUpload>> {
        Box::pin(S3Lane::list_uploads(self, prefix))
    }
}
