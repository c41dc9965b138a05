//! The frames in which requests and answers cross NATS. What is longer than a message of NATS may be is sent in pieces, each
//! of which is answered, so that neither the server nor the other end has to hold much that nobody has asked for.

use hakobu_core::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// The version of the frames.
const FRAME_VERSION: u8 = 1;
/// The maximum length of a header, the version included.
const HEADER_BYTES_MAX: usize = 512;
/// The maximum length of what a frame carries.
pub(super) const FRAME_DATA_BYTES_MAX: usize = 512 << 10;
/// The maximum length of a name in a header.
const NAME_LENGTH_MAX: usize = 255;

/// The header of a broker's frame. Data follows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum CallHeader {
    /// A whole request.
    Whole,
    /// A piece of a request. They are sent in order.
    Piece {
        /// A random number of the request.
        id: u64,
        /// The length of the request in bytes.
        length: u64,
        /// The place of the piece in the request.
        at: u64,
    },
    /// Asks for a piece of an answer.
    Fetch {
        /// The number of the answer.
        id: u64,
        /// The place of the piece in the answer.
        at: u64,
    },
    /// Asks where offers are.
    FindOffers,
}

/// The header of the leader's frame. Data follows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum AnswerHeader {
    /// A whole answer.
    Whole,
    /// The first piece of an answer. The others are to be fetched.
    Begun {
        /// The number of the answer.
        id: u64,
        /// The length of the answer in bytes.
        length: u64,
    },
    /// The piece that was asked for.
    Piece,
    /// The piece is taken, and the next one may follow.
    Taken,
    /// The pieces before it are not here (any more): the broker begins again.
    Again,
    /// The stream and consumer of offers, if there are any.
    Offers(Option<OfferPlace>),
}

/// The stream and consumer from which a broker pulls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OfferPlace {
    pub(super) stream: String,
    pub(super) consumer: String,
}

impl OfferPlace {
    /// Returns true if both are names, so that they make no other subject.
    pub(super) fn is_plain(&self) -> bool {
        [&self.stream, &self.consumer].into_iter().all(|name| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            !name.is_empty() && name.len() <= NAME_LENGTH_MAX && name.bytes().all(is_allowed)
        })
    }
}

/// Returns the bytes of a frame.
pub(super) fn frame(header: &impl Serialize, data: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(data.len() + HEADER_BYTES_MAX);
    bytes.push(FRAME_VERSION);
    let mut bytes = postcard::to_extend(header, bytes).map_err(|error| broken(&error))?;
    bytes.extend_from_slice(data);
    Ok(bytes)
}

/// Returns the header of a frame, and its data.
///
/// # Errors
/// `Protocol` for what is no frame, and for another version.
pub(super) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, &'a [u8])> {
    match bytes.split_first() {
        Some((&FRAME_VERSION, rest)) => postcard::take_from_bytes(rest).map_err(|error| broken(&error)),
        Some((version, _)) => {
            let words = format!("a frame has version {version}, and this program speaks {FRAME_VERSION}");
            let hint = "let the control plane and the brokers run the same version of hakobu";
            Err(broken(&words).hint(hint))
        }
        None => Err(broken(&"a frame is empty")),
    }
}

/// Returns the number of bytes that a frame carries on a connection with a limit.
pub(super) fn data_bytes(max_payload: usize) -> usize {
    max_payload.saturating_sub(HEADER_BYTES_MAX).clamp(256, FRAME_DATA_BYTES_MAX)
}

fn broken(cause: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Protocol, "reading a frame of the fleet", cause.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn arbitrary_bytes_are_refused_or_read(bytes: Vec<u8>) {
            let bytes = [&[FRAME_VERSION], &bytes[..]].concat();
            let _ = read::<CallHeader>(&bytes);
            let _ = read::<AnswerHeader>(&bytes);
        }
    }

    #[test]
    fn frames_are_read_as_they_were_made() {
        let place = OfferPlace { stream: "S".repeat(255), consumer: "c".repeat(200) };
        assert!(place.is_plain());
        let header = AnswerHeader::Offers(Some(place));
        let bytes = frame(&header, b"data").unwrap();
        assert!(bytes.len() <= HEADER_BYTES_MAX + 4);
        assert_eq!(read::<AnswerHeader>(&bytes).unwrap(), (header, &b"data"[..]));
        let bytes = frame(&CallHeader::Piece { id: u64::MAX, length: u64::MAX, at: u64::MAX }, &[]).unwrap();
        assert!(bytes.len() <= HEADER_BYTES_MAX);
        let other = [&[FRAME_VERSION + 1], &bytes[1..]].concat();
        assert!(read::<CallHeader>(&other).unwrap_err().detail.contains("version 2"));
        assert!(read::<CallHeader>(&[]).is_err());
    }

    #[test]
    fn places_of_offers_make_no_other_subject() {
        for (stream, consumer) in [("a.b", "c"), ("", "c"), ("a", "*"), ("a", ">"), ("a b", "c")] {
            assert!(!OfferPlace { stream: stream.to_owned(), consumer: consumer.to_owned() }.is_plain());
        }
    }
}
