//! The hidden verb `complete`: what the scripts of shells offer that is not known when they are made.

use clap::{Args, ValueEnum};
use hakobu_transfer::jobs::Jobs;

use crate::{output, ssh_hosts};

/// The kind of word to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Completed {
    /// Hosts.
    Hosts,
    /// Hosts with a colon behind them.
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

/// Prints what begins like the word, each on a line of its own; returns the exit code.
pub fn complete(typed: &CompleteArguments) -> u8 {
    let candidates = match typed.what {
        Completed::Hosts => hosts(&typed.word, ""),
        Completed::Locations => hosts(&typed.word, ":"),
        Completed::Jobs => job_ids().into_iter().filter(|id| id.starts_with(&typed.word)).collect(),
    };
    output::print(candidates.iter().map(|candidate| format!("{candidate}\n")).collect::<String>().as_bytes())
}

/// The hosts that begin like the word, with the user that is typed before them.
fn hosts(word: &str, behind: &str) -> Vec<String> {
    let (user, start) = word.rfind('@').map_or(("", word), |at| word.split_at(at + 1));
    let known = ssh_hosts::known();
    known.iter().filter(|host| host.starts_with(start)).map(|host| format!("{user}{host}{behind}")).collect()
}

/// The IDs of all jobs; none where they cannot be listed, which is no time to say why.
fn job_ids() -> Vec<String> {
    let ids = Jobs::of_user().and_then(|jobs| jobs.ids()).unwrap_or_default();
    ids.iter().map(|id| id.as_str().to_owned()).collect()
}
