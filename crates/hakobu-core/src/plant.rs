//! Deliberate faults by which the torture harness proves that it detects faults.
//!
//! They exist only in a build with the feature `planted-faults`, which nothing enables by itself. In other builds
//! [`planted`] is a constant `false`, so neither the faults nor their names are in the program. Each fault is one line
//! at the place of a fault that hakobu had or that could slip in, and is marked by `planted("its name")`.

/// The environment variable that names the fault of a process.
#[cfg(feature = "planted-faults")]
pub const VARIABLE: &str = "HAKOBU_PLANT";

/// The names of all faults.
#[cfg(feature = "planted-faults")]
pub const NAMES: [&str; 14] = [
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
    "sparse-space-counted",
    "attributes-unlisted",
    "given-units-lost",
    "ranges-lost",
];

#[cfg(feature = "planted-faults")]
static PLANT: std::sync::OnceLock<String> = std::sync::OnceLock::new();

/// Sets the fault of this process, once. Returns false if there is no fault of that name, or one was set before.
#[cfg(feature = "planted-faults")]
pub fn plant(name: &str) -> bool {
    NAMES.contains(&name) && PLANT.set(name.to_owned()).is_ok()
}

/// Returns true if this process has that fault.
#[cfg(feature = "planted-faults")]
#[inline]
pub fn planted(name: &str) -> bool {
    debug_assert!(NAMES.contains(&name), "{name}");
    PLANT.get().is_some_and(|plant| plant == name)
}

/// Returns false: this build has no faults.
#[cfg(not(feature = "planted-faults"))]
#[inline(always)]
pub const fn planted(_name: &str) -> bool {
    false
}
