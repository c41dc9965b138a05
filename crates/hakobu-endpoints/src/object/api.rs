//! The requests that an object store answers, whatever the provider.
//!
//! A [`Bucket`] is shared by all lanes: it has the credentials, the budget of requests in flight, and the counts. An
//! [`ObjectApi`] belongs to one lane and has that lane's connections. Its futures must be polled on the lane's runtime.
//!
//! Requests are retried inside, as far as that can help. An error that comes out is final for this request. A key that
//! no request can carry unchanged (an empty one, or one with an empty, `.` or `..` segment) fails with
//! `ErrorKind::Unsupported` before anything is sent.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use hakobu_core::Result;
use hakobu_core::entry::FileTime;
use hakobu_core::extent::Extent;
use hakobu_core::key_spelling::KeySpelling;
pub use hakobu_core::requests::{RequestCosts, RequestCounts};

use super::copy_place::CopyPlace;
use super::metadata::MetadataConvention;
pub use super::stored_checksum::StoredChecksum;

/// The future answer to a request.
pub type ApiReply<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// The bytes of an object as they arrive. It ends with an error unless exactly the promised length arrived.
pub type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// An opened bucket (S3, GCS) or container (Azure), shared by the lanes of an endpoint.
pub trait Bucket: Send + Sync + 'static {
    /// Returns the location of a key for people, such as `s3://bucket/key`.
    fn location(&self, key: &str) -> String;

    /// Returns what tells this bucket from all others: the endpoint and the name.
    fn identity(&self) -> String;

    /// Returns the limits of the store.
    fn limits(&self) -> &StoreLimits;

    /// Returns the place among the buckets that the store copies objects between; `None` if it copies none, or not with
    /// the properties that new objects are to have.
    fn copy_place(&self) -> Option<CopyPlace> {
        None
    }

    /// Returns true if requests go through TLS, or `None` if that is not known.
    fn uses_tls(&self) -> Option<bool> {
        None
    }

    /// Returns the requests that pieces of work take; `None` if nothing is known of them.
    fn request_costs(&self) -> Option<&'static RequestCosts> {
        None
    }

    /// Returns the requests of all lanes so far, retries included.
    fn requests(&self) -> RequestCounts;

    /// Returns the difference between the store's clock and this machine's, from all answers so far; `None` before the
    /// first answer, or if the store does not send its time.
    fn clock(&self) -> Option<ClockOffset>;

    /// Returns the shortest time that an answer took so far, or `None` if that is not known.
    fn answer_time(&self) -> Option<Duration> {
        None
    }

    /// Opens connections for a lane. Call it on the lane's runtime.
    ///
    /// # Errors
    /// If the client cannot be set up. The store is not asked.
    fn connect(&self) -> Result<Box<dyn ObjectApi>>;
}

