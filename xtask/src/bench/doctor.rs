//! `cargo xtask bench doctor`: sets up links with badly configured hosts, and compares the rates that `hakobu doctor`
//! predicts with the measured ones, before and after the commands that it recommends.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use hakobu_measure::statistics::median;
use hakobu_testkit::link::{LinkSettings, Namespace};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::hosts::{BenchHosts, HostNetwork};
use super::machine::Machine;
use super::preparation::{Preparation, write};
use super::scratch_space::ScratchSpace;
use super::session::say;
use super::sources::BenchSource;
use crate::table::MarkdownTable;

const RATE_BITS: u64 = 1_000_000_000;
/// The duration of a copy at the predicted rate, up to [`COPY_BYTES_MAX`], since the start of a run is slower.
const COPY_SECONDS: f64 = 8.0;
const COPY_BYTES_MAX: u64 = 1_000_000_000;
/// The measured duration of `iperf3`, after `STREAM_OMITTED_SECONDS` in which it reaches its speed.
const STREAM_SECONDS: u32 = 5;
const STREAM_OMITTED_SECONDS: u32 = 4;
/// The permitted relative error of a prediction.
const MARGIN: f64 = 0.2;
/// The network device of each host of a link.
const DEVICE: &str = "hakobu0";

/// Good values of the kernel's parameters, set whatever this machine's are.
const RIGHT: [(&str, &str); 7] = [
    ("ipv4/tcp_rmem", "4096 131072 6291456"),
    ("ipv4/tcp_wmem", "4096 16384 4194304"),
    ("ipv4/tcp_moderate_rcvbuf", "1"),
    ("ipv4/tcp_adv_win_scale", "1"),
    ("ipv4/tcp_window_scaling", "1"),
    ("ipv4/tcp_sack", "1"),
    ("ipv4/tcp_timestamps", "1"),
];

/// A bad configuration of the hosts of a link.
struct Case {
    key: &'static str,
    title: &'static str,
    round_trip_ms: u64,
    /// The kernel parameter with a bad value, set on both hosts.
    parameter: Option<(&'static str, &'static str)>,
    /// The bad queueing discipline of the local host's device, as arguments of `tc`.
    queue: Option<&'static str>,
    /// The ID of the finding that the doctor must report.
    finding: &'static str,
}

const CASES: [Case; 3] = [
    Case {
        key: "receive-buffer",
        title: "`tcp_rmem` max 1 MiB, 100 ms",
        round_trip_ms: 100,
        parameter: Some(("ipv4/tcp_rmem", "4096 131072 1048576")),
        queue: None,
        finding: "tcp-receive-buffer-small",
    },
    Case {
        key: "window-scaling",
        title: "window scaling off, 4 ms",
        round_trip_ms: 4,
        parameter: Some(("ipv4/tcp_window_scaling", "0")),
        queue: None,
        finding: "tcp-window-scaling-off",
    },
    Case {
        key: "queue",
        title: "tbf at 200 Mbit/s, 20 ms",
        round_trip_ms: 20,
        parameter: None,
        queue: Some("tbf rate 200mbit burst 128k limit 4m"),
        finding: "queue-shapes",
    },
];

/// The arguments of `bench doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// How often each case is measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=20))]
    rounds: u16,
    /// Only the case of this key; the others stay as they were measured
    #[arg(long, value_name = "KEY")]
    case: Option<String>,
    /// Largest packet of the links, in bytes
    #[arg(long, default_value_t = 9000)]
    mtu: u32,
    /// Exit with 1 when something was foretold worse than it must be
    #[arg(long)]
    check: bool,
    /// Where the results go, as doctor.json and doctor.md [default: docs/benchmarks]
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
    /// The program to measure [default: built from here, release]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// All results of the bench.
#[derive(Debug, Serialize, Deserialize)]
struct DoctorResults {
    schema: String,
    bench: String,
    /// The results, keyed by case and MTU.
    cases: BTreeMap<String, CaseResult>,
}

