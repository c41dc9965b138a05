//! Answers of Azure that say no: their codes, and what follows from each.

use std::time::Duration;

use hakobu_core::{Error, ErrorKind};

use crate::object::s3::xml::{XmlEvent, read_xml};

/// The way in which requests prove who sends them, for remedies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthKind {
    /// Not at all.
    Anonymous,
    /// The key of the account.
    Key,
    /// A shared access signature.
    Sas,
    /// A token of Microsoft Entra.
    Token,
}

/// An answer that is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AzureRefusal {
    pub(crate) status: u16,
    /// Azure's name for the error; empty if the answer is none of Azure's.
    pub(crate) code: String,
    message: String,
    /// The reason why the signature or token did not count.
    detail: String,
    pub(crate) retry_after: Option<Duration>,
    /// True if nothing in the answer is Azure's.
    pub(crate) is_foreign: bool,
}

/// Possible reactions to a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AzureRemedy {
    /// Send the request again, with fewer in flight if that is what the store asks for.
    Repeat { with_fewer: bool },
    /// Send it once more: it may have been damaged on its way.
    RepeatOnce,
    /// Get another token, and send it once more.
    RenewToken,
    /// Nothing helps.
    None,
}

/// The request that was refused, for a message.
#[derive(Clone, Debug)]
pub(crate) struct RefusedByAzure<'a> {
    pub(crate) during: &'static str,
    /// The location of the key or container.
    pub(crate) location: String,
    pub(crate) account: &'a str,
    pub(crate) container: &'a str,
    /// The key, as Azure knows it.
    pub(crate) blob: &'a str,
    pub(crate) auth: AuthKind,
}

impl AzureRefusal {
    /// Reads an answer with an error's status. `code` is that of its header, which is there without a body, too.
    pub(crate) fn new(status: u16, code: Option<&str>, body: &[u8]) -> Self {
        let mut refusal = Self { status, ..Self::default() };
        let read = read_xml(body, "Error", |event| {
            if let XmlEvent::Close { name, depth: 2, text } = event {
                match name {
                    "Code" => refusal.code = text.to_owned(),
                    // The rest is the ID of the request and the time.
                    "Message" => refusal.message = text.lines().next().unwrap_or_default().trim().to_owned(),
                    "AuthenticationErrorDetail" => refusal.detail = text.to_owned(),
                    _ => {}
                }
            }
            Ok(())
        });
        if read.is_err() {
            refusal = Self { status, ..Self::default() };
        }
        if let Some(code) = code
            && refusal.code.is_empty()
        {
            refusal.code = code.to_owned();
        }
        refusal
    }

    /// Returns the answer to a request for the content of an archived blob.
    pub(crate) fn archived() -> Self {
        Self { status: 409, code: "BlobArchived".to_owned(), ..Self::default() }
    }

    /// Returns true if this is one of Azure's codes.
    pub(crate) fn is(&self, codes: &[&str]) -> bool {
        codes.contains(&self.code.as_str())
    }

    /// Returns true if the object has another version than was asked for, or exists and should not.
    pub(crate) fn is_condition(&self) -> bool {
        self.is(&["ConditionNotMet", "TargetConditionNotMet", "BlobAlreadyExists"])
            || self.status == 412 && !self.is(&LEASED)
    }

    /// Returns true if the object does not exist, or nobody without credentials may know that it does.
    pub(crate) fn is_missing_blob(&self) -> bool {
        self.is(&["BlobNotFound"])
    }

    /// Returns true if an answer without a body leaves the reason open.
    pub(crate) fn needs_words(&self) -> bool {
        self.message.is_empty()
            && (self.code.is_empty() || self.is(&["AuthorizationFailure", "AuthenticationFailed"]))
    }

    /// Returns true if the store says that nothing was done.
    pub(crate) fn is_certain(&self) -> bool {
        self.status < 500 || self.is(&["ServerBusy"])
    }

    /// Returns what to do about it.
    pub(crate) fn remedy(&self) -> AzureRemedy {
        if self.is(&["ServerBusy"]) || matches!(self.status, 429 | 503) {
            return AzureRemedy::Repeat { with_fewer: true };
        }
        if self.is(&DAMAGED) {
            return AzureRemedy::RepeatOnce;
        }
        if self.is_token_expired() {
            return AzureRemedy::RenewToken;
        }
        if matches!(self.status, 408 | 500 | 502 | 504) || self.is(&["OperationTimedOut", "InternalError"]) {
            return AzureRemedy::Repeat { with_fewer: false };
        }
        AzureRemedy::None
    }

    fn is_token_expired(&self) -> bool {
        self.status == 401 && self.is(&["InvalidAuthenticationInfo", "AuthenticationFailed"])
    }

