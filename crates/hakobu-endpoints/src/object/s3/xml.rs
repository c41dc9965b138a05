//! Reads and writes the XML of object stores, event by event, within limits.

use hakobu_core::{Error, ErrorKind, Result};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::object::http::NOT_A_STORE;

/// The deepest nesting. S3's answers have four levels.
const DEPTH_MAX: usize = 8;
/// The most bytes of one text. Keys have up to 1 024, which are up to 3 072 when encoded.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// The most elements of an answer: in S3, 10 000 parts with ten elements each; in Azure, 5 000 blobs with eighty.
const ELEMENTS_MAX: usize = 400_000;

/// An element that begins, or one that ends, with its own text. The outermost element has depth 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum XmlEvent<'a> {
    Open { name: &'a str, depth: usize },
    Close { name: &'a str, depth: usize, text: &'a str },
}

/// The attributes of an element that begins.
#[derive(Clone, Copy)]
pub(crate) struct XmlAttributes<'a>(&'a BytesStart<'a>);

impl XmlAttributes<'_> {
    /// Returns true if there is an attribute with this name and value.
    pub(crate) fn has(self, name: &str, value: &str) -> bool {
        let found = self.0.try_get_attribute(name).ok().flatten();
        found.is_some_and(|found| *found.value == *value.as_bytes())
    }
}

