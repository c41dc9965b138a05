//! The verb `bench`: the usual tools and hakobu side by side, on the user's own machines.
//!
//! `hakobu_measure::bench` decides what is run and how it is measured. Here are the line of progress, and what is shown in the end:
//! [`page`] for people, [`json`] for programs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, ErrorStep, Result};
use hakobu_core::location::SshHost;
use hakobu_core::path::lossy;
use hakobu_measure::bench::bench_run::{self, BenchProgress, ReverseLogin, Settings};
use hakobu_measure::bench::case::Method;
use hakobu_measure::bench::result::{BenchResults, PartSpeed, Row};
use hakobu_measure::bench::{self, shell::is_plain};
use hakobu_ssh::StartRefusal;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use self::arguments::BenchArguments;
use self::host_settings::BenchHostSettings;
use crate::commands::shared::{login, looking};
use crate::language::Language;
use crate::render::progress_bar::shows_progress;
use crate::report::write::{self, ReportFormat};
use crate::report::{html, markdown, text};
use crate::settings_file::ssh_variable;
use crate::words::{self, Machines};
use crate::{exit, messages, output, signals};

pub mod arguments;
mod host_settings;
mod json;
mod page;

/// The time budget if none is typed.
const BUDGET: Duration = Duration::from_secs(150);
const FULL_BUDGET: Duration = Duration::from_secs(20 * 60);
/// The time after an interruption in which runs are killed and scratch files removed on both hosts.
const FAREWELL: Duration = Duration::from_secs(10);
const MEASURING: &str = "measuring";
/// The exit code if some rows failed. The tables name them.
const PARTLY: u8 = 3;

/// Measures; returns the exit code.
pub fn bench(typed: &BenchArguments) -> u8 {
    let (mut settings, host) = match settings_of(typed) {
        Ok(settings) => settings,
        Err(error) => return exit::errors(&[error]),
    };
    let held = match host_settings::held(typed, host.as_ref().map(|host| host.host.as_str())) {
        Ok(held) => held,
        Err(errors) => return exit::errors(&errors),
    };
    settings.of_hakobu = held.of_rows();
    for (path, form) in [(&typed.html, ReportFormat::Html), (&typed.markdown, ReportFormat::Other)] {
        // A page that cannot be written is reported before the measurements.
        if let Some(Err(error)) = path.as_ref().map(|path| write::try_out(path, form)) {
            return exit::errors(&[error]);
        }
    }
    let cancel = match signals::cancel_flag() {
        Ok(cancel) => cancel,
        Err(error) => return exit::errors(&[Error::io("installing signal handlers", &error)]),
    };
    looking::end_when_interrupted(Arc::clone(&cancel), FAREWELL);
    held.words().iter().for_each(|words| output::tell_translated(&messages::note(words)));
    let bar = bar();
    let outcome = bench_run::bench(&settings, &mut |progress| show(&bar, progress), &|| cancel.load(Relaxed));
    bar.finish_and_clear();
    match outcome.map_err(|error| of_bench(&error, host.as_ref())) {
        Ok(mut bench) => {
            bench.ciphers.extend(own_ciphers());
            finish(typed, &bench, &held)
        }
        Err(error) => {
            let far = host.iter().map(SshHost::destination).collect();
            output::tell(&words::report_error(
                &(&error).into(),
                &Machines { far, sudo: false, only_looks: true },
                Language::from_environment(),
            ));
            exit::code_of(error.kind)
        }
    }
}

/// Prints and writes the results; returns the exit code.
fn finish(typed: &BenchArguments, bench: &BenchResults, held: &BenchHostSettings) -> u8 {
    let ended_at = jiff::Timestamp::now();
    let whole = || page::whole(bench, held, ended_at);
    if let Some(path) = &typed.html
        && let Err(error) = write::write(path, None, (ReportFormat::Html, html::write(&whole()).as_bytes()))
    {
        return exit::errors(&[error]);
    }
    if let Some(path) = &typed.markdown
        && let Err(error) =
            write::write(path, None, (ReportFormat::Other, markdown::write(&whole()).as_bytes()))
    {
        return exit::errors(&[error]);
    }
    let printed = match typed.json {
        false => output::print(text::write(&page::short(bench, held)).as_bytes()),
        true => match json::json(bench, held, ended_at) {
            Ok(text) => output::print(text.as_bytes()),
            Err(error) => return exit::errors(&[error]),
        },
    };
    if let Some(why) = &bench.ended_early {
        output::tell_translated(&messages::error(&format!(
            "{}; what was measured until then is above",
            lossy(why.as_bytes())
        )));
    }
    match code(bench) {
        0 => printed,
        code => code,
    }
}

fn code(bench: &BenchResults) -> u8 {
    let failed = bench.rows.iter().filter(|row| row.failed.is_some()).count();
    let measured = |row: &&Row| row.rate().is_some();
    let ours = bench.rows.iter().filter(measured).filter(|row| row.case.way == Method::Hakobu).count();
    let others = bench.rows.iter().filter(measured).count() - ours;
    match (ours + others, failed, &bench.ended_early) {
        (0, _, _) => exit::FAILED,
        // There was nothing to compare with.
        _ if others == 0 => PARTLY,
        (_, 0, None) => 0,
        _ => PARTLY,
    }
}

