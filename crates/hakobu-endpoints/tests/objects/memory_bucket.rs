//! A bucket in memory that follows S3's rules, to test the lanes without a server.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures_util::stream;
use hakobu_core::Result;
use hakobu_core::checksum::crc64;
use hakobu_core::entry::FileTime;
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::extent::Extent;
use hakobu_core::key_spelling::KeySpelling;
use hakobu_endpoints::object::api::*;
use hakobu_endpoints::object::copy_place::CopyPlace;
use hakobu_endpoints::object::metadata::MetadataConvention;

#[derive(Clone, Debug)]
struct Object {
    content: Arc<[u8]>,
    properties: ObjectProperties,
    uploaded: FileTime,
    version: u64,
}

#[derive(Debug, Default)]
struct Upload {
    key: String,
    properties: ObjectProperties,
    parts: BTreeMap<u32, Arc<[u8]>>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Object>,
    uploads: HashMap<String, Upload>,
    counter: u64,
    requests: RequestCounts,
    parts: u64,
    lists_endlessly: bool,
    refuses_copies: bool,
    /// Listings of keys that begin with anything else are denied.
    may_list: String,
    /// Content of objects whose keys begin with anything else is denied, also that of objects that do not exist.
    may_read: String,
    checks_nothing: bool,
}

/// A bucket in memory.
#[derive(Clone, Debug)]
pub struct MemoryBucket {
    state: Arc<Mutex<State>>,
    limits: StoreLimits,
}

impl MemoryBucket {
    /// Returns an empty bucket whose listings have pages of `list_page` keys.
    pub fn new(list_page: usize) -> Self {
        let limits = StoreLimits {
            part_bytes_min: 5 << 20,
            part_bytes_max: 5 << 30,
            parts_max: 10_000,
            object_bytes_max: 48 << 40,
            put_bytes_max: 5 << 30,
            copy_bytes_max: 5 << 30,
            key_bytes_max: 1024,
            metadata_bytes_max: 2048,
            delete_batch: 1000,
            list_page,
            lists_bytewise: true,
            lists_metadata: false,
            conditional_put: true,
            checksum: Some(ChecksumKind::Crc64),
            convention: MetadataConvention::S3,
            spelling: KeySpelling::S3,
        };
        Self { state: Arc::default(), limits }
    }

    /// Returns an empty bucket with an order of its own, that hides the objects of directories from listings of what
    /// is in them, as Azure does.
    pub fn without_order(list_page: usize) -> Self {
        let bucket = Self::new(list_page);
        let limits = StoreLimits {
            metadata_bytes_max: 8192,
            lists_bytewise: false,
            lists_metadata: true,
            convention: MetadataConvention::Azure,
            spelling: KeySpelling::Azure,
            ..bucket.limits
        };
        Self { limits, ..bucket }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Stores an object, as another tool would.
    pub fn add(&self, key: &str, content: &[u8]) {
        self.state().put(key, content.into(), &ObjectProperties::default());
    }

    /// Limits what is copied in one request.
    #[must_use]
    pub fn copying(mut self, bytes_max: u64) -> Self {
        self.limits.copy_bytes_max = bytes_max;
        self
    }

    /// Denies listings of keys that do not begin with `prefix`.
    pub fn list_only(&self, prefix: &str) {
        prefix.clone_into(&mut self.state().may_list);
    }

    /// Denies the content of objects whose keys do not begin with `prefix`, and of those that do not exist.
    pub fn read_only(&self, prefix: &str) {
        prefix.clone_into(&mut self.state().may_read);
    }

    /// Makes all copies inside the store fail.
    pub fn refuse_copies(&self) {
        self.state().refuses_copies = true;
    }

    /// Returns the requests so far.
    pub fn requests_so_far(&self) -> RequestCounts {
        self.state().requests
    }

    /// Returns all objects that begin with a prefix, without it: their content and properties.
    pub fn below(&self, prefix: &str) -> BTreeMap<String, (Arc<[u8]>, ObjectProperties)> {
        let state = self.state();
        let below = state.objects.iter().filter_map(|(key, object)| {
            let key = key.strip_prefix(prefix)?.to_owned();
            Some((key, (object.content.clone(), object.properties.clone())))
        });
        below.collect()
    }

    /// Removes an object, as another tool would.
    pub fn remove(&self, key: &str) {
        self.state().objects.remove(key);
    }

    /// Replaces the content of an object and keeps its metadata, as another tool would.
    pub fn replace_content(&self, key: &str, content: &[u8]) {
        let mut state = self.state();
        let properties = state.objects[key].properties.clone();
        state.put(key, content.into(), &properties);
    }

    /// Keeps no checksums from now on.
    pub fn check_nothing(&self) {
        self.state().checks_nothing = true;
    }

    /// Returns all keys.
    pub fn keys(&self) -> Vec<String> {
        self.state().objects.keys().cloned().collect()
    }

    /// Makes all listings come back to where they were.
    pub fn list_endlessly(&self) {
        self.state().lists_endlessly = true;
    }

    /// Returns the content of an object.
    pub fn content(&self, key: &str) -> Option<Arc<[u8]>> {
        self.state().objects.get(key).map(|object| object.content.clone())
    }

    /// Returns the number of parts that have arrived.
    pub fn parts(&self) -> u64 {
        self.state().parts
    }

    /// Loses a part of each unfinished upload.
    pub fn lose_part(&self, number: u32) {
        self.state().uploads.values_mut().for_each(|upload| drop(upload.parts.remove(&number)));
    }

    /// Loses all unfinished uploads.
    pub fn lose_uploads(&self) {
        self.state().uploads.clear();
    }

    /// Returns the number of uploads that were neither completed nor aborted.
    pub fn unfinished(&self) -> usize {
        self.state().uploads.len()
    }
}

impl MemoryBucket {
    fn listed(&self, key: &str, object: &Object) -> ListedObject {
        ListedObject {
            key: key.to_owned(),
            size_bytes: object.content.len() as u64,
            uploaded: object.uploaded,
            version: version(object),
            storage_class: None,
            is_archived: false,
            metadata: self.limits.lists_metadata.then(|| object.properties.metadata.clone()),
            checksum: None,
            md5: blake3::hash(&object.content).as_bytes().first_chunk().copied(),
        }
    }
}

impl State {
    fn put(&mut self, key: &str, content: Arc<[u8]>, properties: &ObjectProperties) -> StoredObject {
        self.counter += 1;
        // Each upload is at another second, so that listings show it.
        let uploaded = FileTime { seconds: 1_700_000_000 + self.counter as i64, nanoseconds: 0 };
        let object = Object { content, properties: properties.clone(), uploaded, version: self.counter };
        let version = version(&object);
        self.objects.insert(key.to_owned(), object);
        StoredObject { version, is_checked: true }
    }

