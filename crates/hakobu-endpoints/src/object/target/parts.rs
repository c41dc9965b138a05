//! How a large object is divided into parts.

use hakobu_core::extent::{CHUNK_BYTES, Extent, UNKNOWN_BYTES};
use hakobu_core::{Error, ErrorKind, Result};

use crate::object::api::StoreLimits;

/// The usual size of a part in bytes.
pub(crate) const PART_BYTES: u64 = 2 * CHUNK_BYTES;
/// The size in bytes of the parts that the store copies on its own.
pub(crate) const COPIED_PART_BYTES: u64 = 512 << 20;
/// The number of parts of a stream after which the size of parts doubles.
const STREAM_PARTS: u64 = 1000;

/// The sizes of the parts of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartPlan {
    /// All parts but the last have this size in bytes.
    Equal(u64),
    /// The length is unknown: each thousand parts are twice as large as the thousand before, from this size in bytes on.
    Growing(u64),
}

impl PartPlan {
    /// Returns the plan for an object of `size_bytes`, which no limit of the store stops.
    ///
    /// # Errors
    /// `Unsupported` if the store cannot hold an object of that size.
    pub(crate) fn new(size_bytes: u64, limits: &StoreLimits) -> Result<Self> {
        let smallest = PART_BYTES.max(limits.part_bytes_min.next_multiple_of(CHUNK_BYTES));
        if size_bytes == UNKNOWN_BYTES {
            return Ok(Self::Growing(smallest));
        }
        let needed = size_bytes.div_ceil(u64::from(limits.parts_max.max(1))).next_multiple_of(CHUNK_BYTES);
        let part_bytes = smallest.max(needed);
        match size_bytes <= limits.object_bytes_max && part_bytes <= limits.part_bytes_max {
            true => Ok(Self::Equal(part_bytes)),
            false => Err(too_large(limits)),
        }
    }

    /// Returns the number of bytes that a lane transfers in order.
    pub(crate) fn run_bytes(self) -> u64 {
        match self {
            Self::Equal(part_bytes) | Self::Growing(part_bytes) => part_bytes,
        }
    }

    /// Returns the number of the part that has the byte at `offset`, from 1, and its range. The last part of an object
    /// may end earlier.
    pub(crate) fn part(self, offset: u64) -> (u32, Extent) {
        let (number, extent) = match self {
            Self::Equal(length) => (offset / length, Extent { offset: offset / length * length, length }),
            Self::Growing(first_bytes) => {
                let (mut begin, mut length, mut before) = (0, first_bytes, 0);
                while offset - begin >= STREAM_PARTS * length {
                    begin += STREAM_PARTS * length;
                    (length, before) = (length * 2, before + STREAM_PARTS);
                }
                let index = (offset - begin) / length;
                (before + index, Extent { offset: begin + index * length, length })
            }
        };
        (u32::try_from(number + 1).unwrap_or(u32::MAX), extent)
    }
}

pub(crate) fn too_large(limits: &StoreLimits) -> Error {
    let words = format!(
        "the store holds objects of at most {} bytes in {} parts; divide the file",
        limits.object_bytes_max, limits.parts_max
    );
    Error::new(ErrorKind::Unsupported, "beginning an object", words)
}

#[cfg(test)]
mod tests {
    use hakobu_core::key_spelling::KeySpelling;
    use proptest::prelude::*;

    use super::*;
    use crate::object::metadata::MetadataConvention;

    fn limits() -> StoreLimits {
        StoreLimits {
            part_bytes_min: 5 << 20,
            part_bytes_max: 5 << 30,
            parts_max: 10_000,
            object_bytes_max: 48 << 40,
            put_bytes_max: 5 << 30,
            copy_bytes_max: 5 << 30,
            key_bytes_max: 1024,
            metadata_bytes_max: 2048,
            delete_batch: 1000,
            list_page: 1000,
            lists_bytewise: true,
            lists_metadata: false,
            conditional_put: true,
            checksum: None,
            convention: MetadataConvention::S3,
            spelling: KeySpelling::S3,
        }
    }

    proptest! {
        #[test]
        fn parts_follow_each_other_within_the_limits(size in 1..48_u64 << 40, at in 0.0..1.0) {
            let plan = PartPlan::new(size, &limits()).unwrap();
            let (last, _) = plan.part(size - 1);
            prop_assert!(last <= limits().parts_max);
            let (number, part) = plan.part((size as f64 * at) as u64);
            prop_assert!(part.length >= limits().part_bytes_min && part.length <= limits().part_bytes_max);
            prop_assert!(part.length.is_multiple_of(CHUNK_BYTES) && part.offset.is_multiple_of(CHUNK_BYTES));
            prop_assert_eq!(plan.part(part.end()), (number + 1, Extent { offset: part.end(), length: part.length }));
        }

        #[test]
        fn parts_of_a_stream_grow(offset in 0..5_u64 << 40) {
            let plan = PartPlan::new(UNKNOWN_BYTES, &limits()).unwrap();
            let (number, part) = plan.part(offset);
            prop_assert!(part.offset <= offset && offset < part.end() && number <= limits().parts_max);
            let (next, after) = plan.part(part.end());
            prop_assert_eq!((next, after.offset), (number + 1, part.end()));
            prop_assert!(after.length == part.length || after.length == 2 * part.length);
        }
    }

    #[test]
    fn what_no_store_can_hold_is_refused() {
        assert!(PartPlan::new((48 << 40) + 1, &limits()).is_err());
        let small = StoreLimits { parts_max: 10, part_bytes_max: 8 << 20, ..limits() };
        assert_eq!(PartPlan::new(80 << 20, &small).unwrap(), PartPlan::Equal(8 << 20));
        assert!(PartPlan::new((80 << 20) + 1, &small).is_err());
    }
}
