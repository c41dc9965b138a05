//! The messages in Japanese, and how they are found.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::template::{SEPARATORS, Template};

/// The Japanese messages. Its first lines explain the format.
const JAPANESE: &str = include_str!("ja.txt");

pub(super) static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::of(JAPANESE));

/// The maximum number of bytes of a line that is translated. Other machines can send longer ones.
const LINE_BYTES_MAX: usize = 8192;
/// The maximum number of values within values that are translated.
const DEPTH_MAX: usize = 5;
/// The maximum number of parts that separators in values add to a template.
const FURTHER_PARTS_MAX: usize = 8;

/// The names of the sections of a catalog.
pub(super) const SECTIONS: [&str; 5] = ["phrases", "steps", "messages", "system", "parser"];

/// One entry of a catalog's file.
#[derive(Clone, Copy, Debug)]
pub(super) struct CatalogEntry {
    pub section: &'static str,
    pub english: &'static str,
    pub japanese: &'static str,
}

/// Reads the file of a catalog: sections of pairs of lines, English and Japanese, with empty lines between them.
pub(super) fn entries(file: &'static str) -> Vec<CatalogEntry> {
    let (mut entries, mut section, mut english) = (Vec::new(), "", None);
    for line in file.lines().filter(|line| !line.starts_with('#')) {
        let name = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'));
        match (name.filter(|name| SECTIONS.contains(name)), english) {
            (Some(name), _) => (section, english) = (name, None),
            _ if line.is_empty() => english = None,
            (None, None) => english = Some(line),
            (None, Some(known)) => {
                entries.push(CatalogEntry { section, english: known, japanese: line });
                english = None;
            }
        }
    }
    entries
}

/// A catalog.
#[derive(Debug)]
pub(super) struct Catalog {
    /// Everything by its English text.
    by_english: HashMap<&'static str, Template>,
    /// The steps of errors, the longest first.
    steps: Vec<(&'static str, &'static str)>,
    /// The templates that are matched with texts, the longest first.
    templates: Vec<Template>,
}

impl Catalog {
    pub fn of(file: &'static str) -> Self {
        let entries = entries(file);
        let template = |entry: &CatalogEntry| Template::new(entry.english, entry.japanese);
        // The first section wins: phrases are looked up by their text alone.
        let by_english = entries.iter().rev().map(|entry| (entry.english, template(entry))).collect();
        let of_steps = entries.iter().filter(|entry| entry.section == "steps");
        let mut steps: Vec<_> = of_steps.map(|entry| (entry.english, entry.japanese)).collect();
        steps.sort_by_key(|(english, _)| std::cmp::Reverse(english.len()));
        let matched = entries.iter().filter(|entry| !["phrases", "steps"].contains(&entry.section));
        let mut templates: Vec<_> = matched.map(template).collect();
        templates.sort_by_key(|template| std::cmp::Reverse(template.literal_bytes()));
        Self { by_english, steps, templates }
    }

    /// Returns the translation of a template with its values.
    pub fn filled(&self, english: &str, values: &[&str]) -> Option<String> {
        self.by_english.get(english).map(|template| template.fill(values, |value| self.text(value)))
    }

