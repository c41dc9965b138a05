//! Finds ports at both ends for methods with their own connection, and checks that they can be reached.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::error::{BenchResult, words_of};
use super::remote_processes::FarShell;
use super::settings::BenchMachines;
use crate::process::listens;

/// The time limit for reaching a port.
const REACH_LIMIT: Duration = Duration::from_secs(3);

/// Returns a free port on the host.
pub(super) fn free_port(far: &mut FarShell, typed: Option<u16>) -> BenchResult<u16> {
    if let Some(port) = typed {
        return Ok(port);
    }
    let taken =
        far.ask("cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '{ sub(/.*:/, \"\", $2); print $2 }'")?;
    let taken: Vec<u16> = taken.iter().filter_map(|port| u16::from_str_radix(port, 16).ok()).collect();
    Ok(ports().find(|port| !taken.contains(port)).unwrap_or(*ports().start()))
}

/// Returns the candidate ports, below the range that the kernel assigns by itself.
fn ports() -> RangeInclusive<u16> {
    20_000 + u16::try_from(std::process::id() % 10_000).unwrap_or(0)..=32_000
}

/// Returns the address at which the host reaches this machine without ssh, and a free port here.
pub(super) fn near_port(
    typed: Option<u16>,
    far_port: u16,
    seen_as: Option<&String>,
) -> Option<(String, u16)> {
    let address: IpAddr = seen_as?.parse().ok()?;
    let port = typed
        .or_else(|| ports().find(|port| *port != far_port && !listens(std::process::id(), *port)))
        .unwrap_or(far_port);
    Some((address.to_string(), port))
}

/// Returns the reason why the host cannot reach that port, or `None` if it can. Tests it with the tool that would
/// connect.
pub(super) fn no_near_port(site: &BenchMachines, ssh: &Path, host: &str) -> Option<String> {
    let Some((address, port)) = &site.near_port else {
        return Some("it is not known at which address the host reaches this machine".to_owned());
    };
    let there = site.ground.tools.there.as_ref()?;
    let connects = match there.netcat {
        Some(netcat) => netcat.sends(&format!("{address} {port}")),
        None if there.has("mbuffer") => format!("mbuffer -q -O {address}:{port}"),
        // The rows are left out because of the missing tool.
        None => return None,
    };
    let any: IpAddr = match address.contains(':') {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    };
    let listener = match TcpListener::bind((any, *port)).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    }) {
        Ok(listener) => listener,
        Err(error) => return Some(format!("port {port} here: {}; --port names another", words_of(&error))),
    };
    let mut command = Command::new(ssh);
    command.arg("--").arg(host).arg(format!("sh -c 'echo | {connects} >/dev/null 2>&1'"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let deadline = Instant::now() + Duration::from_secs_f64(site.login_seconds) + REACH_LIMIT;
    let mut reached = false;
    while !reached && Instant::now() < deadline {
        let ended = !matches!(child.try_wait(), Ok(None));
        reached = listener.accept().is_ok();
        if ended {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // The session on the host ends with the connection, and the login with the session.
    let _ = child.kill();
    let _ = child.wait();
    (!reached)
        .then(|| format!("port {port} of {address}, which is this machine, cannot be reached from the host"))
}

/// Returns the reason why the port cannot be reached, or `None` if it can. Tests it with an nc that listens there.
pub(super) fn no_port(site: &BenchMachines, ssh: &Path, host: &str, far: &mut FarShell) -> Option<String> {
    let Some(address) = site.address else { return Some("the host's address is not known".to_owned()) };
    let kind = site.ground.tools.there.as_ref()?.netcat?;
    let port = site.port;
    let line = kind.listens(port, false);
    let mut command = Command::new(ssh);
    command.arg("--").arg(host).arg(format!("sh -c '{line} >/dev/null'"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut reached = false;
    for _ in 0..40 {
        if far.listens(port).ok()? {
            reached = TcpStream::connect_timeout(&SocketAddr::new(address, port), REACH_LIMIT).is_ok();
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    if reached {
        // It exits with the connection.
        let _ = child.wait();
        return None;
    }
    let _ = child.kill();
    let _ = child.wait();
    Some(format!("port {port} of {address} cannot be reached from here; --port names one that can"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_here_is_a_free_one_at_the_address_that_the_host_sees() {
        let seen = "192.0.2.1".to_owned();
        let (address, port) = near_port(None, *ports().start(), Some(&seen)).unwrap();
        assert!(address == seen && port > *ports().start() && !listens(std::process::id(), port));
        assert_eq!(near_port(Some(77), 77, Some(&seen)).unwrap().1, 77);
        assert_eq!((near_port(None, 1, None), near_port(None, 1, Some(&"UNKNOWN".to_owned()))), (None, None));
    }
}