/// Calls `on` for each element of a document, whose outermost element must have the name `root`.
///
/// # Errors
/// `Protocol` if the document is broken, or larger than any that a store sends.
pub(crate) fn read_xml(
    document: &[u8],
    root: &str,
    mut on: impl FnMut(XmlEvent<'_>) -> Result<()>,
) -> Result<()> {
    read_events(document, root, |event, _| on(event))
}

/// Calls `on` for each element as [`read_xml`] does, with the attributes of one that begins.
///
/// # Errors
/// Those of [`read_xml`].
pub(crate) fn read_events(
    document: &[u8],
    root: &str,
    mut on: impl FnMut(XmlEvent<'_>, Option<XmlAttributes<'_>>) -> Result<()>,
) -> Result<()> {
    let broken = |cause: &str| {
        Error::new(ErrorKind::Protocol, "reading the answer of the store", cause).hint(NOT_A_STORE)
    };
    let document = std::str::from_utf8(document).map_err(|_| broken("it is not UTF-8"))?;
    let mut reader = Reader::from_str(document);
    let (mut depth, mut elements) = (0, 0);
    let mut text = String::new();
    let mut was_read = false;
    loop {
        match reader.read_event().map_err(|error| broken(&format!("it is not valid XML ({error})")))? {
            Event::Start(start) => {
                (depth, elements) = (depth + 1, elements + 1);
                if depth > DEPTH_MAX || elements > ELEMENTS_MAX || was_read {
                    return Err(broken("it has too many elements"));
                }
                let name = start.local_name();
                let name = std::str::from_utf8(name.as_ref()).map_err(|_| broken("a name is not UTF-8"))?;
                if depth == 1 && !is_called(name, root) {
                    return Err(broken(&format!("it is {name} instead of {root}")));
                }
                text.clear();
                on(XmlEvent::Open { name, depth }, Some(XmlAttributes(&start)))?;
            }
            Event::Empty(start) => {
                elements += 1;
                if depth == DEPTH_MAX || elements > ELEMENTS_MAX || was_read {
                    return Err(broken("it has too many elements"));
                }
                let name = start.local_name();
                let name = std::str::from_utf8(name.as_ref()).map_err(|_| broken("a name is not UTF-8"))?;
                if depth == 0 && !is_called(name, root) {
                    return Err(broken(&format!("it is {name} instead of {root}")));
                }
                was_read |= depth == 0;
                on(XmlEvent::Open { name, depth: depth + 1 }, Some(XmlAttributes(&start)))?;
                on(XmlEvent::Close { name, depth: depth + 1, text: "" }, None)?;
            }
            Event::End(end) => {
                let name = end.local_name();
                let name = std::str::from_utf8(name.as_ref()).map_err(|_| broken("a name is not UTF-8"))?;
                on(XmlEvent::Close { name, depth, text: &text }, None)?;
                text.clear();
                depth -= 1;
                was_read |= depth == 0;
            }
            Event::Text(piece) => {
                text.push_str(&piece.xml10_content().map_err(|_| broken("a text is not UTF-8"))?);
            }
            Event::CData(piece) => {
                text.push_str(&piece.xml10_content().map_err(|_| broken("a text is not UTF-8"))?);
            }
            Event::GeneralRef(reference) => match reference.resolve_char_ref() {
                Ok(Some(character)) => text.push(character),
                Ok(None) => match predefined(&reference) {
                    Some(character) => text.push(character),
                    None => return Err(broken("it has entities of its own")),
                },
                Err(_) => return Err(broken("it has a character that does not exist")),
            },
            Event::DocType(_) => return Err(broken("it declares a document type")),
            Event::Eof if was_read && depth == 0 => return Ok(()),
            Event::Eof => return Err(broken("it ends early")),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
        if text.len() > TEXT_BYTES_MAX {
            return Err(broken("a text is too long"));
        }
    }
}

/// Returns true if an outermost element has this name, or the one that some servers give it.
fn is_called(name: &str, root: &str) -> bool {
    name == root
        || root.strip_suffix("Result").is_some_and(|start| name.strip_prefix(start) == Some("Response"))
}

fn predefined(name: &[u8]) -> Option<char> {
    Some(match name {
        b"amp" => '&',
        b"lt" => '<',
        b"gt" => '>',
        b"quot" => '"',
        b"apos" => '\'',
        _ => return None,
    })
}

/// Returns true if this text survives a way through XML.
pub(crate) fn fits_xml(text: &str) -> bool {
    // A parser turns a carriage return into a line feed, unless it is written as a reference, which some servers do
    // not read.
    text.chars().all(|each| matches!(each, '\u{20}'..='\u{fffd}' | '\u{10000}'..) && each != '\u{7f}')
}

/// Appends an element with a text.
pub(crate) fn push_element(document: &mut String, name: &str, text: &str) {
    document.extend(["<", name, ">"]);
    for character in text.chars() {
        match character {
            '&' => document.push_str("&amp;"),
            '<' => document.push_str("&lt;"),
            '>' => document.push_str("&gt;"),
            _ => document.push(character),
        }
    }
    document.extend(["</", name, ">"]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(document: &str) -> Result<Vec<(String, String)>> {
        let mut texts = Vec::new();
        read_xml(document.as_bytes(), "r", |event| {
            if let XmlEvent::Close { name, text, depth } = event {
                texts.push((format!("{depth}{name}"), text.to_owned()));
            }
            Ok(())
        })?;
        Ok(texts)
    }

    #[test]
    fn elements_come_with_their_own_text() {
        let document = "<?xml version=\"1.0\"?>\n<r xmlns=\"u\"><a>x&amp;&#x41;<![CDATA[<]]></a><b/><c><d> </d></c></r>\n";
        let expected = [("2a", "x&A<"), ("2b", ""), ("3d", " "), ("2c", ""), ("1r", "")];
        let texts = texts(document).unwrap();
        let texts: Vec<_> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn what_s3_never_sends_is_refused() {
        let deep = |depth: usize| format!("<r>{}{}</r>", "<a>".repeat(depth), "</a>".repeat(depth));
        assert!(texts(&deep(DEPTH_MAX - 1)).is_ok());
        let long = |length: usize| format!("<r>{}</r>", "x".repeat(length));
        assert!(texts(&long(TEXT_BYTES_MAX)).is_ok());
        let many = |count: usize| format!("<r>{}</r>", "<a/>".repeat(count));
        assert!(texts(&many(ELEMENTS_MAX - 1)).is_ok());
        for refused in [
            &*deep(DEPTH_MAX),
            &*long(TEXT_BYTES_MAX + 1),
            &*many(ELEMENTS_MAX),
            "<!DOCTYPE r [<!ENTITY a \"b\">]><r>&a;</r>",
            "<r>&a;</r>",
            "<r>&#x110000;</r>",
            "<r><a></r></a>",
            "<r><a>",
            "<r/><r/>",
            "<html></html>",
            "",
            "no",
        ] {
            let refused_text = &refused[..refused.len().min(40)];
            assert_eq!(texts(refused).unwrap_err().kind, ErrorKind::Protocol, "{refused_text}");
        }
    }

    proptest! {
        #[test]
        fn texts_that_fit_come_back(text in any::<String>()) {
            prop_assume!(fits_xml(&text));
            let mut document = String::new();
            push_element(&mut document, "r", &text);
            prop_assert_eq!(texts(&document).unwrap(), vec![("1r".to_owned(), text)]);
        }

        #[test]
        fn any_document_is_read_without_a_panic(document in "[<>/r&;#x a!\\[\\]?-]{0,60}") {
            let _ = texts(&document);
        }
    }
}
