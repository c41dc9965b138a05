//! The arguments of `settings`, and their help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::commands::shared::headings::{CONNECTION, OUTPUT};

/// The synopsis of `settings`.
pub(crate) const USAGE: &str = "hakobu settings [OPTIONS] [OPTIONS OF COPY] [SOURCE] [TARGET]";

/// The text below the help.
pub(crate) const SETTINGS_HELP: &str = "\
A settings file holds options that need not be typed each time. It is TOML: a key is an option of hakobu copy \
without the leading `--`. Keys at the top apply to all runs. Matching sections override them; for each key, the first that sets it counts.

  ssh = \"ssh -i ~/.ssh/backup\"
  [[host]]
  match = [\"*.example.org\", \"!slow.example.org\"]
  bwlimit = \"08:00,20M 19:00,off\"
  [[pair]]
  source = \"localhost\"
  target = \"nas?\"
  lanes = 4

Files: $XDG_CONFIG_HOME/hakobu/config.toml or ~/.config/hakobu/config.toml, and /etc/hakobu/config.toml for all keys that the \
user's file does not set; --settings FILE or HAKOBU_SETTINGS name another file instead, or \
none. The command line overrides HAKOBU_SSH, which overrides files.

Examples:
  hakobu settings                       without another host
  hakobu settings host                  for host
  hakobu settings data host:/backup     for this copy
  hakobu settings --lanes 8 one:/a two:/b --json

Exit codes: 0 shown, 1 failed, 2 wrong usage or a mistake in a file, 6 refused: other users can write to \
a settings file.";

/// The arguments of `settings`.
#[derive(Debug, Args)]
pub struct SettingsArguments {
    /// Print one JSON object
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,

    /// Settings file to show, or none
    ///
    /// Environment: HAKOBU_SETTINGS
    #[arg(long = "settings", id = "settings_file", value_name = "FILE", help_heading = CONNECTION)]
    pub file: Option<PathBuf>,

    /// The arguments of a hakobu copy, or a host
    #[arg(value_name = "SOURCE TARGET", allow_hyphen_values = true, trailing_var_arg = true)]
    pub words: Vec<OsString>,
}
