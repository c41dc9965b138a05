//! The measurements that a host makes of itself, for a probe.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::probe::WriteAsk;
use hakobu_endpoints::local::open_exclusively;
use hakobu_measure::probe as measure;
use hakobu_proto::control::{ProbeAnswer, ProbeAsk};

use super::LocalHost;
use crate::inspect;
use crate::machine as here;
use hakobu_measure::probe::{flood, machine};

impl LocalHost {
    /// Performs the requested measurement. It ends early if a stop is requested.
    ///
    /// # Errors
    /// A path cannot be examined, or there are no connections to measure.
    pub fn probe(&mut self, ask: &ProbeAsk) -> Result<ProbeAnswer> {
        let cancel = &self.stop.cancel;
        match ask {
            ProbeAsk::Machine { gentle } => Ok(ProbeAnswer::Machine(machine::figures(
                *gentle,
                inspect::boot_id(),
                here::facts().processors,
            ))),
            ProbeAsk::Source(ask) => measure::source(ask, cancel)
                .map(ProbeAnswer::Source)
                .map_err(|error| Error::io("measuring the source", &error).at(&ask.path)),
            ProbeAsk::Target(ask) => {
                let failed = |error: std::io::Error| Error::io("measuring the target", &error).at(&ask.path);
                let figures = match ask.write && !ask.device.is_empty() {
                    true => measure::device(&device(ask)?, ask, cancel),
                    false => measure::target(ask, cancel),
                };
                figures.map(ProbeAnswer::Target).map_err(failed)
            }
            ProbeAsk::Way { gentle } => {
                let arriving = self.arriving.take().ok_or_else(unconnected)?;
                let figures = flood::measure(&arriving, *gentle, cancel);
                self.stop.forget();
                figures.map(ProbeAnswer::Way)
            }
        }
    }
}

impl LocalHost {
    /// Measures the bandwidth of the existing connections together, with at most `content_bytes` of content.
    ///
    /// # Errors
    /// There are no connections, or it is stopped.
    pub fn capacity(&mut self, content_bytes: u64) -> Result<Option<u64>> {
        let arriving = self.arriving.take().ok_or_else(unconnected)?;
        let rate = flood::capacity(&arriving, content_bytes, &self.stop.cancel);
        self.stop.forget();
        rate
    }
}

fn unconnected() -> Error {
    Error::new(ErrorKind::Usage, "measuring the way", "there are no data connections")
}

/// Opens the confirmed device exclusively: neither another disk that has its name by now, nor one that is in use.
fn device(ask: &WriteAsk) -> Result<File> {
    let at = |error: Error| error.at(&ask.path);
    let path = here::path(&ask.path);
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        let words = "it is no block device";
        return Err(at(Error::new(ErrorKind::Refused, "opening the device", words)));
    };
    let opened =
        File::open(parent).map_err(|error| Error::io("opening the directory", &error)).and_then(|parent| {
            let agreed = String::from_utf8_lossy(&ask.device);
            open_exclusively(parent.as_fd(), name.as_bytes(), &agreed, 0)
        });
    opened.map(|(file, _)| file.into()).map_err(at)
}
