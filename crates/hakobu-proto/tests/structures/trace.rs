//! Determines the shape of types with a deserializer that invents values and records which ones were requested.
//!
//! Crates for this purpose identify a structure by its bare name, and so cannot distinguish one `Result` from
//! another. Here a `Result` is a separate shape. Enums are read once for each variant, and again while anything in
//! that variant has not been read.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::U32Deserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, SeqAccess, VariantAccess, Visitor,
};

use crate::shape::{Fields, Shape, Structure, Structures};

/// Bytes for types that reject an empty byte string: extended attributes of no class and without entries.
const SAMPLES: [(&str, &[u8]); 1] = [("Extended", &[0, 0, 0])];

/// Reads types, and records the structures that they consist of.
#[derive(Default)]
pub struct Tracer {
    pub structures: Structures,
    /// The variants of each enum that have been read completely.
    complete: BTreeMap<String, Vec<bool>>,
    /// The two shapes of each result, by position.
    results: BTreeMap<String, [Shape; 2]>,
    /// The current position: structures with their fields and variants.
    path: Vec<String>,
    /// The shape of the latest value.
    last: Shape,
    /// True if the latest value has variants that have not been read yet.
    pending: bool,
}

impl Tracer {
    /// Reads a type until it is completely known, and returns its shape.
    pub fn trace<'de, T: serde::Deserialize<'de>>(&mut self) -> Shape {
        loop {
            self.pending = false;
            if let Err(Refused(words)) = T::deserialize(&mut *self) {
                panic!("{} does not take what was invented: {words}", self.path.join("/"));
            }
            if !self.pending {
                return self.last.clone();
            }
        }
    }

    fn read(
        &mut self,
        step: String,
        read: impl FnOnce(&mut Self) -> Result<(), Refused>,
    ) -> Result<Shape, Refused> {
        self.path.push(step);
        read(self)?;
        self.path.pop();
        Ok(self.last.clone())
    }

    fn note(&mut self, name: &'static str, structure: Structure) {
        self.structures.note(name, structure);
        self.last = Shape::Named(name);
    }
}

/// The error of a type that rejects a value.
#[derive(Debug)]
pub struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl serde::de::Error for Refused {
    fn custom<T: fmt::Display>(words: T) -> Self {
        Self(words.to_string())
    }
}

macro_rules! scalars {
    ($($method:ident $visit:ident $value:expr, $name:literal;)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
            let value = visitor.$visit($value)?;
            self.last = Shape::Scalar($name);
            Ok(value)
        })*
    };
}

impl<'de> Deserializer<'de> for &mut Tracer {
    type Error = Refused;

