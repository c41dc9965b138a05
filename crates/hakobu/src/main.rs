//! The program `hakobu`: everything is in the library of the same name.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    hakobu::main(&arguments)
}
