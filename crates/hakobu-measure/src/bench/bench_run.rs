//! Runs a whole bench: exploration first, then the search for sizes, then the rounds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::case::{BenchCase, DataDirection, DataKind, EndKinds, Initiator, Method};
use super::case_scripts::{CaseScripts, lines};
use super::components;
use super::error::{BenchError, BenchResult, words_of};
use super::explore::explore;
pub use super::login::{BenchLogin, ReverseLogin};
use super::login::{copy_host, hakobu_host, ssh_of_hakobu};
use super::names::{NOT_PLACED, NamedFile, ScriptNames};
use super::plan::{LeftOut, plan};
use super::report;
use super::result::{BenchResults, Row, Timing};
use super::run::{BenchTask, ListeningCommand, NoTiming, once};
use super::scratch::{ScratchPair, file_name, forget, is_on_disk, near_source, source_is_here};
use super::scripts::ListenCommand;
use super::settings::BenchMachines;
pub use super::settings::Settings;
use super::typed_names::TypedNamesShown;
use super::upload::bring;

/// The file name of the report that a measured hakobu writes beside the data.
const REPORT: &str = "report.json";
/// The maximum number of rounds, which a sufficient time budget allows.
const ROUNDS: usize = 3;
/// The minimum and maximum duration of a run, in seconds.
const RUN_S: (f64, f64) = (0.7, 3.0);
/// The duration of a run besides its start and its data, for looks and cleanup, in seconds.
const BESIDE_S: f64 = 0.3;
/// The number of bytes that the first run of a row sends.
const FIRST_BYTES: u64 = 16 << 20;
/// The maximum growth of the size from one try to the next.
const GROWTH_MAX: f64 = 16.0;
const TRIES_MAX: usize = 4;
/// The time limit of a run. A longer run has failed.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// The minimum time budget for measuring ciphers and compressors separately.
const BUDGET_FOR_PARTS: Duration = Duration::from_secs(60);
/// The share of the budget for finding sizes.
const SHARE_FOR_SIZES: f64 = 0.6;

/// The time that logins, exploration and two short rows take with fast logins, on one machine and with a host. Less
/// does not allow a comparison.
const LEAST_BUDGET: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(15));
/// The granularity of the suggested budget, in seconds.
const ADVICE_STEP_S: f64 = 5.0;

/// Returns the minimum time budget. A bench is not started with less.
#[must_use]
pub fn least_budget(has_host: bool) -> Duration {
    if has_host { LEAST_BUDGET.1 } else { LEAST_BUDGET.0 }
}

/// Progress of a bench.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BenchProgress {
    /// Information for the user before the bench starts.
    Says(String),
    /// The number of finished runs, the total number of runs, and a label of the current one.
    Run(usize, usize, String),
}

