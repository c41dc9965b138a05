//! The program itself, for the tests to link statically: so they can upload it without a build of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    hakobu::main(&std::env::args_os().collect::<Vec<_>>())
}
