//! The bytes that the process of a job and the process that started it exchange.

/// Sent before a question. The starter shows the log first, so that no output appears in the middle of the question.
pub(super) const ASKING: u8 = b'?';
/// Sent when both ends are known and the run holds the lock of its copy.
pub(super) const BEGUN: u8 = b'B';
/// The answer.
pub(super) const GO_ON: u8 = b'G';
