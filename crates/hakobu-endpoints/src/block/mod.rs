//! Block devices: disks, partitions and volumes. [`inspect`] finds out what one is, [`contract`]
//! decides whether it may be written.

pub mod contract;
pub mod inspect;
