//! A proxy between hakobu and the server, which counts requests and spoils some of them.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::rewriting::{BitFlipper, spoilable, with_page};
use super::trouble::{CutManner, RequestFate, StoreTrouble};

/// The most bytes of the head of a request or an answer.
const HEAD_BYTES_MAX: usize = 64 << 10;
const PIECE: usize = 64 << 10;
/// The time that the server has to end what it was asked for.
const QUIET_LIMIT: Duration = Duration::from_secs(20);
/// The time for which nobody answers.
const STALL: Duration = Duration::from_secs(65);

#[derive(Debug, Default)]
struct ProxyState {
    upstream: u16,
    trouble: Mutex<Option<StoreTrouble>>,
    spoilt: AtomicU64,
    /// The requests that the server has and has not answered.
    pending: AtomicU64,
    methods: Mutex<BTreeMap<String, u64>>,
    is_over: AtomicBool,
}

/// The proxy.
#[derive(Debug)]
pub struct StoreProxy {
    port: u16,
    state: Arc<ProxyState>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StoreProxy {
    /// Starts the proxy for a server on this port.
    ///
    /// # Errors
    /// Returns an error if no port is free.
    pub fn start(upstream: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(ProxyState { upstream, ..ProxyState::default() });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let _ = serve(&shared, &client);
                });
            }
        });
        Ok(Self { port, state })
    }

    /// Returns the port that it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Begins to spoil requests.
    pub fn begin(&self, trouble: StoreTrouble) {
        self.state.spoilt.store(0, Ordering::Relaxed);
        *locked(&self.state.trouble) = Some(trouble);
    }

    /// Ends that, and returns the number of requests that were spoilt.
    pub fn end(&self) -> u64 {
        *locked(&self.state.trouble) = None;
        self.state.spoilt.load(Ordering::Relaxed)
    }

    /// Returns the number of requests so far by their methods.
    #[must_use]
    pub fn methods(&self) -> BTreeMap<String, u64> {
        locked(&self.state.methods).clone()
    }

    /// Waits until the server has answered all that it was asked for, also by programs that were killed.
    pub fn wait_until_quiet(&self) {
        let deadline = Instant::now() + QUIET_LIMIT;
        let mut quiet = 0;
        while quiet < 3 && Instant::now() < deadline {
            quiet = if self.state.pending.load(Ordering::SeqCst) == 0 { quiet + 1 } else { 0 };
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for StoreProxy {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}

/// The head of a request or an answer.
struct MessageHead {
    bytes: Vec<u8>,
    first: String,
    host: String,
    length: Option<u64>,
    is_chunked: bool,
}

fn read_head(input: &mut impl BufRead) -> io::Result<Option<MessageHead>> {
    let mut head = MessageHead {
        bytes: Vec::new(),
        first: String::new(),
        host: String::new(),
        length: None,
        is_chunked: false,
    };
    loop {
        let start = head.bytes.len();
        if input.read_until(b'\n', &mut head.bytes)? == 0 {
            return if start == 0 { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        let line = String::from_utf8_lossy(&head.bytes[start..]).trim_end().to_owned();
        if line.is_empty() {
            return Ok(Some(head));
        }
        if head.bytes.len() > HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if start == 0 {
            head.first = line;
        } else if let Some((name, value)) = line.split_once(':') {
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "host" => value.clone_into(&mut head.host),
                "content-length" => head.length = value.parse().ok(),
                "transfer-encoding" => head.is_chunked = value.eq_ignore_ascii_case("chunked"),
                _ => {}
            }
        }
    }
}

/// Copies the body of a message, but at most so many bytes. Returns true if that was all.
fn copy_body(
    head: &MessageHead,
    input: &mut impl BufRead,
    mut output: impl Write,
    most: u64,
) -> io::Result<bool> {
    if !head.is_chunked {
        let length = head.length.unwrap_or(0);
        copy_exactly(input, &mut output, length.min(most))?;
        return Ok(length <= most);
    }
    let mut left = most;
    loop {
        let mut line = Vec::new();
        input.read_until(b'\n', &mut line)?;
        let size = String::from_utf8_lossy(&line);
        let size = u64::from_str_radix(size.trim().split(';').next().unwrap_or_default(), 16)
            .map_err(|_| io::ErrorKind::InvalidData)?;
        output.write_all(&line)?;
        if size == 0 {
            // Trailers, and the empty line.
            loop {
                line.clear();
                input.read_until(b'\n', &mut line)?;
                output.write_all(&line)?;
                if line.len() <= 2 {
                    return Ok(true);
                }
            }
        }
        copy_exactly(input, &mut output, (size + 2).min(left))?;
        if size + 2 > left {
            return Ok(false);
        }
        left -= size + 2;
    }
}

fn copy_exactly(input: &mut impl Read, output: &mut impl Write, length: u64) -> io::Result<()> {
    let (mut left, mut piece) = (length, vec![0; PIECE]);
    while left > 0 {
        let wanted = left.min(PIECE as u64) as usize;
        let read = input.read(&mut piece[..wanted])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        output.write_all(&piece[..read])?;
        left -= read as u64;
    }
    Ok(())
}

/// Counts a request of the server while it exists.
struct ProxiedRequest<'a>(&'a ProxyState);

impl<'a> ProxiedRequest<'a> {
    fn new(state: &'a ProxyState) -> Self {
        state.pending.fetch_add(1, Ordering::SeqCst);
        Self(state)
    }
}

impl Drop for ProxiedRequest<'_> {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Serves a connection until one of the two sides ends it.
fn serve(state: &ProxyState, client: &TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut from_client = BufReader::with_capacity(PIECE, client);
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, state.upstream))?;
    server.set_nodelay(true)?;
    let mut from_server = BufReader::with_capacity(PIECE, &server);
    while let Some(mut request) = read_head(&mut from_client)? {
        let method = request.first.split(' ').next().unwrap_or_default().to_owned();
        *locked(&state.methods).entry(method.clone()).or_default() += 1;
        let (fate, page) = match locked(&state.trouble).as_mut() {
            Some(trouble) => (trouble.next(), trouble.page()),
            None => (RequestFate::Forward(0), None),
        };
        let spoilt_at = match fate {
            RequestFate::SpoilRequest => spoilable(&request.bytes, request.length.unwrap_or(0)),
            _ => None,
        };
        // A request that cannot be spoilt passes.
        let fate = match fate {
            RequestFate::SpoilRequest if spoilt_at.is_none() => RequestFate::Forward(0),
            fate => fate,
        };
        if let Some(bytes) = page.and_then(|page| with_page(&request.first, &request.host, page)) {
            request.bytes = bytes;
        }
        if fate != RequestFate::Forward(0) {
            state.spoilt.fetch_add(1, Ordering::Relaxed);
        }
        // Also while it is late: its client may have gone.
        let pending = ProxiedRequest::new(state);
        match fate {
            RequestFate::Forward(ms) => thread::sleep(Duration::from_millis(ms)),
            RequestFate::Refuse(status, code, wait) => {
                copy_body(&request, &mut from_client, io::sink(), u64::MAX)?;
                (&mut &*client).write_all(&refusal(status, code, wait, &method))?;
                continue;
            }
            RequestFate::Stall => {
                drop(pending);
                thread::sleep(STALL);
                return Ok(());
            }
            RequestFate::CutRequest(manner) => {
                let half = request.length.unwrap_or(0) / 2;
                if half > 0 {
                    (&mut &server).write_all(&request.bytes)?;
                    copy_body(&request, &mut from_client, &server, half)?;
                }
                return prepare_cut(client, manner);
            }
            RequestFate::CutAnswer(..) | RequestFate::Deny | RequestFate::SpoilRequest => {}
        }
        (&mut &server).write_all(&request.bytes)?;
        let to_server = BitFlipper::new(&server, spoilt_at.unwrap_or(u64::MAX));
        copy_body(&request, &mut from_client, to_server, u64::MAX)?;
        let mut answer = read_head(&mut from_server)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        while answer.first.contains(" 100 ") {
            answer = read_head(&mut from_server)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        }
        let has_body = method != "HEAD" && !answer.first.contains(" 204") && !answer.first.contains(" 304");
        if !has_body {
            (answer.length, answer.is_chunked) = (None, false);
        }
        match fate {
            RequestFate::CutAnswer(thousandths, manner) => {
                let whole = answer.bytes.len() as u64 + answer.length.unwrap_or(0);
                let most = whole * thousandths / 1000;
                let of_head = most.min(answer.bytes.len() as u64) as usize;
                let _ = (&mut &*client).write_all(&answer.bytes[..of_head]);
                let _ = copy_body(&answer, &mut from_server, client, most - of_head as u64);
                return prepare_cut(client, manner);
            }
            RequestFate::Deny => {
                copy_body(&answer, &mut from_server, io::sink(), u64::MAX)?;
                drop(pending);
                (&mut &*client).write_all(&refusal(500, "InternalError", None, &method))?;
            }
            _ => {
                // The server is done, whether or not the client still listens.
                let listens = (&mut &*client).write_all(&answer.bytes);
                copy_body(&answer, &mut from_server, client, u64::MAX)?;
                drop(pending);
                listens?;
            }
        }
        if answer.first.starts_with("HTTP/1.0") || says_close(&answer.bytes) {
            return Ok(());
        }
    }
    Ok(())
}

fn says_close(head: &[u8]) -> bool {
    String::from_utf8_lossy(head).to_ascii_lowercase().contains("connection: close")
}

/// Makes the end of a connection a reset, if it is to be one.
fn prepare_cut(client: &TcpStream, manner: CutManner) -> io::Result<()> {
    if manner == CutManner::Reset {
        rustix::net::sockopt::set_socket_linger(client, Some(Duration::ZERO))?;
    }
    Ok(())
}

fn refusal(status: u16, code: &str, wait: Option<u64>, method: &str) -> Vec<u8> {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>trouble</Message></Error>"
    );
    let shown = if method == "HEAD" { "" } else { &body };
    let wait = wait.map(|seconds| format!("Retry-After: {seconds}\r\n")).unwrap_or_default();
    format!(
        "HTTP/1.1 {status} Trouble\r\nContent-Type: application/xml\r\n{wait}Content-Length: {}\r\n\r\n{shown}",
        body.len()
    )
    .into_bytes()
}
