//! Connections at the port whose peer is not authenticated yet.

use std::collections::VecDeque;
use std::net::Shutdown;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hakobu_proto::control::CONNECTIONS_MAX;
use socket2::Socket;

/// The maximum number of handshakes in progress: more than one session ever needs at a time.
const HANDSHAKES_MAX: usize = 2 * CONNECTIONS_MAX as usize;

/// Sockets with a handshake in progress. Their number is limited, and the oldest one is closed in favour of a new
/// one, so that silent strangers neither accumulate nor keep anybody out.
#[derive(Debug, Default)]
pub struct PendingHandshakes(Mutex<PendingHandshake>);

#[derive(Debug, Default)]
struct PendingHandshake {
    next: u64,
    sockets: VecDeque<(u64, Socket)>,
}

impl PendingHandshakes {
    /// Adds a socket. Returns the number to pass to [`PendingHandshakes::leave`].
    ///
    /// # Errors
    /// If no file descriptor is left.
    pub fn enter(&self, socket: &Socket) -> std::io::Result<u64> {
        let socket = socket.try_clone()?;
        let mut waiting = self.lock();
        if waiting.sockets.len() >= HANDSHAKES_MAX
            && let Some((_, oldest)) = waiting.sockets.pop_front()
        {
            send_away(&oldest);
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.sockets.push_back((number, socket));
        Ok(number)
    }

    /// Removes a socket whose handshake has ended, successfully or not.
    pub fn leave(&self, number: u64) {
        self.lock().sockets.retain(|(waiting, _)| *waiting != number);
    }

    /// Closes all sockets that are still waiting.
    pub fn dismiss(&self) {
        self.lock().sockets.drain(..).for_each(|(_, socket)| send_away(&socket));
    }

    fn lock(&self) -> MutexGuard<'_, PendingHandshake> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the handshake in its thread. Shutdown fails only if the peer is already gone.
fn send_away(socket: &Socket) {
    let _ = socket.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_oldest_gives_way_and_nobody_else() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let strangers = PendingHandshakes::default();
        let mut pairs: Vec<_> = (0..=HANDSHAKES_MAX)
            .map(|_| {
                let far = TcpStream::connect(address).unwrap();
                let near = Socket::from(listener.accept().unwrap().0);
                let number = strangers.enter(&near).unwrap();
                (far, number, near)
            })
            .collect();
        assert_eq!(pairs[0].0.read(&mut [0]).unwrap(), 0);
        pairs[1].0.set_nonblocking(true).unwrap();
        assert_eq!(pairs[1].0.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        strangers.leave(pairs[1].1);
        strangers.dismiss();
        assert_eq!(pairs[2].0.read(&mut [0]).unwrap(), 0);
        assert!(pairs[1].0.read(&mut [0]).is_err(), "whoever has left is not sent away");
    }
}
