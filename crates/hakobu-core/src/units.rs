//! Parsing and formatting of sizes, rates and durations.
//!
//! Decimal units are powers of 1000 (`k`, `kB`, `M`, `MB`…), binary ones are powers of 1024 and marked as such (`Ki`,
//! `KiB`, `Mi`, `MiB`…). A duration needs its unit: `500ms`, `30s`, `5m`, `2h`, `1h30m`.

use std::time::Duration;

/// The reason why a size or duration could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    /// There is no number where one is expected.
    #[error("{0:?} does not start with a number")]
    NoNumber(String),
    /// The unit of a size is unknown.
    #[error("unknown unit {0:?} (use k, M, G, T or Ki, Mi, Gi, Ti, with or without a B)")]
    UnknownSize(String),
    /// The unit of a duration is missing or unknown.
    #[error("a duration needs a unit: ms, s, m, h or d, as in 30s or 1h30m; not {0:?}")]
    UnknownDuration(String),
    /// The value exceeds 64 bits.
    #[error("{0:?} is too large")]
    TooLarge(String),
}

/// Parses a size in bytes: `4096`, `10KiB`, `1.5 GB`, `20M`. The case of letters is ignored; a fraction of a byte is
/// dropped.
///
/// # Errors
/// [`UnitError`], naming the part that was not understood.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let text = text.trim();
    let (number, unit) = split_number(text);
    if number.is_empty() {
        return Err(UnitError::NoNumber(text.to_owned()));
    }
    let scale = size_unit(unit.trim()).ok_or_else(|| UnitError::UnknownSize(unit.to_owned()))?;
    scaled(number, scale, text)
}

/// Parses a duration: `500ms`, `30s`, `2h`, `1h30m`, `1.5h`. A bare `0` is allowed.
///
/// # Errors
/// [`UnitError`], naming the part that was not understood.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let text = text.trim();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total_ms: u64 = 0;
    loop {
        let (number, tail) = split_number(rest);
        let tail = tail.trim_start();
        let end = tail.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, next) = tail.split_at(end);
        let unit_ms = match unit.to_ascii_lowercase().as_str() {
            "ms" => 1,
            "s" | "sec" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ if number.is_empty() => return Err(UnitError::NoNumber(text.to_owned())),
            _ => return Err(UnitError::UnknownDuration(text.to_owned())),
        };
        total_ms = total_ms
            .checked_add(scaled(number, unit_ms, text)?)
            .ok_or_else(|| UnitError::TooLarge(text.to_owned()))?;
        rest = next.trim_start();
        if rest.is_empty() {
            return Ok(Duration::from_millis(total_ms));
        }
    }
}

fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

/// Returns `number`, which may have a fraction, times `scale`, computed exactly and rounded down.
fn scaled(number: &str, scale: u128, whole_text: &str) -> Result<u64, UnitError> {
    let too_large = || UnitError::TooLarge(whole_text.to_owned());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction_is_digits = fraction.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !fraction_is_digits || (number.contains('.') && fraction.is_empty()) {
        return Err(UnitError::NoNumber(whole_text.to_owned()));
    }
    let whole: u128 = whole.parse::<u64>().map_err(|_| too_large())?.into();
    // Fifteen digits are precise enough, and keep the product within 128 bits.
    let mut below_one: u128 = 0;
    let mut divisor: u128 = 1;
    for digit in fraction.bytes().take(15) {
        below_one = below_one * 10 + u128::from(digit - b'0');
        divisor *= 10;
    }
    u64::try_from(whole * scale + below_one * scale / divisor).map_err(|_| too_large())
}

fn size_unit(unit: &str) -> Option<u128> {
    let lower = unit.to_ascii_lowercase();
    let prefix = lower.strip_suffix('b').unwrap_or(&lower);
    let (base, letter): (u128, &str) = match prefix.strip_suffix('i') {
        Some(letter) if !letter.is_empty() => (1024, letter),
        _ => (1000, prefix),
    };
    let power = ["", "k", "m", "g", "t", "p", "e"].iter().position(|known| *known == letter)?;
    Some(base.pow(power as u32))
}

/// Formats a size with a decimal unit and three digits: `1.50 GB`.
pub fn format_bytes(bytes: u64) -> String {
    format_decimal(bytes as f64, "B")
}

/// Formats a lack of space: `12.0 MB are needed, 8.39 MB are free`. Sizes that look equal with three digits are given in bytes.
pub fn format_lack(needed_bytes: u64, free_bytes: u64) -> String {
    match (format_bytes(needed_bytes), format_bytes(free_bytes)) {
        (needed, free) if needed != free => format!("{needed} are needed, {free} are free"),
        _ => format!("{needed_bytes} bytes are needed, {free_bytes} bytes are free"),
    }
}

/// Formats a rate in bytes per second with a decimal unit and three digits: `382 MB/s`.
pub fn format_rate(bytes_per_second: f64) -> String {
    format_decimal(bytes_per_second, "B/s")
}

/// Formats a rate in both units, to echo what the user typed: `20.0 MB/s = 160 Mbit/s`.
pub fn format_rate_and_bits(bytes_per_second: u64) -> String {
    let bytes_per_second = bytes_per_second as f64;
    format!("{} = {}", format_rate(bytes_per_second), format_decimal(bytes_per_second * 8.0, "bit/s"))
}

