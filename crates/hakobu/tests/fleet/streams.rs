//! Deletes the streams of a nats-server and their consumers, by its protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Deletes all streams. Returns their number.
pub fn delete_streams(server: SocketAddr) -> usize {
    let mut reader = connect(server);
    let streams = streams(&mut reader);
    streams.iter().for_each(|stream| delete(&mut reader, &format!("STREAM.DELETE.{stream}")));
    streams.len()
}

/// Deletes the consumers of all streams, which stay. Returns their number.
pub fn delete_consumers(server: SocketAddr) -> usize {
    let mut reader = connect(server);
    let mut count = 0;
    for stream in streams(&mut reader) {
        let listed = request(&mut reader, &format!("$JS.API.CONSUMER.NAMES.{stream}"));
        for consumer in names(&listed["consumers"]) {
            delete(&mut reader, &format!("CONSUMER.DELETE.{stream}.{consumer}"));
            count += 1;
        }
    }
    count
}

fn connect(server: SocketAddr) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut reader = BufReader::new(stream);
    let connect =
        "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\nSUB inbox.test 1\r\n";
    reader.get_mut().write_all(connect.as_bytes()).unwrap();
    reader
}

fn streams(reader: &mut BufReader<TcpStream>) -> Vec<String> {
    names(&request(reader, "$JS.API.STREAM.NAMES")["streams"])
}

fn names(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn delete(reader: &mut BufReader<TcpStream>, what: &str) {
    let deleted = request(reader, &format!("$JS.API.{what}"));
    assert_eq!(deleted["success"], true, "{deleted}");
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
