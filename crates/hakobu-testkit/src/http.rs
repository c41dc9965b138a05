//! An HTTP server that answers as a test says: with any bytes, with the answer of a real server, or not at all.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The most bytes that an endless answer has in the end: the client should have given up long before.
const ENDLESS_BYTES: usize = 256 << 20;

/// A request as it arrived.
#[derive(Clone, Debug, Default)]
pub struct ReceivedRequest {
    /// The number of requests before it, over all connections.
    pub number: usize,
    /// The method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// All header lines.
    pub headers: Vec<String>,
    /// The body.
    pub body: Vec<u8>,
}

impl ReceivedRequest {
    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let value = |line: &'_ String| -> Option<usize> {
            let (found, _) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(found.len() + 1)
        };
        self.headers.iter().find_map(|line| Some(line[value(line)?..].trim()))
    }
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub enum ScriptedAnswer {
    /// These bytes, and further requests on the same connection.
    Bytes(Vec<u8>),
    /// These bytes, and the end of the connection.
    Cut(Vec<u8>),
    /// The first bytes once, and the second again and again.
    Endless(Vec<u8>, Vec<u8>),
    /// These bytes, and silence until the client gives up.
    Silence(Vec<u8>),
    /// The answer of the real server.
    Forward,
    /// The real server receives the request; the client gets this many bytes of its answer, and the end of the
    /// connection.
    ForwardAndCut(usize),
}

impl ScriptedAnswer {
    /// An answer with a status, further header lines and a body.
    #[must_use]
    pub fn with(status: u16, headers: &[&str], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut bytes = format!("HTTP/1.1 {status} Scripted\r\nContent-Length: {}\r\n", body.len());
        for header in headers {
            bytes.push_str(header);
            bytes.push_str("\r\n");
        }
        bytes.push_str("\r\n");
        Self::Bytes([bytes.as_bytes(), body].concat())
    }
}

type Script = Box<dyn FnMut(&ReceivedRequest) -> ScriptedAnswer + Send>;

struct ServerState {
    script: Mutex<Script>,
    log: Mutex<Vec<ReceivedRequest>>,
    upstream: Option<u16>,
}

/// The server. Its threads end with its connections.
pub struct ScriptedServer {
    /// The URL of the server.
    pub endpoint: String,
    port: u16,
    state: Arc<ServerState>,
}

impl ScriptedServer {
    /// Starts a server that asks `script` for each answer. `upstream` is the port of the real server.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start(
        upstream: Option<u16>,
        script: impl FnMut(&ReceivedRequest) -> ScriptedAnswer + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let state =
            Arc::new(ServerState { script: Mutex::new(Box::new(script)), log: Mutex::default(), upstream });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // The value that was dropped holds the other reference.
                if Arc::strong_count(&shared) == 1 {
                    return;
                }
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(&shared, &stream));
            }
        });
        Ok(Self { endpoint: format!("http://127.0.0.1:{port}"), port, state })
    }

    /// Returns the requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.state.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        // The listener looks at the references when somebody connects.
        self.state = Arc::new(ServerState {
            script: Mutex::new(Box::new(|_| ScriptedAnswer::Forward)),
            log: Mutex::default(),
            upstream: None,
        });
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}

/// Serves a connection. An error ends it, as the end of the client does.
fn serve(state: &ServerState, stream: &TcpStream) -> Option<()> {
    let mut input = BufReader::new(stream.try_clone().ok()?);
    let mut output = stream;
    while let Some(mut request) = read_request(&mut input) {
        let answer = {
            let mut log = state.log.lock().unwrap_or_else(PoisonError::into_inner);
            request.number = log.len();
            log.push(request.clone());
            drop(log);
            (state.script.lock().unwrap_or_else(PoisonError::into_inner))(&request)
        };
        match answer {
            ScriptedAnswer::Bytes(bytes) => output.write_all(&bytes).ok()?,
            ScriptedAnswer::Cut(bytes) => return end(output, &bytes),
            ScriptedAnswer::Endless(first, again) => {
                output.write_all(&first).ok()?;
                for _ in 0..ENDLESS_BYTES / again.len().max(1) {
                    output.write_all(&again).ok()?;
                }
                return None;
            }
            ScriptedAnswer::Silence(bytes) => {
                output.write_all(&bytes).ok()?;
                // The client's end of the connection ends the silence.
                return io::copy(&mut input, &mut io::sink()).ok().map(drop);
            }
            ScriptedAnswer::Forward => output.write_all(&forward(state.upstream?, &request).ok()?).ok()?,
            ScriptedAnswer::ForwardAndCut(length) => {
                let answer = forward(state.upstream?, &request).ok()?;
                return end(output, &answer[..answer.len().min(length)]);
            }
        }
    }
    None
}

fn end(mut output: &TcpStream, bytes: &[u8]) -> Option<()> {
    output.write_all(bytes).ok()?;
    output.shutdown(Shutdown::Both).ok()
}

fn read_request(input: &mut BufReader<TcpStream>) -> Option<ReceivedRequest> {
    let mut line = String::new();
    let mut next = |input: &mut BufReader<TcpStream>| {
        line.clear();
        input.read_line(&mut line).ok().filter(|length| *length > 0)?;
        Some(line.trim_end().to_owned())
    };
    let first = next(input)?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut request = ReceivedRequest { method, target, ..ReceivedRequest::default() };
    loop {
        let line = next(input)?;
        if line.is_empty() {
            break;
        }
        request.headers.push(line);
    }
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    request.body = vec![0; length];
    input.read_exact(&mut request.body).ok()?;
    Some(request)
}

/// Sends a request to the real server. The host is left as it is, because it is signed.
fn forward(port: u16, request: &ReceivedRequest) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut head = format!("{} {} HTTP/1.1\r\nConnection: close\r\n", request.method, request.target);
    for line in &request.headers {
        head.push_str(line);
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(&request.body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    // Each answer ends its connection to the real server, and not the client's.
    let text = String::from_utf8_lossy(&answer[..answer.len().min(8 << 10)]).into_owned();
    if let Some(place) = text.find("Connection: close\r\n") {
        answer.drain(place..place + "Connection: close\r\n".len());
    }
    Ok(answer)
}
