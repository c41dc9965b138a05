//! An agent for one directory: what a key in `authorized_keys` may be held to.
//!
//! The directory is opened once, and all that is done for a peer is done beneath that descriptor, resolved by the kernel
//! without links ([`resolve`]). [`guard`] checks the words of every request, and [`lock`] has the kernel lock the process
//! in before the first of them is read. Where the kernel can do neither, there is no agent.

mod guard;
mod lock;
mod look;
mod original;
mod resolve;
mod restriction;
mod terms;

pub(crate) use guard::is_nowhere;
pub use lock::lock_out_of_everything;
use original::FOR_HAKOBU_ALONE;
pub use original::{Asked, asked};
pub use restriction::Restriction;
pub use terms::Terms;

/// Whether a line of a far program's is the refusal of anything but hakobu.
#[must_use]
pub fn is_for_hakobu_alone(line: &str) -> bool {
    // Lines of others may hold names of files, which may say anything.
    line.starts_with("hakobu: ") && line.contains(FOR_HAKOBU_ALONE)
}
