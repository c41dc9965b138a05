//! The form of messages: the first byte of each, and the rest in the encoding of postcard.
//!
//! A form has one number, [`MESSAGE_VERSION`]. New kinds of messages at the end of their type change none; anything else does. A
//! leader also takes calls in the form before its own, [`VERSION_BEFORE`], and answers in it, so that brokers are upgraded one by one
//! after their control plane. A broker takes its own form only. Whoever changes the form keeps to this: what answers and offers
//! mean stays, and a call of the form before can be read, with defaults for what it lacks.
//!
//! A call of every form begins with the name of the broker, the number of its process and that of the kind; a report, whose number
//! is 0, goes on with the version of the program. So [`foreign_call`] can tell people who was refused.

use hakobu_core::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::broker::VERSION_BYTES_MAX;
use crate::message::{BrokerCall, LeaderAnswer, UnitOffer};
use crate::names::BrokerName;

/// The form of messages that this program speaks.
pub const MESSAGE_VERSION: u8 = 4;
/// The form before it, which a leader takes as well. It differs in this: a report does not end with what the broker reaches, and the
/// latency of the source is in milliseconds.
pub const VERSION_BEFORE: u8 = 3;
/// The number of [`BrokerRequest::Report`](crate::message::BrokerRequest::Report) among the kinds of requests.
const REPORT: u32 = 0;
/// The maximum length of a message in bytes. A bus divides what is too long for it.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Returns the bytes of a message.
///
/// # Errors
/// `Usage` if it is too long.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>> {
    let bytes = postcard::to_extend(message, vec![MESSAGE_VERSION]).map_err(|error| misread(&error))?;
    match bytes.len() {
        ..=MESSAGE_BYTES_MAX => Ok(bytes),
        length => {
            let words = format!("it has {length} bytes, at most {MESSAGE_BYTES_MAX} are possible");
            Err(Error::new(ErrorKind::Usage, "sending a message", words))
        }
    }
}

/// Returns the bytes of an offer, which brokers of both forms read.
///
/// # Errors
/// As for [`encode`].
pub fn encode_offer(offer: &UnitOffer) -> Result<Vec<u8>> {
    encode(offer).map(|bytes| in_form(bytes, VERSION_BEFORE))
}

/// Reads the bytes of a message.
///
/// # Errors
/// `Protocol` for another form, and for anything that is no such message.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    match bytes.split_first() {
        Some((&MESSAGE_VERSION, _)) if bytes.len() > MESSAGE_BYTES_MAX => Err(misread(&"it is too long")),
        Some((&MESSAGE_VERSION, rest)) => match postcard::take_from_bytes(rest) {
            Ok((message, [])) => Ok(message),
            Ok(_) => Err(misread(&"bytes follow it")),
            Err(error) => Err(misread(&error)),
        },
        Some((version, _)) => {
            let words = format!("it has version {version}, and this program speaks {MESSAGE_VERSION}");
            let hint = "let the control plane and the brokers run the same version of hakobu";
            Err(misread(&words).hint(hint))
        }
        None => Err(misread(&"it is empty")),
    }
}

/// Reads an offer of either form.
///
/// # Errors
/// As for [`decode`].
pub fn decode_offer(bytes: &[u8]) -> Result<UnitOffer> {
    match bytes.first() {
        Some(&VERSION_BEFORE) => decode(&in_form(bytes.to_vec(), MESSAGE_VERSION)),
        _ => decode(bytes),
    }
}

/// Reads a call in this form or the one before. Returns it with its form, in which it is to be answered.
///
/// # Errors
/// As for [`decode`].
pub fn decode_call(bytes: &[u8]) -> Result<(BrokerCall, u8)> {
    match bytes.split_first() {
        Some((&VERSION_BEFORE, rest)) => Ok((decode(&of_form_before(rest))?, VERSION_BEFORE)),
        _ => Ok((decode(bytes)?, MESSAGE_VERSION)),
    }
}

