//! `cargo xtask make-data`: test data at memory speed.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Subcommand};
use hakobu_measure::generate::{self, FileSpec, SizeDistribution, TreeSpec, TreeSummary, available_threads};
use hakobu_measure::units::{format_rate, parse_size};

/// Makes test data that follows from a seed; what is there is never overwritten
#[derive(Debug, Args)]
pub struct MakeDataArgs {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// One large file
    File(FileArgs),
    /// A tree of many files
    Tree(TreeArgs),
}

#[derive(Debug, Args)]
struct Common {
    /// What content, names, modes and times follow from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Share of zeros in every 4 KiB: 0 is random, 1 all zeros
    #[arg(long, default_value_t = 0.0, value_parser = parse_share)]
    compressibility: f64,
    /// How many threads write [default: as many as there are cores]
    #[arg(long)]
    threads: Option<usize>,
}

#[derive(Debug, Args)]
struct FileArgs {
    /// Where; must be absent or an empty file
    path: PathBuf,
    /// How large: bytes, or with a unit (kB, MB, GB; KiB, MiB, GiB)
    #[arg(long, value_parser = parse_size)]
    size: u64,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct TreeArgs {
    /// Where; must be absent or an empty directory
    path: PathBuf,
    /// How many files
    #[arg(long)]
    files: u64,
    /// How many directories they are spread over; 0 puts all into the root
    #[arg(long, default_value_t = 0)]
    dirs: u64,
    /// How many further directories hold nothing
    #[arg(long, default_value_t = 0)]
    empty_dirs: u64,
    /// How many directories a directory holds
    #[arg(long, default_value_t = 32)]
    fanout: u64,
    /// How large a file is, or with --sigma the median
    #[arg(long, value_parser = parse_size)]
    size: u64,
    /// Vary sizes log-normally, with this standard deviation of the logarithm
    #[arg(long)]
    sigma: Option<f64>,
    /// Names that are not UTF-8, with line ends, leading dashes, of 255 bytes…
    #[arg(long)]
    nasty: bool,
    /// Symbolic links as well, some of them dangling
    #[arg(long)]
    links: bool,
    #[command(flatten)]
    common: Common,
}

/// Runs the subcommand and prints what was made and how fast.
///
/// # Errors
///
/// Where the place is not empty, the wish cannot be met or the system fails.
pub fn run(args: MakeDataArgs) -> anyhow::Result<()> {
    let started = Instant::now();
    let (made, per_file) = match args.kind {
        Kind::File(args) => (make_file(&args)?, false),
        Kind::Tree(args) => (make_tree(&args)?, true),
    };
    let seconds = started.elapsed().as_secs_f64().max(1e-9);
    let rate = match per_file {
        true => format!("{:.0} files/s", made.files as f64 / seconds),
        false => format_rate(made.bytes as f64 / seconds),
    };
    println!(
        "{} files, {} directories, {} links, {} bytes, {seconds:.3} s, {rate}",
        made.files, made.directories, made.links, made.bytes
    );
    Ok(())
}

fn make_file(args: &FileArgs) -> anyhow::Result<TreeSummary> {
    let spec = FileSpec {
        size_bytes: args.size,
        seed: args.common.seed,
        compressibility: args.common.compressibility,
        threads: args.common.threads.unwrap_or_else(available_threads),
    };
    generate::file(&args.path, spec)?;
    Ok(TreeSummary { files: 1, bytes: args.size, ..TreeSummary::default() })
}

fn make_tree(args: &TreeArgs) -> anyhow::Result<TreeSummary> {
    let spec = TreeSpec {
        files: args.files,
        directories: args.dirs,
        empty_directories: args.empty_dirs,
        fanout: args.fanout,
        size: match args.sigma {
            Some(sigma) => SizeDistribution::LogNormal { median_bytes: args.size, sigma },
            None => SizeDistribution::Fixed(args.size),
        },
        compressibility: args.common.compressibility,
        nasty_names: args.nasty,
        links: args.links,
        seed: args.common.seed,
        threads: args.common.threads.unwrap_or_else(available_threads),
    };
    Ok(generate::tree(&args.path, &spec)?)
}

fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("not a number from 0 to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: MakeDataArgs,
    }

    fn parse(line: &str) -> Result<MakeDataArgs, clap::Error> {
        let words = std::iter::once("make-data").chain(line.split(' '));
        Program::try_parse_from(words).map(|program| program.args)
    }

    #[test]
    fn the_file_command_line() {
        let Kind::File(args) = parse("file p --size 1GiB --compressibility 0.5").unwrap().kind else {
            panic!("not a file");
        };
        assert_eq!(args.size, 1 << 30);
        assert_eq!(args.common.compressibility, 0.5);
        assert!(parse("file p --size 1XB").is_err());
        assert!(parse("file p --size 1 --compressibility 2").is_err());
    }

    #[test]
    fn the_tree_command_line() {
        let line = "tree p --files 9 --dirs 3 --size 10KiB --nasty --links --seed 7";
        let Kind::Tree(args) = parse(line).unwrap().kind else {
            panic!("not a tree");
        };
        assert_eq!((args.files, args.dirs, args.size), (9, 3, 10_240));
        assert!(args.nasty && args.links);
        assert_eq!(args.common.seed, 7);
        assert!(parse("tree p --dirs 3").is_err());
    }
}
