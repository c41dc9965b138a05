//! Signatures of S3's requests (version 4), without a digest of the content.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::{digest, hmac};
use hakobu_core::entry::FileTime;
use hakobu_core::times::rfc3339;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use http::{HeaderMap, Method};

use crate::object::credentials::SigningKeys;

const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";
const SERVICE: &str = "s3";

/// A request to sign. Path and query are encoded as they are sent, and the query is sorted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignedParts<'a> {
    pub(crate) method: &'a Method,
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) region: &'a str,
}

/// A signer that derives its key once a day.
#[derive(Default)]
pub(crate) struct Signer(Mutex<Option<DayKey>>);

#[derive(Clone)]
struct DayKey {
    keys: Arc<SigningKeys>,
    scope: String,
    key: hmac::Key,
}

impl Signer {
    /// Adds the headers that sign a request at `time`. A value that no header can hold is left out, and the server
    /// rejects the request.
    pub(crate) fn sign(
        &self,
        keys: &Arc<SigningKeys>,
        parts: SignedParts<'_>,
        headers: &mut HeaderMap,
        time: SystemTime,
    ) {
        let stamp = stamp(time);
        let mut add = |name, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        add(DATE, &stamp);
        add(CONTENT_DIGEST, UNSIGNED);
        if let Some(token) = &keys.session_token {
            add(SECURITY_TOKEN, token);
        }
        let day = self.day_key(keys, &stamp[..8], parts.region);
        let (canonical, names) = canonical(parts, headers);
        let digest = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
        let to_sign = format!("AWS4-HMAC-SHA256\n{stamp}\n{}\n{digest}", day.scope);
        let signature = hex(hmac::sign(&day.key, to_sign.as_bytes()).as_ref());
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={names}, Signature={signature}",
            keys.access_key, day.scope
        );
        if let Ok(mut value) = HeaderValue::from_str(&authorization) {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
    }

    fn day_key(&self, keys: &Arc<SigningKeys>, day: &str, region: &str) -> DayKey {
        let scope = format!("{day}/{region}/{SERVICE}/aws4_request");
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) =
            cached.as_ref().filter(|known| known.scope == scope && Arc::ptr_eq(&known.keys, keys))
        {
            return known.clone();
        }
        let mut key = [b"AWS4", keys.secret_key.as_bytes()].concat();
        for word in [day, region, SERVICE, "aws4_request"] {
            key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), word.as_bytes()).as_ref().to_vec();
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        cached.insert(DayKey { keys: Arc::clone(keys), scope, key }).clone()
    }
}

/// Returns the canonical form of a request, and the names of the headers that it covers.
fn canonical(parts: SignedParts<'_>, headers: &HeaderMap) -> (String, String) {
    let mut signed: Vec<(&str, &[u8])> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .filter(|(name, _)| name.starts_with("x-amz-"))
        .collect();
    signed.push(("host", parts.host.as_bytes()));
    signed.sort_unstable_by_key(|(name, _)| *name);
    let mut text = format!("{}\n{}\n{}\n", parts.method, parts.path, parts.query);
    let mut names = String::new();
    for (name, value) in signed {
        text.push_str(name);
        text.push(':');
        // Values are signed as bytes; only ASCII is ever sent.
        let mut words = value.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        if let Some(first) = words.next() {
            text.push_str(&String::from_utf8_lossy(first));
        }
        for word in words {
            text.push(' ');
            text.push_str(&String::from_utf8_lossy(word));
        }
        text.push('\n');
        if !names.is_empty() {
            names.push(';');
        }
        names.push_str(name);
    }
    text.push('\n');
    text.push_str(&names);
    text.push('\n');
    text.push_str(UNSIGNED);
    (text, names)
}