/// Returns a call of the form before in this form. Its report ends before the list of what the broker reaches, which is the end of the
/// message: an empty one stands for everything.
fn of_form_before(rest: &[u8]) -> Vec<u8> {
    let is_report = postcard::take_from_bytes::<(BrokerName, u64, u32)>(rest)
        .is_ok_and(|((_, _, number), _)| number == REPORT);
    let end: &[u8] = if is_report { &[0] } else { &[] };
    [&[MESSAGE_VERSION], rest, end].concat()
}

/// Returns an answer in the form before, in which the latency of the source is in milliseconds.
///
/// # Errors
/// `Protocol` if it is no answer in this form.
pub fn answer_of_form_before(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut answer = decode::<LeaderAnswer>(bytes)?;
    for limits in answer.limits_mut() {
        limits.source_p99_us = limits.source_p99_us.map(|us| us.div_ceil(1000));
    }
    encode(&answer).map(|bytes| in_form(bytes, VERSION_BEFORE))
}

/// Returns a message that both forms have in the same way, with the number of one of them.
pub fn in_form(mut bytes: Vec<u8>, form: u8) -> Vec<u8> {
    if let Some(first) = bytes.first_mut() {
        *first = form;
    }
    bytes
}

/// A call in a form of messages that this program does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignCall {
    /// The form of the messages.
    pub form: u8,
    /// The broker, if its name can be read.
    pub broker: Option<BrokerName>,
    /// The version of the program, if it can be read.
    pub version: Option<String>,
}

