//! A header of an RPM package: numbered tags with values, big-endian, in the order of their numbers.

use std::collections::BTreeMap;

/// A value of a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TagValue {
    Numbers16(Vec<u16>),
    Numbers(Vec<u32>),
    Text(String),
    Texts(Vec<String>),
    /// A text that may have translations. Only the untranslated text is present.
    Localized(String),
}

/// The type of a region's bytes.
const BYTES: u32 = 7;
/// The size of an index entry, and of the mark at the end of a region.
const ENTRY_BYTES: u32 = 16;

impl TagValue {
    /// Returns the number of the type, the number of values, and their alignment.
    fn shape(&self) -> (u32, usize, usize) {
        match self {
            Self::Numbers16(numbers) => (3, numbers.len(), 2),
            Self::Numbers(numbers) => (4, numbers.len(), 4),
            Self::Text(_) => (6, 1, 1),
            Self::Texts(texts) => (8, texts.len(), 1),
            Self::Localized(_) => (9, 1, 1),
        }
    }

    fn write(&self, store: &mut Vec<u8>) {
        let mut text = |text: &str| {
            store.extend_from_slice(text.as_bytes());
            store.push(0);
        };
        match self {
            Self::Text(one) | Self::Localized(one) => text(one),
            Self::Texts(texts) => texts.iter().for_each(|one| text(one)),
            Self::Numbers16(numbers) => store.extend(numbers.iter().flat_map(|number| number.to_be_bytes())),
            Self::Numbers(numbers) => store.extend(numbers.iter().flat_map(|number| number.to_be_bytes())),
        }
    }
}

/// Returns the header as a single region, which rpm treats as the signed part. `region` is the tag of the region.
pub(super) fn header(region: u32, tags: &BTreeMap<u32, TagValue>) -> Vec<u8> {
    let (mut index, mut store) = (Vec::new(), Vec::new());
    for (tag, value) in tags {
        let (kind, count, multiple) = value.shape();
        store.resize(store.len().next_multiple_of(multiple), 0);
        index.push([*tag, kind, store.len() as u32, count as u32]);
        value.write(&mut store);
    }
    // The region comes first, and refers to a mark at the end that refers back to it.
    index.insert(0, [region, BYTES, store.len() as u32, ENTRY_BYTES]);
    let index_bytes = index.len() as u32 * ENTRY_BYTES;
    let mark = [region, BYTES, index_bytes.wrapping_neg(), ENTRY_BYTES];
    store.extend(mark.iter().flat_map(|number| number.to_be_bytes()));

    let mut header = vec![0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0];
    header.extend((index.len() as u32).to_be_bytes());
    header.extend((store.len() as u32).to_be_bytes());
    header.extend(index.iter().flatten().flat_map(|number| number.to_be_bytes()));
    header.extend(store);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_where_the_index_says() {
        let tags = BTreeMap::from([
            (1000, TagValue::Text("abc".to_owned())),
            (1009, TagValue::Numbers(vec![7, 8])),
            (1117, TagValue::Texts(vec!["x".to_owned(), "yz".to_owned()])),
        ]);
        let header = header(63, &tags);
        let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
        assert_eq!((number(8), number(12)), (4, 4 + 8 + 5 + 16));
        assert_eq!(header.len(), 16 + 4 * 16 + 33);
        let entry = |nth: usize| [0, 4, 8, 12].map(|at| number(16 + nth * 16 + at));
        assert_eq!([entry(0), entry(1)], [[63, 7, 17, 16], [1000, 6, 0, 1]]);
        assert_eq!([entry(2), entry(3)], [[1009, 4, 4, 2], [1117, 8, 12, 2]]);
        let store = &header[16 + 64..];
        assert_eq!(&store[..17], b"abc\0\0\0\0\x07\0\0\0\x08x\0yz\0");
        assert_eq!(store[17..], [0, 0, 0, 63, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xc0, 0, 0, 0, 16]);
    }

    #[test]
    fn short_numbers_lie_on_even_places() {
        let tags =
            BTreeMap::from([(1, TagValue::Text(String::new())), (2, TagValue::Numbers16(vec![0x1234, 1]))]);
        let header = header(62, &tags);
        assert_eq!(header[16 + 48..16 + 48 + 6], [0, 0, 0x12, 0x34, 0, 1]);
    }
}
