//! Measures the rate of data connections on this host, over loopback.
//!
//! ```text
//! connection_rate [--file PATH] [--gib N] [--lanes 1|2] [--cipher NAME] [--hash] [--rounds N]
//! ```
//!
//! Each lane is one thread that reads 256 KiB at a time from a file (best in tmpfs), and one that receives and
//! discards. With `--hash` the sender computes BLAKE3 and CRC-64 and the receiver checks the CRC-64, or with `--cipher
//! none` both ends compute BLAKE3.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::fs::File;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crc_fast::CrcAlgorithm::Crc64Nvme;
use hakobu_net::connection::{Connection, ConnectionCipher, ConnectionError, FrameWait, TlsIdentity};

const PAYLOAD_BYTES: usize = 256 * 1024;
const TIMEOUT: Duration = Duration::from_secs(10);

struct Options {
    file: PathBuf,
    bytes: u64,
    lanes: usize,
    cipher: ConnectionCipher,
    hash: bool,
    rounds: usize,
}

fn main() {
    let options = options();
    prepare(&options.file, options.bytes);
    for _ in 0..options.rounds {
        let seconds = run(&options);
        println!(
            "{:?} lanes={} hash={} {:.2} GB/s",
            options.cipher,
            options.lanes,
            options.hash,
            options.bytes as f64 / seconds / 1e9
        );
    }
}

fn options() -> Options {
    let mut options = Options {
        file: "/dev/shm/hakobu-connection-rate".into(),
        bytes: 8 << 30,
        lanes: 2,
        cipher: ConnectionCipher::Aes128Gcm,
        hash: false,
        rounds: 1,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("a value");
        match word.as_str() {
            "--file" => options.file = value().into(),
            "--gib" => options.bytes = value().parse::<u64>().expect("a number") << 30,
            "--lanes" => options.lanes = value().parse().expect("a number"),
            "--rounds" => options.rounds = value().parse().expect("a number"),
            "--hash" => options.hash = true,
            "--cipher" => options.cipher = cipher(&value()),
            _ => panic!("unknown option {word}"),
        }
    }
    options
}

fn cipher(name: &str) -> ConnectionCipher {
    match name {
        "aes-128-gcm" => ConnectionCipher::Aes128Gcm,
        "aes-256-gcm" => ConnectionCipher::Aes256Gcm,
        "chacha20-poly1305" => ConnectionCipher::Chacha20Poly1305,
        "none" => ConnectionCipher::None,
        _ => panic!("unknown cipher {name}"),
    }
}

/// Creates the file if it is missing. The first write to new memory is slow, so the file is written, removed and
/// written again.
fn prepare(path: &Path, bytes: u64) {
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.len() >= bytes) {
        return;
    }
    for round in 0..2 {
        let mut file = File::create(path).expect("create the file");
        let mut block = vec![0_u8; 1 << 20];
        for at in 0..bytes >> 20 {
            let mut output = blake3::Hasher::new().update(&at.to_le_bytes()).finalize_xof();
            output.fill(&mut block);
            file.write_all(&block).expect("write the file");
        }
        if round == 0 {
            std::fs::remove_file(path).expect("remove the file");
        }
    }
}

fn run(options: &Options) -> f64 {
    let (near, far) = (TlsIdentity::generate().unwrap(), TlsIdentity::generate().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let next = AtomicU64::new(0);
    let file = File::open(&options.file).unwrap();
    let mut pairs = Vec::new();
    for _ in 0..options.lanes {
        let stream = TcpStream::connect(address).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        pairs.push(std::thread::scope(|scope| {
            let server = scope
                .spawn(|| Connection::server(accepted, &far, near.fingerprint(), options.cipher, TIMEOUT));
            let client = Connection::client(stream, &near, far.fingerprint(), options.cipher, TIMEOUT);
            (client.unwrap(), server.join().unwrap().unwrap())
        }));
    }
    let start = Instant::now();
    std::thread::scope(|scope| {
        for (client, server) in pairs {
            let (next, file) = (&next, &file);
            scope.spawn(move || send(client, file, next, options));
            scope.spawn(move || receive(server, options));
        }
    });
    start.elapsed().as_secs_f64()
}

fn send(mut connection: Connection, file: &File, next: &AtomicU64, options: &Options) {
    let mut payload = vec![0; PAYLOAD_BYTES];
    loop {
        let at = next.fetch_add(PAYLOAD_BYTES as u64, Ordering::Relaxed);
        if at >= options.bytes {
            break;
        }
        file.read_exact_at(&mut payload, at).unwrap();
        let mut checksum = 0;
        let mut digest = connection.is_sealed().then_some([0; 32]);
        if options.hash {
            digest = Some(blake3::hash(&payload).into());
            if !connection.is_sealed() {
                checksum = crc_fast::checksum(Crc64Nvme, &payload);
            }
        }
        let meta = at.to_le_bytes();
        connection.send(1, 0, 0, &meta, &payload, checksum, digest.as_ref()).unwrap();
    }
    connection.close().unwrap();
    assert!(matches!(connection.receive(FrameWait::Forever), Err(ConnectionError::Closed)));
}

fn receive(mut connection: Connection, options: &Options) {
    loop {
        let frame = match connection.receive(FrameWait::Forever) {
            Ok(frame) => frame.unwrap(),
            Err(ConnectionError::Closed) => break,
            Err(error) => panic!("{error}"),
        };
        let mut crc = crc_fast::Digest::new(Crc64Nvme);
        let mut hasher = blake3::Hasher::new();
        while let Some(piece) = connection.payload_piece(PAYLOAD_BYTES).unwrap() {
            match (options.hash, frame.digest) {
                (false, _) => {}
                (true, None) => crc.update(piece),
                (true, Some(_)) => {
                    hasher.update(piece);
                }
            }
        }
        if options.hash {
            match frame.digest {
                None => assert_eq!(crc.finalize(), frame.checksum),
                Some(digest) => assert_eq!(hasher.finalize(), digest),
            }
        }
    }
    connection.close().unwrap();
}
