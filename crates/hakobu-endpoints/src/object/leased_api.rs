//! The requests of one lane under a lease: those that change the store are refused once it is over.

use hakobu_core::Result;
use hakobu_core::extent::Extent;
use hakobu_core::target_lease::TargetLease;

use super::api::{
    ApiReply, CompleteUpload, CopyObject, CopyPart, ListQuery, ObjectApi, ObjectBody, ObjectHead, ObjectPage,
    ObjectProperties, ObjectVersion, PartTag, PutObject, PutPart, StoreLimits, StoredObject,
    UnfinishedUpload, UploadId,
};

/// The requests of one lane under a lease.
pub(super) struct LeasedApi {
    inner: Box<dyn ObjectApi>,
    lease: TargetLease,
}

impl LeasedApi {
    /// Wraps the requests of a lane.
    pub(super) fn new(inner: Box<dyn ObjectApi>, lease: TargetLease) -> Self {
        Self { inner, lease }
    }

    /// Returns the reply if the lease is not over when it is awaited.
    fn leased<'a, T: Send + 'a>(&'a self, reply: ApiReply<'a, T>) -> ApiReply<'a, T> {
        Box::pin(async move {
            self.lease.check()?;
            reply.await
        })
    }
}

impl ObjectApi for LeasedApi {
    fn limits(&self) -> &StoreLimits {
        self.inner.limits()
    }

    fn list<'a>(&'a self, query: ListQuery<'a>) -> ApiReply<'a, ObjectPage> {
        self.inner.list(query)
    }

    fn head<'a>(&'a self, key: &'a str) -> ApiReply<'a, Option<ObjectHead>> {
        self.inner.head(key)
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        range: Option<Extent>,
        version: Option<&'a ObjectVersion>,
    ) -> ApiReply<'a, ObjectBody> {
        self.inner.get(key, range, version)
    }

    fn put<'a>(&'a self, object: PutObject<'a>) -> ApiReply<'a, StoredObject> {
        self.leased(self.inner.put(object))
    }

    fn copy<'a>(&'a self, copy: CopyObject<'a>) -> ApiReply<'a, StoredObject> {
        self.leased(self.inner.copy(copy))
    }

    fn delete<'a>(&'a self, keys: &'a [String]) -> ApiReply<'a, Vec<Result<()>>> {
        self.leased(self.inner.delete(keys))
    }

    fn begin_upload<'a>(&'a self, key: &'a str, properties: &'a ObjectProperties) -> ApiReply<'a, UploadId> {
        self.leased(self.inner.begin_upload(key, properties))
    }

    fn put_part<'a>(&'a self, part: PutPart<'a>) -> ApiReply<'a, PartTag> {
        self.leased(self.inner.put_part(part))
    }

    fn copy_part<'a>(&'a self, part: CopyPart<'a>) -> ApiReply<'a, PartTag> {
        self.leased(self.inner.copy_part(part))
    }

    fn list_parts<'a>(&'a self, key: &'a str, upload: &'a UploadId) -> ApiReply<'a, Option<Vec<PartTag>>> {
        self.inner.list_parts(key, upload)
    }

    fn complete_upload<'a>(&'a self, upload: CompleteUpload<'a>) -> ApiReply<'a, StoredObject> {
        self.leased(self.inner.complete_upload(upload))
    }

    /// Removes an upload of this lease, which may be done at any time.
    fn abort_upload<'a>(&'a self, key: &'a str, upload: &'a UploadId) -> ApiReply<'a, ()> {
        self.inner.abort_upload(key, upload)
    }

    fn list_uploads<'a>(&'a self, prefix: &'a str) -> ApiReply<'a, Vec<UnfinishedUpload>> {
        self.inner.list_uploads(prefix)
    }
}
