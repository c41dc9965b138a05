//! Copies inside the store, and new metadata for an object.

use std::collections::BTreeMap;

use bytes::Bytes;
use hakobu_core::{Error, ErrorKind, Result};
use http::Method;
use http::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};

use super::request::{GcsFailure, GcsLane, GcsRequest};
use super::resource::{NewResource, ObjectResource, content_type};
use crate::object::api::{CopyObject, CopySource, ObjectProperties, PutCondition, StoredObject};
use crate::object::counts::RequestKind;
use crate::object::s3::check_key;

const COPYING: &str = "copying the object inside the store";
const PATCHING: &str = "setting the metadata of the object";
const JSON: &str = "application/json";
/// The most requests that one copy takes. Each copies at least a megabyte.
const STEPS_MAX: usize = 10_000_000;

/// The answer to a step of a copy.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RewriteAnswer {
    done: bool,
    rewrite_token: Option<String>,
    resource: Option<ObjectResource>,
}

/// Fields of an object to change. A name of metadata without a value is removed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourcePatch<'a> {
    metadata: BTreeMap<&'a str, Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
}

impl GcsLane {
    pub(super) async fn copy(&self, copy: CopyObject<'_>) -> Result<StoredObject> {
        let CopyObject { source, key, properties, condition, renews: _ } = copy;
        if source.bucket.is_none_or(|bucket| bucket == self.bucket.name) && source.key == key {
            return match properties {
                Some(properties) => self.patch(key, source, properties, condition).await,
                None => Err(self.error_of(ErrorKind::Usage, COPYING, key, "source and target are the same")),
            };
        }
        let from = source.bucket.unwrap_or(&self.bucket.name);
        check_key(source.key, COPYING).map_err(|error| error.at(format!("gs://{from}/{}", source.key)))?;
        let body = match properties {
            Some(properties) => NewResource::new(key, properties, &self.bucket.new_objects).json(),
            None => Vec::new(),
        };
        let body = Bytes::from(body);
        let mut token = None::<String>;
        for _ in 0..STEPS_MAX {
            let url = self.bucket.target.rewrite(source.bucket, source.key, key);
            let mut request = GcsRequest::new(RequestKind::Copy, Method::POST, COPYING, url)
                .key(key)
                .condition(condition)
                .header(CONTENT_TYPE, JSON)?
                .content(vec![body.clone()]);
            if let Some(acl) = self.bucket.new_objects.acl {
                request = request.query("destinationPredefinedAcl", acl.json);
            }
            if let Some(generation) = source.version.and_then(|version| version.generation) {
                request = request.query("ifSourceGenerationMatch", generation.to_string());
            }
            if let Some(token) = &token {
                request = request.query("rewriteToken", token.as_str());
            }
            let answer = self
                .perform(&request)
                .await
                .map_err(|failure| self.copy_failed(&request, source, failure))?;
            let wrong = |cause| self.error_of(ErrorKind::Protocol, COPYING, key, cause);
            let answer: RewriteAnswer = serde_json::from_slice(&answer.body)
                .map_err(|_| wrong("the answer does not say how far the copy is"))?;
            if answer.done {
                let resource = answer.resource.ok_or_else(|| wrong("the answer has no object"))?;
                return Ok(StoredObject { version: resource.version(), is_checked: true });
            }
            token = answer.rewrite_token.filter(|token| !token.is_empty());
            if token.is_none() {
                return Err(wrong("the answer does not say where the copy goes on"));
            }
        }
        Err(self.error_of(ErrorKind::Protocol, COPYING, key, "the copy does not end"))
    }

    /// Gives an object other metadata. Its content stays untouched.
    pub(super) async fn patch(
        &self,
        key: &str,
        source: CopySource<'_>,
        properties: &ObjectProperties,
        condition: &PutCondition,
    ) -> Result<StoredObject> {
        let mut metadata: BTreeMap<&str, Option<&str>> =
            properties.metadata.iter().map(|(name, value)| (&**name, Some(&**value))).collect();
        let content_type = content_type(key, properties, &self.bucket.new_objects);
        let patched = self
            .patch_with(key, (source, condition), &ResourcePatch { metadata: metadata.clone(), content_type })
            .await?;
        // Names that were there stay unless they are removed. The answer shows them.
        let others: Vec<&String> =
            patched.metadata.keys().filter(|name| !metadata.contains_key(name.as_str())).collect();
        if others.is_empty() {
            return Ok(StoredObject { version: patched.version(), is_checked: true });
        }
        metadata.extend(others.into_iter().map(|name| (name.as_str(), None)));
        let patched =
            self.patch_with(key, (source, condition), &ResourcePatch { metadata, content_type }).await?;
        Ok(StoredObject { version: patched.version(), is_checked: true })
    }

    async fn patch_with(
        &self,
        key: &str,
        (source, condition): (CopySource<'_>, &PutCondition),
        patch: &ResourcePatch<'_>,
    ) -> Result<ObjectResource> {
        let body = serde_json::to_vec(patch).unwrap_or_default();
        let mut request =
            GcsRequest::new(RequestKind::Copy, Method::PATCH, PATCHING, self.bucket.target.resource(key))
                .key(key)
                .header(CONTENT_TYPE, JSON)?
                .content(vec![Bytes::from(body)]);
        let generation = source.version.and_then(|version| version.generation);
        request = match generation {
            Some(generation) => request.query("ifGenerationMatch", generation.to_string()),
            None => request.condition(condition),
        };
        let answer =
            self.perform(&request).await.map_err(|failure| self.copy_failed(&request, source, failure))?;
        let wrong = |_| self.error_of(ErrorKind::Protocol, PATCHING, key, "the answer is no object");
        serde_json::from_slice(&answer.body).map_err(wrong)
    }

    fn copy_failed(&self, request: &GcsRequest<'_>, source: CopySource<'_>, failure: GcsFailure) -> Error {
        if let GcsFailure::Refused { refusal, .. } = &failure {
            if refusal.is_missing_object() || refusal.status == 404 && self.bucket.is_known() {
                let cause = "the object to copy does not exist any more";
                return self.error_of(ErrorKind::SourceVanished, COPYING, source.key, cause);
            }
            if refusal.status == 412 && source.version.is_some() {
                let cause = "another object was stored with this key in the meantime";
                return self.error_of(ErrorKind::SourceChanged, COPYING, source.key, cause);
            }
        }
        self.put_failed(request, failure)
    }
}
