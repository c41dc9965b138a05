//! Measures the bandwidth of a network path: more and more connections send content to a target that discards it, until
//! more connections are no faster.
//!
//! Each connection does for every byte what a copy does: the digest, the checksum, encryption. Only bytes that the peer
//! has acknowledged according to the kernel count, so data in buffers does not.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::probe::{MeasuredWork, WayFigures, WayStep};
use hakobu_sys::tcp_info::{TcpInfo, tcp_info};
use socket2::SockRef;

use super::stream::{Stream, StreamCounters};
use hakobu_core::lane_count;
use hakobu_net::acceptor::ArrivingConnections;

/// The most connections that are tried.
pub const CONNECTIONS: u16 = lane_count::TUNED_MAX;
/// The length of one measurement, and its least number of round trips. It is two of the usual periods in which a
/// control group allots processor time.
const SLICE: Duration = Duration::from_millis(200);
const SLICE_ROUND_TRIPS: u32 = 2;
/// The factor by which a slice must be faster than the one before it, or the step ends; and the most slices of a step.
const GROWN: f64 = 1.08;
const SLICES_MAX: u32 = 8;
/// The number of round trips a step lasts at least: a new connection doubles its data in transit with each round trip.
const GROWING_ROUND_TRIPS: u32 = 8;
/// The duration of the final measurement of the best count, and its least number of round trips.
const LAST: Duration = Duration::from_millis(700);
const LAST_ROUND_TRIPS: u32 = 8;
/// The number of consecutive steps without gain that ends the measurement: a single one may be due to chance.
const NO_FASTER_MAX: u32 = 2;
/// The time after which no further step begins, plus a number of round trips.
const LIMIT: Duration = Duration::from_millis(2800);
const LIMIT_ROUND_TRIPS: u32 = 30;
/// The longest round trip that is taken into account in these durations.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(400);
/// The parameters of a gentle measurement: bursts of this many bytes, each followed by a pause of the same duration.
const BURST_BYTES: u64 = 2 << 20;
const BURSTS: u32 = 5;
const BURST_LIMIT: Duration = Duration::from_millis(600);
const GENTLE_LIMIT: Duration = Duration::from_millis(2500);
const PAUSE_MIN: Duration = Duration::from_millis(30);
/// The time limit of a measurement with all connections at once. Its beginning does not count, since connections begin
/// slowly.
const ALL_LIMIT: Duration = Duration::from_secs(6);
const BEGINNING: Duration = Duration::from_millis(200);
const BEGINNING_ROUND_TRIPS: u32 = 5;
/// The length of the parts whose rates are compared, and their least number of round trips.
const PART_MIN: Duration = Duration::from_millis(500);
const PART_ROUND_TRIPS: u32 = 5;
const COUNT_EVERY: Duration = Duration::from_millis(20);
/// The time to wait for connections that are still being made.
const COMING_LIMIT: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(2);
const DURING: &str = "measuring the way";

/// Measures the bandwidth of these connections.
///
/// # Errors
/// `ConnectionLost` if there is no connection, `TimedOut` if nothing was acknowledged, `Cancelled`, or the target's
/// error.
pub fn measure(arriving: &ArrivingConnections, gentle: bool, cancel: &AtomicBool) -> Result<WayFigures> {
    let wanted = if gentle { 1 } else { CONNECTIONS };
    let work = |shared: &FloodState| if gentle { shared.bursts(cancel) } else { shared.steps(cancel) };
    let (figures, failure) = flooded(arriving, wanted, cancel, work)?;
    match figures.best() {
        Some(_) => Ok(figures),
        None if cancel.load(Relaxed) => Err(Error::new(ErrorKind::Cancelled, DURING, "stopped as asked")),
        None => Err(failure.unwrap_or_else(nothing)),
    }
}

/// Measures the bandwidth of all connections together with at most `content_bytes` of content. Returns bytes per
/// second, or none if that was sent too soon to tell.
///
/// # Errors
/// The errors of [`measure`].
pub fn capacity(
    arriving: &ArrivingConnections,
    content_bytes: u64,
    cancel: &AtomicBool,
) -> Result<Option<u64>> {
    let work = |shared: &FloodState| shared.all(content_bytes, cancel);
    let ((rate, acknowledged), failure) = flooded(arriving, CONNECTIONS, cancel, work)?;
    match rate {
        _ if cancel.load(Relaxed) => Err(Error::new(ErrorKind::Cancelled, DURING, "it was interrupted")),
        None if !acknowledged => Err(failure.unwrap_or_else(nothing)),
        rate => Ok(rate),
    }
}

