//! The arguments of `settings`, and their help.

use std::ffi::OsString;

use clap::Args;

/// How it is typed.
pub(crate) const USAGE: &str = "hakobu settings [OPTIONS OF COPY] [SOURCE] [TARGET]";

/// What stands below the help.
pub(crate) const SETTINGS_HELP: &str = "\
Settings are options that are not typed each time. A file of them is written as ssh_config is: of
several values the first one counts, so what is for some hosts stands before what is for all.

  Host *.example.org !slow.example.org
    cipher aes-256-gcm
    bwlimit \"08:00,20M 19:00,off\"
  Pair localhost nas?
    lanes 4
  Host *
    ssh ssh -i ~/.ssh/backup

A keyword is an option of hakobu copy without its dashes. Files: $XDG_CONFIG_HOME/hakobu/config or
~/.config/hakobu/config, then /etc/hakobu/config; --settings FILE or HAKOBU_SETTINGS name another
one in their place, or none. The command line counts more than HAKOBU_SSH, that more than files.

Examples:
  hakobu settings                       without another machine
  hakobu settings host                  for host
  hakobu settings data host:/backup     for this copy
  hakobu settings --lanes 8 one:/a two:/b --json

Exit codes: 0 shown, 1 failed, 2 wrong usage or a mistake in a file, 6 a file that others may write.";

/// The arguments of `settings`.
#[derive(Debug, Args)]
pub struct SettingsArguments {
    /// What hakobu copy would be given: [SOURCE] [TARGET], or a host, and options
    #[arg(value_name = "SOURCE TARGET", allow_hyphen_values = true, trailing_var_arg = true)]
    pub words: Vec<OsString>,
}
