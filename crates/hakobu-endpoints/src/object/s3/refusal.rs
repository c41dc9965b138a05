//! Answers of S3 that say no: their codes, and what follows from each.

use std::time::Duration;

use hakobu_core::{Error, ErrorKind};

use super::xml::{XmlEvent, read_xml};

/// An answer that is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct S3Refusal {
    pub(crate) status: u16,
    /// S3's name for the error; empty if the answer had no body, or none of S3's.
    pub(crate) code: String,
    pub(crate) message: String,
    /// The region that the bucket is in, if the answer says so.
    pub(crate) region: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    request_time: String,
    server_time: String,
}

/// Possible reactions to a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RefusalRemedy {
    /// Send the request again, with fewer in flight if that is what the store asks for.
    Repeat { with_fewer: bool },
    /// Send it once more: it may have been damaged on its way.
    RepeatOnce,
    /// Read the credentials again, and send it once more.
    RenewKeys,
    /// Send it to the region of the bucket.
    MoveTo(String),
    /// Nothing helps.
    None,
}

/// The request that was refused, for a message.
#[derive(Clone, Debug)]
pub(crate) struct RefusedRequest<'a> {
    pub(crate) during: &'static str,
    /// The location of the key or bucket.
    pub(crate) location: String,
    pub(crate) bucket: &'a str,
    pub(crate) region: &'a str,
    pub(crate) is_signed: bool,
}

impl S3Refusal {
    /// Reads an answer with an error's status.
    pub(crate) fn new(status: u16, body: &[u8]) -> Self {
        let mut refusal = Self { status, ..Self::default() };
        let read = read_xml(body, "Error", |event| {
            if let XmlEvent::Close { name, depth: 2, text } = event {
                match name {
                    "Code" => refusal.code = text.to_owned(),
                    "Message" => refusal.message = text.to_owned(),
                    "Region" => refusal.region = Some(text.to_owned()),
                    "RequestTime" => refusal.request_time = text.to_owned(),
                    "ServerTime" => refusal.server_time = text.to_owned(),
                    _ => {}
                }
            }
            Ok(())
        });
        if read.is_err() { Self { status, ..Self::default() } } else { refusal }
    }

    /// Returns the refusal in a body that came with status 200: some requests take so long that the answer begins
    /// before their outcome is known.
    pub(crate) fn in_success(body: &[u8]) -> Option<Self> {
        let text = body.trim_ascii_start();
        let text = match text.strip_prefix(b"<?xml") {
            Some(rest) => rest.iter().position(|byte| *byte == b'>').map_or(&[][..], |end| &rest[end + 1..]),
            None => text,
        };
        text.trim_ascii_start().starts_with(b"<Error").then(|| Self::new(500, body))
    }

    /// Returns true if this is one of S3's codes.
    pub(crate) fn is(&self, codes: &[&str]) -> bool {
        codes.contains(&self.code.as_str())
    }

    /// Returns true if the store says that nothing was done.
    pub(crate) fn is_certain(&self) -> bool {
        self.status < 500 || self.is(&["SlowDown", "ServiceUnavailable", "NotImplemented"])
    }

    /// Returns true if the store does not know deletions of many keys, or wants an MD5 with them.
    pub(crate) fn lacks_batches(&self) -> bool {
        matches!(self.status, 405 | 501) || self.is(&["NotImplemented", "MissingContentMD5", "MalformedXML"])
    }

    /// Returns the refusal of one key in an answer about many.
    pub(crate) fn of_key(self) -> Self {
        let status = match self.code.as_str() {
            "AccessDenied" => 403,
            "NoSuchKey" => 404,
            _ => 400,
        };
        Self { status, ..self }
    }