/// Measures everything that the settings request.
///
/// # Errors
/// If the login fails, nothing can be measured, the time does not suffice for one row, or `stop` returns true. A host
/// that is lost during the runs ends the bench early with the results so far. An error in one row is stored in that
/// row.
pub fn bench(
    settings: &Settings,
    tell: &mut dyn FnMut(BenchProgress),
    stop: &dyn Fn() -> bool,
) -> BenchResult<BenchResults> {
    let began = Instant::now();
    let site = explore(settings, &mut |words| tell(BenchProgress::Says(words)), stop)?;
    let (mut cases, mut left_out) = plan(&site.ground);
    let mut bench = BenchResults {
        host: settings.login.as_ref().map(|login| login.typed.clone()),
        same_machine: site.same_machine,
        same_network: site.same_network,
        machines: site.machines.clone(),
        ..BenchResults::default()
    };
    if cases.is_empty() {
        return Err(BenchError::Nothing("there is no way that both ends have the tools for".to_owned()));
    }
    let parts_time = if settings.budget >= BUDGET_FOR_PARTS { 10.0 } else { 0.0 };
    let beside = began.elapsed().as_secs_f64() + parts_time;
    let left = settings.budget.as_secs_f64() - beside;
    let Some((keep, rounds, run_seconds)) = share_out(left, cases.len(), site.login_seconds) else {
        let two_rows = 2.0 * row_seconds(1, RUN_S.0, site.login_seconds);
        return Err(BenchError::Budget(out_of_budget(settings.budget, beside, two_rows)));
    };
    let mut dropped = cases.split_off(keep.min(cases.len()));
    bench.rounds = rounds;
    let mut course = BenchRun {
        site,
        settings,
        rounds,
        run_seconds,
        deadline: began + settings.budget,
        done: 0,
        total: cases.len() * rounds,
        brought: BTreeSet::new(),
        brought_bytes: (0, 0),
        sizes: Vec::new(),
        stop,
    };
    let seconds = beside + cases.len() as f64 * row_seconds(rounds, run_seconds, course.site.login_seconds);
    tell(BenchProgress::Says(course.announcement(cases.len(), seconds.min(settings.budget.as_secs_f64()))));
    course.install(&mut left_out)?;
    if settings.budget >= BUDGET_FOR_PARTS {
        tell(BenchProgress::Run(0, course.total, "ciphers and compressors".to_owned()));
        let tools = course.site.ground.tools.here.clone();
        bench.ciphers = components::openssl_ciphers(&tools, stop);
        bench.compressors = components::compressors(&tools, Path::new(course.site.memory.near.path()), stop);
    } else {
        let why = "the time budget is below a minute".to_owned();
        left_out
            .push(LeftOut { what: "openssl's ciphers and the compressors by themselves".to_owned(), why });
    }
    let (rows, ended_early) = course.all(&cases, tell, &mut dropped)?;
    left_out.extend(out_of_time(&dropped));
    bench.script_of_ssh = course.typed().script_of_ssh();
    left_out.extend(std::mem::take(&mut course.site.left_out));
    bench.rows = rows;
    bench.ended_early = ended_early;
    bench.left_out = left_out;
    Ok(bench)
}

/// Returns the duration of all rounds of a row in seconds, if the start alone takes `start`. The first round finds
/// the size and needs more than one run for it. Each later round begins with a measurement of the start alone.
fn row_seconds(rounds: usize, run: f64, start: f64) -> f64 {
    let (beside, later) = (start + BESIDE_S, rounds.saturating_sub(1) as f64);
    (2.5 + 2.0 * later) * beside + (1.5 + later) * run
}

/// Returns the number of rows that fit into the time, the number of rounds, and the duration of a run in seconds, if
/// the start alone takes `start`. `None` if no row fits.
fn share_out(seconds: f64, cases: usize, start: f64) -> Option<(usize, usize, f64)> {
    let each = seconds / cases.max(1) as f64;
    for rounds in (1..=ROUNDS).rev() {
        let run = (each - row_seconds(rounds, 0.0, start)) / (1.5 + (rounds - 1) as f64);
        if run >= RUN_S.0 {
            return Some((cases, rounds, run.min(RUN_S.1)));
        }
    }
    let keep = (seconds / row_seconds(1, RUN_S.0, start)) as usize;
    (keep > 0).then(|| (keep.min(cases), 1, RUN_S.0))
}

/// Explains why nothing is measured, and which budget would suffice.
fn out_of_budget(budget: Duration, beside: f64, two_rows: f64) -> String {
    let least = ((beside + two_rows) / ADVICE_STEP_S).ceil() * ADVICE_STEP_S;
    format!(
        "the time budget of {} s has no room for a row: all that comes before takes {beside:.0} s here, and hakobu and another one to \
         compare it with about {two_rows:.0} s. It takes --time-budget {least:.0}s at least",
        budget.as_secs()
    )
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn out_of_time(cases: &[BenchCase]) -> Option<LeftOut> {
    // Parameters that most rows share are not listed.
    let label = |case: &BenchCase| {
        let from = (case.direction == DataDirection::FromHost).then_some("from the host");
        let content = Some(case.content).filter(|content| *content != DataKind::Random).map(DataKind::name);
        let ends = Some(case.ends).filter(|ends| *ends != EndKinds::MemoryToNothing).map(EndKinds::name);
        let more = [from, content, ends].into_iter().flatten().map(|more| format!(", {more}"));
        case.label() + &more.collect::<String>()
    };
    let labels: BTreeSet<String> = cases.iter().map(label).collect();
    let shown: Vec<&str> = labels.iter().take(8).map(String::as_str).collect();
    let more = if labels.len() > shown.len() { " and others" } else { "" };
    (!cases.is_empty()).then(|| LeftOut {
        what: counted(cases.len(), "row"),
        why: format!("the time budget; --time-budget gives more: {}{more}", shown.join("; ")),
    })
}

/// The result of a run.
struct RunResult {
    timing: Timing,
    lines: CaseScripts,
    /// The transport that hakobu used.
    transport: Option<String>,
}

struct BenchRun<'a> {
    site: BenchMachines,
    settings: &'a Settings,
    rounds: usize,
    run_seconds: f64,
    deadline: Instant,
    done: usize,
    total: usize,
    /// The sources that are on the host.
    brought: BTreeSet<String>,
    /// Their total size in bytes, in memory and on disk.
    brought_bytes: (u64, u64),
    /// The number of bytes that each row sends, as far as known.
    sizes: Vec<(BenchCase, u64)>,
    stop: &'a dyn Fn() -> bool,
}

