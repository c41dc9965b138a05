//! Another program that stores objects, and reads those of Azurite and fake-gcs-server for the oracle.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, ensure};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::exchange::{StoreAnswer, escaped, exchange, unescaped};
use super::kind::{ACCESS_KEY, ACCOUNT, BUCKET, SECRET_KEY, SIGNATURE, TortureStoreKind};

/// The client.
#[derive(Clone, Copy, Debug)]
pub struct StoreClient {
    pub(super) kind: TortureStoreKind,
    /// The port of the server.
    pub(super) port: u16,
    /// The port in the name that the server goes by.
    pub(super) shown_port: u16,
}

/// An object in a listing.
#[derive(Clone, Debug)]
pub struct KeptObject {
    /// The key.
    pub key: String,
    /// The metadata, without the provider's prefix.
    pub metadata: BTreeMap<String, String>,
    /// The time of the upload, in seconds and nanoseconds.
    pub uploaded: (i64, u32),
    /// A number that each change of the object changes.
    pub version: u64,
}

const PAYLOAD: &str = "UNSIGNED-PAYLOAD";

impl StoreClient {
    /// Stores an object with no metadata. Returns false if the store has no place for it.
    ///
    /// # Errors
    /// Returns an error if the server fails.
    pub fn put(&self, key: &[u8], content: &[u8]) -> anyhow::Result<bool> {
        let status = match self.kind {
            TortureStoreKind::Versitygw => self.send_signed("PUT", key, content)?,
            TortureStoreKind::Azurite => {
                // A directory is a blob without the slash.
                let (key, mark) = match key.strip_suffix(b"/") {
                    Some(key) => (key, "x-ms-meta-hdi_isfolder: true\r\n"),
                    None => (key, ""),
                };
                let headers = format!("x-ms-blob-type: BlockBlob\r\n{mark}");
                self.send("PUT", &self.path(key), &headers, content)?.status
            }
            TortureStoreKind::FakeGcs => {
                let key = escaped(key, true);
                let target = format!("/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={key}");
                self.send("POST", &target, "Content-Type: application/octet-stream\r\n", content)?.status
            }
        };
        // In a file system a key can neither be below another one nor be too long.
        ensure!(matches!(status, 200 | 201 | 400 | 409), "the store answered {status}");
        Ok(matches!(status, 200 | 201))
    }

    /// Deletes an object, if it is there.
    ///
    /// # Errors
    /// Returns an error if the server fails.
    pub fn delete(&self, key: &[u8]) -> anyhow::Result<()> {
        let status = match self.kind {
            TortureStoreKind::Versitygw => self.send_signed("DELETE", key, &[])?,
            TortureStoreKind::Azurite => self.send("DELETE", &self.path(key), "", &[])?.status,
            TortureStoreKind::FakeGcs => self.send("DELETE", &self.path(key), "", &[])?.status,
        };
        ensure!(matches!(status, 200 | 202 | 204 | 400 | 404 | 409), "the store answered {status}");
        Ok(())
    }

    /// Creates the bucket.
    ///
    /// # Errors
    /// Returns an error if the server fails.
    pub fn make_bucket(&self) -> anyhow::Result<()> {
        let answer = match self.kind {
            TortureStoreKind::Versitygw => return Ok(()),
            TortureStoreKind::Azurite => {
                let target = format!("/{ACCOUNT}/{BUCKET}?restype=container&{SIGNATURE}");
                self.send("PUT", &target, "", &[])?
            }
            TortureStoreKind::FakeGcs => {
                let body = format!("{{\"name\":\"{BUCKET}\"}}");
                self.send("POST", "/storage/v1/b?project=torture", "", body.as_bytes())?
            }
        };
        ensure!(matches!(answer.status, 200 | 201), "making the bucket: status {}", answer.status);
        Ok(())
    }

