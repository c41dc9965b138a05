//! Converts between values and their wire format.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The wire format of `T`.
pub(crate) trait Mirror<T> {
    /// Returns the wire format of a value.
    fn of(value: &T) -> Self;

    /// Returns the value. The wire format was checked when it was decoded.
    fn into_value(self) -> T;
}

/// Encodes a value as its mirror `W`. For `#[serde(with)]`.
pub(crate) struct AsMirror<W>(PhantomData<W>);

impl<W> AsMirror<W> {
    pub(crate) fn serialize<T, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error>
    where
        W: Mirror<T> + Serialize,
    {
        W::of(value).serialize(to)
    }

    pub(crate) fn deserialize<'de, T, D: Deserializer<'de>>(from: D) -> Result<T, D::Error>
    where
        W: Mirror<T> + Deserialize<'de>,
    {
        Ok(W::deserialize(from)?.into_value())
    }
}

/// Defines the mirror of a structure or an enum. Both conversions name all fields and variants of both types, so that
/// one that exists in only one of them does not compile. Fields listed in `without` are never sent, and have their
/// default value on the receiving side.
macro_rules! mirror {
    (
        $(#[$attribute:meta])*
        struct $name:ident of $core:ty {
            $($field:ident: $type:ty,)*
        } $(without { $($here:ident),* })?
    ) => {
        #[derive(serde::Serialize, serde::Deserialize)]
        $(#[$attribute])*
        pub(crate) struct $name {
            $($field: $type,)*
        }

        impl $crate::wire::mirror::Mirror<$core> for $name {
            fn of(value: &$core) -> Self {
                type Core = $core;
                let Core { $($field,)* $($($here: _,)*)? } = value;
                Self { $($field: $crate::wire::mirror::Mirror::of($field),)* }
            }

            fn into_value(self) -> $core {
                type Core = $core;
                let Self { $($field,)* } = self;
                Core {
                    $($field: $crate::wire::mirror::Mirror::into_value($field),)*
                    $($($here: Default::default(),)*)?
                }
            }
        }
    };
    (
        $(#[$attribute:meta])*
        struct $name:ident($field:ident: $type:ty) of $core:ty
    ) => {
        #[derive(serde::Serialize, serde::Deserialize)]
        $(#[$attribute])*
        pub(crate) struct $name($type);

        impl $crate::wire::mirror::Mirror<$core> for $name {
            fn of(value: &$core) -> Self {
                type Core = $core;
                let Core { 0: $field } = value;
                Self($crate::wire::mirror::Mirror::of($field))
            }

            fn into_value(self) -> $core {
                type Core = $core;
                let Self($field) = self;
                Core { 0: $crate::wire::mirror::Mirror::into_value($field) }
            }
        }
    };
    (
        $(#[$attribute:meta])*
        enum $name:ident of $core:ty {
            $($variant:ident $(($inner:ident: $inner_type:ty))? $({ $($field:ident: $type:ty),* })?,)*
        }
    ) => {
        #[derive(serde::Serialize, serde::Deserialize)]
        $(#[$attribute])*
        pub(crate) enum $name {
            $($variant $(($inner_type))? $({ $($field: $type),* })?,)*
        }

        impl $crate::wire::mirror::Mirror<$core> for $name {
            fn of(value: &$core) -> Self {
                type Core = $core;
                match value {
                    $(Core::$variant $(($inner))? $({ $($field),* })? => Self::$variant
                        $(($crate::wire::mirror::Mirror::of($inner)))?
                        $({ $($field: $crate::wire::mirror::Mirror::of($field)),* })?,)*
                }
            }

            fn into_value(self) -> $core {
                type Core = $core;
                match self {
                    $(Self::$variant $(($inner))? $({ $($field),* })? => Core::$variant
                        $(($crate::wire::mirror::Mirror::into_value($inner)))?
                        $({ $($field: $crate::wire::mirror::Mirror::into_value($field)),* })?,)*
                }
            }
        }
    };
}
pub(crate) use mirror;

/// Makes types their own mirrors: primitives, and structures that are defined in this crate.
macro_rules! itself {
    ($($type:ty),*) => {
        $(impl $crate::wire::mirror::Mirror<$type> for $type {
            fn of(value: &$type) -> Self {
                value.clone()
            }

            fn into_value(self) -> $type {
                self
            }
        })*
    };
}
pub(crate) use itself;

itself!((), bool, u8, u16, u32, u64, i8, i64, Duration, String);

impl<T: Copy, const N: usize> Mirror<[T; N]> for [T; N] {
    fn of(value: &[T; N]) -> Self {
        *value
    }

    fn into_value(self) -> [T; N] {
        self
    }
}

impl Mirror<Box<str>> for String {
    fn of(value: &Box<str>) -> Self {
        value.to_string()
    }

    fn into_value(self) -> Box<str> {
        self.into()
    }
}

impl Mirror<Cow<'static, str>> for String {
    fn of(value: &Cow<'static, str>) -> Self {
        value.to_string()
    }

    fn into_value(self) -> Cow<'static, str> {
        self.into()
    }
}

impl<T, W: Mirror<T>> Mirror<Vec<T>> for Vec<W> {
    fn of(value: &Vec<T>) -> Self {
        value.iter().map(W::of).collect()
    }

    fn into_value(self) -> Vec<T> {
        self.into_iter().map(W::into_value).collect()
    }
}

impl<T, W: Mirror<T>> Mirror<Option<T>> for Option<W> {
    fn of(value: &Option<T>) -> Self {
        value.as_ref().map(W::of)
    }

    fn into_value(self) -> Option<T> {
        self.map(W::into_value)
    }
}

impl<T, W: Mirror<T>> Mirror<Box<T>> for Box<W> {
    fn of(value: &Box<T>) -> Self {
        Box::new(W::of(value))
    }

    fn into_value(self) -> Box<T> {
        Box::new((*self).into_value())
    }
}

impl<T, E, W: Mirror<T>, F: Mirror<E>> Mirror<Result<T, E>> for Result<W, F> {
    fn of(value: &Result<T, E>) -> Self {
        value.as_ref().map(W::of).map_err(F::of)
    }

    fn into_value(self) -> Result<T, E> {
        self.map(W::into_value).map_err(F::into_value)
    }
}

impl<A, B, V: Mirror<A>, W: Mirror<B>> Mirror<(A, B)> for (V, W) {
    fn of((a, b): &(A, B)) -> Self {
        (V::of(a), W::of(b))
    }

    fn into_value(self) -> (A, B) {
        (self.0.into_value(), self.1.into_value())
    }
}

impl Mirror<(u32, u32, u32)> for (u32, u32, u32) {
    fn of(value: &(u32, u32, u32)) -> Self {
        *value
    }

    fn into_value(self) -> (u32, u32, u32) {
        self
    }
}
