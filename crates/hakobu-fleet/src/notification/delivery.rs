//! Deliveries: attempts with pauses between them.

use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};

/// The operation that errors name.
const DURING: &str = "delivering the notification to";

/// The limits of a delivery.
#[derive(Clone, Debug)]
pub struct DeliveryLimits {
    /// The pauses between attempts, of which there is one more.
    pub pauses: Vec<Duration>,
    /// The longest time of one attempt.
    pub attempt: Duration,
}

impl Default for DeliveryLimits {
    /// Six attempts within some ten minutes: a receiver that restarts misses nothing.
    fn default() -> Self {
        let pauses = [1, 5, 25, 125, 400].map(Duration::from_secs).to_vec();
        Self { pauses, attempt: Duration::from_secs(10) }
    }
}

/// An attempt that failed.
#[derive(Debug)]
pub(super) struct DeliveryFailure {
    pub(super) words: String,
    /// True if another attempt may succeed.
    pub(super) may_pass: bool,
}

impl DeliveryFailure {
    pub(super) fn passing(words: impl Into<String>) -> Self {
        Self { words: words.into(), may_pass: true }
    }

    pub(super) fn lasting(words: impl Into<String>) -> Self {
        Self { words: words.into(), may_pass: false }
    }
}

/// Makes attempts until one succeeds, or none can any more. `receiver` is named in errors, without anything secret.
pub(super) async fn deliver(
    limits: &DeliveryLimits,
    receiver: &str,
    mut attempt: impl AsyncFnMut() -> Result<(), DeliveryFailure>,
) -> Result<()> {
    let mut pauses = limits.pauses.iter();
    let mut attempts = 0;
    loop {
        attempts += 1;
        let outcome = tokio::time::timeout(limits.attempt, attempt()).await;
        let failure = match outcome {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failure)) => failure,
            Err(_) => DeliveryFailure::passing("there is no answer in time"),
        };
        match pauses.next().filter(|_| failure.may_pass) {
            Some(pause) => tokio::time::sleep(*pause).await,
            None => {
                let times = if attempts == 1 { "once" } else { "several times" };
                let words = format!("{} (tried {times})", failure.words);
                let kind = if failure.may_pass { ErrorKind::TimedOut } else { ErrorKind::Refused };
                return Err(Error::new(kind, DURING, words).at(receiver));
            }
        }
    }
}
