//! The machine on which the user started the program, as evidence of where a run was controlled.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use hakobu_core::report::ReportMachine;

use crate::machine;

/// A port that no packet is sent to.
const DISCARD_PORT: u16 = 9;

/// Returns this machine. `far`: the address of the other machine, if it is known.
pub fn controller(far: Option<&str>) -> ReportMachine {
    let facts = machine::facts();
    ReportMachine {
        name: None,
        host: Some(facts.host_name),
        address: far.and_then(address_toward),
        system: Some(facts.system),
        hakobu: Some(env!("CARGO_PKG_VERSION").to_owned()),
    }
}

/// Returns the address that this machine uses towards another one. Connecting a datagram socket only looks up the route.
fn address_toward(far: &str) -> Option<String> {
    let far: IpAddr = far.parse().ok()?;
    let any = if far.is_ipv4() { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((far, DISCARD_PORT)).ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_name_and_an_address_for_those_it_can_reach() {
        let here = controller(Some("127.0.0.1"));
        assert_eq!(here.address.as_deref(), Some("127.0.0.1"));
        assert!(here.host.is_some_and(|host| !host.is_empty()));
        assert!(here.system.is_some_and(|system| system.starts_with("Linux ")));
        for unknown in [None, Some("peer"), Some("")] {
            assert_eq!(controller(unknown).address, None, "{unknown:?}");
        }
    }
}
