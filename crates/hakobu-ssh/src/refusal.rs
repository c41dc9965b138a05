//! The reason why a server, or ssh itself, refuses a session, taken from ssh's messages. ssh has no exit codes for it.

/// A reason that decides what is tried next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartRefusal {
    /// The server does not allow connections for this login, whatever the request.
    Prohibited,
    /// It accepts no key, and nobody is asked for a password.
    Login,
    /// Its host key is unknown, or differs from the known one.
    HostKey,
}

impl StartRefusal {
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
            (
                "channel 0: open failed: administratively prohibited: open failed",
                Some(StartRefusal::Prohibited),
            ),
            ("root@host: Permission denied (publickey,password).", Some(StartRefusal::Login)),
            ("Host key verification failed.", Some(StartRefusal::HostKey)),
            ("ssh: connect to host h port 22: Connection refused", None),
            ("", None),
        ] {
            assert_eq!(StartRefusal::of(words), refusal, "{words}");
        }
    }
}
