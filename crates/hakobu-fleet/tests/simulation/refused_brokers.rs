//! Brokers that speak another form of messages are refused, and people can see it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use hakobu_fleet::api::fleet_view::{BrokerState, BrokerView, RefusedForm};
use hakobu_fleet::api::one_broker;
use hakobu_fleet::bus::IncomingCall;
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::message::{BrokerCall, BrokerReport, BrokerRequest, LeaderAnswer};
use hakobu_fleet::message_form::{MESSAGE_VERSION, VERSION_BEFORE, decode, encode};
use hakobu_fleet::names::BrokerName;

use super::world::{World, group};

fn name() -> BrokerName {
    BrokerName::new("web1").unwrap()
}

fn report(version: &str) -> BrokerRequest {
    BrokerRequest::Report(BrokerReport { version: version.to_owned(), slots: 2, ..BrokerReport::default() })
}

/// Sends a request in a form, and returns the answer.
fn call(world: &mut World, form: u8, process: u64, request: BrokerRequest) -> LeaderAnswer {
    let mut bytes = encode(&BrokerCall { broker: name(), process, request }).unwrap();
    bytes[0] = form;
    let place = Arc::new(Mutex::new(None));
    let put = place.clone();
    let reply = Box::new(move |bytes: Vec<u8>| *put.lock().unwrap() = Some(bytes));
    world.leader().take_call(IncomingCall { group: group(), broker: Some(name()), bytes, reply });
    world.leader().flush();
    let bytes = place.lock().unwrap().take().expect("each request is answered");
    decode(&bytes).unwrap()
}

fn shown(world: &mut World) -> Option<BrokerView> {
    one_broker(world.leader(), &name()).unwrap()
}

fn pass(world: &mut World, ms: u64) {
    world.clock.elapsed_ms.fetch_add(ms, Ordering::Relaxed);
    world.leader().tick();
}

#[test]
fn a_broker_of_another_form_is_shown_as_refused_until_it_comes_with_this_one() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    assert_eq!(shown(&mut world), None);
    let form = MESSAGE_VERSION + 1;
    let begun_ms = world.leader().clock().moment().get();
    let refused = call(&mut world, form, 1, BrokerRequest::Lease { offered: Vec::new() });
    assert!(matches!(&refused, LeaderAnswer::Refused(words) if words.contains("version")), "{refused:?}");
    let view = shown(&mut world).unwrap();
    assert_eq!((view.state, view.version.as_str(), view.slots), (BrokerState::Refused, "", 0));
    // It goes on asking, and tells its version.
    for _ in 0..150 {
        pass(&mut world, 500);
        call(&mut world, form, 1, report("0.9.1"));
    }
    let view = shown(&mut world).unwrap();
    let own_form = u64::from(MESSAGE_VERSION);
    let expected = RefusedForm { form: u64::from(form), own_form, since_ms: begun_ms };
    assert_eq!((view.state, view.refused), (BrokerState::Refused, Some(expected)));
    assert_eq!((view.version.as_str(), view.first_seen_ms, view.group.as_str()), ("0.9.1", begun_ms, "site"));
    assert_eq!(view.last_seen_ms, begun_ms + 75_000);
    assert!(world.leader().live_brokers().is_empty(), "it gets no units");
    // Its machine gets the right version.
    let welcome = call(&mut world, MESSAGE_VERSION, 2, report("0.2.0"));
    assert!(matches!(welcome, LeaderAnswer::Orders(_)), "{welcome:?}");
    let view = shown(&mut world).unwrap();
    assert_eq!((view.state, view.refused, view.version.as_str()), (BrokerState::Idle, None, "0.2.0"));
    // A namesake of another form does not hide it, unless it is silent.
    call(&mut world, form, 3, report("0.9.1"));
    assert_eq!(shown(&mut world).unwrap().state, BrokerState::Idle);
    pass(&mut world, 15_000);
    call(&mut world, form, 3, report("0.9.1"));
    assert_eq!(shown(&mut world).unwrap().state, BrokerState::Refused);
    pass(&mut world, 61_000);
    let view = shown(&mut world).unwrap();
    assert_eq!((view.state, view.refused, view.version.as_str()), (BrokerState::Away, None, "0.9.1"));
}

#[test]
fn a_broker_of_the_form_before_is_welcome() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    let (broker, process) = (name(), 1);
    let mut call = |request: BrokerRequest| {
        let is_report = matches!(request, BrokerRequest::Report(_));
        let mut bytes = encode(&BrokerCall { broker: broker.clone(), process, request }).unwrap();
        bytes[0] = VERSION_BEFORE;
        if is_report {
            // It ends without what the broker reaches.
            assert_eq!(bytes.pop(), Some(0));
        }
        let place = Arc::new(Mutex::new(None));
        let put = place.clone();
        let reply = Box::new(move |bytes: Vec<u8>| *put.lock().unwrap() = Some(bytes));
        world.leader().take_call(IncomingCall { group: group(), broker: Some(name()), bytes, reply });
        world.leader().flush();
        let mut bytes = place.lock().unwrap().take().expect("each request is answered");
        assert_eq!(bytes[0], VERSION_BEFORE, "it reads its own form only");
        bytes[0] = MESSAGE_VERSION;
        decode::<LeaderAnswer>(&bytes).unwrap()
    };
    let welcome = call(report("0.1.0"));
    assert!(matches!(welcome, LeaderAnswer::Orders(_)), "{welcome:?}");
    assert_eq!(call(BrokerRequest::Lease { offered: Vec::new() }), LeaderAnswer::Leases(Vec::new()));
    let view = shown(&mut world).unwrap();
    assert_eq!((view.state, view.refused, view.version.as_str()), (BrokerState::Idle, None, "0.1.0"));
    assert!(view.reaches.is_empty(), "everything");
}

#[test]
fn only_so_many_strangers_are_remembered() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    for number in 0..3_000 {
        let broker = Some(BrokerName::new(format!("b{number}")).unwrap());
        let bytes = vec![MESSAGE_VERSION + 1, 0xff, 0xff];
        world.leader().take_call(IncomingCall { group: group(), broker, bytes, reply: Box::new(drop) });
    }
    // Garbage in the form of this program says nothing about a form.
    let (broker, bytes) = (Some(name()), vec![MESSAGE_VERSION, 0xff, 0xff]);
    world.leader().take_call(IncomingCall { group: group(), broker, bytes, reply: Box::new(drop) });
    world.leader().flush();
    assert_eq!(world.leader().refused_brokers().len(), 1_000);
    assert!(shown(&mut world).is_none());
    pass(&mut world, 61_000);
    assert!(world.leader().refused_brokers().is_empty());
}
