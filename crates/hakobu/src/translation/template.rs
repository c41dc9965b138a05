//! One message of the catalog: an English template with `{}` for each value, and its translation.

/// The separators between the parts of a message: cause and place, cause and remedy.
pub(super) const SEPARATORS: [&str; 2] = [": ", "; "];

/// A template and its translation, in which `{1}` is the first value, and `{1*}` the first value translated in turn.
#[derive(Debug)]
pub(super) struct Template {
    /// The texts around the values: one more than there are values.
    literals: Vec<&'static str>,
    japanese: &'static str,
    /// The number of separators in the template.
    pub separators: usize,
}

impl Template {
    pub fn new(english: &'static str, japanese: &'static str) -> Self {
        let literals: Vec<_> = english.split("{}").collect();
        let count = |literal: &&str| -> usize {
            SEPARATORS.iter().map(|separator| literal.matches(separator).count()).sum()
        };
        let separators = literals.iter().map(count).sum();
        Self { literals, japanese, separators }
    }

    /// Returns the number of bytes of the template without its values.
    pub fn literal_bytes(&self) -> usize {
        self.literals.iter().map(|literal| literal.len()).sum()
    }

    /// Returns true if the template neither begins nor ends with a value, so that its end in a longer text is certain.
    pub fn is_bounded(&self) -> bool {
        let is_filled = |literal: Option<&&str>| literal.is_some_and(|literal| !literal.trim().is_empty());
        is_filled(self.literals.first()) && is_filled(self.literals.last())
    }

    /// Returns true if the template ends with a value that is translated in turn, whatever separators are in it.
    pub fn takes_rest(&self) -> bool {
        let last = format!("{{{}*}}", self.literals.len() - 1);
        self.literals.len() > 1 && self.literals.last() == Some(&"") && self.japanese.contains(&last)
    }

    /// Returns the values of a text that has the form of this template. No value is empty.
    pub fn values<'a>(&self, text: &'a str) -> Option<Vec<&'a str>> {
        let (first, rest) = self.literals.split_first()?;
        let text = text.strip_prefix(first)?;
        let Some((last, middle)) = rest.split_last() else { return text.is_empty().then(Vec::new) };
        let mut text = text.strip_suffix(last)?;
        let mut values = Vec::with_capacity(rest.len());
        for literal in middle {
            let (value, behind) = text.split_once(literal)?;
            values.push(value);
            text = behind;
        }
        values.push(text);
        values.iter().all(|value| !value.is_empty()).then_some(values)
    }

    /// Returns the translation with these values.
    pub fn fill(&self, values: &[&str], translate: impl Fn(&str) -> String) -> String {
        let mut filled = String::with_capacity(self.japanese.len() + 64);
        let mut rest = self.japanese;
        while let Some((before, behind)) = rest.split_once('{') {
            filled.push_str(before);
            let Some((place, after)) = behind.split_once('}') else { break };
            let (number, is_translated) = match place.strip_suffix('*') {
                Some(number) => (number, true),
                None => (place, false),
            };
            let index = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            match index.and_then(|index| values.get(index)) {
                Some(value) if is_translated => filled.push_str(&translate(value)),
                Some(value) => filled.push_str(value),
                None => {}
            }
            rest = after;
        }
        filled.push_str(rest);
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: (&'static str, &'static str), text: &str) -> Option<String> {
        let template = Template::new(template.0, template.1);
        let values = template.values(text)?;
        Some(template.fill(&values, |value| format!("<{value}>")))
    }

    #[test]
    fn values_keep_their_bytes_and_may_change_their_order() {
        let template = ("{} is on {} as well", "{2} には {1} も存在: {2*}");
        assert_eq!(filled(template, "a is on b c as well").unwrap(), "b c には a も存在: <b c>");
        assert_eq!(filled(template, "{} is on {1} as well").unwrap(), "{1} には {} も存在: <{1}>");
        for other in ["a is on b", "a is in b as well", " is on b as well", "a is on  as well"] {
            assert_eq!(filled(template, other), None, "{other}");
        }
        assert_eq!(filled(("it is closed", "閉じている"), "it is closed").unwrap(), "閉じている");
        assert_eq!(filled(("it is closed", "閉じている"), "it is closed."), None);
    }

    #[test]
    fn separators_are_counted_and_ends_are_known() {
        let template = Template::new("{}: {}; then {}", "");
        assert_eq!((template.separators, template.is_bounded()), (2, false));
        assert!(Template::new("lost ({})", "").is_bounded() && !Template::new("lost {}", "").is_bounded());
        assert_eq!(Template::new("lost ({})", "").literal_bytes(), 7);
    }
}