    /// Returns the translation of a step of an error.
    pub fn step(&self, step: &str) -> Option<&'static str> {
        self.steps.iter().find(|(english, _)| *english == step).map(|(_, japanese)| *japanese)
    }

    /// Translates a text of one line, part by part. A part that is not known stays as it is.
    pub fn text(&self, text: &str) -> String {
        self.text_within(text, 0)
    }

    /// Translates a text that is a value in so many others.
    fn text_within(&self, text: &str, depth: usize) -> String {
        if depth > DEPTH_MAX || text.len() > LINE_BYTES_MAX {
            return text.to_owned();
        }
        let parts = parts(text);
        let mut translated = String::with_capacity(text.len() * 2);
        let (mut next, mut was_known) = (0, false);
        while let Some(part) = parts.get(next) {
            let (last, words) = self.translated_from((text, &parts), next, depth);
            let is_known = words.is_some();
            if next > 0 {
                // Between two Japanese sentences.
                let separator = match &text[parts[next - 1].1..part.0] {
                    "; " if was_known && is_known => "。",
                    separator => separator,
                };
                translated.push_str(separator);
            }
            translated.push_str(words.as_deref().unwrap_or(&text[part.0..parts[last].1]));
            (next, was_known) = (last + 1, is_known);
        }
        translated
    }

    /// Translates the part `first`, with those behind it that belong to its template. Returns the last one of these, too.
    fn translated_from(
        &self,
        (text, parts): (&str, &[(usize, usize)]),
        first: usize,
        depth: usize,
    ) -> (usize, Option<String>) {
        let begin = parts[first].0;
        if let Some(list) = self.list(&text[begin..parts[first].1], depth) {
            return (first, Some(list));
        }
        let up_to = |last: usize| &text[begin..parts[last].1];
        let translate = |template: &Template, values: &[&str]| {
            template.fill(values, |value| self.text_within(value, depth + 1))
        };
        for template in &self.templates {
            let last = first + template.separators;
            if last < parts.len()
                && let Some(values) = template.values(up_to(last))
            {
                return (last, Some(translate(template, &values)));
            }
        }
        // Values may hold separators.
        for template in self.templates.iter().filter(|template| template.is_bounded()) {
            let least = first + template.separators + 1;
            for last in least..parts.len().min(least + FURTHER_PARTS_MAX) {
                if let Some(values) = template.values(up_to(last)) {
                    return (last, Some(translate(template, &values)));
                }
            }
        }
        let rest = parts.len() - 1;
        for template in self.templates.iter().filter(|template| template.takes_rest()) {
            if first + template.separators < rest
                && let Some(values) = template.values(up_to(rest))
                && let Some((_, others)) = values.split_last()
                && !others.iter().any(|value| SEPARATORS.iter().any(|known| value.contains(known)))
            {
                return (rest, Some(translate(template, &values)));
            }
        }
        let part = up_to(first);
        let error = (first == 0 && parts.len() > 1).then(|| self.beginning_of_error(part)).flatten();
        (first, error.or_else(|| self.with_parenthesis(part, depth)))
    }

    /// Translates a part that is a list of known texts.
    fn list(&self, part: &str, depth: usize) -> Option<String> {
        let translate = |text: &str| {
            let known = |template: &Template| {
                let values = template.values(text).filter(|_| template.separators == 0)?;
                Some(template.fill(&values, |value| self.text_within(value, depth + 1)))
            };
            self.templates.iter().find_map(known)
        };
        let known: Option<Vec<_>> = part.split(", ").map(translate).collect();
        known.filter(|known| known.len() > 1).map(|known| known.join("、"))
    }

    /// Translates the step and the place of an error in one text.
    fn beginning_of_error(&self, part: &str) -> Option<String> {
        self.steps.iter().find_map(|(english, japanese)| match part.strip_prefix(english)? {
            "" => Some((*japanese).to_owned()),
            place => place.strip_prefix(' ').map(|place| format!("{japanese}: {place}")),
        })
    }

    /// Translates a part that ends in parentheses, where one of both texts is known.
    fn with_parenthesis(&self, part: &str, depth: usize) -> Option<String> {
        let (before, within) = part.strip_suffix(')')?.rsplit_once(" (")?;
        let (new_before, new_within) =
            (self.text_within(before, depth + 1), self.text_within(within, depth + 1));
        let is_known = new_before != before || new_within != within;
        is_known.then(|| format!("{new_before} ({new_within})"))
    }
}

/// Returns the beginnings and ends of the parts between separators.
fn parts(text: &str) -> Vec<(usize, usize)> {
    let (mut parts, mut begin) = (Vec::new(), 0);
    let ends =
        text.char_indices().filter(|(at, _)| SEPARATORS.iter().any(|known| text[*at..].starts_with(known)));
    for (end, _) in ends {
        parts.push((begin, end));
        begin = end + 2;
    }
    parts.push((begin, text.len()));
    parts
}
