//! The channel by which a controller talks to an agent. ssh is one way to open it.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use crate::ssh::sessions::Sessions;

/// What comes from an agent.
pub trait Incoming: Read + AsFd + Send {}

impl<T: Read + AsFd + Send> Incoming for T {}

/// Both directions of a channel.
pub struct ChannelStreams {
    /// To the agent. When it is dropped the agent ends.
    pub to_agent: Box<dyn Write + Send>,
    /// From the agent, at the byte after its preamble.
    pub from_agent: Box<dyn Incoming>,
}

/// An open channel to an agent. What carries it ends when it is dropped.
pub trait ControlChannel: Send {
    /// Hands out both directions. The second time there are none.
    fn take_streams(&mut self) -> Option<ChannelStreams>;

    /// The program that was sent there, to be compared with what the agent says of itself.
    fn uploaded(&self) -> Option<&Path> {
        None
    }

    /// Further ssh sessions to the agent's machine, where ssh leads there.
    fn sessions(&self) -> Option<&Arc<Sessions>> {
        None
    }
}
