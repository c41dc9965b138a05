//! Judges which facts slow transfers down, and suggests a remedy with its expected gain for each.
//!
//! The code is pure: facts in, findings out. Only findings with a predicted effect are reported, so a well-configured
//! host has none.

mod ends;
mod finding;
mod machine;
mod network;
mod queues;
mod sshd;
mod way;
mod window;

#[cfg(test)]
mod tests;

use hakobu_core::host::HostFacts;

pub use self::ends::Capacity;
use self::ends::Ends;
pub use self::finding::{Change, Expected, Finding, Severity, Whose};
pub use self::queues::SHAPED;
pub use self::way::Way;

/// Returns the findings for transfers between two machines, or on one machine, the most important first.
pub fn advise(here: &HostFacts, there: Option<&HostFacts>, way: &Way) -> Vec<Finding> {
    let ends = Ends { here, there, way };
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
