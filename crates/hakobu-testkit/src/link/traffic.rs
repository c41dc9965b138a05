//! What happened to the packets of a link.

use std::time::Duration;

/// What happened to the packets of one direction since the link came up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets that arrived.
    pub forwarded_packets: u64,
    /// Their bytes, IP headers included.
    pub forwarded_bytes: u64,
    /// Packets the wire lost.
    pub lost_packets: u64,
    /// Packets dropped because the queue, of the link or of a connection, was full.
    pub queue_full_packets: u64,
    /// Packets dropped because the link was cut.
    pub cut_packets: u64,
    /// Packets the kernel at the other end did not take.
    pub refused_packets: u64,
    /// The most a packet came later than it should have. Beyond some
    /// milliseconds, this machine was too busy for the link asked for.
    pub late_most: Duration,
}

/// [`Traffic`] of both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// From near to far.
    pub near_to_far: Traffic,
    /// From far to near.
    pub far_to_near: Traffic,
}
