//! The reason why a server, or ssh itself, refuses a session, taken from ssh's messages. ssh has no exit codes for it.

/// A reason that decides what is tried next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The server does not allow connections for this login, whatever the request.
    Prohibited,
    /// It accepts no key, and nobody is asked for a password.
    Login,
    /// Its host key is unknown, or differs from the known one.
    HostKey,
}

impl Refusal {
    /// Recognizes messages of OpenSSH. Returns `None` for any other message.
    #[must_use]
    pub fn of(words: &str) -> Option<Self> {
        [
            ("prohibited", Self::Prohibited),
            ("Permission denied", Self::Login),
            ("Host key verification", Self::HostKey),
        ]
        .into_iter()
        .find_map(|(mark, refusal)| words.contains(mark).then_some(refusal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_openssh_are_understood() {
        for (words, refusal) in [
            ("channel 0: open failed: administratively prohibited: open failed", Some(Refusal::Prohibited)),
            ("root@host: Permission denied (publickey,password).", Some(Refusal::Login)),
            ("Host key verification failed.", Some(Refusal::HostKey)),
            ("ssh: connect to host h port 22: Connection refused", None),
            ("", None),
        ] {
            assert_eq!(Refusal::of(words), refusal, "{words}");
        }
    }
}