/// The requests of one lane.
///
/// # Errors
/// All methods: `Unauthenticated` if the credentials do not work, `NotFound` if the bucket or the named object does not
/// exist, `PermissionDenied` if this key is denied, `TimedOut` or `ConnectionLost` after retries, `Protocol` if the
/// answer is none of the store's.
pub trait ObjectApi: Send + Sync + 'static {
    /// Returns the limits of the store.
    fn limits(&self) -> &StoreLimits;

    /// Returns a page of keys in the store's order.
    fn list<'a>(&'a self, query: ListQuery<'a>) -> ApiReply<'a, ObjectPage>;

    /// Returns the metadata of an object, or `None` if it does not exist.
    fn head<'a>(&'a self, key: &'a str) -> ApiReply<'a, Option<ObjectHead>>;

    /// Reads an object, or a range of it. The answer comes when the body begins.
    ///
    /// # Errors
    /// `SourceVanished` if it does not exist. `SourceChanged` if it is not `version`, which is compared here too, as
    /// some servers ignore conditions. `Unsupported` if it is archived.
    fn get<'a>(
        &'a self,
        key: &'a str,
        range: Option<Extent>,
        version: Option<&'a ObjectVersion>,
    ) -> ApiReply<'a, ObjectBody>;

    /// Stores an object in one request. `limits().put_bytes_max` is the largest.
    ///
    /// # Errors
    /// `Conflict` if the condition does not hold, `Corrupt` if the store received other bytes twice.
    fn put<'a>(&'a self, object: PutObject<'a>) -> ApiReply<'a, StoredObject>;

    /// Copies an object inside the store, up to `limits().copy_bytes_max`.
    ///
    /// # Errors
    /// `SourceChanged` if the object is not the version named, `SourceVanished` if it does not exist, `Conflict` if the
    /// condition does not hold.
    fn copy<'a>(&'a self, copy: CopyObject<'a>) -> ApiReply<'a, StoredObject>;

    /// Removes objects, `limits().delete_batch` at most, and returns the outcome for each key. A key that does not exist
    /// counts as removed.
    ///
    /// # Errors
    /// If the request fails as a whole.
    fn delete<'a>(&'a self, keys: &'a [String]) -> ApiReply<'a, Vec<Result<()>>>;

    /// Begins an object that is sent in parts. Its properties are fixed here.
    fn begin_upload<'a>(&'a self, key: &'a str, properties: &'a ObjectProperties) -> ApiReply<'a, UploadId>;

    /// Sends a part. A part with the same number replaces an earlier one.
    ///
    /// # Errors
    /// `SourceVanished` if the upload does not exist any more, `Corrupt` if the store received other bytes twice.
    fn put_part<'a>(&'a self, part: PutPart<'a>) -> ApiReply<'a, PartTag>;

    /// Copies a range of an object inside the store as a part. The checksum that comes back serves only to
    /// complete the upload: some stores name that of the whole source.
    ///
    /// # Errors
    /// As for [`ObjectApi::copy`] and [`ObjectApi::put_part`].
    fn copy_part<'a>(&'a self, part: CopyPart<'a>) -> ApiReply<'a, PartTag>;

    /// Returns the parts of an upload that have arrived, by number; `None` if the upload does not exist any more.
    fn list_parts<'a>(&'a self, key: &'a str, upload: &'a UploadId) -> ApiReply<'a, Option<Vec<PartTag>>>;

    /// Makes an object of the parts, which must be in the order of their numbers.
    ///
    /// # Errors
    /// `Conflict` if the condition does not hold, `Corrupt` if the store's checksum of the whole differs.
    fn complete_upload<'a>(&'a self, upload: CompleteUpload<'a>) -> ApiReply<'a, StoredObject>;

    /// Removes an upload and its parts. One that does not exist counts as removed.
    fn abort_upload<'a>(&'a self, key: &'a str, upload: &'a UploadId) -> ApiReply<'a, ()>;

    /// Returns the unfinished uploads of keys that begin with `prefix`.
    fn list_uploads<'a>(&'a self, prefix: &'a str) -> ApiReply<'a, Vec<UnfinishedUpload>>;
}

/// The limits of a store, and what it can do beyond the requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// The smallest part in bytes; the last one may be smaller.
    pub part_bytes_min: u64,
    /// The largest part in bytes.
    pub part_bytes_max: u64,
    /// The most parts of an object. Numbers begin with 1.
    pub parts_max: u32,
    /// The largest object in bytes.
    pub object_bytes_max: u64,
    /// The largest object in bytes that one request stores.
    pub put_bytes_max: u64,
    /// The largest object in bytes that one request copies.
    pub copy_bytes_max: u64,
    /// The longest key in bytes.
    pub key_bytes_max: usize,
    /// The most bytes of metadata, names and values together.
    pub metadata_bytes_max: usize,
    /// The most keys that one request removes.
    pub delete_batch: usize,
    /// The most entries in a page of a listing.
    pub list_page: usize,
    /// True if listings are in the order of the keys' bytes.
    pub lists_bytewise: bool,
    /// True if listings show custom metadata.
    pub lists_metadata: bool,
    /// True if an object that replaces another can be made to depend on that one's version.
    pub conditional_put: bool,
    /// The checksum that is offered for uploads; `None` if the store checks none.
    pub checksum: Option<ChecksumKind>,
    /// The names of metadata.
    pub convention: MetadataConvention,
    /// The spelling of names in keys.
    pub spelling: KeySpelling,
}

/// A kind of checksum that stores keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumKind {
    /// CRC-64/NVME.
    Crc64,
    /// CRC-32C.
    Crc32c,
    /// MD5.
    Md5,
}

