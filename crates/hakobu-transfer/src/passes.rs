//! Makes several passes over a source in use. Each copies what has changed since the one before, until the last one,
//! for which the source is held still, is short enough.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Event;
use hakobu_core::units::{format_bytes, format_duration};

use crate::carryover::Carryover;
use crate::timed_prompts::TimedPrompts;
use crate::transfer::run_once;
use hakobu_core::outcome::{Pass, RunEnvironment, Transfer};
use hakobu_core::request::{CopyRequest, Passes};

/// The maximum number of passes of one run. A source that needs more changes faster than it can be read.
pub const PASSES_MAX: u32 = 100;
/// The number of passes no shorter than the shortest before them after which the run is given up.
const NO_GAIN_MAX: u32 = 3;
/// The number of passes that found nothing changed after which the run is given up: none can be shorter.
const IDLE_MAX: usize = 2;

/// True if this process holds a source still, or is about to.
static HOLDS_STILL: AtomicBool = AtomicBool::new(false);

/// Returns true if this process holds a source still, or is about to. If it ended now, the source would stay frozen.
pub fn holds_still() -> bool {
    HOLDS_STILL.load(SeqCst)
}

/// Runs the passes. Returns the result of the last one that was run.
pub fn run(request: &CopyRequest, passes: &Passes, surroundings: &mut RunEnvironment<'_>) -> Transfer {
    let mut carryover = Carryover::for_more();
    if request.dry_run {
        // A dry run does not hold the source still.
        return run_once(request, surroundings, &mut carryover);
    }
    let mut done: Vec<Pass> = Vec::new();
    loop {
        match is_last(passes, &done) {
            Err(error) => {
                let mut transfer = Transfer { passes: done, ..Transfer::default() };
                transfer.summary.fatal = Some(error);
                return transfer;
            }
            Ok(true) => return last(request, passes, surroundings, (done, carryover)),
            Ok(false) => {}
        }
        let (mut transfer, pass) = one(request, surroundings, &mut carryover);
        done.push(pass);
        stop_if_asked(&mut transfer, surroundings);
        if transfer.summary.fatal.is_some() || !transfer.summary.failures.is_empty() {
            transfer.passes = done;
            return transfer;
        }
        let words = format!(
            "pass {}: {} changed, {}; the next will take about {}",
            done.len(),
            format_bytes(pass.written_bytes),
            format_duration(Duration::try_from_secs_f64(pass.seconds).unwrap_or_default()),
            format_duration(expected(&done)),
        );
        surroundings.observer.event(Event::Notice { words });
    }
}

/// Returns true if the next pass is the last. Fails if `until_under` cannot be met.
fn is_last(passes: &Passes, done: &[Pass]) -> Result<bool> {
    let next = done.len() as u32 + 1;
    if passes.count.is_some_and(|count| next >= count) {
        return Ok(true);
    }
    let (Some(limit), false) = (passes.until_under, done.is_empty()) else { return Ok(false) };
    if expected(done) <= limit {
        return Ok(true);
    }
    let (mut shortest, mut no_gain) = (f64::MAX, 0);
    for pass in done {
        no_gain = if pass.seconds < shortest * 0.95 { 0 } else { no_gain + 1 };
        shortest = shortest.min(pass.seconds);
    }
    let idle = done.iter().rev().take_while(|pass| pass.written_bytes == 0).count();
    if no_gain < NO_GAIN_MAX && idle < IDLE_MAX && next < PASSES_MAX {
        return Ok(false);
    }
    let words = format!(
        "--until-under {} cannot be met: after {} passes the next one would still take about {}; everything copied \
         so far stays at the target",
        format_duration(limit),
        done.len(),
        format_duration(expected(done))
    );
    Err(Error::new(ErrorKind::Refused, "making passes", words))
}

