//! Objects in parts at servers that know no uploads in parts. Each part is an object of its own, with a name that listings
//! leave out, until they are put together, 32 at a time.

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use hakobu_core::{Error, ErrorKind, Result};
use http::Method;
use http::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};

use super::bucket::GcsNewObjects;
use super::put::random_digits;
use super::request::{GcsLane, GcsRequest};
use super::resource::{NewResource, ObjectResource};
use super::upload::{BEGINNING, COMPLETING, GONE, SENDING};
use crate::object::api::{
    CompleteUpload, ObjectProperties, PartTag, PutCondition, PutPart, StoredObject, UnfinishedUpload,
    UploadId,
};
use crate::object::counts::RequestKind;

/// The beginning of the names of parts. It is followed by the upload's digits and the part's name.
const FOLDER: &str = ".hakobu.parts/";
/// The name of the object that says what the upload is of.
const SUBJECT: &str = "upload";
const DIGITS: usize = 32;
/// The beginning of the IDs of such uploads. Google's own have no colon.
const ID_PREFIX: &str = "parts:";
/// The most objects that one request puts together.
const SOURCES_MAX: usize = 32;
/// The requests of one upload that are in flight while it is completed.
const AT_ONCE: usize = 16;

/// The subject of an upload.
#[derive(Serialize, Deserialize)]
struct TemporaryUpload {
    key: String,
    content_type: Option<String>,
    storage_class: Option<String>,
    metadata: Vec<(String, String)>,
}

/// A request that makes one object of several.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ComposeRequest<'a> {
    destination: NewResource<'a>,
    source_objects: &'a [ComposedPart],
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ComposedPart {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_preconditions: Option<PartCondition>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PartCondition {
    if_generation_match: String,
}

/// Returns true if a key is that of a part, or of the subject of an upload.
pub(super) fn is_temporary(key: &str) -> bool {
    split(key).is_some()
}

/// Returns the digits and the name in the key of a part.
fn split(key: &str) -> Option<(&str, &str)> {
    let (digits, name) = key.strip_prefix(FOLDER)?.split_once('/')?;
    let is_id = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_id && !name.is_empty()).then_some((digits, name))
}

fn part_key(id: &str, number: u32) -> String {
    format!("{FOLDER}{id}/{number:05}")
}

impl GcsLane {
    /// Returns the digits of an upload whose parts are objects of their own.
    pub(super) fn temporary_id(upload: &UploadId) -> Option<&str> {
        let id = upload.0.strip_prefix(ID_PREFIX)?;
        split(&format!("{FOLDER}{id}/{SUBJECT}")).map(|_| id)
    }

    /// Checks that a key is none that listings leave out.
    ///
    /// # Errors
    /// `Unsupported` if it is.
    pub(super) fn check_free(&self, during: &'static str, key: &str) -> Result<()> {
        let cause = "the name stands for a part of an object that is not complete";
        match is_temporary(key) {
            false => Ok(()),
            true => Err(self
                .error_of(ErrorKind::Unsupported, during, key, cause)
                .hint("leave it out (--exclude .hakobu.parts)")),
        }
    }

    pub(super) async fn begin_temporary(&self, key: &str, properties: &ObjectProperties) -> Result<UploadId> {
        let id = random_digits();
        let subject = TemporaryUpload {
            key: key.to_owned(),
            content_type: properties.content_type.clone(),
            storage_class: properties.storage_class.clone(),
            metadata: properties.metadata.clone(),
        };
        let content = Bytes::from(serde_json::to_vec(&subject).unwrap_or_default());
        self.put_hidden(BEGINNING, &format!("{FOLDER}{id}/{SUBJECT}"), vec![content]).await?;
        Ok(UploadId(format!("{ID_PREFIX}{id}")))
    }

    async fn put_hidden(
        &self,
        during: &'static str,
        key: &str,
        content: Vec<Bytes>,
    ) -> Result<(StoredObject, u32)> {
        let properties = (&ObjectProperties::default(), &GcsNewObjects::default());
        self.put_as(during, key, content, properties, &PutCondition::None).await
    }

    pub(super) async fn put_temporary(&self, part: PutPart<'_>) -> Result<PartTag> {
        let PutPart { key, upload, number, content, crc64: _ } = part;
        let size_bytes = content.iter().map(|piece| piece.len() as u64).sum();
        let id = Self::temporary_id(upload).unwrap_or_default();
        let stored = self.put_hidden(SENDING, &part_key(id, number), content).await;
        let (stored, sum) = stored.map_err(|error| error.at(self.bucket.location_of(key)))?;
        self.note_sum(upload, number, (sum, size_bytes));
        Ok(PartTag { number, size_bytes, etag: etag(stored.version.generation), crc64: None })
    }

    pub(super) async fn list_temporary(&self, id: &str) -> Result<Option<Vec<PartTag>>> {
        let objects = self.all_below(&format!("{FOLDER}{id}/")).await?;
        let mut parts = Vec::new();
        let mut has_subject = false;
        for object in &objects {
            match split(&object.name) {
                Some((_, SUBJECT)) => has_subject = true,
                Some((_, name)) => {
                    // Objects that were made of several have other names.
                    if let (Ok(number), Some(size_bytes)) = (name.parse(), object.size_bytes()) {
                        let etag = etag(object.version().generation);
                        parts.push(PartTag { number, size_bytes, etag, crc64: None });
                    }
                }
                None => {}
            }
        }
        Ok(has_subject.then_some(parts))
    }

