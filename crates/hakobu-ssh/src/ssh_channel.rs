//! A control channel over ssh.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::control_channel::{ChannelStreams, ControlChannel};
use crate::sessions::Sessions;
use crate::{AgentOrigin, SshChild, SshError, SshSettings};
use hakobu_core::prompts::Prompts;

/// A control channel over ssh.
pub struct SshChannel {
    ends: Option<ChannelStreams>,
    way: AgentOrigin,
    uploaded: Option<PathBuf>,
    sessions: Arc<Sessions>,
    _ssh: SshChild,
}

impl SshChannel {
    /// Logs in and starts an agent.
    ///
    /// # Errors
    /// All failures of ssh and of the upload.
    pub fn open(settings: &SshSettings, prompts: &mut dyn Prompts) -> Result<Self, SshError> {
        let sessions = Sessions::new(settings.clone())?;
        let started = sessions.start(prompts)?;
        Ok(Self {
            ends: Some(ChannelStreams {
                to_agent: Box::new(started.stdin),
                from_agent: Box::new(started.stdout),
            }),
            way: started.way,
            uploaded: started.uploaded,
            sessions: Arc::new(sessions),
            _ssh: started.ssh,
        })
    }

    /// Returns the origin of the agent.
    pub fn way(&self) -> AgentOrigin {
        self.way
    }
}

impl ControlChannel for SshChannel {
    fn take_streams(&mut self) -> Option<ChannelStreams> {
        self.ends.take()
    }

    fn uploaded(&self) -> Option<&Path> {
        self.uploaded.as_deref()
    }

    fn sessions(&self) -> Option<&Arc<Sessions>> {
        Some(&self.sessions)
    }
}
