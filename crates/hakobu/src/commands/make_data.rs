//! The command `make-data`: generates reproducible test data.

use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use hakobu_agent::inspect;
use hakobu_core::counters::CounterTotals;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::landing::TargetFound;
use hakobu_core::location::Location;
use hakobu_core::path::lossy;
use hakobu_core::units::{format_bytes, format_count, format_duration, format_rate, parse_bytes};
use hakobu_measure::generate::{self, DiskSpec, Output, SizeDistribution, TreeSpec, available_threads};
use hakobu_transfer::devices;

use crate::commands::shared::headings::{DISKS, TRANSFER};
use crate::prompts::Terminal;
use crate::render::progress_bar::shows_progress;
use crate::render::{RenderSettings, Renderer};
use crate::{exit, output, signals};

/// The kind of test data.
#[derive(Debug, Subcommand)]
pub enum MakeData {
    /// Generate the content of a disk, in a file or on a block device
    #[command(after_help = MAKE_DISK_HELP)]
    Disk(MakeDiskArguments),
    /// Generate a tree of many files
    #[command(after_help = MAKE_TREE_HELP)]
    Tree(MakeTreeArguments),
}

const MAKE_DISK_HELP: &str = "\
The content at each offset depends only on the seed, so it can be generated again anywhere and compared. It is \
pseudo-random and not secret. A block device is treated as by hakobu copy: one in use is refused, and its ID is asked \
for before its content is lost.

Examples:
  hakobu make-data disk disk.img --size 8GiB --ratio 2 --zeros 30
  hakobu make-data disk /dev/sdx             a whole disk, which is overwritten

Exit codes: 0 done and on stable storage, 1 failed, 2 wrong usage, 6 refused, 130 interrupted.";

const MAKE_TREE_HELP: &str = "\
Names, sizes, content, modes, times and attributes depend only on the seed: two trees made with the same options are \
equal.

Examples:
  hakobu make-data tree small --files 100000 --dirs 500 --size 10KiB
  hakobu make-data tree server --preset file-server --scale 1
  hakobu make-data tree mixed --files 5000 --dirs 200 --size 16KiB \\
    --nasty --links --xattrs";

/// The arguments of `make-data disk`.
#[derive(Debug, Args)]
pub struct MakeDiskArguments {
    /// A new file, or a block device
    pub path: PathBuf,

    /// Size, such as 8GiB
    ///
    /// Units are kB, MB, GB, KiB, MiB, GiB. Default for a device: all of it
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = TRANSFER)]
    pub size: Option<u64>,

    /// Compression ratio of the content
    ///
    /// 1: incompressible; 3: compresses to a third
    #[arg(long, value_name = "RATIO", default_value_t = 1.0, value_parser = ratio, help_heading = TRANSFER)]
    pub ratio: f64,

    /// Words and numbers, which compress to about half
    #[arg(long, conflicts_with = "ratio", help_heading = TRANSFER)]
    pub text: bool,

    /// Percentage of 256 KiB blocks that are zeros
    ///
    /// In a new file these are holes
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent, help_heading = TRANSFER)]
    pub zeros: f64,

    /// Seed of the generator
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = TRANSFER)]
    pub seed: u64,

    /// Overwrite an existing file
    #[arg(long, help_heading = TRANSFER)]
    pub force: bool,

    /// Overwrite the disk with this ID without asking
    #[arg(long, value_name = "ID", help_heading = DISKS)]
    pub confirm: Vec<String>,
}

/// The arguments of `make-data tree`.
#[derive(Debug, Args)]
pub struct MakeTreeArguments {
    /// A new or empty directory
    pub path: PathBuf,

    /// Number of files; required without --preset
    #[arg(long, value_name = "N", required_unless_present = "preset", help_heading = TRANSFER)]
    pub files: Option<u64>,

    /// Number of directories for them; 0: only the root
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = TRANSFER)]
    pub dirs: u64,

    /// Number of additional empty directories
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = TRANSFER)]
    pub empty_dirs: u64,

    /// Number of subdirectories per directory
    #[arg(long, value_name = "N", default_value_t = 32, help_heading = TRANSFER)]
    pub fanout: u64,

    /// Size of each file, or the median with --sigma
    ///
    /// Required without --preset
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, required_unless_present = "preset", help_heading = TRANSFER)]
    pub size: Option<u64>,

    /// Preset: file-server (1 TB), scaled by --scale
    ///
    /// 19 523 812 files of 50 KiB in 1 953 125 directories
    #[arg(long, value_name = "NAME", hide_possible_values = true, conflicts_with_all = ["files", "dirs", "size"],
        value_parser = PossibleValuesParser::new(["file-server"]), help_heading = TRANSFER)]
    pub preset: Option<String>,

    /// Percentage of the preset to generate
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0, value_parser = percent, requires = "preset", help_heading = TRANSFER)]
    pub scale: f64,

    /// Vary sizes log-normally, with this standard deviation
    #[arg(long, value_name = "SIGMA", help_heading = TRANSFER)]
    pub sigma: Option<f64>,

    /// Compression ratio of the content
    ///
    /// 1: incompressible; 3: compresses to a third
    #[arg(long, value_name = "RATIO", default_value_t = 1.0, value_parser = ratio, help_heading = TRANSFER)]
    pub ratio: f64,

    /// Add difficult names: not UTF-8, newlines, long
    #[arg(long, help_heading = TRANSFER)]
    pub nasty: bool,

    /// Add symbolic links, some of them dangling
    #[arg(long, help_heading = TRANSFER)]
    pub links: bool,

    /// Number of files with a second hard link
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = TRANSFER)]
    pub hard_links: u64,

    /// Add extended attributes to a third of the entries
    #[arg(long, help_heading = TRANSFER)]
    pub xattrs: bool,

    /// Seed of the generator
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = TRANSFER)]
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
        _ => Err(format!("must be a number from {least} to {most}")),
    }
}

