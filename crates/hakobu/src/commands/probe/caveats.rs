//! Notes on options of a copy whose effect the prediction does not include.

use hakobu_core::compression::Compression;
use hakobu_core::pace::{RateLimit, RateSetting, RunLimits, time_words};
use hakobu_measure::probe::TransferStage;
use hakobu_transfer::probe::ProbeResults;

/// Returns notes on the limits that the prediction leaves out.
pub fn limits(limits: &RunLimits) -> Vec<String> {
    let others = RunLimits { rate: RateLimit::default(), ..limits.clone() };
    let others = others
        .is_some()
        .then(|| format!("These limits make a copy slower, which is not predicted: {}.", others.words()));
    rate(&limits.rate).into_iter().chain(others).collect()
}

fn rate(limit: &RateLimit) -> Option<String> {
    let words = limit.words();
    match (limit.constant(), limit.first()) {
        _ if !limit.is_some() => None,
        (Some(_), _) => None,
        (None, RateSetting::BytesPerSecond(_)) => Some(format!(
            "The rate limit is a timetable; the prediction assumes that the present limit holds all the time: {words}."
        )),
        (None, RateSetting::Paused) => limit.first_pause().map(|(until_s, _)| {
            let until = time_words(until_s);
            format!("A copy waits until {until}, in a pause of its timetable; the prediction is for the time after \
                that: {words}.")
        }),
        (None, RateSetting::Unlimited) => {
            Some(format!("The timetable sets no limit now, but will, which is not predicted: {words}."))
        }
    }
}

/// Returns a note on compression if the network is the bottleneck. A probe does not test if the content compresses.
pub fn compression(probed: &ProbeResults) -> Option<String> {
    let is_line = probed.prediction.slowest.is_some_and(|slowest| slowest.stage == TransferStage::Network);
    let predicted = "The prediction is for a copy without compression";
    match probed.compression {
        _ if !probed.apart || probed.prediction.slowest.is_none() => None,
        Compression::None => None,
        Compression::Auto if is_line => Some(format!(
            "{predicted}. If the network is the bottleneck, a copy compresses data (--compress auto) and is faster."
        )),
        Compression::Auto => None,
        Compression::Adapted | Compression::Level(_) => Some(format!(
            "{predicted}. {} sends less data over the network and needs more processor time.",
            name(probed.compression)
        )),
    }
}

/// Returns the option as typed.
fn name(compression: Compression) -> String {
    match compression {
        Compression::Auto => "--compress auto".to_owned(),
        Compression::None => "--compress none".to_owned(),
        Compression::Adapted => "--compress zstd".to_owned(),
        Compression::Level(level) => format!("--compress zstd:{level}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_prediction_leaves_out_is_said() {
        let at = |text: &str| rate(&RateLimit::parse(text, 9 * 3600).unwrap());
        assert_eq!((rate(&RateLimit::default()), at("20M"), at("off")), (None, None, None));
        assert!(at("08:00,20M 19:00,off").unwrap().contains("the present limit"));
        assert!(at("08:00,pause 19:00,off").unwrap().contains("waits until 19:00"));
        assert!(at("08:00,off 19:00,20M").unwrap().contains("no limit now"));
        let both =
            RunLimits { operations_per_second: Some(500), source_p99_us: Some(500), ..RunLimits::default() };
        assert_eq!((limits(&RunLimits::default()).len(), limits(&both).len()), (0, 1));
        assert!(limits(&both)[0].contains("500 operations") && limits(&both)[0].contains("0.5 ms"));
        let none = ProbeResults { apart: true, compression: Compression::Adapted, ..ProbeResults::default() };
        assert_eq!(compression(&none), None);
    }
}
