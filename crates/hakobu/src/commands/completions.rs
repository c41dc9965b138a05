//! The verb `completions`: a script for a shell.

use clap_complete::Shell;

use crate::{cli, output};

/// Prints the completions; returns the exit code.
pub fn completions(shell: Shell) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::offered(&cli::command()), "hakobu", &mut script);
    output::print(&script)
}
