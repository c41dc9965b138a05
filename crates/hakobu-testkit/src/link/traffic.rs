//! Counters for the packets of a link.

use std::time::Duration;

/// The counters of one direction since the link was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkTraffic {
    /// The number of packets that arrived.
    pub forwarded_packets: u64,
    /// Their size in bytes, including IP headers.
    pub forwarded_bytes: u64,
    /// The number of packets that the wire lost.
    pub lost_packets: u64,
    /// The number of packets dropped because the queue of the link or of a connection was full.
    pub queue_full_packets: u64,
    /// The number of packets dropped because the link was cut.
    pub cut_packets: u64,
    /// The number of packets that the kernel at the other end did not accept.
    pub refused_packets: u64,
    /// The maximum delay of a packet beyond its due time. More than a few milliseconds means that this machine was
    /// too busy for the requested link.
    pub late_most: Duration,
}

/// [`LinkTraffic`] of both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// From near to far.
    pub near_to_far: LinkTraffic,
    /// From far to near.
    pub far_to_near: LinkTraffic,
}
