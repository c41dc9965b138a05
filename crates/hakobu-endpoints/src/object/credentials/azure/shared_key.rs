//! Signatures of Azure's requests with the key of an account (SharedKey).

use std::time::SystemTime;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, HeaderName, HeaderValue, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, RANGE,
};
use http::{HeaderMap, Method};

const DATE: HeaderName = HeaderName::from_static("x-ms-date");
const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

/// The key of a storage account.
#[derive(Clone)]
pub(crate) struct SharedKey {
    pub(super) account: String,
    key: hmac::Key,
}

impl std::fmt::Debug for SharedKey {
    /// Leaves the key out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedKey").field("account", &self.account).finish_non_exhaustive()
    }
}

/// A request to sign. Path and query are encoded as they are sent, without what the account's name adds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignedRequest<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    /// Names and values that are not encoded, in the order of the names.
    pub(crate) query: &'a [(&'static str, String)],
    pub(crate) content_bytes: u64,
}

impl SharedKey {
    /// Returns the key with this name in base64; `None` if it is not base64.
    pub(crate) fn new(account: &str, key: &str) -> Option<Self> {
        let key = BASE64_STANDARD.decode(key.trim()).ok().filter(|key| !key.is_empty())?;
        Some(Self { account: account.to_owned(), key: hmac::Key::new(hmac::HMAC_SHA256, &key) })
    }

    /// Returns the signature of a text, in base64.
    fn signature(&self, text: &str) -> String {
        BASE64_STANDARD.encode(hmac::sign(&self.key, text.as_bytes()))
    }

    /// Adds the headers that sign a request at `time`. A value that no header can hold is left out, and the server
    /// rejects the request.
    pub(crate) fn sign(&self, request: SignedRequest<'_>, headers: &mut HeaderMap, time: SystemTime) {
        if let Ok(date) = HeaderValue::from_str(&httpdate::fmt_http_date(time)) {
            headers.insert(DATE, date);
        }
        let signature = self.signature(&self.canonical(request, headers));
        let authorization = format!("SharedKey {}:{signature}", self.account);
        if let Ok(mut value) = HeaderValue::from_str(&authorization) {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
    }

    /// Returns the text that is signed.
    fn canonical(&self, request: SignedRequest<'_>, headers: &HeaderMap) -> String {
        let length = match request.content_bytes {
            0 => String::new(),
            bytes => bytes.to_string(),
        };
        let mut text = format!("{}\n", request.method);
        let mut line = |value: &str| text.extend([value, "\n"]);
        let header = |name: HeaderName| -> String {
            headers
                .get(name)
                .map_or_else(String::new, |value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        line(&header(CONTENT_ENCODING));
        line(&header(CONTENT_LANGUAGE));
        line(&length);
        line(&header(CONTENT_MD5));
        line(&header(CONTENT_TYPE));
        // The date is in a header of Azure's own.
        line("");
        for name in [IF_MODIFIED_SINCE, IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, RANGE] {
            line(&header(name));
        }
        let mut own: Vec<(&str, &[u8])> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .filter(|(name, _)| name.starts_with("x-ms-"))
            .collect();
        own.sort_unstable_by_key(|(name, _)| *name);
        for (name, value) in own {
            // Only ASCII is ever sent.
            let value = String::from_utf8_lossy(value);
            text.extend([name, ":", value.trim(), "\n"]);
        }
        text.extend(["/", &self.account, request.path]);
        for (name, value) in request.query {
            text.extend(["\n", name, ":", value]);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The account that Microsoft's emulators have, and its key.
    const ACCOUNT: &str = "devstoreaccount1";
    const KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    /// The example of "Authorize with Shared Key" in Microsoft's documentation.
    #[test]
    fn the_text_is_that_of_the_documentation() {
        let key = SharedKey::new("myaccount", "a2V5").unwrap();
        let query = [
            ("comp", "metadata".to_owned()),
            ("restype", "container".to_owned()),
            ("timeout", "20".to_owned()),
        ];
        let sent = headers(&[("x-ms-version", "2015-02-21"), ("x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT")]);
        let request =
            SignedRequest { method: &Method::GET, path: "/mycontainer", query: &query, content_bytes: 0 };
        assert_eq!(
            key.canonical(request, &sent),
            "GET\n\n\n\n\n\n\n\n\n\n\n\n\
             x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n\
             /myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20"
        );
    }

    #[test]
    fn a_request_with_content_is_signed_with_all_that_counts() {
        let key = SharedKey::new(ACCOUNT, KEY).unwrap();
        let mut sent = headers(&[
            ("if-none-match", "*"),
            ("content-type", "text/plain"),
            ("x-ms-version", "2023-11-03"),
            ("x-ms-meta-mtime", " 1 "),
            ("accept", "*/*"),
        ]);
        let request = SignedRequest {
            method: &Method::PUT,
            path: "/devstoreaccount1/c/a%20b",
            query: &[("comp", "block".to_owned()), ("blockid", "AAA=".to_owned())],
            content_bytes: 7,
        };
        key.sign(request, &mut sent, SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_773_600));
        assert_eq!(
            key.canonical(request, &sent),
            "PUT\n\n\n7\n\ntext/plain\n\n\n\n*\n\n\n\
             x-ms-date:Fri, 27 Nov 2026 10:00:00 GMT\nx-ms-meta-mtime:1\nx-ms-version:2023-11-03\n\
             /devstoreaccount1/devstoreaccount1/c/a%20b\ncomp:block\nblockid:AAA="
        );
        let signed = sent.get(AUTHORIZATION).unwrap();
        assert!(signed.is_sensitive() && signed.to_str().unwrap().starts_with("SharedKey devstoreaccount1:"));
    }

    #[test]
    fn keys_are_base64_and_not_shown() {
        assert!(SharedKey::new("a", "no base64!").is_none() && SharedKey::new("a", "").is_none());
        let text = format!("{:?}", SharedKey::new("visible", KEY).unwrap());
        assert!(text.contains("visible") && !text.contains("Eby8"), "{text}");
    }
}
