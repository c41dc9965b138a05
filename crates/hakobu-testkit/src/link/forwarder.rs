//! The threads that forward packets between the two devices, one per direction.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use hakobu_sys::tun::Tun;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::connections::{Connections, LinkConnection};
use super::crowd::Crowd;
use super::error::LinkError;
use super::ring::PacketRing;
use super::settings::LinkSettings;
use super::shaper::{PacketFate, Shaper};
use super::traffic::{Counters, LinkTraffic};

/// The number of packets to receive before those that are due are sent.
const BATCH_PACKETS: usize = 256;
/// The shortest and the longest sleep that allows larger batches. The shortest is comparable to the interrupt delay
/// of a network card.
const NAP_LEAST: Duration = Duration::from_micros(200);
const NAP_MOST: Duration = Duration::from_micros(500);
/// The pause after a device failed, as it does while it is down.
const DEVICE_FAILED_PAUSE: Duration = Duration::from_millis(10);

/// Both threads. Dropping it ends them and closes their devices.
#[derive(Debug)]
pub(super) struct Forwarder {
    shared: Arc<ForwarderState>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct ForwarderState {
    origin: Instant,
    stopping: AtomicBool,
    /// Becomes readable when the threads must end.
    stop: OwnedFd,
    cut: AtomicBool,
    settings: Mutex<LinkSettings>,
    /// The number of changes of `settings`, so that checking needs no lock.
    changes: AtomicU64,
    near_to_far: PacketTally,
    far_to_near: PacketTally,
}

#[derive(Debug, Default)]
struct PacketTally {
    packets: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    queue_full: AtomicU64,
    cut: AtomicU64,
    refused: AtomicU64,
    late_most_ns: AtomicU64,
}

impl PacketTally {
    fn read(&self) -> LinkTraffic {
        LinkTraffic {
            forwarded_packets: self.packets.load(Relaxed),
            forwarded_bytes: self.bytes.load(Relaxed),
            lost_packets: self.lost.load(Relaxed),
            queue_full_packets: self.queue_full.load(Relaxed),
            cut_packets: self.cut.load(Relaxed),
            refused_packets: self.refused.load(Relaxed),
            late_most: Duration::from_nanos(self.late_most_ns.load(Relaxed)),
        }
    }
}

impl Forwarder {
    pub(super) fn start(near: Tun, far: Tun, settings: LinkSettings) -> Result<Self, LinkError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let stop = eventfd(0, flags).map_err(|error| LinkError::io("create an event")(error.into()))?;
        let shared = Arc::new(ForwarderState {
            origin: Instant::now(),
            stopping: AtomicBool::new(false),
            stop,
            cut: AtomicBool::new(false),
            settings: Mutex::new(settings),
            changes: AtomicU64::new(0),
            near_to_far: PacketTally::default(),
            far_to_near: PacketTally::default(),
        });
        // Created first: if a thread fails to start, dropping it ends the other one.
        let mut forwarder = Self { shared: Arc::clone(&shared), threads: Vec::new() };
        let (near, far) = (Arc::new(near), Arc::new(far));
        let ends = [("link-near-far", Arc::clone(&near), Arc::clone(&far)), ("link-far-near", far, near)];
        for (direction, (name, from, to)) in ends.into_iter().enumerate() {
            let carrier = DirectionState::new(Arc::clone(&shared), direction, from, to, &settings);
            let thread = thread::Builder::new()
                .name(name.into())
                .spawn(move || carrier.run())
                .map_err(LinkError::io("start a thread"))?;
            forwarder.threads.push(thread);
        }
        Ok(forwarder)
    }

    pub(super) fn set_cut(&self, cut: bool) {
        self.shared.cut.store(cut, Relaxed);
    }

    pub(super) fn settings(&self) -> LinkSettings {
        self.shared.settings()
    }

    pub(super) fn change(&self, settings: LinkSettings) {
        let mut current = self.shared.settings.lock().unwrap_or_else(PoisonError::into_inner);
        *current = settings;
        self.shared.changes.fetch_add(1, Relaxed);
    }

