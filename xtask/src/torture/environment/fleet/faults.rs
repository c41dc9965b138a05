//! The faults of a fleet. After each of them a run has to end as it does without one.

use serde::{Deserialize, Serialize};

/// A fault of a fleet during a run. Moments are in milliseconds from the start of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FleetFault {
    /// `kill -9` of brokers, those that work on the run first. They are started again.
    BrokersKilled {
        /// The number of brokers.
        count: usize,
        /// The moment.
        after_ms: u64,
        /// The time until they are started again.
        down_ms: u64,
    },
    /// SIGSTOP, and later SIGCONT, of a broker that works on the run.
    BrokerStopped {
        /// The moment.
        after_ms: u64,
        /// The time until it goes on.
        ms: u64,
    },
    /// SIGTERM of a broker that works on the run. It gives away what it has, ends, and is started again.
    BrokerEnded {
        /// The moment.
        after_ms: u64,
    },
    /// `kill -9` of the control plane, which is started again.
    ServeKilled {
        /// The moment.
        after_ms: u64,
        /// The time until it is started again.
        down_ms: u64,
    },
    /// `kill -9` of nats-server, which is started again with its files.
    NatsKilled {
        /// The moment.
        after_ms: u64,
        /// The time until it is started again.
        down_ms: u64,
    },
    /// All streams of nats-server are deleted.
    StreamsDeleted {
        /// The moment.
        after_ms: u64,
    },
}

impl FleetFault {
    /// Returns the moment.
    #[must_use]
    pub fn after_ms(&self) -> u64 {
        match self {
            Self::BrokersKilled { after_ms, .. }
            | Self::BrokerStopped { after_ms, .. }
            | Self::BrokerEnded { after_ms }
            | Self::ServeKilled { after_ms, .. }
            | Self::NatsKilled { after_ms, .. }
            | Self::StreamsDeleted { after_ms } => *after_ms,
        }
    }

    /// Returns the time after which it is taken back.
    #[must_use]
    pub fn lasts_ms(&self) -> u64 {
        match self {
            Self::BrokersKilled { down_ms, .. }
            | Self::ServeKilled { down_ms, .. }
            | Self::NatsKilled { down_ms, .. } => *down_ms,
            Self::BrokerStopped { ms, .. } => *ms,
            Self::BrokerEnded { .. } | Self::StreamsDeleted { .. } => 0,
        }
    }

    /// Returns true for faults that wait until a broker works on the run.
    #[must_use]
    pub fn is_about_workers(&self) -> bool {
        matches!(self, Self::BrokersKilled { .. } | Self::BrokerStopped { .. } | Self::BrokerEnded { .. })
    }

    /// Returns true for faults that kill processes.
    #[must_use]
    pub fn kills(&self) -> bool {
        matches!(self, Self::BrokersKilled { .. } | Self::ServeKilled { .. } | Self::NatsKilled { .. })
    }

    /// Returns a name for counting.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::BrokersKilled { .. } => "kill brokers of a fleet",
            Self::BrokerStopped { .. } => "stop a broker of a fleet",
            Self::BrokerEnded { .. } => "end a broker of a fleet",
            Self::ServeKilled { .. } => "kill the control plane of a fleet",
            Self::NatsKilled { .. } => "kill nats-server of a fleet",
            Self::StreamsDeleted { .. } => "delete the streams of a fleet",
        }
    }
}
