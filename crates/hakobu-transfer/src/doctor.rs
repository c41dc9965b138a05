//! Examines the settings of two hosts, and reports those that limit transfers between them. Nothing is changed.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Observer;
use hakobu_core::host::HostFacts;
use hakobu_core::location::SshHost;
use hakobu_measure::doctor::{Finding, FindingHost, NetworkPath, SHAPED, advise};

use crate::host::{AgentHost, Host};
use crate::login;
use crate::probe::network_path;
use hakobu_agent::machine;
use hakobu_core::lane_count::{self, EndpointFacts};
use hakobu_core::prompts::Prompts;
use hakobu_core::request::LaneSetting;
use hakobu_ssh::login::SshMethod;

/// The maximum number of bytes sent to the other host for measuring. It discards them.
const CONTENT_BYTES: u64 = 256 << 20;
/// The share of the rate allowed by their windows from which connections count as limited by them.
const FULL: f64 = 0.8;

/// The other host, and how to log in there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorRequest {
    /// The other host; if `None`, only this one is examined.
    pub host: Option<SshHost>,
    /// The ssh program and its arguments. Never empty.
    pub ssh: Vec<OsString>,
    /// The path of the agent on the host, unless it is to be searched for or uploaded.
    pub agent: Option<PathBuf>,
    /// True if the agent runs under sudo.
    pub sudo: bool,
    /// The number of lanes of copies between the hosts.
    pub lanes: LaneSetting,
}

/// The result of an examination.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The network path between the hosts, measured or assumed.
    pub way: NetworkPath,
    /// The settings that limit transfers, the most important first.
    pub findings: Vec<Finding>,
    /// The settings that could not be read, and the host that they belong to.
    pub unread: Vec<(FindingHost, String)>,
}

/// Returns the number of lanes that a copy begins with.
fn first_lanes(request: &DoctorRequest, round_trip: Duration, processors: (u16, u16)) -> u16 {
    match request.lanes {
        LaneSetting::Count(count) => count,
        LaneSetting::Auto => {
            EndpointFacts { round_trip, processors, apart: true, ..EndpointFacts::default() }.lanes().0
        }
    }
}

/// Examines this host, and another one if one is named.
///
/// If advice depends on the rate of the network path, that is measured: up to 256 MiB are sent to the other host and
/// discarded there, for at most 6 s.
///
/// # Errors
/// If the other host cannot be reached or does not report its settings, or `cancel` is set meanwhile.
pub fn doctor(
    request: &DoctorRequest,
    prompts: &mut dyn Prompts,
    observer: &dyn Observer,
    cancel: &Arc<AtomicBool>,
) -> Result<Diagnosis> {
    let Some(host) = &request.host else {
        let here = machine::settings(None);
        let mut way = NetworkPath::assumed(0);
        let processors = machine::facts().processors;
        way.lanes = first_lanes(request, way.round_trip, (processors, processors));
        return Ok(diagnosis(&here, None, way));
    };
    let program = request.agent.as_deref();
    let login = SshMethod {
        host,
        ssh: &request.ssh,
        agent: program,
        sudo: request.sudo,
        nice: false,
        time_limit: None,
    };
    let mut agent = login::start(&login, prompts, observer)?;
    let failed = |error: Error| error.at(host.destination());
    let there = agent.settings(None).map_err(failed)?;
    let round_trip = agent.measure_round_trip().map_err(failed)?;
    let far = agent.machine();
    let toward: Option<IpAddr> = far.reached_at.as_deref().and_then(|address| address.parse().ok());
    let here = machine::settings(toward);
    let processors = (machine::facts().processors, far.processors);
    let lanes = first_lanes(request, round_trip, processors);
    let way = NetworkPath { round_trip, measured: true, capacity_bytes_per_second: None, lanes };
    let found = diagnosis(&here, Some(&there), way);
    // A queue that shapes traffic on this host would be measured instead of the network path.
    let is_held =
        found.findings.iter().any(|finding| finding.id == SHAPED && finding.whose == FindingHost::Here);
    let slowest = found.findings.iter().filter_map(slowest).filter(|_| !is_held);
    let Some(now) = slowest.reduce(f64::min) else { return Ok(found) };
    match measured(&mut agent, now, cancel) {
        Ok(capacity_bytes_per_second) => {
            Ok(diagnosis(&here, Some(&there), NetworkPath { capacity_bytes_per_second, ..way }))
        }
        Err(error) if error.kind == ErrorKind::Cancelled => Err(error),
        Err(error) => {
            let words = format!("the throughput of the network was not measured: {}", error.reason());
            Ok(Diagnosis { unread: [found.unread, vec![(FindingHost::Here, words)]].concat(), ..found })
        }
    }
}

/// Returns the bytes per second that one connection gets now, for a finding that depends on the network path's rate.
fn slowest(finding: &Finding) -> Option<f64> {
    Some(finding.expected?.connection?.before)
}

/// Returns the network path's bytes per second, if measurable while one connection gets no more than `now`.
fn measured(host: &mut dyn AgentHost, now: f64, cancel: &Arc<AtomicBool>) -> Result<Option<u64>> {
    let rate = network_path::capacity(host, CONTENT_BYTES, cancel)?;
    // If the connections were limited by their windows, the network path may carry any higher rate.
    let held = now * f64::from(lane_count::TUNED_MAX) * FULL;
    Ok(rate.filter(|rate| (*rate as f64) < held))
}

fn diagnosis(here: &HostFacts, there: Option<&HostFacts>, way: NetworkPath) -> Diagnosis {
    let of =
        |whose, facts: &HostFacts| facts.unread.iter().map(move |words| (whose, words.clone())).collect();
    let mut unread: Vec<_> = of(FindingHost::Here, here);
    unread.extend(there.map_or_else(Vec::new, |facts| of(FindingHost::There, facts)));
    Diagnosis { findings: advise(here, there, &way), unread, way }
}