    pub(super) fn counters(&self) -> Counters {
        Counters { near_to_far: self.shared.near_to_far.read(), far_to_near: self.shared.far_to_near.read() }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Relaxed);
        let _ = rustix::io::write(&self.shared.stop, &1_u64.to_ne_bytes());
        for thread in self.threads.drain(..) {
            // A panic in the thread was already printed, and must not become an abort here.
            let _ = thread.join();
        }
    }
}

impl ForwarderState {
    fn now_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    fn settings(&self) -> LinkSettings {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of one direction.
struct DirectionState {
    shared: Arc<ForwarderState>,
    direction: usize,
    from: Arc<Tun>,
    to: Arc<Tun>,
    connections: Connections,
    crowd: Crowd,
    shaper: Shaper,
    ring: PacketRing,
    /// The intended size of the ring.
    memory_bytes: usize,
    /// Receives packets for which there is no room.
    spill: Vec<u8>,
    nap: Duration,
    changes_seen: u64,
}

impl DirectionState {
    fn new(
        shared: Arc<ForwarderState>,
        direction: usize,
        from: Arc<Tun>,
        to: Arc<Tun>,
        settings: &LinkSettings,
    ) -> Self {
        // Each direction loses different packets.
        let seed = settings.seed.wrapping_mul(2).wrapping_add(direction as u64);
        let packet_bytes = settings.mtu as usize;
        let memory_bytes = settings.memory_bytes() as usize;
        Self {
            shared,
            direction,
            from,
            to,
            connections: Connections::new(settings),
            crowd: Crowd::new(settings),
            shaper: Shaper::new(settings, seed),
            ring: PacketRing::new(memory_bytes, packet_bytes),
            memory_bytes,
            spill: vec![0; packet_bytes],
            nap: nap_for(settings),
            changes_seen: 0,
        }
    }

    fn run(mut self) {
        while !self.shared.stopping.load(Relaxed) {
            if self.memory_bytes > self.ring.memory_bytes() {
                self.ring = self.ring.resized(self.memory_bytes);
            }
            let received = self.receive_batch();
            self.let_on();
            self.send_due();
            match received {
                Ok(BATCH_PACKETS) => {} // more may be waiting
                Ok(_) => self.wait(),
                Err(_) => sleep(DEVICE_FAILED_PAUSE),
            }
        }
    }

    fn tally(&self) -> &PacketTally {
        if self.direction == 0 { &self.shared.near_to_far } else { &self.shared.far_to_near }
    }

    /// Applies changed settings. Called for each packet, so that a packet sent after a change is subject to it.
    fn take_changes(&mut self) {
        let changes = self.shared.changes.load(Relaxed);
        if changes != self.changes_seen {
            self.changes_seen = changes;
            let settings = self.shared.settings();
            self.connections.change(&settings);
            self.crowd.change(&settings);
            self.shaper.leave(1.0);
            self.shaper.change(&settings);
            self.nap = nap_for(&settings);
            self.memory_bytes = settings.memory_bytes() as usize;
        }
    }

    /// Receives up to one batch from the device. The packets count as arriving now.
    fn receive_batch(&mut self) -> io::Result<usize> {
        let now_ns = self.shared.now_ns();
        for count in 0..BATCH_PACKETS {
            let space = self.ring.space();
            let room = space.is_some();
            let length = match self.from.receive(space.unwrap_or(&mut self.spill)) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(count),
                Err(error) => return Err(error),
            };
            if self.shared.cut.load(Relaxed) {
                self.tally().cut.fetch_add(1, Relaxed);
                continue;
            }
            self.take_changes();
            if self.crowd.counts() {
                self.count(now_ns, length);
            }
            if !self.connections.are_limited() || !self.hold_back(now_ns, length) {
                self.admit(now_ns, length, room);
            }
        }
        Ok(BATCH_PACKETS)
    }

    /// Counts the connection of the packet in the ring's next slot, and applies the remaining rate.
    fn count(&mut self, now_ns: u64, length: usize) {
        let place = self.ring.space().unwrap_or(&mut self.spill);
        if let Some(left) = self.crowd.see(now_ns, &place[..length.min(place.len())]) {
            self.shaper.leave(left);
        }
    }

    /// Makes the packet in the ring's next slot wait for its connection's turn. Returns false if it belongs to no
    /// connection.
    fn hold_back(&mut self, now_ns: u64, length: usize) -> bool {
        // The slot is the same one as long as nothing is pushed.
        let place = self.ring.space().unwrap_or(&mut self.spill);
        let packet = &place[..length.min(place.len())];
        let Some(connection) = LinkConnection::of(packet) else { return false };
        if !self.connections.take(now_ns, connection, packet) {
            self.tally().queue_full.fetch_add(1, Relaxed);
        }
        true
    }

    /// Decides the fate of the packet in the ring's next slot. `room` is true if it fits there.
    fn admit(&mut self, now_ns: u64, length: usize, room: bool) {
        match self.shaper.admit(now_ns, length) {
            PacketFate::Due { at_ns } if room => self.ring.push(length, at_ns),
            PacketFate::Lost => {
                self.tally().lost.fetch_add(1, Relaxed);
            }
            PacketFate::Due { .. } | PacketFate::QueueFull => {
                self.tally().queue_full.fetch_add(1, Relaxed);
            }
        }
    }

    /// Passes on the packets whose connections have had their turn.
    fn let_on(&mut self) {
        let now_ns = self.shared.now_ns();
        while let Some((at_ns, packet)) = self.connections.front(now_ns) {
            let length = packet.len();
            let space = self.ring.space();
            let room = space.is_some();
            if let Some(space) = space {
                space[..length].copy_from_slice(packet);
            }
            self.connections.pop();
            self.admit(at_ns, length, room);
        }
    }

    /// Sends the packets that are due. The clock is read only once, so the loop ends.
    fn send_due(&mut self) {
        let now_ns = self.shared.now_ns();
        while let Some((due_ns, packet)) = self.ring.front() {
            if due_ns > now_ns {
                break;
            }
            let tally = self.tally();
            // Packets in transit when the link was cut are lost, too.
            if self.shared.cut.load(Relaxed) {
                tally.cut.fetch_add(1, Relaxed);
            } else if self.to.send(packet).is_ok() {
                tally.packets.fetch_add(1, Relaxed);
                tally.bytes.fetch_add(packet.len() as u64, Relaxed);
                tally.late_most_ns.fetch_max(now_ns - due_ns, Relaxed);
            } else {
                tally.refused.fetch_add(1, Relaxed);
            }
            self.ring.pop();
        }
    }

    /// Returns the time at which the next packet must be handled.
    fn next_ns(&self) -> Option<u64> {
        [self.ring.next_due_ns(), self.connections.next_ns()].into_iter().flatten().min()
    }

    /// Waits until a packet arrives or is due. It sleeps first if packets are in transit, since a wake-up per packet
    /// would cost more than forwarding it.
    fn wait(&self) {
        let timeout = match self.next_ns() {
            None => None,
            Some(due_ns) => {
                sleep(self.nap);
                let left = Duration::from_nanos(due_ns.saturating_sub(self.shared.now_ns()));
                Some(left)
            }
        };
        let timeout = timeout
            .map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) });
        let mut events = [
            PollFd::from_borrowed_fd(self.from.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.shared.stop.as_fd(), PollFlags::IN),
        ];
        // An interrupted wait is merely a short one.
        let _ = poll(&mut events, timeout.as_ref());
    }
}

/// Returns the acceptable delay of packets for the sake of larger batches, which is small compared to the link's
/// delay.
fn nap_for(settings: &LinkSettings) -> Duration {
    (settings.one_way_delay / 40).clamp(NAP_LEAST, NAP_MOST)
}