    /// Returns the error that this is for a request, with a remedy.
    pub(crate) fn into_error(self, request: &RefusedByAzure<'_>) -> Error {
        let RefusedByAzure { during, location, account, container, blob, auth } = request;
        let error = |kind, cause: String| Error::new(kind, during, cause).at(location);
        let az = |command: &str, more: &str| {
            let blob = blob.replace('\'', "'\\''");
            format!(
                "az storage blob {command} --account-name {account} --container-name '{container}' --name '{blob}'{more}"
            )
        };
        if self.is_foreign && (300..500).contains(&self.status) && !matches!(self.status, 408 | 429) {
            return error(ErrorKind::Protocol, self.words()).hint(NOT_AZURE);
        }
        if self.is(&["ContainerNotFound"]) {
            return error(ErrorKind::NotFound, format!("the container {container} does not exist"))
                .hint("containers are not created here: az storage container create makes one");
        }
        if self.is(&["ContainerBeingDeleted", "ContainerDisabled"]) {
            return error(ErrorKind::NotFound, format!("the container {container} is being deleted"))
                .hint("wait until it is gone, and create it again");
        }
        if self.is(&["ResourceNotFound", "PublicAccessNotPermitted", "NoAuthenticationInformation"])
            && *auth == AuthKind::Anonymous
        {
            let cause = format!("the container {container} does not exist or is not public");
            return error(ErrorKind::PermissionDenied, cause)
                .hint("leave out --no-sign-request to use credentials");
        }
        if self.is(&["BlobArchived", "BlobBeingRehydrated"]) {
            let (cause, hint) = match self.is(&["BlobArchived"]) {
                true => ("it is archived", format!("rehydrate it first: {}", az("set-tier", " --tier Hot"))),
                false => (
                    "it is being rehydrated from the archive",
                    "run the same command again when it is done, which takes hours".to_owned(),
                ),
            };
            return error(ErrorKind::Unsupported, cause.to_owned()).hint(hint);
        }
        if self.is(&LEASED) {
            return error(ErrorKind::Conflict, "another program holds a lease on it".to_owned()).hint(
                format!("wait until it ends, or: {}", az("lease break", "").replace("--name", "--blob-name")),
            );
        }
        if self.is(&["SnapshotsPresent"]) {
            return error(ErrorKind::Conflict, "it has snapshots, which would be lost".to_owned())
                .hint(az("delete", " --delete-snapshots include"));
        }
        if self.is(&["BlobImmutableDueToPolicy", "BlobCreateNotAllowedDueToImmutabilityPolicy"]) {
            return error(ErrorKind::PermissionDenied, "a policy of the container locks it".to_owned())
                .hint("leave it out (--exclude), or wait until the policy ends");
        }
        if self.is(&["InvalidBlobType"]) {
            return error(ErrorKind::Conflict, "a page blob or append blob is in its place".to_owned())
                .hint("remove that one first, or write to another place");
        }
        if self.is(&["InvalidBlobOrBlock"]) {
            return error(ErrorKind::Conflict, "another program has begun to upload it".to_owned())
                .hint("let that one finish; what it leaves behind is removed after a week");
        }
        if let Some(error) = self.authentication(*auth, account) {
            return Error::new(ErrorKind::Unauthenticated, during, error.0).at(location).hint(error.1);
        }
        if matches!(self.status, 401 | 403) {
            return self.denied(*auth, error);
        }
        if self.is(&DAMAGED) {
            return error(
                ErrorKind::Corrupt,
                "the store received other bytes than were sent, twice".to_owned(),
            );
        }
        let kind = match self.status {
            404 => ErrorKind::NotFound,
            409 | 412 => ErrorKind::Conflict,
            405 | 411 | 413 | 414 | 501 => ErrorKind::Unsupported,
            408 | 429 => ErrorKind::TimedOut,
            507 => ErrorKind::NoSpace,
            status if status >= 500 => ErrorKind::TimedOut,
            _ if self.is(&TOO_LARGE) => ErrorKind::Unsupported,
            _ if self.code.is_empty() => ErrorKind::Protocol,
            _ => ErrorKind::Io,
        };
        let is_other = self.code.is_empty() && matches!(kind, ErrorKind::NotFound | ErrorKind::Protocol);
        match is_other {
            true => error(ErrorKind::Protocol, self.words()).hint(
                "the endpoint must be that of Azure Blob Storage: https://ACCOUNT.blob.core.windows.net",
            ),
            false => error(kind, self.words()),
        }
    }

