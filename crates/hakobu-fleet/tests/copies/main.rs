//! Brokers of one process copy real trees together.

mod fleet;
mod tests;
mod trees;
