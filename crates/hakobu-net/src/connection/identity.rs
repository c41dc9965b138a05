//! Temporary certificates and their fingerprints.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};

use super::error::ConnectionResult;

/// The BLAKE3 digest of a certificate in DER form.
///
/// Each end learns the other's fingerprint over a channel that is already trusted (ssh), and accepts no other
/// certificate on a data connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(blake3::hash(certificate).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// A certificate and its key, made for one job and never stored.
#[derive(Clone)]
pub struct TlsIdentity {
    pub(super) certified: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
}

impl TlsIdentity {
    /// Generates a new key (ECDSA P-256) and a certificate signed with it.
    ///
    /// # Errors
    /// The cryptographic library fails, which means that it has no randomness.
    pub fn generate() -> ConnectionResult<Self> {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut parameters = rcgen::CertificateParams::new(Vec::<String>::new())?;
        // The default names the library that made it; nobody reads this name.
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        let certificate = parameters.self_signed(&key)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Self::from_parts(certificate.der().clone(), key)
    }

    pub(super) fn from_parts(
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> ConnectionResult<Self> {
        let fingerprint = Fingerprint::of(&certificate);
        let key = provider().key_provider.load_private_key(key)?;
        Ok(Self { certified: Arc::new(CertifiedKey::new(vec![certificate], key)), fingerprint })
    }

    /// Returns the fingerprint that the other end must expect.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.fingerprint)
    }
}

pub(super) fn provider() -> CryptoProvider {
    rustls::crypto::aws_lc_rs::default_provider()
}