const MAKING: &str = "making data in";
/// The interval at which the progress line changes.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Generates the content of a disk; returns the exit code.
pub fn disk(typed: &MakeDiskArguments) -> u8 {
    let cancel = match signals::cancel_flag() {
        Ok(cancel) => cancel,
        Err(error) => return exit::errors(&[Error::io("installing signal handlers", &error)]),
    };
    let renderer = Renderer::new(RenderSettings { progress: shows_progress(), ..RenderSettings::default() });
    match make_disk(typed, &renderer, &cancel) {
        Ok(words) => output::print(words.as_bytes()),
        Err(error) => exit::errors(&[error.at(typed.path.as_os_str().as_bytes())]),
    }
}

/// Generates a tree; returns the exit code.
pub fn tree(typed: &MakeTreeArguments) -> u8 {
    let began = Instant::now();
    let (files, directories, size_bytes) = amounts(typed);
    let spec = TreeSpec {
        files,
        directories,
        empty_directories: typed.empty_dirs,
        fanout: typed.fanout,
        size: match typed.sigma {
            Some(sigma) => SizeDistribution::LogNormal { median_bytes: size_bytes, sigma },
            None => SizeDistribution::Fixed(size_bytes),
        },
        compressibility: compressibility(typed.ratio),
        nasty_names: typed.nasty,
        links: typed.links,
        hard_links: typed.hard_links,
        extended_attributes: typed.xattrs,
        seed: typed.seed,
        threads: available_threads(),
    };
    let made = match generate::tree(&typed.path, &spec) {
        Ok(made) => made,
        Err(error) => return exit::errors(&[of_measure(error, &typed.path)]),
    };
    let elapsed = began.elapsed();
    let rate = made.files as f64 / elapsed.as_secs_f64().max(1e-9);
    let names = match made.hard_links {
        0 => String::new(),
        count => format!(", {} second names", format_count(count)),
    };
    let words = format!(
        "{}: {} files, {} directories, {} links{names}, {} in {}: {} files/s\n",
        shown(&typed.path),
        format_count(made.files),
        format_count(made.directories),
        format_count(made.links),
        format_bytes(made.bytes),
        format_duration(elapsed),
        format_count(rate as u64)
    );
    output::print(words.as_bytes())
}

/// Returns the number of files and of directories, and the size of a file.
fn amounts(typed: &MakeTreeArguments) -> (u64, u64, u64) {
    // The figures of a file server whose migration was published.
    const FILE_SERVER: (u64, u64, u64) = (19_523_812, 1_953_125, 50 << 10);
    match (typed.files, typed.size) {
        (Some(files), Some(size_bytes)) => (files, typed.dirs, size_bytes),
        _ => {
            let part = |all: u64| ((all as f64 * typed.scale / 100.0).round() as u64).max(1);
            (part(FILE_SERVER.0), part(FILE_SERVER.1), FILE_SERVER.2)
        }
    }
}

/// The file or device that the content is written to.
struct DataOutput {
    file: File,
    size_bytes: u64,
    is_device: bool,
    /// True if this run created the file, which is then removed if it cannot be filled.
    is_new: bool,
}

fn make_disk(typed: &MakeDiskArguments, renderer: &Renderer, cancel: &Arc<AtomicBool>) -> Result<String> {
    let place = open(typed, renderer, cancel)?;
    let spec = DiskSpec {
        size_bytes: place.size_bytes,
        seed: typed.seed,
        compressibility: compressibility(typed.ratio),
        text: typed.text,
        zeros: typed.zeros / 100.0,
        threads: available_threads(),
    };
    let (began, done_bytes) = (Instant::now(), AtomicU64::new(0));
    let (is_empty, is_device) = (!place.is_device, place.is_device);
    let (path, file, stop) = (&*typed.path, &place.file, &**cancel);
    let output = Output { file, path, is_empty, is_device, stop, done_bytes: &done_bytes };
    let zeros = fill(&output, &spec, renderer).inspect_err(|_| {
        if place.is_new {
            let _ = std::fs::remove_file(&typed.path);
        }
    })?;
    if is_device {
        // The old partition table is overwritten. The call fails for a partition and for a disk whose partitions are in use.
        let _ = hakobu_sys::block::reread_partitions(file);
    }
    let elapsed = began.elapsed();
    Ok(format!(
        "{}: {}, {} of it zeros, seed {}, in {}: {}\n",
        shown(&typed.path),
        format_bytes(spec.size_bytes),
        format_bytes(zeros),
        spec.seed,
        format_duration(elapsed),
        format_rate(spec.size_bytes as f64 / elapsed.as_secs_f64().max(1e-9))
    ))
}