/// Returns the settings of the bench from the typed arguments.
fn settings_of(typed: &BenchArguments) -> Result<(Settings, Option<SshHost>)> {
    let host = typed.host.as_deref().map(|host| login::host(host.as_bytes())).transpose()?;
    let usage = |what: &str, words: &str| Error::new(ErrorKind::Usage, "reading", words).at(what.as_bytes());
    let of_host = [
        ("--far-scratch", typed.far_scratch.is_some()),
        ("--back", typed.back.is_some()),
        ("--port", typed.port.is_some()),
        ("--agent", typed.agent.is_some()),
    ];
    if let (None, Some((option, _))) = (&host, of_host.iter().find(|(_, given)| *given)) {
        return Err(usage(option, "applies to another host, and none is given"));
    }
    let back = typed.back.as_deref().map(way_back).transpose()?;
    let far_program = match login::agent(typed.agent.as_ref())?.as_deref().map(Path::to_str) {
        Some(Some(path)) if !path.contains(char::is_control) => Some(path.to_owned()),
        Some(_) => return Err(usage("--agent", "it is not UTF-8, or has control characters")),
        None => None,
    };
    let program = std::env::current_exe().map_err(|error| Error::io("finding this program", &error))?;
    let login = match &host {
        None => None,
        Some(host) => {
            let ssh = login::ssh(typed.ssh.as_ref(), ssh_variable())?;
            let ssh: Option<Vec<String>> =
                ssh.into_iter().map(|word| OsString::into_string(word).ok()).collect();
            Some(bench_run::BenchLogin {
                typed: host.destination(),
                user: host.user.clone(),
                host: host.host.clone(),
                port: host.port,
                ssh: ssh.ok_or_else(|| usage("--ssh", "it is not UTF-8"))?,
            })
        }
    };
    let budget = typed.time_budget.unwrap_or(if typed.full { FULL_BUDGET } else { BUDGET });
    let least = bench_run::least_budget(host.is_some());
    if budget < least {
        let with = if host.is_some() { "with another machine" } else { "on one machine" };
        let words = format!("too short to compare anything: {with} it takes {} s at least", least.as_secs());
        return Err(usage("--time-budget", &words));
    }
    let (scratch, far_scratch) = (typed.scratch.clone(), typed.far_scratch.clone());
    let (full, port, of_hakobu) = (typed.full, typed.port, String::new());
    let settings =
        Settings { login, full, budget, scratch, far_scratch, back, port, program, far_program, of_hakobu };
    Ok((settings, host))
}

/// Parses how the host logs in here. The text becomes part of a command line there, so its characters are limited.
fn way_back(typed: &OsStr) -> Result<ReverseLogin> {
    let host = login::host(typed.as_bytes())?;
    let name = match &host.user {
        Some(user) => format!("{user}@{}", host.host),
        None => host.host.clone(),
    };
    if !is_plain(&name) || host.host.contains(':') {
        let words =
            "letters, digits and . _ - only; an address with colons needs a name in HOST's ssh_config";
        return Err(Error::new(ErrorKind::Usage, "reading --back", words).at(typed.as_bytes()));
    }
    Ok(ReverseLogin { host: name, port: host.port })
}

fn of_bench(error: &bench::BenchError, host: Option<&SshHost>) -> Error {
    let at = host.map(SshHost::destination).unwrap_or_default();
    let words = error.to_string();
    match error {
        bench::BenchError::Stopped => {
            Error::new(ErrorKind::Cancelled, MEASURING, "interrupted; scratch files are removed")
        }
        bench::BenchError::Login(_) => {
            let refusal = StartRefusal::of(&words);
            let error = Error::new(ErrorKind::Io, "logging in to", words).in_step(ErrorStep::Login).at(at);
            match refusal {
                Some(StartRefusal::Login | StartRefusal::HostKey) => error.hint(
                    "each run logs in anew and nobody is asked: it takes a key that works without a question \
                     (ssh-copy-id, ssh-agent), and a host key that is known",
                ),
                _ => error,
            }
        }
        bench::BenchError::Lost(_) => {
            Error::new(ErrorKind::Io, MEASURING, format!("{words}; nothing was measured until then")).at(at)
        }
        bench::BenchError::Budget(_) => Error::new(ErrorKind::Usage, MEASURING, words),
        bench::BenchError::NoShell(_) => {
            Error::new(ErrorKind::Unsupported, "starting a shell on", words).at(at)
        }
        _ => Error::new(ErrorKind::Io, MEASURING, words),
    }
}

/// Measures the rate of each of hakobu's ciphers on one core.
fn own_ciphers() -> Vec<PartSpeed> {
    let speed = hakobu_net::cipher::here();
    let ciphers = [
        ("aes-128-gcm", speed.aes_128_gcm),
        ("aes-256-gcm", speed.aes_256_gcm),
        ("chacha20-poly1305", speed.chacha20_poly1305),
    ];
    let part = |(name, bytes): (&str, u64)| PartSpeed {
        name: name.to_owned(),
        by: "hakobu".to_owned(),
        bytes_per_second: bytes as f64,
        ratio: None,
    };
    ciphers.into_iter().filter(|(_, bytes)| *bytes > 0).map(part).collect()
}

/// Returns the progress line, which is hidden unless standard error is a terminal.
fn bar() -> ProgressBar {
    let target = if shows_progress() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(0), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len}  {elapsed}  {msg}") {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, progress: BenchProgress) {
    match progress {
        BenchProgress::Says(words) => {
            bar.suspend(|| output::tell_translated(&messages::note(&lossy(words.as_bytes()))));
        }
        BenchProgress::Run(done, total, label) => {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
            bar.set_message(lossy(label.as_bytes()));
        }
    }
}

#[cfg(test)]
mod tests;
