//! What can be typed behind `make-data`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use hakobu_core::units::parse_bytes;

/// What `make-data` makes.
#[derive(Debug, Subcommand)]
pub enum MakeData {
    /// The content of one disk: into a file, or onto a block device of this machine
    #[command(after_help = MAKE_DISK_HELP)]
    Disk(MakeDiskArguments),
    /// A tree of many files
    #[command(after_help = MAKE_TREE_HELP)]
    Tree(MakeTreeArguments),
}

const MAKE_DISK_HELP: &str = "\
The content at each offset follows from the seed, so it can be made again anywhere and compared. It
is pseudo-random and no secret. A block device is treated as hakobu copy treats one: what is in use
is refused, and before what is on it is lost, its ID is asked for.

Examples:
  hakobu make-data disk disk.img --size 8GiB --ratio 2 --zeros 30
  hakobu make-data disk /dev/sdx             all of a disk, which is overwritten

Exit codes: 0 done and on the medium, 1 failed, 2 wrong usage, 6 refused, 130 interrupted.";

const MAKE_TREE_HELP: &str = "\
Names, sizes, content, modes, times and attributes follow from the seed: two trees made alike are
equal.

Examples:
  hakobu make-data tree small --files 100000 --dirs 500 --size 10KiB
  hakobu make-data tree server --preset file-server --scale 1
  hakobu make-data tree mixed --files 5000 --dirs 200 --size 16KiB --nasty --links --xattrs";

/// The arguments of `make-data disk`.
#[derive(Debug, Args)]
pub struct MakeDiskArguments {
    /// A new file, or a block device
    pub path: PathBuf,

    /// How much: bytes, or with a unit (kB, MB, GB; KiB, MiB, GiB) [default for a device: all of it]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub size: Option<u64>,

    /// How well it packs: 1 not at all, 3 to about a third
    #[arg(long, value_name = "RATIO", default_value_t = 1.0, value_parser = ratio)]
    pub ratio: f64,

    /// Words and numbers, which pack to about half and make compressors work
    #[arg(long, conflicts_with = "ratio")]
    pub text: bool,

    /// How many of 100 pieces of 256 KiB are zeros; in a new file these are holes
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub zeros: f64,

    /// What the content follows from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Overwrite a file that is there
    #[arg(long)]
    pub force: bool,

    /// The disk to overwrite, by its ID: no question is asked
    #[arg(long, value_name = "ID")]
    pub confirm: Vec<String>,
}

/// The arguments of `make-data tree`.
#[derive(Debug, Args)]
pub struct MakeTreeArguments {
    /// Where: nothing may be there, or an empty directory
    pub path: PathBuf,

    /// How many files, of the size that --size says
    #[arg(long, value_name = "N", required_unless_present = "preset")]
    pub files: Option<u64>,

    /// How many directories they are spread over; 0 puts all into the root
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub dirs: u64,

    /// How many further directories hold nothing
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub empty_dirs: u64,

    /// How many directories a directory holds
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub fanout: u64,

    /// How large a file is, or with --sigma the median
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, required_unless_present = "preset")]
    pub size: Option<u64>,

    /// file-server: 19 523 812 files of 50 KiB in 1 953 125 directories, 1 TB, or --scale percent of it
    #[arg(long, value_name = "NAME", hide_possible_values = true, conflicts_with_all = ["files", "dirs", "size"],
        value_parser = PossibleValuesParser::new(["file-server"]))]
    pub preset: Option<String>,

    /// How much of the preset
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0, value_parser = percent, requires = "preset")]
    pub scale: f64,

    /// Vary sizes log-normally, with this standard deviation of the logarithm
    #[arg(long, value_name = "SIGMA")]
    pub sigma: Option<f64>,

    /// How well content packs: 1 not at all, 3 to about a third
    #[arg(long, value_name = "RATIO", default_value_t = 1.0, value_parser = ratio)]
    pub ratio: f64,

    /// Names that are not UTF-8, with line ends, leading dashes, of 255 bytes
    #[arg(long)]
    pub nasty: bool,

    /// Symbolic links as well, some of them to nothing
    #[arg(long)]
    pub links: bool,

    /// How many files have a second name, each in another directory if there are several
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub hard_links: u64,

    /// Extended attributes (user.*) on about a third of the files and directories
    #[arg(long)]
    pub xattrs: bool,

    /// What names, sizes, content, modes, times and attributes follow from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

fn ratio(text: &str) -> Result<f64, String> {
    number_from(1.0, 500.0, text)
}

fn percent(text: &str) -> Result<f64, String> {
    number_from(0.0, 100.0, text)
}

fn number_from(least: f64, most: f64, text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("it is a number from {least} to {most}")),
    }
}
