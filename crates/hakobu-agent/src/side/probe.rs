//! What a side measures of itself, for a probe.

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_measure::probe as measure;
use hakobu_proto::control::{ProbeAnswer, ProbeAsk};

use super::Side;
use crate::probe::{flood, machine};

impl Side {
    /// Measures what is asked for. It ends early when a stop is asked for.
    ///
    /// # Errors
    /// When a place cannot be looked at, or there are no connections to measure.
    pub(crate) fn probe(&mut self, ask: &ProbeAsk) -> Result<ProbeAnswer> {
        let cancel = &self.stop.cancel;
        match ask {
            ProbeAsk::Machine { gentle } => Ok(ProbeAnswer::Machine(machine::figures(*gentle))),
            ProbeAsk::Source(ask) => measure::source(ask, cancel)
                .map(ProbeAnswer::Source)
                .map_err(|error| Error::io("measuring the source", &error).at(&ask.path)),
            ProbeAsk::Target(ask) => measure::target(ask, cancel)
                .map(ProbeAnswer::Target)
                .map_err(|error| Error::io("measuring the target", &error).at(&ask.path)),
            ProbeAsk::Way { gentle } => {
                let missing =
                    || Error::new(ErrorKind::Usage, "measuring the way", "there are no data connections");
                let arriving = self.arriving.take().ok_or_else(missing)?;
                let figures = flood::measure(&arriving, *gentle, cancel);
                self.stop.forget();
                figures.map(ProbeAnswer::Way)
            }
        }
    }
}
