//! `cargo xtask link`: sets up an emulated network link for experiments.

use std::io::{self, Write};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use hakobu_testkit::link::{Crowding, Link, LinkSettings, LinkTraffic, Namespace};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The polling interval for signals, rate changes and the command.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Join two network namespaces by a link with a delay, a rate and loss (takes root)
#[derive(Debug, Args)]
pub struct LinkArgs {
    /// Round-trip time; half of it in each direction: 100ms, 250us, 1s
    #[arg(long, default_value = "0ms", value_parser = parse_duration)]
    pub rtt: Duration,
    /// Bits per second in each direction: 1G, 100M, 2.5G [default: no limit]
    #[arg(long, value_parser = parse_rate)]
    pub rate: Option<u64>,
    /// The rate of each TCP connection: 50M [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub connection_rate: Option<u64>,
    /// Each connection over N that is at work takes this share of the rate away: 4:10%
    #[arg(long, value_name = "N:SHARE", value_parser = parse_crowding, requires = "rate")]
    pub crowding: Option<Crowding>,
    /// Packets take up to this much longer, each way: 5ms
    #[arg(long, default_value = "0ms", value_parser = parse_duration)]
    pub jitter: Duration,
    /// Change the rate, so long after the beginning: 10s:250M; several are possible
    #[arg(long, value_name = "TIME:RATE", value_parser = parse_step, requires = "rate")]
    pub step: Vec<RateChange>,
    /// Share of packets lost: 0.1% or 0.001
    #[arg(long, default_value = "0", value_parser = parse_share)]
    pub loss: f64,
    /// Bytes the queue ahead of the link holds: 500K, 4M [default: rate × RTT, at least 1M]
    #[arg(long, value_parser = parse_number)]
    pub queue: Option<u64>,
    /// Largest packet, in bytes
    #[arg(long, default_value_t = 1500)]
    pub mtu: u32,
    /// Decides which packets are lost
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// TCP congestion control of both ends, such as cubic [default: the machine's]
    #[arg(long, value_name = "NAME")]
    pub congestion_control: Option<String>,
    /// Run this in the near namespace, end with it and its exit code; else wait for Ctrl-C
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Runs the subcommand. If the command fails, the process exits with its exit code.
///
/// # Errors
/// Returns an error if the link cannot be set up or the command cannot be started.
pub fn run(args: LinkArgs) -> anyhow::Result<()> {
    let signalled = watch_signals()?;
    let link = Link::up(LinkSettings {
        rate_bits_per_second: args.rate,
        connection_rate_bits_per_second: args.connection_rate,
        crowding: args.crowding,
        jitter: args.jitter,
        loss: args.loss,
        queue_bytes: args.queue,
        mtu: args.mtu,
        seed: args.seed,
        ..LinkSettings::with_rtt(args.rtt)
    })?;
    if let Some(name) = args.congestion_control {
        for end in [link.near(), link.far()] {
            end.set_congestion_control(&name)?;
        }
    }
    describe(&link)?;
    let mut steps = RateChanges::new(args.step);
    let status = if args.command.is_empty() {
        writeln!(io::stderr(), "Ctrl-C removes the link")?;
        while !signalled.load(Relaxed) {
            steps.take(&link)?;
            sleep(LOOK_EVERY);
        }
        None
    } else {
        let child = start(&link, &args.command)?;
        Some(wait_for(child, &signalled, || steps.take(&link))?)
    };
    let counters = link.counters();
    drop(link);
    summarize("near to far", &counters.near_to_far)?;
    summarize("far to near", &counters.far_to_near)?;
    match status {
        Some(status) if !status.success() => std::process::exit(status.code().unwrap_or(1)),
        _ => Ok(()),
    }
}

/// A scheduled change of the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateChange {
    /// The time since the start.
    at: Duration,
    /// The new rate in bits per second.
    rate_bits_per_second: u64,
}

/// The rate changes that are not yet due.
struct RateChanges {
    began: Instant,
    left: Vec<RateChange>,
}

impl RateChanges {
    fn new(mut left: Vec<RateChange>) -> Self {
        left.sort_by_key(|step| step.at);
        Self { began: Instant::now(), left }
    }

    /// Applies the changes that are due. The length of the queue does not change.
    fn take(&mut self, link: &Link) -> anyhow::Result<()> {
        while self.left.first().is_some_and(|step| step.at <= self.began.elapsed()) {
            let rate = Some(self.left.remove(0).rate_bits_per_second);
            let settings = link.settings();
            let queue_bytes = Some(settings.queue_limit_bytes());
            link.change(LinkSettings { rate_bits_per_second: rate, queue_bytes, ..settings })?;
        }
        Ok(())
    }
}

/// Returns a flag that SIGINT, SIGTERM and SIGHUP set.
fn watch_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let signalled = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&signalled)).context("cannot watch for signals")?;
    }
    Ok(signalled)
}

