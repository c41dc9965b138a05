//! Sealing for one broker: what a lease carries can be read by the broker that leases, and by nobody on the way.
//!
//! Each message has an X25519 key of its own; HKDF-SHA256 of the agreement, with both public keys, gives the key of
//! AES-256-GCM. Who sealed a message is not proven by it: that is for the bus and the lease to know.

use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hakobu_core::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::limits::malformed;
use crate::sealing::{KEY_BYTES, open_bytes, seal_bytes};
use crate::secret_bytes::{SECRET_BYTES_MAX, SecretBytes};

/// The maximum length of sealed bytes.
pub const BROKER_SEALED_BYTES_MAX: usize = SECRET_BYTES_MAX + 128;
const PUBLIC_BYTES: usize = 32;
const VERSION: u8 = 1;
const CONTEXT: &str = "hakobu broker seal 1";
const OPENING: &str = "opening what was sealed for this broker";

/// The key of a broker, made when it starts and never kept.
pub struct BrokerKey {
    private: PrivateKey,
    public: BrokerPublicKey,
}

/// The public key of a broker, as text in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BrokerPublicKey([u8; PUBLIC_BYTES]);

impl TryFrom<String> for BrokerPublicKey {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(&text).ok().and_then(|bytes| bytes.try_into().ok());
        let wrong = || malformed("the public key of a broker", "it is not 32 bytes in base64");
        bytes.map(Self).ok_or_else(wrong)
    }
}

impl From<BrokerPublicKey> for String {
    fn from(key: BrokerPublicKey) -> Self {
        BASE64_URL_SAFE_NO_PAD.encode(key.0)
    }
}

/// The length of a key, for the library.
struct KeyLength;

impl KeyType for KeyLength {
    fn len(&self) -> usize {
        KEY_BYTES
    }
}

impl BrokerKey {
    /// Makes a key.
    ///
    /// # Errors
    /// `Io` if the system gives no random numbers.
    pub fn generate() -> Result<Self> {
        let (private, public) = generate()
            .ok_or_else(|| Error::new(ErrorKind::Io, "making a key", "the system gives no random numbers"))?;
        Ok(Self { private, public: BrokerPublicKey(public) })
    }

    /// Returns the public key.
    pub fn public(&self) -> BrokerPublicKey {
        self.public
    }

    /// Opens what was sealed for this key and purpose.
    ///
    /// # Errors
    /// `Corrupt` if it was not.
    pub fn open(&self, sealed: &[u8], purpose: &str) -> Result<SecretBytes> {
        self.opened(sealed, purpose).ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, OPENING, "it was changed, or is for another broker or purpose")
        })
    }

    fn opened(&self, sealed: &[u8], purpose: &str) -> Option<SecretBytes> {
        let (version, rest) = sealed.split_first()?;
        if *version != VERSION || sealed.len() > BROKER_SEALED_BYTES_MAX {
            return None;
        }
        let (sender, sealed) = rest.split_first_chunk::<PUBLIC_BYTES>()?;
        let key = shared_key(&self.private, sender, [sender, &self.public.0])?;
        open_bytes(&key, &[CONTEXT, purpose], sealed)
    }
}

impl std::fmt::Debug for BrokerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BrokerKey").field(&self.public).finish()
    }
}

impl BrokerPublicKey {
    /// Seals a secret that only this broker can open, for a purpose such as a unit and its epoch.
    ///
    /// # Errors
    /// `Usage` if the secret is too long, or the key is none.
    pub fn seal(&self, purpose: &str, secret: &SecretBytes) -> Result<Vec<u8>> {
        if secret.expose().len() > SECRET_BYTES_MAX {
            return Err(malformed("a secret for a broker", "it is too long"));
        }
        let sealed = || {
            let (private, public) = generate()?;
            let key = shared_key(&private, &self.0, [&public, &self.0])?;
            let bytes = seal_bytes(&key, &[CONTEXT, purpose], secret)?;
            Some([&[VERSION][..], &public, &bytes].concat())
        };
        sealed().ok_or_else(|| malformed("the public key of a broker", "nothing can be sealed for it"))
    }
}

fn generate() -> Option<(PrivateKey, [u8; PUBLIC_BYTES])> {
    let private = PrivateKey::generate(&X25519).ok()?;
    let public = private.compute_public_key().ok()?.as_ref().try_into().ok()?;
    Some((private, public))
}

/// Returns the key that both sides get: `sides` are the public keys of sender and receiver.
fn shared_key(
    private: &PrivateKey,
    other: &[u8; PUBLIC_BYTES],
    sides: [&[u8; PUBLIC_BYTES]; 2],
) -> Option<SecretBytes> {
    let other = UnparsedPublicKey::new(&X25519, &other[..]);
    let salt = Salt::new(HKDF_SHA256, &[&sides[0][..], sides[1]].concat());
    // A public key of low order gives no agreement.
    agreement::agree(private, other, (), |agreed| {
        let mut key = SecretBytes::new(vec![0; KEY_BYTES]);
        let derived = salt.extract(agreed);
        let filled = derived
            .expand(&[CONTEXT.as_bytes()], KeyLength)
            .and_then(|derived| derived.fill(key.expose_mut()));
        filled.map(|()| key).map_err(drop)
    })
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_broker_opens_what_is_sealed_for_it() {
        let (one, two) = (BrokerKey::generate().unwrap(), BrokerKey::generate().unwrap());
        let secret = SecretBytes::new(b"open sesame".to_vec());
        let sealed = one.public().seal("unit 7", &secret).unwrap();
        assert_ne!(sealed, one.public().seal("unit 7", &secret).unwrap());
        assert!(!sealed.windows(6).any(|window| window == b"sesame"));
        assert_eq!(one.open(&sealed, "unit 7").unwrap().expose(), secret.expose());
        assert_eq!(two.open(&sealed, "unit 7").unwrap_err().kind, ErrorKind::Corrupt);
        assert!(one.open(&sealed, "unit 8").is_err());
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert!(one.open(&changed, "unit 7").is_err(), "{place}");
            assert!(one.open(&sealed[..place], "unit 7").is_err(), "{place}");
        }
    }

    #[test]
    fn secrets_have_a_longest_length() {
        let key = BrokerKey::generate().unwrap();
        let seal = |length| key.public().seal("a", &SecretBytes::new(vec![1; length]));
        let sealed = seal(SECRET_BYTES_MAX).unwrap();
        assert_eq!(key.open(&sealed, "a").unwrap().expose().len(), SECRET_BYTES_MAX);
        assert!(seal(SECRET_BYTES_MAX + 1).is_err());
    }

    #[test]
    fn a_public_key_is_text_and_one_of_low_order_is_refused() {
        let key = BrokerKey::generate().unwrap().public();
        let json = serde_json::to_string(&key).unwrap();
        assert_eq!(serde_json::from_str::<BrokerPublicKey>(&json).unwrap(), key);
        assert!(serde_json::from_str::<BrokerPublicKey>("\"AAAA\"").is_err());
        let zero = BrokerPublicKey([0; PUBLIC_BYTES]);
        assert!(zero.seal("a", &SecretBytes::new(vec![1])).is_err());
    }
}
