//! One request to a server, with plain sockets.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail};

const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// An answer.
#[derive(Debug)]
pub struct StoreAnswer {
    pub status: u16,
    pub body: Vec<u8>,
}

/// Sends a request and reads its answer.
pub fn exchange(
    port: u16,
    method: &str,
    target: &str,
    headers: &str,
    content: &[u8],
) -> anyhow::Result<StoreAnswer> {
    let head = format!(
        "{method} {target} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
        content.len()
    );
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(content)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    read(&answer).with_context(|| format!("{method} {target}"))
}

fn read(answer: &[u8]) -> anyhow::Result<StoreAnswer> {
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n").context("an answer without an end")?;
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status")?;
    let mut body = answer[end + 4..].to_vec();
    if head.contains("transfer-encoding: chunked") {
        body = unchunked(&body)?;
    }
    Ok(StoreAnswer { status, body })
}

fn unchunked(mut rest: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|part| part == b"\r\n").context("a chunk without a size")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end])?.trim(), 16)?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Ok(body);
        }
        if rest.len() < size + 2 {
            bail!("the answer ends within a chunk");
        }
        body.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
}

/// Returns bytes as part of a URL. Everything but letters, digits and `-._~` is escaped; a slash only if asked for.
pub(super) fn escaped(bytes: &[u8], slashes: bool) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(*byte));
            }
            b'/' if !slashes => text.push('/'),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// Returns the bytes that an escaped part of a URL stands for.
pub(super) fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}
