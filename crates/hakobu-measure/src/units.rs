//! Parses and formats sizes and rates.
//!
//! Decimal units are powers of 1000 (`kB`, `MB`, `GB`…, also `k`, `M`, `G`). Binary units are powers of 1024 (`KiB`,
//! `MiB`…, also `Ki`, `Mi`).

/// The reason why a size could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// There are no digits where a number is expected.
    #[error("{0:?} does not start with a number")]
    NoNumber(String),
    /// The unit is unknown.
    #[error("unknown unit {0:?} (use B, kB, MB, GB, TB or KiB, MiB, GiB, TiB)")]
    UnknownUnit(String),
    /// The size does not fit into 64 bits.
    #[error("{0:?} is larger than 2^64 - 1 bytes")]
    TooLarge(String),
}

/// Parses a size in bytes: `4096`, `10KiB`, `1.5 GB`. Case is ignored, and a fraction of a byte is dropped. Signs,
/// exponents and digit separators are not allowed.
///
/// # Errors
///
/// [`SizeError`], with the text that could not be parsed.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale = unit_bytes(unit.trim())?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits_only = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits_only(fraction) || (number.contains('.') && fraction.is_empty()) {
        return Err(SizeError::NoNumber(text.to_owned()));
    }
    let too_large = || SizeError::TooLarge(text.to_owned());
    let whole: u128 = whole.parse::<u64>().map_err(|_| too_large())?.into();
    // Nineteen digits suffice to resolve single bytes of the largest unit.
    let fraction = &fraction[..fraction.len().min(19)];
    let mut below_one: u128 = 0;
    for digit in fraction.bytes() {
        below_one = below_one * 10 + u128::from(digit - b'0');
    }
    let below_one = below_one * scale / 10_u128.pow(fraction.len() as u32);
    u64::try_from(whole * scale + below_one).map_err(|_| too_large())
}

fn unit_bytes(unit: &str) -> Result<u128, SizeError> {
    let lower = unit.to_ascii_lowercase();
    let prefix = lower.strip_suffix('b').unwrap_or(&lower);
    let (base, letter): (u128, &str) = match prefix.strip_suffix('i') {
        Some(letter) if !letter.is_empty() => (1024, letter),
        _ => (1000, prefix),
    };
    let power = match letter {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        "e" => 6,
        _ => return Err(SizeError::UnknownUnit(unit.to_owned())),
    };
    Ok(base.pow(power))
}

/// Formats a size in decimal units with three digits: `1.07 GB`.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    format_decimal(bytes as f64, "B")
}

/// Formats a rate in decimal units with three digits: `2.31 GB/s`.
#[must_use]
pub fn format_rate(bytes_per_second: f64) -> String {
    format_decimal(bytes_per_second, "B/s")
}

fn format_decimal(value: f64, unit: &str) -> String {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let mut value = value;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_numbers_are_bytes() {
        assert_eq!(parse_size("0"), Ok(0));
        assert_eq!(parse_size(" 4096 "), Ok(4096));
        assert_eq!(parse_size("512B"), Ok(512));
        assert_eq!(parse_size("18446744073709551615"), Ok(u64::MAX));
    }

    #[test]
    fn decimal_and_binary_units_differ() {
        assert_eq!(parse_size("10kB"), Ok(10_000));
        assert_eq!(parse_size("10KiB"), Ok(10_240));
        assert_eq!(parse_size("3M"), Ok(3_000_000));
        assert_eq!(parse_size("3Mi"), Ok(3 << 20));
        assert_eq!(parse_size("2 GB"), Ok(2_000_000_000));
        assert_eq!(parse_size("2gib"), Ok(2 << 30));
        assert_eq!(parse_size("1TiB"), Ok(1 << 40));
        assert_eq!(parse_size("15EiB"), Ok(15 << 60));
    }

    #[test]
    fn fractions_are_exact() {
        assert_eq!(parse_size("1.5GiB"), Ok(3 << 29));
        assert_eq!(parse_size("0.1 kB"), Ok(100));
        assert_eq!(parse_size("1.0009kB"), Ok(1000));
        assert_eq!(parse_size("1.9"), Ok(1));
        assert_eq!(parse_size(&format!("0.{}kB", "9".repeat(60))), Ok(999));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "GB", ".5GB", "5.", "1.2.3", "-1", "+1"] {
            assert!(parse_size(text).is_err(), "{text:?}");
        }
        assert_eq!(parse_size("5 XB"), Err(SizeError::UnknownUnit("XB".to_owned())));
        assert!(matches!(parse_size("1e3"), Err(SizeError::UnknownUnit(_))));
        assert!(matches!(parse_size("5i"), Err(SizeError::UnknownUnit(_))));
        assert!(matches!(parse_size("5iB"), Err(SizeError::UnknownUnit(_))));
        for text in ["16EiB", "18446744073709551616", "999999999999999999999999"] {
            assert!(matches!(parse_size(text), Err(SizeError::TooLarge(_))), "{text}");
        }
    }

    #[test]
    fn sizes_are_printed_with_three_digits() {
        assert_eq!(format_bytes(0), "0 B");
        assert_eq!(format_bytes(999), "999 B");
        assert_eq!(format_bytes(1000), "1.00 kB");
        assert_eq!(format_bytes(1 << 30), "1.07 GB");
        assert_eq!(format_bytes(123_456_789), "123 MB");
        assert_eq!(format_bytes(999_999), "1.00 MB");
        assert_eq!(format_bytes(u64::MAX), "18.4 EB");
        assert_eq!(format_rate(2.5e9), "2.50 GB/s");
        assert_eq!(format_rate(0.25), "0.25 B/s");
    }
}
