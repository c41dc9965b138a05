//! `hakobu jobs set`: the limits of a job, for the current run or the next one.

use std::sync::Arc;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::live_limits::LiveLimits;
use hakobu_core::request::CopyRequest;
use hakobu_transfer::jobs::{JobFolder, JobLimits, JobState, Jobs, LIMITS_SCHEMA, LimitsStamp};

use super::command::JobCommand;
use crate::clock::now;
use crate::commands::copy::request;
use crate::commands::shared::limits::LimitArguments;
use crate::{exit, output, settings_file};

const SETTING: &str = "setting the limits of the job";

/// Sets the limits of a job; returns the exit code.
pub fn set(id: &str, typed: &LimitArguments) -> Result<u8> {
    let folder = Jobs::of_user()?.find(id)?;
    let id = folder.id();
    let refused = |kind, words: String| Err(Error::new(kind, SETTING, words).at(id.as_str()));
    if typed.is_empty() {
        let words = "no limit is given; add --bwlimit, --iops-limit or --source-p99".to_owned();
        return refused(ErrorKind::Usage, words);
    }
    if let Err(errors) = typed.read() {
        return Ok(exit::errors(&errors));
    }
    let state = folder.state().0;
    if state == JobState::Done {
        return refused(ErrorKind::Usage, "it has ended already: done".to_owned());
    }
    let earlier = folder.limits()?.unwrap_or_default();
    let limits = JobLimits {
        schema: LIMITS_SCHEMA.to_owned(),
        set_at: now(),
        bwlimit: typed.bwlimit.clone().or(earlier.bwlimit),
        iops_limit: typed.iops_limit.clone().or(earlier.iops_limit),
        source_p99: typed.source_p99.clone().or(earlier.source_p99),
    };
    let request = match request(&folder, &limits) {
        Ok(request) => request,
        Err(errors) => return Ok(exit::errors(&errors)),
    };
    if request.mode.only_reads() && typed.bwlimit.is_some() {
        let words = "--bwlimit has no effect on hakobu verify, which sends only digests; leave it out";
        return refused(ErrorKind::Usage, words.to_owned());
    }
    if hakobu_transfer::copy::is_moved_by_rsync(&request)? && state == JobState::Running {
        let words = "rsync moves its data and takes a limit only when it starts: run hakobu jobs pause, set and resume";
        return refused(ErrorKind::Unsupported, words.to_owned());
    }
    folder.write_limits(&limits)?;
    let now = request.limits.first_words().map(|words| format!("; at this time of day {words}"));
    let limits = request.limits.words() + &now.unwrap_or_default();
    output::tell_translated(&match folder.is_running() {
        true => format!("job {id}, from now on: {limits}"),
        false => format!("job {id}, from its next run on: {limits}"),
    });
    Ok(0)
}

/// Returns the request of the job with these limits.
fn request(folder: &JobFolder, limits: &JobLimits) -> std::result::Result<CopyRequest, Vec<Error>> {
    let record = folder.record().map_err(|error| vec![error])?;
    let JobCommand { mut typed, mode, .. } = JobCommand::read_where_typed(&record, SETTING)?;
    typed.limits = with(&typed.limits, limits);
    request::request(&typed, mode, settings_file::ssh_variable())
}

/// Returns the typed limits, overridden by those that were set later.
pub(super) fn with(typed: &LimitArguments, set: &JobLimits) -> LimitArguments {
    LimitArguments {
        bwlimit: set.bwlimit.clone().or(typed.bwlimit.clone()),
        iops_limit: set.iops_limit.clone().or(typed.iops_limit.clone()),
        source_p99: set.source_p99.clone().or(typed.source_p99.clone()),
    }
}

/// Passes limits that are set during a run to the run.
pub(super) struct LimitWatcher {
    /// The limits that were typed.
    pub typed: LimitArguments,
    /// The stamp of the limits that were read last.
    pub seen: Option<LimitsStamp>,
    pub live: Arc<LiveLimits>,
}

impl LimitWatcher {
    /// Reads the limits again if they have changed.
    pub fn look(&mut self, folder: &JobFolder) {
        let stamp = folder.limits_stamp();
        if stamp == self.seen {
            return;
        }
        self.seen = stamp;
        let set = folder.limits().map_err(|error| vec![error]).map(Option::unwrap_or_default);
        match set.and_then(|set| with(&self.typed, &set).read()) {
            Ok(limits) => self.live.set(limits),
            Err(errors) => {
                exit::errors(&errors);
            }
        }
    }
}
