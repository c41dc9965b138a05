//! Limits on failed attempts to log in: a pause that grows for each source address, and a rate for all together.
//!
//! The clock is given. Addresses of IPv6 count by their first 64 bits, which is what one customer of a provider has.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// The number of failed attempts of one source that cost nothing: typing errors.
const FREE_FAILURES: u32 = 5;
/// The pause after the first attempt that is not free; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause of one source.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The time after which the failures of a source are forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(900);
/// The number of sources that are remembered. Beyond it, the one whose last failure is the oldest is forgotten.
pub const SOURCES_REMEMBERED_MAX: usize = 4096;
/// The failed attempts of all sources in a row that cost nothing, and the time in which one of them comes back.
const OVERALL_BURST: u32 = 200;
const OVERALL_STEP: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug)]
struct SourceFailures {
    count: u32,
    last: Instant,
}

/// The failed attempts of late.
#[derive(Debug, Default)]
pub struct LoginAttempts {
    sources: HashMap<IpAddr, SourceFailures>,
    /// The failures of all sources that have not been forgotten, and the time from which the next is.
    overall: u32,
    overall_since: Option<Instant>,
}

impl LoginAttempts {
    /// Checks whether a source may try now. An attempt that may be made with a wrong token must be reported with
    /// [`LoginAttempts::failed`]; requests with a valid session or token are not attempts and need no check.
    ///
    /// # Errors
    /// The time to wait.
    pub fn check(&mut self, source: IpAddr, now: Instant) -> Result<(), Duration> {
        self.forget_overall(now);
        let own = self.sources.get(&network_of(source)).and_then(|failures| {
            let pause = pause_after(failures.count)?;
            (failures.last + pause).checked_duration_since(now)
        });
        let overall = self.overall_since.filter(|_| self.overall >= OVERALL_BURST);
        let overall = overall.and_then(|since| (since + OVERALL_STEP).checked_duration_since(now));
        match own.max(overall).filter(|wait| !wait.is_zero()) {
            Some(wait) => Err(wait),
            None => Ok(()),
        }
    }

    /// Records a failed attempt.
    pub fn failed(&mut self, source: IpAddr, now: Instant) {
        self.forget_overall(now);
        self.overall = self.overall.saturating_add(1).min(OVERALL_BURST);
        self.overall_since.get_or_insert(now);
        let source = network_of(source);
        if !self.sources.contains_key(&source) && self.sources.len() >= SOURCES_REMEMBERED_MAX {
            self.make_room(now);
        }
        let failures = self.sources.entry(source).or_insert(SourceFailures { count: 0, last: now });
        if now.saturating_duration_since(failures.last) >= FORGET_AFTER {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
    }

    /// Records a successful attempt: the source starts anew.
    pub fn succeeded(&mut self, source: IpAddr) {
        self.sources.remove(&network_of(source));
    }

    fn make_room(&mut self, now: Instant) {
        self.sources.retain(|_, failures| now.saturating_duration_since(failures.last) < FORGET_AFTER);
        if self.sources.len() < SOURCES_REMEMBERED_MAX {
            return;
        }
        let oldest = self.sources.iter().min_by_key(|(_, failures)| failures.last).map(|(source, _)| *source);
        if let Some(oldest) = oldest {
            self.sources.remove(&oldest);
        }
    }

    fn forget_overall(&mut self, now: Instant) {
        let Some(since) = self.overall_since else { return };
        let steps = now.saturating_duration_since(since).as_millis() / OVERALL_STEP.as_millis();
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        self.overall = self.overall.saturating_sub(steps);
        self.overall_since = match self.overall {
            0 => None,
            _ => Some(since + OVERALL_STEP * steps),
        };
    }
}

/// Returns the pause after so many failures.
fn pause_after(failures: u32) -> Option<Duration> {
    let doublings = failures.checked_sub(FREE_FAILURES)?;
    let factor = 1u32.checked_shl(doublings.min(16)).unwrap_or(u32::MAX);
    Some(FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE))
}

/// Returns the network that an address stands for. One of IPv4 within IPv6 is that of IPv4.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mut segments = address.segments();
            segments[4..].fill(0);
            IpAddr::V6(Ipv6Addr::from(segments))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn source(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    #[test]
    fn the_pause_of_a_source_grows_and_ends() {
        let (mut attempts, start) = (LoginAttempts::default(), Instant::now());
        for _ in 0..FREE_FAILURES {
            assert_eq!(attempts.check(SOURCE, start), Ok(()));
            attempts.failed(SOURCE, start);
        }
        let mut now = start;
        for pause in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            let pause = Duration::from_secs(pause);
            assert_eq!(attempts.check(SOURCE, now), Err(pause));
            assert_eq!(attempts.check(source(7), now), Ok(()), "others may try");
            assert_eq!(attempts.check(SOURCE, now + pause / 2), Err(pause / 2));
            now += pause;
            assert_eq!(attempts.check(SOURCE, now), Ok(()));
            attempts.failed(SOURCE, now);
        }
        attempts.failed(SOURCE, now + FORGET_AFTER);
        assert_eq!(attempts.check(SOURCE, now + FORGET_AFTER), Ok(()));
    }

    #[test]
    fn success_starts_anew() {
        let (mut attempts, now) = (LoginAttempts::default(), Instant::now());
        (0..20).for_each(|_| attempts.failed(SOURCE, now));
        assert!(attempts.check(SOURCE, now).is_err());
        attempts.succeeded(SOURCE);
        assert_eq!(attempts.check(SOURCE, now), Ok(()));
    }

    #[test]
    fn many_sources_together_are_slowed_down() {
        let (mut attempts, now) = (LoginAttempts::default(), Instant::now());
        for number in 0..OVERALL_BURST {
            assert_eq!(attempts.check(source(number), now), Ok(()), "{number}");
            attempts.failed(source(number), now);
        }
        assert_eq!(attempts.check(source(9999), now), Err(OVERALL_STEP));
        let later = now + OVERALL_STEP;
        assert_eq!(attempts.check(source(9999), later), Ok(()));
        attempts.failed(source(9999), later);
        assert_eq!(attempts.check(source(10_000), later), Err(OVERALL_STEP));
        assert_eq!(attempts.check(source(10_000), later + OVERALL_STEP * OVERALL_BURST), Ok(()));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut attempts, start) = (LoginAttempts::default(), Instant::now());
        for number in 0..2 * SOURCES_REMEMBERED_MAX as u32 {
            attempts.failed(source(number), start + Duration::from_millis(number.into()));
        }
        assert_eq!(attempts.sources.len(), SOURCES_REMEMBERED_MAX);
        attempts.failed(SOURCE, start + FORGET_AFTER * 2);
        assert_eq!(attempts.sources.len(), 1);
    }

    #[test]
    fn addresses_of_one_network_count_together() {
        let of = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:192.0.2.1"), SOURCE);
    }
}
