//! The help is looked at when it changes: run with HAKOBU_BLESS=1 to accept a new one.

#![allow(clippy::expect_used)]

#[test]
fn help_fits_the_terminal() {
    let mut program = hakobu::cli::command().term_width(100);
    program.build();
    let mut verbs: Vec<_> = program.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned().collect();
    let nested: Vec<_> = verbs.iter().flat_map(|verb| verb.get_subcommands()).cloned().collect();
    verbs.extend(nested);
    for verb in &mut verbs {
        let help = verb.render_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{} is too wide: {line}", verb.get_name());
        }
        // What is wider than that is broken, and its rest stands alone.
        let notes = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in notes.lines() {
            assert!(line.chars().count() <= 100, "{} is too wide: {line}", verb.get_name());
        }
    }
}

#[test]
fn the_help_of_copy_is_the_one_that_was_approved() {
    let mut command = hakobu::cli::command().term_width(100);
    command.build();
    let copy = command.find_subcommand_mut("copy").expect("there is a verb copy");
    let help = copy.render_help().to_string();
    for line in help.lines() {
        assert!(line.chars().count() <= 100, "too wide: {line}");
    }
    assert!(help.lines().count() <= 104, "two screens at most, not a manual");
    assert!(!help.contains("--memory"), "it is of a later version");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/help_copy.txt");
    if std::env::var_os("HAKOBU_BLESS").is_some() {
        std::fs::write(path, &help).expect("the approved help can be written");
    }
    let approved = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(help, approved, "if it is better than before: HAKOBU_BLESS=1 cargo test -p hakobu help");
}
