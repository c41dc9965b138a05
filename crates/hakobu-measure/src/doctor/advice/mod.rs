//! Judges which facts slow transfers down, and suggests a remedy with its expected gain for each.
//!
//! The code is pure: facts in, findings out. Only findings with a predicted effect are reported, so a well-configured
//! host has none.

mod finding;
mod machine;
mod network;
mod network_path;
mod path_ends;
mod queues;
mod sshd;
mod window;

#[cfg(test)]
mod tests;

use hakobu_core::host::HostFacts;

pub use self::finding::{ExpectedGain, ExpectedRates, Finding, FindingHost, Severity};
pub use self::network_path::NetworkPath;
pub use self::path_ends::Capacity;
use self::path_ends::PathEnds;
pub use self::queues::SHAPED;

/// Returns the findings for transfers between two machines, or on one machine, the most important first.
pub fn advise(here: &HostFacts, there: Option<&HostFacts>, way: &NetworkPath) -> Vec<Finding> {
    let ends = PathEnds { here, there, way };
    let mut findings = Vec::new();
    window::judge(&ends, &mut findings);
    for (whose, facts) in ends.both() {
        network::judge(&ends, whose, facts, &mut findings);
        machine::judge(whose, facts, &mut findings);
        sshd::judge(&ends, whose, facts, &mut findings);
    }
    findings.sort_by(|one, other| {
        let gain = |finding: &Finding| -finding.expected.map_or(0.0, |expected| expected.most());
        one.severity.cmp(&other.severity).then(gain(one).total_cmp(&gain(other)))
    });
    findings
}