impl BenchRun<'_> {
    /// Describes what will be done, before it starts.
    fn announcement(&self, cases: usize, seconds: f64) -> String {
        let most = self.site.disk.as_ref().map_or(0, |disk| disk.most_bytes).max(self.site.memory.most_bytes);
        let mut words = format!(
            "{}, {}, about {seconds:.0} s in all; a run sends {} MB at most and takes about {:.1} s beside its start; scratch files are in {}",
            counted(cases, "row"),
            counted(self.rounds, "round"),
            most / 1_000_000,
            self.run_seconds,
            self.site.memory.near.path(),
        );
        if let Some(disk) = &self.site.disk {
            words.push_str(&format!(" and {}", disk.near.path()));
        }
        if let (Some(login), Some(far)) = (&self.settings.login, &self.site.memory.far) {
            words.push_str(&format!(", on {} in {far}", login.typed));
            if let Some(far) = self.site.disk.as_ref().and_then(|disk| disk.far.as_ref()) {
                words.push_str(&format!(" and {far}"));
            }
        }
        words.push_str(", and go in the end");
        words
    }

    /// Copies this program to the host beside the data if it is not installed there. Otherwise each run would upload
    /// it first.
    fn install(&mut self, left_out: &mut Vec<LeftOut>) -> BenchResult<()> {
        if self.settings.login.is_none() || !self.site.far_program.is_empty() {
            return Ok(());
        }
        let place = self.site.disk.as_ref().unwrap_or(&self.site.memory);
        let target = format!("{}/hakobu", place.far.as_deref().unwrap_or_default());
        let brought = self.bring(&self.settings.program.clone(), &target);
        let why = match (brought, &mut self.site.far) {
            (Ok(()), Some(far)) => match far.tried_out(&target)? {
                None => {
                    self.site.far_program = target;
                    return Ok(());
                }
                Some(words) => format!("what was built here does not run there ({words})"),
            },
            (Ok(()), None) => return Ok(()),
            (Err(NoTiming::Ends(error)), _) => return Err(error),
            (Err(NoTiming::Row(why)), _) => why,
        };
        // hakobu's rows then upload the agent, as a copy would, and report the outcome.
        left_out.push(LeftOut { what: "this program on the host".to_owned(), why });
        Ok(())
    }

    /// Copies a file to the host.
    fn bring(&self, file: &Path, target: &str) -> std::result::Result<(), NoTiming> {
        match &self.settings.login {
            Some(login) => {
                bring(login, (file, target), (&self.log(&self.site.memory), &self.site.keeper), self.stop)
            }
            None => Ok(()),
        }
    }

    /// Runs all rows: a first round that also finds the sizes, then the other rounds, each starting with a different
    /// row.
    fn all(
        &mut self,
        cases: &[BenchCase],
        tell: &mut dyn FnMut(BenchProgress),
        dropped: &mut Vec<BenchCase>,
    ) -> BenchResult<(Vec<Row>, Option<String>)> {
        let for_sizes = self.settings.budget.mul_f64(if self.rounds > 1 { SHARE_FOR_SIZES } else { 1.0 });
        let sizes_end = (self.deadline - self.settings.budget) + for_sizes;
        let mut rows: Vec<Row> = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            if Instant::now() > sizes_end && index > 0 {
                dropped.splice(..0, cases[index..].iter().cloned());
                self.total = index * self.rounds;
                break;
            }
            tell(BenchProgress::Run(self.done, self.total, case.label()));
            match self.first(case) {
                Ok(row) => rows.push(row),
                Err(BenchError::Stopped) => return Err(BenchError::Stopped),
                Err(error) if rows.is_empty() => return Err(error),
                Err(error) => return Ok((rows, Some(error.to_string()))),
            }
            self.done += 1;
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        for _ in 1..self.rounds {
            let by = rows.len().min(7) / 2;
            order.rotate_left(by);
            for index in &order {
                let Some(row) = rows.get_mut(*index) else { continue };
                self.done += 1;
                if row.failed.is_some() || Instant::now() > self.deadline {
                    continue;
                }
                tell(BenchProgress::Run(self.done, self.total, row.case.label()));
                match self.again(&row.case, row.size_bytes) {
                    Ok((start, run)) => {
                        row.starts.push(start.timing);
                        row.went(start.transport);
                        row.runs.push(run.timing);
                        row.went(run.transport);
                    }
                    Err(NoTiming::Row(why)) => row.failed = Some(why),
                    Err(NoTiming::Ends(BenchError::Stopped)) => return Err(BenchError::Stopped),
                    Err(NoTiming::Ends(error)) => return Ok((rows, Some(error.to_string()))),
                }
            }
        }
        Ok((rows, None))
    }

    /// Runs a row in a later round. The start is measured again as well, since the speed of a machine may vary over
    /// time.
    fn again(
        &mut self,
        case: &BenchCase,
        bytes: u64,
    ) -> std::result::Result<(RunResult, RunResult), NoTiming> {
        Ok((self.once(case, 1)?, self.once(case, bytes)?))
    }

    /// Measures the start alone, then sends more and more data until a run takes long enough. That run counts.
    fn first(&mut self, case: &BenchCase) -> BenchResult<Row> {
        let mut row = Row::of(case);
        match self.find_size(case, &mut row) {
            Ok(()) => {
                self.sizes.push((case.clone(), row.size_bytes));
                Ok(row)
            }
            Err(NoTiming::Row(why)) => {
                row.failed = Some(why);
                Ok(row)
            }
            Err(NoTiming::Ends(error)) => Err(error),
        }
    }

    fn find_size(&mut self, case: &BenchCase, row: &mut Row) -> std::result::Result<(), NoTiming> {
        let start = self.once(case, 1)?;
        row.starts.push(start.timing);
        row.command = start.lines.shown;
        row.went(start.transport);
        let most = self.place(case)?.most_bytes;
        row.size_bytes = self.guess(case).min(most);
        for _ in 0..TRIES_MAX {
            let RunResult { timing, transport, .. } = self.once(case, row.size_bytes)?;
            row.went(transport);
            let seconds = (timing.wall_seconds - row.start_seconds()).max(0.005);
            let next = next_size(row.size_bytes, seconds, self.run_seconds.max(row.start_seconds()), most);
            if next == row.size_bytes || Instant::now() > self.deadline {
                row.runs.push(timing);
                return Ok(());
            }
            row.size_bytes = next;
        }
        let RunResult { timing, transport, .. } = self.once(case, row.size_bytes)?;
        row.went(transport);
        row.runs.push(timing);
        Ok(())
    }

    /// Returns a first guess for the size, from the latest row with the same method, compressor and ends.
    fn guess(&self, case: &BenchCase) -> u64 {
        let known = self.sizes.iter().rev().find(|(other, _)| {
            (other.way, other.compressor, other.ends) == (case.way, case.compressor, case.ends)
        });
        known.map_or(FIRST_BYTES, |(_, bytes)| (bytes / 4).max(FIRST_BYTES))
    }

    fn place(&self, case: &BenchCase) -> std::result::Result<&ScratchPair, NoTiming> {
        let no_disk = || NoTiming::Row("there is no place on a disk".to_owned());
        if is_on_disk(case) { self.site.disk.as_ref().ok_or_else(no_disk) } else { Ok(&self.site.memory) }
    }

    /// Runs once, with the source prepared and the target emptied, and checks what arrived.
    fn once(&mut self, case: &BenchCase, bytes: u64) -> std::result::Result<RunResult, NoTiming> {
        if (self.stop)() {
            return Err(BenchError::Stopped.into());
        }
        self.prepare(case, bytes)?;
        let place = self.place(case)?;
        let names = self.names(case, place, bytes);
        let lines = lines(case, &names, &self.site.ground.tools, &self.typed())
            .ok_or_else(|| NoTiming::Row("the tools that are there cannot do it".to_owned()))?;
        let environment = self.environment(case, &names, &lines);
        let log = self.log(place);
        let listener = self.waiting(&lines, &names, &environment);
        let serves = case.starter == Initiator::There && !case.way.has_own_connection();
        let task = BenchTask {
            near: &lines.near,
            environment: &environment,
            listener,
            serves,
            limit: RUN_LIMIT,
            log: &log,
            keeper: &self.site.keeper,
        };
        let outcome = once(task, self.site.far.as_mut(), self.stop);
        let timing = match outcome {
            // If the run failed because the host was lost, the host's shell reports that.
            Err(NoTiming::Row(why)) => {
                if let Some(far) = &mut self.site.far {
                    far.ask(":")?;
                }
                return Err(NoTiming::Row(why));
            }
            other => other?,
        };
        if case.ends != EndKinds::MemoryToNothing {
            self.check_arrival(case, &names, bytes)?;
        }
        let transport = if case.way == Method::Hakobu { Some(self.transport(case, &names)?) } else { None };
        Ok(RunResult { timing, lines, transport })
    }

    /// Returns the command that must listen before a run starts.
    fn waiting(
        &self,
        lines: &CaseScripts,
        names: &ScriptNames,
        environment: &[(&str, String)],
    ) -> Option<ListeningCommand> {
        let (Some(ssh), Some(login)) = (&self.site.ssh, &self.settings.login) else { return None };
        Some(match lines.listener.as_ref()? {
            ListenCommand::There(line) => {
                let mut command = Command::new(ssh);
                command.arg("--").arg(&login.host).arg(line);
                ListeningCommand { command, there: true, port: names.port }
            }
            ListenCommand::Here(script) => {
                let mut command = Command::new("sh");
                command.args(["-c", script]).envs(environment.iter().map(|(name, value)| (name, value)));
                ListeningCommand { command, there: false, port: names.near_port.as_ref()?.1 }
            }
        })
    }

    /// Returns the transport that hakobu used, from the report of the previous run.
    fn transport(&mut self, case: &BenchCase, names: &ScriptNames) -> std::result::Result<String, NoTiming> {
        let unknown = || NoTiming::Row("its report does not say which way it went".to_owned());
        let found = match (case.starter, &mut self.site.far, &names.far_report) {
            (Initiator::There, Some(far), Some(path)) => {
                let lines = far.ask(&report::question(path))?;
                report::transport(lines.iter().map(String::as_str))
            }
            _ => {
                let text = std::fs::read_to_string(self.near_report()).unwrap_or_default();
                report::transport(text.lines())
            }
        };
        found.ok_or_else(unknown)
    }

    /// Returns the path of the file for the output of commands.
    fn log(&self, place: &ScratchPair) -> PathBuf {
        Path::new(place.near.path()).join("log")
    }

    fn near_report(&self) -> PathBuf {
        Path::new(self.site.memory.near.path()).join(REPORT)
    }

    /// Returns the names that people type for what the command lines name.
    fn typed(&self) -> TypedNamesShown {
        TypedNamesShown {
            login: self.settings.login.clone(),
            hakobu: self.settings.program.to_string_lossy().into_owned(),
            agent: self.site.far_program_typed.clone(),
            address: (self.address(), self.site.port),
        }
    }

    /// Returns the address of the host.
    fn address(&self) -> String {
        let host = self.settings.login.as_ref().map(|login| login.host.clone()).unwrap_or_default();
        self.site.address.map_or(host, |address| address.to_string())
    }

    fn names(&self, case: &BenchCase, place: &ScratchPair, bytes: u64) -> ScriptNames {
        let near = place.near.path();
        let far = place.far.as_deref().unwrap_or(near);
        let name = file_name(case.content, bytes);
        let spot = |at: &str, part: &str| NamedFile::at(&format!("{at}/{part}/{name}"));
        ScriptNames {
            near_source: spot(near, "source"),
            near_target: spot(near, "target"),
            far_source: spot(far, "source"),
            far_target: spot(far, "target"),
            port: self.site.port,
            near_port: self.site.near_port.clone(),
            back: self.site.back.clone(),
            far_hakobu: match self.site.far_program.as_str() {
                "" => NOT_PLACED.to_owned(),
                path => path.to_owned(),
            },
            near_hakobu: self.site.near_program.clone(),
            far_report: self.site.memory.far.as_ref().map(|far| format!("{far}/{REPORT}")),
        }
    }

    fn environment(
        &self,
        case: &BenchCase,
        names: &ScriptNames,
        lines: &CaseScripts,
    ) -> Vec<(&'static str, String)> {
        let nothing = case.ends == EndKinds::MemoryToNothing;
        let target = if nothing { "/dev/null".to_owned() } else { names.near_target.path.clone() };
        let mut all = vec![
            ("SOURCE", names.near_source.path.clone()),
            ("TARGET", target),
            ("REPORT", self.near_report().to_string_lossy().into_owned()),
            ("HAKOBU", self.settings.program.to_string_lossy().into_owned()),
            ("HAKOBU_SETTINGS", self.site.settings_of_hakobu.clone()),
            ("PORT", names.port.to_string()),
            ("LC_ALL", "C".to_owned()),
        ];
        if let (Some(login), Some(ssh)) = (&self.settings.login, &self.site.ssh) {
            all.extend([
                ("SSH", ssh.to_string_lossy().into_owned()),
                ("HOST", login.host.clone()),
                ("COPY_HOST", copy_host(&login.host)),
                ("HAKOBU_SSH", ssh_of_hakobu(login)),
                ("HAKOBU_HOST", hakobu_host(login)),
                ("ADDRESS", self.address()),
                ("FAR", lines.far.clone().unwrap_or_default()),
            ]);
        }
        all
    }

    /// Creates the source on the machine that needs it, and empties the target.
    fn prepare(&mut self, case: &BenchCase, bytes: u64) -> std::result::Result<(), NoTiming> {
        let row = |error: BenchError| NoTiming::Row(error.to_string());
        let place = self.place(case)?;
        let not_emptied = |error| NoTiming::Row(format!("emptying the target: {}", words_of(&error)));
        place.near.clear_target().map_err(not_emptied)?;
        let name = file_name(case.content, bytes);
        let near = near_source(place, case.content, bytes).map_err(row)?;
        if is_on_disk(case) && source_is_here(case) {
            let failed = |error| NoTiming::Row(format!("{}: {}", near.display(), words_of(&error)));
            forget(&near).map_err(failed)?;
        }
        let Some(far) = place.far.clone() else { return Ok(()) };
        let source = format!("{far}/source/{name}");
        let most = place.sources_bytes;
        if !source_is_here(case) && !self.brought.contains(&source) {
            let taken = if is_on_disk(case) { &mut self.brought_bytes.1 } else { &mut self.brought_bytes.0 };
            *taken = taken.saturating_add(bytes);
            if *taken > most {
                *taken = bytes;
                self.brought.retain(|path| !path.starts_with(&format!("{far}/")));
                if let Some(shell) = &mut self.site.far {
                    shell.ask(&format!("rm -rf {far}/source; mkdir {far}/source"))?;
                }
            }
            self.brought.insert(source.clone());
            self.bring(&near, &source).inspect_err(|_| {
                self.brought.remove(&source);
            })?;
        }
        if let Some(shell) = &mut self.site.far {
            let mut script = format!("rm -rf {far}/target; mkdir {far}/target");
            if is_on_disk(case) && !source_is_here(case) {
                script
                    .push_str(&format!("; sync {source}; dd if={source} iflag=nocache count=0 2>/dev/null"));
            }
            shell.ask(&script)?;
        }
        Ok(())
    }

    /// Returns an error if fewer or more bytes arrived than were sent.
    fn check_arrival(
        &mut self,
        case: &BenchCase,
        names: &ScriptNames,
        bytes: u64,
    ) -> std::result::Result<(), NoTiming> {
        let arrived = match (case.direction, &mut self.site.far) {
            (DataDirection::ToHost, Some(far)) => {
                let lines = far.ask(&format!(
                    "set -- $(ls -ln {} 2>/dev/null); echo \"size ${{5-}}\"",
                    names.far_target.path
                ))?;
                lines.iter().find_map(|line| line.strip_prefix("size ")?.parse::<u64>().ok())
            }
            _ => std::fs::metadata(&names.near_target.path).ok().map(|found| found.len()),
        };
        match arrived {
            Some(arrived) if arrived == bytes => Ok(()),
            Some(arrived) => Err(NoTiming::Row(format!("{arrived} of {bytes} bytes arrived"))),
            None => Err(NoTiming::Row("nothing arrived".to_owned())),
        }
    }
}

