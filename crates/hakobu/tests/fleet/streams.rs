//! Deletes the streams of a nats-server, by its protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Deletes all streams. Returns their number.
pub fn delete_streams(server: SocketAddr) -> usize {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut reader = BufReader::new(stream);
    let connect =
        "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\nSUB inbox.test 1\r\n";
    reader.get_mut().write_all(connect.as_bytes()).unwrap();
    let names = request(&mut reader, "$JS.API.STREAM.NAMES");
    let names = names["streams"].as_array().cloned().unwrap_or_default();
    for name in &names {
        let deleted = request(&mut reader, &format!("$JS.API.STREAM.DELETE.{}", name.as_str().unwrap()));
        assert_eq!(deleted["success"], true, "{deleted}");
    }
    names.len()
}

fn request(reader: &mut BufReader<TcpStream>, subject: &str) -> Value {
    write!(reader.get_mut(), "PUB {subject} inbox.test 0\r\n\r\n").unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["MSG", .., length] => {
                let mut body = vec![0; length.parse::<usize>().unwrap() + 2];
                reader.read_exact(&mut body).unwrap();
                return serde_json::from_slice(&body).unwrap();
            }
            ["PING"] => reader.get_mut().write_all(b"PONG\r\n").unwrap(),
            ["INFO", ..] => {}
            _ => panic!("{line}"),
        }
    }
}