fn nothing() -> Error {
    Error::new(ErrorKind::TimedOut, DURING, "nothing that was sent was acknowledged")
}

/// Has connections send until `work` returns. Returns its result, and the error of one failed connection, if any.
fn flooded<T>(
    arriving: &ArrivingConnections,
    wanted: u16,
    cancel: &AtomicBool,
    work: impl FnOnce(&FloodState) -> T,
) -> Result<(T, Option<Error>)> {
    let streams = taken(arriving, wanted.into(), cancel)?;
    let shared = FloodState {
        accounts: streams.iter().map(|_| StreamCounters::default()).collect(),
        active: AtomicUsize::new(0),
        allowed_bytes: AtomicU64::new(0),
        begun: AtomicBool::new(false),
        ended: AtomicBool::new(false),
        sockets: streams.iter().filter_map(|stream| stream.as_fd().try_clone_to_owned().ok()).collect(),
    };
    Ok(std::thread::scope(|scope| {
        let shared = &shared;
        let running: Vec<_> = streams
            .into_iter()
            .enumerate()
            .map(|(index, stream)| scope.spawn(move || stream.run(index, shared)))
            .collect();
        let made = work(shared);
        shared.ended.store(true, Relaxed);
        for socket in &shared.sockets {
            // Data that still waits to be sent is no longer needed.
            let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
        }
        // A peer that no longer reads would block the threads forever.
        arriving.pool.interrupt();
        let ended: Vec<_> = running.into_iter().filter_map(|thread| thread.join().ok()).collect();
        (made, ended.into_iter().find_map(Result::err))
    }))
}

/// Takes up to `wanted` connections. Only the first is certain to exist already.
fn taken(arriving: &ArrivingConnections, wanted: usize, cancel: &AtomicBool) -> Result<Vec<Stream>> {
    let deadline = Instant::now() + COMING_LIMIT;
    let mut streams = Vec::new();
    while streams.len() < wanted && !cancel.load(Relaxed) {
        if !arriving.pool.is_settled(true) && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
            continue;
        }
        match arriving.pool.take() {
            Some(connection) => streams.push(Stream::new(connection)),
            None => break,
        }
    }
    if streams.is_empty() {
        return Err(Error::new(ErrorKind::ConnectionLost, DURING, "no data connection could be opened"));
    }
    Ok(streams)
}

/// The state shared by the connections' threads and the measuring thread.
pub(super) struct FloodState {
    pub accounts: Vec<StreamCounters>,
    /// The number of connections that send; the others wait.
    active: AtomicUsize,
    /// The number of bytes that each connection may send in total.
    allowed_bytes: AtomicU64,
    /// True once the target is ready to discard content.
    pub begun: AtomicBool,
    pub ended: AtomicBool,
    sockets: Vec<OwnedFd>,
}

/// The counters at one moment.
#[derive(Clone, Copy)]
struct CounterSample {
    at: Instant,
    bytes: u64,
    retransmits: u64,
    processor_ns: u64,
    queued_ns: u64,
    far_processor_ns: u64,
}

impl FloodState {
    /// Returns true if this connection may send now.
    pub fn may_send(&self, index: usize, sent_bytes: u64) -> bool {
        index < self.active.load(Relaxed) && sent_bytes < self.allowed_bytes.load(Relaxed)
    }

    fn infos(&self) -> impl Iterator<Item = TcpInfo> {
        self.sockets.iter().filter_map(|socket| tcp_info(socket).ok())
    }

    fn sample(&self) -> CounterSample {
        let (mut counted, mut bytes, mut retransmits) = (0, 0_u64, 0);
        for info in self.infos() {
            counted += 1;
            // Data received behind a gap would otherwise count only when the gap is closed, all at once.
            let ahead_bytes = u64::from(info.ahead_segments) * u64::from(info.segment_bytes);
            bytes = bytes.saturating_add(info.acknowledged_bytes).saturating_add(ahead_bytes);
            retransmits += u64::from(info.retransmits);
        }
        if counted == 0 {
            // The connection belongs to an ssh process, so the bytes handed to it are counted instead.
            bytes = self.accounts.iter().map(|account| account.sent_bytes.load(Relaxed)).sum();
        }
        let sum = |of: fn(&StreamCounters) -> &AtomicU64| -> u64 {
            self.accounts.iter().map(|account| of(account).load(Relaxed)).fold(0, u64::saturating_add)
        };
        CounterSample {
            at: Instant::now(),
            bytes,
            retransmits,
            processor_ns: sum(|account| &account.processor_ns),
            queued_ns: sum(|account| &account.queued_ns),
            far_processor_ns: sum(|account| &account.far_processor_ns),
        }
    }

