//! The shapes of values and the named structures, in the terms of the document.

use std::collections::BTreeMap;
use std::fmt;

/// The form of a value on the wire.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Shape {
    /// Not read yet.
    #[default]
    Unread,
    Scalar(&'static str),
    Named(&'static str),
    Option(Box<Shape>),
    Sequence(Box<Shape>),
    Tuple(Vec<Shape>),
    /// A value or an error.
    Result(Box<Shape>, Box<Shape>),
}

impl Shape {
    fn is_read(&self) -> bool {
        match self {
            Self::Unread => false,
            Self::Scalar(_) | Self::Named(_) => true,
            Self::Option(inner) | Self::Sequence(inner) => inner.is_read(),
            Self::Tuple(parts) => parts.iter().all(Self::is_read),
            Self::Result(value, error) => value.is_read() && error.is_read(),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread => f.write_str("?"),
            Self::Scalar(name) | Self::Named(name) => f.write_str(name),
            Self::Option(inner) => write!(f, "option of {inner}"),
            Self::Sequence(inner) => write!(f, "sequence of {inner}"),
            Self::Result(value, error) if **error == Self::Named("Error") => write!(f, "result of {value}"),
            Self::Result(value, error) => write!(f, "result of {value} or {error}"),
            Self::Tuple(parts) => match &parts[..] {
                [Self::Scalar("u8"), ..] if parts.iter().all(|part| *part == parts[0]) => {
                    write!(f, "{} bytes", parts.len())
                }
                [first, _, _, ..] if parts.iter().all(|part| part == first) => {
                    write!(f, "{} × {first}", parts.len())
                }
                _ => write!(f, "({})", parts.iter().map(Self::to_string).collect::<Vec<_>>().join(", ")),
            },
        }
    }
}

/// The content of an enum variant.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Fields {
    #[default]
    None,
    One(Shape),
    Named(Vec<(&'static str, Shape)>),
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::One(shape) => shape.fmt(f),
            Self::Named(fields) => {
                let words: Vec<_> = fields.iter().map(|(name, shape)| format!("{name}: {shape}")).collect();
                f.write_str(&words.join("; "))
            }
        }
    }
}

/// A named structure.
#[derive(Clone, Debug, PartialEq)]
pub enum Structure {
    Struct(Vec<(&'static str, Shape)>),
    Newtype(Shape),
    /// The variants in the order of their numbers.
    Enum(Vec<(&'static str, Fields)>),
}

impl Structure {
    fn is_read(&self) -> bool {
        match self {
            Self::Struct(fields) => fields.iter().all(|(_, shape)| shape.is_read()),
            Self::Newtype(shape) => shape.is_read(),
            Self::Enum(_) => false,
        }
    }

    /// Returns the column headings of its table.
    pub fn columns(&self) -> [&'static str; 2] {
        match self {
            Self::Struct(_) | Self::Newtype(_) => ["field", "type"],
            Self::Enum(_) => ["variant", "holds"],
        }
    }

    /// Returns its fields or variants with their types, in order.
    pub fn rows(&self) -> Vec<[String; 2]> {
        match self {
            Self::Struct(fields) => {
                fields.iter().map(|(name, shape)| [(*name).to_owned(), shape.to_string()]).collect()
            }
            Self::Newtype(shape) => vec![[String::new(), shape.to_string()]],
            Self::Enum(variants) => {
                variants.iter().map(|(name, fields)| [(*name).to_owned(), fields.to_string()]).collect()
            }
        }
    }
}

/// All structures by name.
#[derive(Default)]
pub struct Structures(pub BTreeMap<&'static str, Structure>);

impl Structures {
    /// Adds a structure. Two structures with one name must be equal.
    pub fn note(&mut self, name: &'static str, structure: Structure) {
        let before = self.0.insert(name, structure);
        let now = &self.0[name];
        let differs = before.as_ref().is_some_and(|before| before.is_read() && before != now);
        assert!(!differs, "two structures are called {name}: give one another name with #[serde(rename)]");
    }

    /// Adds one variant of an enum.
    pub fn note_variant(
        &mut self,
        name: &'static str,
        variants: &'static [&'static str],
        number: usize,
        fields: Fields,
    ) {
        let nothing = || Structure::Enum(variants.iter().map(|&variant| (variant, Fields::None)).collect());
        match self.0.entry(name).or_insert_with(nothing) {
            Structure::Enum(known) if known.iter().map(|known| known.0).eq(variants.iter().copied()) => {
                known[number].1 = fields;
            }
            _ => panic!("two structures are called {name}: give one another name with #[serde(rename)]"),
        }
    }
}
