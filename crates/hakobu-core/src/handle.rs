//! What an endpoint hands to the engine to give back later, without the engine knowing what it is.

use std::any::Any;
use std::sync::Arc;

/// Where a listing goes on: what the endpoint that began it needs for the next part.
pub struct Cursor(Box<dyn Any + Send>);

impl Cursor {
    /// Wraps what the endpoint needs.
    pub fn new(position: impl Any + Send) -> Self {
        Self(Box::new(position))
    }

    /// Returns what was wrapped; none if it is of another endpoint.
    pub fn into_position<T: Any>(self) -> Option<T> {
        self.0.downcast().ok().map(|position| *position)
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cursor")
    }
}

/// A file that a source has opened, for a target of the same kind to share its blocks.
#[derive(Clone)]
pub struct SharedFile(Arc<dyn Any + Send + Sync>);

impl SharedFile {
    /// Wraps a file.
    pub fn new(file: impl Any + Send + Sync) -> Self {
        Self(Arc::new(file))
    }

    /// Returns the file; none if it is of another kind.
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
