//! A host with an SFTP server and no agent, opened as an endpoint of a copy.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::error::{Error, ErrorKind, ErrorStep, Result};
use hakobu_core::grant::Grant;
use hakobu_core::job::Job;
use hakobu_endpoints::sftp::{Channel, SftpAccess, SftpLook, SftpSource, SftpTarget, SftpTargetOptions};
use hakobu_proto::control::MachinePath;

use hakobu_agent::machine;
use hakobu_ssh::SshError;
use hakobu_ssh::login::SshMethod;
use hakobu_ssh::sessions::{Pipe, SessionCommand, Sessions};

/// The operation in errors if no connection can be opened.
pub const OPENING: &str = "opening sftp on";

/// A host with an SFTP server.
pub struct SftpSide {
    /// The host as the user named it.
    pub host: String,
    /// The reason why there is no agent, if one was tried.
    pub why: Option<String>,
    pub(super) access: SftpAccess,
    pub(super) look: SftpLook,
    round_trip: Duration,
    sessions: Arc<Sessions>,
    /// The host's boot ID, if it can be read.
    pub(super) boot_id: Option<String>,
}

impl SftpSide {
    /// Logs in and starts SFTP. `why`: the reason why no agent is used, if one was tried.
    ///
    /// # Errors
    /// The login fails, or there is no SFTP server.
    pub fn start(login: &SshMethod<'_>, why: Option<String>, cancel: Arc<AtomicBool>) -> Result<Self> {
        let host = login.host.destination();
        let fail = |error: &SshError| {
            Error::new(ErrorKind::Io, OPENING, error.to_string()).in_step(ErrorStep::Login).at(&host)
        };
        let sessions = Arc::new(Sessions::new(login.settings()).map_err(|error| fail(&error))?);
        let first = sessions.first(SessionCommand::Subsystem("sftp")).map_err(|error| fail(&error))?;
        let connect = {
            let (sessions, host) = (Arc::clone(&sessions), host.clone());
            move |stop: &AtomicBool| match sessions.further(SessionCommand::Subsystem("sftp"), stop) {
                Ok(pipe) => channel(pipe),
                Err(error) => Err(Error::new(ErrorKind::ConnectionLost, OPENING, error.to_string())
                    .in_step(ErrorStep::Login)
                    .at(&host)),
            }
        };
        let mut access = SftpAccess { connect: Arc::new(connect), is_root: false, cancel };
        let look = SftpLook::open(channel(first)?, &access).map_err(|error| no_server(error, &host))?;
        sessions.settle();
        let (home, found, round_trip) = look.home()?;
        sessions.round_trip_is(round_trip);
        let is_home_of_root = home == b"/root" && found.is_some_and(|found| found.uid == 0);
        access.is_root = login.host.user.as_deref() == Some("root") || is_home_of_root;
        let boot_id = look.boot_id();
        Ok(Self { host, why, access, look, round_trip, sessions, boot_id })
    }

    /// Returns the round-trip time of a request.
    pub fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// Prepares for many lanes.
    pub fn foresee_many(&self) {
        self.sessions.foresee_many();
    }

    /// Returns true if the account is root's.
    pub fn is_root(&self) -> bool {
        self.access.is_root
    }

    /// Returns the most capabilities that any directory there can have.
    pub fn capabilities(&self) -> Capabilities {
        self.look.abilities().capabilities(self.is_root())
    }

    pub(super) fn source(&self, roots: &[MachinePath]) -> Box<dyn SourceEndpoint> {
        let roots: Vec<_> = roots.iter().map(|root| root.0.clone()).collect();
        Box::new(SftpSource::new(self.access.clone(), &self.look, &roots))
    }

    pub(super) fn target(
        &self,
        root: &[u8],
        grant: Grant,
        identity: &[u8; 16],
        job: &Job,
    ) -> Box<dyn TargetEndpoint> {
        // Runs with parts of one job go on with each other's work wherever they are.
        let is_shared = grant.lease.is_some();
        let options = SftpTargetOptions {
            job: if is_shared { machine::key_of_runs(identity) } else { machine::key_of_job(identity) },
            run: machine::unique(),
            leaves_all: job.dry_run,
            durable: job.durable,
        };
        Box::new(SftpTarget::new(self.access.clone(), &self.look, root, grant, options))
    }
}

fn channel(pipe: Pipe) -> Result<Channel> {
    let Pipe { socket, ssh, said: _ } = pipe;
    let to_server =
        socket.try_clone().map_err(|error| Error::io(OPENING, &error).in_step(ErrorStep::Login))?;
    Ok(Channel { to_server: to_server.into(), from_server: socket.into(), process: Box::new(ssh) })
}

/// Converts the error of a server that did not start SFTP.
fn no_server(error: Error, host: &str) -> Error {
    let words = match error.kind {
        ErrorKind::Cancelled => return error,
        ErrorKind::ConnectionLost => {
            "ssh or the server ended before it spoke SFTP (its own words, if any, are above); see whether `sftp` works \
             with that host"
                .to_owned()
        }
        _ => error.reason(),
    };
    Error::new(ErrorKind::Io, OPENING, words).in_step(ErrorStep::Login).at(host)
}
