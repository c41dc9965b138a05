//! What a way carries, all connections together: made content goes to nowhere over there, by more connections than a
//! copy has, and the counter of the network device tells how fast.
//!
//! The counter, and not what the copy says of itself: that counts pieces of megabytes, of which all lanes end one at the
//! same time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hakobu_core::endpoint::DraftKind;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::NoObserver;
use hakobu_core::grant::Grant;
use hakobu_core::job::{Item, Job};
use hakobu_core::path::EntryPath;
use hakobu_measure::generate::{self, FileSpec};
use hakobu_measure::process::interface_counters;
use hakobu_proto::control::{Cipher, PathBytes, RunRequest};

use crate::machine;
use crate::meet::Meeting;
use crate::party::Party;
use crate::probe::way::nowhere;
use crate::request::Transport;
use crate::side::{Side, Stop};

/// So many connections: where windows are what limits, these carry more than a copy's.
pub(super) const CONNECTIONS: u16 = 32;
/// So much goes over at most.
const CONTENT_BYTES: u64 = 256 << 20;
/// So long at most.
const LIMIT: Duration = Duration::from_secs(6);
/// What is sent before this, and before a few round trips, is not counted: connections begin slowly.
const BEGINNING: Duration = Duration::from_millis(200);
const BEGINNING_ROUND_TRIPS: u32 = 5;
/// The part of the run that is counted, and at least so many round trips.
const PART_MIN: Duration = Duration::from_millis(500);
const PART_ROUND_TRIPS: u32 = 5;
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Headers of IP and TCP with timestamps.
const HEADER_BYTES: u32 = 52;
const DURING: &str = "measuring what the way carries";

/// Measures the way to a machine; `device` is the one that packets leave by, with this MTU. Gives bytes of content per
/// second, or nothing if the way is too fast to tell.
///
/// # Errors
/// When no data connection comes about, or the user interrupts.
pub(super) fn measure(
    far: &mut Party,
    device: &str,
    mtu_bytes: u32,
    cancel: &AtomicBool,
) -> Result<Option<u64>> {
    let content = Content::make()?;
    let ended = Arc::new(AtomicBool::new(false));
    let mut here = Party::Here(Box::new(Side::with_identity(Stop::with_flag(Arc::clone(&ended)))?));
    let target = EntryPath::new("null")?;
    let grant = Grant { bytes_max: Some(CONTENT_BYTES), ..nowhere()? };
    let meeting = Meeting {
        job: machine::unique(),
        root: b"/dev",
        grant: &grant,
        cipher: Cipher::Aes128Gcm,
        cipher_in_ssh: Cipher::None,
        transport: Transport::Agent,
        lanes: CONNECTIONS,
        lanes_max: CONNECTIONS,
        data_address: None,
        data_port: None,
        observer: &NoObserver,
    };
    let met = meeting.meet(&mut here, far)?;
    here.depend_on(far)?;
    let item = Item { root: 0, source: EntryPath::new(Content::NAME)?, target, place: DraftKind::Sink };
    let job = Job { items: vec![item], lanes: met.lanes, ..Job::default() };
    let roots = vec![PathBytes(content.directory.as_os_str().as_encoded_bytes().to_vec())];
    let request = RunRequest { job, roots, capabilities: met.capabilities };
    let round_trip = far.round_trip();
    let counted = std::thread::scope(|scope| {
        let counting = scope.spawn(|| count(device, round_trip, &ended, cancel));
        let ran = here.run(request, &NoObserver, &ended, &());
        let was_cut = ended.swap(true, Relaxed);
        let counted = counting.join().unwrap_or(None);
        ran.map(|ran| (counted, ran.summary.fatal.filter(|_| !was_cut)))
    });
    let served = far.end_serving(false);
    if cancel.load(Relaxed) {
        return Err(Error::new(ErrorKind::Cancelled, DURING, "it was interrupted"));
    }
    let (counted, fatal) = counted?;
    if let Some(error) = fatal {
        return Err(error);
    }
    served?;
    let content_share = f64::from(mtu_bytes.saturating_sub(HEADER_BYTES)) / f64::from(mtu_bytes.max(1));
    Ok(counted.map(|rate| (rate * content_share) as u64))
}

/// Bytes per second that the device sends once connections have begun. Ends the run after a while.
fn count(device: &str, round_trip: Duration, ended: &AtomicBool, cancel: &AtomicBool) -> Option<f64> {
    let beginning = BEGINNING + round_trip * BEGINNING_ROUND_TRIPS;
    let part = PART_MIN.max(round_trip * PART_ROUND_TRIPS);
    let began = Instant::now();
    let mut counted: Vec<(Instant, u64)> = Vec::new();
    while !ended.load(Relaxed) {
        if began.elapsed() > LIMIT || cancel.load(Relaxed) {
            ended.store(true, Relaxed);
        }
        if began.elapsed() >= beginning {
            counted.push((Instant::now(), sent_bytes(device)?));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    usual(&counted, part)
}

/// The median of the rates over all parts of this length; none if all of it is shorter. At first queues on the way take
/// more than it carries, and towards the end some connections have nothing left to do.
fn usual(counted: &[(Instant, u64)], part: Duration) -> Option<f64> {
    let mut rates = Vec::new();
    for (index, (from, before)) in counted.iter().enumerate() {
        let end = counted[index..].iter().find(|(to, _)| to.duration_since(*from) >= part);
        let Some((to, after)) = end else { break };
        rates.push(after.saturating_sub(*before) as f64 / to.duration_since(*from).as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}

fn sent_bytes(device: &str) -> Option<u64> {
    let all = interface_counters().ok()?;
    all.into_iter().find(|one| one.name == device).map(|one| one.sent_bytes)
}

/// A file of made content, in memory where that is possible; it goes with the value.
struct Content {
    directory: PathBuf,
}

impl Content {
    const NAME: &str = "content";

    fn make() -> Result<Self> {
        let shared = Path::new("/dev/shm");
        let base = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let unique = machine::unique();
        let number = u64::from_le_bytes(unique[..8].try_into().unwrap_or_default());
        let directory = base.join(format!("hakobu-doctor.{number:016x}"));
        std::fs::create_dir(&directory)
            .map_err(|error| Error::io(DURING, &error).at(directory.as_os_str().as_encoded_bytes()))?;
        let content = Self { directory };
        let path = content.directory.join(Self::NAME);
        let spec = FileSpec { size_bytes: CONTENT_BYTES, seed: number, compressibility: 0.0, threads: 2 };
        generate::file(&path, spec).map_err(|error| Error::new(ErrorKind::Io, DURING, error.to_string()))?;
        Ok(content)
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        // What is left of it is in memory, and nobody is there to be told.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_the_beginning_nor_the_end_counts_and_a_short_run_tells_nothing() {
        let began = Instant::now();
        let at = |ms: u64, bytes: u64| (began + Duration::from_millis(ms), bytes);
        let counted = [at(0, 0), at(500, 100), at(1000, 150), at(1500, 200), at(2000, 210)];
        assert_eq!(usual(&counted, Duration::from_millis(500)), Some(100.0));
        assert_eq!(usual(&counted, Duration::from_millis(2001)), None);
        assert_eq!(usual(&[], Duration::ZERO), None);
    }

    #[test]
    fn made_content_leaves_nothing_behind() {
        let content = Content::make().unwrap();
        let path = content.directory.clone();
        assert_eq!(std::fs::metadata(path.join(Content::NAME)).unwrap().len(), CONTENT_BYTES);
        drop(content);
        assert!(!path.exists());
    }
}
