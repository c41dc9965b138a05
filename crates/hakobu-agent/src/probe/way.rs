//! One direction of the way: the machines meet as for a copy, the target's end swallows what comes.

use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::NoObserver;
use hakobu_core::grant::{Grant, GrantedPlace};
use hakobu_core::path::EntryPath;
use hakobu_core::probe::WayFigures;
use hakobu_proto::control::{Cipher, ProbeAnswer, ProbeAsk};

use super::flood::CONNECTIONS;
use super::stream::NOWHERE;
use crate::machine;
use crate::meet::{Meeting, Met};
use crate::party::Party;
use crate::request::Transport;

/// What one direction gave.
pub(super) struct Direction {
    pub figures: WayFigures,
    /// How long it took to make the connections.
    pub meeting: Duration,
    pub by_ssh: bool,
}

/// What a target is allowed to take: nothing that it keeps.
pub(crate) fn nowhere() -> Result<Grant> {
    Ok(Grant {
        places: vec![GrantedPlace::new(EntryPath::new(NOWHERE)?, false)],
        may_chown: false,
        may_set_id: false,
        may_make_devices: false,
        may_remove: false,
        only_reads: true,
        bytes_max: None,
        may_write_in_place: false,
    })
}

/// Measures what the way from one machine to another carries.
///
/// # Errors
/// When no data connection comes about, or a machine is lost.
pub(super) fn measure(from: &mut Party, to: &mut Party, cipher: Cipher, gentle: bool) -> Result<Direction> {
    let began = Instant::now();
    let grant = nowhere()?;
    let connections = if gentle { 1 } else { CONNECTIONS };
    let meeting = Meeting {
        job: machine::unique(),
        root: b"/dev",
        grant: &grant,
        cipher,
        cipher_in_ssh: Cipher::None,
        transport: Transport::Auto,
        lanes: connections,
        lanes_max: connections,
        data_address: None,
        data_port: None,
        observer: &NoObserver,
    };
    let Met { by_ssh, relay, carriers, .. } = meeting.meet(from, to)?;
    let took = began.elapsed();
    from.depend_on(to)?;
    let answer = from.probe(ProbeAsk::Way { gentle });
    // What the connections still held was thrown away, which the target takes for a lost one.
    let served = to.end_serving(true);
    drop((relay, carriers));
    match answer? {
        ProbeAnswer::Way(figures) => {
            served?;
            Ok(Direction { figures, meeting: took, by_ssh })
        }
        _ => {
            Err(Error::new(ErrorKind::Protocol, "measuring the way", "the answer does not fit the question"))
        }
    }
}
