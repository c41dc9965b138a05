//! The command `completions`: prints a completion script.
//!
//! The options are part of the script. Hosts and job IDs change, so the scripts of bash, zsh and fish run `hakobu
//! complete` for them.

use clap::Command;
use clap_complete::Shell;

use crate::{cli, output};

const BASH: &str = include_str!("hakobu.bash");
const ZSH: &str = include_str!("hakobu.zsh");
const FISH: &str = include_str!("hakobu.fish");
/// The place before which the functions for zsh are inserted.
const ZSH_START: &str = "\n_hakobu() {";

/// Prints the completions; returns the exit code.
pub fn completions(shell: Shell) -> u8 {
    output::print(script(shell).as_bytes())
}

fn script(shell: Shell) -> String {
    let command = cli::offered(&cli::command());
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command.clone(), "hakobu", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => script + &BASH.replace("@VALUED@", &valued(&command).join(" | ")),
        Shell::Zsh => with_zsh_functions(&script),
        Shell::Fish => script + FISH,
        _ => script,
    }
}

/// Returns the options that take a value, of all commands.
fn valued(command: &Command) -> Vec<String> {
    let mut names = Vec::new();
    for option in command.get_opts().filter(|option| option.get_action().takes_values()) {
        names.extend(option.get_long().map(|long| format!("--{long}")));
        names.extend(option.get_short().map(|short| format!("-{short}")));
    }
    names.extend(command.get_subcommands().flat_map(valued));
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the script for zsh, in which functions of its own complete arguments.
fn with_zsh_functions(script: &str) -> String {
    let own = |line: &str| {
        let name = line.trim_start_matches(['\'', ':', '*']).split(" -- ").next().unwrap_or_default();
        let function = match name {
            "sources" | "target" | "places" | "location" => "_hakobu_locations",
            "host" => "_hakobu_hosts",
            "id" | "ids" => "_hakobu_jobs",
            _ => return line.to_owned(),
        };
        line.replace(":_default'", &format!(":{function}'"))
    };
    let lines: Vec<_> = script.lines().map(own).collect();
    lines.join("\n").replacen(ZSH_START, &format!("\n{ZSH}{}", ZSH_START.trim_start()), 1) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_ask_for_hosts_and_jobs() {
        for (shell, words) in [
            (Shell::Bash, ["complete \"$what\"", "--lanes | ", "complete -F _hakobu_all"]),
            (
                Shell::Zsh,
                [
                    "':target -- Target, in the same form:_hakobu_locations'",
                    ":_hakobu_jobs'",
                    ":_hakobu_hosts'",
                ],
            ),
            (Shell::Fish, ["hakobu complete locations", "hakobu complete hosts", "hakobu complete jobs"]),
        ] {
            let script = script(shell);
            for words in words {
                assert!(script.contains(words), "{shell} lacks {words}");
            }
        }
        assert_eq!(script(Shell::Zsh).matches("_hakobu_locations() {").count(), 1);
    }
}
