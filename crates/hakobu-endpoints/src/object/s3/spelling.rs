//! Keys in URLs, checksums in headers, and times in XML.

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hakobu_core::entry::FileTime;

/// Returns a key as the path of a URL.
pub(crate) fn encode_key(key: &str) -> String {
    encode(key, true)
}

/// Returns a value as part of a query.
pub(crate) fn encode_value(value: &str) -> String {
    encode(value, false)
}

/// Returns the text of a query.
pub(crate) fn query_text(query: &[(&'static str, String)]) -> String {
    let pairs: Vec<_> = query.iter().map(|(name, value)| format!("{name}={}", encode_value(value))).collect();
    pairs.join("&")
}

fn encode(text: &str, keeps_slashes: bool) -> String {
    let mut encoded = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(byte.into()),
            b'/' if keeps_slashes => encoded.push('/'),
            // Writing to a string cannot fail.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

/// Returns the text behind an encoded one, in which a space may be `+`; `None` if it is none.
pub(crate) fn decode(text: &str) -> Option<String> {
    if !text.contains(['%', '+']) {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            b'+' => b' ',
            _ => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Returns a CRC-64 as headers have it.
pub(crate) fn crc64_text(crc64: u64) -> String {
    BASE64_STANDARD.encode(crc64.to_be_bytes())
}

/// Returns the CRC-64 of a header; `None` unless it has eight bytes.
pub(crate) fn crc64_of(text: &str) -> Option<u64> {
    Some(u64::from_be_bytes(BASE64_STANDARD.decode(text.trim()).ok()?.try_into().ok()?))
}

/// Returns the CRC-32C of a header; `None` unless it has four bytes.
pub(crate) fn crc32c_of(text: &str) -> Option<u32> {
    Some(u32::from_be_bytes(BASE64_STANDARD.decode(text.trim()).ok()?.try_into().ok()?))
}

/// Returns the time of a listing, such as `2026-11-27T10:30:00.123Z`.
pub(crate) fn time_of(text: &str) -> Option<FileTime> {
    let (date, time) = text.trim().strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(number);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut time = time.splitn(3, ':').map(number);
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let fits = (1600..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60
        && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !fits {
        return None;
    }
    // Days since 0000-03-01: a leap day is then the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468;
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanoseconds = digits.parse().ok()?;
    Some(FileTime { seconds: days * 86_400 + hour * 3600 + minute * 60 + second, nanoseconds })
}

fn number(digits: &str) -> Option<i64> {
    if digits.is_empty() || digits.len() > 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use hakobu_core::checksum::crc64;
    use hakobu_core::times::rfc3339;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn decoding_reverses_encoding(text in any::<String>()) {
            prop_assert_eq!(decode(&encode_key(&text)), Some(text.clone()));
            prop_assert_eq!(decode(&encode_value(&text)), Some(text));
        }

        #[test]
        fn times_are_read_as_they_are_written(seconds in -10_000_000_000i64..200_000_000_000, nanoseconds in 0u32..1_000_000_000) {
            let time = FileTime { seconds, nanoseconds };
            prop_assert_eq!(time_of(&rfc3339(time)), Some(time));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "[-0-9TZ:.+%a ]{0,30}") {
            let _ = (time_of(&text), decode(&text), crc64_of(&text));
        }
    }

    #[test]
    fn texts_are_spelt_as_s3_spells_them() {
        assert_eq!(encode_key("a b/c+d=é"), "a%20b/c%2Bd%3D%C3%A9");
        assert_eq!(encode_value("a/b"), "a%2Fb");
        assert_eq!(decode("a+b%2Bc").as_deref(), Some("a b+c"));
        assert_eq!(decode("%ff"), None);
        // The bytes of the check value in the catalogue, the most significant first.
        assert_eq!(crc64_text(crc64(b"123456789")), "rosUhgp5mIg=");
        assert_eq!(crc64_of("rosUhgp5mIg="), Some(crc64(b"123456789")));
        assert_eq!(crc64_of("4waSgw=="), None);
        assert_eq!(time_of("2026-11-27T10:30:00.123Z").map(|time| time.nanoseconds), Some(123_000_000));
        for wrong in
            ["", "2026-11-27", "2026-13-27T10:30:00Z", "2026-11-27T10:30Z", "2026-11-27T10:30:00.x5Z"]
        {
            assert_eq!(time_of(wrong), None, "{wrong}");
        }
    }
}
