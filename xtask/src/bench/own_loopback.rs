//! A network namespace with a loopback interface of its own: nothing else counts on it, and no port is taken.

use anyhow::Result;

use super::veth::ip;

/// The namespace. Dropping it removes it.
#[derive(Debug)]
pub struct OwnLoopback {
    name: String,
}

impl OwnLoopback {
    /// Creates the namespace.
    ///
    /// # Errors
    /// Returns the error of `ip`, most likely that root is needed.
    pub fn up() -> Result<Self> {
        let namespace = Self { name: format!("hakobu-bench-{}-own", std::process::id()) };
        ip(&["netns", "add", &namespace.name])?;
        ip(&["-n", &namespace.name, "link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for OwnLoopback {
    fn drop(&mut self) {
        // It may not exist.
        let _ = ip(&["netns", "delete", &self.name]);
    }
}
