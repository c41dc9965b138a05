//! A TLS configuration that accepts exactly one peer and one cipher.

use std::sync::Arc;

use hakobu_proto::control;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::cipher_suite;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, PeerMisbehaved,
    ServerConfig, SignatureScheme, SupportedCipherSuite,
};

use super::identity::{Fingerprint, TlsIdentity, provider};

/// The protection of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionCipher {
    /// TLS 1.3 with AES-128-GCM.
    Aes128Gcm,
    /// TLS 1.3 with AES-256-GCM.
    Aes256Gcm,
    /// TLS 1.3 with ChaCha20-Poly1305.
    Chacha20Poly1305,
    /// No secrecy: a TLS handshake, then sealed frames on the bare socket. The consumer of a payload must compare its
    /// BLAKE3 with the digest.
    None,
}

impl From<control::Cipher> for ConnectionCipher {
    fn from(cipher: control::Cipher) -> Self {
        match cipher {
            control::Cipher::Aes128Gcm => Self::Aes128Gcm,
            control::Cipher::Aes256Gcm => Self::Aes256Gcm,
            control::Cipher::Chacha20Poly1305 => Self::Chacha20Poly1305,
            control::Cipher::None => Self::None,
        }
    }
}

impl ConnectionCipher {
    pub(super) fn suite(self) -> SupportedCipherSuite {
        match self {
            Self::Aes128Gcm | Self::None => cipher_suite::TLS13_AES_128_GCM_SHA256,
            Self::Aes256Gcm => cipher_suite::TLS13_AES_256_GCM_SHA384,
            Self::Chacha20Poly1305 => cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        }
    }

    /// Returns the ALPN name, with which two ends that disagree about sealing fail in the handshake.
    fn protocol_name(self) -> Vec<u8> {
        match self {
            Self::None => b"hakobu-sealed/1".to_vec(),
            _ => b"hakobu/1".to_vec(),
        }
    }
}

/// The parameters that one end brings to a handshake.
#[derive(Clone)]
pub(super) struct HandshakeParameters<'a> {
    pub identity: &'a TlsIdentity,
    pub peer: Fingerprint,
    pub cipher: ConnectionCipher,
    /// The suite of `cipher`; tests use one with lower limits.
    pub suite: SupportedCipherSuite,
}

impl<'a> HandshakeParameters<'a> {
    pub(super) fn new(identity: &'a TlsIdentity, peer: Fingerprint, cipher: ConnectionCipher) -> Self {
        Self { identity, peer, cipher, suite: cipher.suite() }
    }

    pub(super) fn client_config(&self) -> Result<ClientConfig, Error> {
        let pin = Arc::new(Pin::new(self.peer));
        let mut config = ClientConfig::builder_with_provider(self.provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(pin)
            .with_client_cert_resolver(self.resolver());
        config.resumption = rustls::client::Resumption::disabled();
        config.enable_sni = false;
        config.alpn_protocols = vec![self.cipher.protocol_name()];
        config.enable_secret_extraction = cfg!(test);
        Ok(config)
    }

    pub(super) fn server_config(&self) -> Result<ServerConfig, Error> {
        let pin = Arc::new(Pin::new(self.peer));
        let mut config = ServerConfig::builder_with_provider(self.provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(pin)
            .with_cert_resolver(self.resolver());
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.alpn_protocols = vec![self.cipher.protocol_name()];
        config.enable_secret_extraction = cfg!(test);
        Ok(config)
    }

    fn provider(&self) -> Arc<CryptoProvider> {
        Arc::new(CryptoProvider { cipher_suites: vec![self.suite], ..provider() })
    }

    fn resolver(&self) -> Arc<SingleCertAndKey> {
        Arc::new(SingleCertAndKey::from(self.identity.certified.clone()))
    }
}

/// Returns the fixed server name. It is never checked: the fingerprint identifies the peer.
pub(super) fn server_name() -> Result<ServerName<'static>, Error> {
    ServerName::try_from("hakobu.invalid")
        .map_err(|_| Error::General("the fixed server name is not valid".into()))
}

/// Accepts one certificate, and only from a peer that holds its key.
#[derive(Debug)]
struct Pin {
    peer: Fingerprint,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pin {
    fn new(peer: Fingerprint) -> Self {
        Self { peer, algorithms: provider().signature_verification_algorithms }
    }

    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        if Fingerprint::of(certificate) == self.peer {
            Ok(())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }
}

const SCHEMES: [SignatureScheme; 1] = [SignatureScheme::ECDSA_NISTP256_SHA256];

/// Returns the error for TLS 1.2, which is never negotiated.
fn tls12() -> Error {
    PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into()
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SCHEMES.to_vec()
    }
}

impl ClientCertVerifier for Pin {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SCHEMES.to_vec()
    }
}
