//! The bytes that the process of a job and the one that started it say to each other.

/// Said before a question, so that nothing is shown in its midst.
pub(super) const ASKING: u8 = b'?';
/// Said when both ends are known.
pub(super) const LOCATED: u8 = b'L';
/// The answer.
pub(super) const GO_ON: u8 = b'G';