    fn head(&self, object: &Object) -> ObjectHead {
        ObjectHead {
            size_bytes: object.content.len() as u64,
            uploaded: object.uploaded,
            version: version(object),
            metadata: object.properties.metadata.clone(),
            content_type: object.properties.content_type.clone(),
            md5: None,
            checksum: (!self.checks_nothing).then(|| StoredChecksum::Crc64(crc64(&object.content))),
            storage_class: None,
            is_archived: false,
        }
    }

    fn check(&self, key: &str, condition: &PutCondition) -> Result<()> {
        let there = self.objects.get(key).map(version);
        match condition {
            PutCondition::None => Ok(()),
            PutCondition::IfAbsent if there.is_none() => Ok(()),
            PutCondition::IfVersion(wanted) if there.as_ref() == Some(wanted) => Ok(()),
            _ => Err(Error::new(ErrorKind::Conflict, "storing", "the condition does not hold")),
        }
    }
}

fn version(object: &Object) -> ObjectVersion {
    ObjectVersion { etag: Some(format!("\"{}\"", object.version)), generation: None }
}

fn whole(pieces: &[Bytes], sum: Option<u64>) -> Result<Arc<[u8]>> {
    let content: Vec<u8> = pieces.concat();
    match sum.is_none_or(|sum| sum == crc64(&content)) {
        true => Ok(content.into()),
        false => Err(Error::new(ErrorKind::Corrupt, "storing", "the checksum is another")),
    }
}

fn vanished() -> Error {
    Error::new(ErrorKind::SourceVanished, "reading", "there is no such object")
}

fn reply<'a, T: Send + 'a>(result: Result<T>) -> ApiReply<'a, T> {
    Box::pin(async move {
        // Other requests come in between, as over a network.
        tokio::task::yield_now().await;
        result
    })
}

impl Bucket for MemoryBucket {
    fn location(&self, key: &str) -> String {
        format!("s3://memory/{key}")
    }

    fn identity(&self) -> String {
        "memory".to_owned()
    }

    fn limits(&self) -> &StoreLimits {
        &self.limits
    }

    fn copy_place(&self) -> Option<CopyPlace> {
        Some(CopyPlace { store: "memory".to_owned(), bucket: "bucket".to_owned() })
    }

    fn requests(&self) -> RequestCounts {
        self.state().requests
    }

    fn clock(&self) -> Option<ClockOffset> {
        None
    }

    fn connect(&self) -> Result<Box<dyn ObjectApi>> {
        Ok(Box::new(self.clone()))
    }
}

