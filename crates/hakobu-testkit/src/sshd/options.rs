//! What kind of server it is.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// What kind of server it is.
#[derive(Debug, Clone)]
pub struct SshdOptions {
    /// Where it listens.
    pub address: IpAddr,
    /// The port; a free one when `None`.
    pub port: Option<u16>,
    /// A network namespace, by its `ip netns` name, that it runs in.
    pub netns: Option<String>,
    /// sshd's `MaxStartups`.
    pub max_startups: String,
    /// Text that is shown before login.
    pub banner: Option<String>,
    /// Who logs in when no user is named; the one who runs the test when `None`.
    pub login: Option<String>,
    /// Directories before that of the machine's tools on a session's PATH. The latter holds no hakobu, even if one is installed;
    /// those that the login shell's own startup file adds (root's may) must hold none.
    pub path_dirs: Vec<PathBuf>,
    /// Environment of every session.
    pub set_env: Vec<(String, String)>,
    /// Directories that forbid execution, for this server's sessions only. Those that do not exist are passed over.
    pub noexec: Vec<PathBuf>,
    /// Directories that are empty file systems of this many bytes, for this server's sessions only.
    pub small: Vec<(PathBuf, u64)>,
    /// Lines added to sshd's configuration. sshd takes the first value it reads, and these are first.
    pub config_lines: Vec<String>,
}

impl Default for SshdOptions {
    fn default() -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: None,
            netns: None,
            max_startups: "100:30:200".to_owned(),
            banner: None,
            login: None,
            path_dirs: Vec::new(),
            set_env: Vec::new(),
            noexec: Vec::new(),
            small: Vec::new(),
            config_lines: Vec::new(),
        }
    }
}
