//! A copy that several processes make together, on one machine or on many: each runs units of it, which are parts of the tree.
//!
//! The engine of each unit is in this process, and so is the source. What it begins with, and what it gives away, goes through
//! an [exchange](hakobu_core::exchange). Each lease has locks, drafts and marks of its own at the target,
//! so any number of units may run at a time.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use hakobu_agent::inspect;
pub use hakobu_agent::machine::boot_time_ns;
use hakobu_agent::stream::Streams;
use hakobu_core::endpoint::DraftKind;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::exchange::WorkExchange;
use hakobu_core::job::{Job, Mode, Removal};
use hakobu_core::open_at::OpenAt;
use hakobu_core::outcome::{RunEnvironment, Transfer};
use hakobu_core::request::CopyRequest;

use crate::attempt::Attempt;
use crate::carryover::Carryover;
use crate::opening::{TransferHosts, may_have_agent};
use crate::plan::TransferPlan;
use crate::unit_exchange::UnitExchange;

const SHARING: &str = "sharing the work";

/// One process's part in a copy that is shared.
///
/// With [`Removal::Count`] units count what only the target has, and leave out what an extra entry is in the way of; the sums of
/// all units are those of one process.
pub struct SharedRun {
    request: CopyRequest,
    carryover: Carryover,
}

impl SharedRun {
    /// Takes a request. Nothing is opened yet.
    ///
    /// # Errors
    /// `Unsupported` for what one process has to do alone.
    pub fn new(request: CopyRequest) -> Result<Self> {
        match obstacle(&request) {
            Some(words) => Err(refusal(words)),
            None => Ok(Self { request, carryover: Carryover::for_more() }),
        }
    }

    /// Runs one unit. All errors are in the result. Nothing is tried again, except logging in anew if an idle connection was
    /// lost.
    ///
    /// Hosts stay open until the next unit, unless there was a fatal error. So the limits and the flag that stops a run have to
    /// be the same in each environment. After a fatal error, whatever the exchange was given has to be forgotten.
    pub fn run(&mut self, exchange: &dyn WorkExchange, environment: &mut RunEnvironment<'_>) -> Transfer {
        let was_open = self.carryover.hosts.is_some();
        let transfer = self.run_once(exchange, environment);
        let is_lost = transfer.summary.fatal.as_ref().is_some_and(Error::may_retry);
        match was_open && is_lost && !self.carryover.has_begun_unit {
            true => self.run_once(exchange, environment),
            false => transfer,
        }
    }

    fn run_once(&mut self, exchange: &dyn WorkExchange, environment: &mut RunEnvironment<'_>) -> Transfer {
        let mut transfer = Transfer::default();
        self.carryover.has_begun_unit = false;
        let attempt = Attempt {
            request: &self.request,
            surroundings: &mut *environment,
            began: Instant::now(),
            login_limit: None,
            carryover: &mut self.carryover,
            exchange: Some(exchange),
        };
        if let Err(error) = attempt.run(&mut transfer) {
            transfer.summary.fatal.get_or_insert(error);
        }
        if environment.cancel.load(Relaxed) && transfer.summary.fatal.is_some() {
            transfer.summary.fatal =
                Some(Error::new(ErrorKind::Cancelled, "copying a part", "stopped as asked"));
        }
        transfer
    }

    /// Closes the hosts. The next unit opens them again.
    pub fn close(&mut self) {
        self.carryover.hosts = None;
    }
}

fn refusal(words: &'static str) -> Error {
    Error::new(ErrorKind::Unsupported, SHARING, words)
}

/// Returns the reason why a request cannot be shared, if there is one.
fn obstacle(request: &CopyRequest) -> Option<&'static str> {
    let streams = Streams::of(request);
    Some(match request {
        _ if request.dry_run => {
            "a dry run looks at the whole tree; run it alone (--dry-run without the fleet)"
        }
        _ if request.mode.only_reads() => "a comparison looks at the whole tree; run verify alone",
        _ if request.removal == Removal::Remove || request.deletion.is_some() => {
            "entries are deleted after all else, by one process; delete in a run of its own"
        }
        _ if !request.pairs.is_empty() || !request.confirmed.is_empty() => {
            "disks and pairs of files are copied by one process; run the copy alone"
        }
        _ if request.passes.is_some() => "passes are over one file or disk; run the copy alone",
        _ if streams != Streams::default() => {
            "a stream is read and written by one process; run the copy alone"
        }
        _ if request.in_place && request.mode == Mode::Delta => {
            "files would be changed in place, and two processes might change one; leave out --in-place"
        }
        _ if hakobu_rsync::concerns(request) => {
            "rsync cannot share a tree; use a location that hakobu opens itself"
        }
        _ if request.open_at != OpenAt::default() => {
            "the store would be opened on another host, which shares nothing; leave out --open-at, or run a broker there"
        }
        _ if request.sources.iter().any(|source| may_have_agent(request, source)) => {
            "an agent would read the source, and shares nothing; run a broker on that host, or write the source as sftp://"
        }
        _ => return None,
    })
}

