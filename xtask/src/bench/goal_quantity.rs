//! The quantities that are judged, and how they are written.

use serde::Serialize;

/// The quantity that a judged value stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GoalQuantity {
    /// Speed as a multiple of the peer's.
    TimesFaster,
    /// Time as a multiple of the peer's.
    TimesLonger,
    /// Bytes of the peer as a multiple of ours.
    TimesFewerBytes,
    Seconds,
    Bytes,
    /// Bytes read per byte of the source.
    BytesRead,
    /// Seconds of work done again.
    SecondsRepeated,
    /// Bytes that crossed the network again after a kill.
    BytesRepeated,
    /// Bytes that crossed the network, per byte of the source.
    BytesMoved,
    /// Processor time as a multiple of the peer's.
    TimesCpu,
    /// Requests that list, as a multiple of those that a listing needs.
    TimesLists,
}

impl GoalQuantity {
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::TimesFaster | Self::TimesFewerBytes)
    }

    /// Returns the value as text, without its unit.
    pub fn number(self, value: f64) -> String {
        match self {
            Self::Bytes | Self::BytesRepeated => format!("{:.0}", value / f64::from(1 << 20)),
            Self::BytesRead | Self::BytesMoved => format!("{value:.3}"),
            _ => format!("{value:.2}"),
        }
    }

    /// Returns the unit, with a leading space where one is needed.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Seconds | Self::SecondsRepeated => " s",
            Self::Bytes | Self::BytesRepeated => " MiB",
            Self::TimesFaster
            | Self::TimesLonger
            | Self::TimesFewerBytes
            | Self::TimesCpu
            | Self::TimesLists => "×",
            Self::BytesRead | Self::BytesMoved => "",
        }
    }

    /// Returns the required value as text, with no more digits than it has.
    pub fn mark(self, value: f64) -> String {
        let in_mib = matches!(self, Self::Bytes | Self::BytesRepeated);
        let shown = if in_mib { value / f64::from(1 << 20) } else { value };
        let text = format!("{shown:.2}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        match self {
            Self::TimesFaster | Self::TimesFewerBytes => text.to_owned(),
            Self::TimesLonger | Self::BytesRead | Self::BytesMoved | Self::TimesCpu | Self::TimesLists => {
                format!("≤ {text}")
            }
            _ => format!("≤ {text}{}", self.unit()),
        }
    }

    /// Describes a value that does not meet the requirement.
    pub fn shortfall(self, value: f64, mark: f64) -> String {
        let bound = if self.more_is_better() { "at least" } else { "at most" };
        let mark = self.mark(mark);
        format!("{}{}, {bound} {}", self.number(value), self.unit(), mark.trim_start_matches("≤ "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_with_what_they_stand_for() {
        assert_eq!(GoalQuantity::Bytes.mark(f64::from(256 << 20)), "≤ 256 MiB");
        assert_eq!(GoalQuantity::Seconds.mark(60.0), "≤ 60 s");
        assert_eq!(
            (GoalQuantity::TimesFaster.mark(2.2), GoalQuantity::TimesFaster.mark(20.0)),
            ("2.2".into(), "20".into())
        );
        assert_eq!(GoalQuantity::BytesRead.mark(1.01), "≤ 1.01");
        assert_eq!(GoalQuantity::TimesFaster.shortfall(2.0, 2.2), "2.00×, at least 2.2");
        assert_eq!(GoalQuantity::TimesLonger.shortfall(1.7, 1.5), "1.70×, at most 1.5");
        assert_eq!(GoalQuantity::BytesRead.shortfall(1.0104, 1.01), "1.010, at most 1.01");
    }
}
