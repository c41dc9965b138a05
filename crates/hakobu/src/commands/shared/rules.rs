//! Filter rules on the command line, whose order matters.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::filter::{FilterRule, RULES_MAX};

use crate::commands::shared::headings::FILTERS;

/// The typed rules, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleArguments(pub Vec<RuleArgument>);

/// A typed rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleArgument {
    /// `--exclude PATTERN`
    Exclude(OsString),
    /// `--include PATTERN`
    Include(OsString),
    /// `--filter-file FILE`
    File(OsString),
}

impl Args for RuleArguments {
    fn augment_args(command: Command) -> Command {
        let option = |name: &'static str, value: &'static str, help: &'static str| {
            Arg::new(name)
                .long(name)
                .value_name(value)
                .help(help)
                .help_heading(FILTERS)
                .action(ArgAction::Append)
                .value_parser(ValueParser::os_string())
        };
        command
            .arg(option("exclude", "PATTERN", "Exclude matching entries, as in .gitignore"))
            .arg(option("include", "PATTERN", "Include entries that an earlier rule excludes"))
            .arg(option("filter-file", "FILE", "Read rules from a file in .gitignore syntax"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RuleArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found = Vec::new();
        let mut take = |name, rule: fn(OsString) -> RuleArgument| {
            let values = matches.get_many::<OsString>(name).into_iter().flatten();
            let places = matches.indices_of(name).into_iter().flatten();
            found.extend(places.zip(values.cloned().map(rule)));
        };
        take("exclude", RuleArgument::Exclude);
        take("include", RuleArgument::Include);
        take("filter-file", RuleArgument::File);
        found.sort_by_key(|(place, _)| *place);
        Ok(Self(found.into_iter().map(|(_, rule)| rule).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl RuleArguments {
    /// Returns the rules, with those of files.
    ///
    /// # Errors
    /// `Usage` for a pattern that is not UTF-8 and for too many rules; a file cannot be read.
    pub fn read(&self) -> Result<Vec<FilterRule>, Error> {
        let mut rules = Vec::new();
        for argument in &self.0 {
            match argument {
                RuleArgument::Exclude(pattern) => {
                    rules.push(FilterRule::exclude(text(pattern)?, "--exclude".to_owned()));
                }
                RuleArgument::Include(pattern) => {
                    rules.push(FilterRule::include(text(pattern)?, "--include".to_owned()));
                }
                RuleArgument::File(path) => read_file(&PathBuf::from(path), &mut rules)?,
            }
            if rules.len() > RULES_MAX {
                let words = format!("there are more than {RULES_MAX} rules");
                return Err(Error::new(ErrorKind::Usage, "reading the filter rules", words));
            }
        }
        Ok(rules)
    }
}

fn text(pattern: &OsString) -> Result<&str, Error> {
    let wrong = || {
        let words = "a pattern is UTF-8; ? stands for any other byte";
        Error::new(ErrorKind::Usage, "reading the filter rules", words).at(pattern.as_encoded_bytes())
    };
    pattern.to_str().ok_or_else(wrong)
}

fn read_file(path: &Path, rules: &mut Vec<FilterRule>) -> Result<(), Error> {
    let at = path.as_os_str().as_encoded_bytes();
    let content =
        std::fs::read(path).map_err(|error| Error::io("reading the filter rules", &error).at(at))?;
    let wrong = |_| Error::new(ErrorKind::Usage, "reading the filter rules", "it is not UTF-8").at(at);
    let content = String::from_utf8(content).map_err(wrong)?;
    let rule = |(index, line): (usize, &str)| FilterRule {
        line: line.to_owned(),
        from: format!("{}:{}", path.display(), index + 1),
    };
    // One more than the limit, so that excess rules are noticed.
    rules.extend(content.lines().enumerate().map(rule).take(RULES_MAX + 1));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[&str]) -> RuleArguments {
        let command = RuleArguments::augment_args(Command::new("test").no_binary_name(true));
        RuleArguments::from_arg_matches(&command.try_get_matches_from(line).unwrap()).unwrap()
    }

    #[test]
    fn rules_are_in_the_order_in_which_they_were_typed() {
        let typed = ["--include=a", "--exclude", "b", "--include", "c", "--filter-file", "/f", "--exclude=d"];
        use RuleArgument::{Exclude, File, Include};
        let expected = [
            Include("a".into()),
            Exclude("b".into()),
            Include("c".into()),
            File("/f".into()),
            Exclude("d".into()),
        ];
        assert_eq!(parsed(&typed).0, expected);
    }

    #[test]
    fn files_are_read_with_the_numbers_of_their_lines() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# nothing\n*.o\n!keep.o\n").unwrap();
        let rules =
            parsed(&["--filter-file", file.path().to_str().unwrap(), "--exclude", "!x"]).read().unwrap();
        let rules: Vec<_> =
            rules.iter().map(|rule| (&*rule.line, rule.from.rsplit(':').next().unwrap())).collect();
        assert_eq!(rules, [("# nothing", "1"), ("*.o", "2"), ("!keep.o", "3"), ("\\!x", "--exclude")]);
        std::fs::write(file.path(), b"\xff").unwrap();
        assert!(parsed(&["--filter-file", file.path().to_str().unwrap()]).read().is_err());
        assert!(parsed(&["--filter-file", "/nothing/here"]).read().is_err());
    }
}
