//! The properties of a link, and the memory that they require.

use std::time::Duration;

use super::error::LinkError;

/// The minimum size of a link's queue in bytes, if its bandwidth-delay product is smaller.
const QUEUE_LEAST_BYTES: u64 = 1_000_000;
/// The minimum size of a connection's queue in bytes, if its bandwidth-delay product is smaller.
const CONNECTION_QUEUE_LEAST_BYTES: u64 = 256 << 10;
/// The memory for packets in transit on a link without a rate, in bytes per direction.
const UNLIMITED_BYTES: u64 = 64 << 20;
/// The maximum memory in bytes per direction. Settings that require more are rejected as a mistake.
const MEMORY_MOST_BYTES: u64 = 1 << 30;

/// The crowding of a link whose rate decreases with the number of connections, as with a policer or a small server at
/// its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crowding {
    /// The number of active connections without a cost.
    pub free: u16,
    /// The share of the rate that each additional connection takes away, until a tenth is left; 0.0 to 1.0.
    pub share: f64,
}

/// The properties of a link, which apply to both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkSettings {
    /// The delay of a packet in one direction: half the round-trip time.
    pub one_way_delay: Duration,
    /// The rate in bits of IP packets per second, per direction; `None` for no limit.
    pub rate_bits_per_second: Option<u64>,
    /// The rate limit of each TCP connection, independently of the others; other packets are not limited.
    pub connection_rate_bits_per_second: Option<u64>,
    /// The share of `rate_bits_per_second` that additional connections take away.
    pub crowding: Option<Crowding>,
    /// The maximum delay of a packet in addition to `one_way_delay`. Packets are delayed independently, but never
    /// reordered.
    pub jitter: Duration,
    /// The share of packets that are lost, 0.0 to 1.0, independently of each other.
    pub loss: f64,
    /// The maximum number of bytes that wait to be sent; further packets are dropped. `None` means the
    /// bandwidth-delay product of the round trip, at least 1 MB. If connections have a rate, the limit applies to
    /// each of them, and the minimum is 256 KiB.
    pub queue_bytes: Option<u64>,
    /// The largest IP packet, 576 to 65535 bytes; fixed while the link is up.
    pub mtu: u32,
    /// The seed that determines which packets are lost.
    pub seed: u64,
}

impl Default for LinkSettings {
    /// No delay, no limit, no loss, MTU 1500.
    fn default() -> Self {
        Self {
            one_way_delay: Duration::ZERO,
            rate_bits_per_second: None,
            connection_rate_bits_per_second: None,
            crowding: None,
            jitter: Duration::ZERO,
            loss: 0.0,
            queue_bytes: None,
            mtu: 1500,
            seed: 1,
        }
    }
}

impl LinkSettings {
    /// Returns the default settings with half of `rtt` in each direction.
    #[must_use]
    pub fn with_rtt(rtt: Duration) -> Self {
        Self { one_way_delay: rtt / 2, ..Self::default() }
    }

    /// Returns the size of the link's queue in bytes.
    #[must_use]
    pub fn queue_limit_bytes(&self) -> u64 {
        match (self.queue_bytes, self.rate_bits_per_second) {
            (Some(bytes), _) => bytes,
            (None, Some(rate)) => bytes_in(rate, self.one_way_delay.saturating_mul(2)).max(QUEUE_LEAST_BYTES),
            (None, None) => UNLIMITED_BYTES,
        }
    }

    /// Returns the size of one connection's queue in bytes.
    pub(super) fn connection_queue_limit_bytes(&self) -> u64 {
        let rate = self.connection_rate_bits_per_second.unwrap_or(0);
        let product = bytes_in(rate, self.one_way_delay.saturating_mul(2));
        self.queue_bytes.unwrap_or(product.max(CONNECTION_QUEUE_LEAST_BYTES))
    }