/// The results of one case.
#[derive(Debug, Serialize, Deserialize)]
struct CaseResult {
    title: String,
    round_trip_ms: u64,
    mtu_bytes: u32,
    machine: Machine,
    rounds: Vec<Round>,
}

/// The results of one round. Rates are in bytes of content per second.
#[derive(Debug, Serialize, Deserialize)]
struct Round {
    /// The number of connections that hakobu starts with, according to the doctor.
    lanes: u16,
    round_trip_seconds: f64,
    one_connection: RateComparison,
    /// The rates of hakobu with a fixed number of lanes: the one it starts with.
    hakobu: RateComparison,
    /// The rates of hakobu with default settings.
    hakobu_by_default: RateComparison,
    /// The number of findings that the doctor reports after its commands were run.
    findings_after: usize,
    commands: Vec<String>,
}

/// Predicted and measured rates, before and after the doctor's commands.
#[derive(Debug, Default, Serialize, Deserialize)]
struct RateComparison {
    foretold_before: Option<f64>,
    foretold_after: Option<f64>,
    measured_before: Option<f64>,
    measured_after: Option<f64>,
}

/// Runs the bench.
///
/// # Errors
/// Returns an error if something cannot be measured or the doctor does not report the expected finding.
pub fn run(args: &DoctorArgs) -> Result<()> {
    let cases: Vec<_> =
        CASES.iter().filter(|case| args.case.as_deref().is_none_or(|key| key == case.key)).collect();
    ensure!(!cases.is_empty(), "no case has this key");
    let prepared = Preparation::new(args.program.as_deref())?;
    let output = prepared.output(args.output.as_deref(), true);
    let mut results = earlier(&output);
    for case in cases {
        let machine = Machine::look(&prepared.workspace);
        let mut rounds = Vec::new();
        for number in 1..=args.rounds {
            say(&format!("{}, MTU {}: round {number} of {}", case.title, args.mtu, args.rounds));
            rounds.push(DoctorHosts::up(&prepared, case, args.mtu)?.round(case)?);
        }
        let (title, round_trip_ms) = (case.title.to_owned(), case.round_trip_ms);
        let result = CaseResult { title, round_trip_ms, mtu_bytes: args.mtu, machine, rounds };
        results.cases.insert(format!("{}-{}", case.key, args.mtu), result);
    }
    write(&output, "doctor", &results, &[("md", page(&results))])?;
    println!("{}", table(&results));
    let off = results.cases.values().filter(|case| case.worst() > MARGIN).count();
    ensure!(!args.check || off == 0, "{off} cases are further off than they may be");
    Ok(())
}

/// Returns the earlier results, so that a single case can be measured again.
fn earlier(output: &Path) -> DoctorResults {
    let read = fs::read(output.join("doctor.json")).ok();
    let read = read.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    read.unwrap_or_else(|| DoctorResults {
        schema: "hakobu.bench/1".to_owned(),
        bench: "doctor".to_owned(),
        cases: BTreeMap::new(),
    })
}

/// A link with an ssh server on its remote host.
struct DoctorHosts<'a> {
    scratch: &'a ScratchSpace,
    program: &'a Path,
    hosts: BenchHosts,
}

impl<'a> DoctorHosts<'a> {
    /// Sets up the link with the case's bad configuration.
    fn up(prepared: &'a Preparation, case: &Case, mtu: u32) -> Result<Self> {
        let network = HostNetwork::Link(LinkSettings {
            rate_bits_per_second: Some(RATE_BITS),
            mtu,
            ..LinkSettings::with_rtt(Duration::from_millis(case.round_trip_ms))
        });
        let hosts = BenchHosts::up(&prepared.scratch, network)?;
        for end in [hosts.link()?.near(), hosts.link()?.far()] {
            for (name, value) in RIGHT.into_iter().chain(case.parameter) {
                end.set_parameter(name, value)?;
            }
        }
        if let Some(queue) = case.queue {
            shell(hosts.link()?.near(), &format!("tc qdisc replace dev {DEVICE} root {queue}"))?;
        }
        Ok(Self { scratch: &prepared.scratch, program: &prepared.program, hosts })
    }