/// Returns a time as `20261127T103000Z`.
fn stamp(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let text = rfc3339(FileTime { seconds: seconds as i64, nanoseconds: 0 });
    let digits = text.split('.').next().unwrap_or_default().chars();
    digits.filter(|each| !matches!(each, '-' | ':')).chain(['Z']).collect()
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use aws_sigv4::http_request::{
        PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation,
        SigningSettings, UriPathNormalizationMode, sign,
    };
    use aws_sigv4::sign::v4;
    use proptest::prelude::*;

    use super::*;
    use crate::object::s3::spelling::encode_key;

    /// Returns the headers that AWS's own crate adds.
    fn reference(
        keys: &SigningKeys,
        parts: SignedParts<'_>,
        headers: &HeaderMap,
        time: SystemTime,
    ) -> Vec<(String, String)> {
        let identity = aws_credential_types::Credentials::new(
            &keys.access_key,
            &keys.secret_key,
            keys.session_token.clone(),
            None,
            "test",
        )
        .into();
        let mut settings = SigningSettings::default();
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        settings.signature_location = SignatureLocation::Headers;
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(parts.region)
            .name(SERVICE)
            .time(time)
            .settings(settings)
            .build()
            .unwrap()
            .into();
        let url = format!("http://{}{}?{}", parts.host, parts.path, parts.query);
        let headers = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
        let request =
            SignableRequest::new(parts.method.as_str(), url, headers, SignableBody::UnsignedPayload).unwrap();
        let (instructions, _) = sign(request, &params).unwrap().into_parts();
        instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    proptest! {
        #[test]
        fn signatures_are_those_of_the_vendor(
            key in "[a-zA-Z0-9 _.~!$&'()*+,;=:@%/äあ-]{1,30}",
            prefix in "[a-z0-9]{0,9}",
            value in "[!-~]{1,9}( {1,3}[!-~]{1,9}){0,3}",
            token in proptest::option::of("[A-Za-z0-9+/=]{1,40}"),
            seconds in 0u64..4_000_000_000,
        ) {
            prop_assume!(!key.split('/').any(|segment| segment.is_empty() || segment == "." || segment == ".."));
            let keys = Arc::new(SigningKeys {
                access_key: "AKIDEXAMPLE".into(),
                secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
                session_token: token,
                expires: None,
            });
            let path = format!("/bucket/{}", encode_key(&key));
            let query = format!("list-type=2&prefix={prefix}");
            let method = Method::GET;
            let (host, region) = ("127.0.0.1:7070", "eu-west-1");
            let parts = SignedParts { method: &method, host, path: &path, query: &query, region };
            let mut headers = HeaderMap::new();
            headers.insert("x-amz-meta-name", HeaderValue::from_str(&value).unwrap());
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            let expected = reference(&keys, parts, &headers, time);
            let signer = Signer::default();
            for _ in 0..2 {
                let mut signed = headers.clone();
                signer.sign(&keys, parts, &mut signed, time);
                for (name, value) in &expected {
                    prop_assert_eq!(signed.get(name.as_str()).map(|value| value.to_str().unwrap()), Some(value.as_str()));
                }
            }
        }
    }

    #[test]
    fn the_key_changes_with_the_day_and_the_credentials() {
        let keys = |secret: &str| {
            let (access_key, secret_key) = ("A".to_owned(), secret.to_owned());
            Arc::new(SigningKeys { access_key, secret_key, session_token: None, expires: None })
        };
        let method = Method::GET;
        let parts = SignedParts { method: &method, host: "h", path: "/b", query: "", region: "r" };
        let signer = Signer::default();
        let signed = |signer: &Signer, keys: &Arc<SigningKeys>, day: u64| {
            let mut headers = HeaderMap::new();
            signer.sign(keys, parts, &mut headers, UNIX_EPOCH + Duration::from_secs(day * 86_400));
            headers.get(AUTHORIZATION).unwrap().to_str().unwrap().to_owned()
        };
        let (one, other) = (keys("one"), keys("other"));
        for (keys, day) in [(&one, 1), (&one, 2), (&other, 2), (&one, 2), (&one, 1)] {
            assert_eq!(signed(&signer, keys, day), signed(&Signer::default(), keys, day));
        }
        assert_ne!(signed(&signer, &one, 1), signed(&signer, &other, 1));
    }
}