/// Refuses a plan that cannot be shared, which shows only when the ends are known.
///
/// # Errors
/// `Unsupported`
pub(crate) fn check_plan(hosts: &TransferHosts, job: &Job) -> Result<()> {
    if hosts.source.has_agent() && !hosts.source.is_here() || hosts.store_agent.is_some() {
        return Err(refusal("an agent would read the source, and shares nothing; run a broker on that host"));
    }
    if job.items.iter().any(|item| item.place != DraftKind::File) {
        return Err(refusal("a device, an image or a sink is written by one process; run the copy alone"));
    }
    Ok(())
}

/// Refuses a unit whose target is not there, although an earlier unit has made it: files would get to another place than those of
/// other processes.
///
/// # Errors
/// `NotFound`
pub(crate) fn check_target(
    hosts: &TransferHosts,
    plan: &TransferPlan,
    unit: &UnitExchange<'_>,
) -> Result<()> {
    let target = hosts.target();
    let Some(name) = plan.new_target.as_ref().filter(|_| target.is_here() && !target.is_store()) else {
        return Ok(());
    };
    let path = Path::new(OsStr::from_bytes(&plan.root)).join(OsStr::from_bytes(name.as_bytes()));
    if !unit.is_given() || inspect::appears(&path) {
        return Ok(());
    }
    let words = "it is not there, and other processes of this run have written to it";
    let error = Error::new(ErrorKind::NotFound, "opening the target", words).at(path.as_os_str().as_bytes());
    Err(error
        .hint("mount its file system on this machine as on the others, or run no broker of the group here"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;
    use std::time::Duration;

    use hakobu_core::event::NoObserver;
    use hakobu_core::exchange::{DirectoryShare, SharePlace, WorkShare};
    use hakobu_core::live_limits::LiveLimits;
    use hakobu_core::location::Location;
    use hakobu_core::pace::RunLimits;
    use hakobu_core::path::EntryPath;
    use hakobu_core::prompts::NoPrompts;
    use hakobu_core::request::Transport;

    use super::*;
    use crate::unit_exchange::tests::FixedUnit;

    /// Runs the unit from `source` to `target` in a folder.
    fn run_one_directory(folder: &Path) -> Transfer {
        let place = |name: &str| folder.join(name).display().to_string();
        let mut run = SharedRun::new(request(&(place("source") + "/"), &place("target"))).unwrap();
        let path = EntryPath::new("below").unwrap();
        let place = SharePlace { root: 0, source: path.clone(), target: path, top_names: 0 };
        let share = WorkShare::Directory(DirectoryShare { place, is_above_settled: false });
        let exchange = FixedUnit::new(Some(vec![share]));
        let mut environment = RunEnvironment {
            prompts: &mut NoPrompts,
            observer: &NoObserver,
            cancel: Arc::default(),
            limits: Arc::new(LiveLimits::new(RunLimits::default(), Instant::now)),
        };
        run.run(&exchange, &mut environment)
    }

    #[test]
    fn a_given_unit_is_refused_where_the_target_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("source/below")).unwrap();
        fs::write(folder.path().join("source/below/file"), "content").unwrap();
        let fatal = run_one_directory(folder.path()).summary.fatal.unwrap();
        assert_eq!(fatal.kind, ErrorKind::NotFound, "{fatal}");
        assert!(fatal.to_string().contains("/target: it is not there"), "{fatal}");
        assert!(!folder.path().join("target").exists());
        // Another machine has made it, and this one sees it only after a moment.
        let target = folder.path().join("target");
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            fs::create_dir(target).unwrap();
        });
        let summary = run_one_directory(folder.path()).summary;
        other.join().unwrap();
        assert!(summary.fatal.is_none(), "{:?}", summary.fatal);
        assert_eq!(fs::read(folder.path().join("target/below/file")).unwrap(), b"content");
    }

    fn request(source: &str, target: &str) -> CopyRequest {
        let location = |text: &str| Location::parse(text.as_bytes()).unwrap();
        CopyRequest { sources: vec![location(source)], target: location(target), ..CopyRequest::default() }
    }

    #[test]
    fn what_one_process_has_to_do_is_refused() {
        for (source, target) in
            [("/a", "/b"), ("sftp://host/a", "/b"), ("/a", "host:b"), ("s3://bucket/a", "s3://bucket/b")]
        {
            assert!(SharedRun::new(request(source, target)).is_ok(), "{source} {target}");
        }
        let refused = |request: CopyRequest| {
            SharedRun::new(request).err().is_some_and(|error| error.kind == ErrorKind::Unsupported)
        };
        assert!(refused(request("host:a", "/b")) && refused(request("-", "/b")));
        let changes: [fn(&mut CopyRequest); 6] = [
            |request| request.dry_run = true,
            |request| request.mode = Mode::Compare,
            |request| request.removal = Removal::Remove,
            |request| request.open_at = OpenAt::Target,
            |request| request.transport = Transport::Rsync,
            |request| (request.in_place, request.mode) = (true, Mode::Delta),
        ];
        for change in changes {
            let mut request = request("/a", "/b");
            change(&mut request);
            assert!(refused(request));
        }
    }
}
