//! The hidden command `complete`: candidates that shell completion scripts look up while the user types.

use clap::{Args, ValueEnum};
use hakobu_transfer::jobs::Jobs;

use crate::{output, ssh_hosts};

/// The kind of word to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Completed {
    /// Hosts.
    Hosts,
    /// Hosts, each followed by a colon.
    Locations,
    /// The IDs of jobs.
    Jobs,
}

/// The arguments of `complete`.
#[derive(Debug, Args)]
pub struct CompleteArguments {
    /// The kind of word to complete.
    pub what: Completed,
    /// The part of the word that is typed already.
    #[arg(default_value = "", allow_hyphen_values = true)]
    pub word: String,
}

/// Prints the candidates that begin with the word, one per line; returns the exit code.
pub fn complete(typed: &CompleteArguments) -> u8 {
    let candidates = match typed.what {
        Completed::Hosts => hosts(&typed.word, ""),
        Completed::Locations => hosts(&typed.word, ":"),
        Completed::Jobs => job_ids().into_iter().filter(|id| id.starts_with(&typed.word)).collect(),
    };
    output::print(candidates.iter().map(|candidate| format!("{candidate}\n")).collect::<String>().as_bytes())
}

/// Returns the hosts that begin with the word, each with the user that was typed before it.
fn hosts(word: &str, behind: &str) -> Vec<String> {
    let (user, start) = word.rfind('@').map_or(("", word), |at| word.split_at(at + 1));
    let known = ssh_hosts::known();
    known.iter().filter(|host| host.starts_with(start)).map(|host| format!("{user}{host}{behind}")).collect()
}

/// Returns the IDs of all jobs. Errors are ignored, as a completion must not print them.
fn job_ids() -> Vec<String> {
    let ids = Jobs::of_user().and_then(|jobs| jobs.ids()).unwrap_or_default();
    ids.iter().map(|id| id.as_str().to_owned()).collect()
}