impl ObjectApi for MemoryBucket {
    fn limits(&self) -> &StoreLimits {
        &self.limits
    }

    fn list<'a>(&'a self, query: ListQuery<'a>) -> ApiReply<'a, ObjectPage> {
        let mut state = self.state();
        state.requests.list += 1;
        if !query.prefix.starts_with(&state.may_list) {
            return reply(Err(Error::new(ErrorKind::PermissionDenied, "listing", "not this prefix")));
        }
        let after = match query.start {
            ListStart::First => Bound::Included(query.prefix.to_owned()),
            ListStart::After(key) => Bound::Excluded(key.max(query.prefix).to_owned()),
            ListStart::Cursor(ListCursor(last)) => Bound::Excluded(last.clone()),
        };
        if state.lists_endlessly {
            let next = Some(ListCursor("again".to_owned()));
            return reply(Ok(ObjectPage { next, ..ObjectPage::default() }));
        }
        let mut page = ObjectPage::default();
        let most = query.entries.min(self.limits.list_page);
        let mut last: Option<String> = None;
        let has_order = self.limits.lists_bytewise;
        assert!(query.until.is_none(), "not used yet");
        assert!(has_order || !matches!(query.start, ListStart::After(_)), "it has no such order");
        for (key, object) in state.objects.range((after, Bound::Unbounded)) {
            if !key.starts_with(query.prefix) {
                if key.as_str() < query.prefix {
                    continue;
                }
                break;
            }
            if !has_order && key == query.prefix && !key.is_empty() {
                continue;
            }
            // A directory that was listed already.
            if last.as_ref().is_some_and(|last| key <= last) {
                continue;
            }
            if page.objects.len() + page.prefixes.len() == most {
                page.next = last.clone().map(ListCursor);
                break;
            }
            let relative = &key[query.prefix.len()..];
            let slash = relative.find('/').filter(|slash| query.delimiter && slash + 1 < relative.len());
            if let Some(slash) = slash {
                let prefix = key[..query.prefix.len() + slash + 1].to_owned();
                last = Some(format!("{prefix}{}", char::MAX));
                page.prefixes.push(prefix);
                continue;
            }
            last = Some(key.clone());
            page.objects.push(self.listed(key, object));
        }
        if !has_order {
            page.objects.reverse();
            let is_empty = page.objects.is_empty() && page.prefixes.is_empty();
            if let (true, Some(own)) = (is_empty, state.objects.get(query.prefix)) {
                page.objects.push(self.listed(query.prefix, own));
            }
        }
        drop(state);
        reply(Ok(page))
    }

