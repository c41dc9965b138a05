//! What two machines are set to, and what of that holds transfers between them back. Nothing is changed.

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
use hakobu_measure::doctor::{Finding, SHAPED, Way, Whose, advise};

use crate::host::{AgentHost, Host};
use hakobu_core::lane_count::{self, Ends};
use crate::login;
use crate::ssh::login::Login;
use crate::machine;
use crate::probe::way;
use hakobu_core::request::Lanes;
use hakobu_core::prompts::Prompts;

/// So much goes to nowhere over there at most.
const CONTENT_BYTES: u64 = 256 << 20;
/// Connections that get this share of what their windows allow are held by them.
const FULL: f64 = 0.8;

/// The other machine, and how to get there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorRequest {
    /// The other machine; without one, only this one is looked at.
    pub host: Option<SshHost>,
    /// The ssh program and its arguments, at least the program.
    pub ssh: Vec<OsString>,
    /// The program on the far side, if it is not to be found or uploaded.
    pub agent: Option<PathBuf>,
    /// Whether the far agent runs under sudo.
    pub sudo: bool,
    /// How many lanes the copies between them have.
    pub lanes: Lanes,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The way between the machines, or the one that was assumed.
    pub way: Way,
    /// What holds transfers back; what matters most is first.
    pub findings: Vec<Finding>,
    /// What could not be read, and where.
    pub unread: Vec<(Whose, String)>,
}

/// How many lanes a copy begins with.
fn first_lanes(request: &DoctorRequest, round_trip: Duration, processors: (u16, u16)) -> u16 {
    match request.lanes {
        Lanes::Count(count) => count,
        Lanes::Auto => Ends { round_trip, processors, apart: true, ..Ends::default() }.lanes().0,
    }
}

/// Looks at this machine, and at another one if one is named.
///
/// Where advice depends on what the way carries, that is measured: up to 256 MiB go to nowhere over there, for 6 s at most.
///
/// # Errors
/// When there is no way to the other machine, it does not tell, or `cancel` is set meanwhile.
pub fn doctor(
    request: &DoctorRequest,
    prompts: &mut dyn Prompts,
    observer: &dyn Observer,
    cancel: &Arc<AtomicBool>,
) -> Result<Diagnosis> {
    let Some(host) = &request.host else {
        let here = machine::settings(None);
        let mut way = Way::assumed(0);
        let processors = machine::facts().processors;
        way.lanes = first_lanes(request, way.round_trip, (processors, processors));
        return Ok(diagnosis(&here, None, way));
    };
    let program = request.agent.as_deref();
    let login =
        Login { host, ssh: &request.ssh, agent: program, sudo: request.sudo, nice: false, time_limit: None };
    let mut agent = login::start(&login, prompts, observer)?;
    let failed = |error: Error| error.at(host.destination());
    let there = agent.settings(None).map_err(failed)?;
    let round_trip = agent.measure_round_trip().map_err(failed)?;
    let far = agent.machine();
    let toward: Option<IpAddr> = far.reached_at.as_deref().and_then(|address| address.parse().ok());
    let here = machine::settings(toward);
    let processors = (machine::facts().processors, far.processors);
    let lanes = first_lanes(request, round_trip, processors);
    let way = Way { round_trip, measured: true, capacity_bytes_per_second: None, lanes };
    let found = diagnosis(&here, Some(&there), way);
    // What a queue here lets through would be measured, and not the way.
    let is_held = found.findings.iter().any(|finding| finding.id == SHAPED && finding.whose == Whose::Here);
    let slowest = found.findings.iter().filter_map(slowest).filter(|_| !is_held);
    let Some(now) = slowest.reduce(f64::min) else { return Ok(found) };
    match measured(&mut agent, now, cancel) {
        Ok(capacity_bytes_per_second) => {
            Ok(diagnosis(&here, Some(&there), Way { capacity_bytes_per_second, ..way }))
        }
        Err(error) if error.kind == ErrorKind::Cancelled => Err(error),
        Err(error) => {
            let words = format!("what the way carries was not measured: {}", error.reason());
            Ok(Diagnosis { unread: [found.unread, vec![(Whose::Here, words)]].concat(), ..found })
        }
    }
}

/// What one connection gets now, by a finding whose gain depends on what the way carries.
fn slowest(finding: &Finding) -> Option<f64> {
    Some(finding.expected?.connection?.before)
}

/// What the way carries, if that can be told while one connection gets no more than `now`.
fn measured(host: &mut dyn AgentHost, now: f64, cancel: &Arc<AtomicBool>) -> Result<Option<u64>> {
    let rate = way::capacity(host, CONTENT_BYTES, cancel)?;
    // Where the connections were held by their windows the way may carry any more.
    let held = now * f64::from(lane_count::TUNED_MAX) * FULL;
    Ok(rate.filter(|rate| (*rate as f64) < held))
}

fn diagnosis(here: &HostFacts, there: Option<&HostFacts>, way: Way) -> Diagnosis {
    let of =
        |whose, facts: &HostFacts| facts.unread.iter().map(move |words| (whose, words.clone())).collect();
    let mut unread: Vec<_> = of(Whose::Here, here);
    unread.extend(there.map_or_else(Vec::new, |facts| of(Whose::There, facts)));
    Diagnosis { findings: advise(here, there, &way), unread, way }
}