    /// Returns the cause and the remedy if the credentials do not work at all.
    fn authentication(&self, auth: AuthKind, account: &str) -> Option<(String, String)> {
        if self.is(&["AccountIsDisabled"]) {
            return Some((format!("the account {account} is disabled"), "see the portal".to_owned()));
        }
        if self.is(&["KeyBasedAuthenticationNotPermitted"]) {
            let cause = format!("the account {account} takes no keys and no signatures made with them");
            return Some((cause, "unset AZURE_STORAGE_KEY and log in with az login".to_owned()));
        }
        let codes = ["AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation"];
        // Azurite has another code for it.
        let is_named_otherwise = self.message.contains("failed to authenticate");
        if !self.is(&codes) && self.status != 401 && !is_named_otherwise {
            return None;
        }
        let detail = self.detail.to_ascii_lowercase();
        if detail.contains("date header too old") || detail.contains("request date header") {
            let cause = format!(
                "this machine's clock differs too much from the store's ({})",
                self.detail.lines().next().unwrap_or_default().trim_end_matches('.')
            );
            return Some((cause, "set the clock".to_owned()));
        }
        Some(match auth {
            AuthKind::Anonymous => {
                ("it is not public".to_owned(), "leave out --no-sign-request to use credentials".to_owned())
            }
            AuthKind::Key => (
                format!("the key does not belong to the account {account}"),
                "check AZURE_STORAGE_KEY or AZURE_STORAGE_CONNECTION_STRING".to_owned(),
            ),
            AuthKind::Sas if detail.contains("time frame") => (
                "the shared access signature has expired or is not valid yet".to_owned(),
                "set AZURE_STORAGE_SAS_TOKEN to a new one".to_owned(),
            ),
            AuthKind::Sas => (
                "the store does not accept the shared access signature".to_owned(),
                format!("check AZURE_STORAGE_SAS_TOKEN: it must be one of the account {account}"),
            ),
            AuthKind::Token => (
                "the store does not accept the token".to_owned(),
                format!("log in again with az login, in the tenant of the account {account}"),
            ),
        })
    }

    fn denied(&self, auth: AuthKind, error: impl Fn(ErrorKind, String) -> Error) -> Error {
        let hint = match auth {
            AuthKind::Anonymous => "it is not public; leave out --no-sign-request to use credentials",
            AuthKind::Key => "a firewall or a policy of the account may keep this machine out",
            AuthKind::Sas => {
                "the shared access signature lacks the permission; it needs r, l, and for writing w, c and d"
            }
            AuthKind::Token => {
                "assign the role Storage Blob Data Reader, or for writing Storage Blob Data Contributor"
            }
        };
        let cause = match self.code.as_str() {
            "AuthorizationSourceIPMismatch" => "access denied from the address of this machine",
            "AuthorizationProtocolMismatch" => "access denied without https",
            _ => "access denied",
        };
        error(ErrorKind::PermissionDenied, cause.to_owned()).hint(hint)
    }

    fn words(&self) -> String {
        match (self.code.is_empty(), self.message.is_empty()) {
            (true, _) => format!("the server answers with status {}", self.status),
            (false, true) => format!("{} (status {})", self.code, self.status),
            (false, false) => format!("{} ({})", self.message.trim_end_matches('.'), self.code),
        }
    }
}

const NOT_AZURE: &str =
    "the endpoint must be that of Azure Blob Storage: https://ACCOUNT.blob.core.windows.net";