    fn head<'a>(&'a self, key: &'a str) -> ApiReply<'a, Option<ObjectHead>> {
        let mut state = self.state();
        state.requests.head += 1;
        let marker = || state.objects.get(&format!("{key}/")).filter(|_| !self.limits.lists_bytewise);
        reply(Ok(state.objects.get(key).or_else(marker).map(|object| state.head(object))))
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        range: Option<Extent>,
        wanted: Option<&'a ObjectVersion>,
    ) -> ApiReply<'a, ObjectBody> {
        let mut state = self.state();
        state.requests.get += 1;
        let is_denied = !state.may_read.is_empty();
        if !key.starts_with(&state.may_read) || is_denied && !state.objects.contains_key(key) {
            return reply(Err(Error::new(ErrorKind::PermissionDenied, "reading", "not this object")));
        }
        let Some(object) = state.objects.get(key) else { return reply(Err(vanished())) };
        if wanted.is_some_and(|wanted| *wanted != version(object)) {
            return reply(Err(Error::new(ErrorKind::SourceChanged, "reading", "it is another version")));
        }
        let range = range.unwrap_or(Extent { offset: 0, length: object.content.len() as u64 });
        let content = object.content.get(range.offset as usize..range.end() as usize).unwrap_or_default();
        let chunks: Vec<Result<Bytes>> =
            content.chunks(100_000).map(|some| Ok(Bytes::copy_from_slice(some))).collect();
        reply(Ok(ObjectBody { head: state.head(object), chunks: Box::pin(stream::iter(chunks)) }))
    }

    fn put<'a>(&'a self, object: PutObject<'a>) -> ApiReply<'a, StoredObject> {
        let mut state = self.state();
        state.requests.put += 1;
        let stored = state.check(object.key, object.condition).and_then(|()| {
            Ok(state.put(object.key, whole(&object.content, object.crc64)?, object.properties))
        });
        reply(stored)
    }

    fn copy<'a>(&'a self, copy: CopyObject<'a>) -> ApiReply<'a, StoredObject> {
        let mut state = self.state();
        state.requests.copy += 1;
        assert!(copy.source.bucket.is_none_or(|bucket| bucket == "bucket"));
        if state.refuses_copies {
            return reply(Err(Error::new(ErrorKind::PermissionDenied, "copying", "the account must not")));
        }
        let Some(object) = state.objects.get(copy.source.key).cloned() else { return reply(Err(vanished())) };
        let stored = state.check(copy.key, copy.condition).map(|()| {
            let properties = copy.properties.unwrap_or(&object.properties).clone();
            state.put(copy.key, object.content, &properties)
        });
        reply(stored)
    }

    fn delete<'a>(&'a self, keys: &'a [String]) -> ApiReply<'a, Vec<Result<()>>> {
        let mut state = self.state();
        state.requests.delete += 1;
        keys.iter().for_each(|key| drop(state.objects.remove(key)));
        reply(Ok(keys.iter().map(|_| Ok(())).collect()))
    }

    fn begin_upload<'a>(&'a self, key: &'a str, properties: &'a ObjectProperties) -> ApiReply<'a, UploadId> {
        let mut state = self.state();
        state.counter += 1;
        let id = state.counter.to_string();
        let upload = Upload { key: key.to_owned(), properties: properties.clone(), parts: BTreeMap::new() };
        state.uploads.insert(id.clone(), upload);
        reply(Ok(UploadId(id)))
    }

    fn put_part<'a>(&'a self, part: PutPart<'a>) -> ApiReply<'a, PartTag> {
        let mut state = self.state();
        let stored = whole(&part.content, part.crc64).and_then(|content| {
            let upload = state.uploads.get_mut(&part.upload.0).ok_or_else(vanished)?;
            let tag = PartTag {
                number: part.number,
                size_bytes: content.len() as u64,
                etag: format!("\"{:x}\"", crc64(&content)),
                crc64: Some(crc64(&content)),
            };
            upload.parts.insert(part.number, content);
            state.parts += 1;
            Ok(tag)
        });
        reply(stored)
    }

    fn copy_part<'a>(&'a self, part: CopyPart<'a>) -> ApiReply<'a, PartTag> {
        let mut state = self.state();
        state.requests.copy += 1;
        let Some(object) = state.objects.get(part.source.key).cloned() else { return reply(Err(vanished())) };
        assert_eq!(part.source.version, Some(&version(&object)));
        let (from, to) = (part.range.offset as usize, part.range.end() as usize);
        let stored = state.uploads.get_mut(&part.upload.0).ok_or_else(vanished).map(|upload| {
            upload.parts.insert(part.number, object.content[from..to].into());
            PartTag { number: part.number, size_bytes: part.range.length, ..PartTag::default() }
        });
        reply(stored)
    }

    fn list_parts<'a>(&'a self, _key: &'a str, upload: &'a UploadId) -> ApiReply<'a, Option<Vec<PartTag>>> {
        let state = self.state();
        let tags = state.uploads.get(&upload.0).map(|upload| {
            let tag = |(number, content): (&u32, &Arc<[u8]>)| PartTag {
                number: *number,
                size_bytes: content.len() as u64,
                etag: format!("\"{:x}\"", crc64(content)),
                crc64: Some(crc64(content)),
            };
            upload.parts.iter().map(tag).collect()
        });
        reply(Ok(tags))
    }

    fn complete_upload<'a>(&'a self, wanted: CompleteUpload<'a>) -> ApiReply<'a, StoredObject> {
        let mut state = self.state();
        let stored = state.check(wanted.key, wanted.condition).and_then(|()| {
            let upload = state.uploads.remove(&wanted.upload.0).ok_or_else(vanished)?;
            assert_eq!(upload.key, wanted.key);
            let (last, mut content) = (wanted.parts.len(), Vec::new());
            for (index, part) in wanted.parts.iter().enumerate() {
                let there = upload.parts.get(&part.number).ok_or_else(vanished)?;
                assert!(index + 1 == last || there.len() >= 5 << 20, "a part is too small");
                content.extend_from_slice(there);
            }
            let content = whole(&[Bytes::from(content)], wanted.crc64)?;
            Ok(state.put(wanted.key, content, &upload.properties))
        });
        reply(stored)
    }

    fn abort_upload<'a>(&'a self, _key: &'a str, upload: &'a UploadId) -> ApiReply<'a, ()> {
        self.state().uploads.remove(&upload.0);
        reply(Ok(()))
    }

    fn list_uploads<'a>(&'a self, _prefix: &'a str) -> ApiReply<'a, Vec<UnfinishedUpload>> {
        reply(Ok(Vec::new()))
    }
}
