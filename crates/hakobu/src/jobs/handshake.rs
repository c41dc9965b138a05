//! The bytes that the process of a job and the one that started it say to each other.

/// Said before a question, so that nothing is shown in its midst.
pub(super) const ASKING: u8 = b'?';
/// Said when both ends are known and the run holds the lock of its copy.
pub(super) const BEGUN: u8 = b'B';
/// The answer.
pub(super) const GO_ON: u8 = b'G';
