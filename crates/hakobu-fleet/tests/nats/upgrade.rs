//! Brokers are replaced one after the other by those of another version, while they copy a tree.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hakobu_core::error::Result;
use hakobu_fleet::bus::nats::broker::NatsBrokerBus;
use hakobu_fleet::bus::{BrokerBus, HeldOffer};
use hakobu_fleet::message::{BrokerCall, BrokerRequest};
use hakobu_fleet::message_form::{MESSAGE_VERSION, VERSION_BEFORE, decode, in_form};
use hakobu_testkit::nats::NatsServer;

use crate::copies::NatsRun;
use crate::servers::{accounts, broker_name, wait_until};

/// The bus of a broker that speaks the form before this program's.
struct FormerBus {
    inner: NatsBrokerBus,
    calls: Arc<AtomicU64>,
}

impl BrokerBus for FormerBus {
    fn call(&self, mut bytes: Vec<u8>, limit: Duration) -> Result<Vec<u8>> {
        let call: BrokerCall = decode(&bytes).unwrap();
        if matches!(call.request, BrokerRequest::Report(_)) {
            // It ends without what the broker reaches.
            assert_eq!(bytes.pop(), Some(0));
        }
        let answer = self.inner.call(in_form(bytes, VERSION_BEFORE), limit)?;
        assert_eq!(answer[0], VERSION_BEFORE, "such a broker reads its own form only");
        self.calls.fetch_add(1, Ordering::Relaxed);
        Ok(in_form(answer, MESSAGE_VERSION))
    }

    fn next_offer(&self, limit: Duration) -> Result<Option<Box<dyn HeldOffer>>> {
        let offer = self.inner.next_offer(limit)?;
        assert!(offer.as_ref().is_none_or(|offer| offer.bytes()[0] == VERSION_BEFORE));
        Ok(offer)
    }
}

/// Replaces all brokers of a run, and returns the versions that have worked on it.
fn upgraded(is_form_before: bool) {
    let server = NatsServer::start(&accounts()).unwrap();
    let former_calls = Arc::new(AtomicU64::new(0));
    let mut run = NatsRun::start_by(&server.url(), "0.1.0", |inner| match is_form_before {
        true => Arc::new(FormerBus { inner, calls: former_calls.clone() }),
        false => Arc::new(inner),
    });
    for number in 0..3 {
        let name = broker_name(&format!("b{number}"));
        run.wait_for_units(1 + number);
        run.wait_for_work_of(&name);
        run.drain(&name, true);
        wait_until("a broker without units", || run.units_of(&name) == Some(0));
        run.fleet.end_broker(&name);
        let bus = run.bus(&server.url(), &name);
        run.fleet.add_broker_of(&name, "0.3.0", Arc::new(bus));
        run.drain(&name, false);
        run.wait_for_work_of(&name);
        let versions = run.versions();
        let new = versions.iter().filter(|version| *version == "0.3.0").count() as u64;
        assert_eq!((versions.len(), new), (3, number + 1), "{versions:?}");
    }
    run.lift_limits();
    run.finish();
    assert_eq!(former_calls.load(Ordering::Relaxed) > 0, is_form_before);
}

#[test]
fn brokers_of_two_versions_do_one_run() {
    upgraded(false);
}

#[test]
fn brokers_of_the_form_before_do_one_run_with_those_of_this_form() {
    upgraded(true);
}
