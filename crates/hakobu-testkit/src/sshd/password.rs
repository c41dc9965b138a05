//! A user who has to be asked.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::process::{explained, run};
use super::users::{Shell, Sudo, User};

/// The password.
const PASSWORD: &str = "open sesame";

/// A user with a password, which a program gives that counts how often it is asked. Needs root.
#[derive(Debug)]
pub struct Password {
    user: User,
    directory: TempDir,
}

impl Password {
    /// Makes the user, and the program.
    ///
    /// # Errors
    /// As [`User::create`].
    pub fn create() -> io::Result<Self> {
        let user = User::create(Shell::Sh, &Sudo::Password(PASSWORD.to_owned()))?;
        let this = Self { user, directory: TempDir::with_prefix("hakobu-askpass.")? };
        let script = format!(
            "#!/bin/sh\necho \"$1\" >>{}\nsleep 0.3\necho {PASSWORD}\n",
            this.directory.path().join("asked").display()
        );
        // By another process: a program that one of ours has open for writing cannot be run, and any thread may fork.
        let mut writer = Command::new("sh")
            .args(["-c", "cat >\"$1\" && chmod 755 \"$1\"", "sh"])
            .arg(this.program())
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|error| explained("sh", &error))?;
        if let Some(mut stdin) = writer.stdin.take() {
            stdin.write_all(script.as_bytes())?;
        }
        writer.wait()?;
        run(Command::new("test").arg("-x").arg(this.program()))?;
        Ok(this)
    }

    /// Who it is.
    #[must_use]
    pub fn user(&self) -> &User {
        &self.user
    }

    /// What ssh runs to ask (`SSH_ASKPASS`, with `SSH_ASKPASS_REQUIRE=force`).
    #[must_use]
    pub fn program(&self) -> PathBuf {
        self.directory.path().join("askpass")
    }

    /// How often it was asked.
    #[must_use]
    pub fn asked(&self) -> usize {
        fs::read_to_string(self.directory.path().join("asked")).unwrap_or_default().lines().count()
    }
}
