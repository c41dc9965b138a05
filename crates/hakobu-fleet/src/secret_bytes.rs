//! Secrets in memory.

use hakobu_core::error::{Error, ErrorKind, Result};

/// The maximum length of a secret in bytes: a file of a service account with its key has some 2400.
pub const SECRET_BYTES_MAX: usize = 64 << 10;

/// Bytes that are never shown nor serialized, and are overwritten when dropped.
pub struct SecretBytes(Vec<u8>);

impl SecretBytes {
    /// Keeps bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes as text.
    ///
    /// # Errors
    /// `Usage` if they are none.
    pub fn expose_text(&self) -> Result<&str> {
        std::str::from_utf8(&self.0)
            .map_err(|_| Error::new(ErrorKind::Usage, "reading the secret", "it is no text in UTF-8"))
    }

    /// Returns the bytes to write to.
    pub(crate) fn expose_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for SecretBytes {
    fn drop(&mut self) {
        self.0.fill(0);
        // Without this, the compiler may omit a write that nothing reads.
        std::hint::black_box(&self.0);
    }
}

impl std::fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretBytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let secret = SecretBytes::new(b"open sesame".to_vec());
        assert_eq!(format!("{secret:?}"), "SecretBytes");
        assert_eq!(secret.expose_text().unwrap(), "open sesame");
        let error = SecretBytes::new(b"sesame\xff".to_vec()).expose_text().unwrap_err();
        assert!(!error.to_string().contains("sesame"), "{error}");
    }
}
