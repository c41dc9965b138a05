//! The bus over real servers of NATS, with the accounts that the book shows.

#[path = "../copies/fleet.rs"]
mod fleet;
#[path = "../copies/trees.rs"]
mod trees;

mod calls;
mod copies;
mod hostile;
mod servers;