    fn round(&self, case: &Case) -> Result<Round> {
        let (method, findings) = self.doctor()?;
        let found = findings.iter().find(|finding| finding["id"] == case.finding);
        let found = found.with_context(|| format!("the doctor did not find {}", case.finding))?;
        let foretold = |which: &str, when: &str| found["expected"][which][when].as_f64();
        let pair = |which: &str| RateComparison {
            foretold_before: foretold(which, "before_bytes_per_second"),
            foretold_after: foretold(which, "after_bytes_per_second"),
            ..RateComparison::default()
        };
        let lanes = method["lanes"].as_u64().context("lanes")? as u16;
        let mut round = Round {
            lanes,
            round_trip_seconds: method["round_trip_seconds"].as_f64().context("round trip")?,
            one_connection: pair("one_connection"),
            hakobu: pair("hakobu"),
            hakobu_by_default: RateComparison::default(),
            findings_after: 0,
            commands: Vec::new(),
        };
        let rate = round.hakobu.foretold_before.unwrap_or(1e8);
        if round.one_connection.foretold_before.is_some() {
            round.one_connection.measured_before = Some(self.stream()?);
        }
        round.hakobu.measured_before = Some(self.copy(Some(lanes), rate)?);
        round.hakobu_by_default.measured_before = Some(self.copy(None, rate)?);
        let link = self.hosts.link()?;
        for finding in &findings {
            let end = if finding["host"].is_null() { link.near() } else { link.far() };
            let command = finding["command"].as_str().context("command")?;
            shell(end, command)?;
            round.commands.push(command.to_owned());
        }
        let rate = round.hakobu.foretold_after.unwrap_or(RATE_BITS as f64 / 8.0);
        if round.one_connection.foretold_after.is_some() {
            round.one_connection.measured_after = Some(self.stream()?);
        }
        round.hakobu.measured_after = Some(self.copy(Some(lanes), rate)?);
        round.hakobu_by_default.measured_after = Some(self.copy(None, rate)?);
        round.findings_after = self.doctor()?.1.len();
        Ok(round)
    }

