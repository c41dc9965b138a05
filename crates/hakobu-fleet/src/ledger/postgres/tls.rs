//! TLS to PostgreSQL.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hakobu_core::error::{Error, ErrorKind, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};

const DURING: &str = "preparing TLS for the ledger";

/// The files that TLS takes its certificates from.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsFiles {
    /// The certificates of authorities; those of the system if there is none.
    pub roots: Option<PathBuf>,
    /// The certificate of this program and its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// Returns the settings of TLS. The certificate of the server must be valid for its name.
///
/// # Errors
/// Those of reading the files.
pub(super) fn client_config(files: &TlsFiles) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let failed = |path: &Path, detail: String| {
        Error::new(ErrorKind::Usage, DURING, detail).at(path.as_os_str().as_encoded_bytes())
    };
    match &files.roots {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| failed(path, error.to_string()))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(ErrorKind::Unsupported, DURING, error.to_string()))?
        .with_root_certificates(roots);
    let config = match &files.own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            let own = PrivateKeyDer::from_pem_file(key).map_err(|_| {
                failed(key, "it has no private key in PEM that this user can read".to_owned())
            })?;
            builder
                .with_client_auth_cert(chain, own)
                .map_err(|error| failed(certificate, error.to_string()))?
        }
    };
    Ok(Arc::new(config))
}

/// Returns the certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let place = path.as_os_str().as_encoded_bytes();
    let text = std::fs::read(path).map_err(|error| Error::io(DURING, &error).at(place))?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err(Error::new(ErrorKind::Usage, DURING, "it has no certificates in PEM").at(place)),
    }
}

/// Opens TLS on connections.
#[derive(Clone, Debug)]
pub(super) struct LedgerTls(pub Arc<ClientConfig>);

/// TLS for one connection.
pub(super) struct LedgerTlsConnect(Arc<ClientConfig>, ServerName<'static>);

/// An open connection.
pub(super) struct LedgerTlsStream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for LedgerTls {
    type Stream = LedgerTlsStream<S>;
    type TlsConnect = LedgerTlsConnect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<LedgerTlsConnect> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(LedgerTlsConnect(self.0.clone(), name))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for LedgerTlsConnect {
    type Stream = LedgerTlsStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<LedgerTlsStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            tokio_rustls::TlsConnector::from(self.0).connect(self.1, stream).await.map(LedgerTlsStream)
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for LedgerTlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LedgerTlsStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for LedgerTlsStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        // SCRAM works without it. It binds the password to a certificate, which is verified here anyway.
        ChannelBinding::none()
    }
}
