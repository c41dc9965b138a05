//! The machines of a transfer, for its report.

use hakobu_agent::controller::controller;
use hakobu_core::report::{ReportMachine, ReportMachines};

use crate::host::Host;
use crate::opening::TransferHosts;

/// Returns the machines that these hosts are, with this one as the controller.
pub fn machines(hosts: &TransferHosts) -> ReportMachines {
    let [source, target] = [&*hosts.source, hosts.target()].map(far_machine);
    let far = [&source, &target].into_iter().flatten().find_map(|machine| machine.address.as_deref());
    let controller = controller(far);
    let or_here = |machine: Option<ReportMachine>| machine.or_else(|| Some(controller.clone()));
    let (source, target) = (or_here(source), or_here(target));
    ReportMachines { controller: Some(controller), source, target }
}

/// Returns what is known of another machine; `None` for this one.
fn far_machine(host: &dyn Host) -> Option<ReportMachine> {
    if host.is_here() {
        return None;
    }
    let facts = host.machine();
    let known = |text: String| Some(text).filter(|text| !text.is_empty());
    Some(ReportMachine {
        name: Some(host.name()),
        host: known(facts.host_name),
        address: facts.reached_at,
        system: known(facts.system),
        hakobu: host.hakobu_version(),
    })
}
