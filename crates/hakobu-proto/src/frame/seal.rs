//! Authenticates frames on connections that are not encrypted.
//!
//! The MAC covers the frame's position in its direction, its header, the digest of its payload and its meta. The
//! payload itself is covered by the digest, which the consumer of the payload has to compare.

use super::{FrameError, HEADER_BYTES, Header};

/// The length of an encoded [`Seal`] in bytes.
pub const SEAL_BYTES: usize = 64;

/// The BLAKE3 digest of a payload; all zeros without a payload.
pub type PayloadDigest = [u8; 32];

/// The seal that follows the header of a sealed frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// The BLAKE3 digest of the payload; all zeros without a payload.
    pub digest: PayloadDigest,
    /// The keyed BLAKE3 digest of sequence number, header, digest and meta.
    pub mac: [u8; 32],
}

impl Seal {
    /// Encodes the seal: digest, then MAC.
    #[must_use]
    pub fn encode(&self) -> [u8; SEAL_BYTES] {
        zerocopy::transmute!([self.digest, self.mac])
    }

    /// Decodes a seal. Its content must not be trusted before [`SealChecker::open`] has accepted it.
    #[must_use]
    pub fn decode(bytes: &[u8; SEAL_BYTES]) -> Self {
        let [digest, mac]: [[u8; 32]; 2] = zerocopy::transmute!(*bytes);
        Self { digest, mac }
    }
}

/// The MAC key of one direction.
pub struct SealKey([u8; 32]);

impl SealKey {
    /// Creates a key from 32 bytes that only the two ends know.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        Self(*key)
    }

    fn mac(&self, sequence: u64, header: &[u8], digest: &PayloadDigest, meta: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&sequence.to_le_bytes());
        hasher.update(header);
        hasher.update(digest);
        hasher.update(meta);
        hasher.finalize()
    }
}

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealKey")
    }
}

/// Seals the frames of one direction, in the order in which they are sent.
#[derive(Debug)]
pub struct Sealer {
    key: SealKey,
    next: u64,
}

impl Sealer {
    /// Creates a sealer that starts at sequence number 0.
    #[must_use]
    pub fn new(key: SealKey) -> Self {
        Self { key, next: 0 }
    }

    /// Seals the next frame.
    ///
    /// # Errors
    /// If there is a digest without a payload, or no sequence number is left.
    pub fn seal(&mut self, header: &Header, digest: &PayloadDigest, meta: &[u8]) -> Result<Seal, FrameError> {
        check_digest(header, digest)?;
        let sequence = take(&mut self.next)?;
        let mac = self.key.mac(sequence, &header.encode(), digest, meta);
        Ok(Seal { digest: *digest, mac: mac.into() })
    }
}

/// Checks the frames of one direction, in the order in which they arrive.
#[derive(Debug)]
pub struct SealChecker {
    key: SealKey,
    next: u64,
}

impl SealChecker {
    /// Creates an opener that starts at sequence number 0.
    #[must_use]
    pub fn new(key: SealKey) -> Self {
        Self { key, next: 0 }
    }

    /// Checks the MAC of the next frame, in constant time. After a failure the connection must be closed.
    ///
    /// # Errors
    /// [`FrameError::BadMac`], a digest without a payload, or no sequence number left.
    pub fn open(
        &mut self,
        header_bytes: &[u8; HEADER_BYTES],
        header: &Header,
        seal: &Seal,
        meta: &[u8],
    ) -> Result<(), FrameError> {
        let sequence = take(&mut self.next)?;
        let mac = self.key.mac(sequence, header_bytes, &seal.digest, meta);
        if mac != blake3::Hash::from_bytes(seal.mac) {
            return Err(FrameError::BadMac);
        }
        check_digest(header, &seal.digest)
    }
}

/// Takes a sequence number. The last one is never used, so the counter cannot wrap to a number that was already used.
pub(super) fn take(next: &mut u64) -> Result<u64, FrameError> {
    let sequence = *next;
    *next = sequence.checked_add(1).ok_or(FrameError::SequenceExhausted)?;
    Ok(sequence)
}

fn check_digest(header: &Header, digest: &PayloadDigest) -> Result<(), FrameError> {
    if header.payload_bytes == 0 && digest != &[0; 32] {
        return Err(FrameError::ChecksumWithoutPayload);
    }
    Ok(())
}
