//! Checksums that stores keep of the content of objects.

/// A checksum of all bytes of an object that the store keeps. Checksums of checksums are not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoredChecksum {
    /// CRC-64/NVME.
    Crc64(u64),
    /// CRC-32C.
    Crc32c(u32),
    /// MD5.
    Md5([u8; 16]),
}

impl StoredChecksum {
    /// Returns the text by which metadata refers to it.
    pub(super) fn text(self) -> String {
        match self {
            Self::Crc64(sum) => format!("crc64nvme={sum:016x}"),
            Self::Crc32c(sum) => format!("crc32c={sum:08x}"),
            Self::Md5(sum) => format!("md5={:032x}", u128::from_be_bytes(sum)),
        }
    }

    /// Reads what [`StoredChecksum::text`] has written.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let (kind, digits) = text.split_once('=')?;
        let is_number = digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        match (kind, digits.len()) {
            _ if !is_number => None,
            ("crc64nvme", 16) => u64::from_str_radix(digits, 16).ok().map(Self::Crc64),
            ("crc32c", 8) => u32::from_str_radix(digits, 16).ok().map(Self::Crc32c),
            ("md5", 32) => Some(Self::Md5(u128::from_str_radix(digits, 16).ok()?.to_be_bytes())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_and_others_are_none() {
        for sum in [
            StoredChecksum::Crc64(0xae8b_1486_0a79_9888),
            StoredChecksum::Crc32c(7),
            StoredChecksum::Md5([3; 16]),
        ] {
            assert_eq!(StoredChecksum::from_text(&sum.text()), Some(sum));
        }
        for text in
            ["", "crc32c", "crc32c=7", "crc32c=+0000007", "crc64nvme=00000007", "sha=00", "crc32c=0000000G"]
        {
            assert_eq!(StoredChecksum::from_text(text), None, "{text}");
        }
    }
}