    /// Returns the properties of the network path according to TCP.
    fn way(&self) -> WayFigures {
        let least = self.infos().map(|info| info.min_rtt_us).filter(|time| *time > 0).min();
        let mtu_bytes = self.infos().map(|info| info.path_mtu_bytes).filter(|mtu| *mtu > 0).max();
        WayFigures { round_trip_us: least, mtu_bytes, ..WayFigures::default() }
    }

    fn round_trip(&self) -> Duration {
        let least = self.way().round_trip_us.unwrap_or(0);
        Duration::from_micros(least.into()).min(ROUND_TRIP_MAX)
    }

    /// Doubles the number of connections until more are no faster, then measures the best number for longer.
    fn steps(&self, cancel: &AtomicBool) -> WayFigures {
        self.allowed_bytes.store(u64::MAX, Relaxed);
        let began = Instant::now();
        let mut steps: Vec<WayStep> = Vec::new();
        let most = self.accounts.len();
        let (mut count, mut no_faster) = (1, 0);
        while !cancel.load(Relaxed) {
            self.active.store(count, Relaxed);
            let step = self.step(count, cancel);
            let rate = rate_of(&step);
            let before = steps.iter().map(rate_of).fold(0.0, f64::max);
            steps.push(step);
            no_faster = if rate < before * GROWN { no_faster + 1 } else { 0 };
            let limit = LIMIT + self.round_trip() * LIMIT_ROUND_TRIPS;
            if no_faster == NO_FASTER_MAX || began.elapsed() > limit || count >= most {
                break;
            }
            count = (count * 2).min(most);
        }
        // The time ran out, and more connections might have been faster.
        let at_least = no_faster == 0 && count < most && !cancel.load(Relaxed);
        let best = steps.iter_mut().max_by(|one, other| rate_of(one).total_cmp(&rate_of(other)));
        if let Some(best) = best.filter(|best| rate_of(best) > 0.0) {
            self.active.store(best.connections.into(), Relaxed);
            self.pause(SLICE.max(self.round_trip() * SLICE_ROUND_TRIPS), cancel);
            let before = self.sample();
            self.pause(LAST.max(self.round_trip() * LAST_ROUND_TRIPS), cancel);
            let last = self.between(best.connections, before);
            if rate_of(&last) > 0.0 {
                *best = last;
            }
        }
        WayFigures { steps, at_least, ..self.way() }
    }

    /// Measures one number of connections once they are up to speed.
    fn step(&self, count: usize, cancel: &AtomicBool) -> WayStep {
        let (began, slice) = (Instant::now(), SLICE.max(self.round_trip() * SLICE_ROUND_TRIPS));
        let growing = self.round_trip() * GROWING_ROUND_TRIPS;
        let mut last = WayStep { connections: count as u16, ..WayStep::default() };
        for number in 0..SLICES_MAX {
            let before = self.sample();
            self.pause(slice, cancel);
            let now = self.between(count as u16, before);
            let grown = rate_of(&now) > rate_of(&last) * GROWN;
            if rate_of(&now) >= rate_of(&last) || number == 1 {
                last = now;
            }
            // At first nothing may have arrived yet.
            if cancel.load(Relaxed)
                || (number > 0 && !grown && rate_of(&last) > 0.0 && began.elapsed() >= growing)
            {
                break;
            }
        }
        last
    }

    fn between(&self, connections: u16, before: CounterSample) -> WayStep {
        let now = self.sample();
        let sent = MeasuredWork {
            count: 0,
            bytes: now.bytes.saturating_sub(before.bytes),
            elapsed_ns: now.at.duration_since(before.at).as_nanos() as u64,
            processor_ns: now.processor_ns.saturating_sub(before.processor_ns),
            queued_ns: now.queued_ns.saturating_sub(before.queued_ns),
            threads: connections,
        };
        WayStep {
            connections,
            sent,
            receiver_processor_ns: now.far_processor_ns.saturating_sub(before.far_processor_ns),
            retransmits: now.retransmits.saturating_sub(before.retransmits),
        }
    }

