//! The range of an object that an answer of a store has.

use hakobu_core::extent::Extent;
use http::HeaderMap;
use http::header::CONTENT_RANGE;

/// Returns the range of an answer's body and the size of the object; the cause if it is not the range asked for. `length`: the
/// length of the body in bytes, as the answer states it.
pub(crate) fn answered_range(
    (status, headers): (u16, &HeaderMap),
    length: Option<u64>,
    asked: Option<Extent>,
) -> Result<(Extent, u64), &'static str> {
    let length = length.ok_or("the answer has no length")?;
    match (asked, status) {
        (Some(asked), 206) => {
            let (found, size_bytes) =
                content_range(headers).ok_or("the answer does not say which range it has")?;
            let end = asked.end().min(size_bytes);
            if found.offset != asked.offset || found.end() != end || length != found.length {
                return Err("the answer has another range than was asked for");
            }
            Ok((found, size_bytes))
        }
        // The whole object, if that was asked for by its range.
        (Some(asked), _) if asked.offset == 0 && length <= asked.length => {
            Ok((Extent { offset: 0, length }, length))
        }
        (Some(_), _) => Err("the store does not answer requests for ranges"),
        (None, _) => Ok((Extent { offset: 0, length }, length)),
    }
}

/// Returns the range in the answer and the size of the whole object.
pub(crate) fn content_range(headers: &HeaderMap) -> Option<(Extent, u64)> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")?;
    let (range, size) = text.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, size) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?, size.parse().ok()?);
    Some((Extent { offset: first, length: last.checked_sub(first)?.checked_add(1)? }, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(range: &'static str) -> HeaderMap {
        [(CONTENT_RANGE, range.parse().unwrap())].into_iter().collect()
    }

    #[test]
    fn ranges_are_read() {
        let range = |text| content_range(&headers(text));
        assert_eq!(range("bytes 5-9/20"), Some((Extent { offset: 5, length: 5 }, 20)));
        for wrong in
            ["bytes 9-5/20", "bytes 0-18446744073709551615/20", "bytes */20", "5-9/20", "bytes 5-9/*"]
        {
            assert_eq!(range(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_answer_has_the_range_that_was_asked_for() {
        let asked = Extent { offset: 5, length: 5 };
        let part = |text, length| answered_range((206, &headers(text)), length, Some(asked));
        assert_eq!(part("bytes 5-9/20", Some(5)), Ok((asked, 20)));
        let short = Extent { offset: 5, length: 3 };
        assert_eq!(part("bytes 5-7/8", Some(3)), Ok((short, 8)));
        for (wrong, length) in [
            ("bytes 4-8/20", Some(5)),
            ("bytes 5-8/20", Some(4)),
            ("bytes 5-9/20", Some(4)),
            ("bytes 5-9/20", None),
        ] {
            assert!(part(wrong, length).is_err(), "{wrong} {length:?}");
        }
        let whole = |length, asked| answered_range((200, &HeaderMap::new()), Some(length), asked);
        let all = |length| Extent { offset: 0, length };
        assert_eq!(whole(9, None), Ok((all(9), 9)));
        assert_eq!(whole(9, Some(all(20))), Ok((all(9), 9)));
        assert!(whole(9, Some(asked)).is_err() && whole(9, Some(all(8))).is_err());
    }
}