/// Estimates the duration of the next pass. Reading both sides takes as long as in the last pass. The first pass,
/// which may have written everything, shows the rate of writing.
fn expected(done: &[Pass]) -> Duration {
    let Some(last) = done.last() else { return Duration::MAX };
    let mut seconds = last.seconds;
    if let [first, .., before, _] | [first @ before, _] = done
        && before.written_bytes > last.written_bytes
        && first.written_bytes > 0
    {
        // In a shorter pass proportionally less will change.
        let share = last.seconds / before.seconds.max(0.001);
        let saved = last.written_bytes as f64 * (1.0 - share).clamp(0.0, 1.0);
        seconds -= saved / first.written_bytes as f64 * first.seconds;
    }
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

fn one(
    request: &CopyRequest,
    surroundings: &mut RunEnvironment<'_>,
    carryover: &mut Carryover,
) -> (Transfer, Pass) {
    let began = Instant::now();
    let (observer, cancel, limits) =
        (surroundings.observer, surroundings.cancel.clone(), surroundings.limits.clone());
    let mut prompts = TimedPrompts::new(&mut *surroundings.prompts);
    let transfer = {
        let mut surroundings = RunEnvironment { prompts: &mut prompts, observer, cancel, limits };
        run_once(request, &mut surroundings, carryover)
    };
    let written_bytes = transfer.summary.counters.target_written_bytes;
    // The next pass does not wait for a person.
    let time = began.elapsed().saturating_sub(prompts.waited);
    (transfer, Pass { seconds: time.as_secs_f64(), written_bytes })
}

/// Makes the last pass, with the source frozen.
fn last(
    request: &CopyRequest,
    passes: &Passes,
    surroundings: &mut RunEnvironment<'_>,
    (done, mut carryover): (Vec<Pass>, Carryover),
) -> Transfer {
    if done.is_empty() && passes.before_last.is_some() {
        // Nothing is stopped for a run that would be refused.
        carryover.only_agrees = true;
        let mut agreed = run_once(request, surroundings, &mut carryover);
        carryover.only_agrees = false;
        stop_if_asked(&mut agreed, surroundings);
        if agreed.summary.fatal.is_some() {
            return agreed;
        }
    }
    HOLDS_STILL.store(passes.after_last.is_some(), SeqCst);
    let transfer = last_held(request, passes, surroundings, (done, carryover));
    HOLDS_STILL.store(false, SeqCst);
    transfer
}

fn last_held(
    request: &CopyRequest,
    passes: &Passes,
    surroundings: &mut RunEnvironment<'_>,
    (mut done, mut carryover): (Vec<Pass>, Carryover),
) -> Transfer {
    carryover.is_last = true;
    let say = |command: &Option<String>, doing: &str| {
        if let Some(command) = command {
            surroundings.observer.event(Event::Notice { words: format!("{doing}: {command}") });
        }
    };
    say(&passes.before_last, "freezing the source");
    // The service may stop as soon as the command begins, and run again only when the other one has ended.
    let held_since = passes.before_last.is_some().then(Instant::now);
    let mut transfer = match shell(passes.before_last.as_deref(), "--before-last-pass") {
        // A user who has stopped the run wants no further pass, but the source must not stay frozen either.
        Ok(()) if surroundings.cancel.load(Relaxed) => failed(stopped()),
        Ok(()) => {
            carryover.is_still = passes.before_last.is_some();
            let (transfer, pass) = one(request, surroundings, &mut carryover);
            done.push(pass);
            transfer
        }
        Err((error, CommandEffect::Maybe)) => failed(error),
        Err((error, CommandEffect::Not)) => {
            let error = error.hint(
                "the last pass was not made, and --after-last-pass was not run; check what --before-last-pass has done",
            );
            return Transfer { passes: done, ..failed(error) };
        }
    };
    transfer.passes = done;
    say(&passes.after_last, "thawing the source");
    let released = shell(passes.after_last.as_deref(), "--after-last-pass");
    transfer.held_still = held_since.map(|since| since.elapsed());
    if let Err((error, _)) = released {
        let error = error.hint("the last pass was made, but the source may still be frozen: thaw it by hand");
        match &transfer.summary.fatal {
            // Two errors occurred, and neither may hide the other.
            Some(_) => surroundings.observer.event(Event::Notice { words: error.to_string() }),
            None => transfer.summary.fatal = Some(error),
        }
    }
    transfer
}

fn stopped() -> Error {
    Error::new(ErrorKind::Cancelled, "making passes", "stopped before the last one")
}

/// Marks a run as stopped. A user who stops it while a pass ends by itself must not be told that everything is done,
/// because the last pass was not made.
fn stop_if_asked(transfer: &mut Transfer, surroundings: &RunEnvironment<'_>) {
    if surroundings.cancel.load(Relaxed) && transfer.summary.fatal.is_none() {
        transfer.summary.fatal = Some(stopped());
    }
}

fn failed(error: Error) -> Transfer {
    let mut transfer = Transfer::default();
    transfer.summary.fatal = Some(error);
    transfer
}

/// The effect of a command that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandEffect {
    /// The command reports that it did not do its work.
    Not,
    /// The command was killed and may have done its work, so the source has to be released.
    Maybe,
}