fn format_decimal(value: f64, unit: &str) -> String {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let mut value = if value.is_finite() { value.max(0.0) } else { 0.0 };
    let mut prefix = 0;
    // 999.5 would be printed as 1000.
    while value >= 999.5 && prefix + 1 < PREFIXES.len() {
        value /= 1000.0;
        prefix += 1;
    }
    let decimals = match value {
        _ if prefix == 0 && value.fract() == 0.0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}{unit}", PREFIXES[prefix])
}

/// Formats a duration: `350 ms`, `2.81 s`, `3 min 20 s`, `2 h 05 min`, `3 d 4 h`.
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 0.9995 {
        return format!("{:.0} ms", seconds * 1000.0);
    }
    if seconds < 59.95 {
        let decimals = if seconds < 9.995 { 2 } else { 1 };
        return format!("{seconds:.decimals$} s");
    }
    let whole = seconds.round() as u64;
    match whole {
        0..3_600 => format!("{} min {:02} s", whole / 60, whole % 60),
        3_600..86_400 => format!("{} h {:02} min", whole / 3_600, whole % 3_600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3_600),
    }
}

/// Formats the time of one operation: `0.35 ms`, `6.1 ms`, `126 ms`, and longer ones like [`format_duration`].
pub fn format_milliseconds(milliseconds: f64) -> String {
    match milliseconds {
        0.0..0.995 => format!("{milliseconds:.2} ms"),
        0.995..9.95 => format!("{milliseconds:.1} ms"),
        _ => format_duration(Duration::try_from_secs_f64(milliseconds / 1000.0).unwrap_or_default()),
    }
}

/// Formats a count in groups of three digits: `19 523 812`.
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut words = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            words.push(' ');
        }
        words.push(digit);
    }
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_lack_of_space_never_shows_equal_sizes() {
        assert_eq!(format_lack(12_000_000, 8_388_608), "12.0 MB are needed, 8.39 MB are free");
        let close = "12000001 bytes are needed, 12000000 bytes are free";
        assert_eq!(format_lack(12_000_001, 12_000_000), close);
    }

    #[test]
    fn decimal_and_binary_sizes_differ() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("512B", 512),
            ("20k", 20_000),
            ("20kB", 20_000),
            ("3M", 3_000_000),
            ("3MB", 3_000_000),
            ("2 GB", 2_000_000_000),
            ("1T", 1_000_000_000_000),
            ("10KiB", 10_240),
            ("3Mi", 3 << 20),
            ("1.5GiB", 3 << 29),
            ("0.1 kB", 100),
            ("2gib", 2 << 30),
            ("1TiB", 1 << 40),
            ("15EiB", 15 << 60),
            ("1.0009kB", 1000),
            ("1.9", 1),
            ("0.999999999999999999999999999999999999999999999999999999999999kB", 999),
            (" 18446744073709551615 ", u64::MAX),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_the_reason() {
        for text in ["", "GB", ".5GB", "5.", "1.2.3", "-1", "+1"] {
            assert!(parse_bytes(text).is_err(), "{text:?}");
        }
        assert_eq!(parse_bytes("5 XB"), Err(UnitError::UnknownSize(" XB".into())));
        for text in ["1e3", "5i", "5iB"] {
            assert!(matches!(parse_bytes(text), Err(UnitError::UnknownSize(_))), "{text}");
        }
        for text in ["16EiB", "18446744073709551616", "99999999999E"] {
            assert_eq!(parse_bytes(text), Err(UnitError::TooLarge(text.into())), "{text}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        for (text, ms) in [
            ("0", 0),
            ("500ms", 500),
            ("30s", 30_000),
            ("2m", 120_000),
            ("2 min", 120_000),
            ("2h", 7_200_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "30", "s", "5 weeks", "1h30", "-5s", "99999999999999999999d"] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn figures_are_printed_with_three_digits() {
        assert_eq!(format_bytes(999), "999 B");
        assert_eq!(format_bytes(1000), "1.00 kB");
        assert_eq!(format_bytes(1_500_000_000), "1.50 GB");
        assert_eq!(format_bytes(999_999), "1.00 MB");
        assert_eq!(format_bytes(u64::MAX), "18.4 EB");
        assert_eq!(format_rate(382e6), "382 MB/s");
        assert_eq!(format_rate(0.25), "0.25 B/s");
        assert_eq!(format_rate(f64::NAN), "0 B/s");
        assert_eq!(format_rate_and_bits(20_000_000), "20.0 MB/s = 160 Mbit/s");
        assert_eq!(format_count(19_523_812), "19 523 812");
        assert_eq!(format_count(812), "812");
    }

    #[test]
    fn durations_are_printed_as_people_say_them() {
        for (ms, words) in [
            (0, "0 ms"),
            (350, "350 ms"),
            (999, "999 ms"),
            (2_810, "2.81 s"),
            (59_940, "59.9 s"),
            (59_960, "1 min 00 s"),
            (200_000, "3 min 20 s"),
            (7_500_000, "2 h 05 min"),
            (273_600_000, "3 d 4 h"),
        ] {
            assert_eq!(format_duration(Duration::from_millis(ms)), words);
        }
        for (ms, words) in [
            (0.0, "0.00 ms"),
            (0.354, "0.35 ms"),
            (0.999, "1.0 ms"),
            (6.12, "6.1 ms"),
            (9.99, "10 ms"),
            (2810.0, "2.81 s"),
            (-1.0, "0 ms"),
            (f64::NAN, "0 ms"),
            (1e300, "0 ms"),
        ] {
            assert_eq!(format_milliseconds(ms), words);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "[0-9.]{0,30}[ a-zA-Z.0-9é-]{0,10}") {
            let _ = parse_bytes(&text);
            let _ = parse_duration(&text);
        }
    }
}
