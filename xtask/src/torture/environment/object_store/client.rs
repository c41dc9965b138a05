//! Another program that stores objects: requests signed by Signature Version 4.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use anyhow::ensure;
use sha2::{Digest, Sha256};

/// The client.
#[derive(Clone, Copy, Debug)]
pub struct StoreClient {
    pub(super) port: u16,
    pub(super) bucket: &'static str,
    pub(super) access_key: &'static str,
    pub(super) secret_key: &'static str,
}

const PAYLOAD: &str = "UNSIGNED-PAYLOAD";

impl StoreClient {
    /// Stores an object with no metadata. Returns false if the store has no place for it.
    ///
    /// # Errors
    /// Returns an error if the server fails.
    pub fn put(&self, key: &[u8], content: &[u8]) -> anyhow::Result<bool> {
        let status = self.send("PUT", key, content)?;
        // In a file system a key can neither be below another one nor be too long.
        ensure!(matches!(status, 200 | 400 | 409), "the store answered {status}");
        Ok(status == 200)
    }

    /// Deletes an object, if it is there.
    ///
    /// # Errors
    /// Returns an error if the server fails.
    pub fn delete(&self, key: &[u8]) -> anyhow::Result<()> {
        let status = self.send("DELETE", key, &[])?;
        ensure!(matches!(status, 204 | 400 | 404 | 409), "the store answered {status}");
        Ok(())
    }

    fn send(&self, method: &str, key: &[u8], content: &[u8]) -> anyhow::Result<u16> {
        let host = format!("127.0.0.1:{}", self.port);
        let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let (day, mut path) = (&time[..8], format!("/{}/", self.bucket));
        for byte in key {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                    path.push(char::from(*byte));
                }
                byte => write!(path, "%{byte:02X}")?,
            }
        }
        let signed = "host;x-amz-content-sha256;x-amz-date";
        let request = format!(
            "{method}\n{path}\n\nhost:{host}\nx-amz-content-sha256:{PAYLOAD}\nx-amz-date:{time}\n\n{signed}\n{PAYLOAD}"
        );
        let scope = format!("{day}/us-east-1/s3/aws4_request");
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(request)));
        let mut signing_key = format!("AWS4{}", self.secret_key).into_bytes();
        for part in [day, "us-east-1", "s3", "aws4_request", &text] {
            signing_key = hmac(&signing_key, part.as_bytes());
        }
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n\
             x-amz-content-sha256: {PAYLOAD}\r\nx-amz-date: {time}\r\nAuthorization: AWS4-HMAC-SHA256 \
             Credential={}/{scope}, SignedHeaders={signed}, Signature={}\r\n\r\n",
            content.len(),
            self.access_key,
            hex(&signing_key)
        );
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.write_all(head.as_bytes())?;
        stream.write_all(content)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let first = String::from_utf8_lossy(&answer[..answer.len().min(100)]).into_owned();
        Ok(first.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0))
    }
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
