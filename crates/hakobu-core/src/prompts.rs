//! Questions to the user, and secret answers.

use std::fmt;

/// Asks the user. The program implements it on the terminal.
pub trait Prompts {
    /// Asks for the password that sudo on `host` requires. `attempt` counts from 1; a second attempt means that the
    /// first answer was wrong. Returns `None` if there is nobody to ask or no answer; it is not called again then.
    fn sudo_password(&mut self, host: &str, attempt: u32) -> Option<Secret>;

    /// Asks for the password for a module of an rsync daemon, which `whose` names together with the user; `attempt`
    /// counts as above. Returns `None` if there is nobody to ask or no answer.
    fn rsync_password(&mut self, whose: &str, attempt: u32) -> Option<Secret> {
        let _nobody_reads_it = (whose, attempt);
        None
    }

    /// Asks whether to delete what `words` describe. Returns `None` if there is nobody to ask or no answer.
    fn may_delete(&mut self, words: &str) -> Option<bool> {
        let _nobody_reads_it = words;
        None
    }

    /// Shows `words` about a disk that would be overwritten, and returns what the user types. Returns `None` if there
    /// is nobody to ask or no answer.
    fn disk_id(&mut self, words: &str) -> Option<String> {
        let _nobody_reads_it = words;
        None
    }

    /// Tells the user that a login on `host` begins, until [`Prompts::connected`]. Whatever asks meanwhile, as ssh does
    /// by itself, must stay readable.
    fn connecting(&mut self, host: &str) {
        let _nobody_reads_it = host;
    }

    /// Takes away what [`Prompts::connecting`] shows, whether the login has worked or not.
    fn connected(&mut self) {}
}

/// Answers every question with `None`, because there is nobody to ask.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPrompts;

impl Prompts for NoPrompts {
    fn sudo_password(&mut self, _host: &str, _attempt: u32) -> Option<Secret> {
        None
    }
}

/// Bytes that are never shown, and are overwritten when dropped. At most 1024 of them: a password.
pub struct Secret(Vec<u8>);

impl Secret {
    /// The longest secret in bytes, as in sudo.
    pub const MAX_BYTES: usize = 1024;

    /// Keeps `bytes`. Returns `None` if they are too many, or contain a NUL or a newline, which no password prompt
    /// accepts.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        let secret = Self(bytes);
        let plain = !secret.0.iter().any(|byte| matches!(byte, 0 | b'\n'));
        (plain && secret.0.len() <= Self::MAX_BYTES).then_some(secret)
    }

    /// Returns the bytes.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        // Without this, the compiler may omit a write that nothing reads.
        std::hint::black_box(&self.0);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown_and_is_one_line() {
        let secret = Secret::new(b"open sesame".to_vec()).unwrap();
        assert!(!format!("{secret:?}").contains("sesame"));
        assert_eq!(secret.expose(), b"open sesame");
        assert!(Secret::new(b"two\nlines".to_vec()).is_none());
        assert!(Secret::new(vec![b'x'; Secret::MAX_BYTES + 1]).is_none());
    }
}
