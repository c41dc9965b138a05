//! A client of HTTP/1.1 that sends exactly what a test wants.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers, with names in small letters.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("{error}: {} {:?}", self.status, String::from_utf8_lossy(&self.body))
        })
    }

    /// Returns the kind of the problem.
    pub fn kind(&self) -> String {
        self.json()["kind"].as_str().unwrap_or_default().to_owned()
    }
}

/// A connection.
pub struct Connection(BufReader<TcpStream>);

impl Connection {
    pub fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self(BufReader::new(stream))
    }

    /// Makes a connection for which the kernel keeps little that was not read.
    pub fn narrow(address: SocketAddr) -> Self {
        use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        sockopt::set_socket_recv_buffer_size(&socket, 32 << 10).unwrap();
        connect(&socket, &address).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self(BufReader::new(stream))
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// Sends a request.
    pub fn request(&mut self, line: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut text = format!("{line} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text.push_str("Host: localhost\r\n");
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        self.send(&[text.as_bytes(), body].concat());
    }

    /// Reads to the end. Returns true if there is one: the other side has ended the connection.
    pub fn has_end(&mut self) -> bool {
        match self.0.read_to_end(&mut Vec::new()) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end().to_owned()),
        }
    }

    /// Returns the status and the headers of the next answer.
    pub fn head(&mut self) -> (u16, Vec<(String, String)>) {
        let status = self.line().expect("an answer");
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        while let Some(line) = self.line().filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(": ").unwrap();
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        (status, headers)
    }

    /// Returns the next answer, whose length is known.
    pub fn answer(&mut self) -> Answer {
        let (status, headers) = self.head();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
        self.0.read_exact(&mut body).unwrap();
        Answer { status, headers, body }
    }
}

/// Sends one request on a connection of its own.
pub fn call(address: SocketAddr, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut connection = Connection::new(address);
    connection.request(line, headers, body);
    connection.answer()
}
