//! Live data: one stream of server-sent events for each who watches. Queues are bounded, and a reader that is too slow is cut off.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream, StreamExt};
use tokio::sync::broadcast;

use super::overview::FleetEvent;

/// The number of events that wait for a reader. One that is behind by more is cut off.
const WAITING_MAX: usize = 1024;
/// The number of events that a reader gets again that comes back.
const KEPT_MAX: usize = 1024;
/// The pause after which a silent stream shows that it is alive.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// The maximum number of readers.
pub const READERS_MAX: usize = 256;

/// An event with its number.
#[derive(Clone, Debug)]
pub struct NumberedEvent {
    number: u64,
    event: Arc<FleetEvent>,
}

/// The events of this control plane.
pub struct EventStream {
    put: broadcast::Sender<NumberedEvent>,
    kept: Mutex<KeptEvents>,
    /// A number of the process: those of another one's events mean nothing here.
    process: u64,
}

#[derive(Debug, Default)]
struct KeptEvents {
    next: u64,
    events: VecDeque<NumberedEvent>,
}

impl Default for EventStream {
    fn default() -> Self {
        let (put, _) = broadcast::channel(WAITING_MAX);
        let mut bytes = [0; 8];
        // Without random numbers, a reader that comes back may miss events, and reads anew later.
        let _ = aws_lc_rs::rand::fill(&mut bytes);
        Self { put, kept: Mutex::default(), process: u64::from_le_bytes(bytes) >> 12 }
    }
}

impl EventStream {
    /// Sends an event to all who watch.
    pub fn send(&self, event: FleetEvent) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.next += 1;
        let event = NumberedEvent { number: kept.next, event: Arc::new(event) };
        kept.events.push_back(event.clone());
        if kept.events.len() > KEPT_MAX {
            kept.events.pop_front();
        }
        let _nobody_watches = self.put.send(event);
    }

    /// Returns the number of readers.
    pub fn readers(&self) -> usize {
        self.put.receiver_count()
    }

    /// Returns the stream for a reader that has seen the events up to `last`, as it names it. It ends when the reader is too slow,
    /// or may not read any more.
    pub fn stream<F: Fn() -> bool + Send + 'static>(
        &self,
        last: Option<&str>,
        may_read: F,
    ) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<F>> {
        let (mut first, waiting) = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            // Under the lock, so that none is sent between.
            (self.missed(&kept, last), self.put.subscribe())
        };
        let process = self.process;
        let hello = serde_json::json!({"version": env!("CARGO_PKG_VERSION")}).to_string();
        first.insert(0, Event::default().event("hello").data(hello).retry(Duration::from_secs(2)));
        let later = stream::unfold((waiting, may_read), move |(mut waiting, may_read)| async move {
            // A reader that is too far behind is cut off: it comes back, and reads what it missed.
            let event = waiting.recv().await.ok().filter(|_| may_read())?;
            Some((named(process, &event), (waiting, may_read)))
        });
        let all = stream::iter(first).chain(later).map(Ok);
        Sse::new(all).keep_alive(KeepAlive::new().interval(ALIVE_EVERY))
    }

    /// Returns the events that a reader has missed, or one that tells it to read anew.
    fn missed(&self, kept: &KeptEvents, last: Option<&str>) -> Vec<Event> {
        let Some(last) = last else { return Vec::new() };
        let seen = last
            .split_once('-')
            .filter(|(process, _)| *process == self.process.to_string())
            .and_then(|(_, number)| number.parse::<u64>().ok());
        let first = kept.events.front().map_or(kept.next + 1, |event| event.number);
        match seen {
            Some(seen) if seen + 1 >= first && seen <= kept.next => {
                let missed = kept.events.iter().filter(|event| event.number > seen);
                missed.map(|event| named(self.process, event)).collect()
            }
            _ => vec![Event::default().event("reset").data("{}")],
        }
    }
}

fn named(process: u64, NumberedEvent { number, event }: &NumberedEvent) -> Event {
    Event::default().event(event.name).id(format!("{process}-{number}")).data(&event.data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(stream: &EventStream, last: &str) -> usize {
        let kept = stream.kept.lock().unwrap();
        stream.missed(&kept, Some(last)).len()
    }

    #[test]
    fn a_reader_that_comes_back_gets_what_it_missed() {
        let stream = EventStream::default();
        let id = |number: u64| format!("{}-{number}", stream.process);
        for _ in 0..3 {
            stream.send(FleetEvent { name: "run", data: "{}".to_owned() });
        }
        assert_eq!(names(&stream, &id(0)), 3);
        assert_eq!(names(&stream, &id(2)), 1);
        assert_eq!(names(&stream, &id(3)), 0);
        for _ in 0..KEPT_MAX {
            stream.send(FleetEvent { name: "run", data: "{}".to_owned() });
        }
        // One event alone: read anew.
        assert_eq!(names(&stream, &id(1)), 1);
        assert_eq!(names(&stream, &id(9999)), 1);
        assert_eq!(names(&stream, "1-2"), 1);
        assert_eq!(names(&stream, "x"), 1);
    }
}
