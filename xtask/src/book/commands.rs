//! The pages of the commands, made from the program's own help.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::help;

/// A generated page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandPage {
    /// The path that the document would have in the repository.
    pub document: String,
    /// The name in the table of contents.
    pub title: String,
    /// The level in the table of contents: 0, or 1 for a page below the one before.
    pub level: usize,
    /// The Markdown text.
    pub text: String,
}

/// Returns the page of the program, and one for each of its commands.
///
/// # Errors
/// Returns an error if the program cannot print its help, or the help lists no commands.
pub(super) fn pages(program: &Path) -> Result<Vec<CommandPage>> {
    let main = printed(program, &[])?;
    let commands = help::commands(&main);
    ensure!(!commands.is_empty(), "the help of {} lists no commands", program.display());
    let mut text = help::section("hakobu", &main, 1, |name| {
        let is_command = commands.iter().any(|command| command.term == name);
        is_command.then(|| format!("commands/{name}.md"))
    });
    text.push_str(&origin(&[]));
    let mut pages = vec![CommandPage {
        document: "docs/book/commands.md".to_owned(),
        title: "Commands".to_owned(),
        level: 0,
        text,
    }];
    for command in &commands {
        pages.push(CommandPage {
            document: format!("docs/book/commands/{}.md", command.term),
            title: command.term.clone(),
            level: 1,
            text: page(program, &command.term)?,
        });
    }
    Ok(pages)
}

/// Returns the page of a command, with a section for each of its subcommands.
fn page(program: &Path, command: &str) -> Result<String> {
    let help = printed(program, &[command])?;
    let name = format!("hakobu {command}");
    let below = help::commands(&help);
    let anchor = |term: &str| {
        let is_below = below.iter().any(|command| command.term == term);
        is_below.then(|| format!("#hakobu-{command}-{term}"))
    };
    let mut text = help::section(&name, &help, 1, anchor);
    for subcommand in &below {
        let help = printed(program, &[command, &subcommand.term])?;
        text.push('\n');
        text.push_str(&help::section(&format!("{name} {}", subcommand.term), &help, 2, |_| None));
    }
    text.push_str(&origin(&[command]));
    Ok(text)
}

/// Returns the sentence at the end of a page that says where it is from.
fn origin(command: &[&str]) -> String {
    let words = [&["hakobu"], command, &["--help"]].concat().join(" ");
    format!("\nThis page is the output of `{words}`.\n")
}

/// Returns the help that the program prints, independent of the environment.
fn printed(program: &Path, command: &[&str]) -> Result<String> {
    let name = || format!("{} {} --help", program.display(), command.join(" "));
    let output = Command::new(program).args(command).arg("--help").env_clear().output().with_context(name)?;
    ensure!(output.status.success(), "{}: {}", name(), output.status);
    String::from_utf8(output.stdout).with_context(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_name_their_origin() {
        assert_eq!(origin(&[]), "\nThis page is the output of `hakobu --help`.\n");
        assert_eq!(origin(&["copy"]), "\nThis page is the output of `hakobu copy --help`.\n");
    }

    #[test]
    fn a_program_without_commands_is_an_error() {
        assert!(pages(Path::new("/bin/true")).is_err());
        assert!(pages(Path::new("/bin/false")).is_err());
    }
}
