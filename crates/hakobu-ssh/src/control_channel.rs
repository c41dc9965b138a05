//! The channel between a controller and an agent. ssh is one way to open it.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use crate::sessions::Sessions;

/// The stream of bytes from an agent.
pub trait AgentStream: Read + AsFd + Send {}

impl<T: Read + AsFd + Send> AgentStream for T {}

/// Both directions of a channel.
pub struct ChannelStreams {
    /// The stream to the agent, which ends when this is dropped.
    pub to_agent: Box<dyn Write + Send>,
    /// The stream from the agent, positioned after its preamble.
    pub from_agent: Box<dyn AgentStream>,
}

/// An open channel to an agent. The process that carries it ends when the channel is dropped.
pub trait ControlChannel: Send {
    /// Hands out both directions. Returns `None` if they have been taken before.
    fn take_streams(&mut self) -> Option<ChannelStreams>;

    /// Returns the program that was uploaded, to be compared with the agent's report of itself.
    fn uploaded(&self) -> Option<&Path> {
        None
    }

    /// Returns further ssh sessions to the agent's host, if it is reached through ssh.
    fn sessions(&self) -> Option<&Arc<Sessions>> {
        None
    }
}
