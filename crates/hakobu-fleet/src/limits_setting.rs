//! Limits as people set them: of a relationship, of a group, or of an endpoint that several relationships use.

use hakobu_core::pace::{RateLimit, RateSetting, RunLimits};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::setting_error::SettingError;

/// The version of the form.
pub const LIMITS_VERSION: u8 = 1;
/// The minimum rate of a broker, as the engine has it: a lower one could not be kept.
pub const LEAST_BYTES_PER_SECOND: u64 = 10_000;
/// The minimum number of operations per second of a broker.
pub const LEAST_OPERATIONS_PER_SECOND: u64 = 1;
/// The highest latency that can be asked for in milliseconds.
pub const SOURCE_P99_MS_MAX: f64 = 60_000.0;
/// The maximum number of brokers of a run that can be asked for.
pub const BROKERS_MAX: u32 = 10_000;

/// Limits. Each holds over the whole fleet, not for each broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsSetting {
    /// The version of the form, which is 1.
    pub version: u8,
    /// The bytes of content that leave the source per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// The operations per second at the source, and those at the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations_per_second: Option<u32>,
    /// The 99th percentile of the duration of reads at the source, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_p99_ms: Option<f64>,
    /// The number of brokers that work at the same time: on the run, or on all runs that share the limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brokers: Option<u32>,
    /// True if nothing moves until this is changed.
    #[serde(default)]
    pub paused: bool,
}

impl Default for LimitsSetting {
    fn default() -> Self {
        Self {
            version: LIMITS_VERSION,
            bytes_per_second: None,
            operations_per_second: None,
            source_p99_ms: None,
            brokers: None,
            paused: false,
        }
    }
}

impl LimitsSetting {
    /// Reads and checks limits.
    ///
    /// # Errors
    /// The field at fault.
    pub fn parse(json: &str) -> Result<Self, SettingError> {
        let setting: Self = serde_json::from_str(json).map_err(|error| SettingError::json(&error))?;
        setting.check()?;
        Ok(setting)
    }

    /// Checks limits.
    ///
    /// # Errors
    /// The field at fault.
    pub fn check(&self) -> Result<(), SettingError> {
        if self.version != LIMITS_VERSION {
            let words = format!("{} is of a later version of the program; this one knows 1", self.version);
            return Err(SettingError::new("version", words));
        }
        if let Some(bytes) = self.bytes_per_second.filter(|bytes| *bytes < LEAST_BYTES_PER_SECOND) {
            let words = format!(
                "{bytes} is below the minimum of {LEAST_BYTES_PER_SECOND}; to stop everything, pause it"
            );
            return Err(SettingError::new("bytes_per_second", words));
        }
        if self.operations_per_second == Some(0) {
            let words = "0 would stop everything: pause it instead, or leave it out for no limit";
            return Err(SettingError::new("operations_per_second", words));
        }
        let is_latency = |ms: f64| ms.is_finite() && (0.01..=SOURCE_P99_MS_MAX).contains(&ms);
        if let Some(ms) = self.source_p99_ms.filter(|ms| !is_latency(*ms)) {
            let words = format!("{ms} is not between 0.01 and {SOURCE_P99_MS_MAX} milliseconds");
            return Err(SettingError::new("source_p99_ms", words));
        }
        if let Some(brokers) = self.brokers.filter(|brokers| !(1..=BROKERS_MAX).contains(brokers)) {
            let words = format!("{brokers} is not between 1 and {BROKERS_MAX}");
            return Err(SettingError::new("brokers", words));
        }
        Ok(())
    }