/// Prints the ends of the link to standard error, since standard output belongs to the command.
fn describe(link: &Link) -> io::Result<()> {
    let mut out = io::stderr().lock();
    for (label, end) in [("near", link.near()), ("far", link.far())] {
        let (name, address) = (end.name(), end.address());
        writeln!(out, "{label:<5}{address:<16}ip netns exec {name} COMMAND")?;
    }
    Ok(())
}

fn start(link: &Link, command: &[String]) -> anyhow::Result<Child> {
    let Some((program, arguments)) = command.split_first() else {
        bail!("no command given");
    };
    let address = |end: &Namespace| end.address().to_string();
    link.near()
        .command(program)
        .args(arguments)
        .env("HAKOBU_LINK_NEAR", link.near().name())
        .env("HAKOBU_LINK_FAR", link.far().name())
        .env("HAKOBU_LINK_NEAR_ADDRESS", address(link.near()))
        .env("HAKOBU_LINK_FAR_ADDRESS", address(link.far()))
        .spawn()
        .with_context(|| format!("cannot run {program} in the near namespace"))
}

/// Waits for the command to exit. Ctrl-C reaches it from the terminal, so the first signal leaves it time to exit by
/// itself; the second one kills it.
fn wait_for(
    mut child: Child,
    signalled: &AtomicBool,
    mut meanwhile: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<ExitStatus> {
    let mut times = 0;
    loop {
        meanwhile()?;
        if let Some(status) = child.try_wait().context("cannot wait for the command")? {
            return Ok(status);
        }
        if signalled.swap(false, Relaxed) {
            times += 1;
            if times == 2 {
                child.kill().context("cannot end the command")?;
            }
        }
        sleep(LOOK_EVERY);
    }
}

fn summarize(direction: &str, traffic: &LinkTraffic) -> io::Result<()> {
    let LinkTraffic {
        forwarded_packets, forwarded_bytes, lost_packets, queue_full_packets, late_most, ..
    } = traffic;
    writeln!(
        io::stderr(),
        "{direction}: {forwarded_packets} packets, {forwarded_bytes} bytes; \
         lost {lost_packets}, queue full {queue_full_packets}, at most {late_most:.1?} late"
    )
}

/// Splits a text into its leading number and the rest.
fn split_number(text: &str) -> Result<(f64, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number.parse().map_err(|_| format!("{text:?} does not begin with a number"))?;
    Ok((number, unit.trim_start()))
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_number(text)?;
    let seconds = match unit {
        "s" => number,
        "ms" => number / 1e3,
        "us" | "µs" => number / 1e6,
        _ => return Err("a time ends in s, ms or us".into()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn parse_number(text: &str) -> Result<u64, String> {
    let (number, unit) = split_number(text)?;
    let factor = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return Err("a number ends in K, M, G or nothing".into()),
    };
    Ok((number * factor) as u64)
}

fn parse_rate(text: &str) -> Result<u64, String> {
    parse_number(text.strip_suffix("bit/s").or(text.strip_suffix("bit")).unwrap_or(text))
}

fn parse_step(text: &str) -> Result<RateChange, String> {
    let (at, rate) = text.split_once(':').ok_or("a step is written 10s:250M")?;
    Ok(RateChange { at: parse_duration(at)?, rate_bits_per_second: parse_rate(rate)? })
}

fn parse_crowding(text: &str) -> Result<Crowding, String> {
    let (free, share) = text.split_once(':').ok_or("crowding is written 4:10%")?;
    let free = free.parse().map_err(|_| format!("{free:?} is no number of connections"))?;
    Ok(Crowding { free, share: parse_share(share)? })
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = match split_number(text)? {
        (number, "") => number,
        (number, "%") => number / 100.0,
        _ => return Err("a share is written 0.1% or 0.001".into()),
    };
    if share > 1.0 {
        return Err("more than all packets cannot be lost".into());
    }
    Ok(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood() {
        assert_eq!(parse_duration("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(parse_duration("0.25 s"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("30us"), Ok(Duration::from_micros(30)));
        assert_eq!(parse_rate("2.5G"), Ok(2_500_000_000));
        assert_eq!(parse_rate("100Mbit/s"), Ok(100_000_000));
        assert_eq!(parse_number("1500"), Ok(1500));
        assert_eq!(parse_share("0.1%"), Ok(0.001));
        assert_eq!(parse_share("0.5"), Ok(0.5));
        assert_eq!(parse_crowding("4:10%"), Ok(Crowding { free: 4, share: 0.1 }));
        let step = RateChange { at: Duration::from_secs(10), rate_bits_per_second: 250_000_000 };
        assert_eq!(parse_step("10s:250M"), Ok(step));
    }

    #[test]
    fn ambiguous_values_are_refused() {
        assert!(parse_duration("100").is_err());
        assert!(parse_duration("-1s").is_err());
        assert!(parse_rate("1GB/s").is_err());
        assert!(parse_rate("").is_err());
        assert!(parse_share("101%").is_err());
        assert!(parse_share("10ms").is_err());
        assert!(parse_crowding("10%").is_err() && parse_crowding("few:10%").is_err());
        assert!(parse_step("10s").is_err() && parse_step("250M:10s").is_err());
    }
}
