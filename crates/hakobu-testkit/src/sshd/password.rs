//! A user whose login requires a password.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::process::{explained, run};
use super::users::{Shell, Sudo, User};

/// The password.
const PASSWORD: &str = "open sesame";

/// A user with a password, and a program that supplies the password and counts the requests. Requires root.
#[derive(Debug)]
pub struct Password {
    user: User,
    directory: TempDir,
}

impl Password {
    /// Creates the user and the program.
    ///
    /// # Errors
    /// The errors of [`User::create`].
    pub fn create() -> io::Result<Self> {
        let user = User::create(Shell::Sh, &Sudo::Password(PASSWORD.to_owned()))?;
        let this = Self { user, directory: TempDir::with_prefix("hakobu-askpass.")? };
        let script = format!(
            "#!/bin/sh\necho \"$1\" >>{}\nsleep 0.3\necho {PASSWORD}\n",
            this.directory.path().join("asked").display()
        );
        // Another process writes the program. A program that is open for writing in this process cannot be executed,
        // and a fork in any thread would inherit the descriptor.
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

    /// Returns the user.
    #[must_use]
    pub fn user(&self) -> &User {
        &self.user
    }

    /// Returns the path of the program that ssh runs to ask (`SSH_ASKPASS`, with `SSH_ASKPASS_REQUIRE=force`).
    #[must_use]
    pub fn program(&self) -> PathBuf {
        self.directory.path().join("askpass")
    }

    /// Returns the number of times the password was requested.
    #[must_use]
    pub fn asked(&self) -> usize {
        fs::read_to_string(self.directory.path().join("asked")).unwrap_or_default().lines().count()
    }
}