/// Returns the size, a power of two in bytes, that should take about `wanted` seconds. Returns `bytes` if that is
/// close enough.
fn next_size(bytes: u64, seconds: f64, wanted: f64, most: u64) -> u64 {
    let factor = (wanted / seconds).min(GROWTH_MAX);
    if factor < 1.6 {
        return bytes;
    }
    let exact = bytes as f64 * factor;
    let power = 2_f64.powf(exact.log2().round()) as u64;
    power.clamp(bytes, most.max(bytes))
}

#[cfg(test)]
mod tests {
    use super::super::case::{DataKind, Method};
    use super::*;

    #[test]
    fn time_is_shared_out() {
        let (keep, rounds, run) = share_out(150.0, 20, 0.3).unwrap();
        assert_eq!((keep, rounds), (20, 3));
        assert!((0.7..2.0).contains(&run), "{run}");
        let all = 20.0 * row_seconds(rounds, run, 0.3);
        assert!((all - 150.0).abs() < 1e-6, "{all}");
        assert_eq!(share_out(6000.0, 20, 0.3), Some((20, 3, 3.0)));
        assert_eq!(share_out(90.0, 30, 0.3).unwrap().1, 1, "a slow login leaves time for fewer rounds");
        let (keep, rounds, run) = share_out(9.0, 40, 0.3).unwrap();
        assert!(keep < 6 && keep > 1 && rounds == 1 && run == 0.7, "{keep}");
        for too_short in [-3.0, 0.5, row_seconds(1, RUN_S.0, 0.3) - 0.01] {
            assert_eq!(share_out(too_short, 40, 0.3), None, "{too_short}");
        }
    }

