//! Generates reproducible test data at memory speed.
//!
//! Everything follows from a seed: the content at any offset, and the names, sizes, modes and times of a tree. Any
//! range can be checked without a copy of the original, and two trees with the same specification are equal entry by
//! entry.

mod content;
mod disk;
mod file;
mod names;
mod plan;
mod text;
mod threads;
mod tree;

pub use content::{BLOCK_BYTES, Pattern, fill};
pub use disk::{DiskPattern, DiskSpec, Output, PIECE_BYTES, disk};
pub use file::{FileSpec, file};
pub use plan::{SizeDistribution, TreeSpec};
pub use text::SeededText;
pub use threads::available_threads;
pub use tree::{TreeSummary, tree};
