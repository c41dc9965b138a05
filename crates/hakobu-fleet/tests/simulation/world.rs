//! The world of the simulation: its clock, its random numbers, and the messages on their way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hakobu_fleet::bus::{IncomingCall, LeaderBus};
use hakobu_fleet::fleet_clock::FleetClock;
use hakobu_fleet::ids::Moment;
use hakobu_fleet::leader::{Leader, LeaderSettings};
use hakobu_fleet::lease_token::LeaseKey;
use hakobu_fleet::ledger::Ledger;
use hakobu_fleet::message::{BrokerCall, LeaderAnswer};
use hakobu_fleet::message_form::{decode, encode};
use hakobu_fleet::names::GroupName;

pub const LEASE_MS: u64 = 10_000;

/// Random numbers: splitmix64.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below.max(1)
    }

    /// Returns true once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.roll(times) == 0
    }
}

/// A clock that is set. The calendar jumps with `skew_ms`.
#[derive(Default)]
pub struct SetClock {
    pub elapsed_ms: AtomicU64,
    pub skew_ms: AtomicU64,
}

impl FleetClock for SetClock {
    fn moment(&self) -> Moment {
        let skew_ms = self.skew_ms.load(Ordering::Relaxed);
        Moment::new(1_800_000_000_000 + self.elapsed_ms() + skew_ms).unwrap()
    }

    fn elapsed_ms(&self) -> u64 {
        self.elapsed_ms.load(Ordering::Relaxed)
    }
}

/// Offers are hints: none arrives.
struct NoOffers;

impl LeaderBus for NoOffers {
    fn offer(&self, _group: &GroupName, _offer: Vec<u8>) {}
}

pub struct World {
    pub clock: Arc<SetClock>,
    pub dice: Dice,
    pub leader: Option<Leader>,
    pub kills: u64,
}

pub fn group() -> GroupName {
    GroupName::new("site").unwrap()
}

impl World {
    pub fn new(seed: u64, ledger: Box<dyn Ledger>) -> Self {
        let clock = Arc::new(SetClock::default());
        let leader = Some(leader(ledger, clock.clone()));
        Self { clock, dice: Dice(seed), leader, kills: 0 }
    }

    pub fn now_ms(&self) -> u64 {
        self.clock.elapsed_ms()
    }

    pub fn leader(&mut self) -> &mut Leader {
        self.leader.as_mut().unwrap()
    }

    /// Sends a request, and returns the answer. Either may be lost, and the request may arrive twice.
    pub fn call(&mut self, call: &BrokerCall) -> Option<LeaderAnswer> {
        if self.dice.once_in(20) {
            return None;
        }
        let times = 1 + u64::from(self.dice.once_in(20));
        let mut answer = None;
        for _ in 0..times {
            let place = Arc::new(Mutex::new(None));
            let put = place.clone();
            let reply = Box::new(move |bytes: Vec<u8>| *put.lock().unwrap() = Some(bytes));
            let bytes = encode(call).unwrap();
            let leader = self.leader();
            leader.take_call(IncomingCall { group: group(), broker: None, bytes, reply });
            leader.flush();
            let bytes = place.lock().unwrap().take().expect("each request is answered");
            answer = Some(decode(&bytes).unwrap());
        }
        if self.dice.once_in(20) { None } else { answer }
    }

    /// Kills the leader, and starts another one with the ledger. The other one's calendar may differ.
    pub fn kill_leader(&mut self) {
        let skew_ms = self.dice.roll(7_200_000);
        self.restart_leader(skew_ms);
        self.kills += 1;
    }

    /// Starts another leader with the ledger, whose calendar differs by so much from that of the first one.
    pub fn restart_leader(&mut self, skew_ms: u64) {
        let ledger = self.leader.take().unwrap().into_ledger();
        self.clock.skew_ms.store(skew_ms, Ordering::Relaxed);
        self.leader = Some(leader(ledger, self.clock.clone()));
    }
}

fn leader(ledger: Box<dyn Ledger>, clock: Arc<SetClock>) -> Leader {
    let settings = LeaderSettings {
        lease: Duration::from_millis(LEASE_MS),
        split_after: Duration::from_millis(500),
        key: LeaseKey::new(b"the secret of the simulation"),
    };
    Leader::new(ledger, vec![Arc::new(NoOffers)], clock, settings).unwrap()
}