/// Writes everything and shows the progress. Returns the number of bytes that are zeros.
fn fill(output: &Output<'_>, spec: &DiskSpec, renderer: &Renderer) -> Result<u64> {
    let made = std::thread::scope(|scope| {
        let (ended, end) = channel::<()>();
        scope.spawn(move || {
            while end.recv_timeout(PROGRESS_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                renderer.event(Event::Progress(Box::new(CounterTotals {
                    entries_scanned: 1,
                    bytes_scanned: spec.size_bytes,
                    target_written_bytes: output.done_bytes.load(Relaxed),
                    scan_done: true,
                    ..CounterTotals::default()
                })));
            }
        });
        let made = generate::disk(output, spec);
        drop(ended);
        made
    });
    renderer.end_progress();
    made.map_err(|error| of_measure(error, output.path))
}

fn open(typed: &MakeDiskArguments, renderer: &Renderer, cancel: &Arc<AtomicBool>) -> Result<DataOutput> {
    let location = Location::local(typed.path.as_os_str().as_bytes());
    let found = inspect::target(location.path())?;
    devices::refuse_stray(&location, &found)?;
    let usage = |words: &str| Err(Error::new(ErrorKind::Usage, MAKING, words));
    let (is_new, size_bytes) = match (found.found, typed.size) {
        (TargetFound::BlockDevice, size_bytes) => {
            let device_bytes = found.device.as_ref().map_or(0, |device| device.size_bytes);
            let size_bytes = size_bytes.unwrap_or(device_bytes);
            if size_bytes > device_bytes {
                let words =
                    format!("it has {device_bytes} bytes, not {size_bytes}; leave --size out for all");
                return usage(&words);
            }
            let mut prompts = Terminal::new(Arc::clone(cancel), false);
            let place = (&location, &found);
            let opened =
                devices::open_to_overwrite(place, Some(size_bytes), &typed.confirm, &mut prompts, renderer)?;
            let file = File::from(opened.0);
            return Ok(DataOutput { file, size_bytes, is_device: true, is_new: false });
        }
        (TargetFound::Absent { parent_exists: false }, _) => {
            let words = "its parent directory does not exist; create it first";
            return Err(Error::new(ErrorKind::NotFound, MAKING, words));
        }
        (TargetFound::Absent { .. }, Some(size_bytes)) => (true, size_bytes),
        (TargetFound::File | TargetFound::Symlink, Some(size_bytes)) if typed.force => (false, size_bytes),
        (TargetFound::File | TargetFound::Symlink, Some(_)) => {
            let words = "the file exists; --force overwrites it";
            return Err(Error::new(ErrorKind::Refused, MAKING, words));
        }
        (TargetFound::Absent { .. } | TargetFound::File | TargetFound::Symlink, None) => {
            return usage("the size is missing: --size 8GiB");
        }
        _ => return usage("neither a file nor a block device"),
    };
    let fail = |error: std::io::Error| Error::io(MAKING, &error);
    let mut options = OpenOptions::new();
    options.write(true);
    let options = if is_new { options.create_new(true) } else { options.create(true).truncate(true) };
    let file = options.open(&typed.path).map_err(fail)?;
    if let Err(error) = file.set_len(size_bytes) {
        if is_new {
            let _ = std::fs::remove_file(&typed.path);
        }
        return Err(fail(error));
    }
    Ok(DataOutput { file, size_bytes, is_device: false, is_new })
}

/// Returns the share of zeros with which data shrinks to the reciprocal of `ratio`.
fn compressibility(ratio: f64) -> f64 {
    1.0 - 1.0 / ratio
}

fn shown(path: &Path) -> String {
    lossy(path.as_os_str().as_bytes())
}

fn of_measure(error: hakobu_measure::MeasureError, path: &Path) -> Error {
    let error = match error {
        hakobu_measure::MeasureError::Io { cause, path, .. } => {
            Error::io(MAKING, &cause).at(path.as_os_str().as_bytes())
        }
        hakobu_measure::MeasureError::Stopped => Error::new(ErrorKind::Cancelled, MAKING, "stopped as asked"),
        hakobu_measure::MeasureError::NotEmpty(_) => {
            Error::new(ErrorKind::Refused, MAKING, "the directory is not empty; choose another one")
        }
        other => Error::new(ErrorKind::Usage, MAKING, other.to_string()),
    };
    error.at(path.as_os_str().as_bytes())
}
