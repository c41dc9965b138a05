//! Faults on purpose, by which the torture harness shows that it finds faults.
//!
//! They are in a build with the feature `planted-faults` alone, which nothing turns on by itself: elsewhere [`planted`] is `false` before
//! the optimizer begins, and neither the faults nor their names are in the program. Each is one line at the place of a fault that
//! hakobu had, or that could slip in: the line says `planted("its name")`.

/// The variable of the environment that names the fault that a process is to have.
#[cfg(feature = "planted-faults")]
pub const VARIABLE: &str = "HAKOBU_PLANT";

/// All names.
#[cfg(feature = "planted-faults")]
pub const NAMES: [&str; 10] = [
    "sparse-head-lost",
    "early-end-accepted",
    "last-block-dropped",
    "equal-by-size",
    "directory-xattrs-lost",
    "links-mixed-up",
    "removal-ignores-filter",
    "exit-zero",
    "resume-trusts-source",
    "last-byte-not-compared",
];

#[cfg(feature = "planted-faults")]
static PLANT: std::sync::OnceLock<String> = std::sync::OnceLock::new();

/// Gives this process its fault, once and for all. `false`: there is none of that name.
#[cfg(feature = "planted-faults")]
pub fn plant(name: &str) -> bool {
    NAMES.contains(&name) && PLANT.set(name.to_owned()).is_ok()
}

/// Whether this process has that fault.
#[cfg(feature = "planted-faults")]
#[inline]
pub fn planted(name: &str) -> bool {
    debug_assert!(NAMES.contains(&name), "{name}");
    PLANT.get().is_some_and(|plant| plant == name)
}

/// Whether this process has that fault: none has any.
#[cfg(not(feature = "planted-faults"))]
#[inline(always)]
pub const fn planted(_name: &str) -> bool {
    false
}