    /// Runs the doctor, and returns what it says about the network path and its findings about the network.
    fn doctor(&self) -> Result<(Value, Vec<Value>)> {
        self.scratch.go_on()?;
        let mut command = self.hosts.command(self.program);
        let output =
            command.args(["doctor", "--json", self.hosts.sshd().host()]).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "hakobu doctor: {}", output.status);
        let all: Value = serde_json::from_slice(&output.stdout)?;
        for unread in all["unread"].as_array().into_iter().flatten() {
            say(&format!("the doctor: not read: {}", unread["what"]));
        }
        let of_network = |id: &str| ["tcp-", "queue-"].iter().any(|beginning| id.starts_with(beginning));
        let findings = all["findings"].as_array().into_iter().flatten();
        let findings = findings.filter(|finding| finding["id"].as_str().is_some_and(of_network));
        Ok((all["way"].clone(), findings.cloned().collect()))
    }

    /// Returns the rate of `hakobu copy` in bytes per second: the time of a file less that of a single byte.
    fn copy(&self, lanes: Option<u16>, foretold: f64) -> Result<f64> {
        let bytes = ((foretold * COPY_SECONDS) as u64).clamp(1 << 20, COPY_BYTES_MAX);
        let one = self.timed(lanes, 1)?;
        let all = self.timed(lanes, bytes)?;
        Ok(bytes as f64 / (all - one).max(1e-3))
    }

    fn timed(&self, lanes: Option<u16>, bytes: u64) -> Result<f64> {
        self.scratch.go_on()?;
        // Whole MiB, so that few different sources take up memory.
        let bytes = if bytes > 1 { bytes & !0xf_ffff } else { bytes };
        let source = self.scratch.source(BenchSource::File { bytes })?;
        let mut command = self.hosts.command(self.program);
        command.args(["copy", "--quiet"]);
        if let Some(lanes) = lanes {
            command.args(["--lanes", &lanes.to_string()]);
        }
        let began = Instant::now();
        let status = command.arg(&source).arg("throwaway:/dev/null").status()?;
        let seconds = began.elapsed().as_secs_f64();
        self.scratch.forget(BenchSource::File { bytes });
        ensure!(status.success(), "hakobu copy: {status}");
        Ok(seconds)
    }

    /// Returns the rate of a single connection, measured with `iperf3`.
    fn stream(&self) -> Result<f64> {
        self.scratch.go_on()?;
        let link = self.hosts.link()?;
        let mut server = link.far().command("iperf3");
        let mut server =
            server.args(["-s", "-1"]).stdout(Stdio::null()).spawn().context("starting iperf3")?;
        let address = link.far().address().to_string();
        let (seconds, omitted) = (STREAM_SECONDS.to_string(), STREAM_OMITTED_SECONDS.to_string());
        let measured = (0..20).find_map(|_| {
            std::thread::sleep(Duration::from_millis(100));
            let mut client = link.near().command("iperf3");
            let output = client.args(["-c", &address, "-J", "-t", &seconds, "-O", &omitted]).output().ok()?;
            let told: Value = serde_json::from_slice(&output.stdout).ok()?;
            told["end"]["sum_received"]["bits_per_second"].as_f64()
        });
        let _ = server.kill();
        let _ = server.wait();
        measured.map(|bits| bits / 8.0).context("iperf3 measured nothing")
    }
}

/// Runs one of the doctor's commands, which are shell commands, on a host of the link.
fn shell(end: &Namespace, line: &str) -> Result<()> {
    let mut command: Command = end.command("sh");
    let status = command.args(["-c", line]).stdout(Stdio::null()).status()?;
    match status.success() {
        true => Ok(()),
        false => bail!("{line}: {status}"),
    }
}

impl CaseResult {
    /// Returns the median over the rounds.
    fn median(&self, of: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        median(&self.rounds.iter().filter_map(of).collect::<Vec<_>>())
    }

    /// Returns the largest relative error of the predictions.
    fn worst(&self) -> f64 {
        let pairs: [fn(&Round) -> &RateComparison; 2] =
            [|round| &round.one_connection, |round| &round.hakobu];
        let rates = |of: fn(&Round) -> &RateComparison| {
            [
                self.off(|round| of(round).foretold_before, |round| of(round).measured_before),
                self.off(|round| of(round).foretold_after, |round| of(round).measured_after),
                self.off(|round| gain(of(round)).0, |round| gain(of(round)).1),
            ]
        };
        pairs.into_iter().flat_map(rates).flatten().fold(0.0, f64::max)
    }

    fn off(
        &self,
        foretold: impl Fn(&Round) -> Option<f64>,
        measured: impl Fn(&Round) -> Option<f64>,
    ) -> Option<f64> {
        Some((self.median(foretold)? / self.median(measured)? - 1.0).abs())
    }
}

/// Returns the predicted and the measured speed-up.
fn gain(pair: &RateComparison) -> (Option<f64>, Option<f64>) {
    let times = |before: Option<f64>, after: Option<f64>| Some(after? / before?);
    (times(pair.foretold_before, pair.foretold_after), times(pair.measured_before, pair.measured_after))
}