/// A page of a listing to ask for.
#[derive(Clone, Copy, Debug)]
pub struct ListQuery<'a> {
    /// Only keys that begin with this; empty for all.
    pub prefix: &'a str,
    /// True to return what keys share up to the next slash once, as a prefix.
    pub delimiter: bool,
    /// Where the page begins.
    pub start: ListStart<'a>,
    /// The key before which the listing ends. Ask only if `lists_bytewise`.
    pub until: Option<&'a str>,
    /// The most entries, objects and prefixes together. A page may have fewer, even none, and still not be the last.
    pub entries: usize,
}

/// Where a page of a listing begins.
#[derive(Clone, Copy, Debug)]
pub enum ListStart<'a> {
    /// At the first key.
    First,
    /// After this key. With a delimiter, nothing that begins with it is left out except itself. Ask only if
    /// `lists_bytewise`.
    After(&'a str),
    /// Where an earlier page ended.
    Cursor(&'a ListCursor),
}

/// A place between two pages of a listing, in the store's own words. It holds for the same prefix and delimiter, also in
/// another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListCursor(pub String);

/// A page of a listing. Objects and prefixes are each in the store's order, and begin with the prefix asked for.
#[derive(Clone, Debug, Default)]
pub struct ObjectPage {
    /// The objects.
    pub objects: Vec<ListedObject>,
    /// The common beginnings of keys, with the slash at the end; empty without a delimiter.
    pub prefixes: Vec<String>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<ListCursor>,
}

/// An object as a listing shows it. The key may be one that no other request can carry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedObject {
    /// The key.
    pub key: String,
    /// The size in bytes.
    pub size_bytes: u64,
    /// The time of the upload by the store's clock. A lower bound: most stores list whole seconds.
    pub uploaded: FileTime,
    /// The version, as far as the listing shows it.
    pub version: ObjectVersion,
    /// The storage class; `None` if it is the usual one or the store has none.
    pub storage_class: Option<String>,
    /// True if it must be restored before it can be read.
    pub is_archived: bool,
    /// Custom metadata, if listings show it: names in lower case without the provider's prefix.
    pub metadata: Option<Vec<(String, String)>>,
    /// The checksum, if listings show it.
    pub checksum: Option<StoredChecksum>,
    /// The MD5 of the content, if listings show it beside another checksum.
    pub md5: Option<[u8; 16]>,
}

/// The metadata of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectHead {
    /// The size in bytes of the whole object.
    pub size_bytes: u64,
    /// The time of the upload by the store's clock, in whole seconds.
    pub uploaded: FileTime,
    /// The version.
    pub version: ObjectVersion,
    /// Custom metadata: names in lower case without the provider's prefix.
    pub metadata: Vec<(String, String)>,
    /// The content type.
    pub content_type: Option<String>,
    /// The checksum of all bytes.
    pub checksum: Option<StoredChecksum>,
    /// The MD5 of all bytes, if the store shows it beside another checksum.
    pub md5: Option<[u8; 16]>,
    /// The storage class; `None` if it is the usual one or the store has none.
    pub storage_class: Option<String>,
    /// True if it must be restored before it can be read.
    pub is_archived: bool,
}

/// A mark that differs between the contents that a key has had. At least one field is set where the store has versions at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObjectVersion {
    /// The entity tag, with its quotes.
    pub etag: Option<String>,
    /// The generation (GCS).
    pub generation: Option<u64>,
}

impl ObjectVersion {
    /// Returns true if nothing is known.
    pub fn is_unknown(&self) -> bool {
        self.etag.is_none() && self.generation.is_none()
    }
}

/// An object that is being read.
pub struct ObjectBody {
    /// The metadata. `size_bytes` is that of the whole object, also for a range.
    pub head: ObjectHead,
    /// The bytes of the object or range.
    pub chunks: BodyStream,
}

/// Attributes that are stored with the content of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectProperties {
    /// The content type; `None` leaves it to the store.
    pub content_type: Option<String>,
    /// Custom metadata: names in lower case without the provider's prefix, values in ASCII.
    pub metadata: Vec<(String, String)>,
    /// The storage class; `None` for the usual one.
    pub storage_class: Option<String>,
}

/// A condition on the object that a request replaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PutCondition {
    /// None: replace whatever is there.
    #[default]
    None,
    /// There is no object with that key.
    IfAbsent,
    /// The object has this version.
    IfVersion(ObjectVersion),
}

