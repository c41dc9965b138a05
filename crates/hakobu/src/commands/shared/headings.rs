//! The groups of options in the help, in order. All commands share them.

pub(crate) const TRANSFER: &str = "Transfer";
pub(crate) const FILTERS: &str = "Filters";
pub(crate) const DELETION: &str = "Deletion";
pub(crate) const CONNECTION: &str = "Connection";
pub(crate) const PERFORMANCE: &str = "Performance";
pub(crate) const DISKS: &str = "Disks";
pub(crate) const STORES: &str = "Object stores";
pub(crate) const FLEET: &str = "Fleet";
pub(crate) const NATS: &str = "NATS";
pub(crate) const OUTPUT: &str = "Output";
