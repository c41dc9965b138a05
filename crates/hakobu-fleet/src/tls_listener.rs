//! The listener of the control plane with TLS, for `axum::serve`.
//!
//! Handshakes run on tasks of their own, so that a client that says nothing keeps nobody waiting. Connections are limited,
//! those of one address as well. Certificate and key are read anew when their files change, or when asked to.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

const READING: &str = "reading the certificate";
/// The largest file of certificates or of a key.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The time between looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The pause after a connection that could not be accepted, as when no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Returns true if an address may be served without TLS: that of this machine only.
pub fn may_do_without_tls(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// The state of both files, by which a change is noticed.
type FileStates = [(u64, u64, i64, i64, u64); 2];

/// A certificate and its key, and the files that they are from.
pub struct TlsCertificate {
    certificate: PathBuf,
    key: PathBuf,
    current: Mutex<(Arc<ServerConfig>, Option<FileStates>)>,
}

impl std::fmt::Debug for TlsCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsCertificate").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl TlsCertificate {
    /// Reads a certificate, with those of its issuers behind it, and its key, both in PEM.
    ///
    /// # Errors
    /// Those of the files; `Usage` if they cannot be used or do not belong together; `Refused` if everybody may read the key.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self> {
        let states = states_of(certificate, key);
        let config = read(certificate, key)?;
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        Ok(Self { certificate, key, current: Mutex::new((config, states)) })
    }

    /// Reads the files anew. If that fails, the certificate before it stays in use.
    ///
    /// # Errors
    /// As [`TlsCertificate::load`].
    pub fn reload(&self) -> Result<()> {
        let states = states_of(&self.certificate, &self.key);
        let config = read(&self.certificate, &self.key)?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = (config, states);
        Ok(())
    }

    /// Reads the files anew if they have changed since they were read. One file that was replaced before the other does
    /// not fit, and is read again with the next look.
    ///
    /// # Errors
    /// As [`TlsCertificate::load`].
    pub fn reload_if_changed(&self) -> Result<bool> {
        let states = states_of(&self.certificate, &self.key);
        let is_same = self.current.lock().unwrap_or_else(PoisonError::into_inner).1 == states;
        if is_same { Ok(false) } else { self.reload().map(|()| true) }
    }

    fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner).0)
    }
}

fn states_of(certificate: &Path, key: &Path) -> Option<FileStates> {
    let state = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.dev(), found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
    };
    Some([state(certificate)?, state(key)?])
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>> {
    let at = |path: &Path, kind, words: &str| {
        Error::new(kind, READING, words).at(path.as_os_str().as_encoded_bytes())
    };
    let content = |path: &Path| {
        let found = std::fs::metadata(path).and_then(|found| {
            if !found.is_file() || found.len() > FILE_BYTES_MAX {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            Ok((std::fs::read(path)?, found.mode()))
        });
        found.map_err(|error| Error::io(READING, &error).at(path.as_os_str().as_encoded_bytes()))
    };
    let (pem, _) = content(certificate)?;
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().unwrap_or_default();
    if chain.is_empty() {
        return Err(at(certificate, ErrorKind::Usage, "there is no certificate in PEM in it"));
    }
    let (pem, mode) = content(key)?;
    let pem = crate::secret_bytes::SecretBytes::new(pem);
    // Groups such as ssl-cert are usual for keys.
    if mode & 0o007 != 0 {
        let error = at(key, ErrorKind::Refused, "every user of the machine may use the key");
        return Err(error.hint("take the right away with chmod o= FILE"));
    }
    let private = PrivateKeyDer::from_pem_slice(pem.expose())
        .map_err(|_| at(key, ErrorKind::Usage, "there is no private key in PEM in it"))?;
    let unusable = |error: rustls::Error| {
        let words = format!("certificate and key cannot be used together: {error}");
        at(certificate, ErrorKind::Usage, &words)
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct TlsListenerLimits {
    /// The longest time of a handshake.
    pub handshake: Duration,
    /// The maximum number of connections. Further ones wait.
    pub connections: usize,
    /// The maximum number of handshakes of one address. Further connections are closed.
    pub handshakes_of_address: usize,
}

impl Default for TlsListenerLimits {
    fn default() -> Self {
        Self { handshake: Duration::from_secs(10), connections: 1024, handshakes_of_address: 64 }
    }
}

/// The handshakes in progress by address.
#[derive(Debug, Default)]
struct HandshakeCounts(Mutex<HashMap<IpAddr, usize>>);

/// A handshake in progress. It is counted until it is dropped.
struct CountedHandshake(Arc<HandshakeCounts>, IpAddr);

impl HandshakeCounts {
    fn begin(self: &Arc<Self>, address: IpAddr, most: usize) -> Option<CountedHandshake> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(CountedHandshake(Arc::clone(self), address))
    }
}

impl Drop for CountedHandshake {
    fn drop(&mut self) {
        let mut counts = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.1);
            }
        }
    }
}

/// A connection with TLS. It counts against the limit until it is dropped.
#[derive(Debug)]
pub struct TlsConnection {
    stream: TlsStream<TcpStream>,
    _permit: OwnedSemaphorePermit,
}

impl AsyncRead for TlsConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for TlsConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A listener with TLS. Connections that were accepted outlive it.
#[derive(Debug)]
pub struct TlsListener {
    local: SocketAddr,
    ready: mpsc::Receiver<(TlsConnection, SocketAddr)>,
    tasks: [JoinHandle<()>; 2],
}

impl TlsListener {
    /// Begins to accept connections. It must be called on a runtime. `failed` is told when changed files cannot be used.
    ///
    /// # Errors
    /// If the listener has no address.
    pub fn new(
        tcp: TcpListener,
        certificate: Arc<TlsCertificate>,
        limits: TlsListenerLimits,
        failed: impl Fn(Error) + Send + 'static,
    ) -> io::Result<Self> {
        let local = tcp.local_addr()?;
        let (sender, ready) = mpsc::channel(limits.connections.clamp(1, 64));
        let watched = Arc::clone(&certificate);
        let tasks =
            [tokio::spawn(accept(tcp, certificate, limits, sender)), tokio::spawn(watch(watched, failed))];
        Ok(Self { local, ready, tasks })
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // The task that accepts never ends by itself.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }
}

async fn watch(certificate: Arc<TlsCertificate>, failed: impl Fn(Error) + Send) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if let Err(error) = certificate.reload_if_changed() {
            failed(error);
        }
    }
}

async fn accept(
    tcp: TcpListener,
    certificate: Arc<TlsCertificate>,
    limits: TlsListenerLimits,
    ready: mpsc::Sender<(TlsConnection, SocketAddr)>,
) {
    let permits = Arc::new(Semaphore::new(limits.connections));
    let counts = Arc::new(HandshakeCounts::default());
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let (stream, peer) = match tcp.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(counted) = counts.begin(peer.ip(), limits.handshakes_of_address) else { continue };
        let _ = stream.set_nodelay(true);
        let (ready, acceptor) = (ready.clone(), TlsAcceptor::from(certificate.config()));
        tokio::spawn(async move {
            let handshake = tokio::time::timeout(limits.handshake, acceptor.accept(stream)).await;
            drop(counted);
            // One that fails is the client's business: there are many on an open port.
            if let Ok(Ok(stream)) = handshake {
                let _ = ready.send((TlsConnection { stream, _permit: permit }, peer)).await;
            }
        });
    }
}

#[cfg(test)]
#[path = "tls_listener_tests.rs"]
mod tests;
