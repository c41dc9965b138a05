//! Questions to the user on the terminal, whatever standard input and output are.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};

use hakobu_agent::ssh::{Prompts, Secret};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

/// The terminal that controls this process, if there is one.
#[derive(Debug)]
pub struct Terminal;

impl Prompts for Terminal {
    fn sudo_password(&mut self, host: &str, attempt: u32) -> Option<Secret> {
        let again = if attempt > 1 { "that was not it; " } else { "" };
        let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        write!(terminal, "{again}password for sudo on {host}: ").ok()?;
        let answer = read_hidden(&mut terminal);
        let _ = writeln!(terminal);
        Secret::new(answer?)
    }
}

/// Reads a line without showing it.
fn read_hidden(terminal: &mut File) -> Option<Vec<u8>> {
    let shown = tcgetattr(&*terminal).ok()?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&*terminal, OptionalActions::Flush, &hidden).ok()?;
    let mut answer = Vec::new();
    let mut byte = [0];
    let whole = loop {
        match terminal.read(&mut byte) {
            Ok(1) if byte[0] == b'\n' => break true,
            Ok(1) if answer.len() < Secret::MAX_BYTES => answer.push(byte[0]),
            _ => break false,
        }
    };
    let _ = tcsetattr(&*terminal, OptionalActions::Flush, &shown);
    whole.then_some(answer)
}