    /// Sends short bursts over one connection. The fastest counts, because other load can only slow a burst down.
    fn bursts(&self, cancel: &AtomicBool) -> WayFigures {
        let began = Instant::now();
        self.active.store(1, Relaxed);
        let all = self.sample();
        let mut best = WayStep { connections: 1, ..WayStep::default() };
        for _ in 0..BURSTS {
            if cancel.load(Relaxed) || began.elapsed() > GENTLE_LIMIT {
                break;
            }
            let before = self.sample();
            self.allowed_bytes.fetch_add(BURST_BYTES, Relaxed);
            let limit = BURST_LIMIT + self.round_trip() * LAST_ROUND_TRIPS;
            while self.sample().bytes.saturating_sub(before.bytes) < BURST_BYTES
                && before.at.elapsed() < limit
            {
                std::thread::sleep(LOOK_EVERY.min(Duration::from_millis(1)));
                if cancel.load(Relaxed) {
                    break;
                }
            }
            let burst = self.between(1, before);
            if rate_of(&burst) > rate_of(&best) {
                best = burst;
            }
            self.pause(PAUSE_MIN.max(before.at.elapsed()), cancel);
        }
        // Threads report their processor time too rarely to measure a single burst.
        let all = self.between(1, all);
        let part = best.sent.bytes as f64 / all.sent.bytes.max(1) as f64;
        let share = |time_ns: u64| ((time_ns as f64 * part) as u64).min(best.sent.elapsed_ns);
        let (sender, receiver) = (share(all.sent.processor_ns), share(all.receiver_processor_ns));
        (best.sent.processor_ns, best.receiver_processor_ns) = (sender, receiver);
        WayFigures { steps: vec![best], at_least: true, ..self.way() }
    }

    /// Lets all connections together send `content_bytes`. Returns the rate in bytes per second, if there was time to
    /// measure it, and true if anything arrived.
    fn all(&self, content_bytes: u64, cancel: &AtomicBool) -> (Option<u64>, bool) {
        let began = Instant::now();
        let begin = self.sample().bytes;
        let beginning = BEGINNING + self.round_trip() * BEGINNING_ROUND_TRIPS;
        let share = content_bytes / (self.accounts.len() as u64).max(1);
        self.allowed_bytes.store(share, Relaxed);
        self.active.store(self.accounts.len(), Relaxed);
        let is_sent = |account: &StreamCounters| {
            account.ended.load(Relaxed) || account.sent_bytes.load(Relaxed) >= share
        };
        let mut counted: Vec<(Instant, u64)> = Vec::new();
        while began.elapsed() < ALL_LIMIT && !cancel.load(Relaxed) && !self.accounts.iter().all(is_sent) {
            if began.elapsed() >= beginning {
                let sample = self.sample();
                counted.push((sample.at, sample.bytes));
            }
            std::thread::sleep(COUNT_EVERY);
        }
        let part = PART_MIN.max(self.round_trip() * PART_ROUND_TRIPS);
        (usual(&counted, part), self.sample().bytes > begin)
    }

    /// Waits for `time`, or until it is cancelled or all threads have ended.
    fn pause(&self, time: Duration, cancel: &AtomicBool) {
        let end = Instant::now() + time;
        let all_ended = || self.accounts.iter().all(|account| account.ended.load(Relaxed));
        while Instant::now() < end && !cancel.load(Relaxed) && !all_ended() {
            std::thread::sleep(Duration::from_millis(10).min(end.saturating_duration_since(Instant::now())));
        }
    }
}

/// Returns the median of the rates over all parts of this length, or none if the whole is shorter. The median excludes
/// the beginning, when queues on the network path absorb data, and the end, when some connections have nothing left to
/// send.
fn usual(counted: &[(Instant, u64)], part: Duration) -> Option<u64> {
    let mut rates = Vec::new();
    for (index, (from, before)) in counted.iter().enumerate() {
        let end = counted[index..].iter().find(|(to, _)| to.duration_since(*from) >= part);
        let Some((to, after)) = end else { break };
        rates.push(after.saturating_sub(*before) as f64 / to.duration_since(*from).as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).map(|rate| *rate as u64)
}

fn rate_of(step: &WayStep) -> f64 {
    step.sent.bytes_per_second().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_the_beginning_nor_the_end_counts_and_a_short_run_tells_nothing() {
        let began = Instant::now();
        let at = |ms: u64, bytes: u64| (began + Duration::from_millis(ms), bytes);
        let counted = [at(0, 0), at(500, 100), at(1000, 150), at(1500, 200), at(2000, 210)];
        assert_eq!(usual(&counted, Duration::from_millis(500)), Some(100));
        assert_eq!(usual(&counted, Duration::from_millis(2001)), None);
        assert_eq!(usual(&[], Duration::ZERO), None);
    }
}