    /// Returns what to do about it.
    pub(crate) fn remedy(&self) -> RefusalRemedy {
        if self.is(&[
            "SlowDown",
            "ServiceUnavailable",
            "RequestLimitExceeded",
            "Throttling",
            "TooManyRequests",
        ]) || matches!(self.status, 429 | 503)
        {
            return RefusalRemedy::Repeat { with_fewer: true };
        }
        if let Some(region) = &self.region
            && (matches!(self.status, 301 | 307 | 308) || self.is(&WRONG_REGION))
        {
            return RefusalRemedy::MoveTo(region.clone());
        }
        if self.is(&DAMAGED) {
            return RefusalRemedy::RepeatOnce;
        }
        if self.is(&["ExpiredToken", "TokenRefreshRequired", "ExpiredTokenException"]) {
            return RefusalRemedy::RenewKeys;
        }
        let passes = matches!(self.status, 408 | 500 | 502 | 504) && !self.is(&["NotImplemented"]);
        if passes
            || self.is(&[
                "RequestTimeout",
                "IncompleteBody",
                "OperationAborted",
                "ConditionalRequestConflict",
            ])
        {
            return RefusalRemedy::Repeat { with_fewer: false };
        }
        RefusalRemedy::None
    }

    /// Returns the error that this is for a request, with a remedy.
    pub(crate) fn into_error(self, request: RefusedRequest<'_>) -> Error {
        let RefusedRequest { during, location, bucket, region, is_signed } = request;
        let error = |kind, cause: String| Error::new(kind, during, cause).at(&location);
        let denied = self.status == 403 || self.status == 401;
        if self.is(&["NoSuchBucket"]) {
            return error(ErrorKind::NotFound, format!("the bucket {bucket} does not exist"))
                .hint("buckets are not created here");
        }
        if self.is(&["RequestTimeTooSkewed", "RequestExpired"]) {
            let times = match (self.request_time.is_empty(), self.server_time.is_empty()) {
                (false, false) => format!(" ({} here, {} there)", self.request_time, self.server_time),
                _ => String::new(),
            };
            let cause = format!("this machine's clock differs too much from the store's{times}");
            return error(ErrorKind::Unauthenticated, cause).hint("set the clock");
        }
        if self.is(&["InvalidAccessKeyId", "InvalidClientTokenId", "XAdminUserNotFound"]) {
            return error(ErrorKind::Unauthenticated, "the store does not know this access key".to_owned())
                .hint("check AWS_ACCESS_KEY_ID or the profile, and the endpoint");
        }
        if self.is(&["SignatureDoesNotMatch"]) {
            return error(
                ErrorKind::Unauthenticated,
                "the secret key does not belong to the access key".to_owned(),
            )
            .hint("check AWS_SECRET_ACCESS_KEY or the profile");
        }
        if self.is(&EXPIRED) {
            return error(ErrorKind::Unauthenticated, "the credentials have expired".to_owned())
                .hint("log in again, for instance with aws sso login");
        }
        // A redirect of S3 itself names the region.
        if self.is(&WRONG_REGION) || matches!(self.status, 301 | 307 | 308) && self.region.is_some() {
            let cause = match self.region.as_deref().filter(|named| *named != region) {
                Some(named) => format!("the bucket is in the region {named}, not in {region}"),
                None => format!("the bucket is not in the region {region}"),
            };
            return error(ErrorKind::Unauthenticated, cause).hint("set AWS_REGION");
        }
        if self.is(&UNAUTHENTICATED) || self.status == 401 {
            return error(ErrorKind::Unauthenticated, self.words());
        }
        if self.is(&["InvalidObjectState"]) {
            let key = location.strip_prefix(&format!("s3://{bucket}/")).unwrap_or_default();
            let key = key.replace('\'', "'\\''");
            return error(ErrorKind::Unsupported, "it is archived".to_owned()).hint(format!(
                "restore it first: aws s3api restore-object --bucket {bucket} --key '{key}' --restore-request Days=7"
            ));
        }
        if self.is(&IN_THE_WAY) {
            let (cause, remedy) = in_the_way(&location);
            return error(ErrorKind::Conflict, cause.to_owned()).hint(remedy);
        }
        if denied {
            let hint =
                if is_signed { "the credentials lack the right to do this" } else { "it is not public" };
            return error(ErrorKind::PermissionDenied, "access denied".to_owned()).hint(hint);
        }
        if self.is(&DAMAGED) {
            return error(
                ErrorKind::Corrupt,
                "the store received other bytes than were sent, twice".to_owned(),
            );
        }
        if self.is(&["QuotaExceeded", "XMinioStorageFull", "InsufficientCapacity"]) || self.status == 507 {
            return error(ErrorKind::NoSpace, self.words());
        }
        let kind = match self.status {
            404 => ErrorKind::NotFound,
            409 | 412 => ErrorKind::Conflict,
            405 | 411 | 413 | 414 | 501 => ErrorKind::Unsupported,
            408 | 429 => ErrorKind::TimedOut,
            status if status >= 500 => ErrorKind::TimedOut,
            _ if self.is(&TOO_LARGE) => ErrorKind::Unsupported,
            _ if self.code.is_empty() => ErrorKind::Protocol,
            _ => ErrorKind::Io,
        };
        let not_s3 = self.code.is_empty() && matches!(kind, ErrorKind::NotFound | ErrorKind::Protocol);
        let words = self.words();
        match not_s3 {
            true => error(ErrorKind::Protocol, words)
                .hint("the endpoint must be that of a store with S3's interface"),
            false => error(kind, words),
        }
    }

