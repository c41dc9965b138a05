//! Brokers that are other than they should be.

use std::sync::Arc;
use std::time::Duration;

use hakobu_core::event::NoObserver;
use hakobu_fleet::bus::BrokerBus;
use hakobu_fleet::bus::nats::broker::NatsBrokerBus;
use hakobu_fleet::bus::nats::settings::NatsOptions;
use hakobu_fleet::message::{BrokerCall, BrokerReport, BrokerRequest, MESSAGE_VERSION, encode};
use hakobu_fleet::names::{BrokerName, GroupName};
use serde_json::Value;

use crate::processes::{SOON, wait_until};
use crate::small_fleet::{GROUP, SmallFleet};

/// Returns a broker as the interface shows it.
fn broker(fleet: &SmallFleet, name: &str) -> Option<Value> {
    let brokers: Vec<Value> = fleet.control.client.list("/api/v1/brokers", &[], 100).unwrap();
    brokers.into_iter().find(|broker| broker["name"] == name)
}

#[test]
fn a_broker_of_another_form_is_refused_and_shown() {
    let fleet = SmallFleet::start_over(&Default::default(), 30, 1, &[]);
    let name = BrokerName::new("newer").unwrap();
    let settings = NatsOptions { servers: fleet.nats.url(), ..NatsOptions::default() }.check().unwrap();
    let group = GroupName::new(GROUP).unwrap();
    let bus = NatsBrokerBus::start(settings, group, name.clone(), Arc::new(NoObserver)).unwrap();
    let report = BrokerReport { version: "9.1.0".to_owned(), slots: 1, ..BrokerReport::default() };
    let request = BrokerRequest::Report(report);
    let mut bytes = encode(&BrokerCall { broker: name, process: 1, request }).unwrap();
    bytes[0] = MESSAGE_VERSION + 1;
    bytes.extend(b"what this form has at its end");
    wait_until("the refused broker", SOON, || {
        let _is_not_there_yet = bus.call(bytes.clone(), Duration::from_secs(5));
        broker(&fleet, "newer").is_some_and(|broker| broker["refused"].is_object())
    });
    let shown = broker(&fleet, "newer").unwrap();
    assert_eq!((&shown["state"], &shown["version"]), (&"refused".into(), &"9.1.0".into()), "{shown}");
    assert_eq!(shown["refused"]["form"], u64::from(MESSAGE_VERSION) + 1, "{shown}");
    let (code, said) = fleet.control.fleet("brokers list");
    let form = u64::from(MESSAGE_VERSION);
    let words = format!("it speaks form {} of the messages, and the control plane form {form}", form + 1);
    assert!(code == 0 && said.contains(&words) && said.contains("newer is refused since 20"), "{said}");
    assert!(!said.contains("b0 is refused"), "{said}");
}
