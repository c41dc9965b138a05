//! Faults that are planted in hakobu, to see whether the harness finds them.
//!
//! A build with the feature `planted-faults` (`cargo build -p hakobu --features planted-faults`) contains all of them.
//! A process has the one that its environment names; those on hosts get it from [`plant`](super::hosts::Hosts::plant).
//! In the product they are marked with `planted("name")`. All names are in `crates/hakobu-core/src/plant.rs`, and an
//! unknown name ends a run with exit code 2.
//!
//! To add one: a line with `planted("name")` at its place in the product, the name there in `NAMES`, and an entry here.

/// The environment variable.
pub const VARIABLE: &str = "HAKOBU_PLANT";

/// A planted fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plant {
    /// The name in the product.
    pub name: &'static str,
    /// The effect.
    pub what: &'static str,
    /// The condition under which a history shows it.
    pub shows: &'static str,
}

/// All planted faults.
pub const PLANTS: [Plant; 14] = [
    Plant {
        name: "sparse-head-lost",
        what: "a file of at most 256 KiB loses everything before its first hole",
        shows: "copy such a file",
    },
    Plant {
        name: "early-end-accepted",
        what: "a file that ends before its size does is filled up with zeros",
        shows: "copy from a file system with `early_eof`: the exit code is 0",
    },
    Plant {
        name: "last-block-dropped",
        what: "the bytes behind the last whole 4 KiB of a write are not written",
        shows: "copy a file of more than 256 KiB that is no whole number of 4 KiB",
    },
    Plant {
        name: "equal-by-size",
        what: "files of one size are equal, whatever their times are",
        shows: "rewrite a file with its size kept, and copy again",
    },
    Plant {
        name: "directory-xattrs-lost",
        what: "directories come without their extended attributes and ACLs",
        shows: "copy a directory that has some",
    },
    Plant {
        name: "links-mixed-up",
        what: "names of files whose inode numbers are neighbours become names of one file",
        shows: "copy two files that have two names each, made one after the other",
    },
    Plant {
        name: "removal-ignores-filter",
        what: "an entry that a filter protects is removed with the others",
        shows: "sync with --delete and --exclude, where the target has an excluded entry of its own",
    },
    Plant {
        name: "exit-zero",
        what: "failures are printed, and the exit code is 0",
        shows: "any failure of a single entry",
    },
    Plant {
        name: "resume-trusts-source",
        what: "what an interrupted run has brought over is taken for that of the present version of the source",
        shows: "kill a copy of a file of 64 MiB and more later than a second after it began, rewrite the file with its size kept, and run it \
                again",
    },
    Plant {
        name: "last-byte-not-compared",
        what: "a small file, or a 64 KiB block of a large one, is equal when only its last byte differs",
        shows: "change the last byte of a file or of such a block with size and time kept, and sync with --compare digest, or verify",
    },
    Plant {
        name: "sparse-space-counted",
        what: "sparse files count with their full size when the space that a run needs is summed up",
        shows: "copy many sparse files to a target that is smaller than the sum of their sizes: it is refused",
    },
    Plant {
        name: "attributes-unlisted",
        what: "entries of which only attributes were set are missing in lists of changes",
        shows: "change a mode, and copy again with --itemize or --log-file",
    },
    Plant {
        name: "given-units-lost",
        what: "the directories that a unit of a fleet gives away become no units",
        shows: "slow down a fleet until a unit gives something away",
    },
    Plant {
        name: "ranges-lost",
        what: "the ranges of a large file that a unit of a fleet gives away are committed without having been copied",
        shows: "slow down a fleet until a unit gives ranges away",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_has_the_same_names() {
        let product = include_str!("../../../../crates/hakobu-core/src/plant.rs");
        let names = product.split("NAMES: [&str; ").nth(1).unwrap().split(']').nth(1).unwrap();
        let names: Vec<&str> = names.split('"').skip(1).step_by(2).collect();
        assert_eq!(names, PLANTS.map(|plant| plant.name));
    }
}
