//! A connection to a store: one request after the other, no more than HTTP and a signature.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, bail, ensure};

use super::sign::LoadSigner;

/// The bytes read at a time.
const READ_BYTES: usize = 256 << 10;
/// The longest head of an answer in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// A request. The content may be of any bytes: nothing checks it.
pub(super) struct LoadRequest<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    /// Further header lines, each with its end.
    pub(super) headers: &'a str,
    pub(super) content: &'a [u8],
}

/// The head of an answer, and the body if it is short.
pub(super) struct LoadAnswer {
    pub(super) head: String,
    pub(super) body: Vec<u8>,
    pub(super) body_bytes: u64,
}

/// A connection that stays open.
pub(super) struct LoadConnection<'a> {
    stream: TcpStream,
    host: &'a str,
    signer: &'a LoadSigner,
    buffer: Vec<u8>,
}

impl<'a> LoadConnection<'a> {
    pub(super) fn open(host: &'a str, signer: &'a LoadSigner) -> Result<Self> {
        let stream = TcpStream::connect(host).with_context(|| format!("connecting to {host}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, host, signer, buffer: vec![0; READ_BYTES] })
    }

    /// Sends a request and reads the answer. Long bodies are dropped as they arrive.
    pub(super) fn perform(&mut self, request: &LoadRequest<'_>) -> Result<LoadAnswer> {
        let LoadRequest { method, path, query, headers, content } = request;
        let mark = if query.is_empty() { "" } else { "?" };
        let signed = self.signer.headers(method, self.host, path, query);
        let head = format!(
            "{method} {path}{mark}{query} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n{headers}{signed}\r\n",
            self.host,
            content.len()
        );
        if content.len() < READ_BYTES {
            self.stream.write_all(&[head.as_bytes(), content].concat())?;
        } else {
            self.stream.write_all(head.as_bytes())?;
            self.stream.write_all(content)?;
        }
        let answer = self.answer().with_context(|| format!("{method} {path}"))?;
        // Completions of uploads may fail after a good status.
        let has_failed = *method == "POST" && String::from_utf8_lossy(&answer.body).contains("<Error>");
        if !answer.head.starts_with("HTTP/1.1 2") || has_failed {
            let status = answer.head.lines().next().unwrap_or_default();
            bail!("{method} {path}: {status} {}", String::from_utf8_lossy(&answer.body));
        }
        Ok(answer)
    }

    fn answer(&mut self) -> Result<LoadAnswer> {
        let mut filled = 0;
        let end = loop {
            ensure!(filled < HEAD_BYTES_MAX, "the head of the answer does not end");
            let got = self.stream.read(&mut self.buffer[filled..])?;
            ensure!(got > 0, "the server closed the connection");
            filled += got;
            if let Some(place) = self.buffer[..filled].windows(4).position(|four| four == b"\r\n\r\n") {
                break place + 4;
            }
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        let mut body = self.buffer[end..filled].to_vec();
        let mut body_bytes = body.len() as u64;
        match header(&head, "content-length") {
            Some(length) => {
                let length: u64 = length.parse().context("the length of the answer")?;
                while body_bytes < length {
                    let got = self.stream.read(&mut self.buffer)?;
                    ensure!(got > 0, "the answer ends early");
                    if body.len() < READ_BYTES {
                        body.extend_from_slice(&self.buffer[..got]);
                    }
                    body_bytes += got as u64;
                }
            }
            None if header(&head, "transfer-encoding").is_some() => {
                while !body.ends_with(b"0\r\n\r\n") {
                    let got = self.stream.read(&mut self.buffer)?;
                    ensure!(got > 0, "the answer ends early");
                    body.extend_from_slice(&self.buffer[..got]);
                }
            }
            None if head.contains(" 204 ") => {}
            None => bail!("an answer without a length"),
        }
        Ok(LoadAnswer { head, body, body_bytes })
    }
}

/// Returns the value of a header.
pub(super) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}