/// Runs a command in a process group of its own, because Ctrl-C in the terminal would otherwise end it half way.
fn shell(command: Option<&str>, option: &'static str) -> std::result::Result<(), (Error, CommandEffect)> {
    let Some(command) = command else { return Ok(()) };
    let failed = |words: String| Error::new(ErrorKind::Io, "running the command of", words).at(option);
    match Command::new("/bin/sh").arg("-c").arg(command).process_group(0).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let done = if status.code().is_some() { CommandEffect::Not } else { CommandEffect::Maybe };
            Err((failed(format!("`{command}` ended with {status}")), done))
        }
        Err(error) => Err((failed(format!("the shell cannot be run: {error}")), CommandEffect::Not)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(seconds: f64, written_bytes: u64) -> Pass {
        Pass { seconds, written_bytes }
    }

    #[test]
    fn a_count_is_kept() {
        let passes = Passes { count: Some(3), ..Passes::default() };
        let mut done = Vec::new();
        for last in [false, false, true] {
            assert_eq!(is_last(&passes, &done).unwrap(), last);
            done.push(pass(1.0, 5));
        }
    }

    #[test]
    fn the_last_pass_comes_when_it_fits_and_is_given_up_when_it_never_will() {
        let passes = Passes { until_under: Some(Duration::from_secs(10)), ..Passes::default() };
        assert!(!is_last(&passes, &[]).unwrap());
        assert!(!is_last(&passes, &[pass(100.0, 1000)]).unwrap());
        assert!(!is_last(&passes, &[pass(100.0, 1000), pass(30.0, 200)]).unwrap());
        assert!(is_last(&passes, &[pass(100.0, 1000), pass(30.0, 200), pass(9.0, 20)]).unwrap());
        let stuck = [pass(100.0, 1000), pass(30.0, 200), pass(30.0, 200), pass(30.0, 200), pass(30.0, 200)];
        assert!(!is_last(&passes, &stuck[..4]).unwrap());
        assert_eq!(is_last(&passes, &stuck).unwrap_err().kind, ErrorKind::Refused);
        // Times that go up and down are no progress.
        let noisy = [pass(100.0, 1000), pass(30.0, 5), pass(40.0, 5), pass(29.0, 5), pass(35.0, 5)];
        assert!(is_last(&passes, &noisy).is_err());
        // Without changes a pass reads both sides, which takes as long in every further one.
        let idle = [pass(100.0, 1000), pass(30.0, 0), pass(25.0, 0)];
        assert!(!is_last(&passes, &idle[..2]).unwrap());
        assert!(is_last(&passes, &idle).is_err());
    }

    #[test]
    fn less_time_to_change_means_less_to_bring_over() {
        assert_eq!(expected(&[pass(100.0, 1000)]).as_secs(), 100);
        // In 30 s instead of 100 s some 60 bytes will change, not 200: 14 s less at 10 bytes per second.
        let next = expected(&[pass(100.0, 1000), pass(30.0, 200)]).as_secs_f64();
        assert!((15.0..17.0).contains(&next), "{next}");
    }

    struct Nobody;

    impl hakobu_core::prompts::Prompts for Nobody {
        fn sudo_password(&mut self, _: &str, _: u32) -> Option<hakobu_core::prompts::Secret> {
            None
        }
    }

    impl hakobu_core::event::Observer for Nobody {
        fn event(&self, _: Event) {}
    }

    #[test]
    fn who_stops_it_before_the_last_pass_is_not_told_that_all_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name).into_os_string().into_encoded_bytes();
        std::fs::create_dir(folder.path().join("from")).unwrap();
        let request = CopyRequest {
            sources: vec![hakobu_core::location::Location::parse(&place("from")).unwrap()],
            target: hakobu_core::location::Location::parse(&place("to")).unwrap(),
            ..CopyRequest::default()
        };
        let passes = Passes { count: Some(1), before_last: Some("true".to_owned()), ..Passes::default() };
        let mut surroundings = RunEnvironment {
            prompts: &mut Nobody,
            observer: &Nobody,
            cancel: std::sync::Arc::new(true.into()),
            limits: std::sync::Arc::new(hakobu_core::live_limits::LiveLimits::new(
                hakobu_core::pace::RunLimits::default(),
                Instant::now,
            )),
        };
        let mut first = Transfer::default();
        stop_if_asked(&mut first, &surroundings);
        let whole = run(&request, &passes, &mut surroundings);
        for ended in [first, whole] {
            assert_eq!(ended.summary.fatal.map(|error| error.kind), Some(ErrorKind::Cancelled));
        }
        assert!(!folder.path().join("to").exists());
    }

    #[test]
    fn a_command_that_fails_is_named() {
        assert!(shell(None, "--before-last-pass").is_ok());
        assert!(shell(Some("true"), "--before-last-pass").is_ok());
        let (_, done) = shell(Some("kill -9 $$"), "--before-last-pass").unwrap_err();
        assert_eq!(done, CommandEffect::Maybe);
        let (error, done) = shell(Some("exit 3"), "--before-last-pass").unwrap_err();
        assert_eq!(done, CommandEffect::Not);
        assert!(error.to_string().contains("exit 3") && error.to_string().contains("--before-last-pass"));
    }
}