    #[test]
    fn what_is_advised_is_enough() {
        let words = out_of_budget(Duration::from_secs(15), 13.2, 9.1);
        assert!(
            words.contains("of 15 s has no room") && words.ends_with("--time-budget 25s at least"),
            "{words}"
        );
        for (has_host, login_seconds) in [(false, 0.0), (true, 0.3)] {
            let least = least_budget(has_host).as_secs_f64();
            assert!(share_out(least * 0.8, 40, login_seconds).unwrap().0 >= 2);
        }
    }

    #[test]
    fn sizes_grow_to_what_takes_long_enough() {
        let mib = 1 << 20;
        assert_eq!(next_size(16 * mib, 0.01, 2.0, u64::MAX), 256 * mib, "by steps");
        assert_eq!(next_size(16 * mib, 0.5, 2.0, u64::MAX), 64 * mib);
        assert_eq!(next_size(16 * mib, 0.5, 2.0, 40 * mib), 40 * mib, "what there is room for");
        assert_eq!(next_size(40 * mib, 0.5, 2.0, 40 * mib), 40 * mib);
        assert_eq!(next_size(16 * mib, 9.0, 2.0, u64::MAX), 16 * mib, "never smaller");
        assert_eq!(next_size(16 * mib, 1.5, 2.0, u64::MAX), 16 * mib, "near enough");
    }

    #[test]
    fn what_there_is_no_time_for_is_named() {
        assert_eq!(out_of_time(&[]), None);
        let cases = [
            BenchCase::plain(Method::Nc, DataDirection::ToHost),
            BenchCase::plain(Method::Scp, DataDirection::ToHost),
        ];
        let out = out_of_time(&cases).unwrap();
        assert_eq!((&*out.what, &*out.why), ("2 rows", "the time budget; --time-budget gives more: nc; scp"));
        let random = BenchCase { content: DataKind::Zeros, ..cases[0].clone() };
        let out = out_of_time(&[random]).unwrap();
        assert_eq!((&*out.what, out.why.rsplit(": ").next()), ("1 row", Some("nc, zeros")));
        let back = BenchCase::plain(Method::Nc, DataDirection::FromHost);
        assert!(out_of_time(&[back]).unwrap().why.ends_with(": nc, from the host"));
    }
}
