//! A control channel that ssh carries.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::control_channel::{ControlChannel, Ends};
use crate::ssh::sessions::Sessions;
use crate::ssh::{Prompts, SshChild, SshError, SshSettings, Way};

/// A control channel that ssh carries.
pub(crate) struct SshChannel {
    ends: Option<Ends>,
    way: Way,
    uploaded: Option<PathBuf>,
    sessions: Arc<Sessions>,
    _ssh: SshChild,
}

impl SshChannel {
    /// Logs in and starts an agent.
    ///
    /// # Errors
    /// Everything that can go wrong with ssh and the upload.
    pub fn open(settings: &SshSettings, prompts: &mut dyn Prompts) -> Result<Self, SshError> {
        let sessions = Sessions::new(settings.clone())?;
        let started = sessions.start(prompts)?;
        Ok(Self {
            ends: Some(Ends { to_agent: Box::new(started.stdin), from_agent: Box::new(started.stdout) }),
            way: started.way,
            uploaded: started.uploaded,
            sessions: Arc::new(sessions),
            _ssh: started.ssh,
        })
    }

    /// Where the agent came from.
    pub fn way(&self) -> Way {
        self.way
    }
}

impl ControlChannel for SshChannel {
    fn take_ends(&mut self) -> Option<Ends> {
        self.ends.take()
    }

    fn uploaded(&self) -> Option<&Path> {
        self.uploaded.as_deref()
    }

    fn sessions(&self) -> Option<&Arc<Sessions>> {
        Some(&self.sessions)
    }
}
