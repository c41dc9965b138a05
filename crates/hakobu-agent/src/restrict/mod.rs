//! An agent that is restricted to one directory, as a key in `authorized_keys` can require.
//!
//! The directory is opened once. Everything done for a peer is done beneath that descriptor, resolved by the kernel
//! without symbolic links ([`resolve`]). [`guard`] checks the paths of every request, and [`landlock_rules`] restricts the
//! process through the kernel before it reads the first request. If the kernel supports neither, the agent does not
//! start.

mod guard;
mod inspect;
mod landlock_rules;
mod login_restrictions;
mod original_command;
mod resolve;
mod restriction;

pub(crate) use guard::is_nowhere;
pub use landlock_rules::lock_out_of_everything;
pub use login_restrictions::LoginRestrictions;
pub use original_command::{OriginalCommand, asked};
pub use restriction::Restriction;