    fn words(&self) -> String {
        match (self.code.is_empty(), self.message.is_empty()) {
            (true, _) => format!("the server answers with status {}", self.status),
            (false, true) => format!("{} (status {})", self.code, self.status),
            (false, false) => format!("{} ({})", self.message.trim_end_matches('.'), self.code),
        }
    }
}

/// Returns the cause and the remedy of a refusal by a server that keeps objects as files.
fn in_the_way(location: &str) -> (&'static str, &'static str) {
    let cause =
        "this server keeps objects as files, and an object is where a directory is needed, or the reverse";
    too_long_to_replace(location).unwrap_or((cause, "rename one of them"))
}

/// Returns the cause and the remedy if an object that such a server keeps cannot be replaced because of its name.
pub(super) fn too_long_to_replace(key: &str) -> Option<(&'static str, &'static str)> {
    let name = key.rsplit('/').next().unwrap_or_default();
    let cause = "this server keeps objects as files and cannot replace one with so long a name";
    (name.len() > REPLACED_NAME_BYTES_MAX).then_some((cause, "rename it"))
}

/// The longest name in bytes of an object that versitygw can replace: it adds 28 bytes for a temporary name of 255.
const REPLACED_NAME_BYTES_MAX: usize = 227;
const EXPIRED: [&str; 3] = ["ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"];
/// Codes of servers that cannot have `a` beside `a/b`.
const IN_THE_WAY: [&str; 4] = [
    "ObjectParentIsFile",
    "ExistingObjectIsDirectory",
    "XMinioParentIsObject",
    "XMinioObjectExistsAsDirectory",
];
const WRONG_REGION: [&str; 4] = [
    "AuthorizationHeaderMalformed",
    "PermanentRedirect",
    "TemporaryRedirect",
    "IllegalLocationConstraintException",
];
const DAMAGED: [&str; 4] =
    ["BadDigest", "InvalidDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"];
