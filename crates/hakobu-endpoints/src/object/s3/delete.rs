//! Deletions: DeleteObjects, and DeleteObject for keys that XML cannot carry.

use std::collections::HashMap;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use hakobu_core::checksum::crc64;
use hakobu_core::{Error, ErrorKind, Result};
use http::Method;
use http::header::CONTENT_TYPE;

use super::bucket::LIMITS;
use super::refusal::{RefusedRequest, S3Refusal};
use super::request::{S3Failure, S3Lane, S3Request, check_key};
use super::xml::{XmlEvent, fits_xml, push_element, read_xml};
use crate::object::counts::RequestKind;

const DELETING: &str = "deleting the object";
/// The deletions in flight, where each key takes its own.
const SINGLES_AT_ONCE: usize = 32;

impl S3Lane {
    pub(super) async fn delete(&self, keys: &[String]) -> Result<Vec<Result<()>>> {
        let mut outcomes: Vec<Option<Result<()>>> = keys.iter().map(|key| self.refused_key(key)).collect();
        let is_open = |outcomes: &[Option<Result<()>>], index: &usize| outcomes[*index].is_none();
        let batch: Vec<usize> =
            (0..keys.len()).filter(|index| is_open(&outcomes, index) && fits_xml(&keys[*index])).collect();
        if batch.len() > 1 {
            for batch in batch.chunks(LIMITS.delete_batch) {
                let names: Vec<&str> = batch.iter().map(|index| keys[*index].as_str()).collect();
                // Without an answer for all, they are deleted one by one below.
                if let Some(answers) = self.delete_batch(&names).await? {
                    batch.iter().zip(answers).for_each(|(index, answer)| outcomes[*index] = Some(answer));
                }
            }
        }
        let singles: Vec<usize> = (0..keys.len()).filter(|index| is_open(&outcomes, index)).collect();
        let mut pending = stream::iter(singles)
            .map(|index| async move { (index, self.delete_one(&keys[index]).await) })
            .buffer_unordered(SINGLES_AT_ONCE);
        while let Some((index, outcome)) = pending.next().await {
            if let Err(error) = &outcome
                && error.is_fatal()
            {
                return Err(error.clone());
            }
            outcomes[index] = Some(outcome);
        }
        Ok(outcomes.into_iter().flatten().collect())
    }

    fn refused_key(&self, key: &str) -> Option<Result<()>> {
        check_key(key, DELETING).err().map(|error| Err(error.at(self.bucket.location_of(key))))
    }

    async fn delete_one(&self, key: &str) -> Result<()> {
        let request = S3Request::new(RequestKind::Delete, Method::DELETE, DELETING).key(key);
        match self.perform(&request).await {
            Ok(_) => Ok(()),
            Err(S3Failure::Refused { refusal, .. }) if refusal.is(&["NoSuchKey"]) => Ok(()),
            Err(failure) => Err(self.error(&request, failure)),
        }
    }

    /// Deletes keys in one request; `None` if the store does not know such requests.
    async fn delete_batch(&self, keys: &[&str]) -> Result<Option<Vec<Result<()>>>> {
        let mut document =
            "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>".to_owned();
        for key in keys {
            document.push_str("<Object>");
            push_element(&mut document, "Key", key);
            document.push_str("</Object>");
        }
        document.push_str("</Delete>");
        let document = Bytes::from(document);
        let request = S3Request::new(RequestKind::Delete, Method::POST, DELETING)
            .query("delete", "")
            .header(CONTENT_TYPE, "application/xml")?
            .crc64(Some(crc64(&document)))?
            .content(vec![document]);
        let answer = match self.perform(&request).await {
            Ok(answer) => answer,
            Err(S3Failure::Refused { refusal, .. }) if refusal.lacks_batches() => return Ok(None),
            Err(failure) => return Err(self.error(&request, failure)),
        };
        let failures = read_failures(&answer.body).map_err(|error| error.at(self.bucket.location_of("")))?;
        if failures.keys().any(|key| !keys.contains(&key.as_str())) {
            let cause = "the answer names a key that was not to be deleted";
            return Err(self.error_of(ErrorKind::Protocol, DELETING, "", cause));
        }
        let outcome = |key: &&str| match failures.get(*key) {
            None => Ok(()),
            Some(refusal) if refusal.is(&["NoSuchKey"]) => Ok(()),
            Some(refusal) => Err(self.refusal_of_key(key, refusal.clone())),
        };
        Ok(Some(keys.iter().map(outcome).collect()))
    }

    fn refusal_of_key(&self, key: &str, refusal: S3Refusal) -> Error {
        refusal.into_error(RefusedRequest {
            during: DELETING,
            location: self.bucket.location_of(key),
            bucket: &self.bucket.name,
            region: &self.bucket.target().region,
            is_signed: self.bucket.credentials.are_used(),
        })
    }
}

/// Returns the keys that were not deleted.
fn read_failures(body: &[u8]) -> Result<HashMap<String, S3Refusal>> {
    let mut failures = HashMap::new();
    let (mut key, mut refusal) = (String::new(), S3Refusal::default());
    read_xml(body, "DeleteResult", |event| {
        match event {
            XmlEvent::Open { name: "Error", depth: 2 } => (key, refusal) = Default::default(),
            XmlEvent::Close { name: "Error", depth: 2, .. } => {
                failures.insert(std::mem::take(&mut key), std::mem::take(&mut refusal).of_key());
            }
            XmlEvent::Close { name: "Key", depth: 3, text } => key = text.to_owned(),
            XmlEvent::Close { name: "Code", depth: 3, text } => refusal.code = text.to_owned(),
            XmlEvent::Close { name: "Message", depth: 3, text } => refusal.message = text.to_owned(),
            _ => {}
        }
        Ok(())
    })?;
    Ok(failures)
}