    /// Returns the stricter of both for each limit, for limits on one thing only: those of a group or an endpoint are
    /// shared among runs, and divided by themselves.
    #[must_use]
    pub fn stricter(&self, other: &Self) -> Self {
        fn least<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(if other < one { other } else { one }),
                (one, other) => one.or(other),
            }
        }
        Self {
            version: LIMITS_VERSION,
            bytes_per_second: least(self.bytes_per_second, other.bytes_per_second),
            operations_per_second: least(self.operations_per_second, other.operations_per_second),
            source_p99_ms: least(self.source_p99_ms, other.source_p99_ms),
            brokers: least(self.brokers, other.brokers),
            paused: self.paused || other.paused,
        }
    }

    /// Returns the limits that a broker sets. `bytes` and `operations` are its shares where there are limits, and none
    /// where there are none. Without a share that a limit needs, nothing moves until it has one.
    pub fn run_limits(&self, bytes: Option<u64>, operations: Option<u64>) -> RunLimits {
        let rate = match self.bytes_per_second {
            None => RateSetting::Unlimited,
            Some(_) => match bytes.unwrap_or(0) {
                0 => RateSetting::Paused,
                bytes => RateSetting::BytesPerSecond(bytes),
            },
        };
        let operations = self.operations_per_second.map(|_| operations.unwrap_or(0));
        let rate = if self.paused || operations == Some(0) { RateSetting::Paused } else { rate };
        let steps = if rate == RateSetting::Unlimited { Vec::new() } else { vec![(0, rate)] };
        RunLimits {
            rate: RateLimit { steps, began_s: 0 },
            operations_per_second: operations
                .map(|operations| u32::try_from(operations.max(1)).unwrap_or(u32::MAX)),
            source_p99_us: self.source_p99_ms.map(|ms| (ms * 1000.0) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_kept() {
        let json = r#"{"version":1,"bytes_per_second":20000000,"operations_per_second":500,"source_p99_ms":1.5,"brokers":4,"paused":false}"#;
        let limits = LimitsSetting::parse(json).unwrap();
        assert_eq!(serde_json::to_string(&limits).unwrap(), json);
        assert_eq!(LimitsSetting::parse(r#"{"version":1}"#).unwrap(), LimitsSetting::default());
    }

    #[test]
    fn an_error_names_the_field() {
        for (fields, field, words) in [
            (r#""bytes_per_second":9999"#, "bytes_per_second", "pause it"),
            (r#""operations_per_second":0"#, "operations_per_second", "pause it"),
            (r#""source_p99_ms":0"#, "source_p99_ms", "not between 0.01"),
            (r#""source_p99_ms":-1"#, "source_p99_ms", "not between"),
            (r#""source_p99_ms":60001"#, "source_p99_ms", "not between"),
            (r#""brokers":0"#, "brokers", "not between 1 and"),
            (r#""brokers":10001"#, "brokers", "not between 1 and"),
            (r#""rate":1"#, "", "unknown field `rate`"),
        ] {
            let error = LimitsSetting::parse(&format!(r#"{{"version":1,{fields}}}"#)).unwrap_err();
            assert!(error.field == field && error.words.contains(words), "{fields}: {error}");
        }
        let least = r#"{"version":1,"bytes_per_second":10000,"source_p99_ms":0.01,"brokers":10000}"#;
        assert!(LimitsSetting::parse(least).is_ok());
        assert_eq!(LimitsSetting::parse(r#"{"version":2}"#).unwrap_err().field, "version");
    }

    #[test]
    fn a_broker_without_its_share_waits() {
        let limits = LimitsSetting { bytes_per_second: Some(1_000_000), ..LimitsSetting::default() };
        assert_eq!(limits.run_limits(None, None).rate.first(), RateSetting::Paused);
        assert_eq!(limits.run_limits(Some(5), None).rate.first(), RateSetting::BytesPerSecond(5));
        let limits = LimitsSetting { operations_per_second: Some(10), ..LimitsSetting::default() };
        assert_eq!(limits.run_limits(None, None).rate.first(), RateSetting::Paused);
        let set = limits.run_limits(None, Some(7));
        assert_eq!((set.rate.first(), set.operations_per_second), (RateSetting::Unlimited, Some(7)));
        let paused = LimitsSetting { paused: true, source_p99_ms: Some(1.5), ..LimitsSetting::default() };
        let set = paused.run_limits(None, None);
        assert_eq!((set.rate.first(), set.source_p99_us), (RateSetting::Paused, Some(1500)));
        assert!(!LimitsSetting::default().run_limits(None, None).is_some());
    }

    #[test]
    fn the_stricter_limit_holds() {
        let one =
            LimitsSetting { bytes_per_second: Some(20_000), brokers: Some(3), ..LimitsSetting::default() };
        let two = LimitsSetting { bytes_per_second: Some(10_000), paused: true, ..LimitsSetting::default() };
        let both = one.stricter(&two);
        assert_eq!((both.bytes_per_second, both.brokers, both.paused), (Some(10_000), Some(3), true));
        assert_eq!(both, two.stricter(&one));
    }
}