const DAMAGED: [&str; 3] = ["Crc64Mismatch", "Md5Mismatch", "InvalidMd5"];
const LEASED: [&str; 3] = ["LeaseIdMissing", "LeaseIdMismatchWithBlobOperation", "LeaseAlreadyPresent"];
const TOO_LARGE: [&str; 3] = ["MetadataTooLarge", "RequestBodyTooLarge", "InvalidResourceName"];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusal(status: u16, code: &str) -> AzureRefusal {
        AzureRefusal { status, code: code.to_owned(), ..AzureRefusal::default() }
    }

    fn error(refusal: AzureRefusal, auth: AuthKind) -> Error {
        refusal.into_error(&RefusedByAzure {
            during: "reading",
            location: "az://c/k".to_owned(),
            account: "mine",
            container: "c",
            blob: "it's",
            auth,
        })
    }

    #[test]
    fn codes_decide_what_is_repeated() {
        for (status, code, remedy) in [
            (503, "ServerBusy", AzureRemedy::Repeat { with_fewer: true }),
            (429, "", AzureRemedy::Repeat { with_fewer: true }),
            (500, "OperationTimedOut", AzureRemedy::Repeat { with_fewer: false }),
            (500, "InternalError", AzureRemedy::Repeat { with_fewer: false }),
            (502, "", AzureRemedy::Repeat { with_fewer: false }),
            (400, "Crc64Mismatch", AzureRemedy::RepeatOnce),
            (401, "InvalidAuthenticationInfo", AzureRemedy::RenewToken),
            (403, "AuthenticationFailed", AzureRemedy::None),
            (409, "BlobAlreadyExists", AzureRemedy::None),
            (412, "ConditionNotMet", AzureRemedy::None),
            (404, "BlobNotFound", AzureRemedy::None),
        ] {
            assert_eq!(refusal(status, code).remedy(), remedy, "{status} {code}");
        }
        assert!(refusal(409, "BlobAlreadyExists").is_condition() && refusal(412, "").is_condition());
        assert!(!refusal(412, "LeaseIdMissing").is_condition());
    }

    #[test]
    fn codes_decide_the_kind_of_error_and_the_remedy() {
        use AuthKind::{Anonymous, Key, Sas, Token};
        for (status, code, auth, kind, words) in [
            (404, "ContainerNotFound", Key, ErrorKind::NotFound, "the container c does not exist"),
            (404, "BlobNotFound", Key, ErrorKind::NotFound, ""),
            (404, "", Key, ErrorKind::Protocol, "https://ACCOUNT.blob.core.windows.net"),
            (400, "", Key, ErrorKind::Protocol, "status 400"),
            (404, "ResourceNotFound", Anonymous, ErrorKind::PermissionDenied, "--no-sign-request"),
            (409, "PublicAccessNotPermitted", Anonymous, ErrorKind::PermissionDenied, "--no-sign-request"),
            (403, "AuthenticationFailed", Key, ErrorKind::Unauthenticated, "check AZURE_STORAGE_KEY"),
            (403, "AuthenticationFailed", Sas, ErrorKind::Unauthenticated, "check AZURE_STORAGE_SAS_TOKEN"),
            (401, "InvalidAuthenticationInfo", Token, ErrorKind::Unauthenticated, "az login"),
            (403, "KeyBasedAuthenticationNotPermitted", Key, ErrorKind::Unauthenticated, "az login"),
            (403, "AuthorizationPermissionMismatch", Token, ErrorKind::PermissionDenied, "Storage Blob Data"),
            (
                403,
                "AuthorizationPermissionMismatch",
                Sas,
                ErrorKind::PermissionDenied,
                "lacks the permission",
            ),
            (403, "AuthorizationFailure", Key, ErrorKind::PermissionDenied, "firewall"),
            (409, "BlobArchived", Key, ErrorKind::Unsupported, "--name 'it'\\''s' --tier Hot"),
            (412, "LeaseIdMissing", Key, ErrorKind::Conflict, "lease break"),
            (409, "SnapshotsPresent", Key, ErrorKind::Conflict, "--delete-snapshots include"),
            (409, "BlobImmutableDueToPolicy", Key, ErrorKind::PermissionDenied, "policy"),
            (400, "Crc64Mismatch", Key, ErrorKind::Corrupt, "twice"),
            (400, "MetadataTooLarge", Key, ErrorKind::Unsupported, ""),
            (412, "ConditionNotMet", Key, ErrorKind::Conflict, ""),
            (503, "ServerBusy", Key, ErrorKind::TimedOut, ""),
            (400, "InvalidInput", Key, ErrorKind::Io, ""),
        ] {
            let error = error(refusal(status, code), auth);
            assert_eq!(error.kind, kind, "{status} {code}: {error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn answers_are_read_with_the_reason() {
        let body = |detail: &str| {
            format!(
                "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>AuthenticationFailed</Code>\
                 <Message>Server failed to authenticate the request.\nRequestId:1\nTime:2</Message>\
                 <AuthenticationErrorDetail>{detail}</AuthenticationErrorDetail></Error>"
            )
        };
        let told = |detail: &str, auth| {
            error(AzureRefusal::new(403, Some("AuthenticationFailed"), body(detail).as_bytes()), auth)
                .to_string()
        };
        let skewed = told("Request date header too old: 'Fri, 27 Nov 2026 10:00:00 GMT'", AuthKind::Key);
        assert!(skewed.contains("10:00:00 GMT") && skewed.contains("set the clock"), "{skewed}");
        let expired = told("Signature not valid in the specified time frame: Start [a]", AuthKind::Sas);
        assert!(expired.contains("has expired"), "{expired}");
        let refusal = AzureRefusal::new(404, Some("BlobNotFound"), b"");
        assert_eq!((refusal.code.as_str(), refusal.is_missing_blob()), ("BlobNotFound", true));
        assert_eq!(AzureRefusal::new(502, None, b"<html>bad gateway"), super::tests::refusal(502, ""));
    }

    proptest! {
        #[test]
        fn any_body_is_read_without_a_panic(body in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = AzureRefusal::new(400, None, &body);
        }
    }
}
