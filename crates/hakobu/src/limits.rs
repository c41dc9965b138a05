//! What a run is held to: options that `copy` and `jobs set` share.

use clap::Args;

/// What a run is held to.
#[derive(Clone, Debug, Default, Args)]
pub struct LimitArguments {
    /// At most so fast, such as 20M; or "08:00,20M 19:00,off"
    #[arg(long, value_name = "RATE", help_heading = "The way there")]
    pub bwlimit: Option<String>,
}
