//! The errors of a data connection.

use std::io;

use hakobu_proto::frame::FrameError;
use thiserror::Error;

/// The result of connection operations.
pub type ConnectionResult<T> = std::result::Result<T, ConnectionError>;

/// The reason why a connection ended, could not be opened or refused an operation.
#[derive(Debug, Error)]
pub enum ConnectionError {
    /// The peer closed the connection in order, and nothing it sent is missing.
    #[error("the peer closed the connection")]
    Closed,
    /// The connection ended without a close: data may be missing.
    #[error("the connection was cut")]
    Cut,
    /// The peer's certificate does not have the expected fingerprint.
    #[error("the peer's certificate has the wrong fingerprint")]
    WrongFingerprint,
    /// The peer shows the right certificate but does not hold its key.
    #[error("the peer does not hold the key of its certificate")]
    WrongKey,
    /// The peer refused the connection; the text is its TLS alert.
    #[error("the peer refused the connection ({0})")]
    Refused(String),
    /// The handshake did not end in time, counted from its start.
    #[error("the handshake took too long")]
    HandshakeTimeout,
    /// The peer sends, or answers, more slowly than any network path or disk explains.
    #[error("the peer is too slow: {0}")]
    TooSlow(&'static str),
    /// The peer violated the protocol.
    #[error("the peer broke the protocol: {0}")]
    Protocol(&'static str),
    /// A frame from the peer, or one to be sent, exceeds a limit.
    #[error("unacceptable frame: {0}")]
    Frame(FrameError),
    /// Data from the peer fails its authentication.
    #[error("received data fails its authentication")]
    BadMac,
    /// The caller asked for something impossible.
    #[error("wrong use of a connection: {0}")]
    Misuse(&'static str),
    /// TLS failed in some other way.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// A temporary certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The socket failed.
    #[error("socket: {0}")]
    Io(io::Error),
}

impl From<FrameError> for ConnectionError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::BadMac => Self::BadMac,
            other => Self::Frame(other),
        }
    }
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => {
                Self::Cut
            }
            _ => Self::Io(error),
        }
    }
}

impl From<rustix::io::Errno> for ConnectionError {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}

impl From<rustls::Error> for ConnectionError {
    fn from(error: rustls::Error) -> Self {
        use rustls::{AlertDescription as Alert, CertificateError, Error};
        match error {
            Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
                Self::WrongFingerprint
            }
            Error::InvalidCertificate(CertificateError::BadSignature) => Self::WrongKey,
            Error::DecryptError => Self::BadMac,
            Error::AlertReceived(Alert::BadRecordMac) => Self::Refused("bad record MAC".into()),
            Error::AlertReceived(alert) => Self::Refused(format!("{alert:?}")),
            other => Self::Tls(other),
        }
    }
}
