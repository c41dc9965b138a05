//! Tests of the help texts. To accept a changed help of `copy`, run them with HAKOBU_BLESS=1.

#![allow(clippy::expect_used)]

use clap::Command;
use hakobu::cli;
use hakobu::commands::man;

/// Returns all commands, with nested ones, whose help has this width.
fn verbs(command: Command, columns: usize) -> Vec<Command> {
    let mut program = command.term_width(columns);
    program.build();
    let mut verbs: Vec<_> = program.get_subcommands().cloned().collect();
    let nested: Vec<_> = verbs.iter().flat_map(|verb| verb.get_subcommands()).cloned().collect();
    verbs.extend(nested);
    verbs.push(program);
    verbs
}

#[test]
fn short_help_fits_one_screen_with_a_line_for_each_option() {
    for mut verb in verbs(cli::short_help(cli::command()), 80) {
        let help = verb.render_help().to_string();
        let name = verb.get_name();
        assert!(help.lines().count() <= 40, "{name} has more than 40 lines:\n{help}");
        let options = help.lines().skip_while(|line| *line != "Options:").skip(1);
        for line in options.take_while(|line| !line.is_empty()) {
            assert!(line.starts_with("  -") || line.starts_with("      --"), "{name} wraps: {line}");
            assert!(line.chars().count() <= 80, "{name} is too wide: {line}");
        }
        let headings = help.lines().filter(|line| line.ends_with(':') && !line.starts_with(' '));
        for heading in headings {
            assert!(["Arguments:", "Options:", "Commands:"].contains(&heading), "{name}: {heading}");
        }
    }
}

#[test]
fn long_help_wraps_and_has_the_same_groups_for_all_verbs() {
    let groups = [
        "Transfer",
        "Filters",
        "Deletion",
        "Connection",
        "Performance",
        "Disks",
        "Object stores",
        "Fleet",
        "NATS",
        "Output",
        "Arguments",
        "Commands",
    ];
    for columns in [80, 100] {
        for mut verb in verbs(cli::full_help(cli::command()), columns) {
            let help = verb.render_help().to_string();
            let name = verb.get_name();
            for line in help.lines() {
                assert!(line.chars().count() <= columns, "{name} is too wide: {line}");
            }
            let mut options = help.split("\n\n").filter_map(|part| {
                let (heading, rest) = part.trim_start_matches('\n').split_once(":\n")?;
                rest.trim_start().starts_with('-').then_some(heading)
            });
            // A lone option needs no group.
            let is_small = ["resume", "forget", "unit"].contains(&name);
            assert!(
                options.all(|heading| (is_small && heading == "Options") || groups.contains(&heading)),
                "{name}:\n{help}"
            );
            let notes = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let is_wrapped_by_hand = |pair: &[&str]| {
                [pair[0], pair[1]].iter().all(|line| !line.is_empty() && !line.starts_with(' '))
                    && !pair[0].ends_with(':')
            };
            let lines: Vec<_> = notes.lines().collect();
            assert!(!lines.windows(2).any(is_wrapped_by_hand), "{name} is wrapped by hand: {notes}");
        }
    }
}

#[test]
fn full_help_and_manual_have_every_option_with_a_text() {
    let mut count = 0;
    for mut verb in verbs(cli::full_help(cli::command()), 100) {
        let (help, name) = (verb.render_help().to_string(), verb.get_name().to_owned());
        for option in verb.get_arguments().filter(|option| !option.is_hide_set()) {
            let text = option.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(!text.trim().is_empty(), "{name}: {option} has no text");
            let Some(long) = option.get_long() else { continue };
            let is_option = |word: &str| word.trim_end_matches(',') == format!("--{long}");
            let mut beginnings = help.lines().filter(|line| line.trim_start().starts_with('-'));
            assert!(beginnings.any(|line| line.split(' ').any(is_option)), "{name} lacks --{long}:\n{help}");
            count += 1;
        }
    }
    assert!(count > 200, "{count} options");
    for verb in cli::command().get_subcommands().map(|verb| Some(verb.get_name())).chain([None]) {
        let page = man::page(verb).expect("there is such a page").expect("it can be written");
        let page = String::from_utf8(page).expect("it is text");
        let lines: Vec<_> = page.lines().collect();
        for (at, _) in lines.iter().enumerate().filter(|(_, line)| **line == ".TP") {
            let text = lines.get(at + 2).copied().unwrap_or_default();
            assert!(!text.is_empty() && !text.starts_with('.'), "{verb:?}: {} has no text", lines[at + 1]);
        }
    }
}

#[test]
fn options_are_described_in_the_words_of_their_command() {
    let commands = verbs(cli::full_help(cli::command()), 100);
    let help = |name: &str| {
        let verb = commands.iter().find(|verb| verb.get_name() == name).cloned();
        verb.expect("there is such a command").render_help().to_string()
    };
    let verify = help("verify");
    let options = verify.split("Both sides read").next().expect("there are options");
    for word in ["copy", "copied", "created", "rsync"] {
        assert!(!options.contains(word), "verify says {word}:\n{options}");
    }
    for (name, option, is_shown) in [
        ("ls", "--sudo", false),
        ("ls", "--agent", false),
        ("ls", "--ssh", true),
        ("settings", "--json", true),
        ("settings", "--settings <FILE>", true),
        ("copy", "--password-file", true),
        ("sync", "--password-file", true),
        ("verify", "--password-file", false),
        ("copy", "<SOURCE>... <TARGET>", true),
        ("sync", "<SOURCE> <TARGET>", true),
        ("verify", "<SOURCE> <TARGET>", true),
        ("verify", "<SOURCE>...", false),
        ("explain", "Copy only", false),
        ("sync", "-W, --whole-file", true),
        ("copy", "--storage-class", true),
        ("verify", "--storage-class", false),
        ("verify", "--source-profile", true),
        ("ls", "--endpoint", true),
    ] {
        assert_eq!(help(name).contains(option), is_shown, "{option} of {name}");
    }
}

#[test]
fn the_help_of_copy_is_the_one_that_was_approved() {
    let copy = |command: Command| {
        let mut found = verbs(command, 100).into_iter().find(|verb| verb.get_name() == "copy");
        found.as_mut().expect("there is a verb copy").render_help().to_string()
    };
    let help = copy(cli::full_help(cli::command()));
    assert!(help.lines().count() <= 140, "two screens and a bit at most, not a manual");
    for hidden in ["--memory", "--delete", "--passes"] {
        assert!(!help.contains(hidden), "{hidden} is no option of copy");
    }
    let both = format!("{}\n\n{help}", copy(cli::short_help(cli::command())));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/help_copy.txt");
    if std::env::var_os("HAKOBU_BLESS").is_some() {
        std::fs::write(path, &both).expect("the approved help can be written");
    }
    let approved = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(both, approved, "if it is better than before: HAKOBU_BLESS=1 cargo test -p hakobu help");
}
