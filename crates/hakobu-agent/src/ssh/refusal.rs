//! Why a server, or ssh itself, refuses a session, as far as ssh's words say so. It has no exit codes for that.

/// A reason that decides what is tried next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The server makes no connections for this login, however it is asked.
    Prohibited,
    /// It accepts no key, and nobody is asked for a password.
    Login,
    /// Its host key is not known, or is not the one that is known.
    HostKey,
}

impl Refusal {
    /// Reads words of OpenSSH. `None` where they say something else.
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