    /// Returns the objects whose keys begin with a prefix, in Azurite and fake-gcs-server.
    ///
    /// # Errors
    /// Returns an error if the server fails.
    pub fn list(&self, prefix: &str) -> anyhow::Result<Vec<KeptObject>> {
        let (mut objects, mut token) = (Vec::new(), String::new());
        let prefix = escaped(prefix.as_bytes(), true);
        loop {
            let after = escaped(token.as_bytes(), true);
            let target = match self.kind {
                TortureStoreKind::Azurite => format!(
                    "/{ACCOUNT}/{BUCKET}?restype=container&comp=list&include=metadata&prefix={prefix}&marker={after}&{SIGNATURE}"
                ),
                _ => format!("/storage/v1/b/{BUCKET}/o?prefix={prefix}&pageToken={after}"),
            };
            let answer = self.send("GET", &target, "", &[])?;
            ensure!(answer.status == 200, "listing: status {}", answer.status);
            let (page, next) = match self.kind {
                TortureStoreKind::Azurite => xml_page(&answer.body)?,
                _ => json_page(&answer.body)?,
            };
            objects.extend(page);
            token = next;
            if token.is_empty() {
                return Ok(objects);
            }
        }
    }

    /// Returns the content of an object, in Azurite and fake-gcs-server.
    ///
    /// # Errors
    /// Returns an error if the server fails.
    pub fn get(&self, key: &str) -> anyhow::Result<Vec<u8>> {
        let path = self.path(key.as_bytes());
        let target = if self.kind == TortureStoreKind::FakeGcs { format!("{path}?alt=media") } else { path };
        let answer = self.send("GET", &target, "", &[])?;
        ensure!(answer.status == 200, "reading {key}: status {}", answer.status);
        Ok(answer.body)
    }

    /// Returns the path of an object in requests, with the signature where one is needed.
    fn path(&self, key: &[u8]) -> String {
        match self.kind {
            TortureStoreKind::Azurite => format!("/{ACCOUNT}/{BUCKET}/{}?{SIGNATURE}", escaped(key, false)),
            _ => format!("/storage/v1/b/{BUCKET}/o/{}", escaped(key, true)),
        }
    }

    fn send(&self, method: &str, target: &str, headers: &str, content: &[u8]) -> anyhow::Result<StoreAnswer> {
        let headers = format!("Host: 127.0.0.1:{}\r\n{headers}", self.shown_port);
        exchange(self.port, method, target, &headers, content)
    }

    fn send_signed(&self, method: &str, key: &[u8], content: &[u8]) -> anyhow::Result<u16> {
        let path = format!("/{BUCKET}/{}", escaped(key, false));
        let headers = signed_headers(method, &path, "", &format!("127.0.0.1:{}", self.port))?;
        Ok(exchange(self.port, method, &path, &headers, content)?.status)
    }
}

