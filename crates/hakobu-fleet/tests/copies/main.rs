//! Brokers of one process copy real trees together.

mod fleet;
mod trees;
mod tests;
