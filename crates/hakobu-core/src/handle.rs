//! Opaque values that an endpoint passes to the engine and gets back later.

use std::any::Any;
use std::sync::Arc;

/// The position at which a listing continues, in a form that only its endpoint understands.
pub struct Cursor(Box<dyn Any + Send>);

impl Cursor {
    /// Wraps a position.
    pub fn new(position: impl Any + Send) -> Self {
        Self(Box::new(position))
    }

    /// Returns the position; `None` if it is of another type, because it belongs to another endpoint.
    pub fn into_position<T: Any>(self) -> Option<T> {
        self.0.downcast().ok().map(|position| *position)
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cursor")
    }
}

/// A file opened by a source, whose blocks a target of the same kind can share.
#[derive(Clone)]
pub struct SharedFile(Arc<dyn Any + Send + Sync>);

impl SharedFile {
    /// Wraps a file.
    pub fn new(file: impl Any + Send + Sync) -> Self {
        Self(Arc::new(file))
    }

    /// Returns the file; `None` if it is of another type.
    pub fn file<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl std::fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedFile")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_kind_gets_it_back() {
        assert_eq!(Cursor::new(7_u32).into_position::<u32>(), Some(7));
        assert_eq!(Cursor::new(7_u32).into_position::<u64>(), None);
        let file = SharedFile::new("file".to_owned());
        assert_eq!((file.file::<String>().map(String::as_str), file.file::<u8>()), (Some("file"), None));
    }
}