/// Returns the headers of a request of S3, signed by Signature Version 4. `query` is sorted.
pub(super) fn signed_headers(method: &str, path: &str, query: &str, host: &str) -> anyhow::Result<String> {
    let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = &time[..8];
    let signed = "host;x-amz-content-sha256;x-amz-date";
    let request = format!(
        "{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{PAYLOAD}\nx-amz-date:{time}\n\n{signed}\n{PAYLOAD}"
    );
    let scope = format!("{day}/us-east-1/s3/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(request)));
    let mut signing_key = format!("AWS4{SECRET_KEY}").into_bytes();
    for part in [day, "us-east-1", "s3", "aws4_request", &text] {
        signing_key = hmac(&signing_key, part.as_bytes());
    }
    Ok(format!(
        "Host: {host}\r\nx-amz-content-sha256: {PAYLOAD}\r\nx-amz-date: {time}\r\nAuthorization: AWS4-HMAC-SHA256 \
         Credential={ACCESS_KEY}/{scope}, SignedHeaders={signed}, Signature={}\r\n",
        hex(&signing_key)
    ))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = if key.len() > 64 { Sha256::digest(key).to_vec() } else { key.to_vec() };
    block.resize(64, 0);
    let pad = |with: u8| block.iter().map(|byte| byte ^ with).collect::<Vec<u8>>();
    let inner = Sha256::digest([pad(0x36), message.to_vec()].concat());
    Sha256::digest([pad(0x5c), inner.to_vec()].concat()).to_vec()
}

/// Reads a page of a listing of Azure. Returns its blobs and the marker of the next page.
fn xml_page(body: &[u8]) -> anyhow::Result<(Vec<KeptObject>, String)> {
    let text = std::str::from_utf8(body).context("a listing that is no text")?;
    let mut objects = Vec::new();
    for blob in text.split("<Blob>").skip(1) {
        let blob = blob.split("</Blob>").next().unwrap_or_default();
        let metadata = blob.split_once("<Metadata>").and_then(|(_, rest)| rest.split_once("</Metadata>"));
        let mut pairs = BTreeMap::new();
        for element in metadata.map_or("", |(inner, _)| inner).split("</") {
            if let Some((name, value)) = element.rsplit_once('<').and_then(|(_, it)| it.split_once('>')) {
                pairs.insert(name.to_ascii_lowercase(), unquoted(value));
            }
        }
        let key = match element(blob, "<Name Encoded=\"true\">", "</Name>") {
            Some(name) => String::from_utf8(unescaped(name))?,
            None => unquoted(element(blob, "<Name>", "</Name>").context("a blob without a name")?),
        };
        let uploaded = element(blob, "<Last-Modified>", "</").context("a blob without a time")?;
        let uploaded = jiff::fmt::rfc2822::parse(uploaded).context("the time of a blob")?.timestamp();
        let tag = element(blob, "<Etag>", "</").context("a blob without an ETag")?;
        objects.push(KeptObject {
            key,
            metadata: pairs,
            uploaded: (uploaded.as_second(), 0),
            version: number_of(tag.as_bytes()),
        });
    }
    Ok((objects, unquoted(element(text, "<NextMarker>", "</").unwrap_or_default())))
}

fn element<'t>(text: &'t str, begin: &str, end: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(begin)?;
    Some(rest.split_once(end)?.0)
}

/// Returns the text that XML stands for.
fn unquoted(xml: &str) -> String {
    let mut text = String::new();
    let mut parts = xml.split('&');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (name, rest) = part.split_once(';').unwrap_or((part, ""));
        match name {
            "amp" => text.push('&'),
            "lt" => text.push('<'),
            "gt" => text.push('>'),
            "quot" => text.push('"'),
            "apos" => text.push('\''),
            _ => {
                let number = name.strip_prefix("#x").map(|digits| u32::from_str_radix(digits, 16));
                let number = number.or_else(|| name.strip_prefix('#').map(str::parse));
                text.extend(number.and_then(Result::ok).and_then(char::from_u32));
            }
        }
        text.push_str(rest);
    }
    text
}

/// Reads a page of a listing of Google Cloud Storage. Returns its objects and the token of the next page.
fn json_page(body: &[u8]) -> anyhow::Result<(Vec<KeptObject>, String)> {
    let page: Value = serde_json::from_slice(body).context("a listing that is no JSON")?;
    let mut objects = Vec::new();
    for item in page["items"].as_array().into_iter().flatten() {
        let text = |name: &str| item[name].as_str().unwrap_or_default();
        let pairs = item["metadata"].as_object().into_iter().flatten();
        let uploaded: jiff::Timestamp = text("timeCreated").parse().context("the time of an object")?;
        let generation = format!("{}/{}", text("generation"), text("metageneration"));
        objects.push(KeptObject {
            key: text("name").to_owned(),
            metadata: pairs
                .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
                .collect(),
            uploaded: (uploaded.as_second(), uploaded.subsec_nanosecond().unsigned_abs()),
            version: number_of(generation.as_bytes()),
        });
    }
    Ok((objects, page["nextPageToken"].as_str().unwrap_or_default().to_owned()))
}

/// Returns a number for bytes, different ones for different bytes in all likelihood.
fn number_of(bytes: &[u8]) -> u64 {
    Sha256::digest(bytes).iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}
