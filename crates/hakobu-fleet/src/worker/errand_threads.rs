//! The errands of a broker: each on a thread of its own, which is asked to stop when its time is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hakobu_core::error::{Error, ErrorKind, Result};

use crate::errand::{Errand, ErrandRunner, RESULT_BYTES_MAX};
use crate::message::{ErrandAnswer, SentErrand, SentError};
use crate::sent_credentials::{CredentialReader, EndCredentials, read_credentials};

/// The maximum number of errands at a time, whatever the leader asks for.
const ERRANDS_MAX: usize = 8;
/// The operation that errors name.
const DURING: &str = "answering a request of the control plane";

struct RunningErrand {
    until_ms: u64,
    cancel: Arc<AtomicBool>,
    is_done: Arc<AtomicBool>,
}

/// The errands of a broker.
#[derive(Default)]
pub(super) struct ErrandThreads {
    runner: Option<Arc<dyn ErrandRunner>>,
    running: Mutex<Vec<RunningErrand>>,
}

impl ErrandThreads {
    pub(super) fn new(runner: Arc<dyn ErrandRunner>) -> Self {
        Self { runner: Some(runner), running: Mutex::default() }
    }

    /// Begins with an errand, whose credentials are read with `reader`. `reply` takes the answer, on a thread of its own.
    pub(super) fn begin(
        &self,
        (sent, reader): (SentErrand, Option<Arc<CredentialReader>>),
        now_ms: u64,
        reply: impl FnOnce(ErrandAnswer) + Send + 'static,
    ) {
        let (cancel, is_done): (Arc<AtomicBool>, Arc<AtomicBool>) = Default::default();
        let runner = {
            let mut running = self.running();
            running.retain(|errand| !errand.is_done.load(Ordering::Acquire));
            let until_ms = now_ms.saturating_add(sent.limit_ms);
            let is_full = running.len() >= ERRANDS_MAX;
            if !is_full {
                running.push(RunningErrand { until_ms, cancel: cancel.clone(), is_done: is_done.clone() });
            }
            self.runner.clone().filter(|_| !is_full)
        };
        let work = move || {
            let result = match runner {
                Some(runner) => {
                    let purpose = SentErrand::credentials_purpose(sent.id);
                    let credentials = read_credentials(reader.as_deref(), &sent.credentials, &purpose);
                    credentials.and_then(|known| carry_out(&*runner, &sent.errand, known, &cancel))
                }
                None => {
                    Err(Error::new(ErrorKind::TimedOut, DURING, "this broker takes no such requests now"))
                }
            };
            is_done.store(true, Ordering::Release);
            let result = result.map_err(|error| SentError::from(&error));
            reply(ErrandAnswer { id: sent.id, result });
        };
        // Without a thread, the leader finds out when the time is over.
        let _no_thread = std::thread::Builder::new().name("errand".to_owned()).spawn(work);
    }

    /// Asks the errands to stop whose time is over.
    pub(super) fn stop_overdue(&self, now_ms: u64) {
        let running = self.running();
        let overdue = running.iter().filter(|errand| errand.until_ms <= now_ms);
        overdue.for_each(|errand| errand.cancel.store(true, Ordering::Release));
    }

    /// Asks all errands to stop.
    pub(super) fn stop(&self) {
        self.stop_overdue(u64::MAX);
    }

    fn running(&self) -> MutexGuard<'_, Vec<RunningErrand>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn carry_out(
    runner: &dyn ErrandRunner,
    json: &str,
    credentials: EndCredentials,
    cancel: &Arc<AtomicBool>,
) -> Result<String> {
    let misread = |error: serde_json::Error| Error::new(ErrorKind::Protocol, DURING, error.to_string());
    let errand: Errand = serde_json::from_str(json).map_err(misread)?;
    let result = runner.run(&errand, credentials, cancel)?;
    let json = serde_json::to_string(&result).map_err(misread)?;
    match json.len() {
        ..=RESULT_BYTES_MAX => Ok(json),
        _ => Err(Error::new(ErrorKind::Unsupported, DURING, "the answer is too long to be sent")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::errand::ErrandResult;

    struct Sleeper;

    impl ErrandRunner for Sleeper {
        fn run(&self, errand: &Errand, _: EndCredentials, cancel: &Arc<AtomicBool>) -> Result<ErrandResult> {
            if matches!(errand, Errand::Browse { .. }) {
                return Ok(ErrandResult::Browse { entries: Vec::new(), is_cut: false });
            }
            while !cancel.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(Error::new(ErrorKind::Cancelled, DURING, "stopped"))
        }
    }

    #[test]
    fn errands_are_answered_and_stopped_when_their_time_is_over() {
        let threads = ErrandThreads::new(Arc::new(Sleeper));
        let (put, answers) = channel();
        let begin = |id: u64, errand: &str| {
            let put = put.clone();
            let errand = errand.to_owned();
            let sent = SentErrand { id, limit_ms: 1000, errand, credentials: Vec::new() };
            threads.begin((sent, None), 0, move |answer| put.send(answer).unwrap());
            id
        };
        begin(1, r#"{"kind":"browse","location":"/a"}"#);
        assert!(answers.recv().unwrap().result.unwrap().contains("browse"));
        begin(2, r#"{"kind":"shell","command":"rm"}"#);
        assert!(answers.recv().unwrap().result.is_err(), "nobody knows this");
        for id in 10..10 + ERRANDS_MAX as u64 {
            begin(id, r#"{"kind":"test","request":{"sources":["/a"],"target":"/b"}}"#);
        }
        begin(99, r#"{"kind":"browse","location":"/a"}"#);
        let answer = answers.recv().unwrap();
        assert!(answer.id == 99 && answer.result.is_err(), "too many");
        threads.stop_overdue(999);
        assert!(answers.recv_timeout(Duration::from_millis(50)).is_err());
        threads.stop_overdue(1000);
        for _ in 0..ERRANDS_MAX {
            assert!(answers.recv().unwrap().result.is_err());
        }
    }
}
