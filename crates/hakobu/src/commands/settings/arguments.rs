//! The arguments of `settings`, and their help.

use std::ffi::OsString;

use clap::Args;

/// How it is typed.
pub(crate) const USAGE: &str = "hakobu settings [OPTIONS OF COPY] [SOURCE] [TARGET]";

/// The text below the help.
pub(crate) const SETTINGS_HELP: &str = "\
A settings file holds options that need not be typed each time. Its syntax is that of ssh_config: the first value \
found for a keyword counts, so specific hosts come before general ones.

  Host *.example.org !slow.example.org
    cipher aes-256-gcm
    bwlimit \"08:00,20M 19:00,off\"
  Pair localhost nas?
    lanes 4
  Host *
    ssh ssh -i ~/.ssh/backup

A keyword is an option of hakobu copy without its dashes. Files: $XDG_CONFIG_HOME/hakobu/config or \
~/.config/hakobu/config, then /etc/hakobu/config; --settings FILE or HAKOBU_SETTINGS name another file instead, or \
none. The command line overrides HAKOBU_SSH, which overrides files.

Examples:
  hakobu settings                       without another host
  hakobu settings host                  for host
  hakobu settings data host:/backup     for this copy
  hakobu settings --lanes 8 one:/a two:/b --json

Exit codes: 0 shown, 1 failed, 2 wrong usage or a mistake in a file, 6 a file that others may write.";

/// The arguments of `settings`.
#[derive(Debug, Args)]
pub struct SettingsArguments {
    /// The arguments of a hakobu copy, or a host
    #[arg(value_name = "SOURCE TARGET", allow_hyphen_values = true, trailing_var_arg = true)]
    pub words: Vec<OsString>,
}
