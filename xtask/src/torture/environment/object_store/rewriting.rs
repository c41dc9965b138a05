//! Changes of requests by the proxy: the size of pages, and a bit of content.

use std::io::{self, Write};

use super::client::signed_headers;

/// Returns the head of the request for a listing with pages of at most so many entries. `None` if it is no such request,
/// or if its signature covers the size of its pages and cannot be made here.
pub(super) fn with_page(first: &str, host: &str, page: u32) -> Option<Vec<u8>> {
    let (target, is_s3) = (first.split(' ').nth(1)?, first.contains("list-type=2"));
    let is_open = target.contains("sig=") || target.starts_with("/storage/v1/");
    if !first.starts_with("GET ") || !(is_s3 || is_open) {
        return None;
    }
    let (path, query) = target.split_once('?')?;
    let mut is_listing = false;
    let parts: Vec<String> = query
        .split('&')
        .map(|part| match part.split_once('=') {
            Some((name @ ("max-keys" | "maxresults" | "maxResults"), asked)) => {
                is_listing = true;
                format!("{name}={}", asked.parse().unwrap_or(page).min(page))
            }
            _ => part.to_owned(),
        })
        .collect();
    if !is_listing {
        return None;
    }
    let query = parts.join("&");
    let headers = match is_s3 {
        true => signed_headers("GET", path, &query, host).ok()?,
        false => format!("Host: {host}\r\nx-ms-version: 2021-12-02\r\n"),
    };
    Some(format!("GET {path}?{query} HTTP/1.1\r\n{headers}\r\n").into_bytes())
}

/// Passes bytes on, with one bit of them changed.
#[derive(Debug)]
pub(super) struct BitFlipper<W> {
    output: W,
    left: u64,
}

impl<W> BitFlipper<W> {
    /// Returns a writer that changes the byte at an offset.
    pub(super) fn new(output: W, at: u64) -> Self {
        Self { output, left: at }
    }
}

impl<W: Write> Write for BitFlipper<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut bytes = bytes.to_vec();
        if let Some(byte) = usize::try_from(self.left).ok().and_then(|at| bytes.get_mut(at)) {
            *byte ^= 1;
        }
        self.output.write_all(&bytes)?;
        // Wraps far beyond the end once the byte has passed.
        self.left = self.left.wrapping_sub(bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Returns the offset of a byte of content in the body of a request that the server checks, if there is one.
pub(super) fn spoilable(head: &[u8], length: u64) -> Option<u64> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let has = |name: &str| head.contains(&format!("\r\n{name}"));
    // fake-gcs-server does not look at the checksum.
    let is_checked = has("x-amz-checksum-") || has("x-ms-content-crc64:");
    (length > 0 && is_checked).then_some(length / 2)
}
