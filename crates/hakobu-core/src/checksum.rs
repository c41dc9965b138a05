//! CRC-64/NVME checksums against accidental corruption in transit. They are ten times cheaper than a cryptographic
//! digest, and sufficient where encryption already protects against tampering.

use crc_fast::{CrcAlgorithm, Digest};

/// Returns the CRC-64/NVME of `bytes`.
pub fn crc64(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

/// Returns the CRC-32C of `bytes`, which Google Cloud Storage keeps of each object.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// A CRC-64/NVME that is computed incrementally.
#[derive(Debug)]
pub struct Crc64(Digest);

impl Default for Crc64 {
    fn default() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc64Nvme))
    }
}

impl Crc64 {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the checksum of all bytes so far.
    pub fn value(&self) -> u64 {
        self.0.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_values_of_the_catalogue() {
        // The "check" values in the catalogue of parametrised CRC algorithms.
        assert_eq!(crc64(b"123456789"), 0xae8b_1486_0a79_9888);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn pieces_give_the_value_of_the_whole() {
        let mut crc = Crc64::default();
        crc.update(b"1234");
        crc.update(b"56789");
        assert_eq!(crc.value(), crc64(b"123456789"));
    }
}