/// An object to store in one request.
#[derive(Clone, Debug)]
pub struct PutObject<'a> {
    /// The key.
    pub key: &'a str,
    /// The content in pieces, which are not copied.
    pub content: Vec<Bytes>,
    /// Attributes that are stored with it.
    pub properties: &'a ObjectProperties,
    /// A condition on the object that it replaces.
    pub condition: &'a PutCondition,
    /// CRC-64/NVME of the content, for the store to check.
    pub crc64: Option<u64>,
}

/// An object that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// Its version.
    pub version: ObjectVersion,
    /// True if the store checked the checksum: it returned the value that was sent.
    pub is_checked: bool,
}

/// An object to copy from.
#[derive(Clone, Copy, Debug)]
pub struct CopySource<'a> {
    /// The bucket; `None` for the one that the request goes to.
    pub bucket: Option<&'a str>,
    /// The key.
    pub key: &'a str,
    /// The version that it must have.
    pub version: Option<&'a ObjectVersion>,
    /// The time by the store's clock since which it must not have been replaced. Ask only if not `lists_metadata`.
    pub unmodified_since: Option<FileTime>,
}

/// A copy inside the store.
#[derive(Clone, Copy, Debug)]
pub struct CopyObject<'a> {
    /// The object to copy.
    pub source: CopySource<'a>,
    /// The new key. It may be that of the source, to change properties.
    pub key: &'a str,
    /// The properties of the copy; `None` for those of the source.
    pub properties: Option<&'a ObjectProperties>,
    /// A condition on the object that it replaces.
    pub condition: &'a PutCondition,
    /// The time of upload of the object that it replaces, if it must have a later one. A store that keeps the time is reported
    /// as `Unsupported`, although the copy exists.
    pub renews: Option<FileTime>,
}

/// An upload in parts, by the name that the store gave it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct UploadId(pub String);

/// A part to send.
#[derive(Clone, Debug)]
pub struct PutPart<'a> {
    /// The key of the object.
    pub key: &'a str,
    /// The upload.
    pub upload: &'a UploadId,
    /// The number, from 1.
    pub number: u32,
    /// The content in pieces, which are not copied.
    pub content: Vec<Bytes>,
    /// CRC-64/NVME of the content, for the store to check.
    pub crc64: Option<u64>,
}

/// A part to copy inside the store.
#[derive(Clone, Copy, Debug)]
pub struct CopyPart<'a> {
    /// The object to copy from.
    pub source: CopySource<'a>,
    /// The range to copy.
    pub range: Extent,
    /// The key of the new object.
    pub key: &'a str,
    /// The upload.
    pub upload: &'a UploadId,
    /// The number, from 1.
    pub number: u32,
}

/// A part that the store has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartTag {
    /// The number, from 1.
    pub number: u32,
    /// The size in bytes.
    pub size_bytes: u64,
    /// The entity tag, with its quotes; empty in the listings of stores that do not show it. An upload is completed with
    /// the tag that [`ObjectApi::put_part`] returned.
    pub etag: String,
    /// The CRC-64/NVME that the store has of it.
    pub crc64: Option<u64>,
}

/// An upload to complete.
#[derive(Clone, Copy, Debug)]
pub struct CompleteUpload<'a> {
    /// The key of the object.
    pub key: &'a str,
    /// The upload.
    pub upload: &'a UploadId,
    /// The parts in the order of their numbers.
    pub parts: &'a [PartTag],
    /// The properties as they are known now, for stores that take them at the end.
    pub properties: Option<&'a ObjectProperties>,
    /// CRC-64/NVME of the whole, for the store to check.
    pub crc64: Option<u64>,
    /// A condition on the object that it replaces.
    pub condition: &'a PutCondition,
}

/// An upload that was begun and neither completed nor aborted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnfinishedUpload {
    /// The key of the object.
    pub key: String,
    /// The upload.
    pub upload: UploadId,
    /// The time at which it began, by the store's clock.
    pub begun: FileTime,
}

/// The difference of the store's clock from this machine's: positive if the store is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// The smallest difference that fits all answers, in nanoseconds.
    pub least_ns: i64,
    /// The largest difference that fits all answers, in nanoseconds.
    pub most_ns: i64,
}
