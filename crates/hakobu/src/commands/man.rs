//! The manual pages: those that clap generates, with sections of our own.

use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::{cli, exit, output};

/// The synopsis of `copy`.
const COPY_USAGE: &str = "hakobu copy [OPTION]... SOURCE... TARGET";

/// Prints the manual page of the program or of a command; returns the exit code.
pub fn man(verb: Option<&str>) -> u8 {
    match page(verb) {
        Some(Ok(page)) => output::print(&page),
        Some(Err(_)) => exit::FAILED,
        None => exit::wrong_usage(&["error: there is no manual page of that name".to_owned()]),
    }
}

/// Returns the page of the program or of a command. `None` if there is no such command.
///
/// # Errors
/// None that is known; the page is written to memory.
pub fn page(verb: Option<&str>) -> Option<io::Result<Vec<u8>>> {
    let program = cli::with_all_options(cli::command());
    let mut program = program.mut_subcommand("copy", |copy| copy.override_usage(COPY_USAGE));
    program.build();
    let command = match verb {
        None => program,
        Some(verb) => program.find_subcommand(verb)?.clone(),
    };
    Some(render(command))
}

/// The variables that hakobu reads, and what they do.
const ENVIRONMENT: [(&str, &str); 10] = [
    ("HAKOBU_SSH", "The ssh command to log in with, unless --ssh is given. Overrides settings files."),
    ("HAKOBU_SETTINGS", "A settings file to use instead of the usual ones; none for no settings file."),
    ("HAKOBU_STATE", "The directory for jobs and for the state of interrupted runs."),
    ("RSYNC_PASSWORD", "The password for an rsync daemon."),
    (
        "AWS_PROFILE, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL",
        "Profile, keys, region and server of S3, as for aws, with all other variables of credentials that it reads.",
    ),
    (
        "LC_ALL, LC_MESSAGES, LANG",
        "The locale, of which the first that is not empty counts. Where it is Japanese, as ja_JP.UTF-8, messages and reports \
         are, too.",
    ),
    ("NO_COLOR", "If set and not empty, output is not colored."),
    ("CLICOLOR_FORCE", "If set, not empty and not 0, output is colored even if it is not a terminal."),
    ("XDG_CONFIG_HOME", "The directory of hakobu/config.toml; the default is ~/.config."),
    (
        "XDG_STATE_HOME",
        "The directory of hakobu/jobs of users other than root; the default is ~/.local/state.",
    ),
];

/// The files that hakobu reads and writes.
const FILES: [(&str, &str); 3] = [
    ("~/.config/hakobu/config.toml", "Settings of the user, see hakobu-settings(1)."),
    ("/etc/hakobu/config.toml", "Settings of the system; those of the user come first."),
    (
        "/var/lib/hakobu, ~/.local/state/hakobu",
        "Records, logs and reports of jobs, and the state of interrupted runs: of root, and of other users.",
    ),
];

fn terms(heading: &str, terms: &[(&str, &str)]) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [heading]);
    for (term, meaning) in terms {
        roff.control("TP", []);
        roff.text([bold(*term)]);
        roff.text([roman(*meaning)]);
    }
    roff
}

fn render(command: Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (verbs, versioned) = (command.has_subcommands(), command.get_version().is_some());
    let man =
        Man::new(command.long_version(None::<&str>)).source(concat!("hakobu ", env!("CARGO_PKG_VERSION")));
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if verbs {
        man.render_subcommands_section(&mut page)?;
    }
    self::notes(&notes).to_writer(&mut page)?;
    terms("ENVIRONMENT", &ENVIRONMENT).to_writer(&mut page)?;
    terms("FILES", &FILES).to_writer(&mut page)?;
    if versioned {
        man.render_version_section(&mut page)?;
    }
    Ok(page)
}

/// Returns the text below the options. Paragraphs are filled, examples keep their lines, and each heading of the help
/// becomes a section.
fn notes(text: &str) -> Roff {
    let mut roff = Roff::new();
    let mut paragraphs: Vec<_> = text
        .split("\n\n")
        .map(|paragraph| match paragraph.split_once(':') {
            Some(("Exit codes", body)) => (Some("EXIT STATUS"), body),
            Some(("Examples", body)) => (Some("EXAMPLES"), body),
            _ => (None, paragraph),
        })
        .collect();
    // Options without a heading come first, as one group.
    paragraphs.sort_by_key(|(heading, _)| heading.is_some());
    for (index, (heading, body)) in paragraphs.into_iter().enumerate() {
        match heading {
            Some(heading) => roff.control("SH", [heading]),
            None if index > 0 => roff.control("PP", []),
            None => roff.control("SH", ["NOTES"]),
        };
        let as_lines = body.lines().any(|line| line.starts_with("  "));
        if as_lines {
            roff.control("nf", []);
        }
        for line in body.lines().map(str::trim).filter(|line| !line.is_empty()) {
            roff.text([roman(line)]);
        }
        if as_lines {
            roff.control("fi", []);
        }
    }
    roff
}
