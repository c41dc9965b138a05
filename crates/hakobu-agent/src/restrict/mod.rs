//! An agent that is restricted to one directory, as a key in `authorized_keys` can require.
//!
//! The directory is opened once. Everything done for a peer is done beneath that descriptor, resolved by the kernel
//! without symbolic links ([`resolve`]). [`guard`] checks the paths of every request, and [`lock`] restricts the
//! process through the kernel before it reads the first request. If the kernel supports neither, the agent does not
//! start.

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

/// Returns true if a remote program's line is the refusal of any other program than hakobu.
#[must_use]
pub fn is_for_hakobu_alone(line: &str) -> bool {
    // Lines of other programs may contain file names, and thus any text.
    line.starts_with("hakobu: ") && line.contains(FOR_HAKOBU_ALONE)
}
