//! A stand-in for `hakobu` in the tests of the ssh start: `fake_agent agent` prints the preamble, then one line with
//! its process ID, its user ID and the file it runs from, and then echoes its input.

use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> io::Result<ExitCode> {
    if std::env::args_os().nth(1).is_none_or(|verb| verb != "agent") {
        return Ok(ExitCode::from(2));
    }
    let mut out = io::stdout().lock();
    out.write_all(hakobu_proto::control::PREAMBLE)?;
    let exe = std::fs::read_link("/proc/self/exe")?;
    let user = rustix::process::getuid().as_raw();
    writeln!(out, "{} {user} {}", std::process::id(), exe.display())?;
    out.flush()?;
    io::copy(&mut io::stdin().lock(), &mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