const UNAUTHENTICATED: [&str; 9] = [
    "InvalidToken",
    "InvalidSecurity",
    "AccountProblem",
    "NotSignedUp",
    "CredentialsNotSupported",
    "MissingSecurityHeader",
    "AuthorizationQueryParametersError",
    "UnrecognizedClientException",
    "AllAccessDisabled",
];
const TOO_LARGE: [&str; 4] = ["EntityTooLarge", "KeyTooLongError", "KeyTooLong", "MetadataTooLarge"];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusal(status: u16, code: &str) -> S3Refusal {
        S3Refusal { status, code: code.to_owned(), ..S3Refusal::default() }
    }

    fn error(refusal: S3Refusal) -> Error {
        refusal.into_error(RefusedRequest {
            during: "reading",
            location: "s3://b/k".to_owned(),
            bucket: "b",
            region: "us-east-1",
            is_signed: true,
        })
    }

    #[test]
    fn servers_with_files_say_which_names_they_cannot_take() {
        let refused = |name: String| {
            refusal(409, "ExistingObjectIsDirectory").into_error(RefusedRequest {
                during: "storing the object",
                location: format!("s3://b/d/{name}"),
                bucket: "b",
                region: "us-east-1",
                is_signed: true,
            })
        };
        assert!(refused("a".repeat(227)).to_string().contains("where a directory is needed"));
        assert!(refused("a".repeat(228)).to_string().contains("so long a name"));
    }

    #[test]
    fn codes_decide_what_is_repeated() {
        let fewer = RefusalRemedy::Repeat { with_fewer: true };
        let again = RefusalRemedy::Repeat { with_fewer: false };
        for (status, code, remedy) in [
            (503, "SlowDown", &fewer),
            (429, "", &fewer),
            (503, "", &fewer),
            (500, "InternalError", &again),
            (502, "", &again),
            (408, "", &again),
            (400, "RequestTimeout", &again),
            (409, "ConditionalRequestConflict", &again),
            (400, "BadDigest", &RefusalRemedy::RepeatOnce),
            (400, "ExpiredToken", &RefusalRemedy::RenewKeys),
            (501, "NotImplemented", &RefusalRemedy::None),
            (403, "AccessDenied", &RefusalRemedy::None),
            (412, "PreconditionFailed", &RefusalRemedy::None),
            (301, "PermanentRedirect", &RefusalRemedy::None),
        ] {
            assert_eq!(refusal(status, code).remedy(), *remedy, "{status} {code}");
        }
        let moved = S3Refusal {
            region: Some("eu-west-1".to_owned()),
            ..refusal(400, "AuthorizationHeaderMalformed")
        };
        assert_eq!(moved.remedy(), RefusalRemedy::MoveTo("eu-west-1".to_owned()));
    }

    #[test]
    fn codes_decide_the_kind_of_error() {
        for (status, code, kind) in [
            (404, "NoSuchBucket", ErrorKind::NotFound),
            (404, "NoSuchKey", ErrorKind::NotFound),
            (404, "", ErrorKind::Protocol),
            (301, "", ErrorKind::Protocol),
            (301, "PermanentRedirect", ErrorKind::Unauthenticated),
            (400, "", ErrorKind::Protocol),
            (200, "", ErrorKind::Protocol),
            (403, "InvalidAccessKeyId", ErrorKind::Unauthenticated),
            (403, "SignatureDoesNotMatch", ErrorKind::Unauthenticated),
            (403, "RequestTimeTooSkewed", ErrorKind::Unauthenticated),
            (400, "ExpiredToken", ErrorKind::Unauthenticated),
            (401, "", ErrorKind::Unauthenticated),
            (403, "AccessDenied", ErrorKind::PermissionDenied),
            (403, "", ErrorKind::PermissionDenied),
            (403, "InvalidObjectState", ErrorKind::Unsupported),
            (400, "BadDigest", ErrorKind::Corrupt),
            (412, "PreconditionFailed", ErrorKind::Conflict),
            (400, "ObjectParentIsFile", ErrorKind::Conflict),
            (400, "MetadataTooLarge", ErrorKind::Unsupported),
            (507, "XMinioStorageFull", ErrorKind::NoSpace),
            (503, "SlowDown", ErrorKind::TimedOut),
            (400, "InvalidArgument", ErrorKind::Io),
        ] {
            assert_eq!(error(refusal(status, code)).kind, kind, "{status} {code}");
        }
    }

    #[test]
    fn answers_are_read_with_their_times_and_regions() {
        let body = b"<?xml version=\"1.0\"?>\n<Error><Code>RequestTimeTooSkewed</Code><Message>m</Message>\
            <RequestTime>20261127T000000Z</RequestTime><ServerTime>2026-11-27T02:00:00Z</ServerTime></Error>";
        let skewed = error(S3Refusal::new(403, body)).to_string();
        assert!(skewed.contains("20261127T000000Z") && skewed.contains("2026-11-27T02:00:00Z"), "{skewed}");
        assert_eq!(
            S3Refusal::in_success(body).map(|refusal| refusal.code).as_deref(),
            Some("RequestTimeTooSkewed")
        );
        assert_eq!(S3Refusal::in_success(b"  <Errors/>").map(|refusal| refusal.code).as_deref(), Some(""));
        assert_eq!(S3Refusal::in_success(b"<CopyObjectResult/>"), None);
        assert_eq!(S3Refusal::new(502, b"<html>bad gateway"), refusal(502, ""));
    }

    proptest! {
        #[test]
        fn any_body_is_read_without_a_panic(body in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = (S3Refusal::new(400, &body), S3Refusal::in_success(&body));
        }
    }
}