    scalars! {
        deserialize_bool visit_bool false, "bool";
        deserialize_u8 visit_u8 0, "u8";
        deserialize_u16 visit_u16 0, "u16";
        deserialize_u32 visit_u32 0, "u32";
        deserialize_u64 visit_u64 0, "u64";
        deserialize_i8 visit_i8 0, "i8";
        deserialize_i16 visit_i16 0, "i16";
        deserialize_i32 visit_i32 0, "i32";
        deserialize_i64 visit_i64 0, "i64";
        deserialize_str visit_str "", "text";
        deserialize_string visit_str "", "text";
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.last = Shape::Scalar("nothing");
        visitor.visit_unit()
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let sample = SAMPLES.iter().find(|(name, _)| self.path.last().is_some_and(|last| last == name));
        let value = visitor.visit_bytes(sample.map_or(&[], |(_, bytes)| bytes))?;
        self.last = Shape::Scalar("bytes");
        Ok(value)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let value = visitor.visit_some(&mut *self)?;
        self.last = Shape::Option(Box::new(self.last.clone()));
        Ok(value)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let mut elements = Elements::new(self, "[]", &[], 1);
        let value = visitor.visit_seq(&mut elements)?;
        let element = elements.shapes.pop().unwrap_or_default();
        // Both are encoded as a length and that many bytes.
        self.last = match element {
            Shape::Scalar("u8") => Shape::Scalar("bytes"),
            element => Shape::Sequence(Box::new(element)),
        };
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Refused> {
        let mut elements = Elements::new(self, "()", &[], length);
        let value = visitor.visit_seq(&mut elements)?;
        self.last = Shape::Tuple(std::mem::take(&mut elements.shapes));
        Ok(value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let mut elements = Elements::new(self, name, fields, fields.len());
        let value = visitor.visit_seq(&mut elements)?;
        let shapes = std::mem::take(&mut elements.shapes);
        self.note(name, Structure::Struct(fields.iter().copied().zip(shapes).collect()));
        Ok(value)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.path.push(name.to_owned());
        let value = visitor.visit_newtype_struct(&mut *self)?;
        self.path.pop();
        let shape = self.last.clone();
        self.note(name, Structure::Newtype(shape));
        Ok(value)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let is_result = name == "Result";
        let key = if is_result { self.path.join("/") } else { name.to_owned() };
        let outer = std::mem::replace(&mut self.pending, false);
        let complete = self.complete.entry(key.clone()).or_insert_with(|| vec![false; variants.len()]);
        let number = complete.iter().position(|complete| !complete).unwrap_or_default();
        let mut variant =
            Variant { tracer: self, enumeration: name, name: variants[number], number, fields: Fields::None };
        let value = visitor.visit_enum(&mut variant)?;
        let fields = variant.fields;
        if !self.pending
            && let Some(complete) = self.complete.get_mut(&key)
        {
            complete[number] = true;
        }
        self.pending = outer || self.complete.get(&key).is_some_and(|complete| complete.contains(&false));
        if is_result {
            let result = self.results.entry(key).or_default();
            if let Fields::One(shape) = fields {
                result[number] = shape;
            }
            let [value, error] = result.clone().map(Box::new);
            self.last = Shape::Result(value, error);
        } else {
            self.structures.note_variant(name, variants, number, fields);
            self.last = Shape::Named(name);
        }
        Ok(value)
    }

    serde::forward_to_deserialize_any! {
        i128 u128 f32 f64 char unit_struct tuple_struct map identifier ignored_any
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Refused> {
        Err(Refused("a kind of value that the protocol does not have".to_owned()))
    }
}

/// The elements of a sequence, a tuple or a structure.
struct Elements<'t> {
    tracer: &'t mut Tracer,
    of: &'static str,
    names: &'static [&'static str],
    length: usize,
    shapes: Vec<Shape>,
}

impl<'t> Elements<'t> {
    fn new(tracer: &'t mut Tracer, of: &'static str, names: &'static [&'static str], length: usize) -> Self {
        Self { tracer, of, names, length, shapes: Vec::new() }
    }
}

impl<'de> SeqAccess<'de> for &mut Elements<'_> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        let number = self.shapes.len();
        if number == self.length {
            return Ok(None);
        }
        let step = format!("{}.{}", self.of, self.names.get(number).copied().unwrap_or_default());
        let mut value = None;
        let shape = self.tracer.read(step, |tracer| {
            value = Some(seed.deserialize(tracer)?);
            Ok(())
        })?;
        self.shapes.push(shape);
        Ok(value)
    }
}

/// One variant of an enum.
struct Variant<'t> {
    tracer: &'t mut Tracer,
    enumeration: &'static str,
    name: &'static str,
    number: usize,
    fields: Fields,
}

impl<'de> EnumAccess<'de> for &mut Variant<'_> {
    type Error = Refused;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Refused> {
        let number: U32Deserializer<Refused> = (self.number as u32).into_deserializer();
        Ok((seed.deserialize(number)?, self))
    }
}

impl<'de> VariantAccess<'de> for &mut Variant<'_> {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Refused> {
        self.tracer.path.push(format!("{}::{}", self.enumeration, self.name));
        let value = seed.deserialize(&mut *self.tracer)?;
        self.tracer.path.pop();
        self.fields = Fields::One(self.tracer.last.clone());
        Ok(value)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Refused> {
        let mut elements = Elements::new(self.tracer, self.name, &[], length);
        let value = visitor.visit_seq(&mut elements)?;
        self.fields = Fields::One(Shape::Tuple(std::mem::take(&mut elements.shapes)));
        Ok(value)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let mut elements = Elements::new(self.tracer, self.name, fields, fields.len());
        let value = visitor.visit_seq(&mut elements)?;
        let shapes = std::mem::take(&mut elements.shapes);
        self.fields = Fields::Named(fields.iter().copied().zip(shapes).collect());
        Ok(value)
    }
}