    /// Returns the memory for the packets of one direction in bytes: those in transit, those in the queue, and a
    /// reserve for a forwarder that is scheduled late.
    pub(super) fn memory_bytes(&self) -> u64 {
        let way = self.one_way_delay.saturating_add(self.jitter);
        let under_way = self.rate_bits_per_second.map_or(0, |rate| bytes_in(rate, way));
        let needed = under_way.saturating_add(self.queue_limit_bytes());
        needed.saturating_add(needed / 4).saturating_add(16 * u64::from(self.mtu)).saturating_add(1 << 20)
    }

    /// # Errors
    /// [`LinkError::Settings`] with the name of the invalid value.
    pub(super) fn check(&self) -> Result<(), LinkError> {
        let wrong = |what: String| Err(LinkError::Settings(what));
        if !(0.0..=1.0).contains(&self.loss) {
            return wrong(format!("loss {} is not a share from 0 to 1", self.loss));
        }
        if !(576..=65_535).contains(&self.mtu) {
            return wrong(format!("MTU {} is not from 576 to 65535", self.mtu));
        }
        if self.rate_bits_per_second.is_some_and(|rate| rate < 1000) {
            return wrong("the rate is below 1000 bit/s".into());
        }
        if self.connection_rate_bits_per_second.is_some_and(|rate| rate < 1000) {
            return wrong("the rate of a connection is below 1000 bit/s".into());
        }
        if self.crowding.is_some_and(|crowding| !(0.0..=1.0).contains(&crowding.share)) {
            return wrong("what a connection takes away is not a share from 0 to 1".into());
        }
        if self.crowding.is_some() && self.rate_bits_per_second.is_none() {
            return wrong("connections take away from a rate, and the link has none".into());
        }
        if self.memory_bytes() > MEMORY_MOST_BYTES {
            return wrong(format!(
                "delay, rate and queue together need {} bytes of memory per direction, \
                 more than {MEMORY_MOST_BYTES}",
                self.memory_bytes()
            ));
        }
        Ok(())
    }
}

fn bytes_in(rate_bits_per_second: u64, time: Duration) -> u64 {
    let bytes = u128::from(rate_bits_per_second) * time.as_nanos() / 8_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_queue_is_the_bandwidth_delay_product() {
        let mut settings = LinkSettings::with_rtt(Duration::from_millis(100));
        settings.rate_bits_per_second = Some(1_000_000_000);
        assert_eq!(settings.queue_limit_bytes(), 12_500_000);
        settings.rate_bits_per_second = Some(1_000_000);
        assert_eq!(settings.queue_limit_bytes(), 1_000_000);
        settings.connection_rate_bits_per_second = Some(200_000_000);
        assert_eq!(settings.connection_queue_limit_bytes(), 2_500_000);
        settings.connection_rate_bits_per_second = Some(1_000_000);
        assert_eq!(settings.connection_queue_limit_bytes(), 256 << 10);
        settings.queue_bytes = Some(3000);
        assert_eq!((settings.queue_limit_bytes(), settings.connection_queue_limit_bytes()), (3000, 3000));
    }

    #[test]
    fn settings_without_sense_are_named() {
        let good = LinkSettings::default();
        assert!(good.check().is_ok());
        let cases = [
            (LinkSettings { loss: 1.5, ..good }, "loss"),
            (LinkSettings { loss: f64::NAN, ..good }, "loss"),
            (LinkSettings { mtu: 100, ..good }, "MTU"),
            (LinkSettings { rate_bits_per_second: Some(1), ..good }, "rate"),
            (LinkSettings { connection_rate_bits_per_second: Some(999), ..good }, "connection"),
            (LinkSettings { queue_bytes: Some(u64::MAX), ..good }, "memory"),
            (LinkSettings { crowding: Some(Crowding { free: 4, share: 0.1 }), ..good }, "take away"),
            (LinkSettings { crowding: Some(Crowding { free: 4, share: -0.1 }), ..good }, "share from 0 to 1"),
        ];
        for (settings, word) in cases {
            let error = settings.check().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
