//! Signatures of requests to S3 (version 4), for one key and one region, without a digest of the content.

use std::fmt::Write;

use aws_lc_rs::{digest, hmac};

const REGION: &str = "us-east-1";
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// A key that signs requests of one day.
pub(super) struct LoadSigner {
    access_key: String,
    day: String,
    key: hmac::Key,
}

impl LoadSigner {
    /// Derives the key of today.
    pub(super) fn new(access_key: &str, secret_key: &str) -> Self {
        let day = stamp()[..8].to_owned();
        let mut key = format!("AWS4{secret_key}").into_bytes();
        for word in [&day, REGION, "s3", "aws4_request"] {
            key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), word.as_bytes()).as_ref().to_vec();
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        Self { access_key: access_key.to_owned(), day, key }
    }

    /// Returns the header lines that sign a request. The query is sorted, and each of its parts has a `=`.
    pub(super) fn headers(&self, method: &str, host: &str, path: &str, query: &str) -> String {
        let stamp = stamp();
        let names = "host;x-amz-content-sha256;x-amz-date";
        let canonical = format!(
            "{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{UNSIGNED}\nx-amz-date:{stamp}\n\n{names}\n{UNSIGNED}"
        );
        let scope = format!("{}/{REGION}/s3/aws4_request", self.day);
        let digest = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
        let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}");
        let signature = hex(hmac::sign(&self.key, text.as_bytes()).as_ref());
        format!(
            "x-amz-date: {stamp}\r\nx-amz-content-sha256: {UNSIGNED}\r\nAuthorization: AWS4-HMAC-SHA256 \
             Credential={}/{scope}, SignedHeaders={names}, Signature={signature}\r\n",
            self.access_key
        )
    }
}

/// Returns the time as `20261127T103000Z`.
fn stamp() -> String {
    jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
