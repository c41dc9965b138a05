//! Questions to the user, and what must not be seen of the answers.

use std::fmt;

/// Who can be asked. The program implements it on the terminal.
pub trait Prompts {
    /// The password that sudo on `host` wants; `attempt` counts from 1, and a second attempt means that the first
    /// answer was wrong. `None` when there is nobody to ask or no answer; it is not asked again then.
    fn sudo_password(&mut self, host: &str, attempt: u32) -> Option<Secret>;

    /// The password for a module of an rsync daemon, which `whose` names together with the user; `attempt` counts as
    /// above. `None` when there is nobody to ask or no answer.
    fn rsync_password(&mut self, whose: &str, attempt: u32) -> Option<Secret> {
        let _nobody_reads_it = (whose, attempt);
        None
    }

    /// Whether the user wants what `words` say to be deleted. `None` when there is nobody to ask or no answer.
    fn may_delete(&mut self, words: &str) -> Option<bool> {
        let _nobody_reads_it = words;
        None
    }

    /// What the user types when shown `words` about a disk that would be overwritten. `None` when
    /// there is nobody to ask or no answer.
    fn disk_id(&mut self, words: &str) -> Option<String> {
        let _nobody_reads_it = words;
        None
    }
}

/// Nobody can be asked: every question is answered with `None`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Prompts for Nobody {
    fn sudo_password(&mut self, _host: &str, _attempt: u32) -> Option<Secret> {
        None
    }
}

/// Bytes that are never shown, and are overwritten when dropped. Not more than 1024 of them: a password.
pub struct Secret(Vec<u8>);

impl Secret {
    /// The longest secret, in bytes. sudo takes no longer one either.
    pub const MAX_BYTES: usize = 1024;

    /// Keeps `bytes`. `None` when they are too many, or hold a NUL or a newline, which no password prompt takes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        let secret = Self(bytes);
        let plain = !secret.0.iter().any(|byte| matches!(byte, 0 | b'\n'));
        (plain && secret.0.len() <= Self::MAX_BYTES).then_some(secret)
    }

    /// The bytes.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        // Without this the compiler may leave out a write that nothing reads.
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
