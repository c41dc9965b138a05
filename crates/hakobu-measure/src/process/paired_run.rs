//! A timed run: a listener starts first if there is one, then the clock runs until both commands have ended.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::command_group::{CommandGroup, RunFailure};

/// The time that a listener has to start listening, and to exit after the other command.
const LISTENER_LIMIT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The commands of a run.
#[derive(Debug)]
pub struct PairedRun<'a> {
    /// The command that is timed.
    pub near: Command,
    /// The command that listens first, and ends after the other one.
    pub listener: Option<Command>,
    /// The time limit.
    pub limit: Duration,
    /// The file for the output of the timed command. That of the listener is beside it.
    pub log: &'a Path,
}

/// The processor time of all processes of a run, as far as the commands have waited for them, and its duration.
#[derive(Debug, Clone, Copy)]
pub struct PairedCost {
    /// The wall-clock time from the start of the timed command until both have ended.
    pub wall: Duration,
    /// User and system time.
    pub cpu: Duration,
}

/// An observer of a run.
pub trait RunObserver {
    /// The reason why there is no cost.
    type Failure: From<RunFailure>;

    /// Called when a process group has started, the listener's first.
    fn started(&mut self, _pid: u32) {}

    /// Returns true if the listener listens.
    ///
    /// # Errors
    ///
    /// The run ends.
    fn listens(&mut self) -> Result<bool, Self::Failure>;

    /// Called when the clock starts.
    fn clock_starts(&mut self, _at: Instant) {}

    /// Called about every 10 ms during the run.
    ///
    /// # Errors
    ///
    /// The run ends.
    fn look(&mut self) -> Result<(), Self::Failure>;
}

impl PairedRun<'_> {
    /// Runs the commands to their end.
    ///
    /// # Errors
    ///
    /// A command failed or took too long, or the observer ended the run. Everything that was started is ended then.
    pub fn run<O: RunObserver>(self, observer: &mut O) -> Result<PairedCost, O::Failure> {
        let start =
            |command: Command, log: &Path| CommandGroup::start(command, log).map_err(RunFailure::from);
        let mut listener = None;
        if let Some(command) = self.listener {
            let group = start(command, &self.log.with_extension("listener"))?;
            observer.started(group.pid());
            wait_until_listening(&group, observer)?;
            listener = Some(group);
        }
        let began = Instant::now();
        observer.clock_starts(began);
        let near = start(self.near, self.log)?;
        observer.started(near.pid());
        let mut cpu = near.finish(self.limit, || observer.look())?.cpu();
        if let Some(listener) = listener {
            cpu += listener.finish(LISTENER_LIMIT, || observer.look())?.cpu();
        }
        Ok(PairedCost { wall: began.elapsed(), cpu })
    }
}

fn wait_until_listening<O: RunObserver>(group: &CommandGroup, observer: &mut O) -> Result<(), O::Failure> {
    let deadline = Instant::now() + LISTENER_LIMIT;
    while !observer.listens()? {
        observer.look()?;
        if group.ended_within(LOOK_EVERY).map_err(RunFailure::from)? || Instant::now() > deadline {
            let words = group.last_words();
            return Err(RunFailure(format!("the end that is to listen does not. {words}")).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::listens;

    struct Port(u16, Vec<u32>);

    impl RunObserver for Port {
        type Failure = RunFailure;

        fn started(&mut self, pid: u32) {
            self.1.push(pid);
        }

        fn listens(&mut self) -> Result<bool, RunFailure> {
            Ok(listens(std::process::id(), self.0))
        }

        fn look(&mut self) -> Result<(), RunFailure> {
            Ok(())
        }
    }

    fn run(near: &str, listener: Option<&str>, port: u16) -> (Result<PairedCost, RunFailure>, usize) {
        let place = tempfile::tempdir().unwrap();
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let (near, listener) = (shell(near), listener.map(shell));
        let limit = Duration::from_secs(100);
        let mut observer = Port(port, Vec::new());
        let cost = PairedRun { near, listener, limit, log: &place.path().join("log") }.run(&mut observer);
        (cost, observer.1.len())
    }

    #[test]
    fn the_clock_runs_until_both_have_ended() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let (cost, started) = run("exit 0", Some("sleep 0.3"), port);
        assert!(cost.unwrap().wall > Duration::from_millis(100));
        assert_eq!(started, 2);
        let (cost, _) = run("exit 0", Some("sleep 0.1; echo lost; exit 1"), port);
        assert_eq!(cost.unwrap_err().0, "lost");
    }

    #[test]
    fn a_listener_that_ends_is_told_by_its_words() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (cost, started) = run("exit 0", Some("echo no such port"), free);
        assert_eq!(cost.unwrap_err().0, "the end that is to listen does not. no such port");
        assert_eq!(started, 1);
    }
}
