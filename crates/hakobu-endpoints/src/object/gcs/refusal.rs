//! Answers of Google Cloud Storage that say no: their reasons, and what follows from each.

use std::time::Duration;

use hakobu_core::{Error, ErrorKind};
use serde::Deserialize;

use crate::object::s3::xml::{XmlEvent, read_xml};

/// An answer that is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GcsRefusal {
    pub(crate) status: u16,
    /// Google's word for the error; empty if the answer had no body, or none of Google's.
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
}

/// Possible reactions to a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GcsRemedy {
    /// Send the request again, with fewer in flight if that is what the store asks for.
    Repeat { with_fewer: bool },
    /// Send it once more: it may have been damaged on its way.
    RepeatOnce,
    /// Get a new token, and send it once more.
    RenewToken,
    /// Nothing helps.
    None,
}

/// The request that was refused, for a message.
#[derive(Clone, Debug)]
pub(crate) struct RefusedGcsRequest<'a> {
    pub(crate) during: &'static str,
    /// The location of the key or bucket.
    pub(crate) location: String,
    pub(crate) bucket: &'a str,
    pub(crate) has_credentials: bool,
    /// True if it named a project that pays.
    pub(crate) has_project: bool,
}

/// The body of an error in JSON.
#[derive(Deserialize)]
struct ErrorAnswer {
    error: ErrorBody,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ErrorBody {
    message: String,
    errors: Vec<ErrorReason>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ErrorReason {
    reason: String,
}

impl GcsRefusal {
    /// Reads an answer with an error's status. Both of the store's interfaces answer like this, one in JSON, one in XML.
    pub(crate) fn new(status: u16, body: &[u8]) -> Self {
        if let Ok(ErrorAnswer { error }) = serde_json::from_slice::<ErrorAnswer>(body) {
            let reason = error.errors.into_iter().next().map(|first| first.reason);
            let reason = reason.filter(|reason| !reason.is_empty()).unwrap_or_else(|| "error".to_owned());
            return Self { status, reason, message: error.message, retry_after: None };
        }
        let mut refusal = Self { status, ..Self::default() };
        let mut details = String::new();
        let read = read_xml(body, "Error", |event| {
            if let XmlEvent::Close { name, depth: 2, text } = event {
                match name {
                    "Code" => refusal.reason = text.to_owned(),
                    "Message" => refusal.message = text.to_owned(),
                    "Details" => details = text.to_owned(),
                    _ => {}
                }
            }
            Ok(())
        });
        if read.is_err() {
            return Self { status, ..Self::default() };
        }
        if !details.is_empty() {
            refusal.message = details;
        }
        refusal
    }

    /// Returns true if this is one of Google's reasons.
    pub(crate) fn is(&self, reasons: &[&str]) -> bool {
        reasons.contains(&self.reason.as_str())
    }

    /// Returns true if the store says that nothing was done.
    pub(crate) fn is_certain(&self) -> bool {
        self.status < 500 || self.status == 503 && !self.reason.is_empty()
    }

    /// Returns true if the answer is that an object does not exist, and not that the bucket does not.
    pub(crate) fn is_missing_object(&self) -> bool {
        self.status == 404 && (self.is(&["NoSuchKey"]) || self.message.starts_with("No such object"))
    }

    /// Returns true if the answer is that an upload does not exist.
    pub(crate) fn is_missing_upload(&self) -> bool {
        self.is(&["NoSuchUpload"])
    }

    fn is_damaged(&self) -> bool {
        let names_hash = ["crc32c", "CRC32C", "MD5", "md5"].iter().any(|name| self.message.contains(name));
        self.is(&["BadDigest", "InvalidDigest"]) || self.status == 400 && names_hash
    }

    /// Returns what to do about it.
    pub(crate) fn remedy(&self) -> GcsRemedy {
        let is_limit =
            self.is(&["rateLimitExceeded", "userRateLimitExceeded", "SlowDown", "ServiceUnavailable"]);
        if is_limit || matches!(self.status, 429 | 503) {
            return GcsRemedy::Repeat { with_fewer: true };
        }
        if self.is_damaged() {
            return GcsRemedy::RepeatOnce;
        }
        match self.status {
            401 => GcsRemedy::RenewToken,
            408 | 500 | 502 | 504 => GcsRemedy::Repeat { with_fewer: false },
            _ => GcsRemedy::None,
        }
    }

    /// Returns the error that this is for a request, with a remedy.
    pub(crate) fn into_error(self, request: RefusedGcsRequest<'_>) -> Error {
        let RefusedGcsRequest { during, location, bucket, has_credentials, has_project } = request;
        let error = |kind, cause: String| Error::new(kind, during, cause).at(&location);
        if self.is_missing_bucket() {
            return error(ErrorKind::NotFound, format!("the bucket {bucket} does not exist"))
                .hint("buckets are not created here");
        }
        if self.is(&["userProjectMissing", "UserProjectMissing"]) || self.message.contains("requester pays") {
            return error(
                ErrorKind::PermissionDenied,
                "those who ask pay for requests to this bucket".to_owned(),
            )
            .hint("agree with --request-payer");
        }
        if has_project && self.message.contains("serviceusage") {
            return error(ErrorKind::PermissionDenied, self.words())
                .hint("name a project that you may charge in GOOGLE_CLOUD_QUOTA_PROJECT");
        }
        match self.status {
            401 if has_credentials => {
                return error(ErrorKind::Unauthenticated, "Google does not accept the token".to_owned()).hint(
                    "log in again with gcloud auth application-default login, and check GOOGLE_APPLICATION_CREDENTIALS",
                );
            }
            401 | 403 if !has_credentials => {
                return error(ErrorKind::PermissionDenied, "access denied".to_owned())
                    .hint("it is not public");
            }
            403 if self.message.contains("billing")
                || self.is(&["accountDisabled", "UserProjectAccountProblem"]) =>
            {
                return error(ErrorKind::PermissionDenied, self.words());
            }
            403 => {
                let named = missing_right(&self.message);
                let right =
                    named.map_or("the right to do this".to_owned(), |right| format!("the right {right}"));
                return error(ErrorKind::PermissionDenied, "access denied".to_owned())
                    .hint(format!("the credentials lack {right}"));
            }
            _ => {}
        }
        if self.is_damaged() {
            let words = "the store received other bytes than were sent, twice";
            return error(ErrorKind::Corrupt, words.to_owned());
        }
        let kind = match self.status {
            404 => ErrorKind::NotFound,
            409 | 412 => ErrorKind::Conflict,
            405 | 411 | 413 | 414 | 501 => ErrorKind::Unsupported,
            408 | 429 => ErrorKind::TimedOut,
            status if status >= 500 => ErrorKind::TimedOut,
            _ if self.reason.is_empty() => ErrorKind::Protocol,
            _ => ErrorKind::Io,
        };
        let not_google = self.reason.is_empty() && matches!(kind, ErrorKind::NotFound | ErrorKind::Protocol);
        match not_google {
            true => error(ErrorKind::Protocol, self.words())
                .hint("the endpoint must be that of a store with the interface of Google Cloud Storage"),
            false => error(kind, self.words()),
        }
    }

    fn is_missing_bucket(&self) -> bool {
        self.is(&["NoSuchBucket"]) || self.status == 404 && self.message.contains("bucket does not exist")
    }

    fn words(&self) -> String {
        match (self.reason.is_empty(), self.message.is_empty()) {
            (true, _) => format!("the server answers with status {}", self.status),
            (false, true) => format!("{} (status {})", self.reason, self.status),
            (false, false) => format!("{} ({})", self.message.trim_end_matches('.'), self.reason),
        }
    }
}

/// Returns the right that a message says is missing, such as `storage.objects.get`.
fn missing_right(message: &str) -> Option<&str> {
    let start = message.find("storage.")?;
    let right = &message[start..];
    let end =
        right.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.').unwrap_or(right.len());
    Some(right[..end].trim_end_matches('.')).filter(|right| right.len() < 60)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(status: u16, reason: &str, message: &str) -> GcsRefusal {
        let body = format!(
            r#"{{"error":{{"code":{status},"message":"{message}","errors":[{{"reason":"{reason}","domain":"global"}}]}}}}"#
        );
        GcsRefusal::new(status, body.as_bytes())
    }

    fn error(refusal: GcsRefusal, has_credentials: bool) -> Error {
        let location = "gs://bucket/key".to_owned();
        let (bucket, has_project) = ("bucket", false);
        let request = RefusedGcsRequest {
            during: "storing the object",
            location,
            bucket,
            has_credentials,
            has_project,
        };
        refusal.into_error(request)
    }

    #[test]
    fn both_interfaces_say_the_same() {
        let of_json = json(404, "notFound", "No such object: bucket/key");
        let of_xml = GcsRefusal::new(404, b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>");
        assert!(of_json.is_missing_object() && of_xml.is_missing_object());
        let bucket = json(404, "notFound", "The specified bucket does not exist.");
        assert!(!bucket.is_missing_object());
        for refusal in [bucket, GcsRefusal::new(404, b"<Error><Code>NoSuchBucket</Code></Error>")] {
            let error = error(refusal, true);
            assert_eq!(error.kind, ErrorKind::NotFound);
            assert!(error.to_string().contains("the bucket bucket does not exist"), "{error}");
        }
    }

    #[test]
    fn each_reason_has_its_remedy() {
        let repeat = |with_fewer| GcsRemedy::Repeat { with_fewer };
        for (refusal, remedy) in [
            (json(429, "rateLimitExceeded", "x"), repeat(true)),
            (json(403, "userRateLimitExceeded", "x"), repeat(true)),
            (GcsRefusal::new(503, b""), repeat(true)),
            (json(500, "backendError", "x"), repeat(false)),
            (GcsRefusal::new(502, b"<html>"), repeat(false)),
            (json(401, "authError", "Invalid Credentials"), GcsRemedy::RenewToken),
            (json(400, "invalid", "Provided CRC32C does not match"), GcsRemedy::RepeatOnce),
            (GcsRefusal::new(400, b"<Error><Code>BadDigest</Code></Error>"), GcsRemedy::RepeatOnce),
            (json(403, "forbidden", "x"), GcsRemedy::None),
            (json(412, "conditionNotMet", "x"), GcsRemedy::None),
        ] {
            assert_eq!(refusal.remedy(), remedy, "{refusal:?}");
        }
    }

    #[test]
    fn errors_name_cause_and_remedy() {
        let denied = "me@x does not have storage.objects.create access to the Google Cloud Storage object.";
        for (refusal, has_credentials, kind, words) in [
            (
                json(403, "forbidden", denied),
                true,
                ErrorKind::PermissionDenied,
                "the right storage.objects.create",
            ),
            (
                json(401, "required", "Anonymous caller"),
                false,
                ErrorKind::PermissionDenied,
                "it is not public",
            ),
            (json(401, "authError", "x"), true, ErrorKind::Unauthenticated, "GOOGLE_APPLICATION_CREDENTIALS"),
            (
                json(400, "required", "Bucket is a requester pays bucket but no user project provided."),
                true,
                ErrorKind::PermissionDenied,
                "--request-payer",
            ),
            (json(400, "invalid", "crc32c"), true, ErrorKind::Corrupt, "twice"),
            (json(412, "conditionNotMet", "x"), true, ErrorKind::Conflict, "conditionNotMet"),
            (
                GcsRefusal::new(404, b"<html>"),
                true,
                ErrorKind::Protocol,
                "the endpoint must be that of a store",
            ),
            (GcsRefusal::new(400, b"no"), true, ErrorKind::Protocol, "the endpoint must be that of a store"),
            (GcsRefusal::new(503, b""), true, ErrorKind::TimedOut, "status 503"),
        ] {
            let error = error(refusal.clone(), has_credentials);
            assert_eq!(error.kind, kind, "{refusal:?}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_body_is_read_without_a_panic(body in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = error(GcsRefusal::new(400, &body), true);
        }

        #[test]
        fn any_message_is_read_without_a_panic(message in "[a-z.ü ]{0,30}storage.[a-zü. ]{0,30}") {
            let _ = missing_right(&message);
        }
    }
}
