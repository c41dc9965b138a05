//! Data connections through ssh, where no port can be reached: for each an ssh process that has one end of a pair of
//! sockets as its standard input and output, so that nothing of ours stands between it and the lane.

use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::Socket;

use crate::far::FarSide;
use crate::ssh::SshChild;
use crate::ssh::sessions::{Said, Session};

/// Where the far side listens for them: nobody but its own machine gets there.
pub(crate) const LOOPBACK: &str = "127.0.0.1";
/// The most lanes.
pub(crate) const LANES_MAX: u16 = 8;
/// Once there is one, no more are opened after this time: a server that is slow to let in gets fewer.
pub(crate) const OPENING_LIMIT: Duration = Duration::from_secs(5);
/// How long the processes may take to end by themselves once their connections have.
const FAREWELL_LIMIT: Duration = Duration::from_millis(300);
/// How long a connection may have ended before its ssh has said why: it ends right after.
const LAST_WORDS_LIMIT: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How ssh gets to the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Through {
    /// The server connects to it.
    Forward,
    /// The agent's program is run once more, and joins its standard input and output to the port: for servers that
    /// make no connections.
    Join,
}

/// The ssh processes of one run. Dropping them ends them.
pub(crate) struct Carriers {
    processes: Vec<(SshChild, Said)>,
}

impl Drop for Carriers {
    fn drop(&mut self) {
        let deadline = Instant::now() + FAREWELL_LIMIT;
        let runs = |(ssh, _): &mut (SshChild, Said)| matches!(ssh.wait(Duration::ZERO), Ok(None));
        while self.processes.iter_mut().any(runs) && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
        self.processes.iter_mut().for_each(|(ssh, _)| ssh.tell_to_end());
    }
}

impl Carriers {
    pub(crate) fn new() -> Self {
        Self { processes: Vec::new() }
    }

    /// Opens one more.
    fn open(&mut self, far: &FarSide, to: Destination) -> Result<Socket> {
        let command = format!("exec /proc/{}/exe agent --join {}", to.process, to.port);
        let session = match to.through {
            Through::Forward => Session::Forward { address: LOOPBACK, port: to.port },
            Through::Join => Session::Command(&command),
        };
        let (socket, ssh, said) = far
            .sessions()
            .further_socket(session)
            .map_err(|error| Error::new(ErrorKind::ConnectionLost, "dialling", error.to_string()))?;
        self.processes.push((ssh, said));
        Ok(socket.into())
    }
}

/// Why there is no connection: the words of the first ssh that has ended, or will within a short time; else of the
/// first that has said anything. Empty if none has.
pub(crate) fn last_words(carriers: &[Carriers]) -> String {
    let said = || carriers.iter().flat_map(|carriers| &carriers.processes).map(|(_, said)| said);
    let words = |said: &Said| Some(said.last_line()).filter(|line| !line.is_empty());
    let deadline = Instant::now() + LAST_WORDS_LIMIT;
    loop {
        let is_late = Instant::now() >= deadline || said().all(Said::is_all);
        match said().filter(|said| said.is_all()).find_map(words) {
            Some(line) => return line,
            None if is_late => return said().find_map(words).unwrap_or_default(),
            None => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// A port on a far machine, and how to get there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    pub through: Through,
    pub port: u16,
    /// The agent that listens.
    pub process: u32,
}

/// Opens data connections to one port, one after another.
pub(crate) struct Opener<'a> {
    carriers: &'a mut Carriers,
    far: &'a FarSide,
    to: Destination,
    since: Option<Instant>,
}

impl<'a> Opener<'a> {
    pub(crate) fn new(carriers: &'a mut Carriers, far: &'a FarSide, to: Destination) -> Self {
        Self { carriers, far, to, since: None }
    }

    /// One more.
    ///
    /// # Errors
    /// ssh's words, when it does not get in.
    pub(crate) fn next(&mut self) -> Result<Socket> {
        let socket = self.carriers.open(self.far, self.to)?;
        self.since.get_or_insert_with(Instant::now);
        Ok(socket)
    }

    /// One more, unless it has taken long enough.
    ///
    /// # Errors
    /// As [`Opener::next`].
    pub(crate) fn next_in_time(&mut self) -> Result<Option<Socket>> {
        match self.since {
            Some(since) if since.elapsed() > OPENING_LIMIT => Ok(None),
            _ => self.next().map(Some),
        }
    }

    /// So many, for a far side that will speak first, and not before all are there: fewer if it takes too long or
    /// only the first few come about.
    ///
    /// # Errors
    /// When the first does not come about, as far as that is known.
    pub(crate) fn several(&mut self, lanes: u16) -> Result<Vec<Socket>> {
        let mut sockets = vec![self.next()?];
        while sockets.len() < usize::from(lanes) && !is_over(&sockets[0]) {
            match self.next_in_time() {
                Ok(Some(socket)) => sockets.push(socket),
                _ => break,
            }
        }
        match is_over(&sockets[0]) {
            true => Err(self.ended()),
            false => Ok(sockets),
        }
    }

    fn ended(&self) -> Error {
        let words = match last_words(std::slice::from_ref(&*self.carriers)) {
            line if line.is_empty() => "ssh ended".to_owned(),
            line => format!("ssh says {line:?}"),
        };
        Error::new(ErrorKind::ConnectionLost, "dialling", words)
    }
}

/// Whether nothing more will come from a socket on which nothing has come yet.
fn is_over(socket: &Socket) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
