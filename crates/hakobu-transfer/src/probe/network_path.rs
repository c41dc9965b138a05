//! Measures one direction of the network path: the hosts connect as for a copy, and the target discards what it
//! receives.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::NoObserver;
use hakobu_core::grant::{Grant, GrantedPlace};
use hakobu_core::path::EntryPath;
use hakobu_core::probe::WayFigures;
use hakobu_proto::control::{Cipher, ProbeAnswer, ProbeAsk};

use crate::connect::{ConnectParameters, HostConnections};
use crate::host::AgentHost;
use hakobu_agent::local_host::LocalHost;
use hakobu_agent::machine;
use hakobu_core::request::Transport;
use hakobu_measure::probe::flood::CONNECTIONS;
use hakobu_measure::probe::stream::NOWHERE;
use hakobu_net::stop::StopHandle;

/// The results of one direction.
pub(super) struct DirectionResults {
    pub figures: WayFigures,
    /// The time it took to make the connections.
    pub meeting: Duration,
    pub by_ssh: bool,
    /// True if ssh or a relay carries the connections. Their number is then fixed at `lanes`.
    pub is_carried: bool,
    pub lanes: u16,
}

/// Returns a grant that lets the target discard data and store nothing.
fn nowhere() -> Result<Grant> {
    Ok(Grant {
        places: vec![GrantedPlace::new(EntryPath::new(NOWHERE)?, false)],
        may_chown: false,
        may_set_id: false,
        may_make_devices: false,
        may_remove: false,
        only_reads: true,
        bytes_max: None,
        source_directories: Vec::new(),
        lease: None,
        may_write_in_place: false,
    })
}

/// Measures the bandwidth of the network path from one host to another.
///
/// # Errors
/// No data connection can be opened, or a host is lost.
pub(super) fn measure(
    from: &mut dyn AgentHost,
    to: &mut dyn AgentHost,
    cipher: Cipher,
    gentle: bool,
) -> Result<DirectionResults> {
    let connections = if gentle { 1 } else { CONNECTIONS };
    let (met, meeting) = meet((from, to), (Transport::Auto, cipher), connections)?;
    let answer = from.probe(ProbeAsk::Way { gentle });
    let HostConnections { by_ssh, relay, carriers, lanes, .. } = met;
    let is_carried = by_ssh || relay.is_some();
    // The connections are reset with data in their buffers, so the target considers them lost.
    let served = to.end_serving(true);
    drop((relay, carriers));
    match answer? {
        ProbeAnswer::Way(figures) => {
            served?;
            Ok(DirectionResults { figures, meeting, by_ssh, is_carried, lanes })
        }
        _ => {
            Err(Error::new(ErrorKind::Protocol, "measuring the way", "the answer does not fit the question"))
        }
    }
}

/// Measures the bandwidth of all connections from here to another host together, with at most `content_bytes` of
/// content. Returns bytes per second, or none if that was sent too soon to tell.
///
/// # Errors
/// No data connection can be opened, a host is lost, or `cancel` is set meanwhile.
pub fn capacity(to: &mut dyn AgentHost, content_bytes: u64, cancel: &Arc<AtomicBool>) -> Result<Option<u64>> {
    let mut here = LocalHost::with_identity(StopHandle::with_flag(Arc::clone(cancel)))?;
    meet((&mut here, to), (Transport::Agent, Cipher::Aes128Gcm), CONNECTIONS)?;
    let measured = here.capacity(content_bytes);
    let served = to.end_serving(true);
    let measured = measured?;
    served?;
    Ok(measured)
}

/// Opens connections to a target that discards everything. Returns them and the time that took.
fn meet(
    (from, to): (&mut dyn AgentHost, &mut dyn AgentHost),
    (transport, cipher): (Transport, Cipher),
    connections: u16,
) -> Result<(HostConnections, Duration)> {
    let began = Instant::now();
    let grant = nowhere()?;
    let meeting = ConnectParameters {
        job: machine::unique(),
        root: b"/dev",
        grant: &grant,
        cipher,
        cipher_in_ssh: Cipher::None,
        transport,
        lanes: connections,
        lanes_max: connections,
        data_address: None,
        data_port: None,
        observer: &NoObserver,
    };
    let met = meeting.meet(from, to)?;
    let took = began.elapsed();
    from.depend_on(to)?;
    Ok((met, took))
}