fn table(results: &DoctorResults) -> String {
    let head =
        ["case", "MTU", "of what", "foretold, MB/s", "measured, MB/s", "foretold gain", "measured gain"];
    let mut table = MarkdownTable::new(head);
    let rate = |rate: Option<f64>| rate.map_or("–".to_owned(), |rate| format!("{:.1}", rate / 1e6));
    let times = |times: Option<f64>| times.map_or("–".to_owned(), |times| format!("{times:.2}"));
    for case in results.cases.values() {
        let lanes = case.rounds.first().map_or(0, |round| round.lanes);
        let of_rows: [fn(&Round) -> &RateComparison; 3] =
            [|round| &round.one_connection, |round| &round.hakobu, |round| &round.hakobu_by_default];
        let names = [
            "one connection (`iperf3`)".to_owned(),
            format!("`hakobu copy --lanes {lanes}`"),
            "`hakobu copy`".to_owned(),
        ];
        for (what, of) in names.into_iter().zip(of_rows) {
            let value = |field: fn(&RateComparison) -> Option<f64>| case.median(|round| field(of(round)));
            let measured = (value(|pair| pair.measured_before), value(|pair| pair.measured_after));
            if measured == (None, None) {
                continue;
            }
            table.push([
                case.title.clone(),
                case.mtu_bytes.to_string(),
                what,
                format!(
                    "{} -> {}",
                    rate(value(|pair| pair.foretold_before)),
                    rate(value(|pair| pair.foretold_after))
                ),
                format!("{} -> {}", rate(measured.0), rate(measured.1)),
                times(value(|pair| gain(pair).0)),
                times(value(|pair| gain(pair).1)),
            ]);
        }
    }
    table.to_string()
}

fn page(results: &DoctorResults) -> String {
    let machine = results.cases.values().map(|case| &case.machine).next().cloned().unwrap_or_default();
    let worst = results.cases.values().map(CaseResult::worst).fold(0.0, f64::max);
    let mut verdicts = String::new();
    for case in results.cases.values() {
        let word = if case.worst() <= MARGIN { "reached" } else { "missed" };
        let Machine { commit, measured_at, load_at_start, .. } = &case.machine;
        verdicts.push_str(&format!(
            "- {}, MTU {}: the worst is off by {:.0} %, at most 20 %: {word}. {} rounds, {measured_at}, commit {}, load {load_at_start:.2} when it began.\n",
            case.title,
            case.mtu_bytes,
            case.worst() * 100.0,
            case.rounds.len(),
            commit.as_deref().unwrap_or_default(),
        ));
    }
    format!(
        "# What the doctor foretells, and what is so\n\n\
         Made by `cargo xtask bench doctor`; it writes all rounds to `doctor.json`.\n\n\
         {}, {} cores, Linux {}, TCP {}. The worst of all is off by {:.0} %.\n\n\
         {}\n{verdicts}\n\
         ## How it is measured\n\n\
         Both ends are on this machine, joined by an emulated link of 1 Gbit/s. They are set as the case says, the far one's\n\
         and the near one's settings alike, and all else as kernels come. `hakobu doctor --json` is run; then the rate is measured;\n\
         then its commands are run, each at the end that it names; then the rate is measured again. Figures are medians of the\n\
         rounds, and a gain is the ratio within each round. One connection is `iperf3`, {STREAM_SECONDS} s after {STREAM_OMITTED_SECONDS} that are not counted. `hakobu copy`\n\
         brings a random file from memory to `/dev/null` over there, as much as takes some {COPY_SECONDS:.0} s, at most 1 GB: the wall\n\
         clock of the whole command less that of the same on one byte. The doctor foretells what hakobu gets with the lanes that it\n\
         begins with, so that is what it is held to; what it gets by itself, trying others while it runs, stands below. Where no\n\
         device tells its speed, as at these ends, what a queue takes away beyond what it lets through is not foretold.\n",
        machine.cpu,
        machine.cores,
        machine.kernel,
        machine.congestion_control,
        worst * 100.0,
        table(results),
    )
}
