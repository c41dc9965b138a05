//! One direction of the way: the machines meet as for a copy, the target's end swallows what comes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::NoObserver;
use hakobu_core::grant::{Grant, GrantedPlace};
use hakobu_core::path::EntryPath;
use hakobu_core::probe::WayFigures;
use hakobu_proto::control::{Cipher, ProbeAnswer, ProbeAsk};

use super::flood::CONNECTIONS;
use super::stream::NOWHERE;
use crate::host::AgentHost;
use crate::machine;
use crate::meet::{Meeting, Met};
use hakobu_core::request::Transport;
use crate::side::Side;
use crate::stop::Stop;

/// What one direction gave.
pub(super) struct Direction {
    pub figures: WayFigures,
    /// How long it took to make the connections.
    pub meeting: Duration,
    pub by_ssh: bool,
    /// Whether ssh or a relay carries the connections, of which there are so many then.
    pub is_carried: bool,
    pub lanes: u16,
}

/// What a target is allowed to take: nothing that it keeps.
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
        may_write_in_place: false,
    })
}

/// Measures what the way from one machine to another carries.
///
/// # Errors
/// When no data connection comes about, or a machine is lost.
pub(super) fn measure(
    from: &mut dyn AgentHost,
    to: &mut dyn AgentHost,
    cipher: Cipher,
    gentle: bool,
) -> Result<Direction> {
    let connections = if gentle { 1 } else { CONNECTIONS };
    let (met, meeting) = meet((from, to), (Transport::Auto, cipher), connections)?;
    let answer = from.probe(ProbeAsk::Way { gentle });
    let Met { by_ssh, relay, carriers, lanes, .. } = met;
    let is_carried = by_ssh || relay.is_some();
    // What the connections still held was thrown away, which the target takes for a lost one.
    let served = to.end_serving(true);
    drop((relay, carriers));
    match answer? {
        ProbeAnswer::Way(figures) => {
            served?;
            Ok(Direction { figures, meeting, by_ssh, is_carried, lanes })
        }
        _ => {
            Err(Error::new(ErrorKind::Protocol, "measuring the way", "the answer does not fit the question"))
        }
    }
}

/// Measures what all connections from here to another machine carry together, with no more content than is said: bytes a
/// second, or nothing where that was gone too soon to tell.
///
/// # Errors
/// When no data connection comes about, a machine is lost, or `cancel` is set meanwhile.
pub(crate) fn capacity(
    to: &mut dyn AgentHost,
    content_bytes: u64,
    cancel: &Arc<AtomicBool>,
) -> Result<Option<u64>> {
    let mut here = Side::with_identity(Stop::with_flag(Arc::clone(cancel)))?;
    meet((&mut here, to), (Transport::Agent, Cipher::Aes128Gcm), CONNECTIONS)?;
    let measured = here.capacity(content_bytes);
    let served = to.end_serving(true);
    let measured = measured?;
    served?;
    Ok(measured)
}

/// Connections to nowhere over there, and how long they took.
fn meet(
    (from, to): (&mut dyn AgentHost, &mut dyn AgentHost),
    (transport, cipher): (Transport, Cipher),
    connections: u16,
) -> Result<(Met, Duration)> {
    let began = Instant::now();
    let grant = nowhere()?;
    let meeting = Meeting {
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
