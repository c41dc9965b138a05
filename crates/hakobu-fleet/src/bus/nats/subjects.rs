//! The names of subjects, streams and consumers. A user of NATS may use those of one group, or of one broker, by patterns.

use crate::names::{BrokerName, GroupName};

/// The beginning of the names of all streams.
const STREAM_PREFIX: &str = "HAKOBU_OFFERS_";
/// The interface of JetStream through which messages are pulled.
const PULLING: &str = "$JS.API.CONSUMER.MSG.NEXT";

/// Returns the subject of the requests of a broker.
pub(super) fn call(group: &GroupName, broker: &BrokerName) -> String {
    format!("hakobu.call.{group}.{broker}")
}

/// Returns the subjects of the requests of all brokers of a group.
pub(super) fn calls(group: &GroupName) -> String {
    format!("hakobu.call.{group}.*")
}

/// Returns the broker whose request has a subject.
pub(super) fn caller(subject: &str) -> Option<BrokerName> {
    let (_, name) = subject.rsplit_once('.')?;
    BrokerName::new(name).ok()
}

/// Returns the beginning of the subjects at which a broker takes answers and offers.
pub(super) fn replies(group: &GroupName, broker: &BrokerName) -> String {
    format!("hakobu.reply.{group}.{broker}")
}

/// Returns the beginning of the subjects at which the control plane takes answers of JetStream.
pub(super) fn own_replies(group: &GroupName) -> String {
    format!("hakobu.control.{group}")
}

/// Returns the subject of the offers of a group.
pub(super) fn offers(group: &GroupName) -> String {
    format!("hakobu.offer.{group}")
}

/// Returns the name of a stream. A stream that is made again has another name: acknowledgements of the old one would be
/// taken as those of messages in the new one.
pub(super) fn stream(group: &GroupName, generation: &str) -> String {
    format!("{STREAM_PREFIX}{group}_{generation}")
}

/// Returns true if a stream is one for the offers of a group.
pub(super) fn is_stream(group: &GroupName, name: &str) -> bool {
    let generation = name.strip_prefix(STREAM_PREFIX).and_then(|rest| rest.strip_prefix(group.as_str()));
    generation.is_some_and(|rest| rest.starts_with('_'))
}

/// Returns the name of the consumer of a group.
pub(super) fn consumer(group: &GroupName) -> String {
    format!("brokers-{group}")
}

/// Returns the subject at which messages are pulled.
pub(super) fn pull(stream: &str, consumer: &str) -> String {
    format!("{PULLING}.{stream}.{consumer}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_subjects_are_taken_apart() {
        let (group, broker) = (GroupName::new("site-a").unwrap(), BrokerName::new("web_1").unwrap());
        assert_eq!(caller(&call(&group, &broker)), Some(broker));
        assert_eq!(caller("hakobu.call.site-a."), None);
        assert_eq!(caller("x"), None);
        assert!(is_stream(&group, &stream(&group, "x1")));
        assert!(!is_stream(&GroupName::new("site").unwrap(), &stream(&group, "x1")));
        assert!(!is_stream(&group, "OTHER"));
    }
}