    /// Makes an object of the parts, and removes them.
    pub(super) async fn compose(
        &self,
        id: &str,
        upload: CompleteUpload<'_>,
        sum: Option<u32>,
    ) -> Result<StoredObject> {
        let CompleteUpload { key, upload: _, parts, properties, crc64: _, condition } = upload;
        let subject = self.subject(id).await?;
        let vanished = || self.error_of(ErrorKind::SourceVanished, COMPLETING, key, GONE);
        let subject = subject.filter(|subject| subject.key == key).ok_or_else(vanished)?;
        let begun_with = ObjectProperties {
            content_type: subject.content_type,
            metadata: subject.metadata,
            storage_class: subject.storage_class,
        };
        let properties = properties.unwrap_or(&begun_with);
        let of_part = |part: &PartTag| ComposedPart {
            name: part_key(id, part.number),
            object_preconditions: (!part.etag.is_empty())
                .then(|| PartCondition { if_generation_match: part.etag.clone() }),
        };
        let mut sources: Vec<ComposedPart> = parts.iter().map(of_part).collect();
        let none = (ObjectProperties::default(), GcsNewObjects::default());
        for level in 1.. {
            if sources.len() <= SOURCES_MAX {
                break;
            }
            let groups = sources.chunks(SOURCES_MAX).enumerate().map(|(index, group)| {
                let name = format!("{FOLDER}{id}/of-{level}-{index:05}");
                let none = &none;
                async move {
                    self.compose_some(&name, group, (&none.0, &none.1), &PutCondition::None).await?;
                    Ok::<_, Error>(ComposedPart { name, object_preconditions: None })
                }
            });
            let groups: Vec<_> = groups.collect();
            sources = stream::iter(groups).buffered(AT_ONCE).try_collect().await?;
        }
        let answer =
            self.compose_some(key, &sources, (properties, &self.bucket.new_objects), condition).await?;
        let stored = self.stored(COMPLETING, key, &answer, sum)?;
        // The object is complete, whatever is left.
        let _ = self.remove_temporary(id).await;
        Ok(stored)
    }

    async fn compose_some(
        &self,
        key: &str,
        sources: &[ComposedPart],
        (properties, usual): (&ObjectProperties, &GcsNewObjects),
        condition: &PutCondition,
    ) -> Result<Bytes> {
        let destination = NewResource::new(key, properties, usual);
        let request = ComposeRequest { destination, source_objects: sources };
        let body = Bytes::from(serde_json::to_vec(&request).unwrap_or_default());
        let url = format!("{}/compose", self.bucket.target.resource(key));
        let mut request = GcsRequest::new(RequestKind::Put, Method::POST, COMPLETING, url)
            .key(key)
            .condition(condition)
            .header(CONTENT_TYPE, "application/json")?
            .content(vec![body]);
        if let Some(acl) = usual.acl {
            request = request.query("destinationPredefinedAcl", acl.json);
        }
        let answer = self.perform(&request).await.map_err(|failure| self.put_failed(&request, failure))?;
        Ok(answer.body)
    }

    /// Returns the subject of an upload; `None` if there is none.
    async fn subject(&self, id: &str) -> Result<Option<TemporaryUpload>> {
        let content = self.read_whole(&format!("{FOLDER}{id}/{SUBJECT}")).await?;
        Ok(content.and_then(|content| serde_json::from_slice(&content).ok()))
    }

    /// Removes the parts of an upload, and its subject at last: as long as that is there, the upload is listed.
    pub(super) async fn remove_temporary(&self, id: &str) -> Result<()> {
        let objects: Vec<ObjectResource> = self.all_below(&format!("{FOLDER}{id}/")).await?;
        let (subject, parts): (Vec<_>, Vec<_>) = objects
            .into_iter()
            .map(|object| object.name)
            .partition(|key| split(key).is_some_and(|(_, name)| name == SUBJECT));
        for keys in [parts, subject] {
            self.delete(&keys).await?.into_iter().collect::<Result<()>>()?;
        }
        Ok(())
    }

    pub(super) async fn temporary_uploads(&self, prefix: &str) -> Result<Vec<UnfinishedUpload>> {
        let mut uploads = Vec::new();
        for object in self.all_below(FOLDER).await? {
            let Some((id, SUBJECT)) = split(&object.name) else { continue };
            let id = id.to_owned();
            let Some(listed) = object.listed() else { continue };
            // It may have been completed since it was listed.
            if let Some(subject) = self.subject(&id).await?
                && subject.key.starts_with(prefix)
            {
                let upload = UploadId(format!("{ID_PREFIX}{id}"));
                uploads.push(UnfinishedUpload { key: subject.key, upload, begun: listed.uploaded });
            }
        }
        Ok(uploads)
    }
}

/// Returns the tag of a part: its generation.
fn etag(generation: Option<u64>) -> String {
    generation.map(|generation| generation.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_of_parts_are_left_out() {
        let id = random_digits();
        assert!(is_temporary(&part_key(&id, 7)) && is_temporary(&format!("{FOLDER}{id}/{SUBJECT}")));
        for key in
            [".hakobu.parts/a", &format!("a/{FOLDER}{id}/1"), &format!("{FOLDER}{id}/"), ".hakobu.parts/"]
        {
            assert!(!is_temporary(key), "{key}");
        }
        assert_eq!(GcsLane::temporary_id(&UploadId(format!("parts:{id}"))), Some(&*id));
        assert_eq!(GcsLane::temporary_id(&UploadId("VXBsb2FkIElE".to_owned())), None);
        assert_eq!(GcsLane::temporary_id(&UploadId("parts:../x".to_owned())), None);
    }
}