/// Returns what can be told about a call in another form; `None` if it has one that this program takes, or is empty.
pub fn foreign_call(bytes: &[u8]) -> Option<ForeignCall> {
    let is_foreign = |form: &u8| ![MESSAGE_VERSION, VERSION_BEFORE].contains(form);
    let (form, rest) = bytes.split_first().filter(|(form, _)| is_foreign(form))?;
    let begun = postcard::take_from_bytes::<(BrokerName, u64, u32)>(rest).ok();
    let (broker, version) = match begun {
        Some(((broker, _, REPORT), rest)) => (Some(broker), postcard::take_from_bytes::<String>(rest).ok()),
        Some(((broker, ..), _)) => (Some(broker), None),
        None => (None, None),
    };
    let is_plain = |text: &String| {
        (1..=VERSION_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    Some(ForeignCall { form: *form, broker, version: version.map(|(text, _)| text).filter(is_plain) })
}

pub(crate) fn misread(cause: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Protocol, "reading a message of the fleet", cause.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::{RunId, UnitId, UnitKey};
    use crate::message::{BrokerOrders, BrokerReport, BrokerRequest, SentLimits, UnitOrder};

    proptest! {
        #[test]
        fn arbitrary_bytes_are_refused_or_read(bytes: Vec<u8>) {
            for form in [MESSAGE_VERSION, VERSION_BEFORE] {
                let bytes = [&[form], &bytes[..]].concat();
                let _ = decode_call(&bytes);
                let _ = decode::<LeaderAnswer>(&bytes);
                let _ = decode_offer(&bytes);
            }
        }
    }

    fn web1() -> BrokerName {
        BrokerName::new("web1").unwrap()
    }

    #[test]
    fn the_beginning_of_a_report_is_known_in_every_form() {
        let call = |request| {
            let mut bytes = encode(&BrokerCall { broker: web1(), process: u64::MAX, request }).unwrap();
            assert_eq!(foreign_call(&bytes), None);
            bytes[0] = VERSION_BEFORE;
            assert_eq!(foreign_call(&bytes), None);
            bytes[0] = MESSAGE_VERSION + 1;
            // Another form may have anything behind its beginning.
            [&bytes[..], b"\xff more"].concat()
        };
        let report = |version: &str| {
            BrokerRequest::Report(BrokerReport { version: version.to_owned(), ..BrokerReport::default() })
        };
        let form = MESSAGE_VERSION + 1;
        let told = |version: Option<&str>| ForeignCall {
            form,
            broker: Some(web1()),
            version: version.map(str::to_owned),
        };
        assert_eq!(foreign_call(&call(report("0.3.0"))), Some(told(Some("0.3.0"))));
        assert_eq!(foreign_call(&call(BrokerRequest::Leave)), Some(told(None)));
        for wrong in ["", "a\nb", &"9".repeat(99)] {
            assert_eq!(foreign_call(&call(report(wrong))), Some(told(None)));
        }
        let unknown = ForeignCall { form: 99, broker: None, version: None };
        assert_eq!(foreign_call(&[99, 0xff, 0xff]), Some(unknown));
        assert_eq!(foreign_call(&[]), None);
    }

    #[test]
    fn messages_of_another_version_are_named() {
        let mut bytes = encode(&LeaderAnswer::Done).unwrap();
        assert_eq!(decode::<LeaderAnswer>(&bytes).unwrap(), LeaderAnswer::Done);
        bytes.push(0);
        assert!(decode::<LeaderAnswer>(&bytes).is_err());
        for form in [MESSAGE_VERSION + 1, VERSION_BEFORE] {
            bytes[0] = form;
            let error = decode::<LeaderAnswer>(&bytes).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Protocol);
            let other = format!("version {form}");
            assert!(error.detail.contains(&other) && error.hint.is_some(), "{error:?}");
        }
        assert!(decode_call(&[VERSION_BEFORE - 1, 0]).is_err());
    }

    #[test]
    fn calls_of_the_form_before_are_read_and_answered_in_it() {
        // As the program of that form sends them: a report with two slots, and a farewell.
        let report = b"\x03\x04web1\x07\x00\x050.2.0\x02\x00\x00\x00";
        let (call, form) = decode_call(report).unwrap();
        let expected = BrokerReport { version: "0.2.0".to_owned(), slots: 2, ..BrokerReport::default() };
        assert_eq!((call.broker, call.process, form), (web1(), 7, 3));
        assert_eq!(call.request, BrokerRequest::Report(expected.clone()));
        assert!(decode_call(&[&report[..], b"\x00"].concat()).is_err(), "bytes follow it");
        let leave = decode_call(b"\x03\x04web1\x07\x04").unwrap();
        assert_eq!((leave.0.request, leave.1), (BrokerRequest::Leave, 3));
        let reaches = vec![b"/a\xff".to_vec()];
        let request = BrokerRequest::Report(BrokerReport { reaches, ..expected });
        let call = BrokerCall { broker: web1(), process: 7, request };
        assert_eq!(decode_call(&encode(&call).unwrap()).unwrap(), (call, MESSAGE_VERSION));

        assert_eq!(answer_of_form_before(&encode(&LeaderAnswer::Done).unwrap()).unwrap(), [3, 2]);
        let orders = |source_p99_us| {
            let limits = SentLimits { source_p99_us, ..SentLimits::default() };
            let units = vec![UnitOrder::Continue { lease_ms: 9, splits: false, limits }];
            LeaderAnswer::Orders(BrokerOrders { units, ..BrokerOrders::default() })
        };
        let in_ms = in_form(encode(&orders(Some(3))).unwrap(), form);
        assert_eq!(answer_of_form_before(&encode(&orders(Some(2_500))).unwrap()).unwrap(), in_ms);
    }

    #[test]
    fn offers_are_read_by_brokers_of_both_forms() {
        let key = UnitKey { run: RunId::new(1).unwrap(), unit: UnitId::new(2).unwrap() };
        let offer = UnitOffer { run: key.run, units: vec![key] };
        let bytes = encode_offer(&offer).unwrap();
        assert_eq!(bytes[0], 3, "a broker of the form before reads its own only");
        assert_eq!(decode_offer(&bytes).unwrap(), offer);
        assert_eq!(decode_offer(&encode(&offer).unwrap()).unwrap(), offer);
        assert!(decode_offer(&[2, 1, 1, 1, 2]).is_err());
    }
}
