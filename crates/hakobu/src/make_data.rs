//! The verb `make-data`: reproducible data to try disks and copies with.

use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use hakobu_agent::look;
use hakobu_core::counters::Snapshot;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::landing::TargetFound;
use hakobu_core::location::Location;
use hakobu_core::path::lossy;
use hakobu_core::units::{format_bytes, format_count, format_duration, format_rate};
use hakobu_measure::generate::{self, DiskSpec, Output, SizeDistribution, TreeSpec, available_threads};
use hakobu_transfer::devices;

use crate::arguments::make_data::{MakeDiskArguments, MakeTreeArguments};
use crate::prompts::Terminal;
use crate::render::progress_bar::shows_progress;
use crate::render::{RenderSettings, Renderer};
use crate::{exit, output, signals};

const MAKING: &str = "making data in";
/// How often the line of progress changes.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Makes the content of a disk; returns the exit code.
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

/// Makes a tree; returns the exit code.
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

/// How many files and directories, and how large a file is.
fn amounts(typed: &MakeTreeArguments) -> (u64, u64, u64) {
    // A file server of which a migration was reported: its only preset so far.
    const FILE_SERVER: (u64, u64, u64) = (19_523_812, 1_953_125, 50 << 10);
    match (typed.files, typed.size) {
        (Some(files), Some(size_bytes)) => (files, typed.dirs, size_bytes),
        _ => {
            let part = |all: u64| ((all as f64 * typed.scale / 100.0).round() as u64).max(1);
            (part(FILE_SERVER.0), part(FILE_SERVER.1), FILE_SERVER.2)
        }
    }
}

/// Where the content of a disk goes.
struct Place {
    file: File,
    size_bytes: u64,
    is_device: bool,
    /// Whether the file was made here, so that it goes again if it cannot be filled.
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
        // What was there is gone. A partition, or a disk whose partitions are in use, cannot be asked.
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

/// Writes everything, and shows how far it is. Gives how many bytes are zeros.
fn fill(output: &Output<'_>, spec: &DiskSpec, renderer: &Renderer) -> Result<u64> {
    let made = std::thread::scope(|scope| {
        let (ended, end) = channel::<()>();
        scope.spawn(move || {
            while end.recv_timeout(PROGRESS_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                renderer.event(Event::Progress(Box::new(Snapshot {
                    entries_scanned: 1,
                    bytes_scanned: spec.size_bytes,
                    target_written_bytes: output.done_bytes.load(Relaxed),
                    scan_done: true,
                    ..Snapshot::default()
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

fn open(typed: &MakeDiskArguments, renderer: &Renderer, cancel: &Arc<AtomicBool>) -> Result<Place> {
    let location = Location::local(typed.path.as_os_str().as_bytes());
    let found = look::target(location.path())?;
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
            return Ok(Place { file, size_bytes, is_device: true, is_new: false });
        }
        (TargetFound::Absent { parent_exists: false }, _) => {
            let words = "the directory that would hold it is not there; create it first";
            return Err(Error::new(ErrorKind::NotFound, MAKING, words));
        }
        (TargetFound::Absent { .. }, Some(size_bytes)) => (true, size_bytes),
        (TargetFound::File | TargetFound::Symlink, Some(size_bytes)) if typed.force => (false, size_bytes),
        (TargetFound::File | TargetFound::Symlink, Some(_)) => {
            let words = "it is there; --force overwrites it";
            return Err(Error::new(ErrorKind::Refused, MAKING, words));
        }
        (TargetFound::Absent { .. } | TargetFound::File | TargetFound::Symlink, None) => {
            return usage("say how much: --size 8GiB");
        }
        _ => return usage("it is no file and no block device"),
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
    Ok(Place { file, size_bytes, is_device: false, is_new })
}

/// The share of zeros that makes data shrink to the reciprocal of `ratio`.
fn compressibility(ratio: f64) -> f64 {
    1.0 - 1.0 / ratio
}

fn shown(path: &Path) -> String {
    lossy(path.as_os_str().as_bytes())
}

fn of_measure(error: hakobu_measure::Error, path: &Path) -> Error {
    let error = match error {
        hakobu_measure::Error::Io { cause, path, .. } => {
            Error::io(MAKING, &cause).at(path.as_os_str().as_bytes())
        }
        hakobu_measure::Error::Stopped => Error::new(ErrorKind::Cancelled, MAKING, "stopped as asked"),
        hakobu_measure::Error::NotEmpty(_) => {
            Error::new(ErrorKind::Refused, MAKING, "it is there and not empty; name another place")
        }
        other => Error::new(ErrorKind::Usage, MAKING, other.to_string()),
    };
    error.at(path.as_os_str().as_bytes())
}
