//! Block devices: disks, partitions and volumes. [`inspect`] determines what a device is, and [`contract`] decides
//! whether it may be written.

pub mod contract;
pub mod inspect;
