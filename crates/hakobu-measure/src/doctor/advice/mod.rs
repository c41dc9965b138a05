//! Which facts hold transfers back, what to do about each, and what is to be expected of it.
//!
//! Pure: facts in, findings out. Only what is predicted to matter is said; on a host that is already right, nothing.

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

/// What holds transfers between two machines back, or those of this one; what matters most is first.
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
